"""Where windows begin and end: arithmetic on times and row numbers, without events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from chronicle.time import TIME_LIMIT
from chronicle.tree.summary import Ints
from replay.errors import QueryError
from replay.language.bound import CumulateWindows, RowWindows, TimeWindows

Time = TypeVar("Time", int, Ints)
"""A time, or many."""

SIZE_MAX = TIME_LIMIT >> 1
"""Longest window: starts and ends of windows around any time then fit int64."""


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """The time windows of one stream, numbered in the order of their start, then their end.

    Window ``j * n_ends + i`` with i in [0, n_ends) is ``[start, start + least + i * step)`` where
    start is ``origin + j * slide``. HOP has one end for each start; CUMULATE has one after each
    step. Numbers may be negative.
    """

    origin: int
    """The first start that is not before time 0."""
    slide: int
    n_ends: int
    least: int
    """Length of the shortest window."""
    step: int

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
        if self.n_ends == 1:
            return (time - self.origin - self.size) // self.slide + 1
        cycle = (time - self.origin) // self.slide
        inside = time - self.origin - cycle * self.slide
        return cycle * self.n_ends + inside // self.step

    def starting_after(self, time: Time) -> Time:
        """Return the number of the first window that starts after a time, or after each of many."""
        return ((time - self.origin) // self.slide + 1) * self.n_ends

    def bounds(self, begin: int, end: int) -> tuple[Ints, Ints]:
        """Return starts and ends of the windows ``begin`` to ``end``, half-open; both ascend."""
        return self.bounds_of(np.arange(begin, end, dtype=np.int64))

    def bounds_of(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends of windows."""
        if self.n_ends == 1:
            starts = self.origin + numbers * self.slide
            return starts, starts + self.size
        starts = self.origin + numbers // self.n_ends * self.slide
        return starts, starts + self.least + numbers % self.n_ends * self.step


def grid_of(windows: TimeWindows | CumulateWindows, first: int) -> TimeGrid:
    """Return the grid of a stream's windows.

    ``first`` is the time of the stream's first event. Raises a QueryError for a window longer than
    half of the time there is.
    """
    if windows.size > SIZE_MAX:
        raise QueryError(
            f"a window of {windows.size} units of time is longer than half of all time there is; "
            f"make it at most {SIZE_MAX}"
        )
    slide = windows.slide if isinstance(windows, TimeWindows) else windows.size
    origin = first if windows.origin is None else windows.origin
    # The start next to time 0: from there no time is so far that a difference leaves int64.
    origin %= slide
    if isinstance(windows, TimeWindows):
        return TimeGrid(origin, slide, 1, windows.size, 0)
    return TimeGrid(origin, slide, windows.size // windows.step, windows.step, windows.step)


def n_row_windows(windows: RowWindows, n_rows: int) -> int:
    """Return how many full windows there are in so many rows."""
    return max(0, (n_rows - windows.size) // windows.slide + 1)


def row_bounds(windows: RowWindows, begin: int, end: int) -> tuple[Ints, Ints]:
    """Return the first row of each window ``begin`` to ``end`` and the one after its last."""
    firsts = np.arange(begin, end, dtype=np.int64) * windows.slide
    return firsts, firsts + windows.size
