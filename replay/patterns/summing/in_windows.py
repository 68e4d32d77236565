"""Sums over every match in each of many windows, in one go over the rows of those that are over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import Arrays
from replay.patterns.search import Rows
from replay.patterns.summing import entry_kernels, event_kernels, kernels
from replay.patterns.summing.entries import EntryTrendOperator
from replay.patterns.summing.event_starts import EventStartOperator
from replay.patterns.summing.operator import Totals
from replay.patterns.summing.within import WithinTrendOperator, segments_of

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_FOUND_MIN = 64
"""Sums of windows that there is room for at first, at least."""

Found = tuple[Words, IntArray, IntArray]
"""What is found of windows: the sums, and of each its partition and window."""


class WindowOperator(WithinTrendOperator):
    """Sums over the matches of each window of one query, without WITHIN.

    The state is the rows of the windows to come.
    """

    def __init__(self, program: MatchProgram) -> None:
        self._found = np.zeros((0, 0), np.uint64)
        self._of_found = np.zeros((2, _FOUND_MIN), np.int64)
        super().__init__(program)
        self._found = self._new_cells(_FOUND_MIN)

    def _take_cells(self, arrays: Arrays) -> None:
        super()._take_cells(arrays)
        self._found = self._new_cells(self._of_found.shape[1])

    @property
    def _reads_times(self) -> bool:
        return True

    def _take_waiting(self) -> None:
        """Have rows wait on: they are of windows to come."""

    def _make_room(self, n_partitions: int) -> None:
        """Have no totals of partitions: each window has its own."""

    def sum(
        self, prepared: Prepared, times: IntArray, windows: IntArray, oldest: int
    ) -> tuple[IntArray, Totals]:
        """Take the next rows; return the sums of windows that are over, and the number of each.

        ``windows`` has start and end of each, of which neither descends. No window to come has
        rows from before ``oldest``.
        """
        rows = self._admit(prepared, self._n_rows)
        self._n_rows += len(rows)
        self._take(replace(rows, times=times))
        kept = Rows.concat(self._waiting) if self._waiting else None
        numbers, totals = np.empty(0, np.int64), Totals.joined([])
        if kept is not None and len(windows):
            numbers, totals = self._sum_windows(kept, windows)
            kept = kept.take(slice(int(np.searchsorted(kept.times, oldest)), None))
        self._waiting = self._forget_unused([] if kept is None or not len(kept) else [kept])
        return numbers, totals

    def _sum_windows(self, rows: Rows, windows: IntArray) -> tuple[IntArray, Totals]:
        assert rows.group is not None
        rows, segments = segments_of(rows, rows.group, -1)
        starts, ends = np.ascontiguousarray(windows[:, 0]), np.ascontiguousarray(windows[:, 1])
        n = self._see_windows(rows, segments, starts, ends)
        group, window = self._of_found[:, :n]
        order = np.argsort(window, kind="stable")
        keys = list(self._partitions.to_snapshot()[0]) if self._program.partition_by else [()]
        found = [keys[place] for place in group[order].tolist()]
        return window[order], self._to_totals(found, self._found[order])

    @abstractmethod
    def _see_windows(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        """Find the sums of windows; return how many there are."""

    def _step(self, see: Callable[[Found], int]) -> int:
        """Let a kernel go on, with as much room as it asks for; return another status."""
        while True:
            group, window = self._of_found
            status = see((self._found, group, window))
            if status != kernels.STATUS_FOUND:
                return status
            self._of_found = np.concatenate([self._of_found, self._of_found], axis=1)
            self._found = np.concatenate([self._found, self._new_cells(len(self._found))])


class EntryWindowOperator(WindowOperator, EntryTrendOperator):
    """Of the type grain: a window is the product of its rows, see `EntryTrendOperator`.

    Whatever windows there are, a row comes and goes once.
    """

    _numbered = (*EntryTrendOperator._numbered, "_found")

    def _see_windows(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        n_found = 0

        def step(at: IntArray, *others: Any) -> int:
            nonlocal n_found
            n_states, begins, has_slots, queue, scratch, *of_rows = others

            def see(found: Found) -> int:
                status: int = entry_kernels.sum_entry_windows(
                    at, segments, starts, ends, n_states, begins, has_slots, queue, scratch, found,
                    *of_rows,
                )  # fmt: skip
                return status

            status = self._step(see)
            n_found = int(at[entry_kernels.N_FOUND])
            return status

        self._multiply(step, self._seen(rows, rows.times))
        return n_found


class EventWindowOperator(WindowOperator, EventStartOperator):
    """Of the event grain: a window after the other."""

    _numbered = (*EventStartOperator._numbered, "_found")

    def _see_windows(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        n_found = 0

        def step(at: IntArray, *others: Any) -> int:
            nonlocal n_found

            def see(found: Found) -> int:
                status: int = event_kernels.sum_row_windows(
                    at, segments, starts, ends, found, *others
                )
                return status

            status = self._step(see)
            n_found = int(at[kernels.N_FOUND])
            return status

        times = np.sort(rows.times)
        n_rows = np.searchsorted(times, ends) - np.searchsorted(times, starts)
        self._go_through(rows, segments, float(n_rows.mean()), step)
        return n_found
