"""Rows beside those replayed: neighbours in their partitions that are looked at. Pure.

A row is replayed with as many rows of its key before and behind it as conditions and measures look
at with PREV and NEXT, wherever they lie; one before it tells ``^`` that it is not the first of its
partition, one behind it ``$`` that it is not the last. They are read and never matched: a match
lies in its stretch as before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.features import PlanFeatures
from costmodel.guard import bearable, in_words
from costmodel.lookups import lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import GATHER_S
from replay.planning.ascending import count_on
from replay.planning.block_ranges import count_events
from replay.planning.replay_costs import ReplayCosts
from replay.planning.statistics import BoolArray, IntArray

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


def settle(
    wanted: Wanted, known: IntArray, reach: tuple[IntArray, IntArray], n_events: int
) -> tuple[BoolArray, Beside]:
    """Return which neighbours are found among known rows, or known not to be, and those found.

    Parameters
    ----------
    known
        Known rows of the keys as ``key * (n_events + 1) + seq``, ascending, none twice.
    reach
        For each of ``wanted`` the ``seq`` from which on all rows of its key up to the stretch are
        known, and the one up to which all behind it are.
    n_events
        Of the stream.
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
        """Return the costs of a replay of some blocks.

        Parameters
        ----------
        features, weights
            What the plan was chosen by.
        blocks, base
            Half-open ranges of blocks, shape (n, 2), and the first ``seq`` of each block.
        is_adaptive
            Whether it may be left for a full replay.
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

    def why_not(self, n_blocks: int, spent_s: float, key: str, *, is_indexed: bool) -> str:
        """Return why everything is replayed instead, in one sentence.

        Parameters
        ----------
        n_blocks
            Blocks beside those replayed that were looked at.
        spent_s
            What finding and reading rows beside takes, at least.
        key
            Name of the key column.
        is_indexed
            Whether an index tells where the rows of a key are.
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
