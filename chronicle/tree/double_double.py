"""Numbers as pairs of doubles, element by element: about 106 bits, for sums of squares.

A pair (high, low) stands for ``high + low``; it is normalised where ``high`` is the double next to
that. What is not finite, or so large that its halves overflow (2**996), comes out as NaN: callers
look for it. Products below 2**-960 lose what would fall below the least double.

References
----------
Dekker, "A floating-point technique for extending the available precision" (1971); Joldes, Muller
and Popescu, "Tight and rigorous error bounds for basic building blocks of double-word arithmetic"
(2017), whose bounds on relative errors are given below; u is 2**-53.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pair = tuple[Floats, Floats]

_SPLITTER = 134217729.0
"""2**27 + 1: cuts a double into two halves of 26 bits."""

SNAPPED_BITS = 84
"""Bits that `snapped` leaves of a pair."""


def two_sum(a: Any, b: Any) -> Pair:
    """Return ``a + b`` without loss."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def two_product(a: Any, b: Any) -> Pair:
    """Return ``a * b`` without loss."""
    whole = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    lost = ((a_high * b_high - whole) + a_high * b_low + a_low * b_high) + a_low * b_low
    return whole, lost


def _halves(a: Any) -> Pair:
    cut = _SPLITTER * a
    high = cut - (cut - a)
    return high, a - high


def add(a: Pair, b: Pair) -> Pair:
    """Return the sum, to 3 u**2 (AccurateDWPlusDW)."""
    total, lost = two_sum(a[0], b[0])
    tail, tail_lost = two_sum(a[1], b[1])
    total, lost = _normal(total, lost + tail)
    return _normal(total, lost + tail_lost)


def multiply(a: Pair, b: Pair) -> Pair:
    """Return the product, to 7 u**2 (DWTimesDW1)."""
    whole, lost = two_product(a[0], b[0])
    return _normal(whole, lost + (a[0] * b[1] + a[1] * b[0]))


def times(a: Pair, by: Any) -> Pair:
    """Return the product with a double, to 2 u**2 (DWTimesFP1 with one rounding less)."""
    whole, lost = two_product(a[0], by)
    return _normal(whole, lost + a[1] * by)


def divide(a: Pair, by: Any) -> Pair:
    """Return the quotient by a double, to 4 u**2 (DWDivFP2)."""
    first = a[0] / by
    whole, lost = two_product(first, by)
    return _normal(first, ((a[0] - whole) - lost + a[1]) / by)


def _normal(high: Any, low: Any) -> Pair:
    """Normalise a pair whose ``low`` is not larger than ``high`` (Fast2Sum)."""
    total = high + low
    return total, low - (total - high)


def snapped(high: Floats, low: Floats) -> Pair:
    """Round pairs to `SNAPPED_BITS` bits.

    Numbers a few units of 2**-100 apart, as different orders of additions give them, then are
    equal, but for one of some 2**15 of them. Without it they would still round to different
    doubles where the exact number lies in the middle of two: sums of squares of whole numbers, of
    halves, of quarters often do.
    """
    exponent = np.frexp(high)[1]
    raised = np.ldexp(1.5, exponent + (52 - SNAPPED_BITS))
    return high, (low + raised) - raised
