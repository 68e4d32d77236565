"""Text of a query to tokens, in one pass of one regular expression."""

from __future__ import annotations

import re
from typing import NamedTuple, TypedDict

from replay.errors import PatternSyntaxError
from replay.expressions.literals import half_a_pair

NAME = "name"
QUOTED = "quoted"
STRING = "string"
NUMBER = "number"
PARAMETER = "parameter"
OPERATOR = "operator"
END = "end"

_TOKEN = re.compile(
    r"""
    (?: \s+ | --[^\r\n]* | /\*.*?\*/ )*
    (?: (?P<name>      [^\W\d]\w* )
      | (?P<number>    (?: \d+ (?: \.\d* )? | \.\d+ ) (?: [eE][+-]?\d+ )? )
      | (?P<string>    ' [^']* (?: '' [^']* )* ' )
      | (?P<quoted>    " [^"]* (?: "" [^"]* )* " )
      | (?P<parameter> : [^\W\d]\w* )
      | (?P<open>      /\* | ' | " )
      | (?P<operator>  <> | != | <= | >= | => | \|\| | \{- | -\} | [-+*/%=<>()\[\]{},.;?|!^$] )
      | (?P<end>       \Z )
      | (?P<other>     :: | . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)

_REFUSED = {
    "'": "this text is not closed: a ' is missing (a ' inside a text is written twice)",
    '"': 'this name is not closed: a " is missing',
    "/*": "this comment is not closed: */ is missing",
    "::": "a cast is written CAST(value AS type), not value::type",
}


class PlaceArguments(TypedDict):
    """Where, in the arguments of ``QueryError``."""

    text: str | None
    line: int
    column: int


class Token(NamedTuple):
    """A word of the query.

    ``key`` is what the grammar looks at: the upper-case word of an unquoted name, the sign of an
    operator, and otherwise the kind. ``text`` is the value: unquoted for names, texts and
    parameters.
    """

    kind: str
    text: str
    key: str
    at: int


FOREIGN_SIGNS = frozenset({"::", ":", "~", "&", "@", "#"})
"""Signs of SQL that our language has no use for."""


def tokenize(text: str, *, is_foreign: bool = False) -> list[Token]:
    """Return the tokens of ``text``; the last one is END.

    Of a statement that is not in our language (``is_foreign``) further signs are operators, and a
    number may run into what follows.
    """
    _check_encodes(text)
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        word = match[kind]
        at = match.start(kind)
        if kind == NAME:
            tokens.append(Token(NAME, word, word.upper(), at))
        elif kind == OPERATOR:
            tokens.append(Token(OPERATOR, word, word, at))
        elif kind == NUMBER:
            if not is_foreign:
                _check_number_ends(text, match.end(), at)
            tokens.append(Token(NUMBER, word, NUMBER, at))
        elif kind == STRING:
            tokens.append(Token(STRING, word[1:-1].replace("''", "'"), STRING, at))
        elif kind == QUOTED:
            tokens.append(Token(QUOTED, _unquote(text, word, at), QUOTED, at))
        elif kind == PARAMETER:
            tokens.append(Token(PARAMETER, word[1:], PARAMETER, at))
        elif kind == END:
            tokens.append(Token(END, "", END, at))
            break
        elif is_foreign and word in FOREIGN_SIGNS:
            tokens.append(Token(OPERATOR, word, word, at))
        else:
            message = _REFUSED.get(word, f"no query has the sign '{word}'")
            raise PatternSyntaxError(message, **place(text, at))
    return tokens


def place(text: str, at: int) -> PlaceArguments:
    """Return ``text``, line and column of an offset, as the errors of queries take them."""
    # A sign at the offset makes a line break just before it count.
    lines = (text[:at] + ".").split("\n")
    return {"text": text, "line": len(lines), "column": len(lines[-1])}


def quoted(name: str) -> str:
    """Return a name in quotes, which may hold any signs."""
    return '"' + name.replace('"', '""') + '"'


def in_quotes(text: str) -> str:
    """Return a text as queries write it."""
    return "'" + text.replace("'", "''") + "'"


def written(token: Token) -> str:
    """Return a token as it is written."""
    if token.kind == STRING:
        return in_quotes(token.text)
    if token.kind == QUOTED:
        return quoted(token.text)
    return f":{token.text}" if token.kind == PARAMETER else token.text


def ends(token: Token) -> int:
    """Return the offset behind a token."""
    return token.at + len(written(token))


def _check_encodes(text: str) -> None:
    """Refuse half a surrogate pair: bytes of a terminal that are no UTF-8 come as such."""
    at = half_a_pair(text)
    if at is not None:
        raise PatternSyntaxError(
            f"{text[at]!a} is half a surrogate pair, which no text holds; write the query in UTF-8",
            **place(text.encode("utf-8", "replace").decode(), at),
        )


def _check_number_ends(text: str, end: int, at: int) -> None:
    if end < len(text) and (text[end].isalnum() or text[end] in "_."):
        raise PatternSyntaxError(
            "this number runs into what follows; separate them with a space", **place(text, at)
        )


def _unquote(text: str, word: str, at: int) -> str:
    name = word[1:-1].replace('""', '"')
    if not name:
        raise PatternSyntaxError("a name cannot be empty", **place(text, at))
    return name
