"""Compiled sums over matches in windows: rows as matrices, and windows as their products.

A *matrix* has a lane for each state of the automaton: what has become of one run that was in that
state when the first of some rows came. Lane 1, of the empty mapping, has the runs that began in
those rows. Each lane has a cell for each state, and in its cell 0, in which no run is, its matches.
Rows one after the other change a matrix where it stands, by the same steps as any other lane; a row
before all the others changes its lanes by the same steps in reverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.operators.place_kernels import right
from replay.patterns.summing.kernels import (
    AT_SEGMENT,
    HIGH,
    N_FOUND,
    STATUS_DONE,
    STATUS_FOUND,
    STATUS_WIDE,
    Fields,
    Program,
    Rows,
    begin_run,
    count_step,
    high_product,
    is_none,
    map_row,
    merge_at_once,
    put_best,
    see,
    set_none,
)

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

STATUS_LONG = 2
"""The front needs more room."""

EMPTY = 1
"""State of the empty mapping, and lane of the runs that begin."""

# Fields of `at`, which says how far the kernel is and lets it go on where it stopped, besides
# `AT_SEGMENT` and `N_FOUND`.
AT_ROW = 1
MIDDLE = 2  # end of the front, and begin of the back
N_FRONT = 4  # rows of the front that are left
OLDEST = 5  # the first row of the back that begins runs, -1: none
IS_LATE = 6  # whether the back has rows that are not in its matrix
AT_WINDOW = 7
AT_SIZE = 8

# Kinds, rules and steps, as in `replay.patterns.trends.machine`.
_SUM, _FLAGS = 0, 1
_LAST, _FIRST, _CLEAR, _LENGTHEN = 2, 3, 4, 5
_OP_NONE, _OP_BEGIN, _OP_ADD, _OP_MAP, _OP_FINISH, _OP_CLEAR, _OP_PUT = 0, 1, 2, 3, 4, 5, 6
_OP_MOVE, _OP_MATCH, _OP_MOVE_NEW, _OP_MATCH_NEW = 7, 8, 9, 10

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_HIGH_BITS = 44
_INT64_MIN, _INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Queue(NamedTuple):
    """Rows of a window as two stacks."""

    back: Words
    """The matrix of the newer rows."""
    suffix: Words
    """Matrix of rows of the front, while the back becomes the front; and slots."""
    front: Words
    """By row of the front that begins runs, the newest first: lane 1 of it and all behind it."""
    front_rows: IntArray
    """Which rows these are."""


@njit(_nrt=False)
def _set_identity(matrix, n_states, fields):  # type: ignore[no-untyped-def]
    """Let a matrix be that of no rows."""
    for cell in range(n_states * n_states):
        set_none(matrix, cell)
    for state in range(EMPTY + 1, n_states):
        begin_run(matrix, state * n_states + state, fields)


@njit(_nrt=False)
def add_times(into, i, other, j, begin, words, factors, k, at, n_words):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add the product of a number and one that is not negative, of which the low words count."""
    for p in range(n_words):
        by = factors[k, at + p]
        if by == _NONE:
            continue
        carry = _NONE
        for w in range(begin, begin + words - p):
            n = other[j, w]
            low = by * n + carry
            high = high_product(by, n) + (_ONE if low < carry else _NONE)
            whole = into[i, w + p] + low
            into[i, w + p] = whole
            carry = high + (_ONE if whole < low else _NONE)


@njit(_nrt=False)
def _n_bits(cells, cell, words):  # type: ignore[no-untyped-def]
    """Return how many bits a number of runs has."""
    for w in range(words - 1, -1, -1):
        word, n = cells[cell, w], 64 * w + 1
        if word != _NONE:
            for step in (32, 16, 8, 4, 2, 1):
                if word >> np.uint64(step) != _NONE:
                    word >>= np.uint64(step)
                    n += step
            return n
    return 0


@njit(_nrt=False, forceinline=True)
def _add_joined(into, i, one, j, other, k, fields):  # type: ignore[no-untyped-def]
    """Add the runs that go on as those of ``one`` and then as those of ``other``."""
    n_words = fields.words[0]
    if is_none(one, j, 0, n_words) or is_none(other, k, 0, n_words):
        return
    add_times(into, i, other, k, 0, n_words, one, j, 0, n_words)
    for f in range(1, fields.kind.size):
        kind, rule, at, words = fields.kind[f], fields.rule[f], fields.offset[f], fields.words[f]
        if rule == _CLEAR:
            add_times(into, i, other, k, at, words, one, j, at, n_words)
            continue
        # Which of ``other`` leave the value of ``one``, and which of ``one`` take that of other.
        left = fields.offset[fields.waits[f]] if rule == _LAST else 0
        taken = fields.offset[fields.waits[f]] if rule == _FIRST else 0
        if kind == _SUM:
            add_times(into, i, one, j, at, words, other, k, left, n_words)
            add_times(into, i, other, k, at, words, one, j, taken, n_words)
        elif rule == _LENGTHEN:
            put_best(into, i, at, np.int64(one[j, at + 1] + other[k, at + 1]), kind)
        else:
            is_left = not is_none(other, k, left, n_words)
            is_taken = not is_none(one, j, taken, n_words)
            if kind == _FLAGS:
                into[i, at] |= one[j, at] if is_left else _NONE
                into[i, at] |= other[k, at] if is_taken else _NONE
                continue
            if is_left and one[j, at] != _NONE:
                put_best(into, i, at, np.int64(one[j, at + 1]), kind)
            if is_taken and other[k, at] != _NONE:
                put_best(into, i, at, np.int64(other[k, at + 1]), kind)


@njit(_nrt=False, forceinline=True)
def _merge_lane(into, i, other, j, n_states, fields):  # type: ignore[no-untyped-def]
    """Add the runs of a lane to another; returns whether one of its cells may be full."""
    top = fields.words[0] - 1
    is_full = False
    for state in range(n_states):
        if not is_none(other, j + state, 0, fields.words[0]):
            merge_at_once(into, i + state, other, j + state, fields)
            is_full = is_full or into[i + state, top] >= HIGH
    return is_full


@njit(_nrt=False, forceinline=True)
def _put_before(code, row, matches, n_states, suffix, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Put a row before those of a matrix; returns whether one of its cells may be full.

    Slots are lanes behind those of the states. ``matches``: whether those are wanted that end here.
    """
    is_full = False
    begin, end = program.begins[code], program.ends[code]
    for k in range(begin, end):
        if program.steps[k, 0] == _OP_NONE:
            slot = (n_states + program.steps[k, 1]) * n_states
            for state in range(n_states):
                set_none(suffix, slot + state)
    for k in range(end - 1, begin - 1, -1):
        op, a, b, _ = program.steps[k]  # of one query: no ranges
        slot = (n_states + a) * n_states
        if op == _OP_CLEAR:
            for state in range(n_states):
                set_none(suffix, a * n_states + state)
        elif op == _OP_MAP:
            for state in range(n_states):
                map_row(suffix, slot + state, b, row, True, fields, rows)
        elif op in (_OP_MATCH, _OP_MATCH_NEW, _OP_FINISH):
            lane = EMPTY if op == _OP_MATCH_NEW else b if op == _OP_MATCH else n_states + a
            if matches:
                begin_run(suffix, lane * n_states, fields)
        elif op != _OP_NONE:
            source = slot if op in (_OP_ADD, _OP_BEGIN) else a * n_states
            into = EMPTY * n_states if op in (_OP_BEGIN, _OP_MOVE_NEW) else b * n_states
            if op == _OP_PUT:
                source, into = into, slot
            is_full = _merge_lane(suffix, into, suffix, source, n_states, fields) or is_full
    return is_full


@njit(_nrt=False)
def _turn(at, row, start, matches, n_states, begins, queue, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Make the rows of the back from a time on the front; returns a status."""
    suffix, n_front = queue.suffix, 0
    _set_identity(suffix, n_states, fields)
    for one in range(row - 1, at[MIDDLE] - 1, -1):
        if rows.times[one] < start:
            break
        code = rows.code[one]
        own = 2 * code + 1
        if _put_before(own, one, matches, n_states, suffix, fields, rows, program):
            return STATUS_WIDE
        if begins[code]:
            if n_front == queue.front_rows.size:
                return STATUS_LONG
            for state in range(n_states):
                for w in range(suffix.shape[1]):
                    queue.front[n_front * n_states + state, w] = suffix[EMPTY * n_states + state, w]
            queue.front_rows[n_front] = one
            n_front += 1
    at[N_FRONT], at[MIDDLE], at[OLDEST], at[IS_LATE] = n_front, row, -1, 0
    # Without this the rows that left with the front would stay in the product.
    _set_identity(queue.back, n_states, fields)
    return STATUS_DONE


@njit(_nrt=False, forceinline=True)
def _add_matches(into, place, n_front, n_states, queue, fields):  # type: ignore[no-untyped-def]
    """Add the matches that are known of runs that began in the queue; returns a status."""
    words, back = fields.words[0], queue.back
    front = (n_front - 1) * n_states
    lanes = n_states if n_front else EMPTY + 1
    for state in range(EMPTY + 1, lanes):
        n_bits = _n_bits(back, state * n_states, words)
        if n_bits:
            n_bits += _n_bits(queue.front, front + state, words)
        if n_bits > 64 * (words - 1) + _HIGH_BITS:
            return STATUS_WIDE
    if into[place, words - 1] >= HIGH:
        return STATUS_WIDE
    for state in range(EMPTY, lanes):
        cell = state * n_states
        if is_none(back, cell, 0, words):
            continue
        if state == EMPTY:
            merge_at_once(into, place, back, cell, fields)
        elif fields.kind.size == 1:
            add_times(into, place, back, cell, 0, words, queue.front, front + state, 0, words)
        else:
            _add_joined(into, place, queue.front, front + state, back, cell, fields)
    return STATUS_DONE


@njit(_nrt=False)
def _start_of(time, within):  # type: ignore[no-untyped-def]
    """Return since when rows are in the window that ends at a time."""
    return time - within if time >= _INT64_MIN + within else _INT64_MIN


@njit(_nrt=False, forceinline=True)
def _leave(at, start, queue, rows):  # type: ignore[no-untyped-def]
    """Let rows of the front go that are before a time; returns whether some of the back are."""
    n_front = at[N_FRONT]
    while n_front > 0 and rows.times[queue.front_rows[n_front - 1]] < start:
        n_front -= 1
    at[N_FRONT] = n_front
    oldest = at[OLDEST]
    return at[IS_LATE] != 0 or (n_front == 0 and oldest >= 0 and rows.times[oldest] < start)


@njit(_nrt=False, forceinline=True)
def _count_in_lanes(code, low, high, n_states, cells, n_words, program):  # type: ignore[no-untyped-def]
    """Do what `see` does in lanes, of rows that are but counted and whose steps need no slots.

    A step is taken in all of them before the next one, as lanes know nothing of each other.
    """
    bits = _NONE
    for k in range(program.begins[code], program.ends[code]):
        op, a, b, n = program.steps[k]
        into = 0 if op in (_OP_MATCH, _OP_MATCH_NEW) else a
        for base in range(low * n_states, high * n_states, n_states):
            bits |= count_step(op, cells, base + into, cells, base + b, n, n_words)
    return bits >= HIGH


@njit(_nrt=False, forceinline=True)
def _see_row(at, row, n_states, begins, has_slots, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Put a row behind those of the back; returns whether one of its cells may be full."""
    code, back = rows.code[row], queue.back
    if begins[code] and at[OLDEST] < 0:
        at[OLDEST] = row
    at[AT_ROW] = row + 1
    n_lanes = n_states if at[N_FRONT] else EMPTY + 1  # the others are for the front alone
    older, own = 2 * code, 2 * code + 1
    if fields.kind.size == 1 and not has_slots[code]:
        n_words = fields.words[0]
        full = _count_in_lanes(own, EMPTY, EMPTY + 1, n_states, back, n_words, program)
        others = _count_in_lanes(older, EMPTY + 1, n_lanes, n_states, back, n_words, program)
        return full or others
    is_full = False
    for lane in range(EMPTY, n_lanes):
        steps, base = own if lane == EMPTY else older, lane * n_states
        full = see(steps, base, row, base, back, scratch, back, fields, rows, program)
        is_full = is_full or full
    return is_full


@njit(_nrt=False)
def row_of_piece(at, place, time, bounds, sums, of_sums):  # type: ignore[no-untyped-def]
    """Return the row of ``sums`` to which those of a partition and a time are added; -1: no room.

    Pieces of the stream are from one of the bounds to the next, and come in their order;
    ``of_sums`` has partition and piece of each row. Without bounds it is that of the partition.
    """
    if not bounds.size:
        return place
    n, piece = at[N_FOUND], right(bounds, 0, bounds.size, time) - 1
    if n > 0:
        if of_sums[0, n - 1] == place and of_sums[1, n - 1] == piece:
            return n - 1
        if is_none(sums, n - 1, 0, sums.shape[1]):  # nothing was found of that
            n -= 1
    if n == len(sums):
        return -1
    set_none(sums, n)
    of_sums[0, n], of_sums[1, n] = place, piece
    at[N_FOUND] = n + 1
    return n


@njit(_nrt=False, forceinline=True)
def _sum_ends(at, segments, within, is_by_piece, bounds, sums, of_sums, n_states, begins, has_slots, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Do what `sum_entries` and `sum_entry_pieces` do."""
    queue, fields, rows, program = Queue(*queue), Fields(*fields), Rows(*rows), Program(*program)
    for number in range(at[AT_SEGMENT], len(segments)):
        place, first, counted, end = segments[number]
        row = at[AT_ROW]
        at[AT_SEGMENT] = number
        if row < 0:
            row = at[AT_ROW] = counted
            at[MIDDLE], at[N_FRONT], at[OLDEST], at[IS_LATE] = first, 0, -1, first < counted
            _set_identity(queue.back, n_states, fields)
        until = _INT64_MAX
        if is_by_piece:
            until = bounds[right(bounds, 0, bounds.size, rows.times[max(counted, row - 1)])]
        while True:
            n_front = at[N_FRONT]
            time = rows.times[min(row, end - 1)]
            start = _start_of(time, within)
            oldest = queue.front_rows[n_front - 1] if n_front else at[OLDEST]
            is_over = row == end or (is_by_piece and time >= until)
            if is_over or (oldest >= 0 and rows.times[oldest] < start):
                into = place
                if is_by_piece:
                    into = row_of_piece(at, place, rows.times[row - 1], bounds, sums, of_sums)
                    if into < 0:
                        return STATUS_FOUND
                status = _add_matches(sums, into, n_front, n_states, queue, fields)
                if status != STATUS_DONE:
                    return status
                if row == end:
                    break
                for state in range(EMPTY, n_states):
                    set_none(queue.back, state * n_states)
                if is_by_piece:
                    until = bounds[right(bounds, 0, bounds.size, time)]
            if _leave(at, start, queue, rows):
                status = _turn(
                    at, row, start, False, n_states, begins, queue, fields, rows, program
                )
                if status != STATUS_DONE:
                    return status
            if _see_row(
                at, row, n_states, begins, has_slots, queue, scratch, fields, rows, program
            ):
                return STATUS_WIDE
            row += 1
        at[AT_ROW] = -1
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE


@njit(_nrt=False)
def sum_entries(at, segments, within, n_states, begins, has_slots, queue, scratch, totals, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum within a window from each start.

    The rows of the window that ends at a row are a queue of two stacks: at the front stand products
    of a row and all those behind it, so that the first can be let go; at the back one product of
    all. A row that begins no run need not be let go. ``segments`` has of each the partition, the
    first row, the first one whose matches are to be added, and the end. A row of code c takes the
    steps ``2 c``, and ``2 c + 1`` where runs begin; ``begins`` says of a code whether any do, and
    ``has_slots`` whether its steps need ``scratch``, which has a cell for each slot.
    Returns a status; ``queue``, ``fields``, ``rows`` and ``program`` are plain tuples of the fields
    of the classes named so.
    """
    nothing = rows[0]  # of the type of bounds, and looked at nowhere
    return _sum_ends(
        at, segments, within, False, nothing, totals, segments, n_states, begins, has_slots, queue,
        scratch, fields, rows, program,
    )  # fmt: skip


@njit(_nrt=False)
def sum_entry_pieces(at, segments, within, bounds, sums, of_sums, n_states, begins, has_slots, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum as `sum_entries`, by piece of the stream in which matches end; see `row_of_piece`.

    ``bounds`` are around what is to be added.
    """
    return _sum_ends(
        at, segments, within, True, bounds, sums, of_sums, n_states, begins, has_slots, queue,
        scratch, fields, rows, program,
    )  # fmt: skip


@njit(_nrt=False)
def sum_entry_windows(at, segments, starts, ends, sums, of_sums, n_states, begins, has_slots, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum in each of some windows, of which neither ``starts`` nor ``ends`` descend.

    As `sum_entries`, of all rows of a segment, but that rows leave before a window is looked at.
    ``of_sums`` has partition and window of each.
    """
    queue, fields, rows, program = Queue(*queue), Fields(*fields), Rows(*rows), Program(*program)
    for number in range(at[AT_SEGMENT], len(segments)):
        place, first, _, end = segments[number]
        row, window = at[AT_ROW], at[AT_WINDOW]
        at[AT_SEGMENT] = number
        if row < 0:
            row, window = first, right(ends, 0, ends.size, rows.times[first])
            while window < ends.size and row < end and rows.times[row] < ends[window]:
                row += 1
            at[AT_ROW], at[AT_WINDOW] = row, window
            at[MIDDLE], at[N_FRONT], at[OLDEST], at[IS_LATE] = first, 0, -1, 1
            _set_identity(queue.back, n_states, fields)
        while window < ends.size:
            while row < end and rows.times[row] < ends[window]:
                if _see_row(
                    at, row, n_states, begins, has_slots, queue, scratch, fields, rows, program
                ):
                    return STATUS_WIDE
                row += 1
            start = starts[window]
            if _leave(at, start, queue, rows):
                status = _turn(at, row, start, True, n_states, begins, queue, fields, rows, program)
                if status != STATUS_DONE:
                    return status
            n_front, n = at[N_FRONT], at[N_FOUND]
            if n_front or at[OLDEST] >= 0:
                if n == len(sums):
                    return STATUS_FOUND
                set_none(sums, n)
                status = _add_matches(sums, n, n_front, n_states, queue, fields)
                if status != STATUS_DONE:
                    return status
                if n_front:
                    cell = (n_front - 1) * n_states
                    merge_at_once(sums, n, queue.front, cell, fields)
                if not is_none(sums, n, 0, fields.words[0]):
                    of_sums[0, n], of_sums[1, n] = place, window
                    at[N_FOUND] += 1
                window += 1
            elif row < end:
                window = right(ends, window, ends.size, rows.times[row])
            else:
                break
            at[AT_WINDOW] = window
        at[AT_ROW] = -1
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE
