"""Queries: which language a text is in, ``SELECT …`` and ``CREATE STREAM … AS SELECT …``."""

from __future__ import annotations

from itertools import pairwise

from chronicle.errors import did_you_mean
from replay.language.cursor import Cursor, describe
from replay.language.relation_parser import NOT_YET
from replay.language.select_parser import parse_select
from replay.language.syntax import CreateStream, PatternQuery, Query
from replay.language.tokens import END, NAME


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
    >>> from replay.language.syntax import streams_of
    >>> streams_of(parse_query("SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+))"))
    ('s',)
    """
    cursor = Cursor(text)
    _refuse_other_languages(cursor)
    query = _create(cursor) if cursor.token.key == "CREATE" else parse_select(cursor)
    cursor.accept(";")
    if cursor.token.kind != END:
        if cursor.token.key in (*NOT_YET, "JOIN"):
            after = " after MATCH_RECOGNIZE (…)" if isinstance(query, PatternQuery) else ""
            raise cursor.not_supported(f"{cursor.token.key}{after}")
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
    if first.key not in ("SELECT", "WITH", "CREATE"):
        raise cursor.error(f"a query begins with SELECT, found {describe(first)}")
    if "MATCH_RECOGNIZE" not in keys:
        _refuse_misspelt(cursor)
    if first.key == "SELECT" and "FROM" not in keys:
        raise cursor.error("this SELECT has no FROM; write SELECT * FROM stream WHERE …")


def _create(cursor: Cursor) -> CreateStream:
    at = cursor.advance().at
    for word in ("TABLE", "VIEW", "OR"):
        if cursor.token.key == word:
            raise cursor.not_supported(f"CREATE {word}", remedy="write CREATE STREAM … AS SELECT …")
    cursor.expect("STREAM", "after CREATE")
    name = cursor.identifier("a name for the stream")
    cursor.expect("AS", f"and a query after CREATE STREAM {name.name}")
    if cursor.token.key not in ("SELECT", "WITH"):
        raise cursor.error(f"expected SELECT, found {describe(cursor.token)}")
    return CreateStream(name, parse_select(cursor), at=at)


def _refuse_misspelt(cursor: Cursor) -> None:
    """Refuse what is meant to be MATCH_RECOGNIZE: a word like it before a parenthesis."""
    for word, after in pairwise(cursor.tokens):
        if word.kind == NAME and after.key == "(":
            hint = did_you_mean(word.text, ["MATCH_RECOGNIZE"])
            if hint:
                raise cursor.error(f"there is no {word.key}{hint}", word.at)
