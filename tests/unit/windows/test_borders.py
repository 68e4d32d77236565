"""Where windows begin and end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given

from chronicle.time import TIME_LIMIT
from replay.errors import QueryError
from replay.language.bound import Calendar, CumulateWindows, RowWindows, TimeWindows
from replay.windows.borders import SIZE_MAX, grid_of, n_row_windows, row_bounds
from tests.oracles.windows import time_windows
from tests.window_cases import seeds


def some_time_windows(random: Random) -> TimeWindows | CumulateWindows:
    origin = random.choice((None, random.randint(-200, 200)))
    if random.random() < 0.5:
        size = random.randint(1, 20)
        return TimeWindows(size, random.randint(1, size), origin)
    step = random.randint(1, 6)
    return CumulateWindows(step, step * random.randint(1, 5), origin)


@given(seeds)
def test_windows_that_overlap_a_span_are_those_of_the_definition(random: Random) -> None:
    windows = some_time_windows(random)
    start = random.randint(-60, 60)
    first = start + random.randint(0, 40)
    last = first + random.randint(0, 40)
    grid = grid_of(windows, start)

    starts, ends = grid.bounds(*grid.overlapping(first, last))

    origin = start if windows.origin is None else windows.origin
    expected = sorted(bounds[:2] for bounds in time_windows(windows, origin, first, last))
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected


@given(seeds)
def test_windows_before_the_next_one_are_closed(random: Random) -> None:
    grid = grid_of(some_time_windows(random), random.randint(-60, 60))
    now = random.randint(-60, 90)
    number = grid.ending_after(now)

    _, ends = grid.bounds(number - 9, number + 9)

    assert (ends[:9] <= now).all()
    assert ends[9] > now


@given(seeds)
def test_times_are_cut_at_the_starts_that_are_between_them(random: Random) -> None:
    windows = some_time_windows(random)
    if random.random() < 0.3:
        windows = replace(windows, calendar=Calendar(of_months=False, zone="Europe/Berlin"))
    unit = 1 if windows.calendar is None else 3_600_000_000
    steps = [random.choice((0, 1, 1, 2, 30)) for _ in range(random.randint(1, 200))]
    times = unit * (random.randint(-60, 60) + np.cumsum(steps))
    grid = grid_of(windows, int(times[0]))

    behind, places = grid.between_starts(times)

    of_each = grid.starting_after(times)
    expected = [i for i in range(len(times)) if not i or of_each[i] != of_each[i - 1]]
    assert places.tolist() == expected
    assert behind.tolist() == of_each[expected].tolist()


@given(seeds)
def test_panes_are_cut_at_every_border_and_nowhere_else(random: Random) -> None:
    grid = grid_of(some_time_windows(random), 0)
    width, rest = grid.pane
    starts, ends = grid.bounds(-60, 60)
    low, high = int(starts.max()) - 2 * grid.size, int(starts.max()) - grid.size
    borders = {int(t) for t in (*starts, *ends) if low <= t < high}

    cut = {t for t in range(low, high) if (t - grid.origin) % width in (0, rest)}

    assert cut == borders


def test_an_origin_far_away_moves_no_border() -> None:
    near, far = (grid_of(TimeWindows(10, 10, origin), 1234567) for origin in (7, 7 - 10**18))

    assert near == far


def test_windows_at_the_ends_of_time_do_not_wrap() -> None:
    grid = grid_of(TimeWindows(SIZE_MAX, SIZE_MAX // 3, TIME_LIMIT - 1), -TIME_LIMIT + 1)

    starts, ends = grid.bounds(*grid.overlapping(-TIME_LIMIT + 1, TIME_LIMIT - 1))

    assert (np.diff(starts) > 0).all()
    assert (ends - starts == SIZE_MAX).all()
    assert starts[0] <= -TIME_LIMIT + 1 < ends[0]
    assert starts[-1] <= TIME_LIMIT - 1 < ends[-1]


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows(SIZE_MAX, SIZE_MAX // 2 + 3, 2**63 - 1),
        TimeWindows(SIZE_MAX, SIZE_MAX // 2 + 3, -(2**63)),
        CumulateWindows(SIZE_MAX // 4, SIZE_MAX, -7),
    ],
)
def test_windows_of_many_times_at_once_are_those_of_each(
    windows: TimeWindows | CumulateWindows,
) -> None:
    times = [-TIME_LIMIT + 1, 0, TIME_LIMIT - 1]
    grid = grid_of(windows, times[0])

    assert grid.ending_after(np.array(times)).tolist() == [grid.ending_after(t) for t in times]
    assert grid.starting_after(np.array(times)).tolist() == [grid.starting_after(t) for t in times]


def test_a_window_longer_than_half_of_time_is_refused() -> None:
    with pytest.raises(QueryError, match="longer than half of all time"):
        grid_of(TimeWindows(SIZE_MAX + 1, 1), 0)
    with pytest.raises(QueryError, match="12000000 months or days is longer than half of all"):
        grid_of(TimeWindows(12_000_000, 1, 0, Calendar(of_months=True)), 0)


def test_only_full_windows_of_rows_count() -> None:
    windows = RowWindows(3, 2)

    assert [n_row_windows(windows, n) for n in range(8)] == [0, 0, 0, 1, 1, 2, 2, 3]
    firsts, stops = row_bounds(windows, 1, 3)
    assert (firsts.tolist(), stops.tolist()) == ([2, 4], [5, 7])
