"""How far from each other the situations of a match can start, and how late it is certain. Pure.

Starts, ends and the detection are a simple temporal network: each bound holds a difference of two
of them, and shortest paths give what all bounds together say of any two. An end that is not known
at the detection is taken as that of some future: what a match asks for holds in every one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from replay.language import allen
from replay.language.bound import SituationRelation
from replay.situations.detection import waits_for_ends

UNBOUNDED: Final = 2**61
"""A distance that nothing bounds; sums of two distances are exact in int64."""

_FINITE_MAX: Final = 2**60
"""Of the bounds that are known; a greater one is none, a lesser one is taken as the negative."""


@dataclass(frozen=True, slots=True)
class Distances:
    """What bounds the situations of a match, in the units of times, by their places in DEFINE."""

    low: tuple[tuple[int, ...], ...]
    """``low[a][b]`` is the least of b's start minus a's start."""
    high: tuple[tuple[int, ...], ...]
    """The greatest."""
    reach: tuple[int, ...]
    """How long after the start of each a match is certain at the latest."""

    def before(self, place: int) -> int:
        """Return how long before the start of a situation any other can start."""
        return -min(self.low[place])


@lru_cache(256)
def distances(query: SituationRelation) -> Distances | None:
    """Return what bounds the situations of a match; None if none can satisfy all bounds.

    Notes
    -----
    Dechter, Meiri and Pearl, Temporal constraint networks, 1991. Bounds that are strict (an end
    lies behind its start) are taken as not strict.
    """
    n = len(query.situations)
    pairs = {(left, right): relations for left, right, relations in query.pairs}
    allowed = allen.path_consistent(n, pairs)
    if allowed is None:
        return None
    detection = 2 * n
    # ``most[u, v]`` is the greatest of v minus u: starts, then ends, then the detection.
    most = np.full((2 * n + 1,) * 2, UNBOUNDED)
    np.fill_diagonal(most, 0)

    def bound(u: int, v: int, low: int | None, high: int | None) -> None:
        if high is not None and high <= _FINITE_MAX:
            most[u, v] = min(most[u, v], high)
        if low is not None:
            most[v, u] = min(most[v, u], -min(low, _FINITE_MAX))

    for place, situation in enumerate(query.situations):
        at_least = situation.at_least or 0
        bound(place, n + place, at_least, situation.at_most)
        bound(place, detection, at_least, query.within)
        if query.is_final or situation.at_most is not None:
            bound(n + place, detection, 0, None)
    for a in range(n):
        for b in range(a):
            ends = (a, b), (n + a, b), (a, n + b), (n + a, n + b)
            for (u, v), (least, greatest) in zip(ends, allen.hull(allowed[a][b]), strict=True):
                bound(u, v, 0 if least >= 0 else None, 0 if greatest <= 0 else None)
    if not _close(most):
        return None
    reach = tuple(min(_latest_term(query, most, a), int(most[a, detection])) for a in range(n))
    starts = most[:n, :n]
    return Distances(_rows(-starts.T), _rows(starts), reach)


def _close(most: npt.NDArray[np.int64]) -> bool:
    """Put shortest paths for distances; False if a cycle is negative, which nothing satisfies."""
    for k in range(len(most)):
        via = most[:, k, None] + most[k]
        via[(most[:, k, None] == UNBOUNDED) | (most[k] == UNBOUNDED)] = UNBOUNDED
        via[via > _FINITE_MAX] = UNBOUNDED
        np.maximum(via, -_FINITE_MAX, out=via)
        np.minimum(most, via, out=most)
        if (np.diagonal(most) < 0).any():
            return False
    return True


def _latest_term(query: SituationRelation, most: npt.NDArray[np.int64], place: int) -> int:
    """Return how long after the start of a situation the last term of a match comes at most."""
    n, greatest = len(query.situations), 0
    for other, situation in enumerate(query.situations):
        if query.is_final or situation.at_most is not None:
            term = int(most[place, n + other])
        else:
            term = min(int(most[place, other]) + (situation.at_least or 0), UNBOUNDED)
        greatest = max(greatest, term)
    for left, right, relations in query.pairs:
        if waits_for_ends(relations):  # the earlier end may tell
            ends = most[place, n + left], most[place, n + right]
            greatest = max(greatest, int(min(ends)))
    return greatest


def _rows(bounds: npt.NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, bounds.tolist()))


def why_never(query: SituationRelation) -> str | None:
    """Return why nothing can match, in words; None if something may."""
    if distances(query) is not None:
        return None
    pairs = {(left, right): relations for left, right, relations in query.pairs}
    if allen.path_consistent(len(query.situations), pairs) is None:
        return "no situations can have all relations of the pattern"
    return "no situations can have the durations and relations of the pattern together"
