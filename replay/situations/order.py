"""In which order the situations of a match are looked for, by what that costs.

Any order gives the same matches. Before anything is seen, all names are taken as equally frequent
and relations as in the thesis' Table 5.3; then by what is seen, as it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from costmodel.situations import SELECTIVITY, Joins, joined_size, order_cost, step_cost
from replay.language import allen
from replay.language.bound import SituationRelation

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ALL_ORDERS_MAX: Final = 8
"""Names up to which the best of all orders is taken; of more, the best next name each time."""

RIVALS_MAX: Final = 5
"""Names up to which explain tells of orders that are not taken."""

WEIGHT: Final = 0.01
"""Of one change among the moving averages: alpha of (5.6)."""

CHANGED: Final = 0.2
"""By how much of it a number differs from that of the order before it is chosen anew."""

_SIZE_UNKNOWN: Final = 100.0
_SIZE_MIN: Final = 1.0


class Ordering:
    """Which orders are best by what was seen, a row for each situation to begin with."""

    def __init__(self, query: SituationRelation) -> None:
        self._pairs = query.pairs
        self._initial = _initial_selectivities(query)
        self._sizes = np.full(len(query.situations), _SIZE_UNKNOWN)
        self._selectivities = self._initial
        self._has_seen = False
        self._choose()

    def _choose(self) -> None:
        self._chosen_by = np.concatenate([self._sizes, self._selectivities])
        self.names = evaluation_orders(_joins(self._pairs, self._sizes, self._selectivities))
        """Of each situation, in which order the others are looked for behind it."""

    def see(self, sizes: Floats, related: Ints, tried: Ints, n_changes: int) -> bool:
        """Take in what is seen, and return whether other orders are chosen.

        Parameters
        ----------
        sizes
            How many situations of each name there are.
        related, tried
            Of each pair, how many situations have one of the relations, of how many.
        n_changes
            How many situations have begun or ended since the last time.
        """
        # Of pairs that were never seen the table says something, of others hardly anything.
        selectivities = (related + self._initial) / (tried + 1)
        weight = 1.0 - (1.0 - WEIGHT) ** n_changes if self._has_seen else 1.0
        self._sizes = self._sizes + weight * (np.maximum(sizes, _SIZE_MIN) - self._sizes)
        self._selectivities = self._selectivities + weight * (selectivities - self._selectivities)
        self._has_seen = True
        now = np.concatenate([self._sizes, self._selectivities])
        if (abs(now - self._chosen_by) <= CHANGED * self._chosen_by).all():
            return False
        before = self.names
        self._choose()
        return not np.array_equal(before, self.names)


def evaluation_orders(joins: Joins) -> Ints:
    """Return for each situation the cheapest order that begins with it, a row each."""
    return np.array([best_order((first,), joins) for first in range(len(joins.sizes))], np.int64)


def best_order(begun: tuple[int, ...], joins: Joins) -> tuple[int, ...]:
    """Return the cheapest order that begins in a given way.

    Notes
    -----
    How many partial results there are depends on what was chosen, not in which order. So of all
    orders of some situations only the cheapest has to be gone on with.
    """
    size = joins.sizes[begun[0]]
    for i in range(1, len(begun)):
        size = joined_size(size, begun[:i], begun[i], joins)
    best = {frozenset(begun): (0.0, begun, size)}
    for _ in range(len(joins.sizes) - len(begun)):
        longer: dict[frozenset[int], tuple[float, tuple[int, ...], float]] = {}
        for cost, order, size in best.values():
            for place in next_names(order, joins):
                one = (
                    cost + step_cost(size, order, place, joins),
                    (*order, place),
                    joined_size(size, order, place, joins),
                )
                key = frozenset(one[1])
                longer[key] = min(longer.get(key, one), one)
        is_small = len(joins.sizes) <= ALL_ORDERS_MAX
        best = longer if is_small else dict([min(longer.items(), key=lambda item: item[1])])
    ((_, order, _),) = best.values()
    return order


def next_names(order: Sequence[int], joins: Joins) -> list[int]:
    """Return what may be looked for next.

    What is related to one before comes first, so that no cross product is made while the pattern is
    connected.
    """
    rest = [place for place in range(len(joins.sizes)) if place not in order]
    return [
        place for place in rest if not joins.selectivities[place].keys().isdisjoint(order)
    ] or rest


@lru_cache(256)
def explained_orders(query: SituationRelation) -> list[dict[str, Any]]:
    """Return what explain tells of the orders that are taken before anything is seen.

    Of few situations those not taken are told, too: the best ones that look for another one next.
    """
    sizes = np.full(len(query.situations), _SIZE_UNKNOWN)
    joins = _joins(query.pairs, sizes, _initial_selectivities(query))
    rows = []
    for first in range(len(sizes)):
        order = best_order((first,), joins)
        orders = [order]
        if len(sizes) <= RIVALS_MAX:
            others = [place for place in next_names((first,), joins) if place != order[1]]
            orders += [best_order((first, place), joins) for place in others]
        rows += [
            {
                "names": [query.situations[place].name for place in one],
                "cost": round(order_cost(one, joins), 1),
                "taken": one is order,
            }
            for one in orders
        ]
    return rows


def _initial_selectivities(query: SituationRelation) -> Floats:
    """Return those of each pair where nothing is known: (5.5) with Table 5.3."""
    names = (allen.names_of(relations) for _, _, relations in query.pairs)
    return np.array([sum(map(SELECTIVITY.__getitem__, each)) for each in names])


def _joins(pairs: Sequence[tuple[int, int, int]], sizes: Floats, selectivities: Floats) -> Joins:
    shares: list[dict[int, float]] = [{} for _ in sizes]
    for (left, right, _), share in zip(pairs, selectivities.tolist(), strict=True):
        shares[left][right] = shares[right][left] = share
    return Joins(tuple(sizes.tolist()), tuple(shares))
