"""Expressions brought to one type, or the error that says which two do not go together."""

from __future__ import annotations

from collections.abc import Sequence

from replay.errors import BindError
from replay.language import syntax
from replay.language.bound import DataType, Expression, Literal
from replay.language.coercion import unify
from replay.language.literals import TimeTextError
from replay.language.source import Source, shown

T = DataType
Nodes = Sequence[syntax.Expression]
Bound = Sequence[Expression]

_MOMENTS = (T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE)


def agree(
    source: Source, nodes: Nodes, bound: Bound, what: str, at: syntax.Node
) -> tuple[Expression, ...]:
    """Return expressions in their common type.

    Parameters
    ----------
    source
        Text and parameters of the query.
    nodes, bound
        The expressions as written and as bound, in the same order.
    what
        How the error begins if there is no common type, such as ``cannot compare``.
    at
        Where that error points.

    Raises
    ------
    BindError
        If there is none, or a text is not the time it has to be.
    """
    try:
        unified = unify(bound)
    except TimeTextError as error:
        raise text_error(source, nodes, bound, error) from None
    if unified is None:
        raise source.error(f"{what} {sides(nodes, bound)}{_remedy(nodes, bound)}", at)
    return unified


def text_error(source: Source, nodes: Nodes, bound: Bound, error: TimeTextError) -> BindError:
    """Return the error of a text that is not the time it has to be, at that text."""
    written = [
        node
        for node, expression in zip(nodes, bound, strict=True)
        if isinstance(expression, Literal) and expression.value == error.text
    ]
    return source.error(str(error), written[0])


def sides(nodes: Nodes, bound: Bound) -> str:
    """Return ``a (TYPE) and b (TYPE)``, the first expression of each type."""
    first: dict[DataType, str] = {}
    for node, expression in zip(nodes, bound, strict=True):
        if expression.type is not T.NULL:
            first.setdefault(expression.type, f"{shown(node)} ({expression.type.value})")
    if len(first) == 1 and len(nodes) == 2:
        return " and ".join(
            f"{shown(node)} ({part.type.value})" for node, part in zip(nodes, bound, strict=True)
        )
    return " and ".join(first.values())


def _remedy(nodes: Nodes, bound: Bound) -> str:
    """Return what would make two expressions comparable, beginning with ``; ``, or nothing."""
    types = {expression.type for expression in bound} - {T.NULL}
    if T.STRING in types and types & {T.INTEGER, T.DOUBLE}:
        return _number_or_text(nodes, bound)
    if {T.TIMESTAMP, T.TIMESTAMP_UTC} <= types:
        return "; one is a local time and the other an instant with a zone"
    if types & set(_MOMENTS) and types & {T.INTEGER, T.DOUBLE}:
        return "; write a time as TIMESTAMP 'YYYY-MM-DD HH:MM:SS'"
    if T.INTERVAL in types and types & {T.INTEGER, T.DOUBLE}:
        return "; write a duration with its unit, such as 30 MINUTES"
    if types & set(_MOMENTS) and T.STRING in types:
        return "; only a text that is a constant is taken as a time"
    if T.BOOLEAN in types and len(types) == 2:
        return "; a BOOLEAN is TRUE or FALSE"
    return ""


def _number_or_text(nodes: Nodes, bound: Bound) -> str:
    for node, expression in zip(nodes, bound, strict=True):
        if isinstance(node, syntax.Number):
            return f"; a text is written in quotes: '{shown(node)}'"
        if isinstance(expression, Literal) and _is_number(expression.value):
            return f"; a number is written without quotes: {expression.value}"
    return ""


def _is_number(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True
