"""Compiled leaves: places in numbers that ascend."""

from __future__ import annotations

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
