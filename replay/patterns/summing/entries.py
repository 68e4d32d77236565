"""Sums over every match within a window, at the same cost for windows of any length.

Runs are told apart by the state in which they came into a row, not by where they began: so what
leads through a window is one matrix, the product of its rows', held as a queue of two stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.limits import check_limits
from replay.operators.packing import State
from replay.patterns.partitions import evaluate_grouped
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import ROWS, Arrays, fields_of, seqs_of_stretches
from replay.patterns.search import Rows
from replay.patterns.strategies.run_kernels import CONTIGUOUS
from replay.patterns.strategies.searches import SEMANTICS
from replay.patterns.summing import entry_kernels, kernels
from replay.patterns.summing.operator import Totals, TrendOperator
from replay.patterns.trends.machine import Op, Steps, Sums, joinable, steps_of

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

ROWS_AT_ONCE = 1 << 16
"""Rows that are summed together, at least, unless a stretch has fewer."""

_FRONT_ROWS = 1024
"""Rows of a queue's front that there is room for at first."""

_INT64_MIN = int(np.iinfo(np.int64).min)


class EntryTrendOperator(TrendOperator):
    """Sums over every match of one query with WITHIN; the type grain, of rules that are joined.

    Rows wait until as many have come as are in the window, which are gone through again then.
    """

    kind = "sums over matches by entry"
    numbers = (*TrendOperator.numbers, "_newest", "_summed_to")
    _numbered: tuple[str, ...] = ("_totals", "_cells", "_suffix", "_front")

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        self._suffix, self._front = np.zeros((0, 0), np.uint64), np.zeros((0, 0), np.uint64)
        super().__init__(program, n_events)
        self._within = program.within
        self._waiting: list[Rows] = []
        self._n_summed = 0
        """How many of those that wait were summed: they are the front of what comes next."""
        self._newest = _INT64_MIN
        self._summed_to = -1
        self._begins: Bools = np.empty(0, np.bool_)
        self._has_slots: Bools = np.empty(0, np.bool_)
        self._have_matrices()

    def _have_matrices(self) -> None:
        n_states = self._code.n_states
        self._cells = self._new_cells(n_states**2)
        self._suffix = self._new_cells(n_states**2)
        self._front = self._new_cells(n_states * _FRONT_ROWS)

    def _held(self, sums: Sums) -> Sums:
        return joinable(sums)

    # -----------------------------------------------------------------------------------------
    # Rows

    def _advance(self) -> None:
        for rows in self._inbox:
            self._keep(rows)
        self._inbox = []
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

    def _keep(self, rows: Rows) -> None:
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

    def finish(self) -> None:
        """End the stretch: no run goes on in another."""
        if self._deferred:
            evaluated = evaluate_grouped(self._program, self._deferred, self._partitions)
            rows = self._to_rows(*evaluated)
            assert rows.seq is not None
            self._keep(rows.take(np.argsort(rows.seq)))
            self._deferred = []
        self._take_waiting()
        self._waiting, self._n_summed = [], 0
        self._newest, self._summed_to = _INT64_MIN, -1
        self._next_seq = None

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

    # -----------------------------------------------------------------------------------------
    # Sums

    def totals(self, query: int = 0, sums: Sums | None = None) -> Totals:
        """Return what is known of each partition that has a match; without partitions of all."""
        self._take_waiting()
        return super().totals(query, sums)

    def _sum(self, rows: Rows, parts: IntArray) -> None:
        """Add the matches of rows that were not summed yet; those of one of ``parts`` go together.

        Rows are in order of ``seq``.
        """
        rows, segments = segments_of(rows, parts, self._summed_to)
        segments = segments[segments[:, 2] < segments[:, 3]]
        if not len(segments):
            return
        seen = self._seen(rows, rows.times)

        def step(at: IntArray, *others: Any) -> int:
            n_states, begins, has_slots, queue, scratch, *of_rows = others
            status: int = entry_kernels.sum_entries(
                at, segments, self._within, n_states, begins, has_slots, queue, scratch,
                self._totals, *of_rows,
            )  # fmt: skip
            return status

        self._multiply(step, seen)

    def _seen(self, rows: Rows, times: IntArray) -> kernels.Rows:
        """Return rows as kernels take them, having room for their partitions."""
        assert rows.group is not None
        self._make_room(int(rows.group.max()) + 1)
        times = np.ascontiguousarray(times)
        return kernels.Rows(self._codes_of(rows), rows.group, times, *self._operands_of(rows))

    def _multiply(self, step: Callable[..., int], rows: kernels.Rows) -> None:
        """Take a kernel to its end, giving it what it lacks."""
        n_states = self._code.n_states
        missing = (n_states + self._n_slots) * n_states - len(self._suffix)
        if missing > 0:
            self._suffix = np.concatenate([self._suffix, self._new_cells(missing)])
        at = np.zeros(entry_kernels.AT_SIZE, np.int64)
        at[entry_kernels.AT_ROW] = -1
        while True:
            check_limits()
            n_front = len(self._front) // n_states
            queue = self._cells, self._suffix, self._front, np.zeros(n_front, np.int64)
            status = step(
                at, n_states, self._begins, self._has_slots, queue,
                self._new_cells(self._n_slots + 2), tuple(self._fields()), tuple(rows),
                self._program_of_codes,
            )  # fmt: skip
            if status == entry_kernels.STATUS_DONE:
                return
            if status == entry_kernels.STATUS_LONG:  # the front is empty when it is asked for
                self._front = self._new_cells(2 * len(self._front))
            else:
                self._more_words()

    def _steps_of(self, word: int, begin: int) -> list[Steps]:
        return [steps_of(self._code, word, None), steps_of(self._code, word, begin)]

    def _to_program(self) -> kernels.Program:
        program = super()._to_program()
        own = list(zip(program.begins[1::2].tolist(), program.ends[1::2].tolist(), strict=True))
        is_begin = np.isin(program.steps[:, 0], (Op.BEGIN, Op.MOVE_NEW, Op.MATCH_NEW))
        is_slot = program.steps[:, 0] == Op.NONE
        self._begins = np.array([is_begin[begin:end].any() for begin, end in own], np.bool_)
        self._has_slots = np.array([is_slot[begin:end].any() for begin, end in own], np.bool_)
        return program

    # -----------------------------------------------------------------------------------------
    # State

    def state(self) -> State:
        """Return all that is known, for `take_over`; see ``Operator.state``."""
        self._take_waiting()
        packed = super().state()
        packed["arrays"] |= {"cells": self._cells[:0]}
        if self._waiting:
            packed["arrays"] |= fields_of("rows", Rows.concat(self._waiting), ROWS)
        return packed

    def _take_cells(self, arrays: Arrays) -> None:
        """Take over the rows of the window; what is known of them is found again."""
        self._have_matrices()
        self._waiting = [self._take_rows("rows", arrays)] if "rows.words" in arrays else []
        self._n_summed = sum(map(len, self._waiting))


def segments_of(rows: Rows, parts: IntArray, summed_to: int) -> tuple[Rows, IntArray]:
    """Return rows, those of each part together, and of each its partition, first row and end.

    Between these the first row whose ``seq`` is beyond what was summed.
    """
    if parts.min() != parts.max():
        # Numbers of 16 bits are sorted by their digits, many times as fast.
        is_short = parts.max() < 1 << 16
        order = np.argsort(parts.astype(np.uint16) if is_short else parts, kind="stable")
        rows, parts = rows.take(order), parts[order]
    group, seq = rows.group, rows.seq
    assert group is not None
    assert seq is not None
    cuts = np.flatnonzero(np.diff(parts, prepend=-1, append=-1))
    begins, ends = cuts[:-1], cuts[1:]
    n_summed = np.add.reduceat(seq <= summed_to, begins, dtype=np.int64)
    return rows, np.stack([group[begins], begins, begins + n_summed, ends], axis=1)
