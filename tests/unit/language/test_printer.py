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
        "SELECT * FROM s WHERE x > 1 ORDER BY t DESC LIMIT 3",
        "SELECT x.a FROM s AS x",
        "SELECT a FROM (SELECT a FROM s) AS x",
        (
            "SELECT window_end FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTE, "
            "INTERVAL '1' HOUR, TIMESTAMP '2020-01-01')) AS w GROUP BY window_end"
        ),
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE_ROWS(TABLE (SELECT * FROM s) PARTITION BY (k, l), "
            "10)) GROUP BY window_start"
        ),
        "SELECT a.x FROM s AS a JOIN r AS b WITHIN INTERVAL '5' MINUTE ON a.k = b.k",
        "SELECT a.x FROM s AS a LEFT JOIN r WITHIN (10 ROWS SLIDE 5 ROWS, 300 SLIDE 60)",
        "SELECT a.x FROM s AS a JOIN r WITHIN ((3 + 4) * 5)",
        "SELECT a.x FROM s AS a ASOF LEFT JOIN r AS b ON a.t >= b.t WITHIN 300",
        "SELECT a.x FROM s AS a JOIN r WITHIN 3 ASOF JOIN q AS b ON a.t > b.t",
        "CREATE STREAM x AS SELECT t FROM s",
    ],
)
def test_text_of_a_query_over_relations_is_kept(text):
    assert to_sql(parse_query(text)) == text


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


@pytest.mark.parametrize(
    "text",
    [
        "A B* C",
        "A*? B+? C?? D{2}? E{2,} F{0,3} G{2,5}?",
        "(A B)+ (C | D E)*",
        "A | B C | ()",
        "(A+)*",
        "((A | B) C){2}",
        "A (B C) D",
    ],
)
def test_canonical_pattern_prints_as_written(text):
    assert to_sql(parse_row_pattern(Cursor(f"({text})"))) == text
