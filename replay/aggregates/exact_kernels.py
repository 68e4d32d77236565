"""Compiled arithmetic of whole numbers of several words.

A number is a row of an array of words of 64 bits, the lowest first, in two's complement. One *fits*
while its two highest bits are equal: two that fit add to one that is still right, so a look at the
sum tells in time that wider numbers are needed.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_TOP = np.uint64(62)
_SIGN = np.uint64(63)
_QUARTER = np.uint64(1 << 62)


@njit(_nrt=False)
def add(target, at, source, place):  # type: ignore[no-untyped-def]
    """Add one number to another; returns whether the sum fits."""
    carry = _NONE
    total = _NONE
    for w in range(target.shape[1]):
        more = source[place, w]
        part = target[at, w] + more
        total = part + carry
        carry = _ONE if part < more or total < part else _NONE
        target[at, w] = total
    return (total + _QUARTER) >> _SIGN == _NONE


@njit(_nrt=False)
def clear(target, at):  # type: ignore[no-untyped-def]
    """Set a number to 0."""
    for w in range(target.shape[1]):
        target[at, w] = _NONE


@njit(_nrt=False)
def copy(target, at, source, place):  # type: ignore[no-untyped-def]
    """Set one number to another."""
    for w in range(target.shape[1]):
        target[at, w] = source[place, w]


@njit(_nrt=False)
def is_zero(source, place):  # type: ignore[no-untyped-def]
    """Whether a number is 0."""
    for w in range(source.shape[1]):  # noqa: SIM110 - Numba compiles no generator
        if source[place, w] != _NONE:
            return False
    return True


@njit(_nrt=False)
def n_halves(source, place):  # type: ignore[no-untyped-def]
    """Return how many halves of words a number that is not negative takes."""
    for w in range(source.shape[1] - 1, -1, -1):
        if source[place, w] >> _HALF:
            return 2 * w + 2
        if source[place, w]:
            return 2 * w + 1
    return 0


@njit(_nrt=False)
def half(source, place, h):  # type: ignore[no-untyped-def]
    """Return half ``h`` of a number, the lowest first."""
    word = source[place, h >> 1]
    return word >> _HALF if h & 1 else word & _LOW


@njit(_nrt=False)
def add_product(target, at, one, place, other, where, scratch):  # type: ignore[no-untyped-def]
    """Add the product of two numbers that are not negative; returns whether the sum fits.

    ``scratch`` holds one number of the same width in row 0. Where the product does not fit, what
    is in ``target`` then is of no use.
    """
    n, m = n_halves(one, place), n_halves(other, where)
    if n == 0 or m == 0:
        return True
    if n + m > 2 * target.shape[1]:
        return False
    clear(scratch, 0)
    for i in range(n):
        by = half(one, place, i)
        carry = _NONE
        for j in range(m + 1):
            h = i + j
            if h >= 2 * target.shape[1]:
                break
            # At most (2**32 - 1)**2 + 2 (2**32 - 1), which is 2**64 - 1.
            here = half(other, where, j) if j < m else _NONE
            total = by * here + half(scratch, 0, h) + carry
            carry = total >> _HALF
            kept = scratch[0, h >> 1]
            if h & 1:
                scratch[0, h >> 1] = (kept & _LOW) | ((total & _LOW) << _HALF)
            else:
                scratch[0, h >> 1] = (kept & ~_LOW) | (total & _LOW)
    if scratch[0, target.shape[1] - 1] >> _TOP:
        return False
    return add(target, at, scratch, 0)
