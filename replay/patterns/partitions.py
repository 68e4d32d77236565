"""Partitions across batches: their numbers, the grouping of rows by them, their match numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns
from replay.language.bound import attributes
from replay.limits import check_limits
from replay.operators.partition_keys import Key, KeyNumbers, Partitions, group_keys
from replay.operators.place_kernels import order_rows
from replay.patterns.prepared import BEFORE, BEHIND, Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SPARSE = 4
"""With this many times more partitions than rows, only those that have rows are visited."""

NEVER = -1
"""Sequence number of a row that has not come."""


class PartitionTable:
    """Gives each key of PARTITION BY a number that stays, and keeps what is known of it."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._numbers = KeyNumbers(keys)
        self.n_matches: IntArray = np.zeros(0, np.int64)
        """Matches of each partition so far."""
        self.first_seq: IntArray = np.zeros(0, np.int64)
        """``seq`` of each partition's first row, where `note_first_rows` was told."""
        self.covered_to: IntArray = np.zeros(0, np.int64)
        """Greatest ``seq`` of a row that is mapped, ``NEVER`` for none; callers update it."""

    @classmethod
    def of_one(cls) -> PartitionTable:
        """Return the table of a stream that is not partitioned."""
        table = cls([()])
        table._grow()
        return table

    def __len__(self) -> int:
        return len(self._numbers)

    def _grow(self) -> None:
        """Make room for partitions that have come."""
        n_more = 2 * len(self) - len(self.n_matches)
        if len(self.n_matches) >= len(self):
            return
        never = np.full(n_more, NEVER)
        self.n_matches = np.concatenate([self.n_matches, np.zeros(n_more, np.int64)])
        self.first_seq = np.concatenate([self.first_seq, never])
        self.covered_to = np.concatenate([self.covered_to, never])

    def numbers(self, partitions: Partitions) -> IntArray:
        """Return the partition's number for every row of a batch."""
        found = self._numbers.of(partitions)
        self._grow()
        return found

    def forget_others(self, kept: IntArray) -> IntArray:
        """Forget all partitions but ``kept``, ascending, and number these anew in the same order.

        Returns by its old number the new one of each partition, -1 for those forgotten.
        """
        keys = self._numbers.keys
        numbers = np.full(len(keys), -1)
        numbers[kept] = np.arange(len(kept))
        self._numbers = KeyNumbers(keys[old] for old in kept.tolist())
        self.n_matches, self.first_seq = self.n_matches[kept], self.first_seq[kept]
        self.covered_to = self.covered_to[kept]
        return numbers

    def note_first_rows(self, partitions: IntArray, seq: IntArray) -> None:
        """Take the first row of each partition at hand, in order; one of a new one is its first."""
        present, first = np.unique(partitions, return_index=True)
        unseen = self.first_seq[present] == NEVER
        self.first_seq[present[unseen]] = seq[first[unseen]]

    def match_numbers(self, partition: IntArray) -> IntArray:
        """Return MATCH_NUMBER of further matches, given by the partition of each.

        Matches of a partition stand together, in their order.
        """
        if not len(partition):
            return partition
        if len(self) == 1:
            before = int(self.n_matches[0])
            self.n_matches[0] = before + len(partition)
            return np.arange(before + 1, before + len(partition) + 1)
        begins = np.flatnonzero(np.diff(partition, prepend=-1))
        counts = np.diff(begins, append=len(partition))
        rank = np.arange(len(partition)) - np.repeat(begins, counts) + 1
        numbers = self.n_matches[partition] + rank
        self.n_matches[partition[begins]] += counts
        return numbers

    def to_snapshot(self) -> tuple[list[Key], IntArray]:
        """Return the keys by number, and what is known of each partition."""
        known = np.stack([self.n_matches, self.first_seq, self.covered_to])
        return self._numbers.keys, known[:, : len(self)]

    @classmethod
    def from_snapshot(cls, keys: list[Key], known: IntArray) -> PartitionTable:
        """Return the table that gave the snapshot."""
        table = cls(keys)
        table.n_matches, table.first_seq, table.covered_to = (row.copy() for row in known)
        return table


@dataclass(frozen=True, slots=True)
class PartitionEdges:
    """What tells the first and the last row of each partition of a stream.

    Rows say it themselves where they were read with their neighbours (`Prepared.moved`).
    """

    asked: tuple[int, ...]
    """As `MatchProgram.partition_edges`."""
    n_events: int | None
    """Of a stream that is not partitioned; None: otherwise what is pushed is all there is."""

    @classmethod
    def of(cls, program: MatchProgram, n_events: int | None) -> PartitionEdges:
        """Return what tells the edges for a program over a stream of so many events, if known."""
        return cls(program.partition_edges, None if program.partition_by else n_events)

    def are_first(self, rows: Rows, at: IntArray, seq: IntArray, noted: IntArray | None) -> Bools:
        """Return whether the rows ``at`` are the first of their partitions; False where none asks.

        ``noted`` is the ``seq`` of the row pushed first of the partition of each; None: unknown.
        """
        if BEFORE in self.asked:
            if rows.moved is not None:
                return np.less(rows.moved[BEFORE][at], 0)
            if self.n_events is not None:
                return np.equal(seq, 0)
            if noted is not None:
                return np.equal(seq, noted)
        return np.zeros(len(at), np.bool_)

    def are_last(self, rows: Rows, at: IntArray, seq: IntArray) -> Bools:
        """Return whether rows, the last at hand of their partitions, are the last there are.

        True where none asks, and where more may still be pushed: that is told by a stretch's end.
        """
        if BEHIND in self.asked:
            if rows.moved is not None:
                return np.less(rows.moved[BEHIND][at], 0)
            if self.n_events is not None:
                return np.equal(seq, self.n_events - 1)
        return np.ones(len(at), np.bool_)


def group(rows: Rows, n_partitions: int) -> tuple[Rows, IntArray, IntArray]:
    """Bring the rows of each partition together, keeping their order.

    Returns the rows, and begin and end (half-open) of each partition that may have rows.
    """
    assert rows.group is not None
    codes = rows.group
    if n_partitions > SPARSE * len(codes):
        present, codes = np.unique(codes, return_inverse=True)
        n_partitions = len(present)
    order, begins = order_rows(codes, n_partitions)
    return rows.take(order), begins[:-1].copy(), begins[1:].copy()


def partitions_of(rows: Rows, begins: IntArray, ends: IntArray) -> IntArray:
    """Return the partition of each segment of grouped rows; 0 for one without rows."""
    assert rows.group is not None
    present = ends > begins
    return np.where(present, rows.group[np.where(present, begins, 0)], 0)


def evaluate_grouped(
    program: MatchProgram, batches: Sequence[tuple[Prepared, int]], partitions: PartitionTable
) -> tuple[Prepared, IntArray, IntArray]:
    """Evaluate predicates on a whole stretch grouped by partition, so that PREV and NEXT stay in.

    Returns the rows of each partition together, and the ``seq`` and the partition of each.
    """
    table = pa.concat_tables([batch.table for batch, _ in batches]).unify_dictionaries()
    check_limits()
    numbers = partitions.numbers(group_keys(Columns(table), table, program.partition_by))
    check_limits()
    order, _ = order_rows(numbers, len(partitions))
    grouped = numbers[order]
    columns = Columns(table.take(pa.array(order)), segments=grouped)
    check_limits()
    return program.evaluate(columns, None), order + batches[0][1], grouped


def evaluate_among(
    program: MatchProgram, table: pa.Table, seq: IntArray, rows: IntArray
) -> Prepared:
    """Evaluate predicates on ``rows``, ascending, of a table that has their neighbours, too.

    The table is in stream order and has for each of ``rows`` the nearest of its partition, as many
    as ``program.beside`` says or there are. So the next row of a partition at hand is its next one
    in the stream, as far as is looked.
    """
    partitions = group_keys(Columns(table), table, program.partition_by)
    order, begins = order_rows(partitions.codes, len(partitions.keys))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    of_rows = partitions.codes[rows]

    def moved(offset: int) -> IntArray:
        to = place[rows] + offset
        there = (to >= begins[of_rows]) & (to < begins[of_rows + 1])
        return np.where(there, order[np.where(there, to, 0)], -1) if len(order) else rows

    told = program.told_offsets
    offsets = {read.offset for define in program.query.defines for read in attributes(define)}
    places = {offset: moved(offset) for offset in (*offsets, *told)}
    columns = Columns(table, places={**places, 0: rows})
    prepared = program.evaluate(columns, replace(partitions, codes=of_rows))
    seqs = {o: np.where(places[o] < 0, -1, seq[places[o]]) for o in told}
    return replace(prepared, seq=seq[rows], moved=seqs)
