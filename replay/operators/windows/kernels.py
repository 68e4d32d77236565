"""Compiled leaves of windowed aggregation: panes of events, and windows merged of panes."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_SPLITTER = 134217729.0
"""2**27 + 1: cuts a double into two halves of 26 bits (Dekker)."""


# ---------------------------------------------------------------------------------------------
# Sums as pairs of doubles, and second moments.


@njit(cache=True, nogil=True)
def _add(high, low, other_high, other_low):  # type: ignore[no-untyped-def]
    """Add two pairs to a relative error of 3 * 2**-106; a pair that is not finite has low 0.

    AccurateDWPlusDW of Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic
    building blocks of double-word arithmetic" (2017).
    """
    total = high + other_high
    if not math.isfinite(total):
        return total, 0.0
    virtual = total - high
    lost = (high - (total - virtual)) + (other_high - virtual)
    tail = low + other_low
    virtual = tail - low
    tail_lost = (low - (tail - virtual)) + (other_low - virtual)
    lost += tail
    head = total + lost
    lost = (lost - (head - total)) + tail_lost
    total = head + lost
    return total, lost - (total - head)


@njit(cache=True, nogil=True)
def _product(a, b):  # type: ignore[no-untyped-def]
    """Return ``a * b`` and what it lost to rounding (Dekker)."""
    whole = a * b
    cut = _SPLITTER * a
    a_high = cut - (cut - a)
    a_low = a - a_high
    cut = _SPLITTER * b
    b_high = cut - (cut - b)
    b_low = b - b_high
    lost = ((a_high * b_high - whole) + a_high * b_low + a_low * b_high) + a_low * b_low
    return whole, lost


@njit(cache=True, nogil=True)
def _squares_between(n, high, low, other_n, other_high, other_low):  # type: ignore[no-untyped-def]
    """Return what the distance of two means adds to the second moment of both together.

    Chan, Golub and LeVeque (1979). The difference is taken of exact products: means that are
    large and close would leave little of it.
    """
    first, first_lost = _product(other_high, float(n))
    second, second_lost = _product(high, float(other_n))
    off = (first - second) + ((first_lost - second_lost) + (other_low * n - low * other_n))
    both = float(n) * float(other_n)
    if math.isfinite(off):
        off /= both
    else:  # numbers beyond 2**996, whose halves overflow, or infinite ones
        off = other_high / other_n - high / n
    return off * off * (both / (float(n) + float(other_n)))


@njit(cache=True, nogil=True)
def _merge(entry, other, with_squares):  # type: ignore[no-untyped-def]
    """Merge two entries of (count, sum, what it lost, second moment)."""
    n, high, low, squares = entry
    other_n, other_high, other_low, other_squares = other
    if n == 0:
        return other
    if other_n == 0:
        return entry
    if with_squares:
        squares += other_squares + _squares_between(n, high, low, other_n, other_high, other_low)
    high, low = _add(high, low, other_high, other_low)
    return n + other_n, high, low, squares


# ---------------------------------------------------------------------------------------------
# Windows of consecutive entries by two stacks: the front holds, for every entry up to `middle`,
# the merge from there to `middle`; the back is one entry that grows to the window's end. Every
# entry enters either once, so all windows together take time linear in entries and windows.
# Tangwongsan, Hirzel and Schneider, "Low-latency sliding-window aggregation in worst-case constant
# time" (2017), where it is called Two-Stacks; the front takes the place of the entries.


@njit(cache=True, nogil=True)
def slide_moments(counts, highs, lows, squares, begins, ends, with_squares):  # type: ignore[no-untyped-def]  # fmt: skip
    """Return sums, what they lost and second moments of windows; overwrites the entries.

    Without squares there are none, neither given nor returned.
    """
    n = begins.size
    out_high = np.zeros(n, np.float64)
    out_low = np.zeros(n, np.float64)
    out_squares = np.zeros(n if with_squares else 0, np.float64)
    n_front = counts.copy()
    middle = 0
    reached = 0
    none = (np.int64(0), 0.0, 0.0, 0.0)
    back = none
    for window in range(n):
        begin = begins[window]
        end = ends[window]
        if begin >= end:
            continue
        if begin >= middle:
            front = none
            for entry in range(end - 1, begin - 1, -1):
                spread = squares[entry] if with_squares else 0.0
                one = (n_front[entry], highs[entry], lows[entry], spread)
                front = _merge(one, front, with_squares)
                n_front[entry], highs[entry], lows[entry], spread = front
                if with_squares:
                    squares[entry] = spread
            middle = end
            reached = end
            back = none
        for entry in range(reached, end):
            spread = squares[entry] if with_squares else 0.0
            one = (n_front[entry], highs[entry], lows[entry], spread)
            back = _merge(back, one, with_squares)
        reached = max(reached, end)
        spread = squares[begin] if with_squares else 0.0
        front = (n_front[begin], highs[begin], lows[begin], spread)
        whole = _merge(front, back, with_squares)
        _, out_high[window], out_low[window], spread = whole
        if with_squares:
            out_squares[window] = spread
    return out_high, out_low, out_squares


@njit(cache=True, nogil=True)
def slide_extremes(least, most, begins, ends, out_least, out_most):  # type: ignore[no-untyped-def]
    """Write least and greatest of windows that are not empty, at least one of any kind.

    Overwrites the entries.
    """
    middle = 0
    reached = 0
    back_least = out_least[0]
    back_most = out_most[0]
    back_is_empty = True
    for window in range(begins.size):
        begin = begins[window]
        end = ends[window]
        if begin >= end:
            continue
        if begin >= middle:
            for entry in range(end - 2, begin - 1, -1):
                least[entry] = min(least[entry], least[entry + 1])
                most[entry] = max(most[entry], most[entry + 1])
            middle = end
            reached = end
            back_is_empty = True
        for entry in range(reached, end):
            if back_is_empty:
                back_least = least[entry]
                back_most = most[entry]
                back_is_empty = False
            else:
                back_least = min(back_least, least[entry])
                back_most = max(back_most, most[entry])
        reached = max(reached, end)
        out_least[window] = least[begin]
        out_most[window] = most[begin]
        if not back_is_empty:
            out_least[window] = min(least[begin], back_least)
            out_most[window] = max(most[begin], back_most)


# ---------------------------------------------------------------------------------------------
# Entries: the events of one pane and key, which stand together.


@njit(cache=True, nogil=True)
def order_rows(codes, n_codes):  # type: ignore[no-untyped-def]
    """Return the rows by code, those of one code in their order."""
    place = np.zeros(n_codes + 1, np.int64)
    for row in range(codes.size):
        place[codes[row] + 1] += 1
    for code in range(n_codes):
        place[code + 1] += place[code]
    order = np.empty(codes.size, np.int64)
    for row in range(codes.size):
        order[place[codes[row]]] = row
        place[codes[row]] += 1
    return order


@njit(cache=True, nogil=True)
def cut_entries(codes, positions, origin, width, rest):  # type: ignore[no-untyped-def]
    """Return the first row of each entry, and the number of rows behind the last.

    An entry ends where the code changes (no code at all: one for all rows) and where positions
    pass ``origin + k * width`` or ``origin + k * width + rest``, or without a width change.
    """
    n = positions.size
    begins = np.empty(n + 1, np.int64)
    n_entries = 0
    border = np.int64(0)
    for row in range(n):
        position = positions[row]
        if row > 0 and position < border and (codes.size == 0 or codes[row] == codes[row - 1]):
            continue
        begins[n_entries] = row
        n_entries += 1
        if width == 0:
            border = position + 1
        else:
            start = origin + (position - origin) // width * width
            border = start + rest if position < start + rest else start + width
    begins[n_entries] = n
    return begins[: n_entries + 1].copy()


@njit(cache=True, nogil=True)
def _add_one(high, low, value):  # type: ignore[no-untyped-def]
    """Add a double to a pair, to a relative error of 2 * 2**-106; see `_add`."""
    total = high + value
    if not math.isfinite(total):
        return total, 0.0
    virtual = total - high
    lost = (high - (total - virtual)) + (value - virtual) + low
    head = total + lost
    return head, lost - (head - total)


_LANES = 4
_CHUNK = 64 * _LANES
"""Rows whose sum is compensated once. What n numbers in a row lose, added up plainly, is off by
n**2 * 2**-106 of their magnitude: with 64 in a lane that is within the n * 2**-100 promised."""


@njit(cache=True, nogil=True)
def _plain_floats(values, begin, end):  # type: ignore[no-untyped-def]
    """Return sum, what it lost, least and greatest of values none of which is missing.

    The sum is not finite where one is NaN or infinite; nothing else counts then.
    """
    sum_0 = sum_1 = sum_2 = sum_3 = 0.0
    lost_0 = lost_1 = lost_2 = lost_3 = 0.0
    least_0 = least_1 = least_2 = least_3 = np.inf
    most_0 = most_1 = most_2 = most_3 = -np.inf
    row = begin
    while row + _LANES <= end:
        value = values[row]
        total = sum_0 + value
        virtual = total - sum_0
        lost_0 += (sum_0 - (total - virtual)) + (value - virtual)
        sum_0 = total
        least_0 = min(least_0, value)
        most_0 = max(most_0, value)
        value = values[row + 1]
        total = sum_1 + value
        virtual = total - sum_1
        lost_1 += (sum_1 - (total - virtual)) + (value - virtual)
        sum_1 = total
        least_1 = min(least_1, value)
        most_1 = max(most_1, value)
        value = values[row + 2]
        total = sum_2 + value
        virtual = total - sum_2
        lost_2 += (sum_2 - (total - virtual)) + (value - virtual)
        sum_2 = total
        least_2 = min(least_2, value)
        most_2 = max(most_2, value)
        value = values[row + 3]
        total = sum_3 + value
        virtual = total - sum_3
        lost_3 += (sum_3 - (total - virtual)) + (value - virtual)
        sum_3 = total
        least_3 = min(least_3, value)
        most_3 = max(most_3, value)
        row += _LANES
    while row < end:
        value = values[row]
        sum_0, lost_0 = _add_one(sum_0, lost_0, value)
        least_0 = min(least_0, value)
        most_0 = max(most_0, value)
        row += 1
    sum_0, lost_0 = _add_one(sum_0, 0.0, lost_0)
    sum_1, lost_1 = _add_one(sum_1, 0.0, lost_1)
    sum_2, lost_2 = _add_one(sum_2, 0.0, lost_2)
    sum_3, lost_3 = _add_one(sum_3, 0.0, lost_3)
    sum_0, lost_0 = _add(sum_0, lost_0, sum_1, lost_1)
    sum_2, lost_2 = _add(sum_2, lost_2, sum_3, lost_3)
    sum_0, lost_0 = _add(sum_0, lost_0, sum_2, lost_2)
    least = min(least_0, least_1, least_2, least_3)
    most = max(most_0, most_1, most_2, most_3)
    return sum_0, lost_0, least, most


@njit(cache=True, nogil=True)
def _squares(values, valid, begin, end, mean):  # type: ignore[no-untyped-def]
    """Return the sum of squared differences from a mean; NULL and NaN do not count."""
    total = 0.0
    for row in range(begin, end):
        if (valid.size == 0 or valid[row]) and not math.isnan(values[row]):
            off = values[row] - mean
            total += off * off
    return total


@njit(cache=True, nogil=True)
def summarise_floats(values, valid, begins, with_squares):  # type: ignore[no-untyped-def]
    """Summarise the rows ``begins[i]`` to ``begins[i + 1]`` for every i.

    Without a ``valid`` no row is NULL. Returns counts of values, NULLs and NaNs, least and
    greatest, sums and what they lost, and second moments, as ``AttributeSummary`` has them.
    """
    n_entries = begins.size - 1
    counts = np.zeros((3, n_entries), np.int64)
    numbers = np.zeros((5, n_entries), np.float64)
    for entry in range(n_entries):
        n_nulls = n_nans = np.int64(0)
        least = np.inf
        most = -np.inf
        merged = (np.int64(0), 0.0, 0.0, 0.0)
        for begin in range(begins[entry], begins[entry + 1], _CHUNK):
            end = min(begin + _CHUNK, begins[entry + 1])
            n = end - begin
            high = np.nan
            low = low_here = high_here = 0.0
            if valid.size == 0:
                high, low, low_here, high_here = _plain_floats(values, begin, end)
            if not math.isfinite(high):
                n = 0
                high = low = 0.0
                low_here = np.inf
                high_here = -np.inf
                for row in range(begin, end):
                    value = values[row]
                    if valid.size > 0 and not valid[row]:
                        n_nulls += 1
                    elif math.isnan(value):
                        n_nans += 1
                    else:
                        n += 1
                        high, low = _add_one(high, low, value)
                        low_here = min(low_here, value)
                        high_here = max(high_here, value)
            least = min(least, low_here)
            most = max(most, high_here)
            squares = 0.0
            if with_squares and n > 1:
                squares = _squares(values, valid, begin, end, (high + low) / n)
            merged = _merge(merged, (np.int64(n), high, low, squares), with_squares)
        counts[0, entry], numbers[2, entry], numbers[3, entry], numbers[4, entry] = merged
        counts[1, entry] = n_nulls
        counts[2, entry] = n_nans
        numbers[0, entry] = least
        numbers[1, entry] = most
    return counts, numbers


@njit(cache=True, nogil=True)
def summarise_integers(values, valid, begins, with_squares):  # type: ignore[no-untyped-def]
    """Summarise the rows ``begins[i]`` to ``begins[i + 1]`` for every i.

    Without a ``valid`` no row is NULL. Returns counts of values and NULLs; least, greatest and
    the high and low parts of the sums; and second moments, as ``AttributeSummary`` has them.
    """
    n_entries = begins.size - 1
    counts = np.zeros((2, n_entries), np.int64)
    numbers = np.zeros((4, n_entries), np.int64)
    squares = np.zeros(n_entries, np.float64)
    for entry in range(n_entries):
        begin = begins[entry]
        end = begins[entry + 1]
        n = end - begin
        least = np.int64(np.iinfo(np.int64).max)
        most = np.int64(np.iinfo(np.int64).min)
        high = low = np.int64(0)
        if valid.size == 0:
            for row in range(begin, end):
                value = values[row]
                least = min(least, value)
                most = max(most, value)
                high += value >> 32
                low += value & 0xFFFFFFFF
        else:
            n = 0
            for row in range(begin, end):
                if valid[row]:
                    value = values[row]
                    n += 1
                    least = min(least, value)
                    most = max(most, value)
                    high += value >> 32
                    low += value & 0xFFFFFFFF
        high += low >> 32
        low &= 0xFFFFFFFF
        counts[0, entry] = n
        counts[1, entry] = end - begin - n
        numbers[0, entry] = least
        numbers[1, entry] = most
        numbers[2, entry] = high
        numbers[3, entry] = low
        if with_squares and n > 1:
            mean = (high * 4294967296.0 + low) / n
            squares[entry] = _squares(values, valid, begin, end, mean)
    return counts, numbers, squares


@njit(cache=True, nogil=True)
def locate(positions, entry_begins, row_begins, lows, highs, begins, ends):  # type: ignore[no-untyped-def]  # fmt: skip
    """Write which entries each window holds: those with ``lows <= position < highs``.

    Of group g are the entries ``entry_begins[g]`` to ``entry_begins[g + 1]``, whose positions
    ascend, and the windows ``row_begins[g]`` to ``row_begins[g + 1]``, whose bounds do.
    """
    for group in range(row_begins.size - 1):
        last = entry_begins[group + 1]
        begin = end = entry_begins[group]
        for row in range(row_begins[group], row_begins[group + 1]):
            while begin < last and positions[begin] < lows[row]:
                begin += 1
            end = max(begin, end)
            while end < last and positions[end] < highs[row]:
                end += 1
            begins[row] = begin
            ends[row] = end


# ---------------------------------------------------------------------------------------------
# Windows that the rows themselves make.


@njit(cache=True, nogil=True)
def number_sessions(partitions, times, gap, current, starts, lasts, base, n_sessions):  # type: ignore[no-untyped-def]  # fmt: skip
    """Return the session of each row, and how many there are now.

    ``current`` has the newest session of each partition, -1 for none; ``starts`` and ``lasts`` the
    times of the first and last row of session ``base + i``, with room for one more a row.
    """
    sessions = np.empty(times.size, np.int64)
    for row in range(times.size):
        partition = partitions[row]
        session = current[partition]
        if session < base or times[row] - lasts[session - base] >= gap:
            session = n_sessions
            n_sessions += 1
            current[partition] = session
            starts[session - base] = times[row]
        lasts[session - base] = times[row]
        sessions[row] = session
    return sessions, n_sessions


@njit(cache=True, nogil=True)
def number_rows(partitions, n_rows):  # type: ignore[no-untyped-def]
    """Return the number of each row within its partition, and count it there."""
    numbers = np.empty(partitions.size, np.int64)
    for row in range(partitions.size):
        numbers[row] = n_rows[partitions[row]]
        n_rows[partitions[row]] += 1
    return numbers
