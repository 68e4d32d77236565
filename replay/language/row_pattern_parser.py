"""Row patterns: what stands in PATTERN ( … )."""

from __future__ import annotations

from replay.language import syntax
from replay.language.bound import EdgeKind
from replay.language.cursor import RESERVED, Cursor, describe
from replay.language.syntax import RowPattern
from replay.language.tokens import NAME, NUMBER, QUOTED, Token

_QUANTIFIERS = ("*", "+", "?", "{")
_EDGES = {edge.value: edge for edge in EdgeKind}


def parse_row_pattern(cursor: Cursor) -> RowPattern:
    """Parse ``( … )``, the parentheses included."""
    opening = cursor.expect("(", "and a row pattern after PATTERN")
    if cursor.token.key == ")":
        raise cursor.error(
            "PATTERN () names no symbol; write one, as in PATTERN (A), or PATTERN (()) for empty "
            "matches",
            opening.at,
        )
    pattern = _alternation(cursor, opening)
    _close(cursor, opening)
    return pattern


def _alternation(cursor: Cursor, opening: Token) -> RowPattern:
    """Parse the inside of parentheses; nothing at all is the empty pattern."""
    if cursor.token.key == ")":
        return syntax.Sequence((), at=opening.at)
    return _branches(cursor)


def _branches(cursor: Cursor) -> RowPattern:
    cursor.enter()
    at = cursor.token.at
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
    body: RowPattern
    if token.key == "!":
        return _negated(cursor)
    if token.key == "PERMUTE" and cursor.peek().key == "(":
        body = _permutation(cursor)
    elif token.key == "(":
        cursor.advance()
        body = _alternation(cursor, token)
        _close(cursor, token)
    elif token.key == "{-":
        body = _excluded(cursor)
    elif token.key in _EDGES:
        cursor.advance()
        body = syntax.EdgePattern(_EDGES[token.key], at=token.at)
    elif _is_name(token):
        body = syntax.SymbolPattern(cursor.identifier("a symbol"), at=token.at)
    elif token.key in _QUANTIFIERS:
        raise cursor.error(f"the quantifier {token.key} has nothing before it to repeat")
    else:
        return None
    return _quantified(cursor, body)


def _is_name(token: Token) -> bool:
    return token.kind == QUOTED or (token.kind == NAME and token.key not in RESERVED)


def _negated(cursor: Cursor) -> RowPattern:
    token = cursor.advance()
    if not _is_name(cursor.token):
        raise cursor.error(
            f"expected a symbol after !, found {describe(cursor.token)}; a negation is of one "
            "symbol, as in !X"
        )
    symbol = cursor.identifier("a symbol after !")
    if cursor.token.key in _QUANTIFIERS:
        raise cursor.error(
            f"!{symbol.name} maps no row, so it cannot be repeated; leave out {cursor.token.key}"
        )
    return syntax.Negated(symbol, at=token.at)


def _permutation(cursor: Cursor) -> RowPattern:
    token = cursor.advance()
    opening = cursor.advance()
    elements = cursor.separated(_branches)
    if not cursor.closes(opening):
        raise cursor.error(f"expected ',' or ')' in PERMUTE, found {describe(cursor.token)}")
    return syntax.Permutation(elements, at=token.at)


def _excluded(cursor: Cursor) -> RowPattern:
    opening = cursor.advance()
    body = _branches(cursor)
    if not cursor.closes(opening, "-}"):
        raise cursor.error(
            f"expected a symbol, '|' or '-}}' in the exclusion, found {describe(cursor.token)}"
        )
    return syntax.Excluded(body, at=opening.at)


def _quantified(cursor: Cursor, body: RowPattern) -> RowPattern:
    token = cursor.token
    if token.key not in _QUANTIFIERS:
        return body
    cursor.advance()
    low, high = _counts(cursor, token)
    greedy = not cursor.accept("?")
    if cursor.token.key in _QUANTIFIERS:
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
    if cursor.closes(opening):
        return
    if cursor.token.key == ",":
        raise cursor.error("the parts of a pattern are separated by spaces, not by commas")
    raise cursor.error(
        f"expected a symbol, '|' or ')' in the pattern, found {describe(cursor.token)}"
    )
