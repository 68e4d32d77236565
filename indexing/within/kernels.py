"""Compiled leaves of lookups within some rows: masks, and groups decoded only where they count."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from indexing.kernels import decode_page, place_positions, read_varint, to_signed


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
def find_within(  # type: ignore[no-untyped-def]
    data, words, pages, counts, follows, segments, mask, places, seq, cuts
):
    """Decode of row groups the rows that a mask leaves; return how many entries were decoded.

    A group whose rows are known to lie between two that the mask has nothing between is not
    decoded.

    Parameters
    ----------
    data, words, pages, counts
        As in :func:`indexing.kernels.decode_groups`.
    follows
        bool array: groups whose rows all lie before the first row of the next one.
    segments
        ``(ends, shifts, live)`` as in :func:`indexing.kernels.place_positions`.
    mask
        ``(marks, shift)`` as in :func:`mark_rows`.
    places
        int64 array to fill in: where the entries kept stand in their groups.
    seq
        int64 array to fill in; as ``places`` with room for all entries and one more.
    cuts
        int64 array to fill in, one more than there are groups.
    """
    ends, shifts, live = segments
    marks, shift = mask
    is_one = len(ends) == 1
    decoded = np.empty(counts.max(), dtype=np.int64)
    kept = np.int64(0)
    n_read = 0
    cuts[0] = 0
    for g in range(len(counts)):
        cuts[g + 1] = kept
        if is_one and follows[g]:
            first = (_first_of_page(data, pages[g, 2]) + shifts[0]) >> shift
            last = (_first_of_page(data, pages[g + 1, 2]) + shifts[0]) >> shift
            if not _has_mark(marks, first, last):
                continue
        rows = decoded[: counts[g]]
        n_read += len(rows)
        if is_one:
            decode_page(data, words, pages[g, 2], shifts[0], 1, rows)
            kept = np.int64(_keep_marked(rows, marks, shift, kept, places, seq))
        else:
            decode_page(data, words, pages[g, 2], 0, 1, rows)
            place_positions(rows, ends, shifts, live)
            # -1, of files that are not taken from the run, stands for no row.
            for j in range(len(rows)):
                seq[kept] = rows[j]
                places[kept] = j
                bit = rows[j] >> shift
                is_kept = bit >= 0 and (marks[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != 0
                kept += 1 if is_kept else 0
        cuts[g + 1] = kept
    return n_read


@njit()
def _keep_marked(rows, marks, shift, kept, places, seq):  # type: ignore[no-untyped-def]
    """Append the rows that a mask leaves, with their places, and return where the next one goes.

    Without a branch that depends on the data; everything unsigned, so that no index is tested for
    counting from the end.
    """
    at = np.uint64(kept)
    step = np.uint64(shift)
    six, low, one = np.uint64(6), np.uint64(63), np.uint64(1)
    for j in range(len(rows)):
        row = rows[j]
        seq[at] = row
        places[at] = j
        bit = np.uint64(row) >> step
        at += (marks[bit >> six] >> (bit & low)) & one
    return at


@njit()
def times_within(data, words, pages, counts, scale, places, cuts, t):  # type: ignore[no-untyped-def]
    """Decode the times of some entries of row groups.

    Parameters
    ----------
    data, words, pages, counts
        As in :func:`indexing.kernels.decode_groups`.
    scale
        Offset and divisor of times.
    places
        int64 array: where the entries stand in their groups, ascending within each.
    cuts
        int64 array: those of group g are ``places[cuts[g]:cuts[g + 1]]``.
    t
        int64 array to fill in, as long as ``places``.
    """
    decoded = np.empty(counts.max(), dtype=np.int64)
    for g in range(len(counts)):
        first, end = cuts[g], cuts[g + 1]
        if first < end:
            decode_page(
                data, words, pages[g, 1], scale[0], scale[1], decoded[: places[end - 1] + 1]
            )
            for i in range(first, end):
                t[i] = decoded[places[i]]


@njit()
def _first_of_page(data, at):  # type: ignore[no-untyped-def]
    """Return the first number of a page of DELTA_BINARY_PACKED integers."""
    for _ in range(3):
        _, at = read_varint(data, at)
    first, _ = read_varint(data, at)
    return to_signed(first)


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
