"""Sets of lookups worth an estimate: Pareto frontiers of index cost and replay cost."""

from __future__ import annotations

from itertools import count
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.features import PlanFeatures
from costmodel.lookups import lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import estimate

FRONTIER_MAX: Final = 24
"""Sets kept of a frontier of a part of the pattern: the cheapest, more are never needed."""

IMPROVED: Final = 4
"""Best sets of a search that are improved by exchanging single lookups."""


class Weighed:
    """Sets of lookups and their costs, each estimated once.

    A set is a row of bools, one for each lookup.
    """

    def __init__(self, features: PlanFeatures, parameters: CostParameters) -> None:
        self.features = features
        self._parameters = parameters
        self._least = lookup_cost(
            features.lookup_entries, features.is_in_order, parameters, keyed=features.is_keyed
        )
        self._places: dict[bytes, int] = {}
        self._costs: list[float] = []
        self._index_costs: list[float] = []

    @property
    def n_lookups(self) -> int:
        """How many lookups there are to choose from."""
        return len(self._least)

    @property
    def n_examined(self) -> int:
        """Sets estimated so far."""
        return len(self._costs)

    @property
    def best(self) -> float:
        """Least cost seen."""
        return min(self._costs, default=np.inf)

    def least_cost(self, sets: BoolArray) -> FloatArray:
        """Return the seconds the lookups alone take at least, shape (n,)."""
        return np.asarray(sets @ self._least)

    def index_cost(self, sets: BoolArray) -> FloatArray:
        """Return the seconds the lookups alone are estimated to take, shape (n,)."""
        self.cost(sets)
        return np.array([self._index_costs[self._places[key]] for key in _keys(sets)])

    def cost(self, sets: BoolArray) -> FloatArray:
        """Return the seconds each set takes, shape (n,); estimates only sets not yet seen."""
        keys = _keys(sets)
        new: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in self._places:
                new.setdefault(key, row)
        if new:
            rows = list(new.values())
            selected = sets[rows][:, self.features.lookup]
            found = estimate(self.features, selected, self._parameters)
            self._places.update(zip(new, count(len(self._costs)), strict=False))
            self._costs += found.cost.tolist()
            self._index_costs += found.index_cost.tolist()
        return np.array([self._costs[self._places[key]] for key in keys])

    def ranking(self) -> tuple[BoolArray, FloatArray]:
        """Return all sets seen, cheapest first; of equal ones that with fewer lookups."""
        keys = np.frombuffer(b"".join(self._places), dtype=np.uint8)
        width = -(-self.n_lookups // 8)
        packed = keys.reshape(len(self._places), width)
        sets = np.unpackbits(packed, axis=1, count=self.n_lookups).astype(np.bool_)
        costs = np.array(self._costs)
        order = np.lexsort((sets.sum(axis=1), costs))
        return sets[order], costs[order]

    def by_block(self) -> list[list[int]]:
        """Return the lookups of each basic block that has any, most selective first.

        A lookup whose conditions lie in several blocks stands in each of them.
        """
        entries, blocks = self.features.lookup_entries, self.features.basic_block
        members = [
            sorted(set(self.features.lookup[blocks == b].tolist()), key=lambda i: entries[i])
            for b in dict.fromkeys(sorted(blocks.tolist()))
        ]
        return members


def _keys(sets: BoolArray) -> list[bytes]:
    packed = np.packbits(sets, axis=1)
    width = packed.shape[1]
    joined = packed.tobytes()
    return [joined[at : at + width] for at in range(0, len(joined), width)] if width else []


def printed_frontiers(weighed: Weighed) -> list[BoolArray]:
    """Return for each number of lookups the frontier of replay and index cost.

    Thesis Algorithm 3.2 as printed, with the costs of each partial set taken as a plan.
    """
    n = weighed.n_lookups
    return _printed([_prefixes(block, n) for block in weighed.by_block()], weighed)


def _prefixes(block: list[int], n_lookups: int) -> BoolArray:
    """Return the sets of the k most selective lookups of a block, k = 0, 1, ..."""
    sets = np.zeros((len(block) + 1, n_lookups), dtype=np.bool_)
    for k, lookup in enumerate(block):
        sets[k + 1 :, lookup] = True
    return sets


def _printed(blocks: list[BoolArray], weighed: Weighed) -> list[BoolArray]:
    if len(blocks) == 1:
        return [blocks[0][k : k + 1] for k in range(len(blocks[0]))]
    half = len(blocks) // 2
    left, right = _printed(blocks[:half], weighed), _printed(blocks[half:], weighed)
    merged = [
        np.concatenate(
            [
                _unions(left[i], right[k - i])
                for i in range(max(0, k - len(right) + 1), min(k, len(left) - 1) + 1)
            ]
        )
        for k in range(len(left) + len(right) - 1)
    ]
    weighed.cost(np.concatenate(merged))
    return [_pareto(sets, weighed) for sets in merged]


def _unions(left: BoolArray, right: BoolArray) -> BoolArray:
    return np.asarray((left[:, None] | right[None]).reshape(-1, left.shape[1]))


def _pareto(sets: BoolArray, weighed: Weighed) -> BoolArray:
    """Return the sets that no other beats in both index and replay cost, cheapest lookups first."""
    index = weighed.index_cost(sets)
    replay = weighed.cost(sets) - index
    order = np.lexsort((replay, index))
    least = np.minimum.accumulate(replay[order])
    ahead = np.concatenate(([True], replay[order][1:] < least[:-1]))
    return np.asarray(sets[order[ahead]])


def search(weighed: Weighed, *, slack: float) -> None:
    """Estimate the sets among which the cheapest is, or one hardly dearer.

    Parameters
    ----------
    weighed
        Takes what is found.
    slack
        Sets whose lookups alone cost more than this many times the best set known are left out.

    Notes
    -----
    Thesis Algorithm 3.2 with three changes. Frontiers are kept apart by whether they use the
    pattern's first and last basic block, since (S1)-(S3) make the replay cost depend on it. Sets
    are not kept apart by their number of lookups, but bounded by their lookups' cost; what Greedy
    looks at is looked at too, since many common blocks may be rare only together, and a part of
    them saves nothing, and so are the pairs with the most selective lookup. And the best are
    improved by exchanging single lookups: the most selective lookups of a block are the best only
    if selectivity is the same in all segments.
    """
    n = weighed.n_lookups
    blocks = [_prefixes(block, n) for block in weighed.by_block()]
    by_entries = np.argsort(weighed.features.lookup_entries, kind="stable")
    prefixes = _prefixes(by_entries.tolist(), n)
    with_rarest = prefixes[1] | np.eye(n, dtype=np.bool_)
    weighed.cost(np.concatenate([prefixes, with_rarest, *blocks]))
    _merged(blocks, weighed, slack)
    for _ in range(n):
        before = weighed.best
        sets, _ = weighed.ranking()
        around = np.concatenate([_exchanged(s) for s in sets[:IMPROVED]])
        weighed.cost(around[weighed.least_cost(around) <= weighed.best])
        if weighed.best >= before:
            break


def _merged(blocks: list[BoolArray], weighed: Weighed, slack: float) -> BoolArray:
    if len(blocks) == 1:
        return blocks[0]
    half = len(blocks) // 2
    left, right = _merged(blocks[:half], weighed, slack), _merged(blocks[half:], weighed, slack)
    sets = _unions(left, right)
    sets = sets[weighed.least_cost(sets) <= slack * weighed.best]
    cost = weighed.cost(sets)
    by_class = _end_blocks(weighed.features, sets)
    kept = []
    for wanted in range(4):
        here = by_class == wanted
        if here.any():
            front = _pareto(sets[here], weighed)
            if len(front) > FRONTIER_MAX:
                front = front[np.argsort(weighed.cost(front), kind="stable")[:FRONTIER_MAX]]
            kept.append(front)
    return np.concatenate(kept) if kept else sets[np.argsort(cost)[:1]]


def _end_blocks(features: PlanFeatures, sets: BoolArray) -> IntArray:
    """Return 1 for sets that use the pattern's first basic block, plus 2 if the last."""
    result = np.zeros(len(sets), dtype=np.int64)
    for value, block in ((1, 0), (2, len(features.block_lengths) - 1)):
        members = np.unique(features.lookup[features.basic_block == block])
        result += value * sets[:, members].any(axis=1)
    return result


def _exchanged(chosen: BoolArray) -> BoolArray:
    """Return the sets with one lookup more, one less, or one in place of another."""
    inside, outside = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    one = np.tile(chosen, (len(chosen), 1)) ^ np.eye(len(chosen), dtype=np.bool_)
    swaps = np.tile(chosen, (len(inside) * len(outside), 1))
    rows = np.arange(len(swaps))
    swaps[rows, np.repeat(inside, len(outside))] = False
    swaps[rows, np.tile(outside, len(inside))] = True
    return np.concatenate([one, swaps])
