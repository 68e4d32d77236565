"""Rows of partitions, wherever they lie: found in blocks further and further away, or by an index.

What is sought are rows of some keys before or behind stretches of blocks. Blocks beside these are
looked at, twice as many each time, until all rows are found or the stream ends; where the index of
the key column tells them with less to read, it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from costmodel.features import PlanFeatures
from costmodel.guard import bearable, in_words
from costmodel.lookups import lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import GATHER_S
from indexing import KeyRange, KeyRanges
from indexing.index import Index
from replay.engines.evidence import BlocksRead
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import bytes_of
from replay.engines.key_filter import NO_KEY, find_keys, find_texts
from replay.engines.scan import decoded
from replay.engines.source import FETCH_BLOCKS, EventSource, fetch_events, seqs_of_blocks
from replay.engines.statistics import SnapshotStatistics
from replay.expressions.columns import Columns, to_plain
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Expression, attributes
from replay.limits import check_limits
from replay.operators.partition_keys import KeyNumbers, group_keys
from replay.planning.ascending import count_on
from replay.planning.block_ranges import count_events, mask_of, ranges_of
from replay.planning.plan import Plan
from replay.planning.statistics import BoolArray, IntArray
from replay.planning.steps import ReplayCosts

PAGE_S: Final = 20e-6
"""Seconds to find and open one column of a block that lies by itself."""

KEY_S: Final = 20e-6
"""Seconds to ask an index for one more key."""


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Rows read beside those of stretches."""

    stretch: IntArray
    """Ordinal of the stretch, ascending."""
    seq: IntArray
    """Ascending within a stretch, none twice."""

    @classmethod
    def of(cls, stretch: IntArray, seq: IntArray) -> Beside:
        """Return rows given in any order, some perhaps twice."""
        order = np.lexsort((seq, stretch))
        stretch, seq = stretch[order], seq[order]
        is_new = np.append(True, (np.diff(stretch) != 0) | (np.diff(seq) != 0))[: len(seq)]
        return cls(stretch[is_new], seq[is_new])

    @classmethod
    def union(cls, parts: Sequence[Beside]) -> Beside:
        """Return the rows of several."""
        return cls.of(
            np.concatenate([part.stretch for part in parts]),
            np.concatenate([part.seq for part in parts]),
        )

    def rows(self, first: int, stop: int) -> IntArray:
        """Return the rows beside the stretches ``first`` to below ``stop``, ascending."""
        begin, end = np.searchsorted(self.stretch, (first, stop))
        seq: IntArray = np.sort(self.seq[begin:end])
        return np.asarray(seq[np.append(True, np.diff(seq) != 0)[: len(seq)]])


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Neighbours sought outside of their stretch; of shape (n,) each."""

    key: IntArray
    stretch: IntArray
    count: IntArray
    """How many rows of the key are missing."""
    is_behind: BoolArray
    """Whether they come after the stretch, not before it."""
    edge: IntArray
    """``seq`` at which the stretch begins, or behind which it ends."""

    def take(self, chosen: BoolArray) -> Wanted:
        """Return some of them."""
        return Wanted(
            self.key[chosen],
            self.stretch[chosen],
            self.count[chosen],
            self.is_behind[chosen],
            self.edge[chosen],
        )


def settle(
    wanted: Wanted, known: IntArray, reach: tuple[IntArray, IntArray], n_events: int
) -> tuple[BoolArray, Beside]:
    """Return which neighbours are found among known rows, or known not to be, and those found.

    ``known`` are rows of the keys as ``key * (n_events + 1) + seq``, ascending, none twice.
    ``reach`` is for each of ``wanted`` the ``seq`` from which on all rows of its key up to the
    stretch are known, and the one up to which all behind it are.
    """
    low, high = reach
    base = wanted.key * (n_events + 1)
    first = np.searchsorted(known, base + np.where(wanted.is_behind, wanted.edge, low))
    stop = np.searchsorted(known, base + np.where(wanted.is_behind, high, wanted.edge))
    is_end = np.where(wanted.is_behind, high >= n_events, low <= 0)
    is_met = is_end | (stop - first >= wanted.count)
    n = np.where(is_met, np.minimum(stop - first, wanted.count), 0)
    first = np.where(wanted.is_behind, first, stop - n)
    places = count_on(first, n)
    seq = known[places] - np.repeat(base, n)
    return is_met, Beside.of(np.repeat(wanted.stretch, n), seq)


@dataclass(frozen=True, slots=True)
class NeighbourCosts:
    """What it takes to find and read rows beside stretches, in seconds."""

    key_block_s: float
    """The key column of one block."""
    row_block_s: float
    """All columns that are matched, of one block by itself."""
    replay_s: float
    """The replay without rows beside it."""
    full_s: float
    """A full replay; infinite where none may take its place."""
    weights: CostParameters

    @classmethod
    def of(
        cls,
        features: PlanFeatures,
        weights: CostParameters,
        blocks: IntArray,
        base: IntArray,
        *,
        is_adaptive: bool,
    ) -> NeighbourCosts:
        """Return the costs of a replay of half-open ranges of blocks, shape (n, 2).

        ``base`` is the first ``seq`` of each block, and ``is_adaptive`` says whether the replay may
        be left for a full one.
        """
        per_block = features.n_events / max(features.n_blocks, 1)
        column_s = PAGE_S + (weights.value_s + GATHER_S) * per_block
        costs = ReplayCosts.of(features, weights)
        return cls(
            column_s,
            weights.block_s + column_s * max(features.n_columns, 1),
            costs.cost(blocks, base) + GATHER_S * count_events(blocks, base),
            costs.full_s if is_adaptive else math.inf,
            weights,
        )

    @property
    def left_s(self) -> float:
        """What may be spent on rows beside before a full replay is quicker."""
        return self.full_s - self.replay_s

    @property
    def risk_s(self) -> float:
        """What may be spent before it is known how far rows beside lie."""
        return min(self.left_s, bearable(self.full_s))

    def index_s(self, n_entries: int, n_keys: int) -> float:
        """Return the seconds to ask the index of the key for so many keys."""
        read, several_keys = np.array([float(n_entries)]), np.array([False])
        asking_s = lookup_cost(read, several_keys, self.weights, keyed=False)
        return float(asking_s[0]) + KEY_S * n_keys

    def why_not(self, n_blocks: int, spent_s: float, key: str | None, *, is_indexed: bool) -> str:
        """Return why everything is replayed instead, in one sentence.

        ``n_blocks`` beside those replayed were looked at, and to find and read rows beside takes
        ``spent_s`` at least.
        """
        where = f" in {n_blocks:,} further blocks" if n_blocks else ""
        helps = (
            "" if is_indexed or not n_blocks else f"; an index on {key} would tell where they are"
        )
        return (
            f"what the intervals cover takes {in_words(self.replay_s)} to replay, and the rows "
            f"that PREV, NEXT, ^ and $ look at beside it {in_words(spent_s)} or more to "
            f"find{where}; reading all in one go takes {in_words(self.full_s)}{helps}"
        )


def index_of(column: str | None, statistics: SnapshotStatistics) -> Index | None:
    """Return the index of a column; None if there is none."""
    if column is None or column not in statistics.indexed:
        return None
    return statistics.indexes.index(column)


class PartitionRows:
    """The rows of some keys, as far as they are known by now.

    Keys are numbered as they come (`number`); ``stretches`` are blocks, shape (n, 2), in which all
    rows of the keys are known (`know`). Without a ``column`` all rows are of one key; rows that do
    not pass ``where`` are of none.
    """

    def __init__(
        self,
        source: EventSource,
        column: str | None,
        stretches: IntArray,
        index: Index | None,
        costs: NeighbourCosts,
        where: Expression | None = None,
    ) -> None:
        self._source, self._column, self._stretches = source, column, stretches
        self._names = () if column is None else (column,)
        self._where = where
        self.columns = sorted({*self._names, *(part.name for part in attributes(where))})
        """Those that `number` reads."""
        self._numbers = KeyNumbers()
        self._stripe = source.n_events + 1
        self._known: IntArray = np.empty(0, np.int64)
        self._low, self._high = stretches[:, 0].copy(), stretches[:, 1].copy()
        self._is_complete: BoolArray = np.zeros(0, np.bool_)
        self._keys: pa.Array | None = None
        """Of the stretches, in the order of their numbers."""
        self.costs = costs
        self.index = index
        self.is_known = mask_of(stretches, source.n_blocks)
        self.spent_s = 0.0
        self.n_entries_read = self.n_bytes_read = 0

    @property
    def n_keys(self) -> int:
        """How many keys have a number."""
        return len(self._numbers)

    def number(self, table: pa.Table) -> IntArray:
        """Return the number of each row's key, a new one for a new key; `NO_KEY`: it has none."""
        return self._passing(self.number_keys(table), table)

    def number_keys(self, table: pa.Table) -> IntArray:
        """Return the number of each key, a new one for a new key."""
        return self._numbers.of(group_keys(Columns(table), table, self._names))

    def _passing(self, numbers: IntArray, table: pa.Table) -> IntArray:
        """Return the numbers of rows' keys, `NO_KEY` of rows that do not pass."""
        if self._where is None:
            return numbers
        return np.where(truths(self._where, Columns(table), Faults()), numbers, NO_KEY)

    def know(self, key: IntArray, seq: IntArray) -> None:
        """Take in rows not known before."""
        # Sorting puts what is in order already together.
        self._known = np.sort(
            np.concatenate((self._known, key * self._stripe + seq)), kind="stable"
        )

    def find(self, wanted: Wanted) -> Beside | None:
        """Return rows sought beside the stretches; None where it was given up."""
        found, n_at_once = [], 1
        self._is_complete = np.zeros(self.n_keys, np.bool_)
        while True:
            check_limits()
            is_met, more = settle(wanted, self._known, self._reach(wanted), self._source.n_events)
            found.append(more)
            wanted = wanted.take(~is_met)
            if not len(wanted.key):
                break
            low, high = self._wider(wanted, n_at_once)
            ranges = np.stack((low, self._low, self._high, high), axis=1).reshape(-1, 2)
            blocks = np.flatnonzero(mask_of(ranges, self._source.n_blocks) & ~self.is_known)
            if self._ask_index(wanted, len(blocks)):
                continue
            self.spent_s += self.costs.key_block_s * len(blocks)
            if self.spent_s > self.costs.risk_s:
                return None
            self._low, self._high = low, high
            self._read(blocks, wanted)
            n_at_once *= 2
        return Beside.union(found)

    def work(
        self, snapshot: Snapshot, rows: Beside | None, columns: Sequence[str]
    ) -> tuple[ExecutionStats, int]:
        """Return what it took, with reading ``columns`` of ``rows``; and how many blocks."""
        in_stretches = mask_of(self._stretches, snapshot.n_blocks)
        of_rows: BoolArray = np.zeros(snapshot.n_blocks, np.bool_)
        if rows is not None:
            of_rows[np.searchsorted(snapshot.bases, rows.seq, side="right") - 1] = True
            of_rows &= ~in_stretches
        walked = self.is_known & ~in_stretches
        n_blocks = int(np.count_nonzero(walked | of_rows))
        self.spent_s += self.costs.row_block_s * int(np.count_nonzero(of_rows))
        work = ExecutionStats(n_blocks=n_blocks, n_entries=self.n_entries_read)
        if rows is not None:
            work += bytes_of(snapshot, ranges_of(of_rows), columns)
        work += bytes_of(snapshot, ranges_of(walked), self.columns)
        n_bytes = self.n_bytes_read
        read = BlocksRead(snapshot, ranges_of(walked | of_rows), n_blocks)
        return work + ExecutionStats(byte_counters=(lambda: n_bytes,), reads=(read,)), n_blocks

    def tables(self, blocks: IntArray, columns: Sequence[str]) -> list[pa.Table]:
        """Return columns of blocks in a few tables."""
        parts = range(0, len(blocks), FETCH_BLOCKS)
        return [
            self._source.read_blocks(blocks[i : i + FETCH_BLOCKS], list(columns)) for i in parts
        ]

    def _number_known(self, table: pa.Table) -> IntArray:
        """Return the numbers of rows' keys; `NO_KEY`, or a new one, where no stretch has it.

        Most keys beside a stretch are not in it: they are told by one look into a table of those
        that are, without a name for each.
        """
        if self._column is None:
            return self.number(table)
        column = table.column(self._column).combine_chunks()
        is_text = pa.types.is_dictionary(column.type) or pa.types.is_string(column.type)
        plain = None if is_text else to_plain(column)
        if plain is not None and pa.types.is_floating(plain.type):  # two zeros, and many NaN
            return self.number(table)
        if self._keys is None:
            names = [name for (name,) in self._numbers.keys]
            self._keys = pa.array(names, pa.string() if plain is None else plain.type)
        if plain is None:
            return self._passing(find_texts(table, self._column, self._keys), table)
        return self._passing(find_keys(plain, self._keys), table)

    def _reach(self, wanted: Wanted) -> tuple[IntArray, IntArray]:
        bases, n_events = self._source.bases, self._source.n_events
        whole = self._is_complete[wanted.key]
        low, high = bases[self._low[wanted.stretch]], bases[self._high[wanted.stretch]]
        return np.where(whole, 0, low), np.where(whole, n_events, high)

    def _wider(self, wanted: Wanted, n_at_once: int) -> tuple[IntArray, IntArray]:
        """Return where stretches begin and end with so many blocks more on sides that want any."""
        n = len(self._stretches)
        before = np.bincount(wanted.stretch[~wanted.is_behind], minlength=n) > 0
        behind = np.bincount(wanted.stretch[wanted.is_behind], minlength=n) > 0
        low = np.where(before, np.maximum(self._low - n_at_once, 0), self._low)
        most = self._source.n_blocks
        return low, np.where(behind, np.minimum(self._high + n_at_once, most), self._high)

    def _read(self, blocks: IntArray, wanted: Wanted) -> None:
        """Read the keys of blocks, and keep the rows of those wanted."""
        is_wanted = self._is_wanted(wanted)
        seq, at = seqs_of_blocks(blocks, self._source.bases), 0
        for table in self.tables(blocks, self.columns):
            numbers = self._number_known(table)
            here = seq[at : at + table.num_rows]
            known = np.flatnonzero((numbers != NO_KEY) & (numbers < len(is_wanted)))
            known = known[is_wanted[numbers[known]]]
            self.know(numbers[known], here[known])
            at += table.num_rows
        self.is_known[blocks] = True

    def _ask_index(self, wanted: Wanted, n_blocks: int) -> bool:
        """Look all rows of the keys up that are wanted, if that is less to read; say whether."""
        if self.index is None:
            return False
        keys = np.flatnonzero(self._is_wanted(wanted) & ~self._is_complete)
        blocks_s = self.costs.key_block_s * n_blocks
        # To estimate what so many keys have takes as long as to ask for them.
        if self.costs.index_s(0, len(keys)) > blocks_s:
            return False
        names = self._numbers.keys
        # Null is a key like any other, but no index has it.
        values = {key: names[key][0] for key in keys.tolist() if names[key][0] is not None}
        if not values:
            return False
        plain = [int(v) if isinstance(v, bool) else v for v in values.values()]
        ranges = KeyRanges.of(KeyRange(value, value) for value in plain)
        n_entries = self.index.estimate_count(ranges)[1]
        index_s = self.costs.index_s(n_entries, len(values))
        if index_s > blocks_s:
            return False
        self.spent_s += index_s
        if self.index.is_of_key and self.index.holds_objects:
            found = [self.index.lookup(ranges, with_objects=True)]
            numbers = [self.number_keys(pa.table({self._column: found[0].objects}))]
        else:  # rows of several keys could not be told apart
            found = [self.index.lookup(KeyRanges.of([KeyRange(v, v)])) for v in plain]
            numbers = [np.full(len(each.seq), key) for key, each in zip(values, found, strict=True)]
        self.n_entries_read += sum(each.n_entries_read for each in found)
        self.n_bytes_read += sum(each.n_bytes_read for each in found)
        self._is_complete[list(values)] = True
        self._known = self._known[~self._is_complete[self._known // self._stripe]]
        seq, key = np.concatenate([each.seq for each in found]), np.concatenate(numbers)
        if self._where is not None:
            order = np.argsort(seq)
            seq, key = seq[order], key[order]
            key = self._passing(key, fetch_events(self._source, self.columns, seq))
        self.know(key[key != NO_KEY], seq[key != NO_KEY])
        return True

    def _is_wanted(self, wanted: Wanted) -> BoolArray:
        """Return which keys are still wanted, by number."""
        is_wanted: BoolArray = np.zeros(len(self._is_complete), np.bool_)
        is_wanted[wanted.key] = True
        return is_wanted


class RowsBefore:
    """Finds the last rows of partitions that pass before some block, and counts what it took."""

    def __init__(
        self,
        snapshot: Snapshot,
        statistics: SnapshotStatistics,
        plan: Plan,
        columns: Sequence[str],
        where: Expression | None,
    ) -> None:
        assert plan.required.row_before_by is not None
        self._snapshot, self._columns = snapshot, list(columns)
        self._column, self._where = plan.required.row_before_by, where
        self._index = index_of(self._column, statistics)
        self._plan = plan
        self.work = ExecutionStats()

    def before(self, block: int, keys: pa.Table) -> tuple[IntArray, pa.Table]:
        """Return the last row of each key before a block, and of which keys there is one."""
        snapshot, plan, n = self._snapshot, self._plan, keys.num_rows
        assert plan.features is not None, "a plan that leaves rows out was weighed"
        at = np.full((n, 2), block)
        costs = NeighbourCosts.of(
            plan.features, plan.weights, at, snapshot.bases, is_adaptive=False
        )
        search = PartitionRows(snapshot, self._column, at, self._index, costs, self._where)
        wanted = Wanted(
            search.number_keys(keys),
            np.arange(n),
            np.ones(n, np.int64),
            np.zeros(n, np.bool_),
            snapshot.bases[at[:, 0]],
        )
        rows = search.find(wanted)
        assert rows is not None, "nothing can take its place"
        self.work += search.work(snapshot, rows, self._columns)[0]
        order = np.argsort(rows.seq)
        places = rows.stretch[order]
        found = decoded(fetch_events(snapshot, self._columns, rows.seq[order]))
        return places, found
