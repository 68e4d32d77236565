"""Tokens, trees and the text printed of them: parsing what is printed yields the same tree."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.errors import PatternSyntaxError, QueryError
from replay.language import bind, bind_query, parse_query, syntax
from replay.language.bound import Attribute, Call, Literal, walk
from replay.language.cursor import Cursor
from replay.language.expression_parser import parse_expression
from replay.language.query_printer import to_sql
from replay.language.row_pattern_parser import parse_row_pattern
from replay.language.syntax import Identifier
from replay.language.tokens import place, tokenize
from tests.unit.language.syntax_strategies import (
    creations,
    expressions,
    pattern_queries,
    queries,
    row_patterns,
)


def texts(query):
    return [token.text for token in tokenize(query)]


def test_words_signs_and_values():
    assert texts("""A.x>=1.5e3 AND "a ""b" <> 'it''s':p{,3}?""") == [
        *("A", ".", "x", ">=", "1.5e3", "AND", 'a "b', "<>", "it's", "p", "{", ",", "3", "}", "?"),
        "",
    ]


def test_comments_are_skipped_and_signs_of_exclusion_are_one_each():
    assert texts("a -- b 'c\n/* d\n -- */ - e /* f */") == ["a", "-", "e", ""]
    assert texts("{- A -}") == ["{-", "A", "-}", ""]


@pytest.mark.parametrize("number", ["1", "1.", ".5", "1e5", "12.5E-3"])
def test_number(number):
    (token, _) = tokenize(number)
    assert (token.kind, token.text) == ("number", number)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('a "b', "this name is not closed"),
        ("a /* b", "this comment is not closed"),
        ('""', "a name cannot be empty"),
        ("5x", "runs into what follows"),
        ("1.2.3", "runs into what follows"),
    ],
)
def test_what_is_no_token(query, words):
    with pytest.raises(PatternSyntaxError, match=words):
        tokenize(query)


def test_long_text_that_is_not_closed_is_found_at_once():
    with pytest.raises(PatternSyntaxError):
        tokenize("'" + "a" * 100_000)


@given(st.text("ab 1.'\"/*-\n\r\t{}:x", max_size=30))
def test_every_token_is_where_it_says(query):
    try:
        tokens = tokenize(query)
    except PatternSyntaxError:
        return
    for token in tokens[:-1]:
        where = place(query, token.at)
        line = query.split("\n")[where["line"] - 1]
        assert line[where["column"] - 1] == query[token.at]


X = syntax.Column(Identifier("x"))


def read_expression(text: str) -> syntax.Expression:
    cursor = Cursor(text)
    expression = parse_expression(cursor)
    assert cursor.token.kind == "end", text
    return expression


@given(expressions)
@example(syntax.Unary("-", syntax.Unary("-", X)))
@example(syntax.Binary("-", X, syntax.Binary("-", X, X)))
@example(syntax.Binary("<", syntax.Binary("<", X, X), X))
@example(syntax.Column(Identifier("end", True)))
@example(syntax.Between(syntax.Unary("NOT", X), X, X))
def test_printed_expression_parses_to_the_same_tree(expression):
    parsed = read_expression(to_sql(expression))
    assert parsed == expression
    # Equality takes 1 for 1.0 and True; the text of the tree does not.
    assert repr(parsed) == repr(expression)


@given(row_patterns)
def test_printed_pattern_parses_to_the_same_tree(pattern):
    assert parse_row_pattern(Cursor(f"({to_sql(pattern)})")) == pattern


@given(pattern_queries | queries | creations)
def test_printed_query_parses_to_the_same_tree(query):
    assert parse_query(to_sql(query)) == query


@pytest.mark.parametrize(
    "text",
    [
        "a + b * c - d",
        "(a + b) * c",
        "a - (b - c)",
        "-x + -(-y)",
        "NOT (a AND b) OR c AND NOT d",
        "(a OR b) AND c",
        "x BETWEEN 1 AND 2 AND y",
        "x NOT IN (1, 2.5, 'it''s')",
        "x LIKE '50!%' ESCAPE '!' OR x NOT LIKE 'a_%'",
        "x IS NULL AND A.y IS NOT NULL",
        "CASE WHEN a THEN 1 ELSE 2 END",
        "CASE x WHEN 1 THEN 'one' END",
        "CAST(x AS DOUBLE PRECISION)",
        "PREV(FIRST(A.x), 2) > LAST(x)",
        "TIMESTAMP '2024-01-02 03:04:05' - ts > INTERVAL '30' MINUTE",
        "coalesce(\"Group\", :param, DATE '2024-01-02')",
        "CLASSIFIER() = 'A' AND MATCH_NUMBER() < 1e+16",
    ],
)
def test_canonical_expression_prints_as_written(text):
    assert to_sql(read_expression(text)) == text


SCHEMA = pa.schema({"t": pa.int64(), "x": pa.int64(), "speed": pa.float64(), "date": pa.date32()})


def attempt(action):
    """Return what the action gives, None if it fails with a place."""
    lines = []
    try:
        return action()
    except QueryError as error:
        lines.append(error.line)
    assert lines[0] >= 1
    return None


def outcome(text):
    query = attempt(lambda: parse_query(text))
    if query is not None:
        assert parse_query(to_sql(query)) == query


@given(st.text(max_size=40))
def test_any_text_parses_or_fails_with_a_place(text):
    outcome(text)


@given(queries | creations)
def test_any_tree_of_relations_binds_or_fails_with_a_stated_error(query):
    text = to_sql(query)
    params = {"p": 1, "q_1": None}
    attempt(
        lambda: bind_query(parse_query(text), lambda _: (SCHEMA, "t"), text=text, params=params)
    )


@given(pattern_queries)
def test_any_tree_binds_or_fails_with_a_stated_error(query):
    text = to_sql(query)
    params = {"p": 1, "q_1": None}
    bound = attempt(lambda: bind(parse_query(text), SCHEMA, text=text, params=params))
    if bound is None:
        return
    for measure in bound.measures:
        parts = list(walk(measure.expression))
        calls = [part for part in parts if isinstance(part, Call)]
        assert all(
            isinstance(option, Literal) for c in calls if c.op == "in" for option in c.args[1:]
        )
        assert all(part.name in SCHEMA.names for part in parts if isinstance(part, Attribute))
