"""Compiled leaves of lookups: entries placed, masked and put in stream order."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit


@njit(_nrt=False)
def decode(numbers, cuts, kept, limits, line, out, kept_cuts):  # type: ignore[no-untyped-def]
    """Write ``numbers * scale + shift``, and return whether the numbers are what they must be.

    Parameters
    ----------
    numbers
        uint32 or uint64 array.
    cuts
        int64 array: group g is ``cuts[g]:cuts[g + 1]``, none is empty.
    kept
        ``(rim, admitted)``, bool arrays: groups of which only admitted entries are kept; and for
        the entries of these, one group after the other, whether they are.
    limits
        ``(may_repeat, most)``: whether a number may be that of the entry before, else it must be
        greater; and what none may exceed, a uint64.
    line
        ``(scale, shift)``, uint64; results wrap around.
    out
        int64 array to fill in from its front, as long as ``numbers``.
    kept_cuts
        int64 array to fill in: where what is kept of the groups is cut.
    """
    rim, admitted = kept
    may_repeat, most = limits
    scale, shift = line
    at = 0
    asked = 0
    n_wrong = 0
    kept_cuts[0] = 0
    for g in range(len(cuts) - 1):
        # Slices and no branch in the loops, so that several numbers are compared at once.
        group = numbers[cuts[g] : cuts[g + 1]]
        n_falls = 0
        n_repeats = 0
        for i in range(1, len(group)):
            n_falls += group[i] < group[i - 1]
            n_repeats += group[i] == group[i - 1]
        n_wrong += n_falls + (0 if may_repeat else n_repeats) + (group[-1] > most)
        if rim[g]:
            for i in range(len(group)):
                out[at] = np.int64(np.uint64(group[i]) * scale + shift)
                at += admitted[asked]
                asked += 1
        else:
            part = out[at : at + len(group)]
            for i in range(len(group)):
                part[i] = np.int64(np.uint64(group[i]) * scale + shift)
            at += len(group)
        kept_cuts[g + 1] = at
    return n_wrong == 0


@njit(_nrt=False)
def admit(codes, cuts, word_cuts, admits, admitted):  # type: ignore[no-untyped-def]
    """Find out which entries are admitted, and return whether all of them have a word.

    Parameters
    ----------
    codes
        uint16 array: which word of its group an entry has.
    cuts, word_cuts
        int64 arrays: entries and words of the groups.
    admits
        bool array: which words are admitted.
    admitted
        bool array to fill in, as long as ``codes``.
    """
    for g in range(len(cuts) - 1):
        first = word_cuts[g]
        n_words = word_cuts[g + 1] - first
        for i in range(cuts[g], cuts[g + 1]):
            code = np.int64(codes[i])
            if code >= n_words:
                return False
            admitted[i] = admits[first + code]
    return True


@njit(_nrt=False)
def place_positions(position, ends, shifts, live):  # type: ignore[no-untyped-def]
    """Turn positions within a run into sequence numbers, in place.

    Parameters
    ----------
    position
        int64 array of numbers from 0 to below ``ends[-1]``; long stretches of it ascend.
    ends
        int64 array, ascending: the positions below ``ends[0]`` make up segment 0, and so on.
    shifts
        int64 array: what is added in each segment.
    live
        bool array: positions of the other segments become -1.
    """
    segment = 0
    for i in range(len(position)):
        p = position[i]
        if segment > 0 and p < ends[segment - 1]:
            segment = 0
        while p >= ends[segment]:
            segment += 1
        position[i] = p + shifts[segment] if live[segment] else -1


@njit(_nrt=False)
def order_by_seq(seq, t, first, marks, below, seq_out, t_out):  # type: ignore[no-untyped-def]
    """Copy ``seq`` and ``t`` in order of ``seq``, in time linear in their length and its span.

    A bit map marks which numbers there are; how many bits lie below a number is its place. Returns
    how many different numbers there are; where one comes twice, what is filled in means nothing.

    Parameters
    ----------
    seq, t
        int64 arrays of equal length.
    first
        The least of ``seq`` or less.
    marks, below
        uint64 and int32 arrays to work in, of one word for every 64 numbers from ``first`` to the
        greatest of ``seq``.
    seq_out, t_out
        int64 arrays to fill in, as long as ``seq``, which share no memory with it or ``t``.
    """
    one = np.uint64(1)
    marks[:] = 0
    for i in range(len(seq)):
        place = seq[i] - first
        marks[np.uint64(place >> 6)] |= one << np.uint64(place & 63)
    total = 0
    for w in range(len(marks)):
        below[w] = total
        total += count_ones(marks[w])
    if total < len(seq):
        return total
    for i in range(len(seq)):
        place = seq[i] - first
        word = np.uint64(place >> 6)
        lower = marks[word] & ((one << np.uint64(place & 63)) - one)
        at = np.uint64(below[word] + count_ones(lower))
        seq_out[at] = seq[i]
        t_out[at] = t[i]
    return total


@njit(_nrt=False)
def count_ones(word):  # type: ignore[no-untyped-def]
    """Return how many bits of a uint64 are set; compiled to one instruction where there is one."""
    pairs = word - ((word >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
    low = np.uint64(0x3333_3333_3333_3333)
    fours = (pairs & low) + ((pairs >> np.uint64(2)) & low)
    bytes_ = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return np.int64((bytes_ * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56))


# ---------------------------------------------------------------------------------------------
# Lookups within some rows: masks, and the rows they leave


@njit(_nrt=False)
def mark_rows(rows, shift, marks):  # type: ignore[no-untyped-def]
    """Set in ``marks`` (uint64 array) the bits ``seq >> shift`` of some rows (int64 array)."""
    step = np.uint64(shift)
    six, low, one = np.uint64(6), np.uint64(63), np.uint64(1)
    for i in range(len(rows)):
        bit = np.uint64(rows[i]) >> step
        marks[bit >> six] |= one << (bit & low)


@njit(_nrt=False)
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


@njit(_nrt=False)
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
