"""The push-based matcher of SEMANTICS CONTIGUOUS, SKIP TILL NEXT and SKIP TILL ANY.

What a match is
---------------
A *run* is a non-empty mapping of rows of one partition, ascending, to symbols, such that the
symbols begin some sequence of the pattern's language, every row satisfies its symbol's condition
given the rows mapped before it, and the last row's time is at most WITHIN after the first row's.
A row *extends* a run by a symbol if it comes after the run's last row and the longer mapping is a
run too, negations included. A run is a mapping, not a derivation: what several derivations of it
allow, it may do, and it counts once. A *match* is a run whose symbols are a whole sequence of the
language and whose negations and edges at start and end hold.

- CONTIGUOUS: the rows of a run are consecutive rows of the partition.
- SKIP TILL NEXT: no row strictly between two consecutive rows of a run extends the part of the run
  before it. So a run that a row extends must take it: it forks into one run for each symbol the
  row extends it by, and goes on unextended in none. A run that is a match is extended all the same,
  and each match on the way is told. Every row that satisfies a first symbol begins a run, whatever
  other runs do with it.
- SKIP TILL ANY: any rows; a run that a row extends goes on unextended too.

Negation
--------
Between two symbols ``!X`` says that no row strictly between the row mapped before it and the row
mapped after it satisfies X's condition, which may read the rows mapped before it. Before the first
symbol it says that no row of the partition before the match's first row, and at most WITHIN before
its last row, does. After the last symbol it says that no row of the partition after the match's
last row, and at most WITHIN after its first row, does.

WITH TIMEOUTS
-------------
A run has timed out if the newest event of the stream is more than WITHIN after the run's first row.
The answer then has, besides the matches, each run that timed out, is no match, and by the strategy
was still waiting for a row when its window ended: under CONTIGUOUS no row of the partition follows
it in its window, under SKIP TILL NEXT none that extends it, under SKIP TILL ANY any may; and no
negation had ended it. A run whose window has not ended when the stream does is not told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from replay.errors import NotSupportedError, StepLimitError
from replay.limits import check_limits
from replay.operators.packing import State, integer, integers
from replay.patterns.automaton import excluded_rows
from replay.patterns.config import MATCHES_AT_ONCE, RETRY_FRACTION, STEPS_MAX
from replay.patterns.matches import Matches, MatchRows
from replay.patterns.partitions import NEVER, PartitionTable, evaluate_grouped
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import (
    ROWS,
    Arrays,
    RowIntake,
    fields_of,
    seqs_of,
    seqs_of_stretches,
)
from replay.patterns.search import Rows, stack
from replay.patterns.strategies import kernels
from replay.patterns.strategies.searches import Batch, Cursor, Search, to_search

IntArray = npt.NDArray[np.int64]

EAGER_ROWS = 4096
"""While at most so many rows wait, every push is searched; then as RETRY_FRACTION says."""


class StrategyMatcher(RowIntake):
    """Finds every match of one query over stretches of a stream.

    Matches are found as they are taken, in canonical order, each as soon as no match still to be
    decided can come before it: the state is the rows of the window, never the matches. Take
    between pushes; there may be exponentially many, so take them in batches.
    """

    kind = "strategy matcher"
    numbers = ("_next_seq", "_n_rows", "_n_faults", "_n_matches")

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        code = program.strategy
        assert code is not None
        super().__init__(program, PartitionTable(), n_events)
        self._code = code
        self._firsts = np.empty(0, np.int64)
        self._open: Search | None = None
        self._finished: deque[Search] = deque()
        _check_negated(program)

    @property
    def n_kept(self) -> int:
        """Number of rows kept because matches that begin with them may not all be out."""
        deferred = sum(batch.n_rows for batch, _ in self._deferred)
        return sum(map(len, self._searches())) + sum(map(len, self._inbox)) + deferred

    def _searches(self) -> list[Search]:
        """Return the searches of finished stretches, then that of the open one if there is one."""
        return [*self._finished, *([self._open] if self._open is not None else [])]

    @property
    def open_seq(self) -> int | None:
        """First row that a match still to be taken may read; None: none of those pushed."""
        kept = [*(search.ordered for search in self._searches()), *self._inbox]
        firsts = [int(rows.seq[0]) for rows in kept if rows.seq is not None and len(rows)]
        return min([*firsts, *(first_seq for _, first_seq in self._deferred)], default=None)

    def _advance(self) -> None:
        """Leave what was pushed until matches are taken."""

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

    def take(self) -> Matches:
        """Return the matches that are certain and were not taken yet."""
        return Matches.concat([Matches.none(self._program), *self.batches()])

    def batches(self) -> Iterator[Matches]:
        """Yield what `take` would return, in parts of bounded size.

        StepLimitError ends them if looking for one match takes too many steps.
        """
        while (search := self._finished[0] if self._finished else self._open_search()) is not None:
            check_limits()
            found = search.next(self._program, MATCHES_AT_ONCE, self._ranks())
            self._n_faults += found.n_faults
            if found.status == kernels.STATUS_STEPS:
                raise self._too_many_steps(search)
            matches = self._to_matches(found, search) if len(found) else None
            if search.is_dry and self._finished:
                self._finished.popleft()
            elif search.is_dry:
                self._trim()
                self._forget()
            if matches is not None:
                yield matches

    def state(self) -> State:
        """Return all that the matcher knows, for `take_over`; see ``Operator.state``."""
        searches = self._searches()
        small = {
            "searches": [[s.newest, s.cursor.at, s.cursor.done, s.final] for s in searches],
            "has_open": self._open is not None,
            "n_inbox": len(self._inbox),
        }
        arrays: Arrays = {"firsts": self._firsts}
        for k, search in enumerate(searches):
            arrays |= fields_of(f"search.{k}", search.ordered, ROWS)
            arrays[f"cursor.{k}.rows"] = search.cursor.rows
            arrays[f"cursor.{k}.symbols"] = search.cursor.symbols
        for k, rows in enumerate(self._inbox):
            arrays |= fields_of(f"inbox.{k}", rows, ROWS)
        return self._to_state(small, arrays)

    def take_over(self, packed: State) -> None:
        """Go on from what a matcher of the same query knew when it gave its state.

        ValueError if it is not what such a matcher knows.
        """
        arrays = self._from_state(packed)
        self._firsts = arrays["firsts"]
        searches: deque[Search] = deque()
        for k, (newest, at, done, final) in enumerate(packed["searches"]):
            search = self._search_of(self._take_rows(f"search.{k}", arrays), newest)
            n, found = len(search), arrays[f"cursor.{k}.rows"]
            symbols = arrays[f"cursor.{k}.symbols"]
            if symbols.dtype != np.uint8 or symbols.shape != found.shape:
                raise ValueError("the state has a match of other symbols than rows")
            rows = integers(found, np.shape(found), 0, n - 1)
            search.cursor = Cursor(integer(at, 0, n), integer(done, -1, n), rows, symbols)
            search.final = final
            searches.append(search)
        self._finished = searches
        self._open = searches.pop() if packed["has_open"] else None
        self._inbox = [self._take_rows(f"inbox.{k}", arrays) for k in range(packed["n_inbox"])]

    def _forget(self) -> None:
        """Forget what is known of no row kept: partitions and texts."""
        assert self._open is not None
        of_open = self._open.ordered, self._open.rows
        ordered, grouped, *self._inbox = self._forget_unused([*of_open, *self._inbox])
        self._open = replace(self._open, ordered=ordered, rows=grouped)

    def _open_search(self) -> Search | None:
        """Return the search of the open stretch if it may give more."""
        if self._inbox and (self._open is None or self._open.is_dry):
            n_waiting = len(self._open) if self._open is not None else 0
            n_new = sum(map(len, self._inbox))
            if n_waiting <= EAGER_ROWS or n_new * RETRY_FRACTION >= n_waiting:
                self._merge_inbox()
        return None if self._open is None or self._open.is_dry else self._open

    def _to_matches(self, found: Batch, search: Search) -> Matches:
        seq, partition = search.seq, search.rows.group
        assert partition is not None
        firsts, lasts = found.rows[found.offsets[:-1]], found.rows[found.offsets[1:] - 1]
        number = np.arange(self._n_matches + 1, self._n_matches + len(found) + 1)
        if self._program.partition_by:
            # The table numbers the matches of a partition together.
            order = np.argsort(partition[firsts], kind="stable")
            number[order] = self._partitions.match_numbers(partition[firsts][order])
        self._n_matches += len(found)
        return Matches(
            first_seq=seq[firsts],
            last_seq=seq[lasts],
            number=number,
            classifier=found.symbols[found.offsets[1:] - 1].astype(np.int64),
            anchors=np.empty((len(found), 0), np.int64),
            rows=MatchRows(
                offsets=found.offsets,
                seq=seq[found.rows],
                symbol=found.symbols,
                excluded=excluded_rows(self._code, found.offsets, found.symbols),
                moved=_moved(found.rows, search, self._program.row_offsets),
            ),
            timed_out=found.timed_out if self._code.timeouts else None,
        )

    def _too_many_steps(self, search: Search) -> StepLimitError:
        seq = search.start_seq
        return StepLimitError(
            f"matching PATTERN ({self._program.pattern_text}) from the event with seq {seq} takes "
            f"more than {STEPS_MAX} steps for one match; add WITHIN, or conditions that read the "
            "row alone"
        )


def _moved(rows: IntArray, search: Search, offsets: tuple[int, ...]) -> IntArray:
    """Return ``seq`` of the rows so far on in the partition, -1 outside of it."""
    known = search.rows.moved
    if known is not None:
        return stack([known[o][rows] for o in offsets], len(rows))
    to = rows[:, None] + np.array(offsets, np.int64)
    inside = (to >= search.begins[rows, None]) & (to < search.ends[rows, None])
    return np.where(inside, search.seq[np.where(inside, to, 0)], -1)


def _check_negated(program: MatchProgram) -> None:
    """Refuse a symbol negated at the start whose condition reads other rows: there are none."""
    code = program.strategy
    assert code is not None
    before = int(np.bitwise_or.reduce(code.conditions[:, 0], initial=np.uint64(0)))
    conditioned = program.across.conditioned
    for number, symbol in enumerate(code.negated):
        if before >> number & 1 and conditioned[symbol]:
            raise NotSupportedError(
                f"a symbol negated before the first row of PATTERN ({program.pattern_text}) has a "
                "condition on other rows of the match, of which there are none yet; let it read "
                "the row alone"
            )
