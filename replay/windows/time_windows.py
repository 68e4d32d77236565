"""HOP, TUMBLE and CUMULATE: which windows are complete, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import Ints
from replay.expressions.scalars import Faults
from replay.language.bound import CumulateWindows, TimeWindows
from replay.operators.packing import State
from replay.windows.borders import TimeGrid, grid_of
from replay.windows.entries import WindowEntries
from replay.windows.forming import Placed, check_told, grown, pays, rows_at_once
from replay.windows.kernels import locate, order_rows
from replay.windows.keys import KeyTable
from replay.windows.rows import WindowRows
from replay.windows.store import EntryStore


class TimeForming:
    """Time windows over a stream.

    Without keys a window is part of the answer if it overlaps the stream, with keys if it overlaps
    [first, last] of the key's events that pass WHERE. So a window is told only when it is closed
    and no key that was met can be silent at it: one that is silent for long holds the answer back.

    Parameters
    ----------
    windows
        The windows.
    keys
        The table that the rows' keys are numbered by; empty where there are no keys.
    span
        Times of the stream's first and last event; None: those pushed.
    told_max
        How many windows there may be to tell, online at once; None: any number.
    """

    def __init__(
        self,
        windows: TimeWindows | CumulateWindows,
        keys: KeyTable,
        span: tuple[int, int] | None,
        told_max: int | None = None,
    ) -> None:
        self._windows = windows
        self._told_max = told_max
        self._n_told = 0.0
        self._keys = keys
        self._span = span
        self._is_keyed = keys.width > 0
        self._firsts = self._lasts = np.zeros(0, np.int64)
        self._now = 0
        self._next = 0
        self._grid: TimeGrid | None = None
        if span is not None:
            self._begin(span[0])

    def _begin(self, first: int) -> TimeGrid:
        self._grid = grid_of(self._windows, first)
        self._next = self._grid.ending_after(first)
        self._now = first
        if not self._is_keyed:
            self._firsts, self._lasts = np.full(1, first), np.full(1, first)
            if self._span is not None:
                begin, end = self._grid.overlapping(*self._span)
                check_told(end - begin, self._told_max)
        return self._grid

    @property
    def cut(self) -> tuple[int, int, int]:
        """Where entries are cut, as ``kernels.cut_entries`` has it."""
        assert self._grid is not None, "it is made before the first cut"
        return self._grid.origin, *self._grid.pane

    def place(self, times: Ints, events: pa.Table, faults: Faults) -> Placed:  # noqa: ARG002
        """Take in the times of events, those too that WHERE does not let pass."""
        if self._grid is None:
            self._begin(int(times[0]))
        self._now = int(times[-1])
        if not self._is_keyed:
            self._lasts[0] = self._now
        return Placed(times)

    def advance(self, time: int) -> None:
        """Take it that no event to come is before a time."""
        self._now = max(self._now, time)

    def note(
        self,
        entries: WindowEntries,
        lasts: Ints,
        partitions: Ints | None,  # noqa: ARG002 - there are none
    ) -> None:
        """Take in entries, and of each the position of its last event."""
        if self._is_keyed:
            n_keys = len(self._keys)
            self._firsts = grown(self._firsts, n_keys, np.iinfo(np.int64).max)
            self._lasts = grown(self._lasts, n_keys, np.iinfo(np.int64).min)
            np.minimum.at(self._firsts, entries.key, entries.position)
            np.maximum.at(self._lasts, entries.key, lasts)

    def rows(
        self, store: EntryStore, *, final: bool, eager: bool
    ) -> Iterator[tuple[WindowEntries, WindowRows]]:
        """Yield the rows of windows that are complete, in pieces and in order.

        Parameters
        ----------
        store
            The entries; those no window needs any more are dropped.
        final
            Whether the stream has ended.
        eager
            Whether to tell windows at once, though many entries have to be merged for a few.
        """
        if self._grid is None or not len(self._lasts):
            return
        end = self._complete(self._grid, final=final)
        if end <= self._next:
            return
        if not (final or eager or pays(store, end - self._next)):
            return
        low, high = self._of_keys(self._grid, self._next, end)
        n_told = float(np.maximum(high - low, 0).sum(dtype=np.float64))
        self._n_told = n_told if eager else self._n_told + n_told  # eager: a stream without end
        check_told(self._n_told, self._told_max)
        entries = store.sorted(self._keys.ranks())
        n_windows = max(1, rows_at_once(store.weight) // len(self._lasts))
        while self._next < end:
            begin, self._next = self._next, min(self._next + n_windows, end)
            rows = self._rows(self._grid, entries, begin, self._next)
            if len(rows.lo):
                yield entries, rows
        store.keep(entries.position >= self._grid.bounds(end, end + 1)[0])

    def state(self) -> State:
        """Return what is known of windows."""
        return {
            "firsts": self._firsts,
            "lasts": self._lasts,
            "now": self._now,
            "next": self._next,
            "origin": None if self._grid is None else self._grid.origin,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._firsts, self._lasts = state["firsts"], state["lasts"]
        self._now, self._next = state["now"], state["next"]
        origin = state["origin"]
        self._grid = None if origin is None else grid_of(self._windows, origin)

    def _complete(self, grid: TimeGrid, *, final: bool) -> int:
        """Return the number of the first window that more events could change."""
        if not final:
            # Every key is silent from its last event on; what comes is after now.
            return min(grid.ending_after(self._now), grid.starting_after(int(self._lasts.min())))
        if self._span is not None and not self._is_keyed:
            self._lasts[0] = max(self._now, self._span[1])
        return grid.starting_after(int(self._lasts.max()))

    def _of_keys(self, grid: TimeGrid, begin: int, end: int) -> tuple[Ints, Ints]:
        """Return which of the windows ``begin`` to ``end`` each key has, half-open."""
        low = np.maximum(grid.ending_after(self._firsts), begin)
        return low, np.minimum(grid.starting_after(self._lasts), end)

    def _rows(self, grid: TimeGrid, entries: WindowEntries, begin: int, end: int) -> WindowRows:
        """Return the rows of the windows ``begin`` to ``end``."""
        ranks = self._keys.ranks()
        by_rank = np.argsort(ranks)
        low, high = (side[by_rank] for side in self._of_keys(grid, begin, end))
        counts = np.maximum(high - low, 0)
        row_begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        numbers = np.arange(row_begins[-1]) + np.repeat(low - row_begins[:-1], counts)
        starts, ends = grid.bounds_of(numbers)
        entry_begins = np.searchsorted(ranks[entries.key], np.arange(len(ranks) + 1))
        lo, hi = np.empty_like(numbers), np.empty_like(numbers)
        locate(entries.position, entry_begins, row_begins, starts, ends, lo, hi)
        if not self._is_keyed:
            return WindowRows(lo, hi, starts, ends, [], None)
        columns = self._keys.columns(np.repeat(by_rank, counts))
        order = order_rows(numbers - begin, end - begin)
        return WindowRows(lo, hi, starts, ends, columns, order)
