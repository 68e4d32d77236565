"""Pieces of queries, written by themselves: expressions, keys of ORDER BY, clauses of patterns.

They stay as they are written, so that errors of the query they become part of show them so. None
reaches beyond its place: what our language does not read whole is DuckDB's, or nobody's, and
stands in parentheses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from replay.errors import PatternSyntaxError, QueryError
from replay.language.cursor import Cursor, describe
from replay.language.expression_parser import parse_expression, parse_order_item
from replay.language.join_parser import parse_spans
from replay.language.match_recognize_parser import parse_partition_by
from replay.language.printer import to_sql
from replay.language.query_parser import parse_clauses_of_match
from replay.language.situation_parser import parse_match_situations
from replay.language.syntax import Identifier, OrderItem, Span, Written
from replay.language.tokens import END, OPERATOR, Token, ends, place, tokenize

Parsed = TypeVar("Parsed")

_OPENING, _CLOSING = ("(", "[", "{", "{-"), (")", "]", "}", "-}")
_DIRECTIONS = ("ASC", "DESC", "NULLS", "FIRST", "LAST")


def expression(text: str) -> Written:
    """Return an expression.

    Raises
    ------
    PatternSyntaxError
        If the text is empty, or goes on behind a comma or a closing parenthesis.

    Examples
    --------
    >>> expression("x > 1 -- high").text, expression("RANK() OVER ()").text
    ('x > 1', '(RANK() OVER ())')
    """
    tokens = _closed(text)
    inside = _between(text, tokens[0], tokens[-2])
    return Written(inside if _is_read(text, parse_expression) else f"({inside})")


def order_item(text: str) -> OrderItem:
    """Return a key of ORDER BY with its direction.

    Raises
    ------
    PatternSyntaxError
        As `expression` does.
    """
    tokens = _closed(text)
    if _is_read(text, parse_order_item):
        return OrderItem(Written(_between(text, tokens[0], tokens[-2])))
    last = len(tokens) - 2
    while last > 0 and tokens[last].key in _DIRECTIONS:
        last -= 1
    key = _between(text, tokens[0], tokens[last])
    direction = text[ends(tokens[last]) : ends(tokens[-2])]
    return OrderItem(Written(f"({key}){direction}"))


def spans(text: str) -> tuple[Span, ...]:
    """Return what stands behind WITHIN in a join.

    Raises
    ------
    PatternSyntaxError
        If it is no span of time or rows, nor one for each side.
    """
    return _whole(Cursor(text), parse_spans, "the span")


def clauses_of_match(text: str, time: str | None) -> Written:
    r"""Return what stands in ``MATCH_RECOGNIZE ( … )``.

    Clauses without ORDER BY are ordered by ``time``; None leaves that to whoever knows it.

    Raises
    ------
    QueryError
        If the clauses cannot be read.

    Examples
    --------
    >>> clauses_of_match("PARTITION BY k PATTERN (A)", "t").text
    'PARTITION BY k ORDER BY t\nPATTERN (A)'
    """
    clauses, _ = _whole(_in_parentheses(text), parse_clauses_of_match, "the clauses")
    return _ordered(text, None if clauses.order_by else time)


def clauses_of_situations(text: str, time: str | None) -> Written:
    """Return what stands in ``MATCH_SITUATIONS ( … )``, as `clauses_of_match` does."""
    clauses = _whole(_in_parentheses(text), parse_match_situations, "the clauses")
    return _ordered(text, None if clauses.order_by else time)


def _ordered(text: str, time: str | None) -> Written:
    """Return clauses, with ORDER BY a time behind PARTITION BY."""
    if time is not None:
        cursor = Cursor(text)
        if cursor.accept("PARTITION"):
            parse_partition_by(cursor)
        at = cursor.token.at
        text = f"{text[:at]}ORDER BY {to_sql(Identifier(time))}\n{text[at:]}"
    tokens = tokenize(text)
    return Written(_between(text, tokens[0], tokens[-2]))


def _in_parentheses(text: str) -> Cursor:
    """Return a cursor before a text, as if it stood in parentheses; its places are the text's."""
    cursor = Cursor(text)
    *inside, end = cursor.tokens
    closing = Token(OPERATOR, ")", ")", end.at)
    cursor.replace_tokens([Token(OPERATOR, "(", "(", 0), *inside, closing, end])
    return cursor


def _whole(cursor: Cursor, parse: Callable[[Cursor], Parsed], what: str) -> Parsed:
    """Return what a text is parsed to, if nothing is left of it."""
    parsed = parse(cursor)
    if cursor.token.kind != END:
        raise cursor.error(f"expected the end of {what}, found {describe(cursor.token)}")
    return parsed


def _is_read(text: str, parse: Callable[[Cursor], object]) -> bool:
    """Tell whether our language reads a text to its end."""
    try:
        _whole(Cursor(text), parse, "it")
    except QueryError:
        return False
    return True


def _closed(text: str) -> list[Token]:
    """Return the tokens of a text that is one piece wherever it is put."""
    tokens = tokenize(text, is_foreign=True)
    opened: list[Token] = []
    for token in tokens:
        if token.key in _OPENING:
            opened.append(token)
        elif token.key in _CLOSING and opened:
            opened.pop()
        elif token.key in (*_CLOSING, ";") or (token.key == "," and not opened):
            message = f"expected one expression, and found '{token.text}' behind it"
            raise PatternSyntaxError(message, **place(text, token.at))
    if opened:
        message = f"this '{opened[-1].text}' is not closed"
        raise PatternSyntaxError(message, **place(text, opened[-1].at))
    if len(tokens) == 1:
        raise PatternSyntaxError("expected an expression, found nothing", **place(text, 0))
    return tokens


def _between(text: str, first: Token, last: Token) -> str:
    return text[first.at : ends(last)]
