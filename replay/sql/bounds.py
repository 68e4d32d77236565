"""Bounds of time that stand around a cut: told to its plan, they leave blocks out.

A condition that DuckDB tests of each row of a cut's answer may be tested before, if it drops no row
that DuckDB keeps. So much is sure of times, which both compare alike; numbers have NaN, texts have
collations. DuckDB tests all of them again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from replay.language.tokens import END, NAME, QUOTED, STRING, Token, written
from replay.sql.composed import Composed

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")
"""Times as both languages read them; further digits are cut by DuckDB."""

_COMPARISONS: Final = ("<", "<=", ">", ">=", "=")

_END_WORDS: Final = """
    EXCEPT FETCH GROUP HAVING INTERSECT LIMIT OFFSET ORDER QUALIFY UNION USING WINDOW ) ;
"""
_END_WHERE: Final = frozenset(_END_WORDS.split())

_NO_CONJUNCTS: Final = frozenset(("CASE", "LAMBDA", "OR", "->"))
"""What keeps AND from parting WHERE into conditions that all have to hold."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Conditions on the answer of a cut that are ours if their columns are times."""

    columns: tuple[str, ...]
    """In lower case."""
    query: Composed
    """The cut with the conditions."""

    def hold_of(self, schema: pa.Schema) -> bool:
        """Return whether all columns are times."""
        types = {field.name.lower(): field.type for field in schema}
        return all(pa.types.is_timestamp(types.get(column, pa.null())) for column in self.columns)


def time_bounds(
    tokens: Sequence[Token], closing: Mapping[int, int], where: int, names: Collection[str]
) -> tuple[tuple[str, ...], str]:
    """Return the columns of the bounds of time that WHERE asks for, and the bounds as our text.

    ``where`` is the place of WHERE, and ``names``, in lower case, are those of the one source.
    None at all: two empty ones.
    """
    found = [_bound(part, names) for part in _conjuncts(tokens, closing, where + 1)]
    bounds = [bound for bound in found if bound is not None]
    columns = tuple(dict.fromkeys(column for column, _ in bounds))
    return columns, " AND ".join(text for _, text in bounds)


def _conjuncts(
    tokens: Sequence[Token], closing: Mapping[int, int], first: int
) -> Iterator[list[Token]]:
    """Yield the conditions of WHERE that all have to hold, each as its tokens."""
    parts: list[list[Token]] = [[]]
    is_between, i = False, first
    while tokens[i].kind != END and tokens[i].key not in _END_WHERE:
        token = tokens[i]
        if token.key in _NO_CONJUNCTS:
            return
        if token.key == "AND" and not is_between:
            parts.append([])
        else:
            parts[-1].append(token)
        if token.key in ("AND", "BETWEEN"):
            is_between = token.key == "BETWEEN"
        i = closing[i] + 1 if i in closing else i + 1
    yield from parts


def _bound(part: list[Token], names: Collection[str]) -> tuple[str, str] | None:
    """Return the column that a condition bounds, and the condition as our text; None: no bound."""
    part = [token for token in part if token.key != "TIMESTAMP" or token.kind != NAME]
    if len(part) > 2 and part[1].key == "." and part[0].kind in (NAME, QUOTED):
        if part[0].text.lower() not in names:
            return None
        part = part[2:]
    if len(part) == 5 and [part[1].key, part[3].key] == ["BETWEEN", "AND"]:
        literals = [part[2], part[4]]
    elif len(part) == 3 and part[1].key in _COMPARISONS:
        literals = [part[2]]
    else:
        return None
    if part[0].kind not in (NAME, QUOTED) or not all(map(_is_time, literals)):
        return None
    words = [f"TIMESTAMP {written(t)}" if t in literals else written(t) for t in part]
    return part[0].text.lower(), " ".join(words)


def _is_time(token: Token) -> bool:
    return token.kind == STRING and _TIME.fullmatch(token.text) is not None
