"""Selection: which lookups to use, by several strategies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters
from costmodel.plan_cost import estimate
from costmodel.thesis.frontier import Weighed, printed_frontiers, search

ENUMERATED_MAX: Final = 10
"""Lookups up to which Optimal looks at all sets (1,024)."""

EXHAUSTIVE_MAX: Final = 20
"""Lookups up to which exhaustive search is offered (a million sets)."""

_FEW: Final = 64
"""Sets so few that all are estimated in hardly more time than one."""

_AT_ONCE: Final = 4096
"""Sets estimated together: their arrays stay small."""


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
    """Select the lookups of a plan.

    Pure. Without any lookup the only plan is the empty one.

    Parameters
    ----------
    features, parameters
        As for `costmodel.estimate`.
    strategy
        All but `ALL` compare estimated costs. `GREEDY` and `BUDGET` select at least one lookup.

    Raises
    ------
    ValueError
        If exhaustive search is asked for among more than twenty lookups.

    Notes
    -----
    Thesis 3.4.3, "Selection Strategy", and the strategies of 3.5.3.

    References
    ----------
    .. [Sei+19] M. Seidemann et al., ChronicleDB: a high-performance event store, ACM TODS 44
       (2019), as described in the thesis, 3.5.3.
    """
    n = len(features.lookup_entries)
    if n == 0:
        tree = np.zeros((1, 0), dtype=np.bool_)
        return Selection(tree[0], float(estimate(features, tree, parameters).cost[0]), 1)
    weighed = Weighed(features, parameters)
    if strategy is Strategy.OPTIMAL:
        if weighed.n_lookups <= ENUMERATED_MAX:
            _enumerate(weighed, slack=1.0)
        else:
            search(weighed, slack=1.0)
    elif strategy is Strategy.PARETO:
        weighed.cost(np.concatenate(printed_frontiers(weighed)))
    elif strategy is Strategy.BUDGET:
        _add_while_cheaper(weighed)
    elif strategy is Strategy.EXHAUSTIVE:
        _enumerate(weighed, slack=np.inf)
    else:
        best_first = _most_selective(features)
        weighed.cost(best_first[-1:] if strategy is Strategy.ALL else best_first)
    sets, costs = weighed.ranking()
    return Selection(sets[0][features.lookup], float(costs[0]), weighed.n_examined)


def _enumerate(weighed: Weighed, *, slack: float) -> None:
    """Estimate all sets whose lookups alone cost at most ``slack`` times the best found before.

    Of few sets all are estimated at once.
    """
    n = weighed.n_lookups
    if n > EXHAUSTIVE_MAX:
        raise ValueError(f"{n} lookups have too many sets; at most {EXHAUSTIVE_MAX} are supported")
    if np.isfinite(slack) and 2**n > _FEW:
        weighed.cost(np.concatenate([_most_selective(weighed.features), np.eye(n, dtype=np.bool_)]))
    for start in range(0, 2**n, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, 2**n))
        sets = _sets(numbers, n)
        if np.isfinite(slack) and weighed.n_examined:
            sets = sets[weighed.least_cost(sets) <= slack * weighed.best]
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


def _add_while_cheaper(weighed: Weighed) -> None:
    cost = np.inf
    for chosen in _most_selective(weighed.features):
        now = float(weighed.cost(chosen[None])[0])
        if now >= cost:
            return
        cost = now
