"""Compiled leaves of lookups within some rows: masks, and the rows they leave."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit


@njit()
def mark_rows(rows, shift, marks):  # type: ignore[no-untyped-def]
    """Set in ``marks`` (uint64 array) the bits ``seq >> shift`` of some rows (int64 array)."""
    step = np.uint64(shift)
    six, low, one = np.uint64(6), np.uint64(63), np.uint64(1)
    for i in range(len(rows)):
        bit = np.uint64(rows[i]) >> step
        marks[bit >> six] |= one << (bit & low)


@njit()
def mark_spans(first, stop, shift, marks):  # type: ignore[no-untyped-def]
    """Set the bits of all rows from ``first`` to ``stop`` (int64 arrays), none of them empty."""
    every = ~np.uint64(0)
    for i in range(len(first)):
        low = first[i] >> shift
        high = (stop[i] - 1) >> shift
        at, end = low >> 6, high >> 6
        head = every << np.uint64(low & 63)
        tail = every >> np.uint64(63 - (high & 63))
        if at == end:
            marks[at] |= head & tail
        else:
            marks[at] |= head
            marks[at + 1 : end] = every
            marks[end] |= tail


@njit()
def find_touched(marks, shift, spans):  # type: ignore[no-untyped-def]
    """Return which half-open spans (int64, shape (n, 2), none empty) have a bit set."""
    touched = np.empty(len(spans), dtype=np.bool_)
    for i in range(len(spans)):
        touched[i] = _has_mark(marks, spans[i, 0] >> shift, (spans[i, 1] - 1) >> shift)
    return touched


@njit()
def keep_rows(rows, marks, shift, places):  # type: ignore[no-untyped-def]
    """Find the rows that a mask leaves, and return how many there are.

    Without a branch that depends on the data.

    Parameters
    ----------
    rows
        int64 array: rows of the stream, -1 for none.
    marks, shift
        As in :func:`mark_rows`.
    places
        int64 array to fill in with their places, with room for all of them and one more.
    """
    kept = np.int64(0)
    for i in range(len(rows)):
        bit = max(rows[i], 0) >> shift
        places[kept] = i
        is_marked = (marks[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1)
        kept += np.int64(is_marked) if rows[i] >= 0 else 0
    return kept


@njit()
def _has_mark(marks, first, last):  # type: ignore[no-untyped-def]
    """Return whether a bit from ``first`` to ``last``, both included, is set."""
    every = ~np.uint64(0)
    at, end = first >> 6, last >> 6
    head = every << np.uint64(first & 63)
    tail = every >> np.uint64(63 - (last & 63))
    if at == end:
        return marks[at] & head & tail != 0
    if marks[at] & head != 0 or marks[end] & tail != 0:
        return True
    return bool((marks[at + 1 : end] != 0).any())
