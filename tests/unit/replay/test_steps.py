"""Operators one after the other: what one gives the next takes, and nobody works for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from replay.errors import QueryError
from replay.operators.outer_pieces import run_through
from replay.running.steps import Chain, TimeCheck


class Counting:
    """Passes rows on until there are enough, and keeps the last table for the end."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.n_faults = 1
        self.calls: list[str] = []

    @property
    def is_done(self) -> bool:
        return self.left <= 0

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        self.calls.append("push")
        self.left -= table.num_rows
        yield table

    def finish(self) -> Iterator[pa.Table]:
        self.calls.append("finish")
        yield pa.table({"t": [99]})


def two_rows() -> pa.Table:
    return pa.table({"t": [1, 2]})


def test_rows_pass_through_all_and_the_rest_of_each_through_those_after_it() -> None:
    first, last = Counting(100), Counting(100)
    found = pa.concat_tables(run_through(Chain([first, last]), [two_rows(), two_rows()]))

    assert found.column("t").to_pylist() == [1, 2, 1, 2, 99, 99]
    assert first.calls == ["push", "push", "finish"]
    assert last.calls == ["push", "push", "push", "finish"]
    assert Chain([first, last]).n_faults == 2


def test_nothing_more_is_asked_of_operators_before_one_that_has_enough() -> None:
    first, last = Counting(100), Counting(3)
    list(run_through(Chain([first, last]), [two_rows()] * 9))

    assert first.calls == ["push", "push"]
    assert last.calls == ["push", "push", "finish"]


def test_time_that_goes_back_is_noticed_behind_a_state_too() -> None:
    before, after = TimeCheck("t"), TimeCheck("t")
    list(before.push(two_rows()))
    after.take_over(before.state())
    with pytest.raises(QueryError, match="go back in time"):
        list(after.push(two_rows()))
