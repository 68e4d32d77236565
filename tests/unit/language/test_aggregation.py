"""The aggregation inside a select: keys, aggregates, columns it reads, laws of legal queries."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.language import bind_query, parse_query
from replay.language.aggregation import to_aggregation
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Attribute,
    BoundSelect,
    Call,
    DataType,
    Expression,
    Literal,
    Outer,
    SortKey,
    TimeWindows,
    WholeRange,
    WindowAggregation,
    attributes,
    walk,
)
from replay.language.query_printer import to_sql
from replay.language.required_columns import columns_of_query
from tests.unit.language.catalogs import END, SCHEMA, START, K, N, X, bound_query, bound_select

T = DataType
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
    assert what.windows == TimeWindows(HOUR, HOUR, 0)
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


FOUR = pa.schema([(name, pa.int64()) for name in ("t", "a", "b", "k")])


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
    bound = bind_query(parse_query(sql), lambda _: (FOUR, "t"), text=sql, params={})
    assert columns_of_query(bound) == tuple(read)


COLUMNS_OF_S = frozenset(SCHEMA.names)
WINDOW_NAMES = {WINDOW_START, WINDOW_END}


def draws(*parts):
    """Return texts put together of texts and strategies."""
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map("".join)


def optional(*parts):
    return st.just("") | draws(*parts)


def several(texts, *, least=1, most=3):
    return st.lists(texts, min_size=least, max_size=most, unique=True).map(", ".join)


values = st.sampled_from(["x", "n", "n + 1", "x * 2.0", "abs(x)", "COALESCE(n, 0)"])
conditions = st.sampled_from(["x > 1", "n IN (1, 2)", "k = 'a' OR x < 3", "NOT n = 1"])
aggregates = st.one_of(
    st.just("COUNT(*)"),
    draws(
        st.sampled_from(["SUM", "AVG", "MIN", "MAX", "STDDEV", "MEDIAN", "FIRST"]), "(", values, ")"
    ),
    draws("COUNT(DISTINCT ", values, ")"),
    draws("APPROX_PERCENTILE(", values, ", 0.9)"),
)
totals = st.one_of(aggregates, draws(aggregates, " + 1"), draws("abs(", aggregates, " - 1)"))

sources = st.sampled_from(
    [
        "s",
        "(SELECT * FROM s WHERE n = 1)",
        "(SELECT ts, k, n, x * 2 AS x FROM s ORDER BY ts, x)",
        "(SELECT ts, k, x + 1 AS x, n FROM (SELECT * FROM s) LIMIT 10)",
        "(SELECT a.ts, a.k, b.x, b.n FROM s a ASOF JOIN r b ON a.k = b.k AND a.ts >= b.ts)",
        "(SELECT join_time AS ts, a.k, b.x, b.n FROM s a JOIN r b WITHIN 1 HOUR ON a.k = b.k)",
        (
            "(SELECT began AS ts, k, x, n FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts "
            "MEASURES A.ts AS began, LAST(x) AS x, SUM(n) AS n PATTERN (A B+) DEFINE B AS x > 1))"
        ),
    ]
)
windows = st.one_of(
    draws("HOP(TABLE ", sources, ", DESCRIPTOR(ts), 7 MINUTES, 1 HOUR)"),
    draws("TUMBLE(TABLE ", sources, ", DESCRIPTOR(ts), 1 DAY, TIMESTAMP '2020-01-01')"),
    draws("CUMULATE(TABLE ", sources, ", DESCRIPTOR(ts), 1 HOUR, 1 DAY)"),
    draws("SESSION(TABLE ", sources, " PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)"),
    draws("TUMBLE_ROWS(TABLE ", sources, " PARTITION BY (k, n), 10)"),
)
after = draws(
    optional(" HAVING ", totals, " > 1"),
    optional(" ORDER BY ", several(totals, most=2), " DESC"),
    optional(" LIMIT 3"),
)
keyed = draws(
    "SELECT ",
    several(st.sampled_from(["k", "n", "n + 1", "k || 'b'"]), least=0),
    st.just(""),
).map(lambda text: text if text.endswith(" ") else f"{text}, ")
whole = draws(
    keyed,
    several(totals),
    " FROM ",
    sources,
    optional(" WHERE ", conditions),
    " GROUP BY k, n",
    after,
)
windowed = draws(
    keyed,
    "window_end, window_end - window_start, ",
    several(totals),
    " FROM TABLE(",
    windows,
    ")",
    optional(" WHERE ", conditions),
    " GROUP BY window_start, window_end, k, n, date_trunc('day', window_start)",
    after,
)


def parts_of(expressions: list[Expression]) -> list[Expression]:
    return [part for expression in expressions for part in walk(expression)]


@given(whole | windowed)
def test_rest_of_an_aggregation_reads_only_what_it_gives(text):
    assert to_sql(parse_query(to_sql(parse_query(text)))) == to_sql(parse_query(text))
    bound = bound_query(text)
    assert isinstance(bound, BoundSelect)
    what = to_aggregation(bound)
    assert what is not None
    given_names = {*what.key_names, *what.aggregate_names}
    assert len(given_names) == len(what.key_names) + len(what.aggregate_names)
    assert not given_names & WINDOW_NAMES
    if not isinstance(what.windows, WholeRange):
        given_names |= WINDOW_NAMES
    rest = [expression for _, expression in what.rest.items]
    rest += [key.expression for key in what.rest.order_by]
    rest += [] if what.rest.where is None else [what.rest.where]
    assert not any(isinstance(part, Aggregate) for part in parts_of(rest))
    assert {a.name for part in rest for a in attributes(part)} <= given_names
    inside = [*what.keys, *what.aggregates, *([] if what.where is None else [what.where])]
    assert {a.name for part in inside for a in attributes(part)} <= COLUMNS_OF_S
    assert tuple(expression.type for _, expression in what.rest.items) == tuple(
        data_type for _, data_type in bound.columns
    )
