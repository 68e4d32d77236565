"""What the WHERE of an aggregation says of whole blocks: all of their rows pass, or none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chronicle.time import TIME_LIMIT
from indexing.key_range import KeyRanges
from replay.engines.block_truth import (
    ALL_PASS,
    MUST_READ,
    NONE_PASS,
    BlockClasses,
    is_known_by_values,
    negated,
)
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Expression, attributes
from replay.language.fold import conjuncts
from replay.planning.statistics import IntArray

BY_KEY: Final = 3
"""Each key's rows all pass, or none of them does, and keys differ."""

KeyClasses = NDArray[np.int8]
"""One of the first three for each key and block, shape (n_keys, n_blocks)."""


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


def _time_range(condition: Expression, time: str) -> tuple[int | None, int | None] | None:
    """Return the half-open range of time that a condition is, or None if it is more or less."""
    if {attribute.name for attribute in attributes(condition)} != {time}:
        return None
    if not is_known_by_values(condition):
        return None
    where_true, where_false = implied_ranges(condition), implied_ranges(negated(condition))
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
