"""The push-based matcher: batches in, matches out, what is undecided kept in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.errors import SkipError, StepLimitError
from replay.operators.packing import State
from replay.patterns.assembly import Searched, in_order, to_matches, with_unmatched
from replay.patterns.config import RETRY_FRACTION, STEPS_MAX
from replay.patterns.matcher_state import MatcherState, pack, unpack
from replay.patterns.matches import Matches
from replay.patterns.partitions import PartitionTable, evaluate_grouped, group, partitions_of
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import RowIntake, seqs_of, seqs_of_stretches
from replay.patterns.search import Outcome, Rows, Segments, SkipFailure, search

IntArray = npt.NDArray[np.int64]

__all__ = ["MatchStats", "Matches", "PatternMatcher", "Prepared"]


@dataclass(frozen=True, slots=True)
class MatchStats:
    """What a matcher has seen."""

    n_rows: int
    n_matches: int
    n_faults: int
    """Evaluations (of a predicate on a row) whose arithmetic or cast gave NULL."""


class PatternMatcher(RowIntake):
    """Matches one query over stretches of a stream.

    Rows are pushed in order of ``seq``, contiguous within a stretch; ``finish`` ends a stretch.
    State is bounded by the window, or by the longest run of rows that no match is decided for.

    Parameters
    ----------
    program
        The compiled query.
    n_events
        Events of the stream the stretches are of; None: what is pushed is the stream.
    """

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        partitions = PartitionTable() if program.partition_by else PartitionTable.of_one()
        super().__init__(program, partitions, n_events)
        self._pending: Rows | None = None
        self._n_inbox = 0
        self._newest = 0
        self._decided: list[Matches] = []
        self._open_seq: int | None = None
        self._failure: SkipError | None = None
        self._n_matches = 0

    @property
    def n_matches(self) -> int:
        """Number of matches found so far, taken or not."""
        return self._n_matches

    @property
    def stats(self) -> MatchStats:
        """What was seen so far."""
        return MatchStats(self._n_rows, self._n_matches, self._n_faults)

    @property
    def n_kept(self) -> int:
        """Number of rows kept because a start among them is not decided yet."""
        pending = 0 if self._pending is None else len(self._pending)
        return pending + self._n_inbox + sum(batch.n_rows for batch, _ in self._deferred)

    @property
    def open_seq(self) -> int | None:
        """First row that a match still to be taken may read; None: none of those pushed."""
        if self._deferred:
            return self._deferred[0][1]
        if self._open_seq is not None:
            return self._open_seq
        return self._next_seq - self.n_kept if self._next_seq is not None else None

    def push(self, prepared: Prepared, first_seq: int) -> None:
        """Take the next rows of the stretch; row i has ``seq`` ``first_seq + i``.

        Raises
        ------
        ValueError
            If the rows do not follow those pushed last.
        StepLimitError
            If one start row takes too many steps.
        """
        n = prepared.n_rows
        if n == 0:
            return
        self._note_pushed(prepared, first_seq)
        if prepared.table is not None:
            self._deferred.append((prepared, first_seq))
            return
        if len(prepared.times):
            self._newest = int(prepared.times[-1])
        self._inbox.append(self._admit(prepared, first_seq))
        self._n_inbox += n
        pending = 0 if self._pending is None else len(self._pending)
        if self._n_inbox * RETRY_FRACTION >= pending:
            self._search_inbox(final=False)
        if self._program.in_order:
            self._raise_failure()

    def _take_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        program, n_stretches = self._program, len(starts)
        if program.partition_by and not (program.stands_alone or prepared.moved is not None):
            self._take_one_by_one(prepared, starts, n_rows, first_seqs)
            return
        self._n_rows += prepared.n_rows
        if prepared.partitions is None:
            begins = starts.astype(np.int64)
            rows = self._to_rows(prepared, None, None)
            searched = Searched(rows, begins, begins + n_rows, first_seqs - begins)
            partitions = np.zeros(n_stretches, np.int64)
        else:
            # What a partition has in one stretch is searched by itself, in order of the stretches.
            stretch, seq = seqs_of_stretches(prepared, starts, n_rows, first_seqs)
            part = self._partitions.numbers(prepared.partitions) * n_stretches + stretch
            rows = self._to_rows(prepared, seq, part)
            rows, begins, ends = group(rows, len(self._partitions) * n_stretches)
            searched = Searched(rows, begins, ends, begins)
            partitions = partitions_of(rows, begins, ends) // n_stretches
        self._search(searched, partitions, final=True, newest=0)
        self._raise_failure()

    def finish(self) -> None:
        """End the stretch: nothing more is to come, so decide what is pending.

        Match numbers go on in the next stretch.

        Raises
        ------
        StepLimitError
            If one start row takes too many steps.
        SkipError
            If AFTER MATCH SKIP had nowhere to go; see `take`.
        """
        if self._deferred:
            self._search_deferred()
        elif self._pending is not None or self._inbox:
            self._search_inbox(final=True)
        self._pending = None
        self._next_seq = None
        self._open_seq = None
        self._raise_failure()

    def take(self) -> Matches:
        """Return the matches found since the last call that nothing open can precede.

        After a `SkipError` these are the matches up to and including the one that it is about: it
        is raised as soon as they are certain.
        """
        matches = Matches.concat(self._decided, len(self._program.anchors))
        self._decided = []
        if not self._program.in_order:
            matches = in_order(matches)
        if self._failure is not None:
            matches = matches.head(_up_to(matches, self._failure.first_seq + 1))
        if self._open_seq is None:
            return matches
        # A start still open in one partition may precede what others have found.
        sure = _up_to(matches, self._open_seq)
        self._decided = [matches.take(slice(sure, None))]
        return matches.head(sure)

    def state(self) -> State:
        """Return all that the matcher knows, for `take_over`; see ``Operator.state``."""
        inbox = [self._pending, *self._inbox] if self._pending is not None else self._inbox
        keys, known = self._partitions.to_snapshot()
        n_anchors = len(self._program.anchors)
        state = MatcherState(
            rows=Rows.concat(inbox) if inbox else None,
            n_inbox=self._n_inbox,
            deferred=tuple(self._deferred),
            matches=Matches.concat(self._decided, n_anchors) if self._decided else None,
            strings=tuple(self._strings),
            partition_keys=tuple(keys),
            partitions=known,
            numbers={name: getattr(self, name) for name in _NUMBERS},
            failure=_to_plain(self._failure),
        )
        return pack(state, self._program)

    def take_over(self, packed: State) -> None:
        """Go on from what a matcher of the same query knew when it gave its state.

        Raises
        ------
        ValueError
            If it is of another query or version, or not what such a matcher knows.
        """
        state = unpack(packed, self._program)
        self._pending, self._inbox = None, []
        if state.rows is not None:
            n_pending = len(state.rows) - state.n_inbox
            self._pending = state.rows.take(slice(0, n_pending)) if n_pending else None
            if state.n_inbox:
                self._inbox = [state.rows.take(slice(n_pending, None))]
        self._n_inbox = state.n_inbox
        self._deferred = list(state.deferred)
        self._decided = [] if state.matches is None else [state.matches]
        self._strings = {text: code for code, text in enumerate(state.strings)}
        keys = list(state.partition_keys)
        self._partitions = PartitionTable.from_snapshot(keys, state.partitions)
        for name, value in state.numbers.items():
            setattr(self, name, value)
        self._failure = None
        if state.failure is not None:
            message, first_seq = state.failure
            self._failure = SkipError(message, first_seq=first_seq)

    def _admit(self, prepared: Prepared, first_seq: int) -> Rows:
        """Return the batch's rows as they are searched."""
        seq = partition = None
        if prepared.partitions is not None:
            partition = self._partitions.numbers(prepared.partitions)
            seq = seqs_of(prepared, first_seq)
        return self._to_rows(prepared, seq, partition)

    def _search_inbox(self, *, final: bool) -> None:
        """Search pending and new rows, and keep what stays undecided."""
        rows = Rows.concat([self._pending, *self._inbox] if self._pending else self._inbox)
        self._inbox, self._n_inbox = [], 0
        assert self._next_seq is not None
        if rows.group is None:
            shifts = np.array([self._next_seq - len(rows)])
            whole = Searched(rows, np.zeros(1, np.int64), np.array([len(rows)]), shifts)
            one = np.zeros(1, np.int64)
            nexts = self._search(whole, one, final=final, newest=self._newest)
            undecided = slice(int(nexts[0]), None)
            self._keep(rows.take(undecided), final=final)
            return
        rows, begins, ends = group(rows, len(self._partitions))
        searched = Searched(rows, begins, ends, begins)
        partitions = partitions_of(rows, begins, ends)
        nexts = self._search(searched, partitions, final=final, newest=self._newest)
        kept = np.arange(len(rows)) >= np.repeat(nexts, np.diff(ends, prepend=0))
        self._keep(rows.take(kept), final=final)
        open_seqs = None if self._pending is None else self._pending.seq
        self._open_seq = None if open_seqs is None else int(open_seqs.min())

    def _keep(self, rows: Rows, *, final: bool) -> None:
        """Keep the rows that are not decided yet."""
        if not final:
            (rows,) = self._forget_unused([rows])
        self._pending = rows if len(rows) else None

    def _search_deferred(self) -> None:
        """Search a whole stretch whose rows could not be evaluated one batch at a time."""
        evaluated = evaluate_grouped(self._program, self._deferred, self._partitions)
        self._deferred = []
        rows, begins, ends = group(self._to_rows(*evaluated), len(self._partitions))
        searched = Searched(rows, begins, ends, begins)
        self._search(searched, partitions_of(rows, begins, ends), final=True, newest=0)

    def _search(
        self, searched: Searched, partitions: IntArray, *, final: bool, newest: int
    ) -> IntArray:
        """Record the matches of segments; return the first start of each that is not decided.

        ``partitions`` are the numbers of the segments' partitions.
        """
        table, program = self._partitions, self._program
        firsts, lasts = self._ends_of_partitions(searched, partitions, final=final)
        segments = Segments(
            nexts=searched.begins.copy(),
            ends=searched.ends,
            firsts=firsts,
            lasts=lasts,
            numbers=table.n_matches[partitions],
        )
        ranks = self._ranks()
        outcome = search(program, searched.rows, segments, final=final, newest=newest, ranks=ranks)
        self._check(outcome, searched)
        found = outcome.found
        self._n_faults += outcome.n_faults
        self._n_matches += len(found)
        number = table.match_numbers(partitions[found.segment])
        if program.with_unmatched:
            decided = searched.begins, segments.nexts
            covered_to = table.covered_to[partitions]
            mapped = found.last >= found.first
            last = searched.seq(found.last[mapped], found.segment[mapped])
            np.maximum.at(table.covered_to, partitions[found.segment[mapped]], last)
            found, number = with_unmatched(found, number, searched, decided, covered_to)
        if not len(found):
            return segments.nexts
        row_offsets = program.row_offsets if program.needs_rows else None
        matches = to_matches(found, number, searched, program.offsets, row_offsets)
        self._decided.append(in_order(matches) if program.with_unmatched else matches)
        return segments.nexts

    def _ends_of_partitions(
        self, searched: Searched, partitions: IntArray, *, final: bool
    ) -> tuple[IntArray, IntArray]:
        """Return the rows each segment's partition begins with and ends before; see `Segments`."""
        firsts, lasts = np.full(len(searched.ends), -1), searched.ends.copy()
        if not self._program.partition_edges:
            return firsts, lasts
        rows, table = searched.rows, self._partitions
        segments = np.flatnonzero(searched.ends > searched.begins)
        begins, at = searched.begins[segments], searched.ends[segments] - 1
        seq, numbers = searched.seq(begins, segments), partitions[segments]
        table.note_first_rows(numbers, seq)
        is_first = self._edges.are_first(rows, begins, seq, table.first_seq[numbers])
        firsts[segments] = np.where(is_first, begins, -1)
        if final:
            lasts[segments] += ~self._edges.are_last(rows, at, searched.seq(at, segments))
        return firsts, lasts

    def _check(self, outcome: Outcome, searched: Searched) -> None:
        """Raise what ends the search at once; keep the first skip that failed."""
        if outcome.stuck_at is not None:
            seq = searched.seq_of(*outcome.stuck_at)
            raise StepLimitError(
                f"matching PATTERN ({self._program.pattern_text}) from the event with seq {seq} "
                f"takes more than {STEPS_MAX} steps; add WITHIN, or conditions that end the "
                "repetition sooner"
            )
        for failure in outcome.failures:
            seq = searched.seq_of(failure.row, failure.segment)
            if self._failure is None or seq < self._failure.first_seq:
                self._failure = _skip_error(self._program, failure, seq)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


_NUMBERS = (
    "_next_seq",
    "_newest",
    "_open_seq",
    "_n_rows",
    "_n_faults",
    "_n_matches",
)
"""State of a matcher that is one number or None."""


def _up_to(matches: Matches, seq: int) -> int:
    """Return how many matches begin before a row."""
    return int(np.searchsorted(matches.first_seq, seq))


def _to_plain(failure: SkipError | None) -> tuple[str, int] | None:
    return None if failure is None else (failure.message, failure.first_seq)


def _skip_error(program: MatchProgram, failure: SkipFailure, seq: int) -> SkipError:
    mode, name = program.skip.mode.value, program.skip.name
    why = f"maps no row to {name}"
    if failure.is_first_row:
        why = f"has {name} as its first row, so the search would find it again for ever"
    return SkipError(
        f"AFTER MATCH SKIP {mode} {name} cannot go on: the match of PATTERN "
        f"({program.pattern_text}) that begins at the event with seq {seq} {why}; use SKIP PAST "
        "LAST ROW or SKIP TO NEXT ROW",
        first_seq=seq,
    )
