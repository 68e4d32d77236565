"""Whatever is given, the answer is a query or a stated error."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import QueryError
from replay.language import bind, bind_query, parse_query
from replay.language.bound import Attribute, Call, Literal, walk
from tests.query_printer import to_sql
from tests.unit.language.syntax_strategies import creations, pattern_queries, queries

_WORDS = """
SELECT * FROM s MATCH_RECOGNIZE ( PARTITION BY ORDER t MEASURES x AS y ONE ROW PER MATCH ALL ROWS
AFTER MATCH SKIP TO NEXT PAST LAST FIRST A B PATTERN WITHIN 5 MINUTES DEFINE AND OR NOT BETWEEN IN
LIKE IS NULL CASE WHEN THEN ELSE END CAST PREV CLASSIFIER INTERVAL '1' DATE TIMESTAMP ) ( ) , . ; |
* + ? { } {- -} ^ $ ! = <> < - / % || :p "q" LIMIT SUBSET U = RUNNING FINAL 1.5 COUNT ( * ) SUM
DISTINCT PERMUTE SEMANTICS TILL ANY CONTIGUOUS WITH TIMEOUTS UNMATCHED SHOW EMPTY MATCHES EXTRACT
"""
_RELATION_WORDS = """
SELECT * FROM s r AS a b JOIN LEFT ASOF ON USING WITHIN ROWS SLIDE 5 MINUTES a.x = b.x >= a.t b.t (
) , ( SELECT * FROM s ) TABLE ( HOP ( TUMBLE ( HOP_ROWS ( TABLE s , DESCRIPTOR ( t ) PARTITION BY x
3 10 SIZE => ORIGIN => ) ) WHERE x > 1 GROUP BY window_start window_end HAVING COUNT ( * ) ORDER BY
MATCH_RECOGNIZE ( ORDER BY t PATTERN ( A ) ) CREATE STREAM CROSS UNION FIRST ( x ) MEDIAN
"""
RELATION_WORDS = _RELATION_WORDS.split()
WORDS = _WORDS.split()
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


@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_any_words_parse_or_fail_with_a_place(words):
    outcome(" ".join(words))


@given(
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.lists(st.sampled_from(WORDS), max_size=12),
)
def test_any_words_inside_a_query_parse_or_fail_with_a_place(measures, pattern, define):
    outcome(
        f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES x AS y {' '.join(measures)} "
        f"PATTERN (A {' '.join(pattern)}) DEFINE A AS {' '.join(define)})"
    )


@given(st.lists(st.sampled_from(RELATION_WORDS), max_size=25))
def test_any_words_after_from_parse_or_fail_with_a_place(words):
    outcome(f"SELECT * FROM {' '.join(words)}")


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
