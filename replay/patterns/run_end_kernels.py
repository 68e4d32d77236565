"""Compiled search for the rows at which a run of one symbol may end.

Starts nearby run over the same rows, and what must follow a run is rare as a rule: what one start
has found out of the rows, whatever its window, the next need not look at again. Arrays are those of
``machine/kernels.py``, handed on one by one.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit

# Fields of an instruction that a RUN has.
MEMO = 3  # place in `memo` of what follows from here, -1: none
FOLLOW = 5  # of the CHARs that must come next, a byte for each symbol plus 1; 0: not known
PATH = 6  # byte of mapped rows: symbol, and `EXCLUDED`
NUMBER = 8  # of a RUN

NO_MATCH = -1
UNDECIDED = -2

_INT64_MAX = np.iinfo(np.int64).max
LINK_MAX = np.iinfo(np.uint16).max

_ONE = np.uint64(1)


@njit(_nrt=False)
def _follows(row, follow, limit, hard, words):  # type: ignore[no-untyped-def]
    """Whether the CHARs after a RUN may accept from ``row`` on, or have to be asked."""
    while follow != 0:
        if row >= limit:
            return not hard
        if (words[row] >> np.uint64((follow & 0xFF) - 1)) & _ONE == 0:
            return False
        follow >>= 8
        row += 1
    return True


@njit(_nrt=False)
def _n_symbols(follow):  # type: ignore[no-untyped-def]
    n = 0
    while follow != 0:
        follow >>= 8
        n += 1
    return n


@njit(_nrt=False)
def _last_end(row, least, follow, limit, hard, words, links, number):  # type: ignore[no-untyped-def]
    """Last row from ``row`` down to ``least`` at which a run may end; below it if there is none.

    Starts nearby look through the same rows: ``links`` tell how many rows, down from each, are
    known to be none, whatever the limit.
    """
    if follow == 0:
        return row
    top = min(row, limit - _n_symbols(follow))
    while row > top and row >= least:
        if _follows(row, follow, limit, hard, words):
            return row
        row -= 1
    while row >= least:
        passed = np.int64(links[number, row])
        if passed == 0:
            if _follows(row, follow, limit, hard, words):
                break
            passed = np.int64(1)
        row -= passed
    if row < top - 1 and top >= least:
        links[number, top] = min(top - row, LINK_MAX)
    return max(row, least - 1)


@njit(_nrt=False)
def _first_end(row, most, follow, limit, hard, words, links, number):  # type: ignore[no-untyped-def]
    """First row from ``row`` up to ``most`` at which a run may end; above it if there is none.

    ``links`` as in `_last_end`, upwards.
    """
    if follow == 0:
        return row
    bottom = row
    top = min(most, limit - _n_symbols(follow))
    while row <= top:
        passed = np.int64(links[number, row])
        if passed == 0:
            if _follows(row, follow, limit, hard, words):
                break
            passed = np.int64(1)
        row += passed
    if row > bottom + 1:
        links[number, bottom] = min(row - bottom, LINK_MAX)
    if row <= top:
        return row
    row = max(row, bottom)
    while row <= most and not _follows(row, follow, limit, hard, words):
        row += 1
    return min(row, most + 1)


@njit(_nrt=False)
def _first_known(row, end, memo, point, lowest, stamp):  # type: ignore[no-untyped-def]
    """First row from ``row`` on, before ``end``, that all is known to fail from; else ``end``."""
    if lowest[point, 0] != stamp:
        return end
    row = max(row, lowest[point, 1])
    while row < end and memo[point, row] != stamp:
        row += 1
    return min(row, end)


@njit(_nrt=False)
def _run_to(row, limit, symbol, words, spans, number):  # type: ignore[no-untyped-def]
    """Row, at most ``limit``, that a run from ``row`` comes to: starts nearby run the same way."""
    known, known_end = spans[number, 0], spans[number, 1]
    end = row
    if row < known:
        while end < limit and end != known and (words[end] >> np.uint64(symbol)) & _ONE:
            end += 1
    if known <= end <= known_end:
        known = min(known, row)
        end = known_end
    else:
        known = row
    while end < limit and (words[end] >> np.uint64(symbol)) & _ONE:
        end += 1
    spans[number, 0], spans[number, 1] = known, end
    return min(end, limit)


@njit(_nrt=False)
def fill(path, begin, end, symbol):  # type: ignore[no-untyped-def]
    """Map rows to a symbol."""
    value = np.uint8(symbol)  # read once, and rows that cannot be negative: many at a time
    for row in range(np.uint64(begin), np.uint64(end)):
        path[row] = value


@njit(_nrt=False)
def run_up(row, most, at, limit, stamp, code, words, memo, path, lowest, spans):  # type: ignore[no-untyped-def]
    """Extend a greedy run: (end, whether a row already known to fail stopped it)."""
    end = _run_to(row, min(limit, most), code[at, 1], words, spans, code[at, NUMBER])
    stop = end
    if code[at, 2] < 0 and code[at, MEMO] >= 0:
        stop = _first_known(row + 1, end, memo, code[at, MEMO], lowest, stamp)
    fill(path, row, stop, code[at, PATH])
    return stop, stop < end


@njit(_nrt=False)
def shorter(row, least, at, limit, hard, stamp, code, words, memo, links):  # type: ignore[no-untyped-def]
    """Next end of a greedy run worth trying, from ``row`` down; below ``least`` if none is."""
    point = code[at, MEMO]
    asks = code[at, 2] >= 0 and point >= 0
    while row >= least:
        row = _last_end(row, least, code[at, FOLLOW], limit, hard, words, links, code[at, NUMBER])
        if not asks or row < least or memo[point, row] != stamp:
            break
        row -= 1
    return row


@njit(_nrt=False)
def longer(row, tried, most, least, at, limit, hard, stamp, code, words, memo, path, lowest, spans, links):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Next longer end of a reluctant run worth trying, ``NO_MATCH`` or ``UNDECIDED``.

    The run has come to ``row``, which was ``tried`` as its end or not, and may come to ``most``;
    ends from ``least`` on are known to fail. Returns the end, and the row the run came to.
    """
    point = code[at, MEMO]
    number = code[at, NUMBER]
    bounded = code[at, 2] >= 0
    top = max(min(most, least - 1, limit), row)
    end = row + tried
    while end <= top:
        end = _first_end(end, top, code[at, FOLLOW], limit, hard, words, links, number)
        if not bounded or point < 0 or end > top or memo[point, end] != stamp:
            break
        end += 1
    reached = _run_to(row, min(end, top), code[at, 1], words, spans, number)
    if point >= 0 and not bounded:
        known = _first_known(row + 1, reached + 1, memo, point, lowest, stamp)
        if known <= reached:
            return NO_MATCH, known - 1
    if reached == end:
        fill(path, row, end, code[at, PATH])
        return end, end
    if reached == limit and not hard and limit < most and limit < least:
        return UNDECIDED, reached
    return NO_MATCH, reached


@njit(_nrt=False)
def set_all(array, value):  # type: ignore[no-untyped-def]
    """Set all elements; a slice that is assigned to takes seconds to compile, for its errors."""
    for k in range(array.size):
        array[k] = value


@njit(_nrt=False)
def is_after(later, earlier, within):  # type: ignore[no-untyped-def]
    """Whether ``later - earlier > within``, without overflow."""
    if within < 0:
        return True
    return earlier <= _INT64_MAX - within and later > earlier + within
