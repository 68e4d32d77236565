"""What the WHERE of an aggregation says of whole blocks: all of their rows pass, or none does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chronicle.time import TIME_LIMIT
from chronicle.tree.summary import AttributeBounds
from indexing.key_range import KeyRanges
from replay.expressions.atoms import TO_DOUBLE, constant, is_missing, term
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Attribute, Call, Expression, Literal, attributes
from replay.language.bound import DataType as T
from replay.planning.extremes import may_contain
from replay.planning.statistics import BoolArray, IntArray

NONE_PASS: Final = 0
ALL_PASS: Final = 1
MUST_READ: Final = 2
"""Which rows pass, only the events tell."""

BY_KEY: Final = 3
"""Each key's rows all pass, or none of them does, and keys differ."""

BlockClasses = NDArray[np.int8]
"""One of these for each block."""

KeyClasses = NDArray[np.int8]
"""One of the first three for each key and block, shape (n_keys, n_blocks)."""

_COMPARISONS: Final = frozenset({"=", "<>", "<", "<=", ">", ">="})
_CONNECTIVES: Final = frozenset({"and", "or", "not"})


@dataclass(frozen=True, slots=True)
class SplitWhere:
    """A WHERE as a range of time and what is left of it."""

    start: int | None
    """Events before this time do not pass; None: no bound."""
    stop: int | None
    """Nor do events at or after this time."""
    rest: tuple[Expression, ...]
    """Conditions of which the events in the range must satisfy all."""


def split_where(where: Expression | None, time: str) -> SplitWhere:
    """Take the conditions out of a WHERE that bound the time by a range and by nothing else.

    ``time`` is the name of the time column, which has no nulls. Without a condition every event
    passes.
    """
    start: int | None = None
    stop: int | None = None
    rest: list[Expression] = []
    for condition in conjuncts(where):
        found = _time_range(condition, time)
        if found is None:
            rest.append(condition)
            continue
        low, high = found
        start = low if start is None else start if low is None else max(start, low)
        stop = high if stop is None else stop if high is None else min(stop, high)
    return SplitWhere(start, stop, tuple(rest))


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """Yield the conditions that an AND connects, also nested ones."""
    if condition is None:
        return
    if isinstance(condition, Call) and condition.op == "and":
        for argument in condition.args:
            yield from conjuncts(argument)
    else:
        yield condition


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


def of_all_keys(by_key: KeyClasses, rows: IntArray) -> BlockClasses:
    """Return what is known of blocks as a whole once it is known of their keys.

    ``rows`` says of how many rows each class is, in the same shape; a key without any says nothing.

    Examples
    --------
    >>> by_key = np.array([[1, 1, 0, 1], [1, 0, 0, 2]], np.int8)
    >>> of_all_keys(by_key, np.array([[3, 3, 3, 3], [1, 1, 1, 1]])).tolist()
    [1, 3, 0, 2]
    """
    there = rows > 0
    passes, fails, unknown = (
        ((by_key == which) & there).any(axis=0) for which in (ALL_PASS, NONE_PASS, MUST_READ)
    )
    found = np.select([unknown, passes & fails, passes], [MUST_READ, BY_KEY, ALL_PASS], NONE_PASS)
    return found.astype(np.int8)


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
    if not _is_known_by_values(condition):
        return np.zeros(len(counts), np.bool_)
    must = ~_may_be(_negated(condition), len(counts), bounds)
    for name in {attribute.name for attribute in attributes(condition)}:
        found = bounds(name)
        must &= found.known & (found.n_values == counts)
    return must


def _is_known_by_values(condition: Expression) -> bool:
    """Return whether a condition is true or false wherever its columns have values, no NaN."""
    known, value = constant(condition)
    if known:
        return isinstance(value, bool)
    if isinstance(condition, Attribute):
        return term(condition) is not None
    if not isinstance(condition, Call):
        return False
    if condition.op in _CONNECTIVES:
        return all(_is_known_by_values(argument) for argument in condition.args)
    if condition.op in _COMPARISONS or condition.op in ("in", "like"):
        return all(_has_value(argument) for argument in condition.args)
    return False


def _has_value(operand: Expression) -> bool:
    known, value = constant(operand)
    if known:
        return not is_missing(value)
    found = term(operand)
    return found is not None and found[1] in (None, TO_DOUBLE)


def _negated(condition: Expression) -> Expression:
    if isinstance(condition, Literal):
        return Literal(not condition.value, T.BOOLEAN)
    return Call("not", (condition,), T.BOOLEAN)


def _time_range(condition: Expression, time: str) -> tuple[int | None, int | None] | None:
    """Return the half-open range of time that a condition is, or None if it is more or less."""
    if {attribute.name for attribute in attributes(condition)} != {time}:
        return None
    if not _is_known_by_values(condition):
        return None
    where_true, where_false = implied_ranges(condition), implied_ranges(_negated(condition))
    if where_true is None or where_false is None:
        return None
    inside = where_true.get(time, KeyRanges.everything())
    outside = where_false.get(time, KeyRanges.everything())
    if len(inside.ranges) != 1 or not inside.intersect(outside).is_empty():
        return None
    only = inside.ranges[0]
    if isinstance(only.low, float) or isinstance(only.high, float):
        return None
    low = None if only.low is None else _within(int(only.low) + (not only.low_closed))
    high = None if only.high is None else _within(int(only.high) + only.high_closed)
    return low, high


def _within(time: int) -> int:
    """Return a time moved to where events can be, or just beyond; it fits int64."""
    return max(-TIME_LIMIT, min(time, TIME_LIMIT))
