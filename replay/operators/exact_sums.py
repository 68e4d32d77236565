"""Sums and means of groups of numbers that are those of the exact numbers, rounded once.

So they depend on no order, no cut and no plan: 0.1, 0.2 and 0.3 sum to 0.6 however they come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

HALF = 32
LOW_HALF = (1 << HALF) - 1

_MANTISSA_BITS = 53
UNIT_EXPONENT = 1126
"""Every finite double is a whole multiple of 2**-1126: its 53 bits as a whole number, shifted."""


def sums_of_integers(values: IntArray, begins: IntArray, ends: IntArray) -> list[int]:
    """Return the exact sum of each range of at most 2**31 integers of 64 bits."""
    upper = range_sums(values >> HALF, begins, ends).tolist()
    lower = range_sums(values & LOW_HALF, begins, ends).tolist()
    return [(high << HALF) + low for high, low in zip(upper, lower, strict=True)]


def range_sums(half: IntArray, begins: IntArray, ends: IntArray) -> IntArray:
    """Return the sum of each range of halves of integers, which 2**31 of them cannot overflow."""
    sums: IntArray = np.concatenate([np.zeros(1, np.int64), np.cumsum(half)])
    differences: IntArray = sums[ends] - sums[begins]
    return differences


@dataclass(frozen=True, slots=True)
class DoubleSum:
    """The exact sum of doubles: a multiple of 2**-`UNIT_EXPONENT`, and what no number tells."""

    units: int
    has_nan: bool = False
    has_inf: bool = False
    has_minus_inf: bool = False

    def __add__(self, other: DoubleSum) -> DoubleSum:
        return DoubleSum(
            self.units + other.units,
            self.has_nan or other.has_nan,
            self.has_inf or other.has_inf,
            self.has_minus_inf or other.has_minus_inf,
        )

    def rounded(self, count: int = 1) -> float:
        """Return the double nearest to the sum over ``count``.

        OverflowError if it is beyond the range of a double.
        """
        if self.has_nan or (self.has_inf and self.has_minus_inf):
            return math.nan
        if self.has_inf or self.has_minus_inf:
            return math.inf if self.has_inf else -math.inf
        return self.units / (count << UNIT_EXPONENT)  # rounded once, of integers of any size


def as_whole(doubles: npt.NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Return doubles as whole numbers, and which power of 2 each is to be multiplied by.

    0 stands for what is no number.
    """
    fractions, exponents = np.frexp(np.where(np.isfinite(doubles), doubles, 0.0))
    whole = (fractions * 2.0**_MANTISSA_BITS).astype(np.int64)
    return whole, exponents.astype(np.int64) - _MANTISSA_BITS


def sums_of_doubles(
    values: npt.NDArray[np.float64], begins: IntArray, ends: IntArray
) -> list[DoubleSum]:
    """Return the exact sum of each range of at most 2**31 doubles."""
    counts = ends - begins
    group = np.repeat(np.arange(len(begins)), counts)
    rows = np.arange(len(group)) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
    values = values[rows]
    flags = [np.bincount(group[test(values)], minlength=len(begins)) > 0 for test in _TESTS]
    whole, exponents = as_whole(values)
    shifts = exponents + UNIT_EXPONENT
    # Numbers of one exponent add as integers; few exponents are left for Python to add.
    keys, places = np.unique(group * (1 << 12) + shifts, return_inverse=True)
    order = np.argsort(places, kind="stable")
    ends_of = np.searchsorted(places[order], np.arange(len(keys)), side="right")
    begins_of = np.concatenate([np.zeros(1, np.int64), ends_of[:-1]]) if len(keys) else ends_of
    units = [0] * len(begins)
    parts = sums_of_integers(whole[order], begins_of, ends_of)
    for key, part in zip(keys.tolist(), parts, strict=True):
        units[key >> 12] += part << (key & 0xFFF)
    told = zip(units, *(flag.tolist() for flag in flags), strict=True)
    return [DoubleSum(*one) for one in told]


_TESTS = (np.isnan, np.isposinf, np.isneginf)
"""What is no number, in the order of the fields of `DoubleSum`."""


def ratios(sums: Sequence[int], counts: Sequence[int], scale: int = 0) -> list[float]:
    """Return the double nearest to each sum over its count, and over 10**scale; 0.0 over none."""
    return [
        total / (count * 10**scale) if count else 0.0
        for total, count in zip(sums, counts, strict=True)
    ]
