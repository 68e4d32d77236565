"""Compiled leaves of aggregates that need every value.

Windows take in rows at one end and drop them at the other.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit


@njit()
def slide_distinct(codes, n_codes, begins, ends):  # type: ignore[no-untyped-def]
    """Return how many different codes the rows of each window have."""
    held = np.zeros(n_codes, np.int64)
    out = np.zeros(begins.size, np.int64)
    n_distinct = np.int64(0)
    first = last = np.int64(0)
    for window in range(begins.size):
        if begins[window] >= ends[window]:
            continue
        while first < last and first < begins[window]:
            held[codes[first]] -= 1
            n_distinct -= held[codes[first]] == 0
            first += 1
        first = max(first, begins[window])
        last = max(last, first)
        while last < ends[window]:
            n_distinct += held[codes[last]] == 0
            held[codes[last]] += 1
            last += 1
        out[window] = n_distinct
    return out


@njit()
def distinct_ranks(ranks, begins, ends):  # type: ignore[no-untyped-def]
    """Return the different ranks of each window's rows, ascending, and how many there are."""
    out = np.empty((ends - begins).sum(), np.int64)
    counts = np.zeros(begins.size, np.int64)
    n = np.int64(0)
    for window in range(begins.size):
        ordered = np.sort(ranks[begins[window] : ends[window]])
        for row in range(ordered.size):
            if row == 0 or ordered[row] != ordered[row - 1]:
                out[n] = ordered[row]
                n += 1
                counts[window] += 1
    return out[:n].copy(), counts


@njit()
def _change(tree, rank, by):  # type: ignore[no-untyped-def]
    """Add to the count of a rank in a Fenwick tree."""
    at = rank + 1
    while at < tree.size:
        tree[at] += by
        at += at & -at


@njit()
def _find(tree, half, place):  # type: ignore[no-untyped-def]
    """Return the rank of the value at a place, from 0, of the values in a Fenwick tree."""
    at = np.int64(0)
    left = place
    step = half
    while step > 0:
        if at + step < tree.size and tree[at + step] <= left:
            at += step
            left -= tree[at]
        step >>= 1
    return at


@njit()
def slide_percentile(ranks, times, n_ranks, begins, ends, fraction):  # type: ignore[no-untyped-def]
    """Return the ranks around a fraction of the values of each window, and the way between them.

    A row counts so many ``times``, of a negative rank not at all; the ranks are -1 where none does.
    """
    tree = np.zeros(n_ranks + 1, np.int64)
    half = np.int64(1)
    while half * 2 <= n_ranks:
        half *= 2
    below = np.full(begins.size, -1, np.int64)
    above = np.full(begins.size, -1, np.int64)
    way = np.zeros(begins.size, np.float64)
    n = np.int64(0)
    first = last = np.int64(0)
    for window in range(begins.size):
        if begins[window] >= ends[window]:
            continue
        while first < last and first < begins[window]:
            if ranks[first] >= 0:
                _change(tree, ranks[first], -times[first])
                n -= times[first]
            first += 1
        first = max(first, begins[window])
        last = max(last, first)
        while last < ends[window]:
            if ranks[last] >= 0:
                _change(tree, ranks[last], times[last])
                n += times[last]
            last += 1
        if n > 0:
            place = (n - 1) * fraction
            whole = np.int64(np.floor(place))
            below[window] = above[window] = _find(tree, half, whole)
            way[window] = place - whole
            if way[window] > 0.0:
                above[window] = _find(tree, half, whole + 1)
    return below, above, way
