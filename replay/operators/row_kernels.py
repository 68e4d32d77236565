"""Compiled leaves of measures: what runs along the rows of matches, one after the other.

Rows stand in segments (matches, or groups), which a running value never crosses.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit


@njit()
def running_sum(values, segments):  # type: ignore[no-untyped-def]
    """Sum of the segment's values up to each row: from 0.0, left to right."""
    sums = np.empty(values.size, np.float64)
    total = 0.0
    for row in range(values.size):
        if row == 0 or segments[row] != segments[row - 1]:
            total = 0.0
        total += values[row]
        sums[row] = total
    return sums


@njit()
def running_best(values, segments, greatest):  # type: ignore[no-untyped-def]
    """Row of the segment's least (or greatest) value up to each row; the first of equal ones."""
    bests = np.empty(values.size, np.int64)
    best = 0
    for row in range(values.size):
        if row == 0 or segments[row] != segments[row - 1]:
            best = row
        elif greatest:
            if values[row] > values[best]:
                best = row
        elif values[row] < values[best]:
            best = row
        bests[row] = best
    return bests


@njit()
def running_squares(values, segments):  # type: ignore[no-untyped-def]
    """Sum of squared differences from the mean, of the segment's values up to each row.

    Welford's recurrence (Technometrics 4/3, 1962), which loses nothing to a large mean.
    """
    squares = np.empty(values.size, np.float64)
    n = 0
    mean = 0.0
    m2 = 0.0
    for row in range(values.size):
        if row == 0 or segments[row] != segments[row - 1]:
            n = 0
            mean = 0.0
            m2 = 0.0
        n += 1
        off = values[row] - mean
        mean += off / n
        m2 += off * (values[row] - mean)
        squares[row] = m2
    return squares


@njit()
def find_rows(seq, begins, ends, wanted):  # type: ignore[no-untyped-def]
    """Row of ``begins[i] : ends[i]``, where ``seq`` ascends, with ``wanted[i]``; -1 for none."""
    found = np.full(wanted.size, -1, np.int64)
    for i in range(wanted.size):
        low = begins[i]
        high = ends[i]
        while low < high:
            middle = (low + high) // 2
            if seq[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        if low < ends[i] and seq[low] == wanted[i]:
            found[i] = low
    return found
