"""Compiled counts of matches in windows: rows as matrices, and windows as their products.

*Cells* are rows of an array of numbers, see ``exact_kernels.py``; a lane has one for each state of
the automaton, from ``base`` on. That of state 1, the empty mapping, is 1 while runs may begin: so a
row is a linear map of a lane's cells, and rows one after the other are a product of matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.aggregates.exact_kernels import add, add_product, clear, copy, is_zero
from replay.patterns.run_end_kernels import is_after
from replay.patterns.strategies.run_kernels import Tables, lowest, passed

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

STATUS_DONE = 0
STATUS_WIDE = 1
"""Numbers need more words."""
STATUS_LONG = 2
"""The queue needs more room."""

EMPTY = 1
"""State of the empty mapping, whatever row comes next."""

# Fields of `at`, which says how far a kernel is and lets it go on where it stopped.
AT_SEGMENT = 0
AT_ROW = 1
FRONT = 2  # first row of the queue
MIDDLE = 3  # end of its front, and begin of its back
FRONT_BASE = 4  # row of the first entry of `front`
AT_SIZE = 5

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_ALL = ~_NONE


class Lanes(NamedTuple):
    """Cells, and what is needed to change them; numbers of all have as many words."""

    cells: Words
    finished: Words
    """By segment or partition: how many runs have become matches."""
    moved: Words
    """A lane, or all lanes, after the row."""
    accepted: Words
    """One number: runs that became matches at the row; and another for products."""


class Queue(NamedTuple):
    """Rows of a window as two stacks; ``queue`` of `count_within`."""

    front: Words
    """By row of the front: from the empty mapping to each state, by that row and all behind it."""
    suffix: Words
    """From any state to any, by rows of the front; while the back becomes the front."""
    back: Words
    """From any state to any by the rows of the back."""
    whole: Words
    """From the empty mapping to each state by all rows of the queue."""


@njit(_nrt=False)
def see(cells, base, moved, to, accepted, word, begin, semantics, tables):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let a lane see a row: its cells from then on come into ``moved``, from ``to`` on.

    ``begin`` is the state of the empty mapping at the row, and ``accepted`` becomes the number of
    runs that are matches by it. Returns whether all numbers fit.
    """
    n_states = tables.ways.size
    for state in range(n_states):
        clear(moved, to + state)
    clear(accepted, 0)
    fits = True
    for state in range(EMPTY, n_states):
        if is_zero(cells, base + state):
            continue
        at = begin if state == EMPTY else state
        ways = word & tables.ways[at]
        while ways:
            target = tables.step[at, lowest(ways)]
            ways &= ways - _ONE
            if tables.accepts[target + 1] > tables.accepts[target]:
                fits &= add(accepted, 0, cells, base + state)
            if tables.ways[target] != 0:
                fits &= add(moved, to + target, cells, base + state)
        kept = EMPTY if state == EMPTY else passed(state, word, semantics, tables, _ALL)
        if kept >= 0:
            fits &= add(moved, to + kept, cells, base + state)
    return fits


@njit(_nrt=False)
def set_identity(matrix, n_states):  # type: ignore[no-untyped-def]
    """Let a matrix leave every lane as it is."""
    for state in range(n_states):
        for other in range(n_states):
            clear(matrix, state * n_states + other)
        matrix[state * n_states + state, 0] = _ONE


@njit(_nrt=False)
def put_before(suffix, moved, word, begin, semantics, tables):  # type: ignore[no-untyped-def]
    """Put a row before those of a product of rows; returns whether all numbers fit."""
    n = tables.ways.size
    fits = True
    for state in range(EMPTY, n):
        for other in range(n):
            clear(moved, state * n + other)
        at = begin if state == EMPTY else state
        ways = word & tables.ways[at]
        while ways:
            target = tables.step[at, lowest(ways)]
            ways &= ways - _ONE
            if tables.ways[target] != 0:
                for other in range(n):
                    fits &= add(moved, state * n + other, suffix, target * n + other)
        kept = EMPTY if state == EMPTY else passed(state, word, semantics, tables, _ALL)
        if kept >= 0:
            for other in range(n):
                fits &= add(moved, state * n + other, suffix, kept * n + other)
    if fits:
        for cell in range(n, n * n):
            copy(suffix, cell, moved, cell)
    return fits


@njit(_nrt=False)
def turn(at, row, words, opens, semantics, tables, queue, moved):  # type: ignore[no-untyped-def]
    """Make the rows of the back those of the front; returns a status."""
    n = tables.ways.size
    first = at[MIDDLE]
    if (row - first) * n > len(queue.front):
        return STATUS_LONG
    set_identity(queue.suffix, n)
    for one in range(row - 1, first - 1, -1):
        begin = 0 if opens[one] else EMPTY
        if not put_before(queue.suffix, moved, words[one], begin, semantics, tables):
            return STATUS_WIDE
        for state in range(n):
            copy(queue.front, (one - first) * n + state, queue.suffix, EMPTY * n + state)
    at[FRONT_BASE], at[MIDDLE] = first, row
    # Without this the rows that left with the front would stay in the product.
    set_identity(queue.back, n)
    return STATUS_DONE


@njit(_nrt=False)
def read_whole(at, queue, scratch, n):  # type: ignore[no-untyped-def]
    """Find how runs stand that began in the queue; returns whether the numbers fit."""
    fits = True
    for state in range(n):
        clear(queue.whole, state)
    if at[FRONT] == at[MIDDLE]:
        for state in range(EMPTY, n):
            copy(queue.whole, state, queue.back, EMPTY * n + state)
        return fits
    front = (at[FRONT] - at[FRONT_BASE]) * n
    for between in range(EMPTY, n):
        if is_zero(queue.front, front + between):
            continue
        for state in range(EMPTY, n):
            fits &= add_product(
                queue.whole, state, queue.front, front + between, queue.back, between * n + state,
                scratch,
            )  # fmt: skip
    return fits


@njit(_nrt=False)
def count_within(segments, within, counted, times, words, opens, completes, semantics, tables, lanes, queue, at):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Add up the matches of each segment that are at most ``within`` long.

    The rows of the window that ends at a row are a queue of two stacks: at the front stand products
    of a row and all those behind it, so that the first can be let go; at the back one product of
    all. ``completes`` are symbols that complete a match. ``segments`` has a row for each: place in
    ``finished``, first row and end; ``counted`` says which rows' matches are to be added. Returns a
    status; ``tables``, ``lanes`` and ``queue`` are plain tuples of the fields of the classes named
    so.
    """
    tables, lanes, queue = Tables(*tables), Lanes(*lanes), Queue(*queue)
    n = tables.ways.size
    for number in range(at[AT_SEGMENT], len(segments)):
        place, first, end = segments[number, 0], segments[number, 1], segments[number, 2]
        row = at[AT_ROW]
        if row < 0:
            row = first
            at[FRONT] = at[MIDDLE] = at[FRONT_BASE] = first
            set_identity(queue.back, n)
        while row < end:
            at[AT_SEGMENT], at[AT_ROW] = number, row
            while at[FRONT] < row and is_after(times[row], times[at[FRONT]], within):
                if at[FRONT] == at[MIDDLE]:
                    status = turn(at, row, words, opens, semantics, tables, queue, lanes.moved)
                    if status != STATUS_DONE:
                        return status
                at[FRONT] += 1
            begin = 0 if opens[row] else EMPTY
            clear(lanes.accepted, 0)
            fits = True
            if counted[row] and words[row] & completes:
                fits = read_whole(at, queue, lanes.accepted, n)
                fits &= see(
                    queue.whole, 0, lanes.moved, 0, lanes.accepted, words[row], begin, semantics,
                    tables,
                )  # fmt: skip
            copy(lanes.accepted, 1, lanes.finished, place)
            fits &= add(lanes.accepted, 1, lanes.accepted, 0)
            copy(lanes.cells, 0, lanes.accepted, 1)
            for state in range(EMPTY, n):
                fits &= see(
                    queue.back, state * n, lanes.moved, state * n, lanes.accepted, words[row],
                    begin, semantics, tables,
                )  # fmt: skip
            if not fits:
                return STATUS_WIDE
            copy(lanes.finished, place, lanes.cells, 0)
            for cell in range(n, n * n):
                copy(queue.back, cell, lanes.moved, cell)
            row += 1
        at[AT_ROW] = -1
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE
