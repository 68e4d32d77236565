"""Along what windows slide, and where on it they and the blocks begin and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chronicle import Snapshot
from chronicle.tree.summary import Ints
from replay.language.bound import (
    CumulateWindows,
    RowWindows,
    TimeWindows,
    WholeRange,
    Windows,
)
from replay.operators.distinct import distinct
from replay.windows.borders import (
    TimeGrid,
    grid_of,
    n_row_windows,
    row_bounds,
)


@dataclass(frozen=True, slots=True)
class Axis:
    """The blocks of a stream along time, or along the numbers of rows."""

    low: Ints
    """Position of each block's first event, shape (n_blocks,), ascending."""
    high: Ints
    """Position of each block's last event."""
    in_rows: bool
    """Whether positions are numbers of rows, not times."""

    def place(self, borders: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the first block with an event at or after each border, and whether it is cut.

        A block is cut by a border if it has events before it too.
        """
        block = np.searchsorted(self.high, borders, "left")
        low = np.append(self.low, 0)[block]
        return block, (block < len(self.low)) & (low < borders)


def axis_of(snapshot: Snapshot, windows: Windows) -> Axis:
    """Return what the windows of an aggregation slide along."""
    leaves = snapshot.leaves
    if isinstance(windows, RowWindows):
        return Axis(leaves.base[:-1], leaves.base[1:] - 1, in_rows=True)
    return Axis(leaves.t_min, leaves.t_max, in_rows=False)


Bounds = Callable[[int, int], tuple[Ints, Ints]]
"""Gives starts and ends of the windows from one number up to another, both ascending."""


@dataclass(frozen=True, slots=True)
class WindowSeries:
    """The windows of an answer, by numbers."""

    first: int
    """Number of the first."""
    stop: int
    """One more than that of the last."""
    bounds: Bounds

    @property
    def n_windows(self) -> int:
        """How many there are; there may be more than ``len`` can tell."""
        return self.stop - self.first

    def borders(self, low: int | None, high: int) -> Ints:
        """Return where windows begin or end in (low, high]: ascending, each once; None: any low."""
        found = []
        for side in (0, 1):
            begin = self.first if low is None else self._first_beyond(low, side)
            found.append(self.bounds(begin, self._first_beyond(high, side))[side])
        return distinct(*found)

    def n_borders(self, low: int, high: int) -> int:
        """Return how many windows begin and how many end in (low, high], added up."""
        return sum(
            max(0, self._first_beyond(high, side) - self._first_beyond(low, side))
            for side in (0, 1)
        )

    def within(self, span: tuple[int, int]) -> WindowSeries:
        """Return the windows that overlap [first, last]."""
        first, stop = self.overlapping(span)
        return WindowSeries(first, max(first, stop), self.bounds)

    def overlapping(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Return the numbers of the windows that overlap [first, last], half-open."""
        if span is None:
            return self.first, self.first
        return self._first_beyond(span[0], 1), self._first_beyond(span[1], 0)

    def _first_beyond(self, position: int, side: int) -> int:
        """Return the number of the first window that begins (0) or ends (1) after a position."""
        low, high = self.first, self.stop
        while low < high:
            middle = (low + high) // 2
            if int(self.bounds(middle, middle + 1)[side][0]) > position:
                high = middle
            else:
                low = middle + 1
        return low


def series_of(snapshot: Snapshot, windows: Windows) -> WindowSeries:
    """Return the windows of a stream that has events; one for `WholeRange`, always."""
    first, last = snapshot.t_min, snapshot.t_max
    if isinstance(windows, RowWindows):
        of_rows = windows
        n_windows = n_row_windows(of_rows, snapshot.n_events)
        return WindowSeries(0, n_windows, lambda begin, end: row_bounds(of_rows, begin, end))
    if isinstance(windows, TimeWindows | CumulateWindows):
        if first is None or last is None:
            return WindowSeries(0, 0, TimeGrid(0, 1, 1, 1, 0).bounds)
        grid = grid_of(windows, first)
        return WindowSeries(*grid.overlapping(first, last), grid.bounds)
    assert isinstance(windows, WholeRange), "sessions are replayed"
    begins = np.array([0 if first is None else first])
    ends = np.array([0 if last is None else last + 1])
    return WindowSeries(0, 1, lambda begin, end: (begins[begin:end], ends[begin:end]))
