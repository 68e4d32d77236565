"""``SELECT … FROM …``, with or without MATCH_RECOGNIZE."""

from __future__ import annotations

from typing import Any

from replay.language.clause_parser import Clauses, parse_clauses, parse_select_list
from replay.language.cursor import Cursor
from replay.language.match_recognize_parser import parse_match_recognize
from replay.language.relation_parser import close, parse_alias, parse_reference
from replay.language.source import resolve
from replay.language.syntax import (
    PatternQuery,
    Reference,
    SelectQuery,
    StreamName,
    Subquery,
    WindowCall,
)


def parse_select(cursor: Cursor) -> SelectQuery | PatternQuery:
    """Parse a query from SELECT on, as far as it goes.

    Raises
    ------
    PatternSyntaxError, NotSupportedError
        With the place.
    """
    with cursor.queries.scope():
        if cursor.accept("WITH"):
            _named_queries(cursor)
        return _select(cursor)


def _named_queries(cursor: Cursor) -> None:
    """Parse ``name AS (query), …``; each can name those before it."""
    if cursor.token.key == "RECURSIVE":
        raise cursor.not_supported("WITH RECURSIVE")
    names: list[str] = []
    while True:
        name = cursor.identifier("a name for a query")
        if resolve(name, names) is not None:
            raise cursor.error(f"two queries of WITH are named '{name.name}'", name.at)
        names.append(name.name)
        if cursor.token.key == "(":
            raise cursor.not_supported("a list of columns in WITH", remedy="name them in SELECT")
        cursor.expect("AS", f"and a query in parentheses after {name.name}")
        opening = cursor.expect("(", f"and a query after {name.name} AS")
        cursor.queries.define(name.name, lambda: parse_select(cursor))
        close(cursor, opening.at, "the query")
        if not cursor.accept(","):
            return


def _select(cursor: Cursor) -> SelectQuery | PatternQuery:
    at = cursor.expect("SELECT").at
    distinct, select = parse_select_list(cursor)
    cursor.expect("FROM", "after the columns of SELECT")
    source = parse_reference(cursor, parse_select)
    if cursor.token.key != "MATCH_RECOGNIZE":
        clauses = parse_clauses(cursor, "FROM")
        return SelectQuery(select, source, distinct=distinct, **_given(clauses), at=at)
    pattern_source = _pattern_source(cursor, source)
    cursor.advance()
    recognize = parse_match_recognize(cursor)
    alias = parse_alias(cursor)
    clauses = parse_clauses(cursor, "MATCH_RECOGNIZE (…)")
    return PatternQuery(
        select, pattern_source, recognize, alias, distinct=distinct, **_given(clauses), at=at
    )


def _given(clauses: Clauses) -> dict[str, Any]:
    """Return the clauses as both kinds of query take them."""
    names = ("where", "group_by", "having", "order_by", "limit", "offset")
    return {name: getattr(clauses, name) for name in names}


def _pattern_source(cursor: Cursor, source: Reference) -> StreamName | Subquery:
    """Return what MATCH_RECOGNIZE reads, and refuse what it cannot."""
    match source:
        case StreamName() | Subquery():
            return source
        case WindowCall():
            raise cursor.not_supported(
                f"MATCH_RECOGNIZE over {source.function}(…)",
                source.at,
                "match a subquery that aggregates its windows",
            )
    raise cursor.not_supported(
        "MATCH_RECOGNIZE over a join", source.at, "match a subquery that joins"
    )
