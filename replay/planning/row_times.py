"""What the tree says of the times of rows that were not looked up."""

from __future__ import annotations

import numpy as np

from replay.planning.ascending import lower_bounds
from replay.planning.statistics import IntArray, Leaves


def earliest_times(seq: IntArray, t: IntArray, n_behind: int, leaves: Leaves) -> IntArray:
    """Return lower bounds of the times of the rows ``n_behind`` rows behind known ones.

    Parameters
    ----------
    seq, t
        Rows and their times, both ascending.
    n_behind
        How many rows further; all of these rows exist.
    leaves
        The blocks of the stream.

    Returns
    -------
    ndarray of int64
        Ascending. Neighbours in a block are at least its ``gap_min`` apart, counted from the known
        row in the same block, else from the block's first row, whose time the tree has.

    Notes
    -----
    Thesis 3.4.4 takes one least gap for the whole stream. With that of each block, a burst
    somewhere in the stream shortens nothing anywhere else.
    """
    if n_behind == 0 or len(seq) == 0:
        return t
    block, first, gap = _blocks(seq + n_behind, leaves)
    bound = leaves.t_min[block] + (seq + n_behind - first) * gap
    near = seq >= first
    bound[near] = np.maximum(bound[near], t[near] + n_behind * gap[near])
    return bound


def latest_times(seq: IntArray, t: IntArray, n_before: int, leaves: Leaves) -> IntArray:
    """Return upper bounds of the times of the rows ``n_before`` rows before known ones.

    The mirror image of `earliest_times`; ascending.
    """
    if n_before == 0 or len(seq) == 0:
        return t
    block, _, gap = _blocks(seq - n_before, leaves)
    last = leaves.base[block + 1] - 1
    bound = leaves.t_max[block] - (last - (seq - n_before)) * gap
    near = seq <= last
    bound[near] = np.minimum(bound[near], t[near] - n_before * gap[near])
    return bound


def _blocks(rows: IntArray, leaves: Leaves) -> tuple[IntArray, IntArray, IntArray]:
    """Return the block of each row, its first row, and the least gap inside it."""
    block = lower_bounds(leaves.base, rows + 1) - 1
    # What is not known is -1. Products may leave int64, but sums are times of the block: exact.
    gap = np.maximum(leaves.gap_min[block], 0)
    return block, leaves.base[block], gap
