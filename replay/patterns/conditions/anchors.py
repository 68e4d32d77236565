"""Which rows of a match an expression reads, and the same expression read from another row."""

from __future__ import annotations

from replay.language.bound import (
    CURRENT,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
    walk,
)


def is_own_row(anchor: Anchor, symbol: int) -> bool:
    """Whether the anchor is the row under test: the last row of its symbol or of the match."""
    if anchor.kind is AnchorKind.LAST and anchor.offset == 0:
        return anchor.symbols is None or symbol in anchor.symbols
    return anchor.kind is AnchorKind.CURRENT


def anchors_read(expression: Expression) -> frozenset[Anchor] | None:
    """Return the anchors an expression reads attributes from; None: it reads more of the match."""
    anchors = set()
    for part in walk(expression):
        if isinstance(part, Attribute):
            anchors.add(part.anchor)
        elif not isinstance(part, Literal | Call):
            return None
    return frozenset(anchors)


def at_current_row(expression: Expression) -> Expression:
    """Return the expression with every attribute read from the row itself; offsets stay."""
    if isinstance(expression, Attribute):
        return Attribute(expression.name, expression.type, CURRENT, expression.offset)
    if isinstance(expression, Call):
        return Call(expression.op, tuple(map(at_current_row, expression.args)), expression.type)
    return expression


def with_name(expression: Expression, name: str) -> Expression:
    """Return the argument of an aggregate with CLASSIFIER of its row replaced by a name."""
    if isinstance(expression, Classifier):
        return Literal(name, DataType.STRING)
    if isinstance(expression, Call):
        args = tuple(with_name(argument, name) for argument in expression.args)
        return Call(expression.op, args, expression.type)
    return expression
