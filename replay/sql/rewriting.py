"""What is written otherwise for DuckDB than it stands, so that it means there what it means here.

Tokens are exchanged one by one, so that places in errors stay those of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from replay.errors import NotSupportedError, PatternSyntaxError
from replay.expressions.literals import UNIT_SPANS, UNIT_US, parse_duration
from replay.expressions.types import WITH_LENGTH
from replay.language.duration_parser import UNITS
from replay.language.tokens import (
    NAME,
    NUMBER,
    STRING,
    Token,
    in_quotes,
    place,
    quoted,
)

_NO_NAME_WORDS: Final = """
    ALL ANALYSE ANALYZE ANTI ANY ARRAY ASC ASOF ASYMMETRIC AT AUTHORIZATION BINARY BOTH BY CAST
    CHECK COLLATE COLLATION COLUMN CONCURRENTLY CONSTRAINT CREATE CROSS DEFAULT DEFERRABLE DESC
    DESCRIBE DISTINCT DO EXCEPT FETCH FOR FOREIGN FREEZE FULL GLOB GROUP HAVING ILIKE INITIALLY
    INNER INTERSECT INTO ISNULL JOIN LAMBDA LATERAL LEADING LEFT LIMIT NATURAL NOTNULL OFFSET ON
    ONLY ORDER OUTER OVERLAPS PIVOT PIVOT_LONGER PIVOT_WIDER PLACING POSITIONAL PRIMARY QUALIFY
    REFERENCES RETURNING RIGHT SEMI SHOW SIMILAR SOME SUMMARIZE SYMMETRIC TABLE TABLESAMPLE TO
    TRAILING UNION UNIQUE UNPACK UNPIVOT USING VARIADIC VERBOSE WHERE WINDOW WITH
"""
NO_NAMES: Final = frozenset(_NO_NAME_WORDS.split())
"""Words that name a column here, and in DuckDB only if they stand in quotes."""

_BEFORE_VALUE_WORDS: Final = """
    . , ( + - / % || = <> != < <= > >= AND AS BETWEEN BY CASE ELSE HAVING ILIKE LIKE NOT ON OR
    QUALIFY SELECT THEN WHEN WHERE
"""
_BEFORE_VALUE: Final = frozenset(_BEFORE_VALUE_WORDS.split())
_BEHIND_VALUE_WORDS: Final = """
    . , ) + - * / % || = <> != < <= > >= ; :: end AND AS ASC AT BETWEEN COLLATE DESC ELSE END
    EXCEPT FETCH FROM GROUP HAVING ILIKE IN INTERSECT IS JOIN LIKE LIMIT NOT NULLS OFFSET OR ORDER
    QUALIFY RANGE ROWS SIMILAR THEN UNION WHEN WHERE WINDOW
"""
_BEHIND_VALUE: Final = frozenset(_BEHIND_VALUE_WORDS.split())
_BEGINS_TRIM: Final = frozenset(("BOTH", "LEADING", "TRAILING"))

_BEFORE_DURATION_WORDS: Final = "+ - < <= = <> != > >= ( AND BETWEEN RANGE"
_BEFORE_DURATION: Final = frozenset(_BEFORE_DURATION_WORDS.split())
"""What a duration such as ``1 HOUR`` stands behind; elsewhere the word is the name of a column."""

_RENAMED: Final = {"APPROX_QUANTILE": "quantile_cont", "APPROX_PERCENTILE": "quantile_cont"}
"""Aggregates that DuckDB estimates, and what it calls them where it does not."""

_LENGTHS_IGNORED: Final = WITH_LENGTH | {"BPCHAR", "NVARCHAR", "STRING", "TEXT"}

Replaced = tuple[int, tuple[int, str]]
"""The place of a token; where the text goes on behind what is replaced, and by what."""


def rewritten(text: str, tokens: Sequence[Token], closing: Mapping[int, int]) -> Iterator[Replaced]:
    """Yield what is replaced where DuckDB runs a text.

    A NotSupportedError says what cannot be.
    """
    for i, token in enumerate(tokens[:-2]):
        if token.kind not in (NAME, NUMBER):
            continue
        before, after = tokens[i - 1] if i else token, tokens[i + 1]
        is_call = after.key == "(" and before.key != "."
        if token.key == "INTERVAL":
            yield from _interval(text, tokens, i)
        elif token.kind == NUMBER:
            if before.key in _BEFORE_DURATION and after.kind == NAME and after.key in UNITS:
                yield i, (i + 2, _duration(text, token, after.key))
        elif is_call and token.key == "APPROX_COUNT_DISTINCT":
            yield i, (i + 2, "count(DISTINCT ")
        elif is_call and token.key in _RENAMED:
            yield i, (i + 1, _RENAMED[token.key])
        elif is_call and token.key in ("CAST", "TRY_CAST"):
            yield from _cast(tokens, closing, i)
        elif is_call and token.key in _LENGTHS_IGNORED and tokens[i + 2].kind == NUMBER:
            if not _is_cast_to_length(tokens, closing, i):
                raise NotSupportedError(
                    f"{token.text}({tokens[i + 2].text}) is not supported here, where DuckDB would "
                    f"pass the length over; write CAST(… AS {token.text}({tokens[i + 2].text}))",
                    **place(text, token.at),
                )
        elif token.key in NO_NAMES and _is_name(tokens, i):
            yield i, (i + 1, quoted(token.text))


def _is_name(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether one of `NO_NAMES` stands where nothing but the name of a value fits."""
    key, before, after = tokens[i].key, tokens[i - 1].key, tokens[i + 1].key
    if i == 0 or before not in _BEFORE_VALUE or after not in _BEHIND_VALUE:
        return False
    if key == "DISTINCT":
        return after in (",", ")", ".") or (after == "FROM" and before not in ("IS", "NOT"))
    if key == "ALL":
        return before != "BY" and after not in ("*", "+", "-")
    return not (key in _BEGINS_TRIM and after == "FROM" and tokens[i - 2].key == "TRIM")


def _interval(text: str, tokens: Sequence[Token], i: int) -> Iterator[Replaced]:
    """Write a duration out that DuckDB reads otherwise: with a fraction, or of several units."""
    amount, unit = tokens[i + 1], tokens[i + 2]
    if amount.kind not in (STRING, NUMBER) or unit.key not in UNITS:
        return
    if tokens[i + 3].key == "TO":
        span = f"{UNITS[unit.key]} TO {UNITS.get(tokens[i + 4].key)}"
        if span in UNIT_SPANS:
            yield i, (i + 5, _literal(text, amount, span))
    elif UNITS[unit.key] in UNIT_US and not amount.text.strip().lstrip("-").isdecimal():
        yield i, (i + 3, _literal(text, amount, UNITS[unit.key]))


def _duration(text: str, amount: Token, unit: str) -> str:
    """Return ``1 HOUR`` as DuckDB writes it."""
    if UNITS[unit] in UNIT_US and not amount.text.isdecimal():
        return _literal(text, amount, UNITS[unit])
    return f"INTERVAL {in_quotes(amount.text)} {UNITS[unit]}"


def _literal(text: str, amount: Token, unit: str) -> str:
    try:
        return f"to_microseconds({parse_duration(amount.text, unit).value})"
    except ValueError as error:
        raise PatternSyntaxError(str(error), **place(text, amount.at)) from None


def _cast(tokens: Sequence[Token], closing: Mapping[int, int], i: int) -> Iterator[Replaced]:
    """Cut a text off that is CAST to one of a length, which DuckDB does not."""
    end = closing[i + 1]
    if tokens[end - 1].key != ")" or not _is_length(tokens, end - 4):
        return
    yield i, (i + 1, f"left({tokens[i].text}")
    yield end - 4, (end, "VARCHAR")
    yield end, (end + 1, f"), {tokens[end - 2].text})")


def _is_length(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether ``AS VARCHAR(n)`` ends before the closing sign, its type at a place."""
    return (
        i > 0
        and tokens[i - 1].key == "AS"
        and tokens[i].key in _LENGTHS_IGNORED
        and tokens[i + 1].key == "("
        and tokens[i + 2].kind == NUMBER
    )


def _is_cast_to_length(tokens: Sequence[Token], closing: Mapping[int, int], i: int) -> bool:
    """Tell whether a type with a length is all that a CAST is to, see `_cast`."""
    end = i + 4
    opening = next((begin for begin, stop in closing.items() if stop == end), 0)
    return _is_length(tokens, i) and opening > 0 and tokens[opening - 1].key in ("CAST", "TRY_CAST")
