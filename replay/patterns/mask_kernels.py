"""Compiled leaves that turn predicates into words of bits, and group rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from chronicle.compiled import njit

_CHUNK = 2048
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


# Arrow's memory comes read-only: types are given, so that nothing is compiled twice for it.


def _ranges_signatures() -> list[Any]:
    from numba.core.types import Array, float64, int64, uint64, void

    bits, words = Array(uint64, 1, "C", readonly=True), Array(uint64, 1, "C")
    numbers = [Array(dtype, 1, "C", readonly=True) for dtype in (float64, int64)]
    return [void(values, values, values, bits, words) for values in numbers]


def _code_signatures() -> list[Any]:
    from numba.core.types import Array, int32, uint64, void

    codes, table = Array(int32, 1, "C", readonly=True), Array(uint64, 1, "C", readonly=True)
    return [void(codes, table, Array(uint64, 1, "C"))]


def _where_signatures() -> list[Any]:
    from numba.core.types import Array, boolean, uint64, void

    return [void(Array(boolean, 1, "C", readonly=True), uint64, Array(uint64, 1, "C"))]


@njit(_nrt=False, signatures=_ranges_signatures)
def keep_in_ranges(values, lows, highs, bits, words):  # type: ignore[no-untyped-def]
    """Clear ``bits[k]`` of a row's word unless ``lows[k] <= value <= highs[k]``.

    NaN is outside of every range.
    """
    n = values.size
    for begin in range(0, n, _CHUNK):
        # Slices counted from 0: only so the compiler sees that no index wraps, and vectorises.
        chunk = values[begin : begin + _CHUNK]
        out = words[begin : begin + _CHUNK]
        for k in range(lows.size):
            low = lows[k]
            high = highs[k]
            others = ~bits[k]
            for i in range(out.size):
                inside = (chunk[i] >= low) & (chunk[i] <= high)
                out[i] &= _ALL if inside else others


@njit(_nrt=False, signatures=_code_signatures)
def keep_by_code(codes, table, words):  # type: ignore[no-untyped-def]
    """AND each row's word with the table's entry for its code."""
    for i in range(codes.size):
        words[i] &= table[codes[i]]


@njit(_nrt=False, signatures=_where_signatures)
def keep_where(holds, bits, words):  # type: ignore[no-untyped-def]
    """Clear ``bits`` in the words of rows where the predicate does not hold."""
    others = ~bits
    for i in range(holds.size):
        words[i] &= _ALL if holds[i] else others
