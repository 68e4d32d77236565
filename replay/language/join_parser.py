"""What joins the sources of FROM: JOIN … WITHIN and ASOF JOIN."""

from __future__ import annotations

from collections.abc import Callable

from replay.language.bound import JoinKind
from replay.language.cursor import Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import parse_expression
from replay.language.syntax import (
    Expression,
    Identifier,
    Join,
    Reference,
    Situations,
    Span,
    StreamName,
    Subquery,
    WindowCall,
)
from replay.language.tokens import Token

_JOINS: dict[tuple[str, ...], JoinKind] = {
    ("JOIN",): JoinKind.INNER,
    ("INNER", "JOIN"): JoinKind.INNER,
    ("LEFT", "JOIN"): JoinKind.LEFT,
    ("LEFT", "OUTER", "JOIN"): JoinKind.LEFT,
    ("ASOF", "JOIN"): JoinKind.ASOF,
    ("ASOF", "INNER", "JOIN"): JoinKind.ASOF,
    ("ASOF", "LEFT", "JOIN"): JoinKind.ASOF_LEFT,
    ("ASOF", "LEFT", "OUTER", "JOIN"): JoinKind.ASOF_LEFT,
}
_OTHER_JOINS = ("RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "POSITIONAL")
JOIN_WORDS = frozenset({*(words[0] for words in _JOINS), *_OTHER_JOINS})
"""Words that a join begins with, of ours or not."""

ParseTable = Callable[[Cursor], StreamName | Subquery | WindowCall | Situations]
"""Parses a source with its alias."""


def parse_joins(cursor: Cursor, left: Reference, parse_table: ParseTable) -> Reference:
    """Parse the joins behind a source, as many as there are."""
    while True:
        words = next((words for words in _JOINS if cursor.at(*words)), None)
        if words is None:
            _refuse_other_joins(cursor)
            return left
        left = _join(cursor, left, words, parse_table)


def parse_names(cursor: Cursor, what: str) -> tuple[Identifier, ...]:
    """Parse ``(a, b)``."""
    opening = cursor.expect("(", f"and {what}")
    names = cursor.separated(lambda inside: inside.identifier(what))
    _close(cursor, opening, "the names")
    return names


def _close(cursor: Cursor, opening: Token, what: str) -> None:
    if not cursor.closes(opening):
        raise cursor.error(f"expected ')' after {what}, found {describe(cursor.token)}")


def _join(cursor: Cursor, left: Reference, words: tuple[str, ...], parse_table: ParseTable) -> Join:
    kind = _JOINS[words]
    at = cursor.token.at
    cursor.accept(*words)
    right = parse_table(cursor)
    for side in (left, right):
        if isinstance(side, WindowCall):
            raise cursor.not_supported(
                f"{side.function} as a side of a join",
                side.at,
                "join a subquery that aggregates its windows",
            )
    assert not isinstance(right, WindowCall)
    within: tuple[Span, ...] = ()
    on: Expression | None = None
    using: tuple[Identifier, ...] = ()
    while cursor.token.key in ("WITHIN", "ON", "USING"):
        word = cursor.advance()
        if word.key == "WITHIN" and not within:
            within = parse_spans(cursor)
        elif word.key == "ON" and on is None and not using:
            on = parse_expression(cursor)
        elif word.key == "USING" and on is None and not using:
            using = parse_names(cursor, "a column of both sides")
        elif word.key == "WITHIN" or (word.key == "ON") == (on is not None):
            raise cursor.error(f"{word.key} is given twice", word.at)
        else:
            raise cursor.error("a join has ON or USING, not both", word.at)
    return Join(kind, left, right, within, on, using, at=at)


def parse_spans(cursor: Cursor) -> tuple[Span, ...]:
    """Parse the span of both sides, or ``(left, right)``."""
    if cursor.token.key != "(":
        return (_span(cursor),)
    opening = cursor.advance()
    spans = cursor.separated(_span)
    if len(spans) > 2:
        raise cursor.error("WITHIN takes a span for both sides, or one for each", opening.at)
    _close(cursor, opening, "the spans of WITHIN")
    return spans


def _span(cursor: Cursor) -> Span:
    at = cursor.token.at
    size = parse_expression(cursor)
    refuse_unknown_unit(cursor, if_near=True)
    in_rows = _rows(cursor)
    slide = None
    if cursor.accept("SLIDE"):
        slide_at = cursor.token.at
        slide = parse_expression(cursor)
        if _rows(cursor) and not in_rows:
            raise cursor.error("a span of time slides by a time, not by rows", slide_at)
    return Span(size, slide, in_rows, at=at)


def _rows(cursor: Cursor) -> bool:
    return cursor.accept("ROWS") or cursor.accept("ROW")


def _refuse_other_joins(cursor: Cursor) -> None:
    key = cursor.token.key
    if key == ",":
        raise cursor.not_supported(
            "a list of streams in FROM", remedy="write a JOIN b WITHIN … ON …"
        )
    if key in _OTHER_JOINS:
        remedy = "there are JOIN, LEFT JOIN, ASOF JOIN and ASOF LEFT JOIN"
        raise cursor.not_supported(f"{key} JOIN", remedy=remedy)
