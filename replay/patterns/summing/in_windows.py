"""Sums over every match in each of many windows, in one go over the rows of those that are over."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.operators.distinct import distinct
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import Arrays
from replay.patterns.search import Rows
from replay.patterns.summing import entry_kernels, event_kernels, kernels, piece_kernels
from replay.patterns.summing.entries import EntryTrendOperator
from replay.patterns.summing.event_starts import EventStartOperator
from replay.patterns.summing.operator import Totals
from replay.patterns.summing.within import See, WithinTrendOperator, segments_of
from replay.patterns.trends.machine import Sums

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_FOUND_MIN = 64
"""Sums of windows that there is room for at first, at least."""

_OF_WINDOWS = ("_found", "_plain", "_pieces")
"""The attributes that hold cells of windows, or of their parts."""

_SUM_MAX = 1 << 62
"""What the highest word of a sum over parts of a window must be below."""


class WindowOperator(WithinTrendOperator):
    """Sums over the matches of each window of one query, or of several.

    The state is the rows of the windows to come. A window that is longer than WITHIN is a plain
    one no longer than it, in which every match is within the time, and the other matches within
    the time, of which there is a sum for each piece of the stream.
    """

    def __init__(self, program: MatchProgram, sums: Sequence[Sums] = ()) -> None:
        """Sum over what a program says, which may be that of several queries of some ``sums``."""
        self._found = self._plain = self._pieces = np.zeros((0, 0), np.uint64)
        self._of_found = np.zeros((3, _FOUND_MIN), np.int64)
        super().__init__(program)
        self._of_queries = tuple(sums) or (self._sums,)
        self._have_found()

    def _have_found(self) -> None:
        self._found = self._new_cells(self._of_found.shape[1])
        self._plain = self._pieces = self._new_cells(0)

    def _take_cells(self, arrays: Arrays) -> None:
        super()._take_cells(arrays)
        self._have_found()

    @property
    def _reads_times(self) -> bool:
        return True

    def _take_waiting(self) -> None:
        """Have rows wait on: they are of windows to come."""

    def _make_room(self, n_partitions: int) -> None:
        """Have no totals of partitions: each window has its own."""

    def sum(
        self, prepared: Prepared, times: IntArray, windows: IntArray, oldest: int
    ) -> list[tuple[IntArray, Totals]]:
        """Take the next rows; by query, return sums of windows that are over and their numbers.

        ``windows`` has start and end of each, of which neither descends. No window to come has
        rows from before ``oldest``.
        """
        rows = self._admit(prepared, self._n_rows)
        self._n_rows += len(rows)
        self._take(replace(rows, times=times))
        kept = Rows.concat(self._waiting) if self._waiting else None
        found = [(np.empty(0, np.int64), Totals.joined([])) for _ in self._of_queries]
        if kept is not None and len(windows):
            found = self._sum_windows(kept, windows)
            kept = kept.take(slice(int(np.searchsorted(kept.times, oldest)), None))
        self._waiting = self._forget_unused([] if kept is None or not len(kept) else [kept])
        return found

    def _sum_windows(self, rows: Rows, windows: IntArray) -> list[tuple[IntArray, Totals]]:
        assert rows.group is not None
        rows, segments = segments_of(rows, rows.group, -1)
        starts, ends = np.ascontiguousarray(windows[:, 0]), np.ascontiguousarray(windows[:, 1])
        see = self._see_windows if self._within is None else self._see_within
        n = see(rows, segments, starts, ends)
        group, window, query = self._of_found[:, :n]
        order = np.argsort(window, kind="stable")
        keys = list(self._partitions.to_snapshot()[0]) if self._program.partition_by else [()]
        found = []
        for number, sums in enumerate(self._of_queries):
            own = order[query[order] == number] if len(self._of_queries) > 1 else order
            of_own = keys * len(own)
            if len(keys) > 1:
                of_own = [keys[place] for place in group[own].tolist()]
            found.append((window[own], self._to_totals(of_own, self._found[own], sums)))
        return found

    def _see_within(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        """Find the sums of windows, of matches within the time; return how many there are."""
        assert self._within is not None
        span = np.minimum(ends - starts, self._within + 1)
        (plain_starts, plain_ends), (low, high) = self._split(starts, ends, span)
        n = self._see_windows(rows, segments, plain_starts, plain_ends)
        if (low == high).all():
            return n
        self._plain, of_plain = self._found[:n].copy(), self._of_found[:, :n].copy()
        bounds = distinct(low, high)
        n = self._see_pieces(rows, segments, bounds)
        self._pieces, of_pieces = self._found[:n].copy(), self._of_found[:, :n].copy()
        self._have_room_for_sums()
        partitions = distinct(of_plain[0], of_pieces[0])
        parts = np.stack(
            [
                partitions,
                np.searchsorted(of_plain[0], partitions, side="right"),
                np.searchsorted(of_pieces[0], partitions),
                np.searchsorted(of_pieces[0], partitions, side="right"),
            ],
            axis=1,
        )
        at = np.zeros(piece_kernels.AT_SIZE, np.int64)
        at[piece_kernels.AT_WINDOW] = -1
        windows = np.searchsorted(bounds, low), np.searchsorted(bounds, high)
        back, fields = self._new_cells(1), self._fields()

        def see(*found: Any) -> int:
            status: int = piece_kernels.sum_pieces(
                at, parts, *windows, *found, self._plain, of_plain[1],
                (self._pieces, of_pieces[1]), back, tuple(fields),
            )  # fmt: skip
            return status

        self._step(see)
        self._plain = self._pieces = self._new_cells(0)
        return int(at[kernels.N_FOUND])

    def _have_room_for_sums(self) -> None:
        """Have numbers be so long that all parts of windows may be added up."""
        top = int(self._layout.words[0]) - 1
        most = max(int(cells[:, top].max(initial=0)) for cells in (self._plain, self._pieces))
        if (most + 1) * (len(self._pieces) + 1) >= _SUM_MAX:
            self._more_words()

    @abstractmethod
    def _split(
        self, starts: IntArray, ends: IntArray, span: IntArray
    ) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        """Return starts and ends of the plain parts, ``span`` long, and those of the others."""

    @abstractmethod
    def _see_windows(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        """Find the sums of windows, as if without WITHIN; return how many there are."""

    @abstractmethod
    def _see_pieces(self, rows: Rows, segments: IntArray, bounds: IntArray) -> int:
        """Find the sums within the time, by piece between bounds; return how many there are."""

    def _step(self, see: See) -> int:
        """Let a kernel go on, with as much room as it asks for; return another status."""
        while True:
            status = see(self._found, self._of_found)
            if status != kernels.STATUS_FOUND:
                return status
            self._of_found = np.concatenate([self._of_found, self._of_found], axis=1)
            self._found = np.concatenate([self._found, self._new_cells(len(self._found))])


class EntryWindowOperator(WindowOperator, EntryTrendOperator):
    """Of the type grain: a window is the product of its rows, see `EntryTrendOperator`.

    Whatever windows there are, a row comes and goes once. The plain part is the first of a window,
    pieces behind it have the matches that end there.
    """

    _numbered = (*EntryTrendOperator._numbered, *_OF_WINDOWS)
    with_matches = True

    def _split(
        self, starts: IntArray, ends: IntArray, span: IntArray
    ) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        return (starts, starts + span), (starts + span, ends)

    def _see_windows(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        def see_all(at: IntArray, *others: Any) -> int:

            def see(*found: Any) -> int:
                status: int = entry_kernels.sum_entry_windows(
                    at, segments, starts, ends, *found, *others
                )
                return status

            return self._step(see)

        return self._multiply(see_all, self._seen(rows, rows.times))

    def _see_pieces(self, rows: Rows, segments: IntArray, bounds: IntArray) -> int:
        place, first = segments[:, 0], segments[:, 1]
        counted, end = (
            first + np.add.reduceat(rows.times < bound, first, dtype=np.int64)
            for bound in (bounds[0], bounds[-1])
        )
        segments = np.stack([place, first, counted, end], axis=1)[counted < end]

        def see_all(at: IntArray, *others: Any) -> int:
            def see(*found: Any) -> int:
                status: int = entry_kernels.sum_entry_pieces(
                    at, segments, self._within, bounds, *found, *others
                )
                return status

            return self._step(see)

        return self._multiply(see_all, self._seen(rows, rows.times))


class EventWindowOperator(WindowOperator, EventStartOperator):
    """Of the event grain: a window after the other, or a start after the other.

    The plain part is the last of a window, pieces before it have the matches that begin there.
    """

    _numbered = (*EventStartOperator._numbered, *_OF_WINDOWS)

    def _split(
        self, starts: IntArray, ends: IntArray, span: IntArray
    ) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        return (ends - span, ends), (starts, ends - span)

    def _see_windows(self, rows: Rows, segments: IntArray, starts: IntArray, ends: IntArray) -> int:
        def see_all(at: IntArray, *others: Any) -> int:
            def see(*found: Any) -> int:
                status: int = event_kernels.sum_row_windows(
                    at, segments, starts, ends, *found, *others
                )
                return status

            return self._step(see)

        times = np.sort(rows.times)
        n_rows = np.searchsorted(times, ends) - np.searchsorted(times, starts)
        return self._go_through(rows, segments, float(n_rows.mean()), see_all)

    def _see_pieces(self, rows: Rows, segments: IntArray, bounds: IntArray) -> int:
        def see_all(at: IntArray, *others: Any) -> int:
            def see(*found: Any) -> int:
                status: int = event_kernels.sum_start_pieces(
                    at, segments, self._within, self._new_cells(1), bounds, *found, *others
                )
                return status

            return self._step(see)

        return self._go_through(rows, segments, self._rows_within(rows.times), see_all)
