"""Queries: which language a text is in, and ``SELECT … FROM … MATCH_RECOGNIZE ( … )``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from chronicle.errors import did_you_mean
from replay.language import syntax
from replay.language.cursor import Cursor, describe
from replay.language.expression_parser import (
    accept_distinct,
    accept_star,
    parse_expression,
)
from replay.language.match_recognize_parser import parse_match_recognize
from replay.language.syntax import Expression, Identifier, PatternQuery, Query
from replay.language.tokens import END, NAME, QUOTED

Item = TypeVar("Item")

_NOT_YET = ("WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT", "JOIN")


def parse_query(text: str) -> Query:
    """Return the syntax tree of a query.

    Parameters
    ----------
    text
        One query; a semicolon at its end is allowed.

    Raises
    ------
    PatternSyntaxError
        If it is not a query.
    NotSupportedError
        If it is one that Chronicle cannot answer yet.

    Examples
    --------
    >>> parse_query("SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+))").stream
    's'
    """
    cursor = Cursor(text)
    _refuse_other_languages(cursor)
    query = _pattern_query(cursor)
    cursor.accept(";")
    if cursor.token.kind != END:
        if cursor.token.key in _NOT_YET:
            raise cursor.not_supported(f"{cursor.token.key} after MATCH_RECOGNIZE (…)")
        raise cursor.error(f"expected the end of the query, found {describe(cursor.token)}")
    return query


def _refuse_other_languages(cursor: Cursor) -> None:
    first = cursor.token
    keys = {token.key for token in cursor.tokens}
    if first.kind == END:
        raise cursor.error("the query is empty; it begins with SELECT")
    if first.key == "FROM":
        raise cursor.not_supported("a temporal pattern over situations (FROM … DEFINE … RETURN …)")
    if first.key == "RETURN":
        raise cursor.not_supported("a sequence aggregation (RETURN … FROM … PATTERN SEQ …)")
    if first.key == "PATTERN":
        raise cursor.not_supported("a pattern over imprecise timestamps (PATTERN SEQ … RETURN …)")
    if first.key == "WITH":
        raise cursor.not_supported("WITH (a named subquery)")
    if first.key != "SELECT":
        raise cursor.error(f"a query begins with SELECT, found {describe(first)}")
    if "MATCH_RECOGNIZE" in keys:
        return
    _refuse_misspelt(cursor)
    if keys & {"HOP", "TUMBLE", "CUMULATE", "HOP_ROWS"}:
        raise cursor.not_supported("a windowed aggregation (FROM TABLE(HOP(…)))")
    if "JOIN" in keys:
        raise cursor.not_supported("a join")
    if "FROM" in keys:
        raise cursor.not_supported(
            "SELECT without MATCH_RECOGNIZE (a filter or aggregate over a stream)"
        )
    raise cursor.error("this SELECT has no FROM; write SELECT * FROM stream MATCH_RECOGNIZE (…)")


def _refuse_misspelt(cursor: Cursor) -> None:
    """Refuse what is meant to be MATCH_RECOGNIZE: a word like it before a parenthesis."""
    for word, after in pairwise(cursor.tokens):
        if word.kind == NAME and after.key == "(":
            hint = did_you_mean(word.text, ["MATCH_RECOGNIZE"])
            if hint:
                raise cursor.error(f"there is no {word.key}{hint}", word.at)


# ---------------------------------------------------------------------------------------------
# SELECT … FROM stream MATCH_RECOGNIZE ( … )


def _pattern_query(cursor: Cursor) -> PatternQuery:
    at = cursor.expect("SELECT").at
    distinct = _distinct(cursor)
    select = _separated(cursor, _select_item)
    cursor.expect("FROM", "after the columns of SELECT")
    if cursor.token.key == "(":
        raise cursor.not_supported("a subquery in FROM")
    if cursor.token.key == "TABLE" and cursor.peek().key == "(":
        raise cursor.not_supported("a table function in FROM")
    stream = cursor.identifier("the name of a stream")
    if cursor.token.key == ".":
        raise cursor.not_supported(
            "a stream name with a dot", remedy=f'quote it as "{stream.name}.…"'
        )
    if cursor.token.key in (",", "JOIN"):
        raise cursor.not_supported("a join")
    if cursor.token.key == "AS" or cursor.peek().key == "MATCH_RECOGNIZE":
        raise cursor.not_supported("an alias of the stream before MATCH_RECOGNIZE")
    cursor.expect("MATCH_RECOGNIZE", f"after FROM {stream.name}")
    recognize = parse_match_recognize(cursor)
    alias = _alias(cursor)
    clauses = _Clauses()
    while cursor.token.key in _CLAUSES:
        _parse_clause(cursor, clauses)
    return PatternQuery(
        select,
        stream,
        recognize,
        alias,
        clauses.limit,
        clauses.offset,
        distinct,
        clauses.where,
        clauses.group_by,
        clauses.having,
        clauses.order_by,
        at=at,
    )


def _distinct(cursor: Cursor) -> bool:
    if cursor.at("DISTINCT", "ON", "("):
        raise cursor.not_supported("SELECT DISTINCT ON (…)")
    return accept_distinct(cursor, (",", "FROM", ".", "AS"))


def _select_item(cursor: Cursor) -> syntax.SelectItem:
    token = cursor.token
    if token.key in ("FROM", ",", ")", ";") or token.kind == END:
        raise cursor.error(f"expected a column of the answer or *, found {describe(token)}")
    expression = accept_star(cursor) or parse_expression(cursor)
    alias = None
    if cursor.accept("AS") or (cursor.token.kind in (NAME, QUOTED) and cursor.token.key != "FROM"):
        if isinstance(expression, syntax.Star):
            raise cursor.error("* stands for several columns and cannot take a name", token.at)
        alias = cursor.identifier("a name after AS")
    if cursor.token.key not in (",", "FROM"):
        raise cursor.error(f"expected ',' and a column, or FROM, found {describe(cursor.token)}")
    return syntax.SelectItem(expression, alias, at=token.at)


def _alias(cursor: Cursor) -> Identifier | None:
    if cursor.accept("AS"):
        return cursor.identifier("a name after AS")
    key = cursor.token.key
    is_name = cursor.token.kind in (NAME, QUOTED)
    if is_name and key not in _CLAUSES and key not in _NOT_YET:
        return cursor.identifier("an alias")
    return None


# ---------------------------------------------------------------------------------------------
# Clauses of the outer query


@dataclass(slots=True)
class _Clauses:
    """What was read so far."""

    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[syntax.OrderItem, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    given: list[str] = field(default_factory=list)


def _parse_clause(cursor: Cursor, clauses: _Clauses) -> None:
    name, parse = _CLAUSES[cursor.token.key]
    if name in clauses.given:
        raise cursor.error(f"{name} is given twice")
    if {name, *clauses.given} >= {"LIMIT", "FETCH"}:
        raise cursor.error("LIMIT and FETCH say the same; write one of them")
    for later in clauses.given:
        if _RANKS[later] > _RANKS[name]:
            raise cursor.error(f"{name} stands before {later} after MATCH_RECOGNIZE (…)")
    cursor.advance()
    parse(cursor, clauses)
    clauses.given.append(name)


def _where(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.where = parse_expression(cursor)


def _group_by(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY", "after GROUP")
    clauses.group_by = _separated(cursor, _grouping)


def _grouping(cursor: Cursor) -> Expression:
    following = cursor.peek().key
    if cursor.token.key in ("ROLLUP", "CUBE") and following == "(":
        raise cursor.not_supported(f"GROUP BY {cursor.token.key} (…)")
    if cursor.token.key == "GROUPING" and following == "SETS":
        raise cursor.not_supported("GROUP BY GROUPING SETS (…)")
    if cursor.token.key == "ALL" and following not in (".", ","):
        raise cursor.not_supported("GROUP BY ALL", remedy="write the columns, or 1, 2, …")
    return parse_expression(cursor)


def _having(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.having = parse_expression(cursor)


def _order_by(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY", "after ORDER")
    clauses.order_by = _separated(cursor, _order_item)


def _order_item(cursor: Cursor) -> syntax.OrderItem:
    at = cursor.token.at
    expression = parse_expression(cursor)
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    nulls_first = cursor.accept("NULLS", "FIRST")
    if not nulls_first and cursor.accept("NULLS"):
        cursor.expect("LAST", "or FIRST after NULLS")
    return syntax.OrderItem(expression, descending, nulls_first, at=at)


def _limit(cursor: Cursor, clauses: _Clauses) -> None:
    if not cursor.accept("ALL"):
        clauses.limit = parse_expression(cursor)


def _offset(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.offset = parse_expression(cursor)
    if not cursor.accept("ROWS"):
        cursor.accept("ROW")


def _fetch(cursor: Cursor, clauses: _Clauses) -> None:
    if not cursor.accept("NEXT"):
        cursor.expect("FIRST", "after FETCH, as in FETCH FIRST 10 ROWS ONLY")
    token = cursor.token
    is_one = token.key in ("ROW", "ROWS")
    clauses.limit = syntax.Number(1, at=token.at) if is_one else parse_expression(cursor)
    if not cursor.accept("ROW"):
        cursor.expect("ROWS", "as in FETCH FIRST 10 ROWS ONLY")
    if cursor.token.key == "WITH":
        raise cursor.not_supported("FETCH … WITH TIES")
    cursor.expect("ONLY", "as in FETCH FIRST 10 ROWS ONLY")


def _separated(cursor: Cursor, parse: Callable[[Cursor], Item]) -> tuple[Item, ...]:
    items = [parse(cursor)]
    while cursor.accept(","):
        items.append(parse(cursor))
    return tuple(items)


_CLAUSES: dict[str, tuple[str, Callable[[Cursor, _Clauses], None]]] = {
    "WHERE": ("WHERE", _where),
    "GROUP": ("GROUP BY", _group_by),
    "HAVING": ("HAVING", _having),
    "ORDER": ("ORDER BY", _order_by),
    "LIMIT": ("LIMIT", _limit),
    "OFFSET": ("OFFSET", _offset),
    "FETCH": ("FETCH", _fetch),
}
_RANKS = {
    "WHERE": 0,
    "GROUP BY": 1,
    "HAVING": 2,
    "ORDER BY": 3,
    "LIMIT": 4,
    "OFFSET": 4,
    "FETCH": 4,
}
"""The order of the clauses; those of one rank stand in any."""
