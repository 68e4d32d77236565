"""Orders in which situations are joined: how many partial results they make, and what they cost.

Körber, thesis 2021, section 5.5.4. Costs are steps of binary searches and partial results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final

SEARCHES: Final = 4
"""Binary searches for what has one relation to a known situation, at most."""

_EACH: Final = {
    0.445: ("before", "after"),
    0.03: ("during", "contains"),
    0.01: ("overlaps", "overlapped by"),
    0.0049: ("starts", "started by", "finishes", "finished by", "meets", "met by"),
    0.0006: ("equals",),
}
SELECTIVITY: Final[Mapping[str, float]] = {
    name: share for share, names in _EACH.items() for name in names
}
"""Table 5.3: the share of pairs that have a relation, where nothing is known; together 1."""


@dataclass(frozen=True, slots=True)
class Joins:
    """Situations to be joined, by their places."""

    sizes: tuple[float, ...]
    """How many there are of each."""
    selectivities: tuple[Mapping[int, float], ...]
    """Of each, by those it is related to, the share of pairs that have one of the relations."""


def joined_size(n_before: float, before: Sequence[int], place: int, joins: Joins) -> float:
    """Return how many partial results there are with one more situation: (5.4) with (5.5)."""
    size = n_before * joins.sizes[place]
    for other, selectivity in joins.selectivities[place].items():
        if other in before:
            size *= selectivity
    return size


def step_cost(n_before: float, before: Sequence[int], place: int, joins: Joins) -> float:
    """Return what looking for one more situation costs: a search each, and what is found."""
    n_related = sum(other in before for other in joins.selectivities[place])
    find = SEARCHES * n_related * _depth(joins.sizes[place])
    return n_before * find + joined_size(n_before, before, place, joins)


def order_cost(order: Sequence[int], joins: Joins) -> float:
    """Return the cost of an order: ``sum |Res(i-1)| * find(i) + |Res(i)|``.

    As printed, (5.2) multiplies the sizes of neighbouring results, and (5.3) has one search for all
    partial results.
    """
    size, cost = joins.sizes[order[0]], 0.0
    for i in range(1, len(order)):
        cost += step_cost(size, order[:i], order[i], joins)
        size = joined_size(size, order[:i], order[i], joins)
    return cost


def _depth(size: float) -> float:
    return log2(max(size, 2.0))
