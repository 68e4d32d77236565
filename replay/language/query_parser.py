"""Queries: which language a text is in, and ``SELECT … FROM … MATCH_RECOGNIZE ( … )``."""

from __future__ import annotations

from replay.errors import QueryError
from replay.language import syntax
from replay.language.cursor import Cursor, describe
from replay.language.expression_parser import parse_expression
from replay.language.match_recognize_parser import parse_match_recognize
from replay.language.syntax import Identifier, PatternQuery, Query
from replay.language.tokens import END, NAME, QUOTED

_AFTER_MATCH_RECOGNIZE = ("WHERE", "GROUP", "HAVING", "ORDER", "WINDOW", "UNION", "JOIN", "OFFSET")


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
        if cursor.token.key in _AFTER_MATCH_RECOGNIZE:
            key = cursor.token.key + (" BY" if cursor.peek().key == "BY" else "")
            raise cursor.not_supported(f"{key} after MATCH_RECOGNIZE (…)")
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
    if keys & {"HOP", "TUMBLE", "CUMULATE", "HOP_ROWS"}:
        raise cursor.not_supported("a windowed aggregation (FROM TABLE(HOP(…)))")
    if "JOIN" in keys:
        raise cursor.not_supported("a join")
    if "FROM" in keys:
        raise cursor.not_supported(
            "SELECT without MATCH_RECOGNIZE (a filter or aggregate over a stream)"
        )
    raise cursor.error("this SELECT has no FROM; write SELECT * FROM stream MATCH_RECOGNIZE (…)")


# ---------------------------------------------------------------------------------------------
# Outer query


def _pattern_query(cursor: Cursor) -> PatternQuery:
    at = cursor.expect("SELECT").at
    select = _select(cursor)
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
    limit = parse_expression(cursor) if cursor.accept("LIMIT") else None
    return PatternQuery(select, stream, recognize, alias, limit, at=at)


def _select(cursor: Cursor) -> tuple[syntax.SelectItem, ...] | None:
    if cursor.token.key == "DISTINCT":
        raise cursor.not_supported("SELECT DISTINCT")
    if cursor.accept("*"):
        if cursor.token.key == ",":
            raise cursor.not_supported("* together with other columns in SELECT")
        return None
    items = [_select_item(cursor)]
    while cursor.accept(","):
        items.append(_select_item(cursor))
    return tuple(items)


def _select_item(cursor: Cursor) -> syntax.SelectItem:
    token = cursor.token
    if token.kind not in (NAME, QUOTED) or cursor.peek().key == "(":
        raise _outer_expression_error(cursor, token.at)
    name = cursor.identifier("a column of the answer")
    qualifier = None
    if cursor.accept("."):
        if cursor.token.key == "*":
            raise cursor.not_supported(f"{name.name}.* in SELECT", token.at, "write *")
        qualifier, name = name, cursor.identifier(f"a column after '{name.name}.'")
    alias = None
    if cursor.accept("AS") or (cursor.token.kind in (NAME, QUOTED) and cursor.token.key != "FROM"):
        alias = cursor.identifier("a name after AS")
    if cursor.token.key not in (",", "FROM"):
        raise _outer_expression_error(cursor, token.at)
    return syntax.SelectItem(name, qualifier, alias, at=token.at)


def _outer_expression_error(cursor: Cursor, at: int) -> QueryError:
    if cursor.token.key in ("FROM", ",", ")", ";") or cursor.token.kind == END:
        return cursor.error(f"expected a column of the answer or *, found {describe(cursor.token)}")
    return cursor.not_supported(
        "an expression in the outer SELECT", at, "name it in MEASURES and select that name"
    )


def _alias(cursor: Cursor) -> Identifier | None:
    if cursor.accept("AS"):
        return cursor.identifier("a name after AS")
    key = cursor.token.key
    is_name = cursor.token.kind in (NAME, QUOTED)
    if is_name and key != "LIMIT" and key not in _AFTER_MATCH_RECOGNIZE:
        return cursor.identifier("an alias")
    return None
