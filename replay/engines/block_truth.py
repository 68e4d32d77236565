"""What a condition says of whole blocks: it is true of all their rows, or of none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chronicle.tree.summary import AttributeBounds
from replay.expressions.atoms import TO_DOUBLE, constant, is_missing, term
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Attribute, Call, Expression, Literal, attributes
from replay.language.bound import DataType as T
from replay.language.fold import all_of, conjuncts
from replay.planning.extremes import may_contain
from replay.planning.statistics import BoolArray, IntArray

NONE_PASS: Final = 0
ALL_PASS: Final = 1
MUST_READ: Final = 2
"""Which rows pass, only the events tell."""

BlockClasses = NDArray[np.int8]
"""One of these for each block."""

_COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})
_CONNECTIVES: Final = frozenset({"and", "or", "not"})


def classify_blocks(
    conditions: tuple[Expression, ...],
    counts: IntArray,
    bounds: Callable[[str], AttributeBounds],
) -> BlockClasses | None:
    """Tell for every block whether all of its rows satisfy all conditions, or none does.

    Each block gets ``NONE_PASS``, ``ALL_PASS`` or ``MUST_READ``; without conditions the result is
    None. ``counts`` are the events of each block, shape (n_blocks,); ``bounds`` gives least and
    greatest value of a column in each.

    Notes
    -----
    A row that makes a condition neither true nor false lacks a value (or is NaN) in a column that
    the condition reads. So all rows of a block satisfy it if no value lacks there and none lies
    in the ranges that follow from its being false.
    """
    if not conditions:
        return None
    may = np.ones(len(counts), np.bool_)
    must = np.ones(len(counts), np.bool_)
    for condition in conditions:
        may &= _may_be(condition, len(counts), bounds)
        must &= _must_be_true(condition, counts, bounds)
    classes = np.full(len(counts), MUST_READ, np.int8)
    classes[must] = ALL_PASS
    classes[~may] = NONE_PASS
    return classes


def _may_be(
    condition: Expression, n_blocks: int, bounds: Callable[[str], AttributeBounds]
) -> BoolArray:
    """Return which blocks may hold a row for which a condition is true."""
    ranges = implied_ranges(condition)
    if ranges is None:
        return np.zeros(n_blocks, np.bool_)
    may = np.ones(n_blocks, np.bool_)
    for name, of_name in ranges.items():
        may &= may_contain(of_name, bounds(name))
    return may


def _must_be_true(
    condition: Expression, counts: IntArray, bounds: Callable[[str], AttributeBounds]
) -> BoolArray:
    """Return the blocks that can be told to hold only rows for which a condition is true."""
    if not is_known_by_values(condition):
        return np.zeros(len(counts), np.bool_)
    must = ~_may_be(negated(condition), len(counts), bounds)
    for name in {attribute.name for attribute in attributes(condition)}:
        found = bounds(name)
        must &= found.known & (found.n_values == counts)
    return must


def is_known_by_values(condition: Expression) -> bool:
    """Return whether a condition is true or false wherever its columns have values, no NaN."""
    known, value = constant(condition)
    if known:
        return isinstance(value, bool)
    if isinstance(condition, Attribute):
        return term(condition) is not None
    if not isinstance(condition, Call):
        return False
    if condition.op in _CONNECTIVES:
        return all(is_known_by_values(argument) for argument in condition.args)
    if condition.op in _COMPARISONS or condition.op in ("in", "like"):
        return all(_has_value(argument) for argument in condition.args)
    return False


def _has_value(operand: Expression) -> bool:
    known, value = constant(operand)
    if known:
        return not is_missing(value)
    found = term(operand)
    return found is not None and found[1] in (None, TO_DOUBLE)


def negated(condition: Expression) -> Expression:
    """Return the condition that is true where another is false."""
    if isinstance(condition, Literal):
        return Literal(not condition.value, T.BOOLEAN)
    return Call("not", (condition,), T.BOOLEAN)


def is_said_by_ranges(condition: Expression) -> bool:
    """Return whether a condition is true wherever its attributes lie in their implied ranges."""
    by_name: dict[frozenset[str], list[Expression]] = {}
    for part in conjuncts(condition):
        by_name.setdefault(frozenset(a.name for a in attributes(part)), []).append(part)
    return all(is_said_by_range(all_of(parts)) for parts in by_name.values())


def is_said_by_range(condition: Expression) -> bool:
    """Return whether a condition is true wherever its one attribute lies in its implied range."""
    read = attributes(condition)
    names = {attribute.name for attribute in read}
    if len(names) != 1 or any(a.offset for a in read) or not is_known_by_values(condition):
        return False
    (name,) = names
    where_true, where_false = implied_ranges(condition), implied_ranges(negated(condition))
    inside, outside = (None if of is None else of.get(name) for of in (where_true, where_false))
    return inside is not None and outside is not None and inside.intersect(outside).is_empty()
