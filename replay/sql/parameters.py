"""Values of parameters as DuckDB takes them, and where in a statement a parameter stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sized
from itertools import pairwise
from operator import index

from replay.expressions.literals import checked_text, is_not_a_time, microseconds_of
from replay.language.tokens import PARAMETER, PlaceArguments, place, tokenize


def to_duckdb(value: object) -> object:
    """Return a value as DuckDB takes it: whole numbers of NumPy and Arrow as those of Python.

    Raises a ValueError for a duration that DuckDB would cut off to 64 bits, and for half a
    surrogate pair.
    """
    if isinstance(value, list | tuple):
        return [to_duckdb(one) for one in value]
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
