"""In which order the situations of a match are looked for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set


def next_situation(
    chosen: Collection[int], related: Sequence[Set[int]], counts: Sequence[int]
) -> int:
    """Return the situation to look for next, by how many candidates each has.

    One that is related to a chosen one comes before all others, so that no cross product is made
    while the pattern is connected.
    """
    rest = [place for place in range(len(counts)) if place not in chosen]
    return min(rest, key=lambda place: (not related[place] & set(chosen), counts[place], place))
