"""The outer query in pieces: what is kept, what is given when, and when there is enough."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from replay.language import bind_query, parse_query
from replay.language.bound import BoundSelect, Outer
from replay.operators import outer_pieces
from replay.operators.outer_pieces import OuterOperator, run_through

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


def outer(clauses: str) -> Outer:
    sql = clauses.replace("…", "FROM s")
    bound = bind_query(parse_query(sql), lambda _: (SCHEMA, "t"), text=sql)
    assert isinstance(bound, BoundSelect)
    return bound.outer


def pieces(n: int, each: int) -> list[pa.Table]:
    drawn = random.Random(n)
    values = (None, math.nan, -math.inf, -0.0, 0.0, 1.5, 2.5, 3.5)
    rows = [
        {"t": t, "x": drawn.choice(values), "s": drawn.choice((None, "", "a", "b"))}
        for t in range(n)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return [table.slice(at, each) for at in range(0, n, each)]


def test_a_limited_order_keeps_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_pieces, "KEPT_ROWS_MIN", 8)
    operator = OuterOperator(outer("SELECT t … ORDER BY x DESC LIMIT 2"))
    for part in pieces(1000, 10):
        assert list(operator.push(part)) == []
        assert operator._rows._n_rows < 20  # type: ignore[union-attr]
    assert operator.needs_end
    assert [table.num_rows for table in operator.finish()] == [2]


def test_rows_go_out_as_they_come_until_there_are_enough() -> None:
    def endless() -> Iterator[pa.Table]:
        yield from pieces(40, 10)
        raise AssertionError("asked for more than it needs")

    query = outer("SELECT t + 1 AS u … WHERE t >= 5 LIMIT 20 OFFSET 2")
    tables = list(run_through(OuterOperator(query), endless()))

    assert [table.num_rows for table in tables] == [3, 10, 7]
    assert pa.concat_tables(tables).column("u").to_pylist() == list(range(8, 28))


def test_distinct_gives_each_row_when_it_is_new() -> None:
    operator = OuterOperator(outer("SELECT DISTINCT s … LIMIT 3"))
    given = []
    for part in pieces(100, 10):
        given += [row for table in operator.push(part) for row in table.to_pylist()]
        if operator.is_done:
            break
    assert len(given) == 3
    assert not operator.needs_end


@pytest.mark.parametrize("clauses", ["LIMIT 0", "ORDER BY x LIMIT 0"])
@pytest.mark.parametrize("head", ["SELECT t", "SELECT DISTINCT t"])
def test_no_row_wanted_is_an_answer_with_its_columns(head: str, clauses: str) -> None:
    head = head if "x" not in clauses or "DISTINCT" not in head else "SELECT DISTINCT x AS t"
    query = outer(f"{head} … {clauses}")
    answer = pa.concat_tables(run_through(OuterOperator(query), pieces(30, 10)))
    assert (answer.num_rows, answer.column_names) == (0, ["t"])
