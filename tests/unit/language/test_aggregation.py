"""The aggregation inside a select, and which columns a query reads of what stands in FROM."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.language import bind_query, parse_query
from replay.language.aggregation import to_aggregation
from replay.language.bound import (
    Aggregate,
    Attribute,
    Call,
    DataType,
    Literal,
    Outer,
    SortKey,
    TimeWindows,
    WholeRange,
    WindowAggregation,
)
from replay.language.required_columns import columns_of_query
from tests.unit.language.catalogs import bound_select

T = DataType
K, N, X = (
    Attribute("k", T.STRING),
    Attribute("n", T.INTEGER),
    Attribute("x", T.DOUBLE),
)
START, END = Attribute("window_start", T.TIMESTAMP), Attribute("window_end", T.TIMESTAMP)
COUNT = Aggregate("count", None, None, T.INTEGER)
MAX = Aggregate("max", X, None, T.DOUBLE)
HOURS = "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 1 HOUR))"
HOUR = 3_600_000_000


def aggregation(text: str) -> WindowAggregation:
    found = to_aggregation(bound_select(text))
    assert found is not None
    return found


def test_filter_is_no_aggregation():
    assert to_aggregation(bound_select("SELECT x FROM s WHERE x > 1 ORDER BY x")) is None


def test_aggregate_without_windows_is_over_the_whole_range():
    what = aggregation("SELECT k, COUNT(*) AS c FROM s WHERE n = 1 GROUP BY k")
    assert what == WindowAggregation(
        windows=WholeRange(),
        time="ts",
        where=Call("=", (N, Literal(1, T.INTEGER)), T.BOOLEAN),
        keys=(K,),
        key_names=("k",),
        aggregates=(COUNT,),
        aggregate_names=("c",),
        rest=what.rest,
    )
    assert what.rest == Outer((("k", K), ("c", Attribute("c", T.INTEGER))))


def test_table_in_memory_may_have_no_time():
    assert aggregation("SELECT COUNT(*) FROM memory").time == ""


def test_each_aggregate_is_computed_once_and_the_rest_reads_its_column():
    what = aggregation(
        f"SELECT window_start AS at, MAX(x) - 1 AS less, MAX(x) AS m {HOURS} "
        "GROUP BY window_start HAVING MAX(x) > 3 AND COUNT(*) > 2 ORDER BY COUNT(*) DESC LIMIT 5"
    )
    m, count = Attribute("m", T.DOUBLE), Attribute("count(*)", T.INTEGER)
    assert what.windows == TimeWindows(HOUR, HOUR)
    assert what.keys == ()
    assert (what.aggregates, what.aggregate_names) == ((MAX, COUNT), ("m", "count(*)"))
    above = Call(">", (m, Literal(3.0, T.DOUBLE)), T.BOOLEAN)
    often = Call(">", (count, Literal(2, T.INTEGER)), T.BOOLEAN)
    less = Call("-", (m, Literal(1.0, T.DOUBLE)), T.DOUBLE)
    assert what.rest == Outer(
        items=(("at", START), ("less", less), ("m", m)),
        where=Call("and", (above, often), T.BOOLEAN),
        order_by=(SortKey(count, descending=True),),
        limit=5,
    )


def test_key_computed_from_the_window_alone_is_computed_by_the_rest():
    what = aggregation(
        f"SELECT window_end - window_start AS length, n + 1 AS next, COUNT(*) {HOURS} "
        "GROUP BY window_start, window_end - window_start, n + 1"
    )
    after = Call("+", (N, Literal(1, T.INTEGER)), T.INTEGER)
    assert (what.keys, what.key_names) == ((after,), ("next",))
    assert what.rest.items[0] == ("length", Call("-", (END, START), T.INTERVAL))
    assert what.rest.items[1] == ("next", Attribute("next", T.INTEGER))


def test_names_of_keys_and_aggregates_differ_from_each_other_and_from_windows():
    what = aggregation(
        f"SELECT k AS window_end, MAX(x) AS k, SUM(n) + 0 AS y, AVG(n) + 0.0 AS z {HOURS} "
        "GROUP BY window_start, k, n HAVING COUNT(x) > COUNT(n + 1)"
    )
    assert what.key_names == ("window_end_2", "n")
    assert what.aggregate_names == ("k", "sum(n)", "avg(n)", "count(x)", "count(…)")
    names = (*what.key_names, *what.aggregate_names, "window_start", "window_end")
    assert len(set(names)) == len(names)
    assert what.rest.items[:2] == (
        ("window_end", Attribute("window_end_2", T.STRING)),
        ("k", Attribute("k", T.DOUBLE)),
    )


SCHEMA = pa.schema([(name, pa.int64()) for name in ("t", "a", "b", "k")])


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        pytest.param("SELECT a FROM s WHERE b > 0 ORDER BY k", "abk", id="a filter"),
        pytest.param("SELECT SUM(a) FROM s WHERE b > 0", "ab", id="an aggregate, but no time"),
        pytest.param("SELECT k, COUNT(*) FROM s GROUP BY k", "k", id="a key"),
        pytest.param(
            "SELECT window_start, SUM(a) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5)) "
            "GROUP BY window_start, window_end",
            "at",
            id="windows of time",
        ),
        pytest.param(
            "SELECT window_start FROM TABLE(HOP_ROWS(TABLE s PARTITION BY (k), DESCRIPTOR(t), 1, 2)"
            ") GROUP BY window_start, window_end, k",
            "kt",
            id="windows of rows of a key",
        ),
        pytest.param(
            "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.a AS m "
            "PATTERN (A B) DEFINE B AS B.b > 0)",
            "abkt",
            id="a pattern",
        ),
    ],
)
def test_a_query_reads_the_columns_it_needs(sql: str, read: str) -> None:
    bound = bind_query(parse_query(sql), lambda _: (SCHEMA, "t"), text=sql, params={})
    assert columns_of_query(bound) == tuple(read)
