"""Shares: what part of each block's events lies in ranges, told from the block's summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import AttributeBounds
from costmodel.arrays import FloatArray
from indexing.key_range import KeyRange, KeyRanges
from replay.planning.extremes import ATTRIBUTES_KEPT, TimeBounds, may_contain
from replay.planning.plan import IndexLookup
from replay.planning.statistics import BoolArray, IntArray

RANGES_MEASURED_MAX: Final = 16
"""Ranges of one condition that are laid over the extremes one by one; longer lists are taken to
lie evenly in every block that may hold them."""

HUMP_MAX: Final = 0.3
"""Variance, as a part of that of even values, up to which values lie in one hump."""

FLAT_MIN: Final = 0.7
"""Variance, as a part of that of even values, from which on they lie flat or in two humps."""

LEAST: Final = 0.1
"""Part of its even share that a range keeps whatever the moments say: they exclude nothing."""

EVEN_SPREAD: Final = 0.25
"""Standard deviation of the blocks' shares, as a part of their mean, up to which events lie
everywhere: 0.02 to 0.15 on evenly random values and on places of crimes, 0.3 to 2.5 on the readings
of aircraft."""

TOLD_TIMES_MAX: Final = 2.0
"""Times that shares may be off in sum before they show nothing."""

_LOGISTIC: Final = 1.702
"""Slope at which a logistic curve is within 0.01 of the normal distribution's."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How an attribute's values lie in each of n blocks, told from extremes and moments.

    Notes
    -----
    The density between the extremes is the second Legendre polynomial with the block's mean and
    variance, which is even for even values and has a hump at each end where the variance is large;
    where it is small, a normal distribution cut off at the extremes (`HUMP_MAX`, `FLAT_MIN`;
    mixed in between). Times, which have no moments, lie evenly. Not in the thesis, which takes
    selectivities as constant over the stream.
    """

    bounds: AttributeBounds | TimeBounds
    numbers: _Numbers | None
    """None where values have no distances."""

    @classmethod
    def of(cls, bounds: AttributeBounds | TimeBounds) -> Spread:
        """Return how the values of blocks with these extremes and moments lie."""
        if isinstance(bounds, TimeBounds):
            return cls(bounds, _Numbers.of_times(bounds))
        return cls(bounds, _numbers_of(bounds))

    def measures(self, ranges: KeyRanges) -> bool:
        """Return whether it can be told what part of the values ranges hold: few, of numbers."""
        return self.numbers is not None and len(ranges.ranges) <= RANGES_MEASURED_MAX

    def shares(self, ranges: KeyRanges, admitted: BoolArray, count: IntArray) -> FloatArray:
        """Return what share of each block's events may lie in the ranges, 0 where it admits none.

        ``admitted`` says which blocks may hold a value inside the ranges, ``count`` how many events
        each has. Where it cannot be measured, values lie anywhere; a block of which nothing is
        known is given the mean of the others.
        """
        bounds = self.bounds
        if self.numbers is not None and self.measures(ranges):
            inside = self.numbers.inside(ranges)
            np.minimum(inside, 1.0, out=inside)
        else:
            inside = np.ones(len(count))
        if not (isinstance(bounds, TimeBounds) or (bounds.n_values >= count).all()):
            inside *= np.minimum(bounds.n_values / count, 1.0)
        shares = inside if admitted.all() else np.where(admitted, inside, 0.0)
        if isinstance(bounds, TimeBounds) or bounds.known.all():
            return shares
        known = float(shares[bounds.known].mean()) if bounds.known.any() else 1.0
        return np.where(bounds.known, shares, known)


@dataclass(frozen=True, slots=True, eq=False)
class BlockShares:
    """What the tree says of single attributes, block by block."""

    count: IntArray
    """Events of each block."""
    spreads: Mapping[str, Spread]
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
            spread, mask = self.spreads[name], self.admitted.get(part)
            mask = may_contain(ranges, spread.bounds) if mask is None else mask
            self.told[part] = mask, spread.shares(ranges, mask, self.count)
        return self.told[part]

    def measures(self, parts: Sequence[IndexLookup]) -> bool:
        """Return whether shares tell how many events are in the ranges, were it not for fences."""
        return all(self.spreads[name].measures(ranges) for name, ranges in parts)


def is_even(shares: FloatArray, told: float, expected: float) -> bool | None:
    """Return whether a range's events lie everywhere, about as many in each block; None: unknown.

    ``shares`` are those of each block's events, or of each run of blocks, as measured, ``told`` the
    events these are; where about ``expected`` are known to be there, and that differs widely,
    shares show nothing.

    Examples
    --------
    >>> is_even(np.array([0.1, 0.12, 0.09]), 300.0, 310.0)
    True
    >>> is_even(np.array([0.3, 0.0, 0.01]), 300.0, 310.0)
    False
    """
    if max(told, expected) > TOLD_TIMES_MAX * min(told, expected):
        return False
    return float(shares.std()) <= EVEN_SPREAD * float(shares.mean())


@lru_cache(ATTRIBUTES_KEPT)
def _numbers_of(bounds: AttributeBounds) -> _Numbers | None:
    """Return how values lie, told by the bounds' identity; None where they have no distances."""
    is_whole = pa.types.is_integer(bounds.minimum.type)
    if not (is_whole or pa.types.is_floating(bounds.minimum.type)):
        return None
    step = 1.0 if is_whole else 0.0
    low, high = _filled(bounds.minimum), _filled(bounds.maximum)
    return _Numbers.of(low, high, step, _Shape.of(bounds, low, high, step))


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers:
    """Extremes of n blocks as numbers, and the shape between them."""

    low: FloatArray
    high: FloatArray
    step: float
    """Least distance of two values: integers are one apart."""
    shape: _Shape
    span: FloatArray
    """From least to greatest, both included."""
    is_measured: bool
    """Whether every span is more than nothing, and finite."""

    @classmethod
    def of(cls, low: FloatArray, high: FloatArray, step: float, shape: _Shape) -> _Numbers:
        with np.errstate(all="ignore"):
            span = high - low + step
        is_measured = bool((np.isfinite(span) & (span > 0)).all())
        return cls(low, high, step, shape, span, is_measured)

    @classmethod
    def of_times(cls, bounds: TimeBounds) -> _Numbers:
        low, high = bounds.minimum.astype(np.float64), bounds.maximum.astype(np.float64)
        return cls.of(low, high, 1.0, _Shape.unknown(len(low)))

    def inside(self, ranges: KeyRanges) -> FloatArray:
        """Return the part of each block's values that lies in the ranges, shape (n,)."""
        from replay.planning.kernels import add_parts, lay_over

        low, high, span, shape = self.low, self.high, self.span, self.shape
        inside = np.zeros(len(low))
        with np.errstate(all="ignore"):
            for r in ranges.ranges:
                ends = self._ends(r)
                start, even, part = lay_over(
                    low, high, span, self.step, *ends, shape.mean, shape.second
                )
                shape.heap(part, start, even)
                add_parts(inside, part, even, LEAST)
        if self.is_measured:
            return inside
        covered = np.where(self.span > 0, inside, 1.0)
        # A span that reaches to infinity says nothing of what lies inside.
        return np.nan_to_num(covered, nan=0.0, posinf=1.0)

    def _ends(self, r: KeyRange) -> tuple[float, float]:
        """Return the ends of a range, both included; infinities where it has none."""
        first, last = -np.inf, np.inf
        if r.low is not None:
            first = float(r.low) + (0.0 if r.low_closed else self.step)
        if r.high is not None:
            last = float(r.high) - (0.0 if r.high_closed else self.step)
        return first, last


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """How the values of n blocks lie between their extremes, which are -1 and 1 here."""

    mean: FloatArray
    second: FloatArray
    """Mean of the second Legendre polynomial."""
    humped: IntArray
    """Blocks whose values lie in a hump, wholly or in part."""
    weight: FloatArray
    """Weight of the hump in each of these, up to 1."""
    slope: FloatArray
    """Of the logistic curve that stands for the hump in each of these."""
    whole: FloatArray
    """Part of the curve between the extremes."""

    @classmethod
    def of(cls, bounds: AttributeBounds, low: FloatArray, high: FloatArray, step: float) -> _Shape:
        """Return the shape by the blocks' moments; NaN where they are not known."""
        with np.errstate(all="ignore"):
            span = high - low + step
            # A whole number stands for what lies half a step to each side of it.
            mean = (2.0 * (bounds.mean - low) + step) / span - 1.0
            variance = 4.0 * (np.maximum(bounds.variance, 0.0) + step * step / 12.0) / span**2
            of_even = 3.0 * variance
            humped = np.flatnonzero(of_even < FLAT_MIN)
            weight = np.minimum((FLAT_MIN - of_even[humped]) / (FLAT_MIN - HUMP_MAX), 1.0)
            slope = _LOGISTIC / np.sqrt(variance[humped])
            ends = [_logistic(slope * (end - mean[humped])) for end in (-1.0, 1.0)]
            second = 1.5 * (variance + mean * mean) - 0.5
            return cls(mean, second, humped, weight, slope, ends[1] - ends[0])

    @classmethod
    def unknown(cls, n: int) -> _Shape:
        """Return the shape of n blocks of which no moments are known: values lie evenly."""
        nothing, none = np.full(n, np.nan), np.empty(0)
        return cls(nothing, nothing, np.empty(0, dtype=np.int64), none, none, none)

    def heap(self, part: FloatArray, start: FloatArray, even: FloatArray) -> None:
        """Put what lies in a hump in place of what would lie flat, in ``part``.

        ``start`` is where the range begins, ``even`` half its length: the part of even values.
        """
        at = self.humped
        if not len(at):
            return
        first, flat, mean = start[at], part[at], self.mean[at]
        stop = first + 2.0 * even[at]
        below = [_logistic(self.slope * (y - mean)) for y in (first, stop)]
        hump = (below[1] - below[0]) / self.whole
        part[at] = flat + self.weight * (hump - flat)


def _logistic(z: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


def _filled(values: pa.Array) -> FloatArray:
    filled = values.fill_null(0) if values.null_count else values
    # A copy, since Arrow's cannot be written to, which kernels would be compiled for once more.
    return np.array(filled.to_numpy(), dtype=np.float64)
