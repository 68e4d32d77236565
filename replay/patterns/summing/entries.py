"""Sums over every match within a window, at the same cost for windows of any length.

Runs are told apart by the state in which they came into a row, not by where they began: so what
leads through a window is one linear map, the product of its rows', held as a queue of two stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.limits import check_limits
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import Arrays
from replay.patterns.search import Rows
from replay.patterns.summing import entry_kernels, kernels
from replay.patterns.summing.within import WithinTrendOperator, segments_of
from replay.patterns.trends.factors import Factors
from replay.patterns.trends.machine import Steps, Sums, changes_of, joinable, to_steps

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_FRONT_ROWS = 1024
"""Rows of a queue's front that there is room for at first."""


class EntryTrendOperator(WithinTrendOperator):
    """Sums over every match of one query with WITHIN; the type grain, of rules that are joined."""

    kind = "sums over matches by entry"
    _numbered: tuple[str, ...] = ("_totals", "_cells", "_suffix", "_front")

    with_matches = False
    """Whether matches are also summed of rows that go before others."""

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        self._suffix, self._front = np.zeros((0, 0), np.uint64), np.zeros((0, 0), np.uint64)
        super().__init__(program, n_events)
        self._factors = factors = Factors(self._code, with_matches=self.with_matches)
        ones = factors.behind.ones, factors.before.ones
        self._places = (*ones, factors.joins(), factors.own())
        self._begins: Bools = np.empty(0, np.bool_)
        self._have_products()

    def _have_products(self) -> None:
        before = self._factors.before
        self._cells = self._new_cells(len(self._factors.behind))
        self._suffix = self._new_cells(len(before))
        self._n_front = _FRONT_ROWS
        self._front = self._new_cells(before.n_begun * self._n_front)

    def _held(self, sums: Sums) -> Sums:
        return joinable(sums)

    def _sum(self, rows: Rows, parts: IntArray) -> None:
        rows, segments = segments_of(rows, parts, self._summed_to)
        segments = segments[segments[:, 2] < segments[:, 3]]
        if not len(segments):
            return
        seen = self._seen(rows, rows.times)

        def step(at: IntArray, width: int, queue: entry_kernels.Queue, *others: Any) -> int:
            scratch, *of_rows = others
            status: int = entry_kernels.sum_entries(
                at, segments, self._within, width, queue, scratch, self._totals, *of_rows
            )
            return status

        self._multiply(step, seen)

    def _multiply(self, step: Callable[..., int], rows: kernels.Rows) -> int:
        """Take a kernel to its end, giving it what it lacks; return how many sums it found."""
        width = self._factors.before.n_begun
        at = np.zeros(entry_kernels.AT_SIZE, np.int64)
        at[entry_kernels.AT_ROW] = -1
        # The queue outlives a status: what is at its front is there when numbers have more words.
        front_rows = np.zeros(self._n_front, np.int64)
        while True:
            check_limits()
            stacks = self._cells, self._suffix, self._front, front_rows
            status = step(
                at, width, (*stacks, self._begins, *self._places), self._new_cells(self._n_slots),
                tuple(self._fields()), tuple(rows), self._program_of_codes,
            )  # fmt: skip
            if status == kernels.STATUS_DONE:
                return int(at[kernels.N_FOUND])
            if status == entry_kernels.STATUS_LONG:  # the front is empty when it is asked for
                self._n_front *= 2
                self._front = self._new_cells(width * self._n_front)
                front_rows = np.zeros(self._n_front, np.int64)
            else:
                self._more_words()

    def _steps_of(self, word: int, begin: int) -> list[Steps]:
        code, factors = self._code, self._factors
        own = changes_of(code, word, begin)
        return [
            to_steps(*factors.put_behind(changes_of(code, word, None), is_begun=False)),
            to_steps(*factors.put_behind(own, is_begun=True)),
            to_steps(*factors.put_before(own)),
        ]

    def _to_program(self) -> kernels.Program:
        program = super()._to_program()
        self._begins = self._to_begins(program)
        return program

    def _take_cells(self, arrays: Arrays) -> None:
        super()._take_cells(arrays)
        self._have_products()
