"""Compiled leaves of planning: joins of ascending arrays, order by key, spans of rows."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from indexing.kernels import count_ones

_NEAR = 8
"""Values looked at one by one before larger steps are taken."""


@njit()
def sweep_lower_bounds(values, wanted):  # type: ignore[no-untyped-def]
    """Return for each of ``wanted`` how many ``values`` are smaller; both int64, ascending.

    From the place of the one before, by steps that double, so that values in between cost little.
    """
    places = np.empty(len(wanted), np.int64)
    at = 0
    n = len(values)
    for i in range(len(wanted)):
        near = min(at + _NEAR, n)
        while at < near and values[at] < wanted[i]:
            at += 1
        if at == near:
            at = _first_from(values, at, n, wanted[i])
        places[i] = at
    return places


@njit()
def rank_lower_bounds(values, wanted, first, n_words):  # type: ignore[no-untyped-def]
    """Return the same by a bit map over the span of ``values``, no two of which are equal.

    Without a branch that depends on the data; every value lies in ``first`` to
    ``first + 64 * n_words - 1``, and its last word has none.
    """
    words = np.zeros(n_words, np.uint64)
    six, low, one = np.uint64(6), np.uint64(63), np.uint64(1)
    for i in range(len(values)):
        place = np.uint64(values[i] - first)
        words[place >> six] |= one << (place & low)
    below = np.empty(n_words, np.int32)
    total = 0
    for w in range(n_words):
        below[w] = total
        total += count_ones(words[w])
    places = np.empty(len(wanted), np.int64)
    beyond = (n_words - 1) << 6
    for i in range(len(wanted)):
        place = np.uint64(min(max(wanted[i] - first, 0), beyond))
        word = place >> six
        places[i] = below[word] + count_ones(words[word] & ((one << (place & low)) - one))
    return places


@njit()
def find_members(wanted, present, first, n_words):  # type: ignore[no-untyped-def]
    """Return which of ``wanted`` are among ``present``, by a bit map over their span.

    Without a branch that depends on the data: merging two lists instead mispredicts every other
    step. Every value of both arrays lies in ``first`` to ``first + 32 * n_words - 1``.
    """
    words = np.zeros(n_words, np.uint32)
    for i in range(len(present)):
        place = np.uint64(present[i] - first)
        words[place >> np.uint64(5)] |= np.uint32(np.uint64(1) << (place & np.uint64(31)))
    found = np.empty(len(wanted), np.bool_)
    for i in range(len(wanted)):
        place = np.uint64(wanted[i] - first)
        bits = words[place >> np.uint64(5)] >> (place & np.uint64(31))
        found[i] = bits & np.uint64(1) != 0
    return found


@njit()
def order_by_key(keys, kept, n_keys):  # type: ignore[no-untyped-def]
    """Return ``kept`` in order of ``keys[kept]``, all below ``n_keys``: a counting sort, stable."""
    cursor = np.zeros(n_keys + 1, np.int64)
    for i in range(len(kept)):
        cursor[keys[kept[i]] + 1] += 1
    for key in range(n_keys):
        cursor[key + 1] += cursor[key]
    places = np.empty(len(kept), np.int64)
    for i in range(len(kept)):
        key = keys[kept[i]]
        places[cursor[key]] = kept[i]
        cursor[key] += 1
    return places


@njit()
def find_in_spans(key, at, offsets, low, high):  # type: ignore[no-untyped-def]
    """Return which events lie in a span of their key; see ``key_spans.KeySpans.contain``.

    Each key has a cursor, found by bisection where the key comes first and moved on from there:
    linear in the events and the spans they pass.
    """
    cursor = np.full(offsets.size - 1, -1, np.int64)
    inside = np.zeros(key.size, np.bool_)
    for i in range(key.size):
        k = key[i]
        if k < 0:
            continue
        end = offsets[k + 1]
        c = cursor[k]
        if c < 0:
            c = offsets[k]
            above = end
            while c < above:
                middle = (c + above) // 2
                if high[middle] < at[i]:
                    c = middle + 1
                else:
                    above = middle
        while c < end and high[c] < at[i]:
            c += 1
        cursor[k] = c
        inside[i] = c < end and low[c] <= at[i]
    return inside


@njit()
def cut_to_intervals(seq_low, t_low, seq_high, t_high, n, starts, n_rows, first_seqs, times):  # type: ignore[no-untyped-def]
    """Return the rows in one of ``n`` intervals as runs; see ``row_spans.RowSpans.cut``.

    A bound of shape (0,) does not restrict. Returns the first row of each run, its last and one,
    and its stretch.
    """
    n_most = min(n + len(starts), n_rows.sum())  # none is empty
    begins, ends = np.empty(n_most, np.int64), np.empty(n_most, np.int64)
    stretch = np.empty(n_most, np.int64)
    n_runs = at = 0
    for p in range(len(starts)):
        stop = starts[p] + n_rows[p]
        shift = first_seqs[p] - starts[p]
        low = high = begin = end = starts[p]
        while at < n:
            if len(seq_low):
                low = max(low, min(seq_low[at] - shift, stop))
            if len(t_low):
                low = _first_from(times, low, stop, t_low[at])
            if low == stop:
                break  # so do all that follow
            limit = min(seq_high[at] - shift + 1, stop) if len(seq_high) else stop
            high = max(high, low)
            if len(t_high) and t_high[at] < times[stop - 1]:
                limit = min(limit, _first_from(times, high, stop, t_high[at] + 1))
            high = max(high, limit)
            if high > low:
                if low > end:
                    if end > begin:
                        begins[n_runs], ends[n_runs], stretch[n_runs] = begin, end, p
                        n_runs += 1
                    begin = low
                elif end == begin:
                    begin = low
                end = high
            if high == stop:
                break  # it may go on in the next stretch
            at += 1
        if end > begin:
            begins[n_runs], ends[n_runs], stretch[n_runs] = begin, end, p
            n_runs += 1
    return begins[:n_runs], ends[:n_runs], stretch[:n_runs]


@njit(_nrt=False)
def _first_from(values, at, stop, least):  # type: ignore[no-untyped-def]
    """Return the first place from ``at`` on of a value that is no less, ``stop`` if there is none.

    Values ascend. By steps that double, so that it is cheap whether near or far.
    """
    step = 1
    while at + step <= stop and values[at + step - 1] < least:
        at += step
        step += step
    stop = min(at + step - 1, stop)
    while at < stop:
        middle = (at + stop) >> 1
        if values[middle] < least:
            at = middle + 1
        else:
            stop = middle
    return at
