"""Compiled sums over cells by the value of their live row: Fenwick's trees, which only grow.

Those of a state and lane have a part of all: at its begin the sum over all cells, then one place
for each value, ascending. Nodes of ``below`` add up those before, nodes of ``above`` those after.
Cells whose row has no value, or NaN, are in the first place alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.patterns.summing.kernels import is_none, merge_at_once, set_none

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# As in `replay.patterns.trends.indexes`.
_ALL, _BELOW, _UP_TO, _ABOVE, _FROM, _EQUAL = 1, 2, 3, 4, 5, 6

_NOTHING = -1


class Trees(NamedTuple):
    """Trees of states that have some, and how edges ask them."""

    number: IntArray
    """By state: which it has, -1 for none."""
    has_below: npt.NDArray[np.bool_]
    """By tree: whether edges ask what lies below a value."""
    has_above: npt.NDArray[np.bool_]
    order: IntArray
    """By tree: whether cells are taken least value first, 1, or greatest first, -1; 0: neither."""
    by: IntArray
    """By state and symbol, as `Indexes.by`."""
    asked: IntArray
    """By state and symbol: which of the values asked for."""
    begins: IntArray
    """By tree and lane."""
    sizes: IntArray
    ranks: IntArray
    """By tree and column: place of its value in that of its lane, from 1 on; 0: it has none."""
    values: IntArray
    """By place."""
    wanted: IntArray
    """By what is asked and column: the value."""
    is_wanted: npt.NDArray[np.bool_]
    """Whether there is one."""
    below: Words
    above: Words
    cells: IntArray
    """By place: the cell of the value."""
    heap: IntArray
    """By place: ranks of values that have cells, times ``order``, the least first."""
    heaped: IntArray
    """By tree and lane: how many they are."""


@njit(_nrt=False)
def _n_less(values, begin, size, value, or_equal):  # type: ignore[no-untyped-def]
    """How many values of a tree are less than one."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        at = values[begin + 1 + middle]
        if at < value or (or_equal and at == value):
            low = middle + 1
        else:
            high = middle
    return low


@njit(_nrt=False, forceinline=True)
def _add_first(into, i, nodes, begin, n, fields):  # type: ignore[no-untyped-def]
    """Add the sums of the first values."""
    while n > 0:
        merge_at_once(into, i, nodes, begin + n, fields)
        n -= n & -n


@njit(_nrt=False, forceinline=True)
def ask(tree, lane, column, by, asked, trees, into, i, numbers, fields):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add the cells that an edge takes. Returns whether there are runs in the sum."""
    begin, size = trees.begins[tree, lane], trees.sizes[tree, lane]
    if by == _ALL:
        merge_at_once(into, i, trees.below, begin, fields)
    elif trees.is_wanted[asked, column]:
        value = trees.wanted[asked, column]
        if by in (_BELOW, _UP_TO):
            n = _n_less(trees.values, begin, size, value, by == _UP_TO)
            _add_first(into, i, trees.below, begin, n, fields)
        elif by in (_ABOVE, _FROM):
            n = size - _n_less(trees.values, begin, size, value, by == _ABOVE)
            _add_first(into, i, trees.above, begin, n, fields)
        elif by == _EQUAL:
            n = _n_less(trees.values, begin, size, value, True)
            if n > 0 and trees.values[begin + n] == value and trees.cells[begin + n] != _NOTHING:
                merge_at_once(into, i, numbers, trees.cells[begin + n], fields)
        else:
            n = _n_less(trees.values, begin, size, value, False)
            _add_first(into, i, trees.below, begin, n, fields)
            n = size - _n_less(trees.values, begin, size, value, True)
            _add_first(into, i, trees.above, begin, n, fields)
    return not is_none(into, i, 0, fields.words[0])


@njit(_nrt=False, forceinline=True)
def add_to_trees(tree, lane, column, trees, other, j, fields):  # type: ignore[no-untyped-def]
    """Have the runs of a cell be in the sums. Returns the place of its value."""
    begin, size = trees.begins[tree, lane], trees.sizes[tree, lane]
    rank = trees.ranks[tree, column]
    merge_at_once(trees.below, begin, other, j, fields)
    if rank > 0 and trees.has_below[tree]:
        at = rank
        while at <= size:
            merge_at_once(trees.below, begin + at, other, j, fields)
            at += at & -at
    if rank > 0 and trees.has_above[tree]:
        at = size + 1 - rank
        while at <= size:
            merge_at_once(trees.above, begin + at, other, j, fields)
            at += at & -at
    if rank > 0 and trees.order[tree] != 0 and trees.cells[begin + rank] == _NOTHING:
        _push(trees.heap, begin, trees.heaped[tree, lane], rank * trees.order[tree])
        trees.heaped[tree, lane] += 1
    return begin + rank


@njit(_nrt=False)
def clear_place(tree, lane, column, trees):  # type: ignore[no-untyped-def]
    """Have no sum be of the value of a column, nor of all. Returns the cell that it has had."""
    begin, size = trees.begins[tree, lane], trees.sizes[tree, lane]
    rank = trees.ranks[tree, column]
    cell = trees.cells[begin + rank]
    if cell == _NOTHING:
        return cell
    trees.cells[begin + rank] = _NOTHING
    set_none(trees.below, begin)
    if rank > 0 and trees.has_below[tree]:
        at = rank
        while at <= size:
            set_none(trees.below, begin + at)
            at += at & -at
    if rank > 0 and trees.has_above[tree]:
        at = size + 1 - rank
        while at <= size:
            set_none(trees.above, begin + at)
            at += at & -at
    return cell


@njit(_nrt=False)
def _push(heap, begin, n, key):  # type: ignore[no-untyped-def]
    """Add a key to a heap of n."""
    at = n
    while at > 0:
        above = (at - 1) // 2
        if heap[begin + above] <= key:
            break
        heap[begin + at] = heap[begin + above]
        at = above
    heap[begin + at] = key


@njit(_nrt=False)
def _pop(heap, begin, n):  # type: ignore[no-untyped-def]
    """Take the least key from a heap of n."""
    key = heap[begin + n - 1]
    at = 0
    while 2 * at + 1 < n - 1:
        below = 2 * at + 1
        if below + 1 < n - 1 and heap[begin + below + 1] < heap[begin + below]:
            below += 1
        if key <= heap[begin + below]:
            break
        heap[begin + at] = heap[begin + below]
        at = below
    heap[begin + at] = key


@njit(_nrt=False, forceinline=True)
def first_taken(tree, lane, by, value, trees):  # type: ignore[no-untyped-def]
    """Return the place of a cell that an edge takes, no more in the heap; -1 for none."""
    begin, size = trees.begins[tree, lane], trees.sizes[tree, lane]
    if by == _EQUAL:
        place = begin + _n_less(trees.values, begin, size, value, True)
        is_taken = place > begin and trees.values[place] == value
        return place if is_taken and trees.cells[place] != _NOTHING else -1
    n = trees.heaped[tree, lane]
    if n == 0:
        return -1
    place = begin + abs(trees.heap[begin])
    found = trees.values[place]
    if found == value:
        is_taken = by in (_UP_TO, _FROM)
    else:
        is_taken = (found < value) == (by in (_BELOW, _UP_TO))
    if not is_taken:
        return -1
    _pop(trees.heap, begin, n)
    trees.heaped[tree, lane] = n - 1
    return place
