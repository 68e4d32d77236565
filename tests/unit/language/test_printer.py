"""Law: parsing what the printer gives yields the same tree."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from replay.language import parse_query, syntax
from replay.language.cursor import Cursor
from replay.language.expression_parser import parse_expression
from replay.language.row_pattern_parser import parse_row_pattern
from replay.language.syntax import Identifier
from tests.query_printer import to_sql
from tests.unit.language.syntax_strategies import (
    creations,
    expressions,
    pattern_queries,
    queries,
    row_patterns,
)

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
