"""The push-based matcher: batches in, matches out, what is undecided kept in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.errors import StepLimitError
from replay.operators.config import RETRY_FRACTION, STEPS_MAX
from replay.operators.matches import Matches
from replay.operators.partitions import PartitionTable, evaluate_grouped, group
from replay.operators.prepared import Prepared
from replay.operators.program import MatchProgram
from replay.operators.search import Found, Outcome, Rows, search

IntArray = npt.NDArray[np.int64]

__all__ = ["MatchStats", "Matches", "PatternMatcher", "Prepared"]


@dataclass(frozen=True, slots=True)
class MatchStats:
    """What a matcher has seen."""

    n_rows: int
    n_matches: int
    n_faults: int
    """Evaluations (of a predicate on a row) whose arithmetic or cast gave NULL."""


class PatternMatcher:
    """Matches one query over stretches of a stream.

    Rows are pushed in order of ``seq``, contiguous within a stretch; ``finish`` ends a stretch.
    State is bounded by the window, or by the longest run of rows that no match is decided for.

    Parameters
    ----------
    program
        The compiled query.
    """

    def __init__(self, program: MatchProgram) -> None:
        self._program = program
        self._pending: Rows | None = None
        self._inbox: list[Rows] = []
        self._n_inbox = 0
        self._deferred: list[tuple[Prepared, int]] = []
        self._next_seq: int | None = None
        self._newest = 0
        self._strings = {text: code for code, text in enumerate(program.across.texts)}
        self._partitions = PartitionTable()
        self._decided: list[Matches] = []
        self._open_seq: int | None = None
        self._n_rows = 0
        self._n_faults = 0
        self._n_matches = 0

    @property
    def n_matches(self) -> int:
        """Number of matches found so far, taken or not."""
        return self._n_matches

    @property
    def n_faults(self) -> int:
        """Number of faults counted so far."""
        return self._n_faults

    @property
    def stats(self) -> MatchStats:
        """What was seen so far."""
        return MatchStats(self._n_rows, self._n_matches, self._n_faults)

    @property
    def n_kept(self) -> int:
        """Number of rows kept because a start among them is not decided yet."""
        pending = 0 if self._pending is None else len(self._pending)
        return pending + self._n_inbox + sum(batch.n_rows for batch, _ in self._deferred)

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
        if self._next_seq is not None and first_seq != self._next_seq:
            raise ValueError(
                f"rows from seq {first_seq} pushed where {self._next_seq} follows; "
                "finish the stretch first"
            )
        self._next_seq = first_seq + n
        self._n_rows += n
        if self._program.needs_all_rows:
            self._deferred.append((prepared, first_seq))
            return
        if len(prepared.times):
            self._newest = int(prepared.times[-1])
        self._inbox.append(self._admit(prepared, first_seq))
        self._n_inbox += n
        pending = 0 if self._pending is None else len(self._pending)
        if self._n_inbox * RETRY_FRACTION >= pending:
            self._search_inbox(final=False)

    def push_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take several whole stretches at once, each finished.

        Parameters
        ----------
        prepared
            Rows of all of them, one after the other.
        starts, n_rows, first_seqs
            First row in ``prepared``, number of rows and first ``seq`` of each stretch.
        """
        if self._next_seq is not None:
            raise ValueError("a stretch is open; finish it before pushing whole ones")
        if self._program.partition_by:
            parts = zip(starts.tolist(), n_rows.tolist(), first_seqs.tolist(), strict=True)
            for start, n, first in parts:
                self.push(prepared.slice(start, n), first)
                self.finish()
            return
        self._n_rows += prepared.n_rows
        rows = self._admit(prepared, 0)
        nexts = starts.astype(np.int64)
        outcome = search(self._program, rows, nexts, nexts + n_rows, final=True, newest=0)
        self._emit(outcome, rows, first_seqs - starts)

    def finish(self) -> None:
        """End the stretch: nothing more is to come, so decide what is pending.

        Match numbers go on in the next stretch.

        Raises
        ------
        StepLimitError
            If one start row takes too many steps.
        """
        if self._deferred:
            self._search_deferred()
        elif self._pending is not None or self._inbox:
            self._search_inbox(final=True)
        self._pending = None
        self._next_seq = None
        self._open_seq = None

    def take(self) -> Matches:
        """Return the matches found since the last call that nothing open can precede."""
        matches = Matches.concat(self._decided, len(self._program.anchors))
        self._decided = []
        if self._program.in_order:
            return matches
        matches = matches.take(np.argsort(matches.first_seq, kind="stable"))
        if self._open_seq is None:
            return matches
        # A start still open in one partition may precede what others have found.
        sure = int(np.searchsorted(matches.first_seq, self._open_seq))
        self._decided = [matches.take(slice(sure, None))]
        return matches.head(sure)

    def _admit(self, prepared: Prepared, first_seq: int) -> Rows:
        """Return the batch's rows as they are searched."""
        seq = partition = None
        if prepared.partitions is not None:
            partition = self._partitions.numbers(prepared.partitions)
            seq = np.arange(first_seq, first_seq + prepared.n_rows, dtype=np.int64)
        return self._to_rows(prepared, seq, partition)

    def _to_rows(
        self, prepared: Prepared, seq: IntArray | None, partition: IntArray | None
    ) -> Rows:
        """Return prepared rows with codes of strings that mean the same in every batch."""
        self._n_faults += prepared.n_faults
        leaves = prepared.leaves.copy() if prepared.strings else prepared.leaves
        known = self._strings
        for strings in prepared.strings:
            table = [known.setdefault(entry, len(known)) for entry in strings.entries]
            leaves[strings.leaf] = np.array([*table, -1], np.int64)[strings.codes]
        return Rows(prepared.words, prepared.times, leaves, prepared.known, seq, partition)

    def _search_inbox(self, *, final: bool) -> None:
        """Search pending and new rows, and keep what stays undecided."""
        rows = Rows.concat([self._pending, *self._inbox] if self._pending else self._inbox)
        self._inbox, self._n_inbox = [], 0
        if rows.group is not None:
            rows, nexts, ends = group(rows, len(self._partitions))
        else:
            nexts, ends = np.zeros(1, np.int64), np.array([len(rows)])
        outcome = search(self._program, rows, nexts, ends, final=final, newest=self._newest)
        assert self._next_seq is not None
        self._emit(outcome, rows, np.array([self._next_seq - len(rows)]))
        if rows.group is None:
            undecided = slice(int(nexts[0]), None)
            self._pending = rows.take(undecided) if nexts[0] < len(rows) else None
            return
        kept = np.arange(len(rows)) >= np.repeat(nexts, np.diff(ends, prepend=0))
        self._pending = rows.take(kept) if kept.any() else None
        open_seqs = None if self._pending is None else self._pending.seq
        self._open_seq = None if open_seqs is None else int(open_seqs.min())

    def _search_deferred(self) -> None:
        """Search a whole stretch whose rows could not be evaluated one batch at a time."""
        evaluated = evaluate_grouped(self._program, self._deferred, self._partitions)
        self._deferred = []
        rows, begins, ends = group(self._to_rows(*evaluated), len(self._partitions))
        nexts = begins.copy()
        outcome = search(self._program, rows, nexts, ends, final=True, newest=0)
        self._emit(_moved(outcome, self._program.offsets, begins, ends), rows, nexts)

    def _emit(self, outcome: Outcome, rows: Rows, shifts: IntArray) -> None:
        """Record matches; rows of segment g without a ``seq`` have theirs ``shifts[g]`` on."""
        if outcome.stuck_at is not None:
            row, segment = outcome.stuck_at
            seq = row + shifts[segment] if rows.seq is None else rows.seq[row]
            raise StepLimitError(
                f"matching PATTERN ({self._program.pattern_text}) from the event with seq {seq} "
                f"takes more than {STEPS_MAX} steps; add WITHIN, or conditions that end the "
                "repetition sooner"
            )
        found = outcome.found
        self._n_faults += outcome.n_faults
        self._n_matches += len(found)
        if not len(found):
            return
        if rows.seq is None or rows.group is None:
            number = np.arange(self._n_matches - len(found) + 1, self._n_matches + 1)
            self._decided.append(_shifted(found, number, shifts[found.segment]))
            return
        number = self._partitions.match_numbers(rows.group[found.first])
        self._decided.append(_looked_up(found, number, rows.seq))


def _shifted(found: Found, number: IntArray, shift: IntArray) -> Matches:
    anchors = np.where(found.anchors < 0, -1, found.anchors + shift[:, None])
    first, last = found.first + shift, found.last + shift
    return Matches(first, last, number, found.classifier, anchors)


def _looked_up(found: Found, number: IntArray, seq: IntArray) -> Matches:
    first = seq[found.first]
    last = np.where(found.last < found.first, first - 1, seq[found.last])
    anchors = np.where(found.anchors < 0, -1, seq[found.anchors])
    return Matches(first, last, number, found.classifier, anchors)


def _moved(outcome: Outcome, offsets: tuple[int, ...], begins: IntArray, ends: IntArray) -> Outcome:
    """Apply PREV and NEXT of measures: anchors move inside their partition, or to no row."""
    found = outcome.found
    moved = found.anchors + np.array(offsets, dtype=np.int64)
    low, high = begins[found.segment, None], ends[found.segment, None]
    anchors = np.where((found.anchors >= 0) & (moved >= low) & (moved < high), moved, -1)
    kept = Found(found.first, found.last, found.classifier, found.segment, anchors)
    return Outcome(kept, outcome.n_faults, outcome.stuck_at)
