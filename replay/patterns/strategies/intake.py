"""The rows of stretches as strategies search them."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from replay.patterns.partitions import NEVER, PartitionTable, evaluate_grouped
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import RowIntake, seqs_of, seqs_of_stretches
from replay.patterns.search import Rows
from replay.patterns.strategies.searches import Search, to_search

IntArray = npt.NDArray[np.int64]


class Intake(RowIntake):
    """Takes prepared rows in, and keeps those that matches may still begin with."""

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        code = program.strategy
        assert code is not None
        super().__init__(program, PartitionTable(), n_events)
        self._code = code
        self._firsts = np.empty(0, np.int64)
        self._open: Search | None = None
        self._finished: deque[Search] = deque()

    @property
    def n_kept(self) -> int:
        """Number of rows kept because matches that begin with them may not all be out."""
        deferred = sum(batch.n_rows for batch, _ in self._deferred)
        return sum(map(len, self._searches())) + sum(map(len, self._inbox)) + deferred

    def _searches(self) -> list[Search]:
        """Return the searches of finished stretches, then that of the open one if there is one."""
        return [*self._finished, *([self._open] if self._open is not None else [])]

    def _take_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        if self._program.partition_by:
            self._take_one_by_one(prepared, starts, n_rows, first_seqs)
            return
        self._n_rows += prepared.n_rows
        stretch, seq = seqs_of_stretches(prepared, starts, n_rows, first_seqs)
        search = self._search_of(self._to_rows(prepared, seq, stretch))
        search.end()
        self._finished.append(search)

    def finish(self) -> None:
        """End the stretch: nothing more is to come. Match numbers go on in the next stretch."""
        if self._deferred:
            evaluated = evaluate_grouped(self._program, self._deferred, self._partitions)
            rows = self._to_rows(*evaluated)
            assert rows.seq is not None
            rows = rows.take(np.argsort(rows.seq))
            if self._code.asks_for_start:
                assert rows.seq is not None
                assert rows.group is not None
                self._note_first(rows.group, rows.seq)
            self._inbox = [rows]
            self._deferred = []
        if self._inbox or self._open is not None:
            self._merge_inbox()
            assert self._open is not None
            self._open.end()
            self._finished.append(self._open)
        self._open = None
        self._next_seq = None

    def _admit(self, prepared: Prepared, first_seq: int) -> Rows:
        seq, groups = seqs_of(prepared, first_seq), prepared.partitions
        numbers = np.zeros(len(seq), np.int64)
        if groups is not None:
            numbers = self._partitions.numbers(groups)
        if self._code.asks_for_start:
            self._note_first(numbers, seq)
        return self._to_rows(prepared, seq, numbers)

    def _merge_inbox(self) -> None:
        if self._open is None:
            self._open = self._search_of(Rows.concat(self._inbox))
        elif self._inbox:
            self._open = self._open.extended(self._inbox, self._search_of, self._lookback())
        self._inbox = []

    def _trim(self) -> None:
        """Let go of rows that no match can need any more."""
        assert self._open is not None
        self._open = self._open.trimmed(self._search_of, self._lookback())

    def _lookback(self) -> int | None:
        """Return how long before a match rows decide about it; None: not at all."""
        return self._program.within if self._code.looks_before else None

    def _search_of(self, rows: Rows, newest: int | None = None) -> Search:
        """Return a search over rows from its beginning; see `to_search`."""
        is_asked = self._code.asks_for_start and self._edges.n_events is None
        firsts = self._firsts if is_asked else None
        return to_search(rows, self._edges, firsts, newest=newest)

    def _note_first(self, partition: IntArray, seq: IntArray) -> None:
        """Keep the first row of partitions not seen before."""
        n_known = len(self._firsts)
        found, places = np.unique(partition, return_index=True)
        if found[-1] >= n_known:
            # Numbers below may be of partitions that have no row yet: a dictionary names them all.
            more = np.full(int(found[-1]) + 1 - n_known, NEVER)
            self._firsts = np.concatenate((self._firsts, more))
        new = self._firsts[found] == NEVER
        self._firsts[found[new]] = seq[places[new]]
