"""The push-based matcher: batches in, matches out, what is undecided kept in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from replay.errors import SkipError, StepLimitError
from replay.operators.packing import State
from replay.patterns.config import RETRY_FRACTION, STEPS_MAX
from replay.patterns.matches import Matches, MatchRows
from replay.patterns.partitions import PartitionTable, evaluate_grouped, group, partitions_of
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import (
    ROWS,
    Arrays,
    RowIntake,
    fields_of,
    seqs_of,
    seqs_of_stretches,
    take_fields,
)
from replay.patterns.search import Outcome, Rows, Segments, search, to_matches, with_unmatched

if TYPE_CHECKING:
    from replay.patterns.strategies.matcher import StrategyMatcher

IntArray = npt.NDArray[np.int64]

_MATCHES = ("first_seq", "last_seq", "number", "classifier", "anchors")
_MATCH_ROWS = ("offsets", "seq", "symbol", "excluded", "moved")


class PatternMatcher(RowIntake):
    """Matches one query in SQL's semantics over stretches of a stream.

    State is bounded by the window, or by the longest run of rows that no match is decided for.
    """

    kind = "matcher"
    numbers = ("_next_seq", "_newest", "_open_seq", "_n_rows", "_n_faults", "_n_matches")

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        partitions = PartitionTable() if program.partition_by else PartitionTable.of_one()
        super().__init__(program, partitions, n_events)
        self._pending: Rows | None = None
        self._n_inbox = 0
        self._newest = 0
        self._decided: list[Matches] = []
        self._open_seq: int | None = None
        self._failure: SkipError | None = None

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

    def _advance(self) -> None:
        newest = self._inbox[-1]
        if len(newest.times):
            self._newest = int(newest.times[-1])
        self._n_inbox += len(newest)
        pending = 0 if self._pending is None else len(self._pending)
        if self._n_inbox * RETRY_FRACTION >= pending:
            self._search_inbox(final=False)
        if not self._program.partition_by:
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
            segments = Segments(rows, begins, begins + n_rows, first_seqs - begins)
            partitions = np.zeros(n_stretches, np.int64)
        else:
            # What a partition has in one stretch is searched by itself, in order of the stretches.
            stretch, seq = seqs_of_stretches(prepared, starts, n_rows, first_seqs)
            part = self._partitions.numbers(prepared.partitions) * n_stretches + stretch
            rows = self._to_rows(prepared, seq, part)
            rows, begins, ends = group(rows, len(self._partitions) * n_stretches)
            segments = Segments(rows, begins, ends, begins)
            partitions = partitions_of(rows, begins, ends) // n_stretches
        self._search(segments, partitions, final=True, newest=0)
        self._raise_failure()

    def finish(self) -> None:
        """End the stretch: nothing more is to come, so decide what is pending.

        Match numbers go on in the next stretch.
        """
        if self._deferred:
            self._search_deferred()
        elif self._pending is not None or self._inbox:
            self._search_inbox(final=True)
        self._pending = None
        self._next_seq = None
        self._open_seq = None
        self._raise_failure()

    def batches(self) -> Iterator[Matches]:
        """Yield what `take` would return if there is any."""
        if len(found := self.take()):
            yield found

    def take(self) -> Matches:
        """Return the matches found since the last call that nothing open can precede.

        After a `SkipError` these are the matches up to and including the one that it is about: it
        is raised as soon as they are certain.
        """
        matches = Matches.concat([Matches.none(self._program), *self._decided])
        self._decided = []
        if self._program.partition_by:
            matches = matches.in_order()
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
        failure = self._failure
        inbox = self._inbox if self._pending is None else [self._pending, *self._inbox]
        arrays: Arrays = fields_of("rows", Rows.concat(inbox), ROWS) if inbox else {}
        if self._decided:
            matches = Matches.concat(self._decided)
            arrays |= fields_of("matches", matches, _MATCHES)
            if matches.rows is not None:
                arrays |= fields_of("match_rows", matches.rows, _MATCH_ROWS)
        small = {
            "n_inbox": self._n_inbox,
            "failure": None if failure is None else (failure.message, failure.first_seq),
        }
        return self._to_state(small, arrays)

    def take_over(self, packed: State) -> None:
        """Go on from what a matcher of the same query knew when it gave its state.

        ValueError if it is not what such a matcher knows.
        """
        arrays = self._from_state(packed)
        self._pending, self._inbox, self._n_inbox = None, [], packed["n_inbox"]
        rows = self._take_rows("rows", arrays) if "rows.words" in arrays else None
        n_rows = 0 if rows is None else len(rows)
        if type(self._n_inbox) is not int or not 0 <= self._n_inbox <= n_rows:
            raise ValueError("the state has other rows than it says")
        n_pending = n_rows - self._n_inbox
        if rows is not None and n_pending:
            self._pending = rows.take(slice(0, n_pending))
        if rows is not None and self._n_inbox:
            self._inbox = [rows.take(slice(n_pending, None))]
        self._decided = []
        if "matches.number" in arrays:
            match_rows = None
            if "match_rows.seq" in arrays:
                match_rows = MatchRows(**take_fields("match_rows", arrays, _MATCH_ROWS))
            self._decided = [Matches(**take_fields("matches", arrays, _MATCHES), rows=match_rows)]
            self._decided[0].check(len(self._program.anchors))
        failure = packed["failure"]
        self._failure = None if failure is None else SkipError(failure[0], first_seq=failure[1])

    def _admit(self, prepared: Prepared, first_seq: int) -> Rows:
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
            one = np.zeros(1, np.int64)
            whole = Segments(rows, one, np.array([len(rows)]), shifts)
            nexts = self._search(whole, one, final=final, newest=self._newest)
            undecided = slice(int(nexts[0]), None)
            self._keep(rows.take(undecided), final=final)
            return
        rows, begins, ends = group(rows, len(self._partitions))
        segments = Segments(rows, begins, ends, begins)
        partitions = partitions_of(rows, begins, ends)
        nexts = self._search(segments, partitions, final=final, newest=self._newest)
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
        segments = Segments(rows, begins, ends, begins)
        self._search(segments, partitions_of(rows, begins, ends), final=True, newest=0)

    def _search(
        self, segments: Segments, partitions: IntArray, *, final: bool, newest: int
    ) -> IntArray:
        """Record the matches of segments; return the first start of each that is not decided.

        ``partitions`` are the numbers of the segments' partitions.
        """
        table, program = self._partitions, self._program
        firsts, lasts = self._ends_of_partitions(segments, partitions, final=final)
        numbers = table.n_matches[partitions]
        outcome = search(
            program,
            segments,
            firsts,
            lasts,
            numbers,
            final=final,
            newest=newest,
            ranks=self._ranks(),
        )
        self._check(outcome, segments)
        found = outcome.found
        self._n_faults += outcome.n_faults
        self._n_matches += len(found)
        number = table.match_numbers(partitions[found.segment])
        if program.with_unmatched:
            covered_to = table.covered_to[partitions]
            mapped = found.last >= found.first
            last = segments.seq(found.last[mapped], found.segment[mapped])
            np.maximum.at(table.covered_to, partitions[found.segment[mapped]], last)
            found, number = with_unmatched(found, number, segments, outcome.nexts, covered_to)
        if len(found):
            matches = to_matches(program, found, number, segments)
            self._decided.append(matches.in_order() if program.with_unmatched else matches)
        return outcome.nexts

    def _ends_of_partitions(
        self, searched: Segments, partitions: IntArray, *, final: bool
    ) -> tuple[IntArray, IntArray]:
        """Return the rows each segment's partition begins with and ends before; see `search`."""
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

    def _check(self, outcome: Outcome, segments: Segments) -> None:
        """Raise what ends the search at once; keep the first skip that failed."""
        if outcome.stuck_at is not None:
            seq = segments.seq_of(*outcome.stuck_at)
            raise StepLimitError(
                f"matching PATTERN ({self._program.pattern_text}) from the event with seq {seq} "
                f"takes more than {STEPS_MAX} steps; add WITHIN, or conditions that end the "
                "repetition sooner"
            )
        for row, segment, is_first_row in outcome.failures:
            seq = segments.seq_of(row, segment)
            if self._failure is None or seq < self._failure.first_seq:
                self._failure = _skip_error(self._program, seq, is_first_row=is_first_row)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _up_to(matches: Matches, seq: int) -> int:
    """Return how many matches begin before a row."""
    return int(np.searchsorted(matches.first_seq, seq))


def _skip_error(program: MatchProgram, seq: int, *, is_first_row: bool) -> SkipError:
    mode, name = program.skip.mode.value, program.skip.name
    why = f"maps no row to {name}"
    if is_first_row:
        why = f"has {name} as its first row, so the search would find it again for ever"
    return SkipError(
        f"AFTER MATCH SKIP {mode} {name} cannot go on: the match of PATTERN "
        f"({program.pattern_text}) that begins at the event with seq {seq} {why}; use SKIP PAST "
        "LAST ROW or SKIP TO NEXT ROW",
        first_seq=seq,
    )


if TYPE_CHECKING:
    Matcher = PatternMatcher | StrategyMatcher


def new_matcher(program: MatchProgram, n_events: int | None = None) -> Matcher:
    """Return a matcher of the program, which has seen nothing yet; ``n_events``: see `RowIntake`.

    The strategies are loaded by those who ask for one: most queries need not spend a tenth of a
    second on that.
    """
    if program.strategy is None:
        return PatternMatcher(program, n_events)
    from replay.patterns.strategies.matcher import StrategyMatcher

    return StrategyMatcher(program, n_events)
