"""Values of parameters as DuckDB takes them, and where in a statement a parameter stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import pairwise
from operator import index

from replay.errors import PatternSyntaxError
from replay.expressions.literals import (
    checked_text,
    elements,
    is_list,
    is_not_a_time,
    microseconds_of,
)
from replay.language.tokens import NAME, PARAMETER, PlaceArguments, Token, place, tokenize


def to_duckdb(value: object) -> object:
    """Return a value as DuckDB takes it: lists and whole numbers of others as those of Python.

    Raises a ValueError for a duration that DuckDB would cut off to 64 bits, and for half a
    surrogate pair.
    """
    if is_list(value):
        return [to_duckdb(one) for one in elements(value)]
    if value is None or is_not_a_time(value):
        return None
    if isinstance(value, str):
        return checked_text(value)
    if isinstance(value, dt.timedelta):
        microseconds_of(value)
    if isinstance(value, bool | Sized):
        return value
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return value


def place_of(name: str, text: str) -> PlaceArguments:
    """Return where a parameter first stands in a statement; ``?`` are named by their numbers."""
    tokens = tokenize(text, is_foreign=True)
    marks = [token.at for token in tokens if token.key == "?"]
    if name[:1] == "_" and name[1:].isdecimal() and int(name[1:]) < len(marks):
        return place(text, marks[int(name[1:])])
    for before, token in pairwise(tokens):
        if token.text == name and (token.kind == PARAMETER or before.key == "$"):
            return place(text, token.at)
    return place(text, 0)


def parameters_of(text: str, tokens: Sequence[Token], closing: Mapping[int, int]) -> dict[int, str]:
    """Return place and name of each parameter; those of ``?`` are called by their number.

    Not in PATTERN, whose quantifiers and anchors look alike; a colon in ``[]`` and ``{}`` cuts
    lists and names fields there. A PatternSyntaxError says that they are mixed, or one has no name.
    """
    found = dict(_parameters(text, tokens, closing))
    positional = [i for i in found if tokens[i].key == "?"]
    if positional and len(positional) < len(found):
        raise PatternSyntaxError(
            "a query has parameters by name (:x) or by place (?), not both",
            **place(text, tokens[positional[0]].at),
        )
    return found


def _parameters(
    text: str, tokens: Sequence[Token], closing: Mapping[int, int]
) -> Iterator[tuple[int, str]]:
    n_positional, skip_to = 0, 0
    inside: list[bool] = []
    for i, token in enumerate(tokens):
        if i < skip_to:
            continue
        if token.key == "PATTERN" and tokens[i + 1].key == "(":
            skip_to = closing.get(i + 1, i)
        elif token.key in ("(", "[", "{"):
            inside.append(token.key != "(")
        elif token.key in (")", "]", "}"):
            inside[-1:] = []
        elif token.kind == PARAMETER and not any(inside[-1:]):
            if not _is_behind_lambda(tokens, i):
                yield i, token.text
        elif token.key == "?":
            yield i, f"_{n_positional}"
            n_positional += 1
        elif token.key == "$":
            following = tokens[i + 1]
            if following.kind != NAME or following.at != token.at + 1:
                raise PatternSyntaxError(
                    "expected the name of a parameter after '$', as in $low",
                    **place(text, token.at),
                )
            yield i, following.text


def _is_behind_lambda(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether the names of a LAMBDA end here."""
    i -= 1
    while tokens[i].key == "," or tokens[i].kind == NAME:
        if tokens[i].key == "LAMBDA":
            return True
        i -= 1
    return False
