"""Windowed aggregation is what DuckDB makes of the same windows written as joins."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from replay.language.bound import (
    Calendar,
    CumulateWindows,
    RowWindows,
    SessionWindows,
    TimeWindows,
    WindowAggregation,
)
from tests.window_cases import (
    COUNT,
    DAY_US,
    STRING,
    K,
    N,
    S,
    X,
    agg,
    aggregation,
    run,
    seeds,
    to_rows,
)

duckdb = pytest.importorskip("duckdb")

AGGREGATES = (
    COUNT,
    agg("count", X),
    agg("sum", X),
    agg("avg", X),
    agg("min", X),
    agg("max", X),
    agg("var_pop", X),
    agg("stddev_samp", X),
    agg("sum", N),
    agg("min", S, STRING),
    agg("max", S, STRING),
    agg("count", S, distinct=True),
    agg("sum", N, distinct=True),
    agg("avg", X, distinct=True),
    agg("stddev_samp", X, distinct=True),
    agg("first", N),
    agg("last", N),
    agg("percentile", X, fraction=0.5),
    agg("percentile", X, fraction=0.9),
)
SELECTED = """
count(seq), count(x), sum(x), avg(x), min(x), max(x), var_pop(x), stddev_samp(x), sum(i)::BIGINT,
min(s), max(s), count(DISTINCT s), sum(DISTINCT i)::BIGINT, avg(DISTINCT x),
stddev_samp(DISTINCT x), arg_min_null(i, seq), arg_max_null(i, seq),
quantile_cont(x, 0.5), quantile_cont(x, 0.9)
"""


def tame_table(random: Random) -> pa.Table:
    n = random.choice((1, 5, 40, 80))
    time = random.randint(-30, 30)
    rows = []
    for _ in range(n):
        time += random.choice((0, 0, 1, 2, 3, 25))
        row = {
            "t": time,
            "x": random.uniform(-10, 10),
            "i": random.randint(-5, 5),
            "s": random.choice(("", "a", "b", "ß", "Z")),
            "k": random.randint(0, 2),
        }
        rows.append({k: v if k == "t" or random.random() < 0.8 else None for k, v in row.items()})
    types = {"t": pa.int64(), "x": pa.float64(), "i": pa.int64(), "s": pa.string(), "k": pa.int8()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))


def answer_of_duckdb(sql: str, table: pa.Table) -> list[tuple[Any, ...]]:
    numbered = table.append_column("seq", pa.array(range(table.num_rows), pa.int64()))
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
        connection.register("events", numbered)
        return to_rows(connection.sql(sql).to_arrow_table())


def assert_close(what: WindowAggregation, table: pa.Table, sql: str) -> None:
    mine, theirs = run(what, table)[0], answer_of_duckdb(sql, table)
    assert len(mine) == len(theirs), (mine, theirs)
    for one, other in zip(mine, theirs, strict=True):
        for got, expected in zip(one, other, strict=True):
            if isinstance(expected, float):
                assert got is not None
                assert math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9), (one, other)
            else:
                assert got == expected, (one, other)


@settings(max_examples=25)
@given(seeds)
def test_hop_windows_are_those_of_duckdb(random: Random) -> None:
    size = random.randint(1, 20)
    slide, origin = random.randint(1, size), random.choice((None, random.randint(-99, 99)))
    sql = f"""
    WITH span AS (SELECT min(t) AS low, max(t) AS high FROM events),
    begun AS (SELECT {"low" if origin is None else origin} + n * {slide} AS ws FROM span,
              generate_series(-400::BIGINT, 700::BIGINT) AS g(n))
    SELECT ws, ws + {size}, {SELECTED}
    FROM (SELECT ws FROM begun, span WHERE ws <= high AND ws + {size} > low)
    LEFT JOIN events ON t >= ws AND t < ws + {size} GROUP BY ws ORDER BY ws
    """

    assert_close(
        aggregation(TimeWindows(size, slide, origin), *AGGREGATES), tame_table(random), sql
    )


@settings(max_examples=25)
@given(seeds)
def test_windows_by_key_are_those_of_duckdb(random: Random) -> None:
    size = random.randint(1, 20)
    slide = random.randint(1, size)
    sql = f"""
    WITH span AS (SELECT k, min(t) AS low, max(t) AS high FROM events GROUP BY k),
    begun AS (SELECT (SELECT min(t) FROM events) + n * {slide} AS ws
              FROM generate_series(-30::BIGINT, 700::BIGINT) AS g(n)),
    windows AS (SELECT ws, k FROM begun, span WHERE ws <= high AND ws + {size} > low)
    SELECT ws, ws + {size}, windows.k, {SELECTED}
    FROM windows LEFT JOIN events
      ON t >= ws AND t < ws + {size} AND events.k IS NOT DISTINCT FROM windows.k
    GROUP BY ws, windows.k ORDER BY ws, windows.k NULLS LAST
    """

    what = aggregation(TimeWindows(size, slide), *AGGREGATES, keys=(K,))
    assert_close(what, tame_table(random), sql)


@settings(max_examples=25)
@given(seeds)
def test_cumulated_windows_are_those_of_duckdb(random: Random) -> None:
    step, n_steps = random.randint(1, 6), random.randint(1, 5)
    size = step * n_steps
    sql = f"""
    WITH span AS (SELECT min(t) AS low, max(t) AS high FROM events),
    windows AS (SELECT n * {size} AS ws, n * {size} + m * {step} AS we
                FROM generate_series(-99::BIGINT, 700::BIGINT) AS g(n),
                     generate_series(1::BIGINT, {n_steps}::BIGINT) AS h(m))
    SELECT ws, we, {SELECTED}
    FROM (SELECT ws, we FROM windows, span WHERE ws <= high AND we > low)
    LEFT JOIN events ON t >= ws AND t < we GROUP BY ws, we ORDER BY ws, we
    """

    what = aggregation(CumulateWindows(step, size, 0), *AGGREGATES)
    assert_close(what, tame_table(random), sql)


@settings(max_examples=25)
@given(seeds)
def test_sessions_are_those_of_duckdb(random: Random) -> None:
    gap = random.randint(1, 5)
    sql = f"""
    WITH cut AS (SELECT *, coalesce(t - lag(t) OVER (PARTITION BY k ORDER BY seq) >= {gap}, FALSE)
                        AS is_new FROM events),
    numbered AS (SELECT *, count_if(is_new) OVER (PARTITION BY k ORDER BY seq) AS n FROM cut)
    SELECT min(t), max(t) + {gap}, k, {SELECTED}
    FROM numbered GROUP BY k, n ORDER BY min(t), max(t), k NULLS LAST
    """

    what = aggregation(SessionWindows(gap, ("k",)), *AGGREGATES, keys=(K,))
    assert_close(what, tame_table(random), sql)


@settings(max_examples=25)
@given(seeds)
def test_windows_of_rows_are_those_of_duckdb(random: Random) -> None:
    size = random.randint(1, 9)
    slide = random.randint(1, size)
    sql = f"""
    WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY k ORDER BY seq) - 1 AS n
                      FROM events),
    windows AS (SELECT m * {slide} AS low FROM generate_series(0::BIGINT, 100::BIGINT) AS g(m))
    SELECT min(t), max(t), k, {SELECTED}
    FROM windows JOIN numbered ON n >= low AND n < low + {size}
    GROUP BY k, low HAVING count(seq) = {size} ORDER BY min(t), max(t), k NULLS LAST, low
    """

    what = aggregation(RowWindows(size, slide, ("k",)), *AGGREGATES, keys=(K,))
    assert_close(what, tame_table(random), sql)


def table_of_days(random: Random) -> pa.Table:
    """Return events of some years, hours to months apart."""
    hours = 24 * 365 * random.randint(30, 45)
    times = []
    for _ in range(random.choice((1, 30, 80))):
        hours += random.choice((0, 1, 5, 23, 100, 2000))
        times.append(hours * 3_600_000_000 + random.randint(0, 3_600_000_000 - 1))
    return pa.table({"t": sorted(times)})


@settings(max_examples=25)
@given(seeds)
def test_weeks_months_and_days_of_a_zone_are_the_buckets_of_duckdb(random: Random) -> None:
    table = table_of_days(random)
    zone, n = random.choice(("America/Chicago", "Australia/Sydney")), random.randint(1, 14)
    months, days = f"INTERVAL '{n} months'", f"INTERVAL '{n} days'"
    calendar = Calendar(of_months=False, zone=zone)
    bucket, windows = random.choice(
        (
            (
                f"time_bucket({months}, ts, TIMESTAMP '1970-01-01')",
                TimeWindows(n, n, 0, Calendar(of_months=True)),
            ),
            (
                f"time_bucket({months}, ts::TIMESTAMPTZ, '{zone}')",
                TimeWindows(n, n, 12 * 30, replace(calendar, of_months=True)),
            ),
            (  # which counts from Monday, 2000-01-03
                f"time_bucket({days}, ts::TIMESTAMPTZ, '{zone}')",
                TimeWindows(n, n, 10959, calendar),
            ),
            ("date_trunc('week', ts)", TimeWindows(7 * DAY_US, 7 * DAY_US, 4 * DAY_US)),
        )
    )
    sql = f"""SELECT epoch_us({bucket}) AS ws, count(*) FROM (SELECT make_timestamp(t) AS ts
    FROM events) GROUP BY ws ORDER BY ws"""
    found, error = run(aggregation(windows, COUNT), table)
    assert not error
    assert [(start, n) for start, _, n in found if n] == answer_of_duckdb(sql, table)
