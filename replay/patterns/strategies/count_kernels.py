"""Compiled counting of the matches of a strategy: how many runs are in each state, row by row.

Counts are unsigned numbers of several words, the lowest first. They only ever grow by being added
up, so a look at the highest word tells in time when they need another.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from replay.patterns.run_end_kernels import is_after, set_all
from replay.patterns.strategies.run_kernels import (
    Data,
    Tables,
    lowest,
    passed,
    window_end,
)

STATUS_DONE = 0
STATUS_OPEN = 1
STATUS_WIDE = 2

_HIGH = np.uint64(1 << 40)
"""Before a row, the highest word must be below: a row multiplies by less than the rest of it."""

_ONE = np.uint64(1)
_NONE = np.uint64(0)


@njit()
def _add(total, more):  # type: ignore[no-untyped-def]
    """Add a number to another."""
    carry = _NONE
    for w in range(total.size):
        part = total[w] + more[w]
        over = part < more[w]
        total[w] = part + carry
        carry = _ONE if over or total[w] < carry else _NONE


@njit()
def _is_zero(number):  # type: ignore[no-untyped-def]
    for w in range(number.size):  # noqa: SIM110 - Numba compiles no generator
        if number[w] != 0:
            return False
    return True


@njit()
def _is_full(runs, total):  # type: ignore[no-untyped-def]
    """Whether a number may need another word after the next row."""
    top = total.size - 1
    if total[top] >= _HIGH:
        return True
    for state in range(runs.shape[0]):  # noqa: SIM110 - Numba compiles no generator
        if runs[state, top] >= _HIGH:
            return True
    return False


@njit(_nrt=False)
def _clear(runs):  # type: ignore[no-untyped-def]
    """Set all runs of all states to none."""
    for state in range(runs.shape[0]):
        set_all(runs[state], _NONE)


@njit()
def _see(word, begin, semantics, runs, moved, waiting, tables, total):  # type: ignore[no-untyped-def]
    """Let all runs see a row, begin one if ``begin`` is a state, and add the matches to the total.

    Returns whether any run is left.
    """
    _clear(moved)
    _clear(waiting)
    for state in range(2, runs.shape[0]):
        if _is_zero(runs[state]):
            continue
        ways = word & tables.ways[state]
        while ways:
            target = tables.step[state, lowest(ways)]
            ways &= ways - _ONE
            _add(moved[target], runs[state])
        kept = passed(state, word, semantics, tables, ~_NONE)
        if kept >= 0:
            _add(waiting[kept], runs[state])
    ways = word & tables.ways[begin] if begin >= 0 else _NONE
    while ways:
        one = moved[tables.step[begin, lowest(ways)]]
        ways &= ways - _ONE
        for w in range(one.size):
            one[w] += _ONE
            if one[w] != 0:
                break
    alive = False
    for state in range(2, runs.shape[0]):
        if tables.accepts[state + 1] > tables.accepts[state]:
            _add(total, moved[state])
        if tables.ways[state] != 0:
            _add(waiting[state], moved[state])
            alive = alive or not _is_zero(waiting[state])
        runs[state] = waiting[state]
    return alive


@njit()
def count_rows(order, at, semantics, data, tables, group, runs, moved, waiting, total):  # type: ignore[no-untyped-def]  # fmt: skip
    """Count without a window: add the matches that end with each row, in order from ``at`` on.

    ``runs`` holds, by group and state, how many runs there are. Returns the place of the first row
    for which numbers are too narrow, or the end. ``data`` and ``tables`` are plain tuples of the
    fields of the classes named so.
    """
    data, tables = Data(*data), Tables(*tables)
    for place in range(at, order.size):
        row = order[place]
        at_group = runs[group[row]]
        if _is_full(at_group, total):
            return place
        begin = 0 if data.opens[row] else 1
        _see(data.words[row], begin, semantics, at_group, moved, waiting, tables, total)
    return order.size


@njit()
def count_windows(order, at, semantics, within, final, newest, data, tables, runs, moved, waiting, own, total):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Count the matches of each start whose window has closed, in order from ``at`` on.

    Returns a status and the place of the first start that is not counted. ``data`` and ``tables``
    are as for `count_rows`.
    """
    data, tables = Data(*data), Tables(*tables)
    for place in range(at, order.size):
        first = order[place]
        begin = 0 if data.opens[first] else 1
        if data.words[first] & tables.ways[begin] == 0:
            continue
        if not final and not is_after(newest, data.times[first], within):
            return STATUS_OPEN, place
        _clear(runs)
        set_all(own, _NONE)
        for row in range(first, window_end(data.times, first, data.ends[first], within)):
            if _is_full(runs, own):
                return STATUS_WIDE, place
            state = begin if row == first else -1
            if not _see(data.words[row], state, semantics, runs, moved, waiting, tables, own):
                break
        if total[total.size - 1] >= _HIGH:
            return STATUS_WIDE, place
        _add(total, own)
    return STATUS_DONE, order.size
