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
