"""Selection of lookups by the thesis' strategies: sets, their costs, their Pareto frontiers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.features import PlanFeatures
from costmodel.lookups import lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import estimate

ENUMERATED_MAX: Final = 10
"""Lookups up to which Optimal looks at all sets (1,024)."""

EXHAUSTIVE_MAX: Final = 20
"""Lookups up to which exhaustive search is offered (a million sets)."""

_FEW: Final = 64
"""Sets so few that all are estimated in hardly more time than one."""

_AT_ONCE: Final = 4096
"""Sets estimated together: their arrays stay small."""

FRONTIER_MAX: Final = 24
"""Sets kept of a frontier of a part of the pattern: the cheapest, more are never needed."""

IMPROVED: Final = 4
"""Best sets of a search that are improved by exchanging single lookups."""


class Strategy(Enum):
    """How the lookups of a plan are selected."""

    OPTIMAL = "optimal"
    """All sets of up to ten lookups; of more, frontiers merged over basic blocks."""
    PARETO = "pareto"
    """Thesis Algorithm 3.2 as printed."""
    GREEDY = "greedy"
    """The k most selective lookups, for the best k of 1, 2, ..."""
    ALL = "all"
    """Every lookup there is."""
    BUDGET = "budget"
    """The most selective lookup, and the next as long as the estimated cost falls [Sei+19]_."""
    EXHAUSTIVE = "exhaustive"
    """All sets of up to twenty lookups: slow, for comparison."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What a strategy selects."""

    chosen: BoolArray
    """Conditions used, shape (n_conditions,); none at all is the tree plan."""
    cost: float
    """Estimated seconds."""
    n_examined: int
    """Sets of lookups whose cost was estimated."""


def select(
    features: PlanFeatures,
    parameters: CostParameters,
    strategy: Strategy = Strategy.OPTIMAL,
) -> Selection:
    """Select the lookups of a plan; without any lookup the only plan is the empty one.

    All strategies but `ALL` compare estimated costs; `GREEDY` and `BUDGET` select at least one
    lookup. Thesis 3.4.3, "Selection Strategy", and the strategies of 3.5.3.

    Raises
    ------
    ValueError
        If exhaustive search is asked for among more than twenty lookups.

    References
    ----------
    .. [Sei+19] M. Seidemann et al., ChronicleDB: a high-performance event store, ACM TODS 44
       (2019), as described in the thesis, 3.5.3.
    """
    n = len(features.lookup_entries)
    if n == 0:
        tree = np.zeros((1, 0), dtype=np.bool_)
        return Selection(tree[0], float(estimate(features, tree, parameters).cost[0]), 1)
    weighed = _Weighed(features, parameters)
    if strategy is Strategy.OPTIMAL:
        if weighed.n_lookups <= ENUMERATED_MAX:
            _enumerate(weighed)
        else:
            _search(weighed)
    elif strategy is Strategy.PARETO:
        blocks = [_prefixes(block, weighed.n_lookups) for block in weighed.by_block()]
        weighed.cost(np.concatenate(_printed(blocks, weighed)))
    elif strategy is Strategy.BUDGET:
        _add_while_cheaper(weighed)
    elif strategy is Strategy.EXHAUSTIVE:
        _enumerate(weighed, every=True)
    else:
        best_first = _most_selective(features)
        weighed.cost(best_first[-1:] if strategy is Strategy.ALL else best_first)
    sets, costs = weighed.ranking()
    return Selection(sets[0][features.lookup], float(costs[0]), weighed.n_examined)


def _enumerate(weighed: _Weighed, *, every: bool = False) -> None:
    """Estimate every set, or leave out those whose lookups alone cost more than the best one."""
    n = weighed.n_lookups
    if n > EXHAUSTIVE_MAX:
        raise ValueError(f"{n} lookups have too many sets; at most {EXHAUSTIVE_MAX} are supported")
    if not every and 2**n > _FEW:
        weighed.cost(np.concatenate([_most_selective(weighed.features), np.eye(n, dtype=np.bool_)]))
    for start in range(0, 2**n, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, 2**n))
        sets = _sets(numbers, n)
        if not every and weighed.n_examined:
            sets = sets[weighed.least_cost(sets) <= weighed.best]
        weighed.cost(sets)


def _sets(numbers: IntArray, n: int) -> BoolArray:
    """Return the sets of ``n`` lookups with these numbers; 0 is the empty one."""
    return np.asarray((numbers[:, None] >> np.arange(n)) & 1, dtype=np.bool_)


def _most_selective(features: PlanFeatures) -> BoolArray:
    """Return the sets of the k most selective lookups, k = 1, 2, ..., shape (n, n)."""
    entries: FloatArray = features.lookup_entries
    rank = np.empty(len(entries), dtype=np.int64)
    rank[np.argsort(entries, kind="stable")] = np.arange(len(entries))
    sizes = np.arange(1, len(entries) + 1)
    return np.asarray(rank < sizes[:, None])


def _add_while_cheaper(weighed: _Weighed) -> None:
    cost = np.inf
    for chosen in _most_selective(weighed.features):
        now = float(weighed.cost(chosen[None])[0])
        if now >= cost:
            return
        cost = now


class _Weighed:
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


def _prefixes(block: list[int], n_lookups: int) -> BoolArray:
    """Return the sets of the k most selective lookups of a block, k = 0, 1, ..."""
    sets = np.zeros((len(block) + 1, n_lookups), dtype=np.bool_)
    for k, lookup in enumerate(block):
        sets[k + 1 :, lookup] = True
    return sets


def _printed(blocks: list[BoolArray], weighed: _Weighed) -> list[BoolArray]:
    """Return for each number of lookups the frontier of replay and index cost.

    Thesis Algorithm 3.2 as printed, with the costs of each partial set taken as a plan.
    """
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


def _pareto(sets: BoolArray, weighed: _Weighed) -> BoolArray:
    """Return the sets that no other beats in both index and replay cost, cheapest lookups first."""
    index = weighed.index_cost(sets)
    replay = weighed.cost(sets) - index
    order = np.lexsort((replay, index))
    least = np.minimum.accumulate(replay[order])
    ahead = np.concatenate(([True], replay[order][1:] < least[:-1]))
    return np.asarray(sets[order[ahead]])


def _search(weighed: _Weighed) -> None:
    """Estimate the sets among which the cheapest is, or one hardly dearer.

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
    _merged(blocks, weighed)
    for _ in range(n):
        before = weighed.best
        sets, _ = weighed.ranking()
        around = np.concatenate([_exchanged(s) for s in sets[:IMPROVED]])
        weighed.cost(around[weighed.least_cost(around) <= weighed.best])
        if weighed.best >= before:
            break


def _merged(blocks: list[BoolArray], weighed: _Weighed) -> BoolArray:
    if len(blocks) == 1:
        return blocks[0]
    half = len(blocks) // 2
    left, right = _merged(blocks[:half], weighed), _merged(blocks[half:], weighed)
    sets = _unions(left, right)
    sets = sets[weighed.least_cost(sets) <= weighed.best]
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
