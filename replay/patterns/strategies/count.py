"""COUNT(*) of the matches of a strategy, without building any of them.

Where no condition looks across rows, all that a run can still do follows from its state. So it is
enough to know how many runs are in each: without WITHIN of all starts together, with WITHIN of one
start after the other. The idea is COGRA's type-grained aggregation (SIGMOD 2019, section 4), over
the states of the automaton instead of event types.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows
from replay.patterns.strategies import count_kernels as kernels
from replay.patterns.strategies.intake import Intake
from replay.patterns.strategies.searches import SEMANTICS, Search, to_tables

IntArray = npt.NDArray[np.int64]


class MatchCounter(Intake):
    """Counts every match of one query over stretches of a stream.

    Rows are pushed as into a `StrategyMatcher`, of a program that `is_countable`. The state is the
    rows of the window, or without WITHIN no row but one number for each partition and state.
    """

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        super().__init__(program, n_events)
        assert program.is_countable
        self._tables = tuple(to_tables(program))
        self._total = np.zeros(1, np.uint64)
        self._runs = np.zeros((0, self._code.n_states, 1), np.uint64)

    @property
    def count(self) -> int:
        """Number of matches that are certain, exact however large."""
        return int.from_bytes(self._total.astype("<u8").tobytes(), "little")

    def _advance(self) -> None:
        self._merge_inbox()
        assert self._open is not None
        self._count(self._open)
        self._trim()

    def push_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take several whole stretches at once, each finished; see ``Intake.push_stretches``."""
        super().push_stretches(prepared, starts, n_rows, first_seqs)
        self._count_finished()

    def finish(self) -> None:
        """End the stretch: nothing more is to come, so count what is pending."""
        super().finish()
        self._count_finished()

    def _count_finished(self) -> None:
        while self._finished:
            self._count(self._finished.popleft())
            self._runs[:] = 0  # no run goes on in another stretch

    def _count(self, search: Search) -> None:
        if self._program.within is None:
            self._count_rows(search)
        else:
            self._count_windows(search, self._program.within)

    def _count_rows(self, search: Search) -> None:
        rows = search.rows
        self._make_room(rows)
        order, cursor = search.order, search.cursor
        while cursor.at < len(order):
            moved, waiting = np.empty_like(self._runs[0]), np.empty_like(self._runs[0])
            assert rows.group is not None
            cursor.at = kernels.count_rows(
                order, cursor.at, SEMANTICS[self._code.semantics], tuple(search.to_data()),
                self._tables, rows.group, self._runs, moved, waiting, self._total,
            )  # fmt: skip
            if cursor.at < len(order):
                self._widen()

    def _count_windows(self, search: Search, within: int) -> None:
        cursor, status = search.cursor, kernels.STATUS_WIDE
        newest = np.iinfo(np.int64).min if search.newest is None else search.newest
        while status == kernels.STATUS_WIDE:
            size = (self._code.n_states, len(self._total))
            runs, moved, waiting = (np.empty(size, np.uint64) for _ in range(3))
            status, cursor.at = kernels.count_windows(
                search.order, cursor.at, SEMANTICS[self._code.semantics], within, search.final,
                newest, tuple(search.to_data()), self._tables, runs, moved, waiting,
                np.zeros_like(self._total), self._total,
            )  # fmt: skip
            if status == kernels.STATUS_WIDE:
                self._widen()

    def _make_room(self, rows: Rows) -> None:
        """Have a row of numbers for every group."""
        assert rows.group is not None
        missing = int(rows.group.max(initial=-1)) + 1 - len(self._runs)
        if missing > 0:
            more = np.zeros((missing + len(self._runs), *self._runs.shape[1:]), np.uint64)
            self._runs = np.concatenate([self._runs, more])

    def _widen(self) -> None:
        """Give every number twice the words."""
        self._total = np.concatenate([self._total, np.zeros_like(self._total)])
        self._runs = np.concatenate([self._runs, np.zeros_like(self._runs)], axis=2)
