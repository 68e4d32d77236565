"""Queries over DECIMAL are what exact rational numbers and DuckDB make of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import replay
from chronicle import Store, StreamSettings
from replay.errors import PlanError
from tests.memory_stream import some_store
from tests.window_cases import seeds

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SLOW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("p", pa.decimal128(12, 2)),
        ("r", pa.decimal128(18, 6)),
        ("q", pa.int64()),
        ("k", pa.string()),
    ]
)


def some_events(random: Random) -> list[dict[str, Any]]:
    """Return events with prices of few and of many digits; some are missing."""
    n = random.choice((1, 5, 30, 60))
    large = random.choice((20, 10**9))
    rows = []
    for time in sorted(random.randint(0, 40) for _ in range(n)):
        row = {
            "p": Decimal(random.randint(-large, large)).scaleb(-2),
            "r": Decimal(random.randint(-(10**18) + 1, 10**18 - 1)).scaleb(-6),
            "q": random.randint(-3, 3),
            "k": random.choice("ab"),
        }
        kept = {name: v for name, v in row.items() if random.random() < 0.85}
        rows.append({**dict.fromkeys(row), **kept, "t": time})
    return rows


def some_literal(random: Random, rows: list[dict[str, Any]]) -> Decimal:
    """Return a constant: a price there is, or one near it that has more digits."""
    known = [row["p"] for row in rows if row["p"] is not None] or [Decimal("1.10")]
    near = random.choice((Decimal(0), Decimal("0.01"), Decimal("0.005"), Decimal("-0.000001")))
    return random.choice(known) + near


def fill(store: Store, rows: list[dict[str, Any]]) -> Store:
    stream = store.create_stream("s", SCHEMA, StreamSettings("t", block_events=4, key="k"))
    stream.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return store


def by_every_plan(store: Store, sql: str, *plans: str) -> list[tuple[Any, ...]]:
    """Return the rows of the answer, which every plan gives that can."""
    found = {}
    for plan in ("auto", *plans):
        try:
            found[plan] = replay.query(store, sql, plan=plan).table
        except PlanError:
            assert plan != "auto"
    table = found["auto"]
    assert all(other.equals(table) for other in found.values()), found
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@SLOW
@given(seeds)
def test_comparisons_with_constants_are_exact(random: Random) -> None:
    rows = some_events(random)
    op, value = random.choice(list(COMPARISONS)), some_literal(random, rows)
    low, high = sorted([some_literal(random, rows), some_literal(random, rows)])
    with some_store(random.random()) as store:
        fill(store, rows)
        for condition, holds in (
            (f"p {op} {value}", lambda p: COMPARISONS[op](p, value)),
            (f"{value} {op} p", lambda p: COMPARISONS[op](value, p)),
            (f"NOT p {op} {value}", lambda p: not COMPARISONS[op](p, value)),
            (f"p IN ({value}, {low}, 1)", lambda p: p in (value, low, 1)),
            (f"p BETWEEN {low} AND {high}", lambda p: low <= p <= high),
            (f"p - {value} {op} 0.5", lambda p: COMPARISONS[op](p - value, Decimal("0.5"))),
        ):
            found = by_every_plan(store, f"SELECT t, p FROM s WHERE {condition}", "full", "tree")
            kept = [row for row in rows if row["p"] is not None and holds(row["p"])]
            assert found == [(row["t"], row["p"]) for row in kept], condition


def close(got: float | None, exact: Fraction | None, ulps: int = 1) -> bool:
    if got is None or exact is None:
        return got is exact
    return abs(Fraction(got) - exact) <= ulps * Fraction(math.ulp(got))


@SLOW
@given(seeds)
def test_aggregates_of_windows_are_exact(random: Random) -> None:
    rows = some_events(random)
    name, size = random.choice("pr"), random.choice((3, 7, 50))
    parts = "COUNT(x), SUM(x), MIN(x), MAX(x), FIRST(x), LAST(x), COUNT(DISTINCT x), "
    parts += "SUM(DISTINCT x), AVG(x), VAR_POP(x), SUM(-x)"
    sql = f"""SELECT window_start, {parts.replace("x", name)}
        FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), {size})) GROUP BY window_start, window_end"""
    with some_store(random.random()) as store:
        found = by_every_plan(fill(store, rows), sql, "replay", "tree", "tree-naive")

    assert found
    for start, n, total, *others in found:
        *exact, total_distinct, average, variance, negated = others
        every = [row[name] for row in rows if start <= row["t"] < start + size]
        values = [value for value in every if value is not None]
        assert (n, total) == (len(values), sum(values) if values else None)
        edges = [every[0], every[-1]] if every else [None, None]
        least = [min(values), max(values)] if values else [None, None]
        assert exact == [*least, *edges, len(set(values))]
        assert total_distinct == (sum(set(values)) if values else None)
        assert negated == (-sum(values) if values else None)
        fractions = list(map(Fraction, values))
        mean = sum(fractions) / n if n else None
        assert close(average, mean)
        spread = sum(((value - mean) ** 2 for value in fractions), Fraction()) / n if n else None
        assert close(variance, spread)


@SLOW
@given(seeds)
def test_groups_order_and_having_look_at_exact_values(random: Random) -> None:
    rows = some_events(random)
    value = some_literal(random, rows)
    sql = f"""SELECT k, p, SUM(p) AS s FROM s WHERE q >= 0 GROUP BY k, p
        HAVING SUM(p) > {value} ORDER BY s DESC, k"""
    groups: dict[tuple[Any, Any], list[Decimal]] = {}
    for row in rows:
        if row["q"] is not None and row["q"] >= 0 and row["p"] is not None:
            groups.setdefault((row["k"], row["p"]), []).append(row["p"])
    sums = [(*key, sum(values)) for key, values in groups.items() if sum(values) > value]
    with some_store(random.random()) as store:
        found = by_every_plan(fill(store, rows), sql, "replay")

    assert [row[2] for row in found] == sorted((s for *_, s in sums), reverse=True)
    assert sorted(map(repr, found)) == sorted(map(repr, sums))


@SLOW
@given(seeds)
def test_patterns_compare_decimals(random: Random) -> None:
    rows = some_events(random)
    value = some_literal(random, rows)
    sql = f"""SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t
        MEASURES A.p AS a, B.p AS b, B.p - A.p AS d, A.p * 2.5 AS m AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B) DEFINE A AS A.p <= {value}, B AS B.p > PREV(B.p) AND B.p - A.p > 0.25)"""
    expected = []
    for one, two in pairwise(rows):
        a, b = one["p"], two["p"]
        if a is not None and b is not None and a <= value and b - a > Decimal("0.25"):
            expected.append((a, b, b - a, a * Decimal("2.5")))
    with some_store(random.random()) as store:
        assert by_every_plan(fill(store, rows), sql, "full", "tree") == expected


@SLOW
@given(seeds)
def test_aggregates_are_those_of_duckdb(random: Random) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = some_events(random)
    parts = "COUNT(p), SUM(p), MIN(p), MAX(p), COUNT(DISTINCT p), SUM(r), SUM(DISTINCT r), MIN(r)"
    sql = f"SELECT k, {parts}, AVG(r) FROM s WHERE p < 3.5 OR p > 4.25 GROUP BY k ORDER BY k"
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    mine = replay.query({"s": table}, sql).table
    with duckdb.connect() as connection:
        connection.register("s", table)
        theirs = connection.sql(sql.replace("ORDER BY k", "ORDER BY k NULLS LAST")).fetchall()

    found = list(zip(*(column.to_pylist() for column in mine.columns), strict=True))
    assert [row[:-1] for row in found] == [row[:-1] for row in theirs]
    for (*_, average), (*_, other) in zip(found, theirs, strict=True):
        assert average is other or average == pytest.approx(other, rel=1e-14, abs=1e-5)
