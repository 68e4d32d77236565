"""Naive windows of row patterns: every window that has an event, and the rows of each."""

from __future__ import annotations

from collections.abc import Sequence

from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    CumulateWindows,
    PatternWindows,
    SlidingWindows,
    TimeWindows,
)
from tests.oracles.view import Row


def windows_of(times: Sequence[int], windows: PatternWindows) -> list[tuple[int, int]]:
    """Return start and end of each window that has an event, by start, then end."""
    return sorted({window for time in times for window in _around(time, times[0], windows)})


def _around(time: int, first: int, windows: PatternWindows) -> list[tuple[int, int]]:
    """Return the windows that a time is in; ``first`` is that of the first event."""
    if isinstance(windows, SlidingWindows):
        return [(time - windows.size + 1, time + 1)]
    assert windows.calendar is None
    origin = first if windows.origin is None else windows.origin
    if isinstance(windows, TimeWindows):
        latest = origin + (time - origin) // windows.slide * windows.slide
        starts = range(latest, time - windows.size, -windows.slide)
        return [(start, start + windows.size) for start in starts]
    assert isinstance(windows, CumulateWindows)
    start = origin + (time - origin) // windows.size * windows.size
    ends = range(start + windows.step, start + windows.size + 1, windows.step)
    return [(start, end) for end in ends if time < end]


def rows_in(rows: Sequence[Row], time: str, start: int, end: int) -> list[Row]:
    """Return the rows of a window, with its columns."""
    return [
        {**row, WINDOW_START: start, WINDOW_END: end} for row in rows if start <= row[time] < end
    ]
