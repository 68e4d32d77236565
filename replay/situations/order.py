"""In which order the situations of a match are looked for. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.language.bound import SituationRelation


def evaluation_orders(query: SituationRelation) -> npt.NDArray[np.int64]:
    """Return for each situation to begin with in which order the others are looked for, a row each.

    One that is related to those before it comes before all others, so that no cross product is made
    while the pattern is connected.
    """
    n = len(query.situations)
    related: list[set[int]] = [set() for _ in range(n)]
    for left, right, _ in query.pairs:
        related[left].add(right)
        related[right].add(left)
    orders = []
    for first in range(n):
        order = [first]
        while len(order) < n:
            rest = [place for place in range(n) if place not in order]
            order.append(min(rest, key=lambda place: (not related[place] & set(order), place)))
        orders.append(order)
    return np.array(orders, np.int64)
