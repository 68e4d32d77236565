"""Coarse pattern map: matching the pattern over blocks by their minima and maxima."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.key_range import KeyRange, KeyRanges
from replay.planning.block_ranges import all_blocks, no_blocks, ranges_of
from replay.planning.plan import Condition
from replay.planning.shape import PatternShape
from replay.planning.statistics import AttributeBounds, BoolArray, IntArray, Leaves

RANGES_EXACT_MAX: Final = 16
"""Ranges of one condition that are tested one by one; longer lists by one binary search."""

LEVEL_WIDTH: Final = 32
"""Buckets put together to one of the level above: the tree's fan-out."""

LEVEL_BLOCKS: Final = 8192
"""Blocks that are looked at one by one at once."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """The time column's bounds in each bucket, which the tree keeps apart."""

    minimum: IntArray
    maximum: IntArray


def may_contain(ranges: KeyRanges, bounds: AttributeBounds | TimeBounds) -> BoolArray:
    """Return which buckets may hold a value inside the ranges.

    Parameters
    ----------
    ranges
        Of the attribute's own type.
    bounds
        Least and greatest value of n buckets.

    Returns
    -------
    ndarray of bool, shape (n,)
        True also where nothing is known of the bucket.
    """
    if not isinstance(bounds, TimeBounds) and not (bounds.known & (bounds.n_values > 0)).any():
        return ~bounds.known
    low, high = _comparable(bounds.minimum), _comparable(bounds.maximum)
    if len(ranges.ranges) > RANGES_EXACT_MAX:
        mask = _meets_any(ranges, low, high)
    else:
        mask = np.zeros(len(low), dtype=np.bool_)
        for r in ranges.ranges:
            mask |= _meets(r, low, high)
    if isinstance(bounds, TimeBounds):
        return mask
    return (mask & (bounds.n_values > 0)) | ~bounds.known


def _comparable(values: Any) -> Any:
    """Return numbers as a NumPy array, strings as an Arrow array."""
    if isinstance(values, np.ndarray):
        return values
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return values.fill_null(0).to_numpy() if values.null_count else values.to_numpy()
    return values


def _meets(r: KeyRange, low: Any, high: Any) -> BoolArray:
    mask = np.ones(len(low), dtype=np.bool_)
    if r.low is not None:
        mask &= _compare("greater_equal" if r.low_closed else "greater", high, r.low)
    if r.high is not None:
        mask &= _compare("less_equal" if r.high_closed else "less", low, r.high)
    return mask


def _compare(op: str, values: Any, key: object) -> BoolArray:
    if isinstance(values, np.ndarray):
        result: BoolArray = getattr(np, op)(values, key)
        return result
    found = getattr(pc, op)(values, pa.scalar(key, values.type))
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _meets_any(ranges: KeyRanges, low: Any, high: Any) -> BoolArray:
    """Return which buckets meet one of many ranges; their bounds count as closed here."""
    hull = KeyRanges((KeyRange(ranges.ranges[0].low, ranges.ranges[-1].high),))
    if not isinstance(low, np.ndarray):
        return _meets(hull.ranges[0], low, high)
    inner_lows = np.array([r.low for r in ranges.ranges[1:]])
    inner_highs = np.array([r.high for r in ranges.ranges[:-1]])
    # The first range that ends at or above the bucket's minimum is the only one to test.
    first = np.searchsorted(inner_highs, low, side="left")
    starts_below = np.ones(len(low), dtype=np.bool_)
    inner = first > 0
    starts_below[inner] = inner_lows[first[inner] - 1] <= high[inner]
    return _meets(hull.ranges[0], low, high) & starts_below


def position_masks(
    n_positions: int, admitted: Mapping[Condition, BoolArray]
) -> tuple[BoolArray | None, ...]:
    """Return for each position which buckets may hold it; None where all may.

    Parameters
    ----------
    n_positions
        Positions of the pattern.
    admitted
        Buckets that may hold an event of each condition; those of one position are intersected.
    """
    masks: list[BoolArray | None] = [None] * n_positions
    for condition, found in admitted.items():
        mask = masks[condition.position]
        masks[condition.position] = found if mask is None else mask & found
    return tuple(masks)


def coarsest_level(n_blocks: int) -> int:
    """Return the level of the tree the coarse pattern map begins at; 0 are the blocks.

    A level more costs about as much as looking at `LEVEL_BLOCKS` blocks, so that short streams
    are looked at block by block at once.
    """
    level = 0
    while n_blocks > LEVEL_BLOCKS:
        n_blocks = -(-n_blocks // LEVEL_WIDTH)
        level += 1
    return level


def surviving_buckets(
    shape: PatternShape,
    masks: Sequence[BoolArray | None],
    buckets: Leaves,
    *,
    within: int | None,
) -> IntArray:
    """Return the buckets outside which no match can have a row.

    Inclusive: the rows of every match lie in one of the ranges, from its first to its last. Many
    buckets are put together to coarse ones first, of which one may hold what any of its own may;
    only under those that survive they are looked at one by one.

    Parameters
    ----------
    shape
        The rewritten pattern.
    masks
        For each position which buckets may hold it, from `position_masks`.
    buckets
        Counts and times of the n buckets of one tree level, in stream order.
    within
        Greatest time between first and last row of a match; None: no bound.

    Returns
    -------
    ndarray of int64, shape (k, 2)
        Half-open ranges of buckets, ascending, disjoint, non-adjacent.

    Notes
    -----
    For each bucket that may hold the first position: the earliest bucket a match can end in, by
    chaining basic blocks (their rows stay in a bucket or go on to the next), and the last one the
    window still reaches. O(n) for each position. After thesis 3.4.3; see ``docs/planning.md``.
    """
    n = len(buckets.t_min)
    if n == 0 or shape.is_impossible or shape.rows_min > int(buckets.base[-1]):
        return no_blocks()
    if not shape.positions:
        return all_blocks(n)
    every = _Buckets(buckets.count, buckets.base[:-1], buckets.t_min, buckets.t_max)
    return ranges_of(_survivors(shape, masks, every, within))


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Buckets in stream order; every field has shape (n,)."""

    count: IntArray
    first_seq: IntArray
    t_min: IntArray
    t_max: IntArray

    def __len__(self) -> int:
        return len(self.count)

    def coarser(self) -> _Buckets:
        """Return the buckets of the level above."""
        first = np.arange(0, len(self), LEVEL_WIDTH)
        last = np.minimum(first + LEVEL_WIDTH, len(self)) - 1
        count = np.add.reduceat(self.count, first)
        return _Buckets(count, self.first_seq[first], self.t_min[first], self.t_max[last])

    def take(self, at: IntArray) -> _Buckets:
        """Return the buckets at some places."""
        return _Buckets(self.count[at], self.first_seq[at], self.t_min[at], self.t_max[at])


def _survivors(
    shape: PatternShape, masks: Sequence[BoolArray | None], buckets: _Buckets, within: int | None
) -> BoolArray:
    """Return which buckets survive: first by the level above, if it is worth it."""
    n = len(buckets)
    if n <= LEVEL_BLOCKS:
        return _sweep(shape, masks, buckets, within)
    first = np.arange(0, n, LEVEL_WIDTH)
    coarse_masks = [None if m is None else np.logical_or.reduceat(m, first) for m in masks]
    survivors = _survivors(shape, coarse_masks, buckets.coarser(), within)
    at = np.flatnonzero(np.repeat(survivors, LEVEL_WIDTH)[:n])
    if 2 * len(at) > n:
        return _sweep(shape, masks, buckets, within)
    # A match lies in neighbouring buckets that survive, so leaving out the others between them
    # keeps it; what seems to follow each other now is only ever more.
    found = np.zeros(n, dtype=np.bool_)
    if len(at):
        finer = [None if m is None else m[at] for m in masks]
        found[at] = _sweep(shape, finer, buckets.take(at), within)
    return found


def _sweep(
    shape: PatternShape, masks: Sequence[BoolArray | None], buckets: _Buckets, within: int | None
) -> BoolArray:
    """Return which of at least one bucket survive, each looked at by itself."""
    n = len(buckets)
    reach = [_reach(masks[a:b], buckets.count) for a, b in shape.blocks]
    end = reach[0][0]
    for earliest, _ in reach[1:]:
        end = np.append(np.minimum.accumulate(earliest[::-1])[::-1], n)[end]
    starts = np.flatnonzero(end < n)
    limit = _last_in_window(shape, buckets, within, starts)
    is_reached = end[starts] <= limit
    starts, limit = starts[is_reached], limit[is_reached]
    if len(starts) == 0:
        return np.zeros(n, dtype=np.bool_)
    end = end[starts]
    last = limit
    if not shape.trailing_gap:
        latest = reach[-1][1]
        ends = latest[starts] if len(reach) == 1 else np.maximum.accumulate(latest)[limit]
        last = np.maximum(np.minimum(limit, ends), end)
    first = starts if not shape.leading_gap else _first_in_window(shape, buckets, within, end)
    steps = np.bincount(np.minimum(first, starts), minlength=n + 1)
    steps = steps - np.bincount(last + 1, minlength=n + 1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)


def _reach(masks: Sequence[BoolArray | None], count: IntArray) -> tuple[IntArray, IntArray]:
    """Return the least and greatest bucket a basic block that starts in each bucket can end in.

    n and -1 stand for "it cannot start here".
    """
    n = len(count)
    earliest = np.arange(n)
    latest = np.arange(n)
    may_stay = count > 1
    for step, mask in enumerate(reversed(masks)):
        if step:
            earliest = np.minimum(np.where(may_stay, earliest, n), np.append(earliest[1:], n))
            latest = np.maximum(np.where(may_stay, latest, -1), np.append(latest[1:], -1))
        if mask is not None:
            earliest = np.where(mask, earliest, n)
            latest = np.where(mask, latest, -1)
    return earliest, latest


def _last_in_window(
    shape: PatternShape, buckets: _Buckets, within: int | None, starts: IntArray
) -> IntArray:
    """Return the last bucket that a match starting in each of some buckets can have rows in."""
    limit = np.full(len(starts), len(buckets) - 1)
    if within is not None:
        latest = saturating_add(buckets.t_max[starts], within)
        limit = np.searchsorted(buckets.t_min, latest, side="right") - 1
    if shape.row_window is not None:
        rows = max(shape.row_window, 1)  # at most ``shape.ROWS_MAX``, so that no sum overflows
        last_row = buckets.first_seq[starts] + buckets.count[starts] + (rows - 2)
        by_rows = np.searchsorted(buckets.first_seq, last_row, side="right") - 1
        limit = np.minimum(limit, by_rows)
    return limit


def _first_in_window(
    shape: PatternShape, buckets: _Buckets, within: int | None, end: IntArray
) -> IntArray:
    """Return the first bucket that a match ending at or after bucket ``end`` can have rows in."""
    first = np.zeros(len(end), dtype=np.int64)
    if within is not None:
        earliest = saturating_add(buckets.t_min[end], -within)
        first = np.searchsorted(buckets.t_max, earliest, side="left")
    if shape.row_window is not None:
        row = np.maximum(buckets.first_seq[end] - (max(shape.row_window, 1) - 1), 0)
        by_rows = np.searchsorted(buckets.first_seq, row, side="right") - 1
        first = np.maximum(first, by_rows)
    return first


def saturating_add(times: IntArray, delta: int) -> IntArray:
    """Return ``times + delta``, held at the ends of int64 instead of wrapping."""
    info = np.iinfo(np.int64)
    if delta >= 0:
        return np.minimum(times, info.max - min(delta, info.max)) + min(delta, info.max)
    delta = max(delta, -info.max)
    return np.maximum(times, info.min - delta) + delta
