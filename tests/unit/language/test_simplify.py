"""Subqueries that only filter and project are made one with the query around; others stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.language import bind_query, parse_query
from replay.language.bound import (
    BoundPatternQuery,
    BoundSelect,
    StreamRelation,
    SubqueryRelation,
    attributes,
)
from replay.language.simplify import simplified
from replay.patterns.over_filter import PASSES, to_filtered_pattern

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("x", pa.float64()), ("k", pa.string())])


def simple(sql: str) -> BoundSelect | BoundPatternQuery:
    bound = bind_query(parse_query(sql), lambda _: (SCHEMA, "t"), text=sql)
    assert isinstance(bound, BoundSelect | BoundPatternQuery)
    return simplified(bound)


def test_conditions_of_both_are_asked_of_the_stream() -> None:
    query = simple(
        "SELECT b FROM (SELECT t, 2 * a AS b FROM (SELECT * FROM s WHERE x > 1) WHERE a < 5) "
        "WHERE b > 3 ORDER BY t DESC LIMIT 2"
    )

    assert isinstance(query, BoundSelect)
    assert isinstance(query.source, StreamRelation)
    assert query.outer.where is not None
    assert {part.name for part in attributes(query.outer.where)} == {"x", "a"}
    assert [name for name, _ in query.outer.items] == ["b"]
    assert query.outer.limit == 2


def test_an_order_the_rows_have_anyway_is_no_hindrance() -> None:
    query = simple("SELECT a FROM (SELECT * FROM s ORDER BY t) WHERE a > 1")
    assert isinstance(query.source, StreamRelation)


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT DISTINCT t, a FROM s",
        "SELECT t, a FROM s LIMIT 5",
        "SELECT t, a FROM s LIMIT 9 OFFSET 1",
        "SELECT t, a FROM s ORDER BY a",
        "SELECT MAX(t) AS t, MAX(a) AS a FROM s",
        (
            "SELECT window_start AS t, COUNT(*) AS a FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5)) "
            "GROUP BY window_start, window_end"
        ),
    ],
)
def test_a_subquery_whose_rows_depend_on_others_stays(inner: str) -> None:
    query = simple(f"SELECT a FROM ({inner}) WHERE a > 2")
    assert isinstance(query.source, SubqueryRelation)


WINDOWS = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE({}) WHERE b > 1 "
    "GROUP BY window_start, window_end{}"
)


def test_windows_over_a_projection_are_windows_over_the_stream() -> None:
    inner = "(SELECT t AS time, 2 * a AS b, k AS key FROM s)"
    hop = simple(WINDOWS.format(f"HOP(TABLE {inner}, DESCRIPTOR(time), 2, 5)", ""))
    assert isinstance(hop, BoundSelect)
    assert isinstance(hop.source, StreamRelation)
    assert hop.source.time == "t"
    sessions = f"SESSION(TABLE {inner} PARTITION BY key, DESCRIPTOR(time), 5)"
    session = simple(WINDOWS.format(sessions, ", key"))
    assert isinstance(session, BoundSelect)
    assert session.windows is not None
    assert getattr(session.windows, "partition_by", None) == ("k",)


def test_windows_over_a_filter_or_another_time_stay_over_it() -> None:
    filtered = "HOP(TABLE (SELECT t, a AS b FROM s WHERE x > 1), DESCRIPTOR(t), 2, 5)"
    assert isinstance(simple(WINDOWS.format(filtered, "")).source, SubqueryRelation)


def test_windows_by_a_time_that_the_source_does_not_know_stay_over_the_subquery() -> None:
    sql = WINDOWS.format("HOP(TABLE (SELECT t, a AS b FROM m), DESCRIPTOR(t), 2, 5)", "")
    bound = bind_query(parse_query(sql), lambda _: (SCHEMA, None), text=sql)
    assert isinstance(bound, BoundSelect)
    assert isinstance(simplified(bound).source, SubqueryRelation)


MATCH = "SELECT * FROM ({}) MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A B) {})"


def test_a_pattern_over_selected_columns_is_one_over_the_stream() -> None:
    query = simple(MATCH.format("SELECT t, a FROM s", "DEFINE B AS B.a > A.a"))
    assert isinstance(query, BoundPatternQuery)
    assert (query.source, query.stream) == (None, "s")
    renamed = simple(MATCH.format("SELECT t, a AS b FROM s", "DEFINE B AS B.b > A.b"))
    assert isinstance(renamed.source, SubqueryRelation)


def test_a_pattern_over_a_filter_is_planned_with_its_condition() -> None:
    inner = "SELECT t, a FROM s WHERE x > 1"
    query = simple(MATCH.format(inner, "WITHIN 9 DEFINE B AS B.a > 3"))
    assert isinstance(query, BoundPatternQuery)

    filtered = to_filtered_pattern(query)

    assert filtered is not None
    planned, carried_out = filtered.planned, filtered.carried_out
    assert (planned.stream, planned.source) == ("s", None)
    assert planned.partition_by == carried_out.partition_by == (PASSES,)
    assert [sorted(a.name for a in attributes(d)) for d in planned.defines] == [["x"], ["a", "x"]]
    names = [sorted(a.name for a in attributes(d)) for d in carried_out.defines]
    assert names == [[PASSES], [PASSES, "a"]]


@pytest.mark.parametrize(
    ("inner", "pattern"),
    [
        ("SELECT t, a FROM s WHERE x > 1", "DEFINE B AS B.a > PREV(B.a)"),
        ("SELECT t, a AS b FROM s WHERE x > 1", "DEFINE B AS B.b > 3"),
        ("SELECT t, a FROM s WHERE x > 1 LIMIT 5", "DEFINE B AS B.a > 3"),
        ("SELECT t, a FROM s WHERE x > a", "DEFINE B AS B.a > A.a"),
    ],
)
def test_a_pattern_that_cannot_be_pruned_is_matched_over_the_rows_it_gets(
    inner: str, pattern: str
) -> None:
    query = simple(MATCH.format(inner, pattern))
    assert isinstance(query, BoundPatternQuery)
    assert to_filtered_pattern(query) is None
