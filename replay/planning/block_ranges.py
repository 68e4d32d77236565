"""Sets of blocks: half-open ranges of block ordinals, as arrays of shape (n, 2)."""

from __future__ import annotations

import numpy as np

from replay.planning.statistics import BoolArray, IntArray


def no_blocks() -> IntArray:
    """Return the set without any block."""
    return np.empty((0, 2), dtype=np.int64)


def all_blocks(n_blocks: int) -> IntArray:
    """Return the set of all blocks of a stream."""
    return np.array([[0, n_blocks]], dtype=np.int64) if n_blocks else no_blocks()


def ranges_of(mask: BoolArray) -> IntArray:
    """Return the ranges of blocks that are set in a mask: ascending, disjoint, non-adjacent."""
    padded = np.zeros(len(mask) + 2, dtype=np.int8)
    padded[1:-1] = mask
    return np.flatnonzero(np.diff(padded)).reshape(-1, 2)


def mask_of(ranges: IntArray, n_blocks: int) -> BoolArray:
    """Return which of ``n_blocks`` blocks lie in the ranges, which may overlap in any order."""
    steps = np.zeros(n_blocks + 1, dtype=np.int64)
    np.add.at(steps, ranges[:, 0], 1)
    np.add.at(steps, ranges[:, 1], -1)
    return np.cumsum(steps[:-1]) > 0


def bridge(ranges: IntArray, n_blocks_max: int) -> IntArray:
    """Unite ascending disjoint ranges with at most ``n_blocks_max`` blocks between them."""
    if len(ranges) < 2:
        return ranges
    apart = ranges[1:, 0] - ranges[:-1, 1] > n_blocks_max
    first = np.concatenate(([True], apart))
    last = np.concatenate((apart, [True]))
    return np.stack((ranges[first, 0], ranges[last, 1]), axis=1)


def count_blocks(ranges: IntArray) -> int:
    """Return the number of blocks in disjoint ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def count_events(ranges: IntArray, base: IntArray) -> int:
    """Return the number of events in disjoint ranges of blocks."""
    return int((base[ranges[:, 1]] - base[ranges[:, 0]]).sum())


def without(ranges: IntArray, mask: BoolArray) -> IntArray:
    """Return what is left of ranges without the blocks of a mask.

    Examples
    --------
    >>> without(np.array([[0, 4]]), np.array([False, True, False, False, True])).tolist()
    [[0, 1], [2, 4]]
    """
    return ranges_of(mask_of(ranges, len(mask)) & ~mask)


def parts_of(mask: BoolArray, goes_on: BoolArray) -> IntArray:
    """Return the ranges of blocks that are set in a mask, of blocks that go on as the one before.

    Examples
    --------
    >>> mask, goes_on = np.array([0, 1, 1, 1, 0]) > 0, np.array([0, 0, 1, 0, 0]) > 0
    >>> parts_of(mask, goes_on).tolist()
    [[1, 3], [3, 4]]
    """
    begins, ends = mask.copy(), mask.copy()
    begins[1:] &= ~(mask[:-1] & goes_on[1:])
    ends[:-1] &= ~mask[1:] | begins[1:]
    return np.stack((np.flatnonzero(begins), np.flatnonzero(ends) + 1), axis=1)


def with_rows_before(ranges: IntArray, n_rows: int, base: IntArray) -> IntArray:
    """Return ranges of blocks that begin so many rows earlier; they may overlap then.

    Examples
    --------
    >>> with_rows_before(np.array([[3, 4]]), 2, np.array([0, 10, 11, 12, 13])).tolist()
    [[1, 4]]
    """
    begins = np.searchsorted(base, np.maximum(base[ranges[:, 0]] - n_rows, 0), side="right") - 1
    return np.stack((np.minimum(begins, ranges[:, 0]), ranges[:, 1]), axis=1)
