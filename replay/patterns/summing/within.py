"""Sums over every match within a time, over rows that wait until many have come.

Those that are still within it wait on, and are gone through again with the next.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from replay.operators.packing import State
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import ROWS, Arrays, fields_of, seqs_of_stretches
from replay.patterns.search import Rows
from replay.patterns.strategies.run_kernels import CONTIGUOUS
from replay.patterns.strategies.searches import SEMANTICS
from replay.patterns.summing import kernels
from replay.patterns.summing.operator import Totals, TrendOperator, order_of_parts
from replay.patterns.trends.machine import Sums

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

See = Callable[[Words, IntArray], int]
"""Lets a kernel find sums, and of each its partition and window, or piece of the stream; returns a
status."""

ROWS_AT_ONCE = 1 << 16
"""Rows that are summed together, at least, unless a stretch has fewer."""

_INT64_MIN = int(np.iinfo(np.int64).min)


class WithinTrendOperator(TrendOperator):
    """Sums over every match within a time of one query.

    The state is the rows that may be within it of one to come.
    """

    numbers = (*TrendOperator.numbers, "_newest", "_summed_to")

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        super().__init__(program, n_events)
        self._within = program.within
        self._waiting: list[Rows] = []
        self._n_summed = 0
        """How many of those that wait were summed: they are the front of what comes next."""
        self._newest = _INT64_MIN
        self._summed_to = -1

    @abstractmethod
    def _sum(self, rows: Rows, parts: IntArray) -> None:
        """Add the matches of rows that were not summed yet; those of one of ``parts`` go together.

        Rows are in order of ``seq``.
        """

    def _have_lanes(self, n_more: int) -> None:
        """Have no cells for partitions: what goes on is found from the rows that wait."""

    def _advance(self) -> None:
        super()._advance()
        n_waiting = sum(map(len, self._waiting))
        if n_waiting >= max(ROWS_AT_ONCE, 2 * self._n_summed):
            self._take_waiting()

    def _take_waiting(self) -> None:
        """Sum over the rows that wait, and keep those that are still in the window."""
        if not self._waiting:
            return
        rows = Rows.concat(self._waiting)
        assert rows.group is not None
        assert rows.seq is not None
        self._sum(rows, rows.group)
        self._summed_to = int(rows.seq[-1])
        assert self._within is not None
        oldest = max(self._newest - self._within, _INT64_MIN)
        kept = rows.take(slice(int(np.searchsorted(rows.times, oldest)), None))
        self._waiting, self._n_summed = [kept] if len(kept) else [], len(kept)

    def _take(self, rows: Rows) -> None:
        """Have rows wait, less those that change nothing."""
        if not len(rows):
            return
        self._newest = int(rows.times[-1])
        if self._code.asks_for_start:
            self._are_first(rows)  # before any is left out, of which it may be
        rows = self._changing(rows)
        if len(rows):
            self._waiting.append(rows)

    def _changing(self, rows: Rows) -> Rows:
        if SEMANTICS[self._code.semantics] == CONTIGUOUS:
            return rows
        is_used = rows.words & self._relevant != 0
        return rows if is_used.all() else rows.take(is_used)

    def _forget_runs(self) -> None:
        self._take_waiting()
        self._waiting, self._n_summed = [], 0
        self._newest, self._summed_to = _INT64_MIN, -1

    def _take_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        if self._program.partition_by:
            self._take_one_by_one(prepared, starts, n_rows, first_seqs)
            return
        self._n_rows += prepared.n_rows
        stretch, seq = seqs_of_stretches(prepared, starts, n_rows, first_seqs)
        rows = self._changing(self._to_rows(prepared, seq, np.zeros(len(seq), np.int64)))
        if len(rows):
            assert rows.seq is not None
            self._sum(rows, stretch[np.searchsorted(seq, rows.seq)])

    def totals(self, query: int = 0, sums: Sums | None = None) -> Totals:
        """Return what is known of each partition that has a match; without partitions of all."""
        self._take_waiting()
        return super().totals(query, sums)

    def _seen(self, rows: Rows, times: IntArray) -> kernels.Rows:
        """Return rows as kernels take them, having room for their partitions."""
        assert rows.group is not None
        self._make_room(int(rows.group.max()) + 1)
        times = np.ascontiguousarray(times)
        return kernels.Rows(self._codes_of(rows), rows.group, times, *self._operands_of(rows))

    def state(self) -> State:
        """Return all that is known, for `take_over`; see ``Operator.state``."""
        self._take_waiting()
        packed = super().state()
        packed["arrays"] |= {"cells": self._cells[:0]}
        if self._waiting:
            packed["arrays"] |= fields_of("rows", Rows.concat(self._waiting), ROWS)
        return packed

    def _take_cells(self, arrays: Arrays) -> None:
        """Take over the rows that wait; what is known of them is found again."""
        self._waiting = [self._take_rows("rows", arrays)] if "rows.words" in arrays else []
        self._n_summed = sum(map(len, self._waiting))


def segments_of(rows: Rows, parts: IntArray, summed_to: int) -> tuple[Rows, IntArray]:
    """Return rows, those of each part together, and of each its partition, first row and end.

    Between these the first row whose ``seq`` is beyond what was summed.
    """
    if parts.min() != parts.max():
        order = order_of_parts(parts, int(parts.max()) + 1)
        rows, parts = rows.take(order), parts[order]
    group, seq = rows.group, rows.seq
    assert group is not None
    assert seq is not None
    cuts = np.flatnonzero(np.diff(parts, prepend=-1, append=-1))
    begins, ends = cuts[:-1], cuts[1:]
    n_summed = np.add.reduceat(seq <= summed_to, begins, dtype=np.int64)
    return rows, np.stack([group[begins], begins, begins + n_summed, ends], axis=1)
