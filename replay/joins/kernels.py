"""Compiled leaves of joins: numbers for keys, pairs of a windowed join, partners of an ASOF join.

Rows of a side stand in slots; those of equal keys are chained, oldest first, so that a window of a
key is walked from its oldest row on, in order, and nothing is sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NONE = -1
"""No row; the key of a row that has no partner."""

OUT = -2
"""The key of a row that does not count at all."""

START = -3
"""A walk that has not begun."""

WAITING = -2
"""In the place of a partner: it may still come."""

SIZE, SLIDE, IN_ROWS, ORIGIN = range(4)
"""What a window is given by."""

N_WINDOW = 4

(
    LEFT_NEXT,  # first row of the left that is not chained yet
    RIGHT_NEXT,
    LEFT_ROWS,  # rows of the left up to there, those skipped included
    RIGHT_ROWS,
    PHASE,
    LEFT_FIRST,  # first row of the left of the time at hand
    RIGHT_FIRST,
    PROBE,  # row that looks for partners
    WALK,  # partner it looks at next
    LEFT_LOW,  # active window over the left
    LEFT_HIGH,
    RIGHT_LOW,
    RIGHT_HIGH,
) = range(13)
"""Where a search stands."""

N_STATE = 13

BETWEEN, RIGHT_COMES, LEFT_COMES = range(3)
"""Phases of one time: rows of the right meet earlier ones of the left, then rows of the left meet
all of the right."""


class Side(NamedTuple):
    """Rows of one side, shape (n,), and their chains; slot 0 is row ``first``."""

    first: int
    times: IntArray
    seqs: IntArray
    """Position of each row in its stream; ascending, with gaps where rows were skipped."""
    codes: IntArray
    """Number of the row's key; `NONE` or `OUT` for a row that has no partner."""
    following: IntArray
    """Next row of the same key, by slot."""
    heads: IntArray
    """Oldest chained row that may still be seen, by key."""
    tails: IntArray


@njit(_nrt=False)
def number_values(values, exists, slots, keys, numbers, n_known, out):  # type: ignore[no-untyped-def]
    """Give every value a number, a new one if it has none, and return how many there are.

    ``keys`` and ``numbers`` are a hash table with open addressing (`NONE` where it is free) that
    has room for twice as many values as there can be; ``slots`` is where the search for each value
    begins.
    """
    for i in range(values.size):
        if not exists[i]:
            out[i] = NONE
            continue
        at = slots[i]
        while numbers[at] != NONE and keys[at] != values[i]:
            at += 1
            if at == keys.size:
                at = 0
        if numbers[at] == NONE:
            keys[at] = values[i]
            numbers[at] = n_known
            n_known += 1
        out[i] = numbers[at]
    return n_known


@njit(_nrt=False)
def _link(side, begin, end):  # type: ignore[no-untyped-def]
    """Chain rows ``begin`` to ``end`` behind those of their keys."""
    for row in range(begin, end):
        slot = row - side.first
        code = side.codes[slot]
        side.following[slot] = NONE
        if code < 0:
            continue
        tail = side.tails[code]
        if tail == NONE:
            side.heads[code] = row
        else:
            side.following[tail - side.first] = row
        side.tails[code] = row


@njit(_nrt=False)
def _end_of_time(side, row, time):  # type: ignore[no-untyped-def]
    """Return the first row from ``row`` on that is later."""
    while row - side.first < side.times.size and side.times[row - side.first] == time:
        row += 1
    return row


@njit(_nrt=False)
def _active(side, window, end, n_rows, time, low, high):  # type: ignore[no-untyped-def]
    """Return the rows of the active window at ``time``, by which rows before ``end`` have come.

    ``low`` and ``high`` are those of an earlier time. Windows never go back.
    """
    if low >= end:
        return end, end  # also before the first row, when there is no origin yet
    if window[IN_ROWS]:
        if n_rows < window[SIZE]:
            return low, low
        begin = (n_rows - window[SIZE]) // window[SLIDE] * window[SLIDE]
        at = side.seqs
    else:
        begin = time - window[SIZE] + 1
        begin -= (begin - window[ORIGIN]) % window[SLIDE]
        at = side.times
    while low < end and at[low - side.first] < begin:
        low += 1
    high = max(low, high)
    while high < end and at[high - side.first] < begin + window[SIZE]:
        high += 1
    return low, high


@njit(_nrt=False)
def _oldest(side, code, low):  # type: ignore[no-untyped-def]
    """Return the oldest row of a key from ``low`` on, and forget those before."""
    row = side.heads[code]
    while row != NONE and row < low:
        row = side.following[row - side.first]
    side.heads[code] = row
    if row == NONE:
        side.tails[code] = NONE
    return row


@njit(_nrt=False)
def _next_time(left, right, state, until):  # type: ignore[no-untyped-def]
    """Return whether there is a further time not after ``until``, and which."""
    time = until
    there = False
    slot = state[LEFT_NEXT] - left.first
    if slot < left.times.size and left.times[slot] <= time:
        time = left.times[slot]
        there = True
    slot = state[RIGHT_NEXT] - right.first
    if slot < right.times.size and right.times[slot] <= time:
        time = right.times[slot]
        there = True
    return there, time


@njit(_nrt=False)
def _begin_time(left, right, windows, state, time):  # type: ignore[no-untyped-def]
    """Chain the rows of a time and move the windows to it."""
    state[LEFT_FIRST] = state[LEFT_NEXT]
    state[RIGHT_FIRST] = state[RIGHT_NEXT]
    la = _end_of_time(left, state[LEFT_NEXT], time)
    ra = _end_of_time(right, state[RIGHT_NEXT], time)
    _link(left, state[LEFT_NEXT], la)
    _link(right, state[RIGHT_NEXT], ra)
    if la > state[LEFT_NEXT]:
        state[LEFT_ROWS] = left.seqs[la - 1 - left.first] + 1
    if ra > state[RIGHT_NEXT]:
        state[RIGHT_ROWS] = right.seqs[ra - 1 - right.first] + 1
    state[LEFT_NEXT] = la
    state[RIGHT_NEXT] = ra
    state[LEFT_LOW], state[LEFT_HIGH] = _active(
        left, windows[0], la, state[LEFT_ROWS], time, state[LEFT_LOW], state[LEFT_HIGH]
    )
    state[RIGHT_LOW], state[RIGHT_HIGH] = _active(
        right, windows[1], ra, state[RIGHT_ROWS], time, state[RIGHT_LOW], state[RIGHT_HIGH]
    )
    state[PHASE] = RIGHT_COMES
    state[PROBE] = state[RIGHT_FIRST]
    state[WALK] = START


@njit(_nrt=False)
def link_rows(parts, begin, end):  # type: ignore[no-untyped-def]
    """Chain rows of a side, given by the fields of `Side`, behind those of their keys."""
    _link(Side(*parts), begin, end)


@njit(_nrt=False, gives_up=True)
def find_pairs(left_parts, right_parts, windows, state, until, alone, out):  # type: ignore[no-untyped-def]
    """Write the pairs of all times not after ``until``, as far as there is room.

    Parameters
    ----------
    left_parts, right_parts
        The fields of `Side`, in a plain tuple: no class is in what is cached. Rows of times up to
        ``until`` are complete.
    windows
        Over the left and over the right, shape (2, N_WINDOW).
    state
        Where the search stands, shape (N_STATE,); moved on.
    alone
        Rows of the left that have no partner and are written with `NONE`, by slot; shape (0,) for
        none.
    out
        Left and right row of each pair, shape (2, room).

    Returns
    -------
    int
        Number of pairs; equal to the room if there may be more.
    """
    left, right = Side(*left_parts), Side(*right_parts)
    n = 0
    room = out.shape[1]
    while True:
        if state[PHASE] == BETWEEN:
            there, time = _next_time(left, right, state, until)
            if not there:
                return n
            _begin_time(left, right, windows, state, time)
        if state[PHASE] == RIGHT_COMES:
            stop = min(state[LEFT_HIGH], state[LEFT_FIRST])
            while state[PROBE] < state[RIGHT_NEXT]:
                row = state[PROBE]
                code = right.codes[row - right.first]
                if code >= 0:
                    if state[WALK] == START:
                        low = min(state[LEFT_LOW], state[LEFT_FIRST])
                        state[WALK] = _oldest(left, code, low)
                    walk = state[WALK]
                    while walk != NONE and walk < stop:
                        if walk >= state[LEFT_LOW]:
                            if n == room:
                                state[WALK] = walk
                                return n
                            out[0, n] = walk
                            out[1, n] = row
                            n += 1
                        walk = left.following[walk - left.first]
                state[PROBE] = row + 1
                state[WALK] = START
            state[PHASE] = LEFT_COMES
            state[PROBE] = state[LEFT_FIRST]
        while state[PROBE] < state[LEFT_NEXT]:
            row = state[PROBE]
            code = left.codes[row - left.first]
            if alone.size > 0 and alone[row - left.first]:
                if n == room:
                    return n
                out[0, n] = row
                out[1, n] = NONE
                n += 1
            elif code >= 0:
                low = min(state[RIGHT_LOW], state[RIGHT_FIRST])
                if state[WALK] == START:
                    state[WALK] = _oldest(right, code, low)
                walk = state[WALK]
                # The rows of the right that are of this time see the row, if it is in their window.
                seen = state[LEFT_LOW] <= row < state[LEFT_HIGH]
                while walk != NONE and (seen or walk < state[RIGHT_HIGH]):
                    sees = state[RIGHT_LOW] <= walk < state[RIGHT_HIGH]
                    if sees or (seen and walk >= state[RIGHT_FIRST]):
                        if n == room:
                            state[WALK] = walk
                            return n
                        out[0, n] = row
                        out[1, n] = walk
                        n += 1
                    walk = right.following[walk - right.first]
            state[PROBE] = row + 1
            state[WALK] = START
        state[PHASE] = BETWEEN


@njit(_nrt=False)
def note_latest(right, state, latest, until):  # type: ignore[no-untyped-def]
    """Note the rows of the right up to a time, ``state[0]`` the first, as the latest of their keys.

    Times and codes of the right's rows have shape (2, n).
    """
    at = state[0]
    while at < right.shape[1] and right[0, at] <= until:
        if right[1, at] >= 0:
            latest[right[1, at]] = at
        at += 1
    state[0] = at


@njit(_nrt=False)
def find_latest(left, begin, right, state, latest, until, bound, out):  # type: ignore[no-untyped-def]
    """Find for rows of the left the latest row of the right with their key.

    Parameters
    ----------
    left, right
        Times and codes of each side's rows, both shape (2, n).
    begin
        First row of the left.
    state
        Row of the right that has not been seen yet, shape (1,); moved on.
    latest
        Latest row of the right by key; kept up.
    until
        Rows of the left after this time are left out.
    bound
        Whether the right's row must be earlier, and how much time is too much between the two;
        0 for no limit. Shape (2,).
    out
        Row of the right by row of the left from ``begin`` on, `NONE` without; bounds how many.

    Returns
    -------
    int
        Number of rows of the left.
    """
    row = begin
    while row < min(left.shape[1], begin + out.size) and left[0, row] <= until:
        time = left[0, row]
        note_latest(right, state, latest, time - bound[0])
        found = NONE
        if left[1, row] >= 0:
            found = latest[left[1, row]]
            if found != NONE and bound[1] > 0 and time - right[0, found] >= bound[1]:
                found = NONE
        out[row - begin] = found
        row += 1
    return row - begin


@njit(_nrt=False)
def _merge(left, right, code, bound, partners):  # type: ignore[no-untyped-def]
    """Merge the queues of one key, rows of the left that wait and rows of the right not passed yet.

    Invariant: one of the two is empty afterwards, since the older of their heads leaves. A row of
    the right that is before the oldest row that waits is before all rows of the left to come.
    """
    row = left.heads[code]
    other = right.heads[code]
    while row >= 0 and other >= 0:
        ahead = right.times[other - right.first] - left.times[row - left.first]
        if ahead < bound[0]:
            other = right.following[other - right.first]
            continue
        is_near = bound[1] == 0 or ahead < bound[1]
        partners[row - left.first] = other - right.first if is_near else NONE
        row = left.following[row - left.first]
    left.heads[code] = row
    if row == NONE:
        left.tails[code] = NONE
    right.heads[code] = other
    if other == NONE:
        right.tails[code] = NONE


@njit(_nrt=False)
def find_next(left_parts, right_parts, chained, bound, partners):  # type: ignore[no-untyped-def]
    """Find for rows of the left the next row of the right with their key, as far as it has come.

    Parameters
    ----------
    left_parts, right_parts
        The fields of `Side`, in a plain tuple.
    chained
        First row of the left and of the right that is not chained yet, shape (2,); moved on.
    bound
        Least time ahead, and how much is too much; 0 for no limit. Shape (2,).
    partners
        Slot of the row of the right by slot of the left; `WAITING` where it has not come, `NONE`
        where none can come. Rows that wait are written.
    """
    left, right = Side(*left_parts), Side(*right_parts)
    for row in range(chained[0], left.first + left.times.size):
        slot = row - left.first
        if partners[slot] != WAITING:
            continue
        code = left.codes[slot]
        if code < 0:
            partners[slot] = NONE
            continue
        _link(left, row, row + 1)
        _merge(left, right, code, bound, partners)
    for row in range(chained[1], right.first + right.times.size):
        code = right.codes[row - right.first]
        if code >= 0:
            _link(right, row, row + 1)
            _merge(left, right, code, bound, partners)
    chained[0] = left.first + left.times.size
    chained[1] = right.first + right.times.size


@njit(_nrt=False)
def first_waiting(times, partners, begin, until):  # type: ignore[no-untyped-def]
    """Return the first slot from ``begin`` on that waits, and is later than ``until``."""
    while begin < times.size and (partners[begin] != WAITING or times[begin] <= until):
        begin += 1
    return begin
