"""Sums and second moments of many rows of numbers at once, in about twice a double's precision."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.tree.double_double import Floats, Pair, add, divide, multiply, two_product, two_sum

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ROOM = 1.5 * 2.0**52
"""Added and subtracted again it rounds numbers below 2**51 to whole ones."""

_EXACT_RANGE = 1 << 52
_LIMB_BITS = 22
"""Products of limbs that are so short add up to 2**19 in 64 bits."""


class Moments(NamedTuple):
    """Of n rows; every array has shape (n,)."""

    total: Pair
    """Sums."""
    squares: Pair
    """Sums of squared differences from the mean."""


def moment_rows(
    matrix: Floats, here: Bools | None, n_values: Floats, least: Floats, most: Floats
) -> Moments:
    """Return sums and second moments of rows of doubles.

    Parameters
    ----------
    matrix
        float64, shape (n, width), width from 1 to 2**19.
    here
        Likewise, what of it is a value; None: all.
    n_values
        How many are, shape (n,).
    least, most
        Extremes of the values of each row, 0 where it has none.

    Returns
    -------
    Moments
        What is infinite, or beyond some 2**980, has parts that are not finite.

    Notes
    -----
    To within ``width * 2**-100`` of the sum of absolute values, and of
    ``m2 + abs(mean) * sqrt(n * m2)``. Every number less the middle of its row is cut into four
    slices, the first three multiples of powers of two that are common to the row, and so short
    that their sums and the sums of their products are exact in doubles: Ozaki, Ogita, Oishi and
    Rump, "Error-free transformations of matrix multiplication" (2012).
    """
    bits = _slice_bits(matrix.shape[1])
    half = most / 2.0 - least / 2.0
    unit = _shared(np.ldexp(1.0, np.frexp(half)[1] + (1 - bits)))
    middle = np.where(half == 0.0, least, least / 2.0 + most / 2.0)
    # Values so close to each other that their differences are exact.
    far = (np.maximum(np.abs(least), np.abs(most)) >= unit * 2.0**51) | (half == 0.0)
    if far.any():
        matrix = matrix - np.where(far, middle, 0.0)[:, None]
    center = np.where(far, 0.0, (middle + unit * _ROOM) - unit * _ROOM)
    if here is not None:
        matrix = np.where(here, matrix, center[:, None])
    first, rest = _first_slice(matrix, center, unit)
    total, squares = _sums(first, rest, unit, bits)
    whole = add(two_product(np.where(far, middle, center), n_values), total)
    return Moments(whole, _centered(total, squares, n_values))


def _slice_bits(width: int) -> int:
    """Return how long numbers may be so that ``width`` of their squares are added without loss."""
    return (53 - width.bit_length()) // 2


def _centered(total: Pair, squares: Pair, n_values: Floats) -> Pair:
    """Return sums of squared differences from the mean, of those from some other number."""
    return add(squares, multiply(total, divide(total, -np.maximum(n_values, 1.0))))


def _shared(unit: Floats) -> Floats:
    """Return one unit for all rows where theirs are much the same, which is faster."""
    largest = unit.max()
    return np.asarray(largest) if largest <= 4.0 * unit.min() else unit


def _column(numbers: Floats) -> Floats:
    return numbers[:, np.newaxis] if numbers.ndim else numbers


def _first_slice(matrix: Floats, center: Floats, unit: Floats) -> Pair:
    """Return how many units each number is from a center of whole units, and the rest."""
    raised = unit * _ROOM
    rest = matrix + _column(raised)
    first = rest - (raised + center)[:, np.newaxis]
    rest -= _column(raised)
    np.subtract(matrix, rest, out=rest)
    return first, rest


def _sums(first: Floats, rest: Floats, unit: Floats, bits: int) -> tuple[Pair, Pair]:
    """Return sums and sums of squares of ``first + rest``; overwrites ``rest``."""
    one = np.ones(first.shape[1])
    raised = _column(unit * (_ROOM * 2.0**-bits))
    second = rest + raised
    second -= raised
    rest -= second
    last = 2.0 * np.vecdot(second, rest) + np.vecdot(rest, rest)
    raised = raised * 2.0**-bits
    third = rest + raised
    third -= raised
    rest -= third
    last += 2.0 * np.vecdot(first, rest)
    total = two_sum(np.vecdot(first, one), np.vecdot(second, one))
    squares = two_sum(np.vecdot(first, first), 2.0 * np.vecdot(first, second))
    squares = add(squares, two_sum(2.0 * np.vecdot(first, third), np.vecdot(second, second)))
    none = np.zeros_like(last)
    return (
        add(total, two_sum(np.vecdot(third, one), np.vecdot(rest, one))),
        add(squares, (last, none)),
    )


def integer_square_rows(
    matrix: Ints, here: Bools | None, n_values: Floats, least: Ints, most: Ints
) -> Pair:
    """Return second moments of rows of integers; see `moment_rows`.

    Exact before they are rounded to a pair where a row's values are 2**52 or more apart.
    """
    apart = most.view(np.uint64) - least.view(np.uint64)  # beyond 63 bits, too
    if (apart >= _EXACT_RANGE).any():
        return _wide_square_rows(matrix, here, n_values, least)
    middle = least + (apart >> np.uint64(1)).view(np.int64)
    off = (matrix - middle[:, np.newaxis]).astype(np.float64)
    if int(apart.max()) >> _slice_bits(matrix.shape[1]) == 0:  # one slice
        off = off if here is None else np.where(here, off, 0.0)
        none = np.zeros(len(off))
        return _centered((off.sum(axis=1), none), (np.vecdot(off, off), none), n_values)
    low, high = (least - middle).astype(np.float64), (most - middle).astype(np.float64)
    return moment_rows(off, here, n_values, low, high).squares


def _wide_square_rows(matrix: Ints, here: Bools | None, n_values: Floats, least: Ints) -> Pair:
    apart = matrix.view(np.uint64) - least.view(np.uint64)[:, np.newaxis]
    if here is not None:
        apart = np.where(here, apart, np.uint64(0))
    shifts = (0, _LIMB_BITS, 2 * _LIMB_BITS)
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    limbs = [((apart >> np.uint64(s)) & mask).view(np.int64) for s in shifts]
    totals = _weighed([(s, limb.sum(axis=1)) for s, limb in zip(shifts, limbs, strict=True)])
    products = [
        (s + r, np.vecdot(one, other))
        for s, one in zip(shifts, limbs, strict=True)
        for r, other in zip(shifts, limbs, strict=True)
    ]
    high, low = np.zeros(len(matrix)), np.zeros(len(matrix))
    numbers = n_values.astype(np.int64).tolist()
    rows = zip(numbers, totals, _weighed(products), strict=True)
    for row, (n, total, squares) in enumerate(rows):
        exact = Fraction(n * squares - total * total, max(n, 1))
        high[row] = float(exact)
        low[row] = float(exact - Fraction(high[row]))
    return high, low


def _weighed(terms: list[tuple[int, Ints]]) -> list[int]:
    """Return the exact sums of columns, each shifted to the left by so many bits."""
    shifts = [shift for shift, _ in terms]
    columns = zip(*(column.tolist() for _, column in terms), strict=True)
    return [sum(v << s for s, v in zip(shifts, row, strict=True)) for row in columns]
