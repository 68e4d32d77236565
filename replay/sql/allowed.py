"""What a statement may ask of DuckDB: no clock, no chance, no files but those it names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from replay.errors import NotSupportedError, UnknownNameError
from replay.language.cursor import RESERVED
from replay.language.functions import CLOCKS, FUNCTIONS, RANDOM, why_refused
from replay.language.tokens import NAME, QUOTED, Token, place
from replay.sql.constructs import CALLABLE, END_FROM, SPECIAL_FORMS, TABLE_FUNCTIONS

_NO_CALL_WORDS = """
    ALL ANY ARRAY BERNOULLI BY CHAR COLUMNS CUBE DECIMAL DISTINCT EXCLUDE EXISTS FILTER GLOB GROUP
    IF ILIKE INTERVAL JOIN LATERAL MAP MATERIALIZED NUMERIC ON OVER RECURSIVE RENAME REPEATABLE
    REPLACE RESERVOIR ROLLUP SETS SOME STRUCT SYSTEM TABLE TO UNION USING VALUES VARCHAR WITH
"""
_NO_CALL = RESERVED | END_FROM | frozenset(_NO_CALL_WORDS.split())
"""Words before a parenthesis that call nothing; some are functions as well, which do no harm."""

_INSTEAD = {
    "btrim": "trim(x)",
    "day_of_month": "day(ts)",
    "day_of_week": "isodow(ts)",
    "day_of_year": "dayofyear(ts)",
    "dow": "isodow(ts)",
    "doy": "dayofyear(ts)",
    "from_unixtime": "to_timestamp(seconds)",
    "iff": "CASE",
    "iif": "CASE",
    "nvl": "coalesce(a, b)",
    "regexp_like": "regexp_matches(text, pattern)",
    "to_unixtime": "epoch(ts)",
    "truncate": "trunc(x)",
    "week_of_year": "week(ts)",
    "year_of_week": "isoyear(ts)",
    "yow": "isoyear(ts)",
}
"""Functions of our language that DuckDB calls otherwise."""

_CLOCK_WORDS = """
    age current_localtime current_localtimestamp get_current_time get_current_timestamp
    transaction_timestamp
"""
_OTHER_CLOCKS = frozenset(_CLOCK_WORDS.split())

_CLOCK_CALLS = frozenset({"GETDATE", "NOW", "SYSDATE", "TODAY"})
"""Clocks that are read by a call alone."""

_BEHIND_SAMPLE = END_FROM | {",", "JOIN", "SAMPLE", "TABLESAMPLE"}
"""What a sample ends before."""


def check_allowed(
    text: str, tokens: Sequence[Token], places: Iterable[int], no_calls: Collection[int]
) -> None:
    """Refuse what reads more than the statement names, or is another value each time.

    ``places`` are those of the tokens that DuckDB gets; ``no_calls`` those of names before a
    parenthesis that are aliases.
    """
    for i in places:
        token, following = tokens[i], tokens[i + 1]
        where = place(text, token.at)
        is_field = i > 0 and tokens[i - 1].key == "."
        if token.kind == NAME and not is_field and following.key != ".":
            is_call = following.key == "("
            words = CLOCKS | RANDOM if is_call else CLOCKS - _CLOCK_CALLS
            if token.key in words and (i == 0 or tokens[i - 1].key != "AS"):
                raise NotSupportedError(why_refused(token.key) or "", **where)
        if token.kind in (NAME, QUOTED) and following.key == "(" and i not in no_calls:
            _check_call(text, token)
        if token.key in ("SAMPLE", "TABLESAMPLE") and not _has_seed(tokens, i):
            raise NotSupportedError(
                "a sample without a seed is not supported: an answer must not depend on chance; "
                "write TABLESAMPLE reservoir(100 ROWS) REPEATABLE (1)",
                **where,
            )


def _check_call(text: str, token: Token) -> None:
    """Refuse a call of what is not on the list."""
    name, where = token.text.lower(), place(text, token.at)
    if name in CALLABLE | SPECIAL_FORMS | TABLE_FUNCTIONS:
        return
    if token.kind == NAME and token.key in _NO_CALL:
        return
    if name in _OTHER_CLOCKS or name.upper() in CLOCKS | RANDOM:
        raise NotSupportedError(
            f"{token.text}(…) is not supported: an answer must not depend on the clock or on "
            "chance; pass the value as a parameter",
            **where,
        )
    if name in FUNCTIONS:
        instead = _INSTEAD.get(name)
        remedy = f"write {instead}" if instead else "call it in a query of its own"
        raise NotSupportedError(
            f"{token.text}(…) is a function of Chronicle's, and DuckDB runs this part; {remedy}",
            **where,
        )
    if name.startswith("read_") or name.endswith("_scan"):
        raise NotSupportedError(
            f"{token.text}(…) is not supported; a file is named in FROM: SELECT … FROM 'f.parquet'",
            **where,
        )
    raise UnknownNameError(
        "function",
        token.text,
        candidates=sorted(CALLABLE),
        listed="docs/sql.md says which there are",
        **where,
    )


def _has_seed(tokens: Sequence[Token], i: int) -> bool:
    """Tell whether a sample is REPEATABLE: before the next source, and within its parentheses."""
    depth = 0
    for token in tokens[i + 1 :]:
        depth += (token.key == "(") - (token.key == ")")
        if depth < 0 or (depth == 0 and token.key in _BEHIND_SAMPLE):
            return False
        if token.key == "REPEATABLE":
            return True
    return False
