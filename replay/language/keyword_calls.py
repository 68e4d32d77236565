"""Calls whose arguments SQL separates by words, written with commas: ``hour(x)``, ``trim(x, c)``.

EXTRACT, SUBSTRING, TRIM, POSITION, ``||`` and AT TIME ZONE become calls of ordinary functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from replay.language import syntax
from replay.language.cursor import Cursor, describe
from replay.language.functions import PARTS
from replay.language.syntax import Expression, Identifier
from replay.language.tokens import NAME, QUOTED, STRING

_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


class Parse(Protocol):
    """Parses an expression; ``power`` as in ``expression_parser.parse_expression``."""

    def __call__(self, cursor: Cursor, power: int = 0) -> Expression:
        """Return the expression."""
        ...


def function(name: str, args: tuple[Expression, ...], at: int) -> syntax.Function:
    """Return the call of a function at a place of the text."""
    return syntax.Function(Identifier(name, at=at), args, at=at)


def _extract(cursor: Cursor, at: int, parse: Parse, _: int) -> Expression:
    """Parse the inside of ``EXTRACT(field FROM x)``."""
    token = cursor.token
    if token.kind not in (NAME, STRING):
        raise cursor.error(f"expected a part of a time such as HOUR, found {describe(token)}")
    part = PARTS.get(token.text.lower())
    if part is None:
        known = ", ".join(sorted({name.upper() for name in PARTS.values()}))
        raise cursor.error(f"EXTRACT knows no part '{token.text}' of a time; it knows {known}")
    cursor.advance()
    cursor.expect("FROM", "after the part of EXTRACT")
    return function(part, (parse(cursor),), at)


def _substring(cursor: Cursor, at: int, parse: Parse, _: int) -> Expression:
    """Parse the inside of ``SUBSTRING(x FROM start [FOR length])``, also with commas."""
    text = parse(cursor)
    if cursor.accept("FROM"):
        start = parse(cursor)
    elif cursor.token.key == "FOR":
        start = syntax.Number(1, at=cursor.token.at)
    else:
        return function("substring", (text, *_more(cursor, parse)), at)
    length = (parse(cursor),) if cursor.accept("FOR") else ()
    return function("substring", (text, start, *length), at)


def _trim(cursor: Cursor, at: int, parse: Parse, _: int) -> Expression:
    """Parse the inside of ``TRIM([[BOTH | LEADING | TRAILING] [characters] FROM] x)``."""
    name = "trim"
    if cursor.token.key in _TRIMS and _begins_operand(cursor):
        name = _TRIMS[cursor.advance().key]
        characters = () if cursor.token.key == "FROM" else (parse(cursor),)
        if not characters or cursor.token.key == "FROM":
            cursor.expect("FROM", "after the side of TRIM")
            return function(name, (parse(cursor), *characters), at)
        return function(name, characters, at)
    first = parse(cursor)
    if cursor.accept("FROM"):
        return function(name, (parse(cursor), first), at)
    return function(name, (first, *_more(cursor, parse)), at)


def _begins_operand(cursor: Cursor) -> bool:
    """Tell whether an operand, or FROM, follows the word, which is then no name of a column."""
    following = cursor.peek()
    return following.kind in (NAME, QUOTED, STRING) or following.key == "("


def _position(cursor: Cursor, at: int, parse: Parse, comparison: int) -> Expression:
    """Parse the inside of ``POSITION(part IN text)``."""
    part = parse(cursor, comparison)
    cursor.expect("IN", "after the part that POSITION looks for")
    return function("strpos", (parse(cursor), part), at)


def _overlay(cursor: Cursor, at: int, _: Parse, __: int) -> Expression:
    raise cursor.not_supported("the function OVERLAY", at, "write it with left, substring and ||")


def _more(cursor: Cursor, parse: Parse) -> tuple[Expression, ...]:
    args = []
    while cursor.accept(","):
        args.append(parse(cursor))
    return tuple(args)


KEYWORD_CALLS: dict[str, Callable[[Cursor, int, Parse, int], Expression]] = {
    "EXTRACT": _extract,
    "SUBSTRING": _substring,
    "TRIM": _trim,
    "POSITION": _position,
    "OVERLAY": _overlay,
}
"""What parses the inside of such a call: cursor, place, parser and the power of a comparison."""
