"""Compiled leaves of lookups: pages of a run decoded, entries placed and put in stream order."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit

_WORD_BITS = 57
"""Widest number that eight bytes hold wherever it starts in the first of them."""


@njit()
def lay_out(groups, with_keys, places, skipped_min, stretches, laid):  # type: ignore[no-untyped-def]
    """Find out which stretches of a run are read for row groups, and where things are in them.

    Parameters
    ----------
    groups
        int64 array, ascending.
    with_keys
        bool array: whether the keys of each are read. Those of others are left out, as they stand
        at the front of their group, if they take ``skipped_min`` bytes.
    places
        ``(starts, pages, dictionaries)`` of the run, see `run_format.Places`.
    stretches
        Two int64 arrays as long as ``groups`` to fill in: where stretches begin and end.
    laid
        Arrays to fill in, for each of the groups: where in the stretches, one after the other, its
        bytes end, its pages start and its dictionaries lie.

    Returns
    -------
    int
        How many stretches there are.
    """
    starts, pages, dictionaries = places
    firsts, stops = stretches
    ends_laid, pages_laid, dictionaries_laid = laid
    n = 0
    at = np.int64(0)
    for i in range(len(groups)):
        group = groups[i]
        first, stop = starts[group], starts[group + 1]
        if not with_keys[i] and pages[group, 1] - first >= skipped_min:
            first = pages[group, 1]
        if n > 0 and stops[n - 1] == first:
            stops[n - 1] = stop
        else:
            firsts[n], stops[n] = first, stop
            n += 1
        moved = first - at
        for column in range(pages.shape[1]):
            pages_laid[i, column] = pages[group, column] - moved
            for side in range(2):
                dictionaries_laid[i, column, side] = dictionaries[group, column, side] - moved
        at += stop - first
        ends_laid[i] = at
    return n


@njit()
def decode_groups(  # type: ignore[no-untyped-def]
    data, words, pages, counts, rim, admitted, shift, offset, divisor, position, t, cuts
):
    """Decode ``t`` and ``position`` of row groups, one after the other.

    Parameters
    ----------
    data, words
        As in :func:`decode_page`.
    pages
        int64 array of shape (groups, columns): where the pages of key, ``t`` and ``position``
        start.
    counts
        int64 array: entries of each group.
    rim
        bool array: groups of which only admitted entries are kept.
    admitted
        bool array: for all entries of these groups, one group after the other.
    shift
        Is added to every position.
    offset, divisor
        Times are stored as steps of ``divisor`` from ``offset``.
    position, t
        int64 arrays to fill in, with room for all entries.
    cuts
        int64 array to fill in, one more than there are groups: what is kept of group g is
        ``position[cuts[g]:cuts[g + 1]]``.
    """
    at = 0
    asked = 0
    cuts[0] = 0
    for g in range(len(counts)):
        n = counts[g]
        group_t = t[at : at + n]
        group_position = position[at : at + n]
        decode_page(data, words, pages[g, 1], offset, divisor, group_t)
        decode_page(data, words, pages[g, 2], shift, 1, group_position)
        if rim[g]:
            kept = 0
            for j in range(n):
                group_t[kept] = group_t[j]
                group_position[kept] = group_position[j]
                if admitted[asked + j]:
                    kept += 1
            asked += n
            n = kept
        at += n
        cuts[g + 1] = at


@njit()
def decode_page(data, words, at, shift, scale, out):  # type: ignore[no-untyped-def]
    """Decode a Parquet page of DELTA_BINARY_PACKED 64-bit integers.

    Parameters
    ----------
    data
        uint8 array, eight bytes longer than what pages fill of it.
    words
        The same bytes as an int64 array with a stride of one byte: ``words[i]`` holds the bytes
        ``i`` to ``i + 7``.
    at
        Where the page's values start.
    shift, scale
        Every value is multiplied by ``scale``; then ``shift`` is added.
    out
        int64 array to fill in, as long as there are values, at least one.

    Notes
    -----
    The encoding is that of the Parquet format, "Delta Encoding". Sums wrap around, as they do
    where the page is written.
    """
    block_values, at = read_varint(data, at)
    n_minis, at = read_varint(data, at)
    _, at = read_varint(data, at)
    first, at = read_varint(data, at)
    mini_values = block_values // n_minis
    value = to_signed(first) * scale + shift
    out[0] = value
    i = 1
    while i < len(out):
        zigzag, at = read_varint(data, at)
        least = to_signed(zigzag) * scale
        widths = at
        at += n_minis
        for mini in range(n_minis):
            if i >= len(out):
                break
            width = np.int64(data[widths + mini])
            end = min(len(out), i + mini_values)
            part = out[i:end]
            if width <= _WORD_BITS:
                value = _unpack(words, at, width, least, scale, value, part)
            else:
                for j in range(len(part)):
                    step = _read_wide(data, words, (at << 3) + j * width, width)
                    value += least + step * scale
                    part[j] = value
            i = end
            at += (width * mini_values) >> 3


@njit()
def _unpack(words, at, width, least, scale, value, out):  # type: ignore[no-untyped-def]
    """Add up differences of ``width`` bits from byte ``at`` on, and return the last sum.

    Eight numbers fill whole bytes: where in them each begins is the same for all eights, so it is
    worked out once. Unsigned, so that nothing is tested for negative numbers.
    """
    mask = (np.int64(1) << width) - 1
    three, seven, eight = np.uint64(3), np.uint64(7), np.uint64(8)
    step = np.uint64(width)
    start = np.uint64(at)
    n = np.uint64(len(out))
    i = np.uint64(0)
    while i + eight <= n:
        bit = np.uint64(0)
        for k in range(8):
            word = words[start + (bit >> three)]
            value += least + ((word >> np.int64(bit & seven)) & mask) * scale
            out[i + np.uint64(k)] = value
            bit += step
        start += step
        i += eight
    bit = np.uint64(0)
    while i < n:
        word = words[start + (bit >> three)]
        value += least + ((word >> np.int64(bit & seven)) & mask) * scale
        out[i] = value
        bit += step
        i += np.uint64(1)
    return value


@njit()
def _read_wide(data, words, bit, width):  # type: ignore[no-untyped-def]
    """Return the number of ``width`` bits, 58 to 64, that starts at ``bit``."""
    number = words[bit >> 3]
    skipped = bit & 7
    if skipped:
        low = (number >> skipped) & ((np.int64(1) << (64 - skipped)) - 1)
        number = low | (np.int64(data[(bit >> 3) + 8]) << (64 - skipped))
    if width < 64:
        number &= (np.int64(1) << width) - 1
    return number


@njit()
def decode_codes(data, words, at, out):  # type: ignore[no-untyped-def]
    """Decode a Parquet page of dictionary codes.

    Parameters
    ----------
    data, words
        As in :func:`decode_page`.
    at
        Where the page's values start, with the byte that tells their width.
    out
        int64 array to fill in, as long as there are codes.
    """
    _decode_hybrid(data, words, at + 1, np.int64(data[at]), out)


@njit()
def decode_optional(data, words, at, is_coded, out, valid):  # type: ignore[no-untyped-def]
    """Decode a Parquet page whose values may be null, and return how many are not.

    Parameters
    ----------
    data, words
        As in :func:`decode_page`.
    at
        Where the page's levels start, with the four bytes that tell their length.
    is_coded
        Whether the values are codes of a dictionary; else they are DELTA_BINARY_PACKED.
    out, valid
        int64 and bool arrays to fill in, as long as there are values; 0 stands for null.
    """
    _decode_hybrid(data, words, at + 4, 1, out)
    n_valid = 0
    for i in range(len(out)):
        valid[i] = out[i] == 1
        n_valid += out[i]
    out[n_valid:] = 0
    if n_valid == 0:
        return n_valid
    at += 4 + (words[at] & 0xFFFF_FFFF)
    if is_coded:
        decode_codes(data, words, at, out[:n_valid])
    else:
        decode_page(data, words, at, 0, 1, out[:n_valid])
    source = n_valid
    for i in range(len(out) - 1, -1, -1):
        if source == i + 1:
            break
        if valid[i]:
            source -= 1
            out[i] = out[source]
        else:
            out[i] = 0
    return n_valid


@njit()
def _decode_hybrid(data, words, at, width, out):  # type: ignore[no-untyped-def]
    """Decode numbers of ``width`` bits, RLE and bit packing in turns."""
    mask = (np.int64(1) << width) - 1
    i = 0
    while i < len(out):
        header, at = read_varint(data, at)
        if header & 1:
            n_values = (header >> 1) << 3
            part = out[i : min(len(out), i + n_values)]
            for j in range(len(part)):
                bit = (at << 3) + j * width
                part[j] = (words[bit >> 3] >> (bit & 7)) & mask
            at += (n_values * width) >> 3
        else:
            n_values = header >> 1
            code = words[at] & mask
            for j in range(i, min(len(out), i + n_values)):
                out[j] = code
            at += (width + 7) >> 3
        i += n_values


@njit()
def split_strings(data, at, end, offsets, chars):  # type: ignore[no-untyped-def]
    """Copy the strings of a Parquet dictionary page, and return how many there are.

    Parameters
    ----------
    data
        uint8 array.
    at, end
        Where its values lie: before each string its length in four bytes.
    offsets, chars
        int32 and uint8 arrays with room enough, filled in as Arrow holds strings.
    """
    n = 0
    total = np.int64(0)
    offsets[0] = 0
    while at < end:
        length = np.int64(0)
        for b in range(4):
            length |= np.int64(data[at + b]) << (8 * b)
        at += 4
        for b in range(length):
            chars[total + b] = data[at + b]
        at += length
        total += length
        n += 1
        offsets[n] = total
    return n


@njit()
def read_varint(data, at):  # type: ignore[no-untyped-def]
    """Return an unsigned number of seven bits a byte, and where the next one starts."""
    number = np.int64(0)
    shift = np.int64(0)
    while True:
        byte = np.int64(data[at])
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


@njit()
def to_signed(zigzag):  # type: ignore[no-untyped-def]
    """Return the signed number that Parquet writes as an unsigned one, small where it is small."""
    return ((zigzag >> 1) & np.int64(0x7FFF_FFFF_FFFF_FFFF)) ^ -(zigzag & 1)


@njit()
def place_positions(position, ends, shifts, live):  # type: ignore[no-untyped-def]
    """Turn positions within a run into sequence numbers, in place.

    Parameters
    ----------
    position
        int64 array; long stretches of it ascend.
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


@njit()
def order_by_seq(seq, t, first, marks, below, seq_out, t_out):  # type: ignore[no-untyped-def]
    """Copy ``seq`` and ``t`` in order of ``seq``, in time linear in their length and its span.

    A bit map marks which numbers there are; how many bits lie below a number is its place.

    Parameters
    ----------
    seq, t
        int64 arrays of equal length; no ``seq`` twice.
    first
        The least of ``seq`` or less.
    marks, below
        uint64 and int32 arrays to work in, of one word for every 64 numbers from ``first`` on.
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
        total += _count_ones(marks[w])
    for i in range(len(seq)):
        place = seq[i] - first
        word = np.uint64(place >> 6)
        lower = marks[word] & ((one << np.uint64(place & 63)) - one)
        at = np.uint64(below[word] + _count_ones(lower))
        seq_out[at] = seq[i]
        t_out[at] = t[i]


@njit()
def _count_ones(word):  # type: ignore[no-untyped-def]
    """Return how many bits of a uint64 are set; compiled to one instruction where there is one."""
    pairs = word - ((word >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
    low = np.uint64(0x3333_3333_3333_3333)
    fours = (pairs & low) + ((pairs >> np.uint64(2)) & low)
    bytes_ = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return np.int64((bytes_ * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56))


_DIGIT_BITS = 11
"""Bits sorted at once: 2,048 counters stay in the processor's first cache."""


@njit()
def stable_order(numbers):  # type: ignore[no-untyped-def]
    """Return the places of ``numbers`` (int64) in ascending order, equal ones as they came.

    Notes
    -----
    Sorts by radix, least digit first, and leaves out digits that all numbers share.
    """
    n = len(numbers)
    order = np.arange(n)
    if n < 2:
        return order
    least = numbers.min()
    left = np.empty(n, dtype=np.uint64)
    for i in range(n):
        left[i] = np.uint64(numbers[i] - least)
    span = left.max()
    other_left = np.empty(n, dtype=np.uint64)
    other_order = np.empty(n, dtype=np.int64)
    digit = np.uint64((1 << _DIGIT_BITS) - 1)
    shift = np.uint64(0)
    while shift < np.uint64(64) and span >> shift:
        starts = np.zeros((1 << _DIGIT_BITS) + 1, dtype=np.int64)
        for i in range(n):
            starts[((left[i] >> shift) & digit) + np.uint64(1)] += 1
        if starts.max() < n:
            for d in range(1 << _DIGIT_BITS):
                starts[d + 1] += starts[d]
            for i in range(n):
                d = (left[i] >> shift) & digit
                at = starts[d]
                starts[d] = at + 1
                other_left[at] = left[i]
                other_order[at] = order[i]
            left, other_left = other_left, left
            order, other_order = other_order, order
        shift += np.uint64(_DIGIT_BITS)
    return order


@njit()
def order_groups(order, position, cuts):  # type: ignore[no-untyped-def]
    """Sort ``order``, in place, by position within each group ``cuts[g]:cuts[g + 1]``.

    Parameters
    ----------
    order
        int64 array of places in ``position``.
    position
        int64 array.
    cuts
        int64 array, ascending.
    """
    for g in range(len(cuts) - 1):
        group = order[cuts[g] : cuts[g + 1]]
        group[:] = group[stable_order(position[group])]
