"""Extremes of blocks: which may hold a value inside ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.tree.summary import AttributeBounds
from indexing.key_range import KeyRange, KeyRanges
from replay.planning.statistics import BoolArray, IntArray

RANGES_EXACT_MAX: Final = 16
"""Ranges of one condition that are tested one by one; longer lists by one binary search."""

ATTRIBUTES_KEPT: Final = 32
"""Attributes of snapshots of which is kept per process what follows from their bounds alone."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeBounds:
    """The time column's bounds in each bucket, which the tree keeps apart."""

    minimum: IntArray
    maximum: IntArray


def may_contain(ranges: KeyRanges, bounds: AttributeBounds | TimeBounds) -> BoolArray:
    """Return which of n buckets may hold a value inside the ranges, of the attribute's own type.

    True also where nothing is known of the bucket. Bounds are told from others by identity: what is
    made of them for comparing is kept.
    """
    if isinstance(bounds, TimeBounds):
        return _meets(ranges.ranges, bounds.minimum, bounds.maximum)
    return extremes_of(bounds).may_contain(ranges)


@dataclass(frozen=True, slots=True, eq=False)
class Extremes:
    """Least and greatest values of n buckets, as numbers."""

    low: Any
    high: Any
    texts: list[str] | None
    """What ``low`` and ``high`` are places in, ascending; None: they are the values."""
    has_values: BoolArray
    """Buckets that are known to hold a value."""
    is_unknown: BoolArray
    """Buckets of which nothing is known."""
    are_told: bool
    """Whether all buckets are known to hold a value."""

    def may_contain(self, ranges: KeyRanges) -> BoolArray:
        """Return which buckets may hold a value inside the ranges."""
        if not self.has_values.any():
            return self.is_unknown.copy()
        wanted = ranges.ranges
        if self.texts is not None:
            wanted = tuple(_places(r, self.texts) for r in wanted)
        meets = _meets(wanted, self.low, self.high)
        return meets if self.are_told else (meets & self.has_values) | self.is_unknown


@lru_cache(ATTRIBUTES_KEPT)
def extremes_of(bounds: AttributeBounds) -> Extremes:
    """Return the least and greatest values that bounds, told by their identity, have as numbers."""
    has_values, is_unknown = bounds.known & (bounds.n_values > 0), ~bounds.known
    if not has_values.any():
        none = np.zeros(len(has_values))
        return Extremes(none, none, [], has_values, is_unknown, are_told=False)
    low, high, texts = bounds.minimum, bounds.maximum, None
    if not (pa.types.is_integer(low.type) or pa.types.is_floating(low.type)):
        texts = sorted({*low.to_pylist(), *high.to_pylist()} - {None})
        known = pa.array(texts, low.type)
        low, high = (pc.index_in(values, value_set=known) for values in (low, high))
    low, high = _filled(low), _filled(high)
    return Extremes(low, high, texts, has_values, is_unknown, bool(has_values.all()))


def _filled(values: pa.Array) -> Any:
    """Return numbers; where there is none, nothing is compared."""
    return (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)


def _places(r: KeyRange, texts: list[str]) -> KeyRange:
    """Return a range of texts as the places they would have, both ends included.

    Of two texts that follow each other the range may hold what lies between them alone: then it
    begins at the place of the second and ends at that of the first.
    """
    low = high = None
    if r.low is not None:
        low = (bisect_left if r.low_closed else bisect_right)(texts, r.low)
    if r.high is not None:
        high = (bisect_right if r.high_closed else bisect_left)(texts, r.high) - 1
    return KeyRange(low, high)


def _meets(ranges: Sequence[KeyRange], low: Any, high: Any) -> BoolArray:
    """Return which buckets meet one of some ranges."""
    if len(ranges) > RANGES_EXACT_MAX:
        return _meets_any(ranges, low, high)
    if len(ranges) == 1:
        return _meets_one(ranges[0], low, high)
    mask = np.zeros(len(low), dtype=np.bool_)
    for r in ranges:
        mask |= _meets_one(r, low, high)
    return mask


def _meets_one(r: KeyRange, low: Any, high: Any) -> BoolArray:
    above = below = None
    if r.low is not None:
        above = high >= r.low if r.low_closed else high > r.low
    if r.high is not None:
        below = low <= r.high if r.high_closed else low < r.high
    if above is None:
        return np.ones(len(low), dtype=np.bool_) if below is None else np.asarray(below)
    return np.asarray(above if below is None else above & below)


def _meets_any(ranges: Sequence[KeyRange], low: Any, high: Any) -> BoolArray:
    """Return which buckets meet one of many ranges; their bounds count as closed here."""
    hull = KeyRange(ranges[0].low, ranges[-1].high)
    inner_lows = np.array([r.low for r in ranges[1:]])
    inner_highs = np.array([r.high for r in ranges[:-1]])
    # The first range that ends at or above the bucket's minimum is the only one to test.
    first = np.searchsorted(inner_highs, low, side="left")
    starts_below = np.ones(len(low), dtype=np.bool_)
    inner = first > 0
    starts_below[inner] = inner_lows[first[inner] - 1] <= high[inner]
    return _meets_one(hull, low, high) & starts_below
