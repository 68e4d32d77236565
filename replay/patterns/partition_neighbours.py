"""Rows beside those replayed: neighbours in their partitions that are looked at.

A row is replayed with as many rows of its key before and behind it as conditions and measures look
at with PREV and NEXT, wherever they lie; one before it tells ``^`` that it is not the first of its
partition, one behind it ``$`` that it is not the last. They are read and never matched: a match
lies in its stretch as before. They are found in the blocks replayed, in blocks beside them, or by
the key's index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chronicle import Snapshot
from replay.engines.execution_stats import ExecutionStats
from replay.engines.key_filter import NO_KEY, KeyFilter
from replay.engines.partition_rows import Beside, NeighbourCosts, PartitionRows, Wanted, index_of
from replay.engines.scan import blocks_of
from replay.engines.source import EventSource, seqs_of_blocks
from replay.engines.statistics import SnapshotStatistics
from replay.language.bound import Expression
from replay.planning.key_join import in_order_of_keys
from replay.planning.plan import Plan
from replay.planning.statistics import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Looks:
    """What is looked at beside rows that are replayed."""

    key: str | None
    """The column in which rows agree with those they stand beside; None: all do."""
    beside: tuple[int, int]
    """How many rows before and behind each."""
    columns: Sequence[str]
    """What is read of them."""
    where: Expression | None = None
    """Which rows count; None: all."""


def split_by_stretch(
    rows: tuple[IntArray, IntArray, IntArray],
    is_replayed: BoolArray | None,
    looks: tuple[int, int],
    edges: IntArray,
) -> tuple[Beside, Wanted]:
    """Return the neighbours that lie in their stretch, and what is sought outside.

    Parameters
    ----------
    rows
        Key, ``seq`` and stretch of all rows in stretches whose key has a row that is replayed, in
        order of key and then ``seq``.
    is_replayed
        Which of them are; None: all.
    looks
        Rows of the key that are looked at before and behind each.
    edges
        First ``seq`` of each stretch and the one behind its last, shape (n_stretches, 2).
    """
    key, seq, stretch = rows
    is_new = np.append(True, (np.diff(key) != 0) | (np.diff(stretch) != 0))[: len(key)]
    begins = np.flatnonzero(is_new)
    ends = np.append(begins[1:], len(key))[: len(begins)]
    near = [np.empty(0, np.int64)]
    groups = np.arange(len(begins))
    ahead = behind = np.zeros(len(begins), np.int64)
    if is_replayed is not None:
        at = np.flatnonzero(is_replayed)
        group = np.searchsorted(begins, at, side="right") - 1
        low, high = begins[group], ends[group]
        for offset in (*range(-looks[0], 0), *range(1, looks[1] + 1)):
            to = at + offset
            to = to[(to >= low) & (to < high)]
            near.append(to[~is_replayed[to]])
        is_first = np.append(True, np.diff(group) != 0)[: len(group)]
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], len(at))[: len(first)] - 1
        groups = group[first]
        ahead, behind = at[first] - begins[groups], ends[groups] - 1 - at[last]
    beside = np.concatenate(near)
    missing = np.concatenate((looks[0] - ahead, looks[1] - behind))
    both = np.concatenate((groups, groups))
    is_behind = np.repeat((False, True), len(groups))
    of = stretch[begins[both]]
    wanted = Wanted(key[begins[both]], of, missing, is_behind, edges[of, is_behind.astype(int)])
    return Beside.of(stretch[beside], seq[beside]), wanted.take(missing > 0)


def find_beside(
    snapshot: Snapshot,
    source: EventSource,
    looks: Looks,
    plan: Plan,
    statistics: SnapshotStatistics,
    stretches: IntArray,
    keys: KeyFilter | None,
    *,
    is_adaptive: bool,
) -> tuple[Beside | None, ExecutionStats]:
    """Find the rows looked at beside those replayed, and say what that took.

    None where they are more to read than everything is, which can be if ``is_adaptive``.

    Parameters
    ----------
    looks
        What is looked at.
    stretches
        Blocks replayed, shape (n, 2).
    keys
        Tells which of their rows are replayed; None: all.
    """
    if plan.features is None:  # where nothing was weighed, no block is left
        assert not len(stretches)
        return Beside.of(*np.empty((2, 0), np.int64)), ExecutionStats()
    base = statistics.leaves.base
    costs = NeighbourCosts.of(plan.features, plan.weights, stretches, base, is_adaptive=is_adaptive)
    index = index_of(looks.key, statistics)
    search = PartitionRows(source, looks.key, stretches, index, costs, looks.where)
    rows = _find(search, source, looks.beside, stretches, keys)
    work, n_blocks = search.work(snapshot, rows, looks.columns)
    if rows is None or search.spent_s > costs.left_s:
        is_indexed = search.index is not None or looks.key is None
        switched = costs.why_not(n_blocks, search.spent_s, looks.key, is_indexed=is_indexed)
        return None, work + ExecutionStats(switched=switched)
    return rows, work


def _find(
    search: PartitionRows,
    source: EventSource,
    looks: tuple[int, int],
    stretches: IntArray,
    keys: KeyFilter | None,
) -> Beside | None:
    """Return the rows beside the stretches; None where it was given up."""
    costs = search.costs
    search.spent_s = costs.key_block_s * int(np.count_nonzero(search.is_known))
    if search.spent_s > costs.risk_s:
        return None
    beside, wanted = _in_stretches(search, source, looks, stretches, keys)
    further = search.find(wanted)
    return None if further is None else Beside.union((beside, further))


def _in_stretches(
    search: PartitionRows,
    source: EventSource,
    looks: tuple[int, int],
    stretches: IntArray,
    keys: KeyFilter | None,
) -> tuple[Beside, Wanted]:
    """Read the keys of the stretches; return the neighbours there, and what is sought."""
    columns = search.columns if keys is None else sorted({*search.columns, *keys.columns})
    blocks = blocks_of(stretches)
    seq = seqs_of_blocks(blocks, source.bases)
    numbers, replayed = [], []
    at = 0
    for table in search.tables(blocks, columns):
        numbers.append(search.number(table))
        here = seq[at : at + table.num_rows]
        rows = np.arange(table.num_rows) if keys is None else keys.rows(table, here)
        replayed.append(at + rows)
        at += table.num_rows
    key = np.concatenate([np.empty(0, np.int64), *numbers])
    is_replayed: BoolArray | None = None
    places = np.flatnonzero(key != NO_KEY)
    if keys is not None:
        is_replayed = np.zeros(len(key), np.bool_)
        is_replayed[np.concatenate([np.empty(0, np.int64), *replayed])] = True
        is_sought: BoolArray = np.zeros(search.n_keys, np.bool_)
        is_sought[key[is_replayed]] = True
        places = np.flatnonzero(is_sought[key])
    order = in_order_of_keys(key, places, search.n_keys)
    key, seq = key[order], seq[order]
    if is_replayed is not None:
        is_replayed = is_replayed[order]
    search.know(key, seq)
    edges = source.bases[stretches]
    stretch = np.searchsorted(edges[:, 0], seq, side="right") - 1
    return split_by_stretch((key, seq, stretch), is_replayed, looks, edges)
