"""Compiled leaves: places in numbers that ascend, and rows by their numbers."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit


@njit(_nrt=False)
def left(values, low, high, value):  # type: ignore[no-untyped-def]
    """Return the first place from ``low`` on whose value is not less."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(_nrt=False)
def right(values, low, high, value):  # type: ignore[no-untyped-def]
    """Return the first place from ``low`` on whose value is greater."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit()
def order_rows(codes, n_codes):  # type: ignore[no-untyped-def]
    """Return the rows by code, those of one code in their order, and where each code's begin."""
    begins = np.zeros(n_codes + 1, np.int64)
    for row in range(codes.size):
        begins[codes[row] + 1] += 1
    for code in range(n_codes):
        begins[code + 1] += begins[code]
    places = begins[:-1].copy()
    order = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        order[places[codes[row]]] = row
        places[codes[row]] += 1
    return order, begins
