"""The aggregation inside a select: keys, aggregates, and what is done with its rows."""

from __future__ import annotations

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
