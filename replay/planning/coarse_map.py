"""Coarse pattern map: matching the pattern over blocks by their minima and maxima."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from replay.planning.block_ranges import all_blocks, no_blocks, ranges_of
from replay.planning.plan import Condition
from replay.planning.requirements import Requirements
from replay.planning.statistics import BoolArray, IntArray, Leaves

LEVEL_WIDTH: Final = 32
"""Buckets put together to one of the level above: the tree's fan-out."""

LEVEL_BLOCKS: Final = 8192
"""Blocks that are looked at one by one at once."""

_INT64_MAX: Final = 2**63 - 1


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
    required: Requirements,
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
    if n == 0 or required.is_impossible or required.rows_min > int(buckets.base[-1]):
        return no_blocks()
    if not required.positions:
        return all_blocks(n)
    every = _Buckets(buckets.count, buckets.base[:-1], buckets.t_min, buckets.t_max)
    return ranges_of(_survivors(required, masks, every, within))


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
    required: Requirements, masks: Sequence[BoolArray | None], buckets: _Buckets, within: int | None
) -> BoolArray:
    """Return which buckets survive: first by the level above, if it is worth it."""
    n = len(buckets)
    if n <= LEVEL_BLOCKS:
        return _sweep(required, masks, buckets, within)
    first = np.arange(0, n, LEVEL_WIDTH)
    coarse_masks = [None if m is None else np.logical_or.reduceat(m, first) for m in masks]
    survivors = _survivors(required, coarse_masks, buckets.coarser(), within)
    at = np.flatnonzero(np.repeat(survivors, LEVEL_WIDTH)[:n])
    if 2 * len(at) > n:
        return _sweep(required, masks, buckets, within)
    # A match lies in neighbouring buckets that survive, so leaving out the others between them
    # keeps it; what seems to follow each other now is only ever more.
    found = np.zeros(n, dtype=np.bool_)
    if len(at):
        finer = [None if m is None else m[at] for m in masks]
        found[at] = _sweep(required, finer, buckets.take(at), within)
    return found


def _sweep(
    required: Requirements, masks: Sequence[BoolArray | None], buckets: _Buckets, within: int | None
) -> BoolArray:
    """Return which of at least one bucket survive, each looked at by itself."""
    n = len(buckets)
    if all(mask is None or mask.all() for mask in masks) and (buckets.count > 1).all():
        # A match may begin in any bucket and end there: no basic block must leave it.
        return np.ones(n, dtype=np.bool_)
    reach = [_reach(masks[a:b], buckets.count) for a, b in required.blocks]
    end = reach[0][0]
    for earliest, _ in reach[1:]:
        end = np.append(np.minimum.accumulate(earliest[::-1])[::-1], n)[end]
    starts = np.flatnonzero(end < n)
    limit = _last_in_window(required, buckets, within, starts)
    is_reached = end[starts] <= limit
    starts, limit = starts[is_reached], limit[is_reached]
    if len(starts) == 0:
        return np.zeros(n, dtype=np.bool_)
    end = end[starts]
    last = limit
    if not required.trailing_gap:
        latest = reach[-1][1]
        ends = latest[starts] if len(reach) == 1 else np.maximum.accumulate(latest)[limit]
        last = np.maximum(np.minimum(limit, ends), end)
    first = starts if not required.leading_gap else _first_in_window(required, buckets, within, end)
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


def _last_in_window(
    required: Requirements, buckets: _Buckets, within: int | None, starts: IntArray
) -> IntArray:
    """Return the last bucket that a match starting in each of some buckets can have rows in."""
    limit = np.full(len(starts), len(buckets) - 1)
    if within is not None:
        latest = saturating_add(buckets.t_max[starts], within)
        limit = np.searchsorted(buckets.t_min, latest, side="right") - 1
    if required.row_window is not None:
        rows = max(required.row_window, 1)  # at most ``ROWS_MAX``, so that no sum overflows
        last_row = buckets.first_seq[starts] + buckets.count[starts] + (rows - 2)
        by_rows = np.searchsorted(buckets.first_seq, last_row, side="right") - 1
        limit = np.minimum(limit, by_rows)
    return limit


def _first_in_window(
    required: Requirements, buckets: _Buckets, within: int | None, end: IntArray
) -> IntArray:
    """Return the first bucket that a match ending at or after bucket ``end`` can have rows in."""
    first = np.zeros(len(end), dtype=np.int64)
    if within is not None:
        earliest = saturating_add(buckets.t_min[end], -within)
        first = np.searchsorted(buckets.t_max, earliest, side="left")
    if required.row_window is not None:
        row = np.maximum(buckets.first_seq[end] - (max(required.row_window, 1) - 1), 0)
        by_rows = np.searchsorted(buckets.first_seq, row, side="right") - 1
        first = np.maximum(first, by_rows)
    return first


def saturating_add(times: IntArray, delta: int) -> IntArray:
    """Return ``times + delta``, held at the ends of int64 instead of wrapping."""
    if delta >= 0:
        delta = min(delta, _INT64_MAX)
        return np.minimum(times, _INT64_MAX - delta) + delta
    delta = max(delta, -_INT64_MAX)
    return np.maximum(times, -_INT64_MAX - 1 - delta) + delta
