"""Row patterns: what stands in PATTERN ( … )."""

from __future__ import annotations

from replay.language import syntax
from replay.language.cursor import RESERVED, Cursor, describe
from replay.language.syntax import RowPattern
from replay.language.tokens import NAME, NUMBER, QUOTED, Token

_NOT_YET = {
    "{-": "the exclusion {- … -}",
    "^": "the anchor ^",
    "$": "the anchor $",
    "!": "the negation !",
}


def parse_row_pattern(cursor: Cursor) -> RowPattern:
    """Parse ``( … )``, the parentheses included.

    Raises
    ------
    PatternSyntaxError, NotSupportedError
        With the place.
    """
    opening = cursor.expect("(", "and a row pattern after PATTERN")
    pattern = _alternation(cursor, opening)
    _close(cursor, opening)
    return pattern


def _alternation(cursor: Cursor, opening: Token) -> RowPattern:
    """Parse the inside of parentheses; nothing at all is the empty pattern."""
    cursor.enter()
    at = cursor.token.at
    if cursor.token.key == ")":
        cursor.leave()
        return syntax.Sequence((), at=opening.at)
    branches = [_sequence(cursor)]
    while cursor.accept("|"):
        branches.append(_sequence(cursor))
    cursor.leave()
    return branches[0] if len(branches) == 1 else syntax.Alternation(tuple(branches), at=at)


def _sequence(cursor: Cursor) -> RowPattern:
    at = cursor.token.at
    parts = []
    while (part := _part(cursor)) is not None:
        parts.append(part)
    if not parts:
        found = describe(cursor.token)
        raise cursor.error(f"expected a symbol, found {found}; the empty pattern is written ()")
    return parts[0] if len(parts) == 1 else syntax.Sequence(tuple(parts), at=at)


def _part(cursor: Cursor) -> RowPattern | None:
    token = cursor.token
    if token.key in _NOT_YET:
        shown = token.key + cursor.peek().text if token.key == "!" else ""
        raise cursor.not_supported(f"the negation {shown}" if shown else _NOT_YET[token.key])
    if token.key == "PERMUTE" and cursor.peek().key == "(":
        raise cursor.not_supported("PERMUTE")
    if token.key == "(":
        cursor.advance()
        body = _alternation(cursor, token)
        _close(cursor, token)
    elif token.kind == QUOTED or (token.kind == NAME and token.key not in RESERVED):
        body = syntax.SymbolPattern(cursor.identifier("a symbol"), at=token.at)
    elif token.key in ("*", "+", "?", "{"):
        raise cursor.error(f"the quantifier {token.key} has nothing before it to repeat")
    elif token.key == ",":
        raise cursor.error("the parts of a pattern are separated by spaces, not by commas")
    else:
        return None
    return _quantified(cursor, body)


def _quantified(cursor: Cursor, body: RowPattern) -> RowPattern:
    token = cursor.token
    if token.key not in ("*", "+", "?", "{"):
        return body
    cursor.advance()
    low, high = _counts(cursor, token)
    greedy = not cursor.accept("?")
    if cursor.token.key in ("*", "+", "?", "{"):
        raise cursor.error(
            "two quantifiers in a row; put the first with its symbol in parentheses, as in (A+)*"
        )
    return syntax.Quantified(body, low, high, greedy, at=token.at)


def _counts(cursor: Cursor, token: Token) -> tuple[int, int | None]:
    if token.key == "*":
        return 0, None
    if token.key == "+":
        return 1, None
    if token.key == "?":
        return 0, 1
    low = _count(cursor) if cursor.token.kind == NUMBER else None
    if not cursor.accept(","):
        if low is None:
            raise cursor.error(
                f"expected a number of rows such as {{2}}, found {describe(cursor.token)}"
            )
        high: int | None = low
    else:
        high = _count(cursor) if cursor.token.kind == NUMBER else None
        if low is None and high is None:
            raise cursor.error("the quantifier {,} has no bound; write * for any number", token.at)
    cursor.expect("}", "to close the quantifier")
    if low is not None and high is not None and high < low:
        raise cursor.error(
            f"the quantifier {{{low},{high}}} has its bounds the wrong way round", token.at
        )
    if high == 0:
        raise cursor.error("a quantifier needs an upper bound of at least 1", token.at)
    return low or 0, high


def _count(cursor: Cursor) -> int:
    token = cursor.advance()
    if not token.text.isdecimal() or len(token.text) > 9:
        raise cursor.error(f"expected a whole number of rows, found {token.text}", token.at)
    return int(token.text)


def _close(cursor: Cursor, opening: Token) -> None:
    if cursor.accept(")"):
        return
    if cursor.token.kind == "end":
        raise cursor.error("this '(' is not closed", opening.at)
    raise cursor.error(
        f"expected a symbol, '|' or ')' in the pattern, found {describe(cursor.token)}"
    )
