"""Rows of other symbols that are always the row before: ``LAST(A.x)`` that means ``PREV(x)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

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
)

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
