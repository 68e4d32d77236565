"""How many events to expect in ranges, from fences and the tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.planning.plan import Lookup
from replay.planning.shares import BlockShares
from replay.planning.statistics import StreamStatistics

RIM_MAX = 0.5
"""Part of a lookup's entries that may lie in row groups at its rim for the tree to tell how many of
these are in the range; above, the fences are looked at once more, key by key."""


def expected_in(
    lookup: Lookup, fences: tuple[int, int] | None, told: float | None, statistics: StreamStatistics
) -> float:
    """Return how many events to expect in a range.

    Parameters
    ----------
    fences
        The least and the most events, if there is an index: they differ by row groups at the rim.
    told
        What the tree tells; None where it cannot.
    """
    if fences is None:
        return told or 0.0
    least, most = fences
    if most - least > RIM_MAX * most:
        return statistics.expect_count(*lookup)
    return (least + most) / 2 if told is None else float(min(max(told, least), most))


def expected_together(
    parts: Sequence[Lookup],
    fences: tuple[int, int],
    expected: Mapping[Lookup, float],
    tree: BlockShares,
) -> float:
    """Return how many events to expect in ranges of several attributes that one index has.

    A combination is often rarer than a row group is long, so that fences bound it widely. What is
    expected of the attributes apart, were they independent, says where in between; where fences
    bound it closely, the middle is nearer than that would be of attributes that depend.

    Parameters
    ----------
    fences
        The least and the most events.
    expected
        Events in ranges of single attributes.
    tree
        What is known of others.
    """
    least, most = fences
    if most - least <= RIM_MAX * most:
        return (least + most) / 2
    n_events = float(tree.count.sum())
    told = n_events
    for part in parts:
        alone = expected.get(part)
        if alone is None:
            alone = float(tree.blocks_with((part,))[1] @ tree.count)
        told *= alone / max(n_events, 1.0)
    return float(min(max(told, least, 1.0), most))
