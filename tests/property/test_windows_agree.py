"""Windowed aggregation by the operator is what a naive one gives, however the stream is cut."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import given

from replay.language.bound import WindowAggregation
from tests.oracles.windows import naive_windows
from tests.property.law import SLOW
from tests.window_cases import (
    assert_agree,
    events,
    on_calendar,
    run,
    seeds,
    some_aggregation,
    some_calendar_windows,
    some_table,
)


def some_cases(random: Random, n: int) -> tuple[pa.Table, list[WindowAggregation]]:
    """Return a stream and windows over it; of a calendar now and then."""
    table = some_table(random)
    if random.random() < 0.7:
        return table, [some_aggregation(random) for _ in range(n)]
    table, _, step = on_calendar(random, table)
    return table, [some_aggregation(random, some_calendar_windows(random, step)) for _ in range(n)]


@given(seeds)
@SLOW
def test_windows_are_those_of_the_oracle(random: Random) -> None:
    table, cases = some_cases(random, 4)
    rows = events(table)
    for what in cases:
        cuts = sorted(random.randint(0, table.num_rows) for _ in range(random.randint(0, 5)))

        got = run(what, table, cuts=tuple(cuts), eager=random.random() < 0.5)

        assert_agree(got, naive_windows(what, rows))


@given(seeds)
@SLOW
def test_neither_a_break_nor_a_promise_that_nothing_comes_before_a_time_changes_a_row(
    random: Random,
) -> None:
    table, cases = some_cases(random, 4)
    for what, promises in zip(cases, (False, False, True, True), strict=True):
        cuts = tuple(sorted(random.randint(0, table.num_rows) for _ in range(random.randint(0, 5))))
        eager = promises or random.random() < 0.5

        went_on = run(what, table, cuts=cuts, eager=eager, moves=True, promises=promises)

        # As text, every bit of a number counts, and NaN is equal to itself.
        assert repr(went_on) == repr(run(what, table, cuts=cuts, eager=eager))
