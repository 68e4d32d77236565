"""Blocks left where matches must begin with the stream's first row, or end with its last. Pure."""

from __future__ import annotations

import numpy as np

from replay.planning.requirements import Requirements
from replay.planning.statistics import IntArray, Leaves


def cut_to_ends(stretches: IntArray, required: Requirements, leaves: Leaves) -> IntArray:
    """Return what is left of stretches where matches lie at the stream's begin or end alone.

    Parameters
    ----------
    stretches
        Half-open ranges of blocks outside which no match has a row, ascending, shape (n, 2).
    required
        What every match contains.
    leaves
        The blocks, at least one.
    """
    low, high = 0, len(leaves.t_min)
    within, rows = required.within, required.row_window
    if required.at_start:
        if within is not None:
            until = min(int(leaves.t_min[0]) + within, np.iinfo(np.int64).max)
            high = min(high, int(np.searchsorted(leaves.t_min, until, side="right")))
        if rows is not None:
            high = min(high, int(np.searchsorted(leaves.base[:-1], rows, side="left")))
    if required.at_end:
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
