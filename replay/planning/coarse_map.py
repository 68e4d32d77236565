"""Coarse pattern map: matching the pattern over blocks by their minima and maxima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chronicle.tree.summary import AttributeBounds, Leaves
from indexing.key_range import KeyRanges
from replay.planning.ascending import saturating_add
from replay.planning.block_ranges import all_blocks, no_blocks, ranges_of
from replay.planning.extremes import TimeBounds, may_contain
from replay.planning.named_plans import all_conditions
from replay.planning.network import lasting_blocks, surviving_blocks
from replay.planning.plan import IndexLookup
from replay.planning.requirements import Requirements
from replay.planning.statistics import BoolArray, IntArray, StreamStatistics

LEVEL_WIDTH: Final = 32
"""Buckets put together to one of the level above: the tree's fan-out."""

LEVEL_BLOCKS: Final = 8192
"""Blocks that are looked at one by one at once."""


@dataclass(frozen=True, slots=True)
class CoarseMap:
    """What the coarse pattern map says."""

    stretches: IntArray
    """Blocks outside which no match can lie, shape (n, 2)."""
    admitted: dict[IndexLookup, BoolArray]
    """Blocks that may hold an event in a condition's range."""
    bounds: dict[str, AttributeBounds | TimeBounds]
    """Least and greatest values of each attribute the pattern bounds, by block."""


def draw_coarse_map(required: Requirements, statistics: StreamStatistics) -> CoarseMap:
    """Match the pattern over the tree's leaves."""
    if required.is_impossible or required.rows_min > statistics.n_events:
        return CoarseMap(no_blocks(), {}, {})
    leaves = statistics.leaves
    conditions = all_conditions(required)
    bounds: dict[str, AttributeBounds | TimeBounds] = {}
    for name in dict.fromkeys(condition.attribute for condition in conditions):
        bounds[name] = bounds_by_block(name, required, statistics)
    by_lookup: dict[IndexLookup, BoolArray] = {}
    masks: list[BoolArray | None] = [None] * len(required.positions)
    for condition in conditions:
        if condition.lookup not in by_lookup:
            admits = may_contain(condition.ranges, bounds[condition.attribute])
            by_lookup[condition.lookup] = admits
        mask, admits = masks[condition.position], by_lookup[condition.lookup]
        masks[condition.position] = admits.copy() if mask is None else mask & admits
    if required.network is not None:
        lasting_blocks(required.network, masks, leaves.t_min)
    stretches = surviving_buckets(required, masks, leaves)
    stretches = cut_to_ends(stretches, required, leaves)
    stretches = touching(stretches, required.times, leaves)
    return CoarseMap(stretches, by_lookup, bounds)


def bounds_by_block(
    name: str, required: Requirements, statistics: StreamStatistics
) -> AttributeBounds | TimeBounds:
    """Return the least and greatest value of an attribute in each block."""
    leaves = statistics.leaves
    is_time = name == required.time
    return TimeBounds(leaves.t_min, leaves.t_max) if is_time else statistics.bounds(name)


def cut_to_ends(stretches: IntArray, required: Requirements, leaves: Leaves) -> IntArray:
    """Return what is left of stretches where matches must begin or end with the stream."""
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


def touching(stretches: IntArray, times: Sequence[KeyRanges], leaves: Leaves) -> IntArray:
    """Return the stretches of blocks that may hold an event in each of some ranges of time."""
    for ranges in times:
        low, high = leaves.t_min[stretches[:, 0]], leaves.t_max[stretches[:, 1] - 1]
        stretches = stretches[may_contain(ranges, TimeBounds(low, high))]
    return stretches


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
    required: Requirements, masks: Sequence[BoolArray | None], buckets: Leaves
) -> IntArray:
    """Return the buckets outside which no match can have a row, as half-open ranges, shape (k, 2).

    Inclusive: the rows of every match lie in one of the ranges, from its first to its last. Many
    buckets are put together to coarse ones first, of which one may hold what any of its own may;
    only under those that survive they are looked at one by one. ``masks`` says for each position
    which buckets may hold it, None: all.

    Notes
    -----
    For each bucket that may hold the first position: the earliest bucket a match can end in, by
    chaining basic blocks (their rows stay in a bucket or go on to the next), and the last one the
    window still reaches. O(n) for each position. After thesis 3.4.3; see ``docs/planning.md``.
    """
    n = len(buckets.t_min)
    if n == 0 or required.is_impossible or required.rows_min > int(buckets.base[-1]):
        return no_blocks()
    if not required.positions:
        return all_blocks(n)
    every = _Buckets(buckets.count, buckets.base[:-1], buckets.t_min, buckets.t_max)
    return ranges_of(_survivors(required, masks, every))


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
    required: Requirements, masks: Sequence[BoolArray | None], buckets: _Buckets
) -> BoolArray:
    """Return which buckets survive: first by the level above, if it is worth it."""
    n = len(buckets)
    if n <= LEVEL_BLOCKS:
        return _sweep(required, masks, buckets)
    first = np.arange(0, n, LEVEL_WIDTH)
    coarse_masks = [None if m is None else np.logical_or.reduceat(m, first) for m in masks]
    survivors = _survivors(required, coarse_masks, buckets.coarser())
    at = np.flatnonzero(np.repeat(survivors, LEVEL_WIDTH)[:n])
    if 2 * len(at) > n:
        return _sweep(required, masks, buckets)
    # A match lies in neighbouring buckets that survive, so leaving out the others between them
    # keeps it; what seems to follow each other now is only ever more.
    found = np.zeros(n, dtype=np.bool_)
    if len(at):
        finer = [None if m is None else m[at] for m in masks]
        found[at] = _sweep(required, finer, buckets.take(at))
    return found


def _sweep(
    required: Requirements, masks: Sequence[BoolArray | None], buckets: _Buckets
) -> BoolArray:
    """Return which of at least one bucket survive, each looked at by itself."""
    n = len(buckets)
    if all(mask is None or mask.all() for mask in masks) and (buckets.count > 1).all():
        # A match may begin in any bucket and end there: no basic block must leave it.
        return np.ones(n, dtype=np.bool_)
    if required.network is not None:
        return surviving_blocks(required.network, masks, buckets.t_min, buckets.t_max)
    reach = [_reach(masks[a:b], buckets.count) for a, b in required.blocks]
    end = reach[0][0]
    for earliest, _ in reach[1:]:
        end = np.append(np.minimum.accumulate(earliest[::-1])[::-1], n)[end]
    starts = np.flatnonzero(end < n)
    limit = _last_in_window(required, buckets, starts)
    is_reached = end[starts] <= limit
    starts, limit = starts[is_reached], limit[is_reached]
    end = end[starts]
    last = limit
    if not required.trailing_gap:
        latest = reach[-1][1]
        ends = latest[starts] if len(reach) == 1 else np.maximum.accumulate(latest)[limit]
        last = np.maximum(np.minimum(limit, ends), end)
    first = starts if not required.leading_gap else _first_in_window(required, buckets, end)
    steps = np.bincount(np.minimum(first, starts), minlength=n + 1)
    steps = steps - np.bincount(last + 1, minlength=n + 1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)


def _reach(masks: Sequence[BoolArray | None], count: IntArray) -> tuple[IntArray, IntArray]:
    """Return the least and greatest bucket a basic block that starts in each bucket can end in.

    n and -1 stand for "it cannot start here".
    """
    n = len(count)
    # One more than there are buckets, for what follows the last.
    earliest, latest = np.arange(n + 1), np.arange(n + 1)
    latest[n] = -1
    must_leave = count < 2
    for step, mask in enumerate(reversed(masks)):
        if step:
            following = earliest[1:].copy(), latest[1:].copy()
            earliest[:-1][must_leave], latest[:-1][must_leave] = n, -1
            np.minimum(earliest[:-1], following[0], out=earliest[:-1])
            np.maximum(latest[:-1], following[1], out=latest[:-1])
        if mask is not None:
            refused = ~mask
            earliest[:-1][refused], latest[:-1][refused] = n, -1
    return earliest[:-1], latest[:-1]


def _last_in_window(required: Requirements, buckets: _Buckets, starts: IntArray) -> IntArray:
    """Return the last bucket that a match starting in each of some buckets can have rows in."""
    limit = np.full(len(starts), len(buckets) - 1)
    if required.within is not None:
        latest = saturating_add(buckets.t_max[starts], required.within)
        limit = np.searchsorted(buckets.t_min, latest, side="right") - 1
    if required.row_window is not None:
        rows = max(required.row_window, 1)  # at most ``ROWS_MAX``, so that no sum overflows
        last_row = buckets.first_seq[starts] + buckets.count[starts] + (rows - 2)
        by_rows = np.searchsorted(buckets.first_seq, last_row, side="right") - 1
        limit = np.minimum(limit, by_rows)
    return limit


def _first_in_window(required: Requirements, buckets: _Buckets, end: IntArray) -> IntArray:
    """Return the first bucket that a match ending at or after bucket ``end`` can have rows in."""
    first = np.zeros(len(end), dtype=np.int64)
    if required.within is not None:
        earliest = saturating_add(buckets.t_min[end], -required.within)
        first = np.searchsorted(buckets.t_max, earliest, side="left")
    if required.row_window is not None:
        row = np.maximum(buckets.first_seq[end] - (max(required.row_window, 1) - 1), 0)
        by_rows = np.searchsorted(buckets.first_seq, row, side="right") - 1
        first = np.maximum(first, by_rows)
    return first
