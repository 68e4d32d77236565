"""Compiled leaves of sums and second moments, of panes of events and of windows merged of panes."""

from __future__ import annotations

import math

import numpy as np

from chronicle.compiled import njit

_SPLITTER = 134217729.0
"""2**27 + 1: cuts a double into two halves of 26 bits (Dekker)."""

_HALF = 4294967296.0
"""2**32, what ``sum_high`` of integers counts."""


# ---------------------------------------------------------------------------------------------
# Sums as pairs of doubles, and second moments. ``with_squares`` is True or None: None is a type of
# its own, so that what makes squares is not compiled where they are not asked for.


@njit(_nrt=False)
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


@njit(_nrt=False)
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


@njit(_nrt=False)
def _times(high, low, by):  # type: ignore[no-untyped-def]
    """Return the product of a pair with a double, to 2 * 2**-106 (DWTimesFP, as there)."""
    whole, lost = _product(high, by)
    lost += low * by
    total = whole + lost
    return total, lost - (total - whole)


@njit(_nrt=False)
def _multiply(high, low, other_high, other_low):  # type: ignore[no-untyped-def]
    """Return the product of two pairs, to 7 * 2**-106 (DWTimesDW1, as there)."""
    whole, lost = _product(high, other_high)
    lost += high * other_low + low * other_high
    total = whole + lost
    return total, lost - (total - whole)


@njit(_nrt=False)
def _over(high, low, by):  # type: ignore[no-untyped-def]
    """Return a pair divided by a double, to 4 * 2**-106 (DWDivFP2, as there)."""
    first = high / by
    whole, lost = _product(first, by)
    rest = ((high - whole) - lost + low) / by
    total = first + rest
    return total, rest - (total - first)


@njit(_nrt=False)
def _squares_between(n, high, low, other_n, other_high, other_low):  # type: ignore[no-untyped-def]
    """Return what the distance of two means adds to the second moment of both together.

    Chan, Golub and LeVeque (1979). The difference is taken of exact products: means would be
    rounded, and may be large and close.
    """
    first, first_lost = _times(other_high, other_low, float(n))
    second, second_lost = _times(-high, -low, float(other_n))
    apart, apart_lost = _add(first, first_lost, second, second_lost)
    off, off_lost = _over(apart, apart_lost, float(n))
    off, off_lost = _over(off, off_lost, float(other_n))
    weight, weight_lost = _product(float(n), float(other_n))
    weight, weight_lost = _over(weight, weight_lost, float(n) + float(other_n))
    wide, wide_lost = _multiply(off, off_lost, weight, weight_lost)
    added, lost = _multiply(wide, wide_lost, off, off_lost)
    if math.isfinite(lost):
        return added, lost
    # Numbers beyond 2**996, whose halves overflow, or infinite ones.
    off = other_high / other_n - high / n
    return off * off * (float(n) * (float(other_n) / (float(n) + float(other_n)))), 0.0


@njit(_nrt=False)
def _merge(entry, other, with_squares):  # type: ignore[no-untyped-def]
    """Merge two entries of (count, sum, what it lost, second moment, what that lost)."""
    n, high, low, squares, squares_low = entry
    other_n, other_high, other_low, other_squares, other_squares_low = other
    if n == 0:
        return other
    if other_n == 0:
        return entry
    if with_squares is not None:
        added, lost = _squares_between(n, high, low, other_n, other_high, other_low)
        added, lost = _add(added, lost, other_squares, other_squares_low)
        squares, squares_low = _add(squares, squares_low, added, lost)
    high, low = _add(high, low, other_high, other_low)
    return n + other_n, high, low, squares, squares_low


# ---------------------------------------------------------------------------------------------
# Windows of consecutive entries by two stacks, as in `replay.windows.kernels`.


@njit()
def slide_moments(counts, highs, lows, squares, squares_low, begins, ends, with_squares):  # type: ignore[no-untyped-def]  # fmt: skip
    """Return sums, what they lost, second moments and what those lost; overwrites the entries.

    Without squares there are none, neither given nor returned.
    """
    n = begins.size
    out_high = np.zeros(n, np.float64)
    out_low = np.zeros(n, np.float64)
    out_squares = np.zeros((2, n if with_squares is not None else 0), np.float64)
    n_front = counts.copy()
    middle = 0
    reached = 0
    none = (np.int64(0), 0.0, 0.0, 0.0, 0.0)
    back = none
    for window in range(n):
        begin = begins[window]
        end = ends[window]
        if begin >= end:
            continue
        if begin >= middle:
            front = none
            for entry in range(end - 1, begin - 1, -1):
                spread = squares[entry] if with_squares is not None else 0.0
                lost = squares_low[entry] if with_squares is not None else 0.0
                one = (n_front[entry], highs[entry], lows[entry], spread, lost)
                front = _merge(one, front, with_squares)
                n_front[entry], highs[entry], lows[entry], spread, lost = front
                if with_squares is not None:
                    squares[entry] = spread
                    squares_low[entry] = lost
            middle = end
            reached = end
            back = none
        for entry in range(reached, end):
            spread = squares[entry] if with_squares is not None else 0.0
            lost = squares_low[entry] if with_squares is not None else 0.0
            one = (n_front[entry], highs[entry], lows[entry], spread, lost)
            back = _merge(back, one, with_squares)
        reached = max(reached, end)
        spread = squares[begin] if with_squares is not None else 0.0
        lost = squares_low[begin] if with_squares is not None else 0.0
        front = (n_front[begin], highs[begin], lows[begin], spread, lost)
        whole = _merge(front, back, with_squares)
        _, out_high[window], out_low[window], spread, lost = whole
        if with_squares is not None:
            out_squares[0, window] = spread
            out_squares[1, window] = lost
    return out_high, out_low, out_squares[0], out_squares[1]


# ---------------------------------------------------------------------------------------------
# Entries: the events of one pane and key, which stand together.


@njit(_nrt=False)
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


@njit(_nrt=False)
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


@njit(_nrt=False)
def _apart(value, center):  # type: ignore[no-untyped-def]
    """Return the difference of two doubles as a pair."""
    off = value - center
    virtual = off - value
    return off, (value - (off - virtual)) + (-center - virtual)


@njit(_nrt=False)
def _add_square(total, lost, off, off_lost):  # type: ignore[no-untyped-def]
    """Add the square of a pair to a sum that is compensated once."""
    square, square_lost = _product(off, off)
    added = total + square
    virtual = added - total
    lost += (total - (added - virtual)) + (square - virtual) + (square_lost + 2.0 * off * off_lost)
    return added, lost


@njit(_nrt=False)
def _centered(total, lost, n, high, low, center):  # type: ignore[no-untyped-def]
    """Return a second moment, given the squares around a number next to the mean, and the sum."""
    whole, whole_lost = _product(-center, float(n))
    apart, apart_lost = _add(high, low, whole, whole_lost)
    off, off_lost = _over(apart, apart_lost, -float(n))
    less, less_lost = _multiply(off, off_lost, apart, apart_lost)
    total, lost = _add_one(total, 0.0, lost)
    return _add(total, lost, less, less_lost)


@njit(_nrt=False)
def _squares(values, valid, begin, end, n, high, low):  # type: ignore[no-untyped-def]
    """Return a second moment and what it lost; NULL and NaN do not count, ``n`` values do."""
    center = (high + low) / n
    total = lost = 0.0
    if n == end - begin:
        total_1 = total_2 = total_3 = lost_1 = lost_2 = lost_3 = 0.0
        row = begin
        while row + _LANES <= end:
            off, off_lost = _apart(values[row], center)
            total, lost = _add_square(total, lost, off, off_lost)
            off, off_lost = _apart(values[row + 1], center)
            total_1, lost_1 = _add_square(total_1, lost_1, off, off_lost)
            off, off_lost = _apart(values[row + 2], center)
            total_2, lost_2 = _add_square(total_2, lost_2, off, off_lost)
            off, off_lost = _apart(values[row + 3], center)
            total_3, lost_3 = _add_square(total_3, lost_3, off, off_lost)
            row += _LANES
        while row < end:
            off, off_lost = _apart(values[row], center)
            total, lost = _add_square(total, lost, off, off_lost)
            row += 1
        total, lost = _add(total, lost, total_1, lost_1)
        total_2, lost_2 = _add(total_2, lost_2, total_3, lost_3)
        total, lost = _add(total, lost, total_2, lost_2)
    else:
        for row in range(begin, end):
            if (valid.size == 0 or valid[row]) and not math.isnan(values[row]):
                off, off_lost = _apart(values[row], center)
                total, lost = _add_square(total, lost, off, off_lost)
    total, lost = _centered(total, lost, n, high, low, center)
    if math.isfinite(lost):
        return total, lost
    total = 0.0  # numbers beyond 2**996, whose halves overflow, or infinite ones
    for row in range(begin, end):
        if (valid.size == 0 or valid[row]) and not math.isnan(values[row]):
            off = values[row] - center
            total += off * off
    return total, 0.0


@njit()
def summarise_floats(values, valid, begins, with_squares):  # type: ignore[no-untyped-def]
    """Summarise the rows ``begins[i]`` to ``begins[i + 1]`` for every i.

    Without a ``valid`` no row is NULL. Returns counts of values, NULLs and NaNs, least and
    greatest, sums and what they lost, second moments and what they lost, as ``AttributeSummary``
    has them.
    """
    n_entries = begins.size - 1
    counts = np.zeros((3, n_entries), np.int64)
    numbers = np.zeros((6, n_entries), np.float64)
    for entry in range(n_entries):
        n_nulls = n_nans = np.int64(0)
        least = np.inf
        most = -np.inf
        merged = (np.int64(0), 0.0, 0.0, 0.0, 0.0)
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
            squares = squares_low = 0.0
            if with_squares is not None and n > 1:
                squares, squares_low = _squares(values, valid, begin, end, n, high, low)
            one = (np.int64(n), high, low, squares, squares_low)
            merged = _merge(merged, one, with_squares)
        counts[0, entry] = merged[0]
        numbers[2, entry] = merged[1]
        numbers[3, entry] = merged[2]
        numbers[4, entry] = merged[3]
        numbers[5, entry] = merged[4]
        counts[1, entry] = n_nulls
        counts[2, entry] = n_nans
        numbers[0, entry] = least
        numbers[1, entry] = most
    return counts, numbers


@njit(_nrt=False)
def _integer_squares(values, valid, begin, end, n, high, low):  # type: ignore[no-untyped-def]
    """Return a second moment of integers and what it lost; NULL does not count."""
    rounded = float(high)
    rest = float(high - np.int64(rounded)) * _HALF + float(low)
    sum_high, sum_low = _add_one(rounded * _HALF, 0.0, rest)
    center = (sum_high + sum_low) / n
    total = lost = 0.0
    for row in range(begin, end):
        if valid.size == 0 or valid[row]:
            # Both halves of an integer are doubles without loss.
            upper = float(values[row] >> 32) * _HALF
            lower = float(values[row] & 0xFFFFFFFF)
            value = upper + lower
            off, off_lost = _apart(value, center)
            off, off_lost = _add_one(off, off_lost, lower - (value - upper))
            total, lost = _add_square(total, lost, off, off_lost)
            if (row - begin) % _CHUNK == 0:
                total, lost = _add_one(total, 0.0, lost)
    return _centered(total, lost, n, sum_high, sum_low, center)


@njit()
def summarise_integers(values, valid, begins, with_squares):  # type: ignore[no-untyped-def]
    """Summarise the rows ``begins[i]`` to ``begins[i + 1]`` for every i.

    Without a ``valid`` no row is NULL. Returns counts of values and NULLs; least, greatest and
    the high and low parts of the sums; second moments and what they lost, as ``AttributeSummary``
    has them.
    """
    n_entries = begins.size - 1
    counts = np.zeros((2, n_entries), np.int64)
    numbers = np.zeros((4, n_entries), np.int64)
    squares = np.zeros((2, n_entries), np.float64)
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
        if with_squares is not None and n > 1:
            found = _integer_squares(values, valid, begin, end, n, high, low)
            squares[0, entry], squares[1, entry] = found
    return counts, numbers, squares
