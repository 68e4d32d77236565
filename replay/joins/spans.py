"""Spans of time around events of one side of a join, in which all their partners lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronicle.tree.summary import Leaves
from replay.language.bound import JoinRelation, JoinWindow
from replay.planning.ascending import saturating_add
from replay.planning.block_ranges import mask_of, ranges_of
from replay.planning.statistics import IntArray

END_OF_TIME = (1 << 62) - 1
"""No event is later, and none is before its negative."""


@dataclass(frozen=True, slots=True)
class Reaches:
    """How far from an event of the driving side its partners can be."""

    back: JoinWindow | None
    """Window over the other side, which the event sees; None: one event alone (ASOF)."""
    ahead: JoinWindow | None
    """Window over the driving side, in which the event is seen; None: it is not."""
    strict: bool = False
    """Of one event alone: whether its time is another."""
    forward: bool = False
    """Of ASOF: whether what the event sees lies ahead, that is at its time or later."""

    @classmethod
    def of(cls, join: JoinRelation, *, left_drives: bool) -> Reaches:
        """Return the reaches of a join from one side."""
        if left_drives:
            window = join.right_window
            return cls(window, join.left_window, join.asof_strict, join.asof_forward)
        return cls(join.left_window, join.right_window)

    @property
    def count_rows(self) -> bool:
        """Whether a window counts rows, so that none of its side may be left out within a span."""
        windows = (self.back, self.ahead)
        return any(window is not None and window.in_rows for window in windows)


def spans_around(
    first: IntArray, last: IntArray, reaches: Reaches, driver: Leaves, other: Leaves
) -> IntArray:
    """Return the spans in which all partners of events of the driving side lie. Pure.

    ``first`` and ``last`` are times, inclusive, between which some events of the driving side lie;
    both ascend. Each span is its first and last time, inclusive; spans have shape (n, 2), ascend,
    are disjoint, and lie around the events themselves. Wherever windows count rows, the rows that
    count lie in the span as well.

    Notes
    -----
    By thesis Def. 2.9 the window active at T begins after ``T - size - slide + 1``, or that many
    rows before those that have come by T.
    """
    if reaches.forward:
        return unite(first, np.maximum(_next_ends(last, reaches, other), last))
    low = _begins(first, reaches, other)
    high = last if reaches.ahead is None else _ends(last, reaches.ahead, driver)
    return unite(np.minimum(low, first), np.maximum(high, last))


def _begins(first: IntArray, reaches: Reaches, other: Leaves) -> IntArray:
    window = reaches.back
    if window is not None and not window.in_rows:
        return saturating_add(first, -(window.size + window.slide - 2))
    if len(other.t_min) == 0:
        return first
    if window is None:
        # The block begins with an event that is early enough, so the latest such is in it.
        block = np.searchsorted(other.t_min, first - reaches.strict, side="right") - 1
    else:
        # All rows of the blocks before have come.
        n_come = other.base[np.searchsorted(other.t_max, first, side="left")]
        row = np.maximum(n_come - window.size - window.slide + 1, 0)
        block = np.searchsorted(other.base[1:], row, side="right")
        block = np.minimum(block, len(other.t_min) - 1)
    return np.where(block < 0, first, other.t_min[np.maximum(block, 0)])


def _next_ends(last: IntArray, reaches: Reaches, other: Leaves) -> IntArray:
    """Return the times by which the next event of the other side has come."""
    if reaches.back is not None:
        return saturating_add(last, reaches.back.size - 1)
    if not len(other.t_max):
        return last
    # The first block that ends late enough has the next event.
    block = np.searchsorted(other.t_max, last + reaches.strict, side="left")
    there = block < len(other.t_max)
    return np.where(there, other.t_max[np.minimum(block, len(other.t_max) - 1)], last)


def _ends(last: IntArray, window: JoinWindow, driver: Leaves) -> IntArray:
    if not window.in_rows:
        return saturating_add(last, window.size + window.slide - 2)
    # Positions of the events are before those of the first block that is later.
    row = driver.base[np.searchsorted(driver.t_min, last, side="right")] - 1
    row = saturating_add(row, window.size + window.slide - 1)
    block = np.searchsorted(driver.base[1:], row, side="right")
    there = block < len(driver.t_max)
    if not len(driver.t_max):
        return last
    ends = driver.t_max[np.minimum(block, len(driver.t_max) - 1)]
    return np.where(there, ends, END_OF_TIME)


def unite(low: IntArray, high: IntArray) -> IntArray:
    """Return the union of inclusive spans, whose begins and ends both ascend, as (n, 2)."""
    if len(low) == 0:
        return np.empty((0, 2), np.int64)
    apart = low[1:] > high[:-1]
    begins = low[np.concatenate(([True], apart))]
    ends = high[np.concatenate((apart, [True]))]
    return np.stack((begins, ends), axis=1)


def blocks_within(spans: IntArray, leaves: Leaves) -> IntArray:
    """Return the blocks that have an event in a span, span by span, half-open, shape (n, 2)."""
    first = np.searchsorted(leaves.t_max, spans[:, 0], side="left")
    last = np.searchsorted(leaves.t_min, spans[:, 1], side="right")
    return np.stack((first, np.maximum(first, last)), axis=1)


def stretches_within(spans: IntArray, leaves: Leaves, allowed: IntArray | None) -> IntArray:
    """Return all these blocks as stretches: ascending, disjoint, non-adjacent.

    Outside of the stretches ``allowed`` no block matters; None: all blocks may.
    """
    n_blocks = len(leaves.t_min)
    mask = mask_of(blocks_within(spans, leaves), n_blocks)
    if allowed is not None:
        mask &= mask_of(allowed, n_blocks)
    return ranges_of(mask)
