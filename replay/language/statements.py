"""A text of several statements taken apart; each keeps its place, for its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replay.language import allen
from replay.language.tokens import END, Token, tokenize

_BEGIN_WORDS = "( CREATE DESC DESCRIBE EXPLAIN FROM RETURN SELECT SHOW WITH"
_BEGINS: Final = frozenset(_BEGIN_WORDS.split())
"""Keys of the tokens that a statement can begin with."""

_RELATIONS: Final = frozenset(name.split()[0].upper() for name in allen.NAMES)
"""First words of temporal relations."""


def split_statements(text: str) -> tuple[str, ...]:
    """Return the statements of a text that ``;`` parts.

    Of several each stands at its line and column, behind blanks. A text of one statement, or of
    none, is returned as it is. A ``;`` in a text, a quoted name, a comment or parentheses parts
    nothing, nor does one between relations of a temporal pattern.

    Raises
    ------
    PatternSyntaxError
        If a text, a name or a comment is not closed, or has a sign that no query has.

    Examples
    --------
    >>> split_statements("SELECT ';' FROM s; SELECT 1;")
    ("SELECT ';' FROM s", '                   SELECT 1')
    """
    tokens = tokenize(text, is_foreign=True)
    found, first, depth = [], 0, 0
    for i, token in enumerate(tokens):
        depth += (token.key in ("(", "[", "{")) - (token.key in (")", "]", "}"))
        ends = token.key == ";" and depth <= 0 and not in_temporal_pattern(tokens, i, first)
        if not ends and token.kind != END:
            continue
        if i > first:
            found.append(in_place(text[: token.at], tokens[first].at))
        first = i + 1
    return tuple(found) if len(found) > 1 else (text,)


def in_place(text: str, at: int) -> str:
    """Return a text with blanks for all before a place, which keeps its line and column."""
    return "".join(sign if sign.isspace() else " " for sign in text[:at]) + text[at:]


def in_temporal_pattern(tokens: Sequence[Token], i: int, first: int = 0) -> bool:
    """Tell whether a ``;`` of the statement from ``first`` on stands between relations."""
    following = tokens[i + 1]
    if following.key in _BEGINS and tokens[i + 2].key not in _RELATIONS:
        return False
    for before in range(i - 1, first - 1, -1):
        key = tokens[before].key
        if key in ("PATTERN", "WITHIN", "DEFINE", "(", ")"):
            return key == "PATTERN" and tokens[before + 1].key != "("
    return False
