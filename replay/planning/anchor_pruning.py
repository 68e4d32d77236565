"""Blocks left where matches must begin with the stream's first row, or end with its last. Pure.

``^`` maps no row, and holds nowhere but before a partition's first row. So where every mapping has
one, wherever it stands, the match begins with that row; with ``$`` it ends with the last one.
"""

from __future__ import annotations

import numpy as np

from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    Pattern,
    Repeat,
)
from replay.planning.shape import PatternShape
from replay.planning.statistics import IntArray, Leaves


def needs_edge(pattern: Pattern, kind: EdgeKind) -> bool:
    """Return whether every mapping of a pattern goes through ``^`` (or ``$``)."""
    match pattern:
        case Edge(found):
            return found is kind
        case Concat(parts):
            return any(needs_edge(part, kind) for part in parts)
        case Alternate(branches):
            return all(needs_edge(branch, kind) for branch in branches)
        case Repeat(body, low, _):
            return low > 0 and needs_edge(body, kind)
        case Exclusion(body):
            return needs_edge(body, kind)
        case _:
            return False


def cut_to_ends(
    stretches: IntArray, query: BoundPatternQuery, shape: PatternShape, leaves: Leaves
) -> IntArray:
    """Return what is left of stretches where matches lie at the stream's begin or end alone.

    Parameters
    ----------
    stretches
        Half-open ranges of blocks outside which no match has a row, ascending, shape (n, 2).
    query, shape
        The query, and its pattern rewritten. With PARTITION BY nothing is cut, as partitions begin
        and end anywhere.
    leaves
        The blocks, at least one.
    """
    if query.partition_by:
        return stretches
    low, high = 0, len(leaves.t_min)
    within, rows = query.within, shape.row_window
    if needs_edge(query.pattern, EdgeKind.START):
        if within is not None:
            until = min(int(leaves.t_min[0]) + within, np.iinfo(np.int64).max)
            high = min(high, int(np.searchsorted(leaves.t_min, until, side="right")))
        if rows is not None:
            high = min(high, int(np.searchsorted(leaves.base[:-1], rows, side="left")))
    if needs_edge(query.pattern, EdgeKind.END):
        if within is not None:
            since = max(int(leaves.t_max[-1]) - within, np.iinfo(np.int64).min)
            low = max(low, int(np.searchsorted(leaves.t_max, since, side="left")))
        if rows is not None:
            first = max(int(leaves.base[-1]) - rows, 0)
            low = max(low, int(np.searchsorted(leaves.base, first, side="right")) - 1)
    if low == 0 and high == len(leaves.t_min):
        return stretches
    cut = np.clip(stretches, low, max(low, high))
    return cut[cut[:, 0] < cut[:, 1]]
