"""Windowed aggregation by the operator is what a naive one gives, however the stream is cut."""

from __future__ import annotations

from random import Random

from hypothesis import given

from tests.oracles.windows import naive_windows
from tests.window_cases import assert_agree, events, run, seeds, some_aggregation, some_table


@given(seeds)
def test_windows_are_those_of_the_oracle(random: Random) -> None:
    table = some_table(random)
    rows = events(table)
    for _ in range(4):
        what = some_aggregation(random)
        cuts = sorted(random.randint(0, table.num_rows) for _ in range(random.randint(0, 5)))

        got = run(what, table, cuts=tuple(cuts), eager=random.random() < 0.5)

        assert_agree(got, naive_windows(what, rows))


@given(seeds)
def test_neither_a_break_nor_a_promise_that_nothing_comes_before_a_time_changes_a_row(
    random: Random,
) -> None:
    table = some_table(random)
    for promises in (False, False, True, True):
        what = some_aggregation(random)
        cuts = tuple(sorted(random.randint(0, table.num_rows) for _ in range(random.randint(0, 5))))
        eager = promises or random.random() < 0.5

        went_on = run(what, table, cuts=cuts, eager=eager, moves=True, promises=promises)

        # As text, every bit of a number counts, and NaN is equal to itself.
        assert repr(went_on) == repr(run(what, table, cuts=cuts, eager=eager))
