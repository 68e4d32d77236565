"""Law: a legal query over relations binds, prints, and its aggregation keeps its invariants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replay.language import parse_query
from replay.language.aggregation import to_aggregation
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    BoundSelect,
    Expression,
    WholeRange,
    attributes,
    walk,
)
from tests.query_printer import to_sql
from tests.unit.language.catalogs import SCHEMA, bound_query

COLUMNS = frozenset(SCHEMA.names)
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
    assert {a.name for part in inside for a in attributes(part)} <= COLUMNS
    assert tuple(expression.type for _, expression in what.rest.items) == tuple(
        data_type for _, data_type in bound.columns
    )
