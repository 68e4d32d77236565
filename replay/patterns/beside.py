"""Neighbours in partitions found: in the blocks replayed, beside them, or by the key's index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from indexing import KeyRange, KeyRanges
from indexing.index import Index
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import bytes_of
from replay.engines.scan import blocks_of
from replay.engines.source import FETCH_BLOCKS, EventSource, seqs_of_blocks
from replay.engines.statistics import SnapshotStatistics
from replay.expressions.columns import Columns, to_plain
from replay.limits import check_limits
from replay.patterns.key_filter import NO_KEY, KeyFilter, find_keys, find_texts
from replay.patterns.partition_neighbours import (
    Beside,
    NeighbourCosts,
    Wanted,
    settle,
    split_by_stretch,
)
from replay.patterns.partitions import PartitionTable
from replay.patterns.prepared import group_keys
from replay.patterns.program import MatchProgram
from replay.planning.block_ranges import mask_of, ranges_of
from replay.planning.key_join import in_order_of_keys
from replay.planning.plan import Plan
from replay.planning.statistics import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class FoundBeside:
    """What was found of the neighbours of rows replayed."""

    rows: Beside | None
    """None: they are more to read than everything is."""
    work: ExecutionStats


def find_beside(
    snapshot: Snapshot,
    source: EventSource,
    program: MatchProgram,
    plan: Plan,
    statistics: SnapshotStatistics,
    stretches: IntArray,
    keys: KeyFilter | None,
    *,
    is_adaptive: bool,
) -> FoundBeside:
    """Find the rows looked at beside those replayed, as far as it is worth it.

    Parameters
    ----------
    snapshot, source
        The stream, and where it is read.
    program
        A query partitioned by the stream's key column alone, with PREV, NEXT, ``^`` or ``$``.
    plan, statistics
        What is carried out, and what it was made for.
    stretches
        Blocks replayed, shape (n, 2).
    keys
        Tells which of their rows are replayed; None: all.
    is_adaptive
        Whether it may be given up where a full replay is quicker.
    """
    if plan.features is None:  # where nothing was weighed, no block is left
        assert not len(stretches)
        return FoundBeside(Beside.of(*np.empty((2, 0), np.int64)), ExecutionStats())
    (column,) = program.partition_by
    base = statistics.leaves.base
    costs = NeighbourCosts.of(plan.features, plan.weights, stretches, base, is_adaptive=is_adaptive)
    search = _Search(source, column, stretches, _index_of(column, statistics), costs)
    rows = search.run(program, keys)
    in_stretches = mask_of(stretches, snapshot.n_blocks)
    of_rows: BoolArray = np.zeros(snapshot.n_blocks, np.bool_)
    if rows is not None:
        of_rows[np.searchsorted(snapshot.bases, rows.seq, side="right") - 1] = True
        of_rows &= ~in_stretches
    walked = search.is_known & ~in_stretches
    n_blocks = int(np.count_nonzero(walked | of_rows))
    switched = None
    search.spent_s += costs.row_block_s * int(np.count_nonzero(of_rows))
    if rows is None or search.spent_s > costs.left_s:
        rows = None
        is_indexed = search.index is not None
        switched = costs.why_not(n_blocks, search.spent_s, column, is_indexed=is_indexed)
    work = ExecutionStats(n_blocks=n_blocks, n_entries=search.n_entries_read, switched=switched)
    if rows is not None:
        work += bytes_of(snapshot, ranges_of(of_rows), program.columns)
    work += bytes_of(snapshot, ranges_of(walked), [column])
    n_bytes = search.n_bytes_read
    return FoundBeside(rows, work + ExecutionStats(byte_counters=(lambda: n_bytes,)))


def _index_of(column: str, statistics: SnapshotStatistics) -> Index | None:
    """Return the index of the key column, if it can tell the rows of several keys at once."""
    if column not in statistics.indexed:
        return None
    index = statistics.indexes.index(column)
    return index if index.holds_objects else None


class _Search:
    """The rows of some keys, as far as they are known by now."""

    def __init__(
        self,
        source: EventSource,
        column: str,
        stretches: IntArray,
        index: Index | None,
        costs: NeighbourCosts,
    ) -> None:
        self._source, self._column, self._stretches = source, column, stretches
        self._numbers = PartitionTable()
        self._stripe = source.n_events + 1
        self._known: IntArray = np.empty(0, np.int64)
        self._low, self._high = stretches[:, 0].copy(), stretches[:, 1].copy()
        self._is_complete: BoolArray = np.zeros(0, np.bool_)
        self._keys: pa.Array | None = None
        """Of the stretches, in the order of their numbers."""
        self._costs = costs
        self.index = index
        self.is_known = mask_of(stretches, source.n_blocks)
        self.spent_s = 0.0
        self.n_entries_read = self.n_bytes_read = 0

    def run(self, program: MatchProgram, keys: KeyFilter | None) -> Beside | None:
        """Return the rows beside the stretches; None where it was given up."""
        costs = self._costs
        self.spent_s = costs.key_block_s * int(np.count_nonzero(self.is_known))
        if self.spent_s > costs.risk_s:
            return None
        beside, wanted = self._in_stretches(program, keys)
        found, n_at_once = [beside], 1
        self._is_complete = np.zeros(len(self._numbers), np.bool_)
        while True:
            check_limits()
            is_met, more = settle(wanted, self._known, self._reach(wanted), self._source.n_events)
            found.append(more)
            wanted = wanted.take(~is_met)
            if not len(wanted.key):
                break
            blocks = self._next_blocks(wanted, n_at_once)
            if self._ask_index(wanted, len(blocks)):
                continue
            self.spent_s += costs.key_block_s * len(blocks)
            if self.spent_s > costs.risk_s:
                return None
            self._widen(wanted, n_at_once)
            self._read(blocks, wanted)
            n_at_once *= 2
        return Beside.of(
            np.concatenate([part.stretch for part in found]),
            np.concatenate([part.seq for part in found]),
        )

    def _in_stretches(self, program: MatchProgram, keys: KeyFilter | None) -> tuple[Beside, Wanted]:
        """Read the keys of the stretches; return the neighbours there, and what is sought."""
        columns = [self._column] if keys is None else sorted({self._column, *keys.columns})
        blocks = blocks_of(self._stretches)
        seq = seqs_of_blocks(blocks, self._source.bases)
        numbers, replayed = [], []
        at = 0
        for table in self._tables(blocks, columns):
            numbers.append(self._number(table))
            here = seq[at : at + table.num_rows]
            rows = np.arange(table.num_rows) if keys is None else keys.rows(table, here)
            replayed.append(at + rows)
            at += table.num_rows
        key = np.concatenate([np.empty(0, np.int64), *numbers])
        is_replayed: BoolArray | None = None
        places = np.arange(len(key))
        if keys is not None:
            is_replayed = np.zeros(len(key), np.bool_)
            is_replayed[np.concatenate([np.empty(0, np.int64), *replayed])] = True
            is_sought: BoolArray = np.zeros(len(self._numbers), np.bool_)
            is_sought[key[is_replayed]] = True
            places = np.flatnonzero(is_sought[key])
        order = in_order_of_keys(key, places, len(self._numbers))
        key, seq = key[order], seq[order]
        if is_replayed is not None:
            is_replayed = is_replayed[order]
        self._known = key * self._stripe + seq
        edges = self._source.bases[self._stretches]
        stretch = np.searchsorted(edges[:, 0], seq, side="right") - 1
        return split_by_stretch((key, seq, stretch), is_replayed, program.beside, edges)

    def _tables(self, blocks: IntArray, columns: Sequence[str]) -> list[pa.Table]:
        parts = range(0, len(blocks), FETCH_BLOCKS)
        return [
            self._source.read_blocks(blocks[i : i + FETCH_BLOCKS], list(columns)) for i in parts
        ]

    def _number(self, table: pa.Table) -> IntArray:
        return self._numbers.numbers(group_keys(Columns(table), table, (self._column,)))

    def _number_known(self, table: pa.Table) -> IntArray:
        """Return the numbers of rows' keys; `NO_KEY`, or a new one, where no stretch has it.

        Most keys beside a stretch are not in it: they are told by one look into a table of those
        that are, without a name for each.
        """
        column = table.column(self._column).combine_chunks()
        is_text = pa.types.is_dictionary(column.type) or pa.types.is_string(column.type)
        plain = None if is_text else to_plain(column)
        if plain is not None and pa.types.is_floating(plain.type):  # two zeros, and many NaN
            return self._number(table)
        if self._keys is None:
            names = [name for (name,) in self._numbers.to_snapshot()[0]]
            self._keys = pa.array(names, pa.string() if plain is None else plain.type)
        if plain is None:
            return find_texts(table, self._column, self._keys)
        return find_keys(plain, self._keys)

    def _know(self, key: IntArray, seq: IntArray) -> None:
        """Take in rows not known before."""
        # Sorting puts what is in order already together.
        self._known = np.sort(
            np.concatenate((self._known, key * self._stripe + seq)), kind="stable"
        )

    def _reach(self, wanted: Wanted) -> tuple[IntArray, IntArray]:
        bases, n_events = self._source.bases, self._source.n_events
        whole = self._is_complete[wanted.key]
        low, high = bases[self._low[wanted.stretch]], bases[self._high[wanted.stretch]]
        return np.where(whole, 0, low), np.where(whole, n_events, high)

    def _next_blocks(self, wanted: Wanted, n_at_once: int) -> IntArray:
        """Return the blocks to be read next for what is wanted, ascending."""
        back, on = self._open_stretches(wanted)
        low, high = self._low[back], self._high[on]
        ranges = np.concatenate(
            (
                np.stack((np.maximum(low - n_at_once, 0), low), axis=1),
                np.stack((high, np.minimum(high + n_at_once, self._source.n_blocks)), axis=1),
            )
        )
        return np.flatnonzero(mask_of(ranges, self._source.n_blocks) & ~self.is_known)

    def _open_stretches(self, wanted: Wanted) -> tuple[IntArray, IntArray]:
        """Return the stretches something is wanted before, and those behind which it is."""
        n = len(self._stretches)
        counts = [
            np.bincount(wanted.stretch[wanted.is_behind == is_on], minlength=n)
            for is_on in (False, True)
        ]
        return np.flatnonzero(counts[0]), np.flatnonzero(counts[1])

    def _widen(self, wanted: Wanted, n_at_once: int) -> None:
        back, on = self._open_stretches(wanted)
        self._low[back] = np.maximum(self._low[back] - n_at_once, 0)
        self._high[on] = np.minimum(self._high[on] + n_at_once, self._source.n_blocks)

    def _read(self, blocks: IntArray, wanted: Wanted) -> None:
        """Read the keys of blocks, and keep the rows of those wanted."""
        is_wanted = self._is_wanted(wanted)
        seq, at = seqs_of_blocks(blocks, self._source.bases), 0
        for table in self._tables(blocks, [self._column]):
            numbers = self._number_known(table)
            here = seq[at : at + table.num_rows]
            known = np.flatnonzero((numbers != NO_KEY) & (numbers < len(is_wanted)))
            known = known[is_wanted[numbers[known]]]
            self._know(numbers[known], here[known])
            at += table.num_rows
        self.is_known[blocks] = True

    def _ask_index(self, wanted: Wanted, n_blocks: int) -> bool:
        """Look all rows of the keys up that are wanted, if that is less to read; say whether."""
        if self.index is None:
            return False
        keys = np.flatnonzero(self._is_wanted(wanted) & ~self._is_complete)
        blocks_s = self._costs.key_block_s * n_blocks
        # To estimate what so many keys have takes as long as to ask for them.
        if self._costs.index_s(0, len(keys)) > blocks_s:
            return False
        names = self._numbers.to_snapshot()[0]
        # Null is a key like any other, but no index has it.
        values = {key: names[key][0] for key in keys.tolist() if names[key][0] is not None}
        if not values:
            return False
        plain = [int(v) if isinstance(v, bool) else v for v in values.values()]
        ranges = KeyRanges.of(KeyRange(value, value) for value in plain)
        n_entries = self.index.estimate_count(ranges)[1]
        index_s = self._costs.index_s(n_entries, len(values))
        if index_s > blocks_s:
            return False
        self.spent_s += index_s
        found = self.index.lookup(ranges, with_objects=True)
        self.n_entries_read += found.n_entries_read
        self.n_bytes_read += found.n_bytes_read
        numbers = self._number(pa.table({self._column: found.objects}))
        self._is_complete[list(values)] = True
        self._known = self._known[~self._is_complete[self._known // self._stripe]]
        self._know(numbers, found.seq)
        return True

    def _is_wanted(self, wanted: Wanted) -> BoolArray:
        """Return which keys are still wanted, by number."""
        is_wanted: BoolArray = np.zeros(len(self._is_complete), np.bool_)
        is_wanted[wanted.key] = True
        return is_wanted
