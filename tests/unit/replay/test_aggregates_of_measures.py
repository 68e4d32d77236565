"""Aggregates of MEASURES that keep or pick values give what DuckDB gives over the same rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import replay
from replay.errors import QueryError

duckdb = pytest.importorskip("duckdb")

AGGREGATES = [
    "ARRAY_AGG(x ORDER BY y DESC, t)",
    "LIST(s ORDER BY y NULLS FIRST, t DESC)",
    "list(x)",
    "ARRAY_AGG(DISTINCT x ORDER BY x DESC)",
    "ARRAY_AGG(x ORDER BY s, t) FILTER (WHERE y > 1)",
    "STRING_AGG(s, '+' ORDER BY y DESC NULLS FIRST, t)",
    "STRING_AGG(DISTINCT s, '+' ORDER BY s DESC)",
    "STRING_AGG(s, '' ORDER BY t DESC) FILTER (WHERE x > 1)",
    "ANY_VALUE(x)",
    "ANY_VALUE(s)",
    "ANY_VALUE(s) FILTER (WHERE y > 1)",
    "MAX_BY(x, y)",
    "MIN_BY(x, y)",
    "MAX_BY(s, x)",
    "ARG_MIN(s, f)",
    "ARG_MAX(y, s)",
    "MIN_BY(f, y) FILTER (WHERE x > 1)",
]


def rows_of(choose: Random, n: int) -> pa.Table:
    def some(*values: Any) -> list[Any]:
        return choose.choices((None, *values), k=n)

    return pa.table(
        {
            "t": range(n),
            "k": pa.array(choose.choices("ab", k=n)),
            "x": pa.array(some(0, 1, 2, 3), pa.int64()),
            "y": pa.array(some(1, 2, 3), pa.int32()),
            "s": pa.array(some("", "b", "é", "z"), pa.string()),
            "f": pa.array(some(-0.5, 0.0, 2.5), pa.float64()),
        }
    )


TABLES = [rows_of(Random(seed), 12) for seed in range(3)] + [rows_of(Random(9), 1)]


NAMED = {f"v{place}": aggregate for place, aggregate in enumerate(AGGREGATES)}
SELECTED = ", ".join(f"{aggregate} AS {name}" for name, aggregate in NAMED.items())


def of_duckdb(table: pa.Table, *queries: str) -> list[dict[str, Any]]:
    """Return the rows of some queries, those of one after those of the other."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("s", table)
        return [row for sql in queries for row in connection.sql(sql).to_arrow_table().to_pylist()]


def differences(found: list[dict[str, Any]], due: list[dict[str, Any]]) -> dict[str, Any]:
    """Return by aggregate what differs."""
    assert len(found) == len(due)
    columns = {name: ([r[name] for r in found], [r[name] for r in due]) for name in NAMED}
    return {NAMED[name]: pair for name, pair in columns.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("table", TABLES)
def test_aggregates_of_whole_matches_are_those_of_groups(table: pa.Table) -> None:
    sql = f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES {SELECTED} PATTERN (^ A+ $))"
    found = replay.query({"s": table}, sql.replace("MEASURES", "ORDER BY t MEASURES")).table
    due = of_duckdb(table, f"SELECT k, {SELECTED} FROM s GROUP BY k ORDER BY k")
    assert not differences(sorted(found.to_pylist(), key=lambda row: str(row["k"])), due)


def test_running_aggregates_are_those_of_the_rows_so_far() -> None:
    table = TABLES[0]
    final = ", ".join(f"FINAL {aggregate} AS final_{name}" for name, aggregate in NAMED.items())
    sql = f"""SELECT * FROM s MATCH_RECOGNIZE (
        ORDER BY t MEASURES {SELECTED}, {final} ALL ROWS PER MATCH PATTERN (A+))"""
    queries = [f"SELECT {SELECTED} FROM s WHERE t <= {t}" for t in range(table.num_rows)]
    so_far = of_duckdb(table, *queries)
    found = replay.query({"s": table}, sql).table.to_pylist()
    assert not differences(found, so_far)
    whole = [{name: row[f"final_{name}"] for name in NAMED} for row in found]
    assert not differences(whole, so_far[-1:] * len(whole))


def test_aggregates_are_of_the_rows_of_their_symbol_online_too() -> None:
    table = TABLES[0]
    sql = """SELECT a, b FROM s MATCH_RECOGNIZE (ORDER BY t
        MEASURES ARRAY_AGG(B.x ORDER BY B.t DESC) AS a, MAX_BY(B.t, B.t) - MIN_BY(A.t, A.t) AS b
        PATTERN (A B B) WITHIN 5)"""
    x = table.column("x").to_pylist()
    due = [{"a": [x[t + 2], x[t + 1]], "b": 2} for t in range(0, 12, 3)]
    assert replay.query({"s": table}, sql).table.to_pylist() == due
    online = replay.online(sql, table.schema, time="t")
    parts = [online.push(table.slice(0, 7)), online.push(table.slice(7)), online.finish()]
    assert pa.concat_tables(parts).to_pylist() == due


def test_nan_is_never_the_greatest_nor_the_least() -> None:
    nan = float("nan")
    table = pa.table({"t": [1, 2, 3], "f": [nan, 2.0, 1.0]})
    measures = "MAX_BY(t, f) AS a, MIN_BY(t, f) AS b, ARRAY_AGG(t ORDER BY f) AS c"
    sql = f"SELECT a, b, c FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES {measures} PATTERN (A+))"
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"a": 2, "b": 3, "c": [3, 2, 1]}]


def test_measures_that_pick_values_are_read_around_every_match() -> None:
    table = TABLES[0]
    sql = """SELECT MAX(v) AS m, COUNT(v) AS n FROM s MATCH_RECOGNIZE (ORDER BY t
        MEASURES MAX_BY(A.x, A.t) AS v PATTERN (A B) SEMANTICS SKIP TILL ANY)"""
    x = table.column("x").to_pylist()[:-1]
    n = sum(len(x) - i for i, value in enumerate(x) if value is not None)
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"m": 3, "n": n}]


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("MAX_BY(x)", "a value and what is greatest or least where it is"),
        ("ARRAY_AGG(DISTINCT x ORDER BY y)", "ORDER BY takes x alone"),
        ("MAX_BY(A.x, B.y)", "are of different symbols"),
        ("SUM(x ORDER BY y)", "expected '\\)'"),
        ("LIST(x) + 1", "LIST is a measure of its own"),
    ],
)
def test_what_such_aggregates_do_not_take_is_told(measure: str, said: str) -> None:
    sql = f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES {measure} AS v PATTERN (A B+))"
    with pytest.raises(QueryError, match=said):
        replay.query({"s": TABLES[0]}, sql)


def test_a_condition_cannot_pick_values() -> None:
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a PATTERN (A+) DEFINE A AS {})"
    )
    with pytest.raises(QueryError, match="ANY_VALUE in DEFINE is not supported yet; it is for MEA"):
        replay.query({"s": TABLES[0]}, sql.format("ANY_VALUE(A.x) = 1"))
