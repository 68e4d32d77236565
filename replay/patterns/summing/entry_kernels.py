"""Compiled sums over matches in windows: rows are linear maps, and windows their products.

The product of some rows has a cell for each of the factors that lead through them, see
`replay.patterns.trends.factors`: what has become of one run that was in some state when the first
of them came, or how many runs that began in them are in a state, or matches of a query. A row
behind all others changes the cells where they stand, and so does a row before all others.
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
    change,
    high_product,
    is_none,
    merge_at_once,
    put_best,
    set_none,
)

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

STATUS_LONG = 2
"""The front needs more room."""

# Fields of `at`, which says how far the kernel is and lets it go on where it stopped, besides
# `AT_SEGMENT` and `N_FOUND`.
AT_ROW = 1
MIDDLE = 2  # end of the front, and begin of the back
N_FRONT = 4  # rows of the front that are left
OLDEST = 5  # the first row of the back that begins runs, -1: none
IS_LATE = 6  # whether the back has rows that are not in its product
AT_WINDOW = 7
AT_SIZE = 8

# Kinds and rules, as in `replay.patterns.trends.machine`.
_SUM, _FLAGS = 0, 1
_LAST, _FIRST, _CLEAR, _LENGTHEN = 2, 3, 4, 5

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_HIGH_BITS = 44
_INT64_MIN, _INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Queue(NamedTuple):
    """Rows of a window as two stacks, and where sums are found in their cells."""

    back: Words
    """The product of the newer rows."""
    suffix: Words
    """That of rows of the front, while the back becomes the front."""
    front: Words
    """By row of the front that begins runs, the newest first: the cells, of it and all behind it,
    of the runs that begin there."""
    front_rows: IntArray
    """Which rows these are."""
    begins: Bools
    """By code of rows: whether runs begin."""
    ones_behind: IntArray
    """The cells of the back that lead through no rows as one run."""
    ones_before: IntArray
    """Those of the suffix."""
    joins: IntArray
    """See `Factors.joins`."""
    own: IntArray
    """See `Factors.own`."""


@njit(_nrt=False)
def _set_identity(cells, ones, fields):  # type: ignore[no-untyped-def]
    """Let cells be those of no rows."""
    for cell in range(len(cells)):
        set_none(cells, cell)
    for cell in ones:
        begin_run(cells, cell, fields)


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


@njit(_nrt=False)
def _turn(at, row, start, width, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Make the rows of the back from a time on the front; returns a status."""
    suffix, n_front = queue.suffix, 0
    _set_identity(suffix, queue.ones_before, fields)
    for one in range(row - 1, at[MIDDLE] - 1, -1):
        if rows.times[one] < start:
            break
        code = rows.code[one]
        if change(3 * code + 2, one, True, suffix, scratch, fields, rows, program):
            return STATUS_WIDE
        if queue.begins[code]:
            if n_front == queue.front_rows.size:
                return STATUS_LONG
            for cell in range(width):
                for w in range(suffix.shape[1]):
                    queue.front[n_front * width + cell, w] = suffix[cell, w]
            queue.front_rows[n_front] = one
            n_front += 1
    at[N_FRONT], at[MIDDLE], at[OLDEST], at[IS_LATE] = n_front, row, -1, 0
    # Without this the rows that left with the front would stay in the product.
    _set_identity(queue.back, queue.ones_behind, fields)
    return STATUS_DONE


@njit(_nrt=False, forceinline=True)
def _add_matches(into, place, n_front, width, queue, fields):  # type: ignore[no-untyped-def]
    """Add the matches that are known of runs that began in the queue, of query q in row place + q.

    Returns whether there was room for them; without it nothing is added.
    """
    words, back, front = fields.words[0], queue.back, queue.front
    first = (n_front - 1) * width
    n_joins = len(queue.joins) if n_front else 0
    for query in range(len(queue.own)):
        if into[place + query, words - 1] >= HIGH:
            return False
    for k in range(n_joins):
        n_bits = _n_bits(back, queue.joins[k, 2], words)
        if n_bits:
            n_bits += _n_bits(front, first + queue.joins[k, 1], words)
        if n_bits > 64 * (words - 1) + _HIGH_BITS:
            return False
    for query in range(len(queue.own)):
        merge_at_once(into, place + query, back, queue.own[query, 1], fields)
    for k in range(n_joins):
        query, before, behind = queue.joins[k]
        if is_none(back, behind, 0, words):
            continue
        row, before = place + query, first + before
        if fields.kind.size == 1:
            add_times(into, row, back, behind, 0, words, front, before, 0, words)
        else:
            _add_joined(into, row, front, before, back, behind, fields)
    return True


@njit(_nrt=False, forceinline=True)
def _forget_matches(queue):  # type: ignore[no-untyped-def]
    """Let the back have no matches: they are added up."""
    for query in range(len(queue.own)):
        set_none(queue.back, queue.own[query, 1])
    for k in range(len(queue.joins)):
        set_none(queue.back, queue.joins[k, 2])


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
def _see_row(at, row, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]
    """Put a row behind those of the back; returns whether one of its cells may be full."""
    code, back = rows.code[row], queue.back
    if queue.begins[code] and at[OLDEST] < 0:
        at[OLDEST] = row
    at[AT_ROW] = row + 1
    is_full = change(3 * code + 1, row, False, back, scratch, fields, rows, program)
    if at[N_FRONT]:  # the others are for the front alone
        full = change(3 * code, row, False, back, scratch, fields, rows, program)
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
def _sum_ends(at, segments, within, is_by_piece, bounds, sums, of_sums, width, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Do what `sum_entries` and `sum_entry_pieces` do."""
    queue, fields, rows, program = Queue(*queue), Fields(*fields), Rows(*rows), Program(*program)
    n_queries = len(queue.own)
    for number in range(at[AT_SEGMENT], len(segments)):
        place, first, counted, end = segments[number]
        row = at[AT_ROW]
        at[AT_SEGMENT] = number
        if row < 0:
            row = at[AT_ROW] = counted
            at[MIDDLE], at[N_FRONT], at[OLDEST], at[IS_LATE] = first, 0, -1, first < counted
            _set_identity(queue.back, queue.ones_behind, fields)
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
                into = place * n_queries
                if is_by_piece:
                    into = row_of_piece(at, place, rows.times[row - 1], bounds, sums, of_sums)
                    if into < 0:
                        return STATUS_FOUND
                if not _add_matches(sums, into, n_front, width, queue, fields):
                    return STATUS_WIDE
                if row == end:
                    break
                _forget_matches(queue)
                if is_by_piece:
                    until = bounds[right(bounds, 0, bounds.size, time)]
            if _leave(at, start, queue, rows):
                status = _turn(at, row, start, width, queue, scratch, fields, rows, program)
                if status != STATUS_DONE:
                    return status
            if _see_row(at, row, queue, scratch, fields, rows, program):
                return STATUS_WIDE
            row += 1
        at[AT_ROW] = -1
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE


@njit(_nrt=False)
def sum_entries(at, segments, within, width, queue, scratch, totals, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip
    """Sum within a window from each start.

    The rows of the window that ends at a row are a queue of two stacks: at the front stand products
    of a row and all those behind it, so that the first can be let go; at the back one product of
    all. A row that begins no run need not be let go. ``segments`` has of each the partition, the
    first row, the first one whose matches are to be added, and the end. A row of code c takes the
    steps ``3 c`` behind others, ``3 c + 1`` there in the cells of runs that begin in the rows, and
    ``3 c + 2`` before others; ``width`` is how many cells of these there are before others. The
    matches of query q in partition p are added to row ``p n_queries + q`` of ``totals``.
    Returns a status; ``queue``, ``fields``, ``rows`` and ``program`` are plain tuples of the fields
    of the classes named so, ``scratch`` has the slots of steps.
    """
    nothing = rows[0]  # of the type of bounds, and looked at nowhere
    return _sum_ends(
        at, segments, within, False, nothing, totals, segments, width, queue, scratch, fields, rows,
        program,
    )  # fmt: skip


@njit(_nrt=False)
def sum_entry_pieces(at, segments, within, bounds, sums, of_sums, width, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum as `sum_entries`, by piece of the stream in which matches end; see `row_of_piece`.

    ``bounds`` are around what is to be added. There is one query.
    """
    return _sum_ends(
        at, segments, within, True, bounds, sums, of_sums, width, queue, scratch, fields, rows,
        program,
    )  # fmt: skip


@njit(_nrt=False)
def _keep_found(at, place, window, sums, of_sums, n_queries, n_words):  # type: ignore[no-untyped-def]
    """Note of which queries there are matches in a window, whose sums stand behind those found."""
    n = at[N_FOUND]
    for query in range(n_queries):
        row = at[N_FOUND] + query
        if is_none(sums, row, 0, n_words):
            continue
        for w in range(sums.shape[1]):
            sums[n, w] = sums[row, w]
        of_sums[0, n], of_sums[1, n], of_sums[2, n] = place, window, query
        n += 1
    at[N_FOUND] = n


@njit(_nrt=False)
def sum_entry_windows(at, segments, starts, ends, sums, of_sums, width, queue, scratch, fields, rows, program):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum in each of some windows, of which neither ``starts`` nor ``ends`` descend.

    As `sum_entries`, of all rows of a segment, but that rows leave before a window is looked at.
    ``of_sums`` has partition, window and query of each.
    """
    queue, fields, rows, program = Queue(*queue), Fields(*fields), Rows(*rows), Program(*program)
    n_queries = len(queue.own)
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
            _set_identity(queue.back, queue.ones_behind, fields)
        while window < ends.size:
            while row < end and rows.times[row] < ends[window]:
                if _see_row(at, row, queue, scratch, fields, rows, program):
                    return STATUS_WIDE
                row += 1
            start = starts[window]
            if _leave(at, start, queue, rows):
                status = _turn(at, row, start, width, queue, scratch, fields, rows, program)
                if status != STATUS_DONE:
                    return status
            n_front, n = at[N_FRONT], at[N_FOUND]
            if n_front or at[OLDEST] >= 0:
                if n + n_queries > len(sums):
                    return STATUS_FOUND
                for query in range(n_queries):
                    set_none(sums, n + query)
                if not _add_matches(sums, n, n_front, width, queue, fields):
                    return STATUS_WIDE
                if n_front:
                    for query in range(n_queries):
                        cell = (n_front - 1) * width + queue.own[query, 0]
                        merge_at_once(sums, n + query, queue.front, cell, fields)
                _keep_found(at, place, window, sums, of_sums, n_queries, fields.words[0])
                window += 1
            elif row < end:
                window = right(ends, window, ends.size, rows.times[row])
            else:
                break
            at[AT_WINDOW] = window
        at[AT_ROW] = -1
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE
