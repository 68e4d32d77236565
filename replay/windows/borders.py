"""Where windows begin and end: arithmetic on times and row numbers, without events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from chronicle.time import TIME_LIMIT
from chronicle.tree.summary import Ints
from replay.errors import QueryError
from replay.language.bound import Calendar, CumulateWindows, RowWindows, TimeWindows
from replay.windows.calendar_units import DAY_US, unit_starts, units_at

Time = TypeVar("Time", int, Ints)
"""A time, or many."""

SIZE_MAX = TIME_LIMIT >> 1
"""Longest window: starts and ends of windows around any time then fit int64."""

_TIMES_MIN = 4
"""Times for each start of a window, at least, for starts to be looked up in them."""

_STARTS_MIN = 16
"""So many starts are looked up in no less time."""

_UNIT_MAX = {False: DAY_US, True: 31 * DAY_US}
"""By whether units of a calendar are months: how long they are at most."""


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """The time windows of one stream, numbered in the order of their start, then their end.

    Window ``j * n_ends + i`` with i in [0, n_ends) is ``[start, start + least + i * step)`` where
    start is ``origin + j * slide``. HOP has one end for each start; CUMULATE has one after each
    step. Numbers may be negative.

    With a calendar all of these count its units, and windows begin and end where units begin. A
    unit begins after a time if its number is greater than that of the unit the time is in, so the
    arithmetic is the same.
    """

    origin: int
    """The first start that is not before time 0."""
    slide: int
    n_ends: int
    least: int
    """Length of the shortest window."""
    step: int
    calendar: Calendar | None = None

    @property
    def size(self) -> int:
        """Length of the longest window."""
        return self.least + (self.n_ends - 1) * self.step

    @property
    def pane(self) -> tuple[int, int]:
        """Where windows begin or end: at ``origin + k * width`` and ``rest`` after each of them."""
        width = self.slide if self.n_ends == 1 else self.step
        return width, self.size % width

    def overlapping(self, first: int, last: int) -> tuple[int, int]:
        """Return the numbers of the windows that overlap [first, last], half-open."""
        return self.ending_after(first), self.starting_after(last)

    def ending_after(self, time: Time) -> Time:
        """Return the number of the first window that ends after a time, or after each of many.

        Those before it are closed once that time is reached.
        """
        at = self.units(time)
        if self.n_ends == 1:
            return (at - self.origin - self.size) // self.slide + 1
        cycle = (at - self.origin) // self.slide
        inside = at - self.origin - cycle * self.slide
        return cycle * self.n_ends + inside // self.step

    def starting_after(self, time: Time) -> Time:
        """Return the number of the first window that starts after a time, or after each of many."""
        return ((self.units(time) - self.origin) // self.slide + 1) * self.n_ends

    def between_starts(self, times: Ints) -> tuple[Ints, Ints]:
        """Return where ascending times, at least one, go past starts of windows.

        Of each run of times between the same two starts: what `starting_after` is of all of them,
        and the place of the first.
        """
        first, last = (self.starting_after(int(time)) for time in (times[0], times[-1]))
        if ((last - first) // self.n_ends + _STARTS_MIN) * _TIMES_MIN > len(times):
            behind = self.starting_after(times)
            places = np.flatnonzero(np.diff(behind, prepend=behind[0] - 1))
            return behind[places], places
        # Starts are looked up in times: to divide each of these takes ten times as long.
        behind = np.arange(first, last + 1, self.n_ends, dtype=np.int64)
        starts, _ = self.bounds_of(behind[:-1])
        places = np.concatenate(([0], np.searchsorted(times, starts)))
        there = np.diff(places, append=len(times)) > 0
        return behind[there], places[there]

    def units(self, time: Time) -> Time:
        """Return the unit that a time is in, or each of many; without a calendar the time."""
        if self.calendar is None:
            return time
        if isinstance(time, int):
            return int(units_at(self.calendar, np.array([time]))[0])
        return units_at(self.calendar, time)

    def bounds(self, begin: int, end: int) -> tuple[Ints, Ints]:
        """Return starts and ends of the windows ``begin`` to ``end``, half-open; both ascend."""
        return self.bounds_of(np.arange(begin, end, dtype=np.int64))

    def bounds_of(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends of windows."""
        starts, ends = self._in_units(numbers)
        if self.calendar is None:
            return starts, ends
        return unit_starts(self.calendar, starts), unit_starts(self.calendar, ends)

    def bounds_at(self, number: int) -> tuple[int, int]:
        """Return start and end of one window."""
        if self.calendar is None:
            return self._in_units(number)
        starts, ends = self.bounds_of(np.array([number]))
        return int(starts[0]), int(ends[0])

    def _in_units(self, number: Time) -> tuple[Time, Time]:
        if self.n_ends == 1:  # of many numbers, divisions would take most of the time
            start = self.origin + number * self.slide
            return start, start + self.least
        start = self.origin + number // self.n_ends * self.slide
        return start, start + self.least + number % self.n_ends * self.step


def grid_of(windows: TimeWindows | CumulateWindows, first: int) -> TimeGrid:
    """Return the grid of a stream's windows.

    ``first`` is the time of the stream's first event. Raises a QueryError for a window longer than
    half of the time there is.
    """
    unit = 1 if windows.calendar is None else _UNIT_MAX[windows.calendar.of_months]
    if windows.size > SIZE_MAX // unit:
        of_what = "units of time" if unit == 1 else "months or days"
        raise QueryError(
            f"a window of {windows.size} {of_what} is longer than half of all time there is; "
            f"make it at most {SIZE_MAX // unit}"
        )
    slide = windows.slide if isinstance(windows, TimeWindows) else windows.size
    origin = first if windows.origin is None else windows.origin
    # The start next to time 0: from there no time is so far that a difference leaves int64.
    origin %= slide
    if isinstance(windows, TimeWindows):
        return TimeGrid(origin, slide, 1, windows.size, 0, windows.calendar)
    step = windows.step
    return TimeGrid(origin, slide, windows.size // step, step, step, windows.calendar)


def n_row_windows(windows: RowWindows, n_rows: int) -> int:
    """Return how many full windows there are in so many rows."""
    return max(0, (n_rows - windows.size) // windows.slide + 1)


def row_bounds(windows: RowWindows, begin: int, end: int) -> tuple[Ints, Ints]:
    """Return the first row of each window ``begin`` to ``end`` and the one after its last."""
    firsts = np.arange(begin, end, dtype=np.int64) * windows.slide
    return firsts, firsts + windows.size
