"""Shares: what part of each block's events lies in ranges, told from the block's extremes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from chronicle.tree.summary import AttributeBounds
from costmodel.arrays import FloatArray
from indexing.key_range import KeyRange, KeyRanges
from replay.planning.extremes import TimeBounds, extremes_of, may_contain
from replay.planning.plan import IndexLookup
from replay.planning.statistics import BoolArray, IntArray

RANGES_MEASURED_MAX: Final = 16
"""Ranges of one condition that are laid over the extremes one by one; longer lists are taken to
lie evenly in every block that may hold them."""

EVEN_SPREAD: Final = 0.25
"""Standard deviation of the blocks' shares, as a part of their mean, up to which events lie
everywhere: 0.02 to 0.15 on evenly random values and on places of crimes, 0.3 to 2.5 on the readings
of aircraft."""

TOLD_TIMES_MAX: Final = 2.0
"""Times that shares may be off in sum before they do not show that events lie everywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockShares:
    """What the tree says of single attributes, block by block: values lie evenly in each."""

    count: IntArray
    """Events of each block."""
    bounds: Mapping[str, AttributeBounds | TimeBounds]
    admitted: Mapping[IndexLookup, BoolArray]
    """Blocks that may hold an event in a range, as far as the coarse pattern map has it."""
    told: dict[IndexLookup, tuple[BoolArray, FloatArray]] = field(default_factory=dict)
    """What was told before: a range may be part of several lookups."""

    def blocks_with(self, parts: Sequence[IndexLookup]) -> tuple[BoolArray, FloatArray]:
        """Return which blocks may hold events in all of some ranges, and what share of theirs.

        Attributes are taken as independent within a block.
        """
        admitted, shares = self._blocks_with(parts[0])
        for part in parts[1:]:
            mask, inside = self._blocks_with(part)
            admitted, shares = admitted & mask, shares * inside
        return admitted, shares

    def _blocks_with(self, part: IndexLookup) -> tuple[BoolArray, FloatArray]:
        if part not in self.told:
            name, ranges = part
            bounds, mask = self.bounds[name], self.admitted.get(part)
            mask = may_contain(ranges, bounds) if mask is None else mask
            self.told[part] = mask, block_shares(ranges, bounds, mask, self.count)
        return self.told[part]

    def measures(self, parts: Sequence[IndexLookup]) -> bool:
        """Return whether shares tell how many events are in the ranges, were it not for fences."""
        return all(is_measured(ranges, self.bounds[name]) for name, ranges in parts)


def is_measured(ranges: KeyRanges, bounds: AttributeBounds | TimeBounds) -> bool:
    """Return whether it can be told what part of the values ranges hold: few, of numbers."""
    if len(ranges.ranges) > RANGES_MEASURED_MAX:
        return False
    return isinstance(bounds, TimeBounds) or extremes_of(bounds).texts is None


def block_shares(
    ranges: KeyRanges, bounds: AttributeBounds | TimeBounds, admitted: BoolArray, count: IntArray
) -> FloatArray:
    """Return what share of each block's events may lie in the ranges, 0 where it admits none.

    ``admitted`` says which blocks may hold a value inside the ranges, ``count`` how many events
    each has. Where it cannot be measured, values lie anywhere; a block of which nothing is known is
    given the mean of the others. The thesis takes selectivities as constant over the stream.
    """
    inside = _part_of_values(ranges, bounds) if is_measured(ranges, bounds) else np.ones(len(count))
    if isinstance(bounds, TimeBounds):
        return np.where(admitted, inside, 0.0)
    shares = np.where(admitted, inside * np.minimum(bounds.n_values / count, 1.0), 0.0)
    if bounds.known.all():
        return shares
    known = float(shares[bounds.known].mean()) if bounds.known.any() else 1.0
    return np.where(bounds.known, shares, known)


def _part_of_values(ranges: KeyRanges, bounds: AttributeBounds | TimeBounds) -> FloatArray:
    """Return the part of each block's values that lies in the ranges, shape (n,)."""
    if isinstance(bounds, TimeBounds):
        low, high, step = bounds.minimum, bounds.maximum, 1.0
    else:
        known = extremes_of(bounds)
        low, high, step = known.low, known.high, float(known.low.dtype.kind != "f")
    low, high = low.astype(np.float64), high.astype(np.float64)
    inside = np.zeros(len(low))
    with np.errstate(all="ignore"):
        span = high - low + step  # whole numbers are one apart, and both ends are included
        for r in ranges.ranges:
            first, last = _ends(r, step)
            within = np.minimum(high, last) - np.maximum(low, first) + step
            inside += np.maximum(within, 0.0) / span
    # One value lies there wholly; a span that reaches to infinity says nothing of what lies inside.
    return np.asarray(np.fmin(np.where(span > 0, inside, 1.0), 1.0))


def _ends(r: KeyRange, step: float) -> tuple[float, float]:
    """Return the ends of a range, both included; infinities where it has none."""
    first, last = -np.inf, np.inf
    if r.low is not None:
        first = float(r.low) + (0.0 if r.low_closed else step)
    if r.high is not None:
        last = float(r.high) - (0.0 if r.high_closed else step)
    return first, last


def are_even(shares: FloatArray) -> BoolArray:
    """Return of which ranges the events lie everywhere, about as many in each block.

    ``shares`` are those of each block's events, shape (n_ranges, n_blocks).

    Examples
    --------
    >>> are_even(np.array([[0.1, 0.12, 0.09], [0.3, 0.0, 0.01]])).tolist()
    [True, False]
    """
    return np.asarray(shares.std(axis=1) <= EVEN_SPREAD * shares.mean(axis=1))
