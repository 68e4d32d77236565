"""Ranges of the events that each symbol maps, by its own condition and by those of others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from chronicle.tree.derived_attributes import Delta
from chronicle.tree.summary import AttributeBounds
from replay.expressions.deltas import INT64_MAGNITUDE, Magnitudes
from replay.expressions.ranges import Ranges, all_of, implied_ranges
from replay.language.bound import (
    CURRENT,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Concat,
    Exclusion,
    Expression,
    Pattern,
    Repeat,
    Semantics,
    Symbol,
    walk,
)
from replay.language.bound import DataType as T
from replay.planning.statistics import StreamStatistics


def symbol_ranges(
    query: BoundPatternQuery, *, deltas: Magnitudes | None = None
) -> tuple[Ranges | None, ...]:
    """Return what `implied_ranges` says of every symbol, ranges of other symbols carried over.

    ``X.a = Y.a`` gives X the range of Y: an event is mapped to Y only if it satisfies Y's
    condition, and an unmapped Y is NULL, so the atom is UNKNOWN. Starting from no knowledge, each
    round is sound if the one before was, so stopping early would only be weaker.
    """
    # What follows from either of two forms of a condition holds.
    forms = [
        (define,) if by_row is define else (define, by_row)
        for define, by_row in zip(query.defines, defines_by_row(query), strict=True)
    ]
    follows = [_symbols_read(define) for define in query.defines]
    known: list[Ranges | None] = [{} for _ in query.symbols]
    changed = set(range(len(known)))
    stale = changed
    for _ in range(len(known) + 1):
        pinned = {index: ranges for index, ranges in enumerate(known) if ranges}
        refined = {
            index: all_of(
                implied_ranges(form, pinned=pinned, deltas=deltas) for form in forms[index]
            )
            for index in stale
        }
        changed = {index for index, ranges in refined.items() if ranges != known[index]}
        for index in changed:
            known[index] = refined[index]
        stale = {index for index, read in enumerate(follows) if read & changed}
    return tuple(known)


def _symbols_read(condition: Expression | None) -> set[int]:
    """Return the symbols whose events a condition reads."""
    if condition is None:
        return set()
    anchors = [part.anchor for part in walk(condition) if isinstance(part, Attribute)]
    return {symbol for anchor in anchors for symbol in anchor.symbols or ()}


def usable_deltas(query: BoundPatternQuery, statistics: StreamStatistics) -> Magnitudes:
    """Return the columns whose ``delta(x)`` is the difference to the event that PREV(x) reads.

    ``A.x`` counts as PREV(x) where A stands directly before; see `defines_by_row`.
    With a key column ``delta(x)`` is the difference to the event before of the same object, as
    PREV is with PARTITION BY that column alone; null is an object in both. ORDER BY with further
    columns changes which event comes before.
    """
    objects = () if statistics.key is None else (statistics.key,)
    if query.partition_by != objects or query.order_by or not statistics.derived:
        return {}
    found: dict[str, int | float] = {}
    for define in defines_by_row(query):
        for part in () if define is None else walk(define):
            if not (isinstance(part, Attribute) and _is_before(part)):
                continue
            if Delta(part.name).name in statistics.derived and part.name not in found:
                is_number = part.type in (T.INTEGER, T.DOUBLE) and part.name != query.time
                bounds = statistics.bounds(part.name) if is_number else None
                found[part.name] = _magnitude(part.type, bounds)
    return found


def _is_before(attribute: Attribute) -> bool:
    return attribute.anchor.kind is AnchorKind.CURRENT and attribute.offset == -1


def _magnitude(data_type: T, bounds: AttributeBounds | None) -> int | float:
    """Return what no value exceeds in magnitude, from the tree's extremes."""
    unknown = math.inf if data_type is T.DOUBLE else INT64_MAGNITUDE
    if bounds is None or not bounds.known.all():
        return unknown
    extremes = [*_extremes(bounds.minimum), *_extremes(bounds.maximum)]
    return max(map(abs, extremes), default=0)


def _extremes(values: pa.Array) -> list[int | float]:
    found = pc.min_max(values).as_py()
    return [value for value in (found["min"], found["max"]) if value is not None]


_CONTIGUOUS: Final = (Semantics.SQL, Semantics.CONTIGUOUS)


def defines_by_row(query: BoundPatternQuery) -> tuple[Expression | None, ...]:
    """Return the conditions with ``A.x`` as ``PREV(x)`` where A's last row is the row before.

    That is where A stands directly before the symbol under test, wherever that symbol stands, and
    rows of a match follow each other in their partition: no skipped rows, no ORDER BY with further
    columns. PREV stays in the partition, too. What is TRUE of one condition is TRUE of the other.
    """
    if query.order_by or query.semantics not in _CONTIGUOUS:
        return query.defines
    before = _symbols_before(query.pattern)
    return tuple(
        define if define is None or index not in before else _by_row(define, before[index])
        for index, define in enumerate(query.defines)
    )


def _symbols_before(pattern: Pattern) -> Mapping[int, int]:
    """Return for symbols that stand once, in a sequence, the symbol that stands directly before."""
    parts = pattern.parts if isinstance(pattern, Concat) else (pattern,)
    placed = [_symbol_of(part) for part in parts]
    if None in placed:
        return {}
    symbols = [found for found in placed if found is not None]
    names = [index for index, _ in symbols]
    return {
        index: names[place - 1]
        for place, (index, is_once) in enumerate(symbols)
        if place
        and is_once
        and names.count(index) == 1
        and symbols[place - 1][0] != index
        and _is_mandatory(parts[place - 1])
    }


def _symbol_of(part: Pattern) -> tuple[int, bool] | None:
    """Return the only symbol of a part and whether it maps one row; None of other parts."""
    match part:
        case Symbol(index):
            return index, True
        case Exclusion(body):
            return _symbol_of(body)
        case Repeat(Symbol(index)):
            return index, False
    return None


def _is_mandatory(part: Pattern) -> bool:
    if isinstance(part, Exclusion):
        return _is_mandatory(part.body)
    return not isinstance(part, Repeat) or part.low > 0


def _by_row(expression: Expression, before: int) -> Expression:
    """Return the expression itself where it reads nothing of that row."""
    if isinstance(expression, Attribute):
        anchor = expression.anchor
        is_before = anchor.kind is AnchorKind.LAST and anchor.symbols == (before,)
        if is_before and anchor.offset == 0 and expression.offset == 0:
            return replace(expression, anchor=CURRENT, offset=-1)
        return expression
    if isinstance(expression, Call):
        args = [_by_row(part, before) for part in expression.args]
        if any(new is not old for new, old in zip(args, expression.args, strict=True)):
            return Call(expression.op, tuple(args), expression.type)
    return expression
