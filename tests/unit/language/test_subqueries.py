"""Queries over the answers of queries: columns, types, times, and which are made one query."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.errors import BindError, NotSupportedError
from replay.language import bind_query, parse_query
from replay.language.bound import (
    Attribute,
    BoundCreate,
    BoundPatternQuery,
    BoundSelect,
    DataType,
    StreamRelation,
    SubqueryRelation,
    TimeWindows,
    attributes,
)
from replay.language.query_printer import to_sql
from replay.language.simplify import simplified
from replay.language.syntax import streams_of
from replay.patterns.over_filter import PASSES, to_filtered_pattern
from tests.unit.language.catalogs import bound_query, bound_select

T = DataType
HOUR = 3_600_000_000


def inner(bound: BoundSelect | BoundPatternQuery) -> SubqueryRelation:
    assert isinstance(bound.source, SubqueryRelation)
    return bound.source


def test_columns_of_a_subquery_are_those_it_gives():
    bound = bound_select("SELECT y.d + 1 AS e FROM (SELECT ts, x * 2 AS d, tags FROM s) y")
    relation = inner(bound)
    assert relation.columns == (("ts", T.TIMESTAMP), ("d", T.DOUBLE), ("tags", None))
    assert relation.time == "ts"
    assert isinstance(relation.query, BoundSelect)
    assert isinstance(relation.query.source, StreamRelation)
    with pytest.raises(BindError, match="no column 'x'"):
        bound_select("SELECT x FROM (SELECT ts, x * 2 AS d FROM s)")


def test_windows_over_a_subquery():
    bound = bound_select(
        "SELECT window_start, MAX(d) FROM TABLE(TUMBLE(TABLE (SELECT ts AS at, x * 2 AS d FROM s "
        "WHERE k = 'a'), DESCRIPTOR(at), 1 HOUR)) GROUP BY window_start"
    )
    assert inner(bound).time == "at"
    assert bound.windows == TimeWindows(HOUR, HOUR, 0)


@pytest.mark.parametrize("time", ["window_start", "window_end"])
def test_windows_ascend_by_both_of_their_columns(time):
    bound = bound_query(
        "SELECT * FROM (SELECT window_start, window_end, MAX(x) AS m FROM "
        "TABLE(HOP(TABLE s, DESCRIPTOR(ts), 1 HOUR, 2 HOURS)) GROUP BY window_start, window_end) "
        f"MATCH_RECOGNIZE (ORDER BY {time} MEASURES A.m AS m PATTERN (A B+) WITHIN 1 DAY "
        "DEFINE B AS m > PREV(m))"
    )
    assert isinstance(bound, BoundPatternQuery)
    assert bound.time == time
    assert bound.time_type is T.TIMESTAMP
    assert inner(bound).time == time


def test_order_makes_a_column_the_time():
    bound = bound_select(
        "SELECT COUNT(*) FROM TUMBLE(TABLE (SELECT t, x FROM whole_memory ORDER BY t), "
        "DESCRIPTOR(t), 5) GROUP BY window_end"
    )
    assert inner(bound).time == "t"
    with pytest.raises(BindError, match="do not ascend by 't'"):
        bound_select(
            "SELECT COUNT(*) FROM TUMBLE(TABLE (SELECT t, x FROM whole_memory ORDER BY x), "
            "DESCRIPTOR(t), 5) GROUP BY window_end"
        )


def test_rows_of_a_table_in_memory_may_take_any_column_for_their_time():
    bound = bound_query(
        "SELECT * FROM (SELECT * FROM (SELECT ts, n FROM memory) WHERE n > 1) MATCH_RECOGNIZE "
        "(ORDER BY ts MEASURES A.n AS n PATTERN (A))"
    )
    assert isinstance(bound, BoundPatternQuery)
    assert inner(bound).time == "ts"
    windows = "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE ({}), DESCRIPTOR(t), 5)) GROUP BY window_end"
    assert inner(bound_select(windows.format("SELECT t FROM whole_memory LIMIT 3"))).time == "t"
    with pytest.raises(BindError, match="do not ascend by 't'"):
        bound_select(windows.format("SELECT t FROM whole_memory ORDER BY x"))
    with pytest.raises(BindError, match="do not ascend by 't'"):
        bound_select(windows.format("SELECT t FROM whole_memory GROUP BY t"))


def times_of(match: str, outer: str = "SELECT *") -> str | None:
    """Return the time of the answer of a pattern query, read through a filter."""
    return bound_select(f"SELECT * FROM ({outer} FROM s MATCH_RECOGNIZE ({match}))").time


@pytest.mark.parametrize(
    ("match", "time"),
    [
        # Matches come in the order of their first rows.
        ("ORDER BY ts MEASURES FIRST(ts) AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)", "b"),
        ("ORDER BY ts MEASURES A.ts AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)", "b"),
        ("PARTITION BY k ORDER BY ts MEASURES A.ts AS b PATTERN (A B)", "b"),
        # The last of several rows of A is not the first row.
        ("PARTITION BY k ORDER BY ts MEASURES A.ts AS b PATTERN (A+ B)", None),
        ("PARTITION BY k ORDER BY ts MEASURES A.ts AS b PATTERN (A B A)", None),
        # Matches that may overlap do not end in their order.
        ("ORDER BY ts MEASURES LAST(ts) AS e AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+)", None),
        ("PARTITION BY k ORDER BY ts MEASURES LAST(ts) AS e PATTERN (A B+)", None),
        ("ORDER BY ts MEASURES LAST(ts) AS e PATTERN (A B+) SEMANTICS SKIP TILL ANY", None),
        # Matches that do not overlap do.
        ("ORDER BY ts MEASURES LAST(ts) AS e PATTERN (A B+)", "e"),
        ("ORDER BY ts MEASURES B.ts AS e PATTERN (A (B | C B))", "e"),
        ("ORDER BY ts MEASURES B.ts AS e PATTERN (A B+)", "e"),
        # A row that a match may not have has no time.
        ("ORDER BY ts MEASURES B.ts AS e PATTERN (A B*)", None),
        ("ORDER BY ts MEASURES B.ts AS e PATTERN (A (B | C))", None),
        ("ORDER BY ts MEASURES LAST(ts) AS e PATTERN (A*)", None),
        # Another row than one of the match, or a computed time.
        ("ORDER BY ts MEASURES NEXT(ts) AS e PATTERN (A B)", None),
        ("ORDER BY ts MEASURES FIRST(ts) + 1 HOUR AS e PATTERN (A B)", None),
        ("ORDER BY ts ALL ROWS PER MATCH PATTERN (A B)", "ts"),
        ("ORDER BY ts ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)", None),
        ("PARTITION BY k ORDER BY ts ALL ROWS PER MATCH PATTERN (A B)", None),
    ],
)
def test_time_of_matches_is_a_measure_by_which_they_ascend(match, time):
    assert times_of(match) == time


def test_outer_query_carries_the_time_of_matches_on():
    match = "ORDER BY ts MEASURES FIRST(ts) AS b, LAST(x) AS x PATTERN (A B)"
    assert times_of(match, "SELECT x, b AS began") == "began"
    assert bound_select(
        f"SELECT * FROM (SELECT b, x + 1 AS y FROM s MATCH_RECOGNIZE ({match}) WHERE x > 3)"
    ).columns == (("b", T.TIMESTAMP), ("y", T.DOUBLE))
    assert times_of(match, "SELECT MAX(b) AS b") is None


def test_created_stream_takes_the_time_of_its_query():
    bound = bound_query("CREATE STREAM fast AS SELECT ts AS at, x FROM s WHERE x > 80")
    assert isinstance(bound, BoundCreate)
    assert (bound.name, bound.time) == ("fast", "at")
    assert isinstance(bound.query, BoundSelect)
    matches = bound_query(
        "CREATE STREAM rises AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts "
        "MEASURES FIRST(ts) AS began PATTERN (A B) DEFINE B AS x > PREV(x))"
    )
    assert isinstance(matches, BoundCreate)
    assert matches.time == "began"
    with pytest.raises(BindError, match="needs a time"):
        bound_query("CREATE STREAM fast AS SELECT x FROM s")


def test_streams_of_a_query_are_all_it_reads_once():
    text = (
        "CREATE STREAM y AS SELECT * FROM (SELECT * FROM b JOIN TABLES AS c WITHIN 3 ASOF JOIN b d "
        "ON b.t >= d.t) MATCH_RECOGNIZE (ORDER BY t PATTERN (A))"
    )
    assert streams_of(parse_query(text)) == ("b", "TABLES")
    windows = "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(t), 3)) GROUP BY window_end"
    assert streams_of(parse_query(windows)) == ("w",)


def test_with_gives_a_subquery_a_name():
    named = parse_query(
        "WITH a AS (SELECT ts, x FROM s), b AS (SELECT ts, a.x AS y FROM a) "
        "SELECT b.y, c.y AS z FROM b JOIN B c WITHIN 3 HOURS"
    )
    inside = "(SELECT ts, a.x AS y FROM (SELECT ts, x FROM s) AS a)"
    assert named == parse_query(
        f"SELECT b.y, c.y AS z FROM {inside} AS b JOIN {inside} c WITHIN 3 HOURS"
    )
    assert streams_of(named) == ("s",)


def test_name_of_with_stands_for_the_source_of_windows_and_matches_too():
    source = "WITH a AS (SELECT ts, x FROM s) "
    text = (
        f"{source} SELECT a.window_end, MAX(a.x) "
        "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), 1 HOUR)) GROUP BY a.window_end"
    )
    assert parse_query(to_sql(parse_query(text))) == parse_query(text)
    windows = bound_select(text)
    assert inner(windows).columns == (("ts", T.TIMESTAMP), ("x", T.DOUBLE))
    matches = bound_query(
        f"CREATE STREAM y AS {source} SELECT * FROM a MATCH_RECOGNIZE (ORDER BY ts "
        "MEASURES FIRST(ts) AS t PATTERN (A B))"
    )
    assert isinstance(matches, BoundCreate)
    assert isinstance(matches.query.source, SubqueryRelation)


def test_name_of_with_hides_a_stream_where_it_is_seen():
    query = parse_query("WITH s AS (SELECT * FROM s) SELECT * FROM s")
    assert query == parse_query("SELECT * FROM (SELECT * FROM s) AS s")
    inside = parse_query(
        "SELECT b.x FROM (WITH a AS (SELECT * FROM s) SELECT * FROM a) b JOIN a WITHIN 1 HOUR"
    )
    assert streams_of(inside) == ("s", "a")


def chain(length: int, inside: str) -> str:
    """Return a query whose names of WITH read each the one before."""
    names = ["s", *(f"q{i}" for i in range(length))]
    queries = [f"{names[i + 1]} AS ({inside.format(names[i])})" for i in range(length)]
    return f"WITH {', '.join(queries)} SELECT * FROM {names[-1]}"


def test_queries_may_nest_and_read_so_much():
    assert inner(bound_select(chain(30, "SELECT ts FROM {}"))).time == "ts"
    # 2 ** 7 streams are read by a chain of seven joins with themselves.
    twice = "SELECT a.ts FROM {0} a JOIN {0} b WITHIN 1 HOUR"
    assert bound_select(chain(7, twice)).columns == (("ts", T.TIMESTAMP),)
    for text in (chain(31, "SELECT ts FROM {}"), chain(8, twice), nested(31)):
        with pytest.raises(NotSupportedError, match="over 200 streams or nests over 30 subqueries"):
            parse_query(text)
    assert bound_select(nested(30)).time == "ts"


def nested(levels: int) -> str:
    return "SELECT * FROM " + "(SELECT * FROM " * levels + "s" + ")" * levels


def test_subquery_passes_parameters_and_places_of_errors():
    text = "SELECT * FROM (SELECT ts FROM s\n WHERE y > :low)"
    with pytest.raises(BindError, match="no attribute 'y'") as raised:
        bound_select(text, low=1)
    assert (raised.value.line, raised.value.column) == (2, 8)
    bound = bound_select(text.replace("y >", "x >"), low=1)
    query = inner(bound).query
    assert isinstance(query, BoundSelect)
    assert Attribute("x", T.DOUBLE) in getattr(query.outer.where, "args", ())


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


MATCHES = "s MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS at, A.x AS x PATTERN (A) {})"


@pytest.mark.parametrize(
    ("around", "inside"),
    [
        (
            "SELECT high FROM (SELECT at, x * 2 AS high FROM {} WHERE x > 1) WHERE high < 9",
            "SELECT x * 2 AS high FROM {} WHERE x > 1 AND x * 2 < 9",
        ),
        ("SELECT * FROM (SELECT * FROM {}) LIMIT 3 OFFSET 2", "SELECT * FROM {} LIMIT 3 OFFSET 2"),
        (
            "SELECT DISTINCT x FROM (SELECT at, x FROM {}) ORDER BY x",
            "SELECT DISTINCT x FROM {} ORDER BY x",
        ),
    ],
)
def test_a_query_around_matches_is_one_with_that_of_the_matches(around: str, inside: str) -> None:
    matches = MATCHES.format("DEFINE A AS x > 0")
    merged = simplified(bound_query(around.format(matches)))
    assert merged == simplified(bound_query(inside.format(matches)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x) AS x FROM (SELECT x FROM {})",
        "SELECT x FROM (SELECT x FROM {} LIMIT 3) WHERE x > 1",
        "SELECT x FROM (SELECT DISTINCT x FROM {}) WHERE x > 1",
    ],
)
def test_sums_over_matches_and_conditions_behind_a_limit_stay_around_them(sql: str) -> None:
    bound = simplified(bound_query(sql.format(MATCHES.format("DEFINE A AS x > 0"))))
    assert isinstance(bound, BoundSelect)


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
