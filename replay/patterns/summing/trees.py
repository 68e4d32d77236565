"""Where values of live rows stand in trees, for the rows of a push."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from replay.patterns.conditions.across import Conditions
from replay.patterns.summing.operator import in_order, order_of_parts
from replay.patterns.summing.tree_kernels import Trees
from replay.patterns.trends.indexes import By, Indexes

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_BELOW = (By.BELOW, By.UP_TO, By.OTHERS)
_ABOVE = (By.ABOVE, By.FROM, By.OTHERS)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows by column, those of a lane ranked by a value of each; see `Trees`.

    Lanes begin at the first place.
    """

    begins: IntArray
    sizes: IntArray
    ranks: IntArray
    values: IntArray


def ranked(values: IntArray, is_there: Bools, lanes: IntArray, n_lanes: int) -> Ranked:
    """Rank values within their lanes, from 1 on."""
    columns = np.flatnonzero(is_there)
    columns = columns[np.argsort(values[columns])]
    if n_lanes > 1:
        columns = columns[order_of_parts(lanes[columns], n_lanes)]
    found, of = values[columns], lanes[columns]
    is_new = np.ones(len(columns), np.bool_)
    is_new[1:] = (found[1:] != found[:-1]) | (of[1:] != of[:-1])
    sizes = np.bincount(of[is_new], minlength=n_lanes)
    ends = np.cumsum(sizes)
    begins = ends - sizes + np.arange(n_lanes)
    ranks = np.zeros(len(values), np.int64)
    ranks[columns] = np.cumsum(is_new) - (ends - sizes)[of]
    places = np.zeros(int(sizes.sum()) + n_lanes, np.int64)
    places[begins[of[is_new]] + ranks[columns[is_new]]] = found[is_new]
    return Ranked(begins, sizes, ranks, places)


def no_trees(indexes: Indexes, width: int) -> Trees:
    """Return what stands for trees where every cell is looked at."""
    nothing = np.zeros((0, 0), np.int64)
    none = np.zeros(0, np.int64)
    words = np.zeros((0, width), np.uint64)
    flags = np.zeros(0, np.bool_)
    return Trees(
        np.full(len(indexes.leaf), -1), flags, flags, none, indexes.by, indexes.asked, nothing,
        nothing, nothing, none, nothing, np.zeros((0, 0), np.bool_), words, words, none, none,
        nothing,
    )  # fmt: skip


def to_trees(
    indexes: Indexes, conditions: Conditions, lanes: IntArray, n_lanes: int, width: int
) -> Trees:
    """Return empty trees for all values that rows have.

    ``lanes`` are by column, ``width`` is that of a cell.
    """
    states = np.flatnonzero(indexes.leaf >= 0)
    number = np.full(len(indexes.leaf), -1)
    number[states] = np.arange(len(states))
    by_leaf: dict[tuple[int, bool], Ranked] = {}
    every: list[Ranked] = []
    n_places = 0
    for state in states.tolist():
        leaf, is_double = int(indexes.leaf[state]), bool(indexes.is_double[state])
        if (leaf, is_double) not in by_leaf:
            values, is_there = _ordered(conditions, leaf, is_double=is_double)
            by_leaf[leaf, is_double] = ranked(values, is_there, lanes, n_lanes)
        found = by_leaf[leaf, is_double]
        every.append(replace(found, begins=found.begins + n_places))
        n_places += len(found.values)
    asked = np.full(indexes.asked.shape, -1)
    wanted: list[tuple[IntArray, Bools]] = []
    for state, symbol in np.argwhere(indexes.asked >= 0).tolist():
        asked[state, symbol] = len(wanted)
        leaf, is_double = int(indexes.asked[state, symbol]), bool(indexes.is_double[state])
        wanted.append(_ordered(conditions, leaf, is_double=is_double))
    asks_below = np.any(np.isin(indexes.by[states], _BELOW), axis=1)
    asks_above = np.any(np.isin(indexes.by[states], _ABOVE), axis=1)
    sizes = np.stack([part.sizes for part in every])
    return Trees(
        number=number,
        has_below=asks_below & (not indexes.takes),
        has_above=asks_above & (not indexes.takes),
        order=(asks_below.astype(np.int64) - asks_above) * indexes.takes,
        by=indexes.by,
        asked=asked,
        begins=np.stack([part.begins for part in every]),
        sizes=sizes,
        ranks=np.stack([part.ranks for part in every]),
        values=np.concatenate([part.values for part in every]),
        wanted=np.stack([values for values, _ in wanted]),
        is_wanted=np.stack([is_there for _, is_there in wanted]),
        below=np.zeros((n_places, width), np.uint64),
        above=np.zeros((n_places, width), np.uint64),
        cells=np.full(n_places, -1),
        heap=np.zeros(n_places, np.int64),
        heaped=np.zeros(sizes.shape, np.int64),
    )


def emptied(trees: Trees, width: int) -> Trees:
    """Return the same trees without sums, of another width."""
    shape = (len(trees.cells), width)
    below, above = np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
    trees.heaped[:] = 0
    return trees._replace(below=below, above=above, cells=np.full(shape[0], -1))


def _ordered(conditions: Conditions, leaf: int, *, is_double: bool) -> tuple[IntArray, Bools]:
    """Return the values of a leaf as whole numbers in their order, and whether they compare."""
    _, _, _, _, _, _, whole, doubles, known, _ = conditions
    if not is_double:
        return whole[leaf], known[leaf]
    return in_order(doubles[leaf]), known[leaf] & ~np.isnan(doubles[leaf])
