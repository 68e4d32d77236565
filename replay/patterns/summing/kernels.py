"""Compiled sums over matches: what a row does to the cells, as words of 64 bits, lowest first.

A cell is a row of words, in which each field has some. Sums are numbers in two's complement of as
many words as their field has. The number of runs, the first field, tells in time when it needs
another: no other sum can be longer by more words than it has more. The least and greatest of values
have a word that says whether there is a value, and one for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.patterns.run_end_kernels import is_after

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

# Kinds, rules and steps, as in `replay.patterns.trends.machine`.
_SUM, _FLAGS, _LEAST = 0, 1, 2
_EVERY, _LAST, _FIRST, _CLEAR, _LENGTHEN, _SINCE = 1, 2, 3, 4, 5, 6
_OP_NONE, _OP_BEGIN, _OP_ADD, _OP_MAP, _OP_FINISH, _OP_CLEAR, _OP_PUT = 0, 1, 2, 3, 4, 5, 6
_OP_MOVE, _OP_MATCH, _OP_MOVE_NEW, _OP_MATCH_NEW = 7, 8, 9, 10

HIGH = np.uint64(1 << 44)
"""Before a row, the highest word of a number of runs must be below: a row multiplies by less than
2**18, the states by the symbols, of which a match that ends brings as much again."""

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_BITS = np.uint64(64)


class Fields(NamedTuple):
    """The fields of a cell, of each one number in every array; see `machine.Field`."""

    kind: IntArray
    rule: IntArray
    offset: IntArray
    """Its first word."""
    words: IntArray
    """How many it has."""
    operand: IntArray
    symbols: Words
    waits: IntArray


class Rows(NamedTuple):
    """What is read of rows."""

    code: IntArray
    """Which steps the row takes; see `Program`."""
    lane: IntArray
    """Its partition."""
    times: IntArray
    values: IntArray
    """By operand and row."""
    shifts: IntArray
    """By operand and row: a value of a sum is to be multiplied by 2 to the power of this."""
    known: Bools
    """By operand and row: whether there is a value."""


class Program(NamedTuple):
    """Steps of rows: those of code c are ``steps[begins[c]:ends[c]]``; see `machine.in_ranges`."""

    begins: IntArray
    ends: IntArray
    steps: IntArray


@njit(_nrt=False, forceinline=True)
def add(into, i, other, j, begin, words):  # type: ignore[no-untyped-def]
    """Add a number to another, where they stand in their cells."""
    carry = _NONE
    for w in range(begin, begin + words):
        more = other[j, w]
        part = into[i, w] + more
        over = part < more
        whole = part + carry
        into[i, w] = whole
        carry = _ONE if over or whole < carry else _NONE


@njit(_nrt=False)
def set_none(cells, cell):  # type: ignore[no-untyped-def]
    """Let a cell be of no runs."""
    for w in range(cells.shape[1]):
        cells[cell, w] = _NONE


@njit(_nrt=False)
def increase(into, i, begin, words):  # type: ignore[no-untyped-def]
    """Add one to a number."""
    for w in range(begin, begin + words):
        into[i, w] += _ONE
        if into[i, w] != _NONE:
            return


@njit(_nrt=False)
def high_product(one, other):  # type: ignore[no-untyped-def]
    """Return the upper word of the product of two words."""
    low_one, high_one = one & _LOW, one >> _HALF
    low_other, high_other = other & _LOW, other >> _HALF
    middle = high_one * low_other + ((low_one * low_other) >> _HALF)
    lower = (middle & _LOW) + low_one * high_other
    return high_one * high_other + (middle >> _HALF) + (lower >> _HALF)


@njit(_nrt=False, forceinline=True)
def _add_product(into, i, begin, words, value, shift, other, j, factor, n_words):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add ``value`` times 2**``shift`` times another number, which is not negative."""
    minus = value < 0
    size = np.uint64(-(value + 1)) + _ONE if minus else np.uint64(value)
    skipped = shift // 64
    left = np.uint64(shift % 64)
    right = (_BITS - left) & np.uint64(63)
    high = _NONE  # of the product of the word before
    before = _NONE  # word of the product before
    carry = _NONE  # of the sum
    for w in range(words - skipped):
        if w < n_words:
            n = other[j, factor + w]
            low = size * n
            part = low + high
            high = high_product(size, n) + (_ONE if part < low else _NONE)
        elif w == n_words:
            part = high
        else:
            part = _NONE
        more = part << left
        if left != _NONE:
            more |= before >> right
        before = part
        at = begin + skipped + w
        old = into[i, at]
        if minus:
            whole = old - more
            under = old < more
            into[i, at] = whole - carry
            carry = _ONE if under or whole < carry else _NONE
        else:
            whole = old + more
            over = whole < more
            into[i, at] = whole + carry
            carry = _ONE if over or into[i, at] < carry else _NONE


@njit(_nrt=False, forceinline=True)
def is_none(cells, i, begin, words):  # type: ignore[no-untyped-def]
    """Whether a number that counts runs is none."""
    for w in range(begin, begin + words):  # noqa: SIM110 - Numba compiles no generator
        if cells[i, w] != _NONE:
            return False
    return True


@njit(_nrt=False, forceinline=True)
def put_best(into, i, at, value, kind):  # type: ignore[no-untyped-def]
    """Let a value count, of which the least or greatest is kept."""
    if into[i, at] == _NONE:
        into[i, at] = _ONE
        into[i, at + 1] = np.uint64(value)
        return
    best = np.int64(into[i, at + 1])
    if (value < best) if kind == _LEAST else (value > best):
        into[i, at + 1] = np.uint64(value)


@njit(_nrt=False, forceinline=True)
def merge(into, i, other, j, fields):  # type: ignore[no-untyped-def]
    """Add the runs of a cell to another."""
    if is_none(other, j, 0, fields.words[0]):
        return
    for f in range(fields.kind.size):
        kind, at = fields.kind[f], fields.offset[f]
        if kind == _SUM:
            add(into, i, other, j, at, fields.words[f])
        elif kind == _FLAGS:
            into[i, at] |= other[j, at]
        elif other[j, at] != _NONE:
            put_best(into, i, at, np.int64(other[j, at + 1]), kind)


@njit(_nrt=False, forceinline=True)
def merge_at_once(into, i, other, j, fields):  # type: ignore[no-untyped-def]
    """Do what `merge` does, within the caller where runs are but counted."""
    if fields.kind.size > 1:
        merge(into, i, other, j, fields)
        return
    carry = _NONE
    for w in range(fields.words[0]):
        more = other[j, w]
        part = into[i, w] + more
        over = part < more
        whole = part + carry
        into[i, w] = whole
        carry = _ONE if over or whole < carry else _NONE


@njit(_nrt=False, forceinline=True)
def begin_run(slots, slot, fields):  # type: ignore[no-untyped-def]
    """Add a run of no row to a cell."""
    for f in range(fields.kind.size):
        rule, at = fields.rule[f], fields.offset[f]
        if f == 0 or rule == _CLEAR:
            increase(slots, slot, at, fields.words[f])
        elif rule == _LENGTHEN:
            put_best(slots, slot, at, 0, fields.kind[f])


@njit(_nrt=False, forceinline=True)
def map_row(slots, slot, symbol, row, is_before, fields, rows):  # type: ignore[no-untyped-def]
    """Map a row in all runs of a cell, behind their other rows or before them."""
    first, last = (_LAST, _FIRST) if is_before else (_FIRST, _LAST)
    if is_none(slots, slot, 0, fields.words[0]):
        return
    for f in range(1, fields.kind.size):
        rule, at = fields.rule[f], fields.offset[f]
        if rule == _CLEAR or fields.symbols[f] >> np.uint64(symbol) & _ONE == _NONE:
            continue
        kind, operand = fields.kind[f], fields.operand[f]
        known, value = rows.known[operand, row], rows.values[operand, row]
        if rule == _LENGTHEN:
            if known:
                slots[slot, at + 1] += _ONE
            continue
        if rule == _SINCE:
            earlier = np.int64(slots[slot, fields.offset[fields.waits[f]] + 1])
            slots[slot, at] = _ONE
            slots[slot, at + 1] = np.uint64(value - earlier)
            continue
        if rule == last:
            for w in range(at, at + fields.words[f]):
                slots[slot, w] = _NONE
        if not known:
            continue
        factor = 0
        if rule == first:
            factor = fields.waits[f]
            if is_none(slots, slot, fields.offset[factor], fields.words[factor]):
                continue
        if kind == _SUM:
            shift = rows.shifts[operand, row]
            _add_product(
                slots, slot, at, fields.words[f], value, shift,
                slots, slot, fields.offset[factor], fields.words[factor],
            )  # fmt: skip
        elif kind == _FLAGS:
            slots[slot, at] |= np.uint64(value)
        else:
            put_best(slots, slot, at, value, kind)
    for f in range(1, fields.kind.size):
        if fields.rule[f] == _CLEAR and fields.symbols[f] >> np.uint64(symbol) & _ONE != _NONE:
            for w in range(fields.offset[f], fields.offset[f] + fields.words[f]):
                slots[slot, w] = _NONE


@njit(_nrt=False, forceinline=True)
def count_step(op, into, a, cells, b, n, n_words):  # type: ignore[no-untyped-def]
    """Take a step without slots where runs are but counted; returns bits of the highest words."""
    high = _NONE
    if op == _OP_CLEAR:
        for w in range(n_words):
            into[a, w] = _NONE
    elif op in (_OP_MOVE_NEW, _OP_MATCH_NEW):
        increase(into, a, 0, n_words)
    elif n_words == 1:
        for i in range(n):
            whole = into[a + i, 0] + cells[b + i, 0]
            into[a + i, 0] = whole
            high |= whole
    else:
        for i in range(n):
            add(into, a + i, cells, b + i, 0, n_words)
            high |= into[a + i, n_words - 1]
    return high


@njit(_nrt=False)
def _count(code, base, total, cells, slots, totals, n_words, program):  # type: ignore[no-untyped-def]
    """Do what `see` does where runs are but counted."""
    high = _NONE
    for k in range(program.begins[code], program.ends[code]):
        op, a, b, n = program.steps[k]
        if op in (_OP_MATCH, _OP_MATCH_NEW):
            high |= count_step(op, totals, total + a, cells, base + b, n, n_words)
        elif op in (_OP_MOVE, _OP_MOVE_NEW, _OP_CLEAR):
            high |= count_step(op, cells, base + a, cells, base + b, n, n_words)
        elif op == _OP_NONE:
            for w in range(n_words):
                slots[a, w] = _NONE
        elif op == _OP_BEGIN:
            increase(slots, a, 0, n_words)
        elif op == _OP_ADD:
            add(slots, a, cells, base + b, 0, n_words)
        elif op == _OP_PUT:
            add(cells, base + b, slots, a, 0, n_words)
            high |= cells[base + b, n_words - 1]
        elif op == _OP_FINISH:
            add(totals, total + b, slots, a, 0, n_words)
            high |= totals[total + b, n_words - 1]
    return high >= HIGH


@njit(_nrt=False, forceinline=True)
def _sum(code, base, row, total, is_before, cells, slots, totals, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Do what `see` does; ``is_before``: the row is mapped before those of the runs."""
    top = fields.words[0] - 1
    is_full = False
    for k in range(program.begins[code], program.ends[code]):
        op, a, b, n = program.steps[k]
        if op == _OP_MOVE:
            for i in range(n):
                merge(cells, base + a + i, cells, base + b + i, fields)
                is_full = is_full or cells[base + a + i, top] >= HIGH
        elif op == _OP_MATCH:
            for i in range(n):
                merge(totals, total + a + i, cells, base + b + i, fields)
                is_full = is_full or totals[total + a + i, top] >= HIGH
        elif op == _OP_ADD:
            merge(slots, a, cells, base + b, fields)
        elif op == _OP_MAP:
            map_row(slots, a, b, row, is_before, fields, rows)
        elif op == _OP_PUT:
            merge(cells, base + b, slots, a, fields)
            is_full = is_full or cells[base + b, top] >= HIGH
        elif op == _OP_FINISH:
            merge(totals, total + b, slots, a, fields)
            is_full = is_full or totals[total + b, top] >= HIGH
        elif op == _OP_MOVE_NEW:
            begin_run(cells, base + a, fields)
        elif op == _OP_MATCH_NEW:
            begin_run(totals, total + a, fields)
        elif op == _OP_BEGIN:
            begin_run(slots, a, fields)
        elif op == _OP_NONE:
            for w in range(slots.shape[1]):
                slots[a, w] = _NONE
        else:
            for w in range(cells.shape[1]):
                cells[base + a, w] = _NONE
    return is_full


@njit(_nrt=False, forceinline=True)
def see(code, base, row, total, cells, slots, totals, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let the cells of a lane, from row ``base`` on, see a row. Returns whether one may be full.

    The matches of query q are summed in row ``total + q`` of ``totals``.
    """
    if fields.kind.size == 1:
        return _count(code, base, total, cells, slots, totals, fields.words[0], program)
    return _sum(code, base, row, total, False, cells, slots, totals, fields, rows, program)


@njit(_nrt=False, forceinline=True)
def change(code, row, is_before, cells, slots, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Do what `see` does in cells that are not of lanes, by steps of which none ends in totals."""
    if fields.kind.size == 1:
        return _count(code, 0, 0, cells, slots, cells, fields.words[0], program)
    return _sum(code, 0, row, 0, is_before, cells, slots, cells, fields, rows, program)


@njit(_nrt=False)
def sum_rows(at, n_states, n_queries, cells, slots, totals, fields, rows, program):  # type: ignore[no-untyped-def]
    """Sum without a window, from row ``at`` on: partition p has the lane p.

    Returns the row before which numbers need another word, or the end. ``fields``, ``rows`` and
    ``program`` are plain tuples of the fields of the classes named so.
    """
    fields, rows, program = Fields(*fields), Rows(*rows), Program(*program)
    for row in range(at, rows.code.size):
        code = rows.code[row]
        if program.begins[code] == program.ends[code]:
            continue
        lane = rows.lane[row]
        base, total = lane * n_states, lane * n_queries
        if see(code, base, row, total, cells, slots, totals, fields, rows, program):
            return row + 1
    return rows.code.size


FREE = 0
"""Place in ``free`` of the first lane that is free; those that are follow each other by `next`."""


@njit(_nrt=False)
def begin_lane(group, time, heads, tails, following, born, free):  # type: ignore[no-untyped-def]
    """Put a lane that is free behind those of a partition, and return it."""
    lane = free[FREE]
    free[FREE] = following[lane]
    following[lane] = -1
    born[lane] = time
    if tails[group] >= 0:
        following[tails[group]] = lane
    else:
        heads[group] = lane
    tails[group] = lane
    return lane


@njit(_nrt=False)
def end_first_lane(group, heads, tails, following, free):  # type: ignore[no-untyped-def]
    """Set the first lane of a partition free, and return the one behind it, -1 for none."""
    lane = heads[group]
    heads[group] = following[lane]
    if heads[group] < 0:
        tails[group] = -1
    following[lane] = free[FREE]
    free[FREE] = lane
    return heads[group]


# Fields of `at` of `sum_starts`, which says how far it is and lets it go on where it stopped.
AT_SEGMENT = 0
AT_START = 1

SEEN_AT_ONCE = 1 << 22
"""Rows that starts see before the caller may be interrupted: about half a second's."""


@njit(_nrt=False, forceinline=True)
def adds_nothing(start, counted, end, within, rows):  # type: ignore[no-untyped-def]
    """Whether all that a start of a segment leads to was found before."""
    if counted == end:
        return True
    return start < counted and is_after(rows.times[counted], rows.times[start], within)


@njit(_nrt=False)
def sum_starts(at, segments, within, cells, slots, found, totals, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Sum within a window from each start, one start after the other: each is gone on from alone.

    ``segments`` are those of `within.segments_of`. A row of code c takes the steps ``2 c + 1`` as a
    start, and ``2 c`` behind one. What is ``found`` from a start is added once it is known. Returns
    a status, having changed nothing of the start that ``at`` tells.
    """
    fields, rows, program = Fields(*fields), Rows(*rows), Program(*program)
    top, n_seen = fields.words[0] - 1, 0
    for number in range(at[AT_SEGMENT], len(segments)):
        place, first, counted, end = segments[number]
        at[AT_SEGMENT] = number
        for start in range(max(first, at[AT_START]), end):
            at[AT_START] = start
            if n_seen > SEEN_AT_ONCE:
                return STATUS_GOES_ON
            code, born = 2 * rows.code[start] + 1, rows.times[start]
            if program.begins[code] == program.ends[code]:
                continue
            if adds_nothing(start, counted, end, within, rows):
                continue
            for state in range(len(cells)):
                set_none(cells, state)
            set_none(found, 0)
            is_full = see(code, 0, start, 0, cells, slots, found, fields, rows, program)
            row = start + 1
            while row < end and not is_after(rows.times[row], born, within):
                if row == counted:  # what was found before is in the totals
                    set_none(found, 0)
                code = 2 * rows.code[row]
                if program.begins[code] < program.ends[code]:
                    full = see(code, 0, row, 0, cells, slots, found, fields, rows, program)
                    is_full = is_full or full
                if is_full:
                    return STATUS_WIDE
                row += 1
            n_seen += row - start
            merge(totals, place, found, 0, fields)
            if is_full or totals[place, top] >= HIGH:
                at[AT_START] += 1
                return STATUS_WIDE
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE


class Windows(NamedTuple):
    """Windows that are over, in their order, of which neither start nor end descends."""

    starts: IntArray
    coming: IntArray
    """Before which no window behind it starts."""
    rows: IntArray
    """The first row behind it."""


class Found(NamedTuple):
    """What is found of windows: of each partition that has a match there."""

    numbers: Words
    group: IntArray
    window: IntArray
    query: IntArray


# Fields of `at` of `sum_panes`, which says how far it is and lets it go on where it stopped.
AT_ROW = 0
AT_WINDOW = 1
N_LISTED = 2
N_FOUND = 3
AT_SIZE = 4

STATUS_DONE = 0
STATUS_WIDE = 1
"""Numbers may need another word."""
STATUS_LANES = 2
"""A row starts another lane."""
STATUS_FOUND = 3
"""A window needs room for what is found of it."""
STATUS_GOES_ON = 4
"""So much is done that the caller may want to stop."""

_WIDE = np.uint64(1 << 62)
"""The highest word of the sum over all lanes of a partition must be below."""


@njit(_nrt=False)
def _end_lanes(before, at, listed, width, heads, tails, following, born, free, cells):  # type: ignore[no-untyped-def]  # fmt: skip
    """Set lanes free that began before a time, and list the partitions that have others."""
    kept = 0
    for i in range(at[N_LISTED]):
        group = listed[i]
        lane = heads[group]
        while lane >= 0 and born[lane] < before:
            for cell in range(lane * width, (lane + 1) * width):
                for w in range(cells.shape[1]):
                    cells[cell, w] = _NONE
            lane = end_first_lane(group, heads, tails, following, free)
        if lane >= 0:
            listed[kept] = group
            kept += 1
    at[N_LISTED] = kept


@njit(_nrt=False)
def _sum_window(at, listed, n_states, n_queries, heads, following, cells, found, fields):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add up the matches of all lanes of each partition that has some; returns a status."""
    n, top = at[N_FOUND], fields.words[0] - 1
    if n + at[N_LISTED] * n_queries > found.group.size:
        return STATUS_FOUND
    for i in range(at[N_LISTED]):
        group = listed[i]
        for query in range(n_queries):
            for w in range(cells.shape[1]):
                found.numbers[n, w] = _NONE
            lane = heads[group]
            while lane >= 0:
                total = lane * (n_states + n_queries) + n_states + query
                merge(found.numbers, n, cells, total, fields)
                if found.numbers[n, top] >= _WIDE:
                    return STATUS_WIDE
                lane = following[lane]
            if not is_none(found.numbers, n, 0, fields.words[0]):
                found.group[n], found.window[n], found.query[n] = group, at[AT_WINDOW], query
                n += 1
    at[N_FOUND] = n
    return STATUS_DONE


@njit(_nrt=False)
def _count_in_lanes(code, lane, until, n_states, width, cells, following, n_words, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Do `_count` in lanes that follow each other, by steps without slots that begin no run.

    A step is taken in all of them before the next one, as lanes know nothing of each other.
    """
    high = _NONE
    for k in range(program.begins[code], program.ends[code]):
        op, a, b, n = program.steps[k]
        into = n_states + a if op == _OP_MATCH else a
        at = lane
        while at != until:
            base = at * width
            high |= count_step(op, cells, base + into, cells, base + b, n, n_words)
            at = following[at]
    return high >= HIGH


@njit(_nrt=False)
def _has_slots(code, program):  # type: ignore[no-untyped-def]
    """Whether a row of a code needs slots."""
    for k in range(program.begins[code], program.ends[code]):
        if program.steps[k, 0] == _OP_NONE:
            return True
    return False


@njit(_nrt=False)
def sum_panes(at, n_states, n_queries, panes, begins, windows, listed, heads, tails, following, born, free, cells, slots, found, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum in windows that overlap: runs that began in one pane have a lane.

    ``panes`` has by row the last start of a window until then, ``begins`` by code whether runs
    begin; ``listed`` are the partitions that have lanes. A row of code c takes the steps ``2 c`` in
    lanes of other panes, and ``2 c + 1`` in that of its own. The matches of each query in a lane
    stand behind the cells of its states. Returns a status; ``windows``, ``found``, ``fields``,
    ``rows`` and ``program`` are plain tuples of the fields of the classes named so.
    """
    windows, found = Windows(*windows), Found(*found)
    fields, rows, program = Fields(*fields), Rows(*rows), Program(*program)
    is_counted = fields.kind.size == 1
    width = n_states + n_queries
    while True:
        row = at[AT_ROW]
        while at[AT_WINDOW] < windows.rows.size and windows.rows[at[AT_WINDOW]] <= row:
            window = at[AT_WINDOW]
            start, coming = windows.starts[window], windows.coming[window]
            _end_lanes(start, at, listed, width, heads, tails, following, born, free, cells)
            status = _sum_window(
                at, listed, n_states, n_queries, heads, following, cells, found, fields
            )
            if status != STATUS_DONE:
                return status
            _end_lanes(coming, at, listed, width, heads, tails, following, born, free, cells)
            at[AT_WINDOW] += 1
        if row == rows.code.size:
            return STATUS_DONE
        code, group, pane = rows.code[row], rows.lane[row], panes[row]
        older, own = 2 * code, 2 * code + 1
        last = tails[group]
        newest = last if last >= 0 and born[last] == pane else -1
        is_new = newest < 0 and begins[code]
        if is_new and free[FREE] < 0:
            return STATUS_LANES
        is_full = False
        lane = heads[group]
        if is_counted and not _has_slots(older, program):
            n_words = fields.words[0]
            is_full = _count_in_lanes(
                older, lane, newest, n_states, width, cells, following, n_words, program
            )
        elif program.begins[older] < program.ends[older]:
            while lane != newest:
                base = lane * width
                total = base + n_states
                full = see(older, base, row, total, cells, slots, cells, fields, rows, program)
                is_full = is_full or full
                lane = following[lane]
        if is_new:
            if heads[group] < 0:
                listed[at[N_LISTED]] = group
                at[N_LISTED] += 1
            newest = begin_lane(group, pane, heads, tails, following, born, free)
        if newest >= 0 and program.begins[own] < program.ends[own]:
            base = newest * width
            total = base + n_states
            full = see(own, base, row, total, cells, slots, cells, fields, rows, program)
            is_full = is_full or full
        at[AT_ROW] += 1
        if is_full:
            return STATUS_WIDE
