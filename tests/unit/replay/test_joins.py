"""Joins by SQL: over subqueries, over joins, over tables in memory, and what becomes of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle.errors import SchemaError


def at(second: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=second)


def table(rows: list[tuple[int, str | None, float]]) -> pa.Table:
    seconds, keys, values = zip(*rows, strict=True)
    return pa.table(
        {
            "t": pa.array(map(at, seconds), pa.timestamp("us")),
            "k": pa.array(keys, pa.string()),
            "v": pa.array(values, pa.float64()),
        }
    )


A = table([(0, "x", 1.0), (5, "y", 2.0), (10, "x", 3.0), (20, None, 4.0), (21, "x", 5.0)])
B = table([(1, "x", 1.0), (5, "y", 2.0), (12, "x", 3.0), (19, "y", 4.5), (20, "x", 0.5)])


def rows(sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    answer = replay.query({"a": A, "b": B, **tables}, sql).table
    return [tuple(row.values()) for row in answer.to_pylist()]


def test_a_join_is_a_stream_by_the_time_of_its_pairs() -> None:
    # Pairs (0, 1), (5, 5), (10, 12), (21, 20) of equal k come at 1, 5, 12, 21.
    sql = """SELECT window_start, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE (SELECT join_time, a.v FROM a JOIN b WITHIN 5 SECONDS ON a.k = b.k),
                          DESCRIPTOR(join_time), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end"""
    assert rows(sql) == [(at(0), 2), (at(10), 1), (at(20), 1)]


def test_a_join_joins_on() -> None:
    sql = """SELECT a.v, b.v AS w, c.v AS z FROM a JOIN b WITHIN 5 SECONDS ON a.k = b.k
        JOIN (SELECT * FROM a) AS c WITHIN 3 SECONDS ON a.k = c.k"""
    # (0, 1) at 1 is near a's 0; (5, 5) near 5; (10, 12) at 12 near 10; (21, 20) at 21 near 21.
    assert rows(sql) == [(1.0, 1.0, 1.0), (2.0, 2.0, 2.0), (3.0, 3.0, 3.0), (5.0, 0.5, 5.0)]


def test_where_is_asked_of_what_a_left_join_gives() -> None:
    sql = "SELECT a.v FROM a LEFT JOIN b WITHIN 5 SECONDS ON a.k = b.k WHERE b.v IS NULL"
    assert rows(sql) == [(4.0,)]
    # The latest of 21 is that of 20, whose v is too small; an earlier one does not come instead.
    sql = "SELECT a.v, b.v AS w FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t WHERE b.v >= 1"
    assert rows(sql) == [(2.0, 2.0), (3.0, 1.0)]


@pytest.mark.parametrize("within", ["5 SECONDS", "2 ROWS", "6 SECONDS SLIDE 4 SECONDS"])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_windows_over_a_subquery_are_over_its_rows(kind: str, within: str) -> None:
    filtered = "(SELECT v, k, t AS u FROM b WHERE v > 1)"
    select = "SELECT a.t, a.v, b.u, b.v AS w FROM a"
    by_subquery = rows(f"{select} {kind} {filtered} AS b WITHIN {within}")
    some = replay.query({"b": B}, "SELECT v, k, t AS u FROM b WHERE v > 1").table
    assert by_subquery == rows(f"{select} {kind} c AS b WITHIN {within}", c=some)
    assert by_subquery


def test_limit_stops_a_join_and_order_turns_it_around() -> None:
    sql = "SELECT a.v FROM a JOIN b WITHIN 5 SECONDS ON a.k = b.k"
    assert rows(f"{sql} LIMIT 2") == [(1.0,), (2.0,)]
    assert rows(f"{sql} ORDER BY join_time DESC LIMIT 1") == [(5.0,)]
    assert rows("SELECT COUNT(*) AS n FROM a JOIN b WITHIN 5 SECONDS ON a.k = b.k") == [(4,)]


def test_keys_of_several_columns_of_every_type() -> None:
    typed = A.append_column("i", pa.array([1, 2, 3, 4, None], pa.int16())).append_column(
        "d", pa.array([dt.date(2024, 1, 1)] * 5)
    )
    sql = """SELECT x.v, y.v AS w FROM c AS x JOIN c AS y WITHIN 1 SECOND
        ON x.k = y.k AND x.i = y.i AND x.d = y.d AND x.t = y.t"""
    assert rows(sql, c=typed) == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


@pytest.mark.parametrize("never", ["FALSE", "NULL", "1 = 0", "a.v = NULL", "a.v > 1 AND 2 < 1"])
@pytest.mark.parametrize("beside", ["", "a.k = b.k AND ", "a.v < b.v AND a.k = 'x' AND "])
@pytest.mark.parametrize("within", ["WITHIN 5 SECONDS", "WITHIN 2 ROWS"])
def test_a_condition_that_is_never_true_joins_nothing(never: str, beside: str, within: str) -> None:
    on = f"{within} ON {beside}{never}"
    assert rows(f"SELECT a.v, b.v AS w FROM a JOIN b {on}") == []
    alone = [(1.0, None), (2.0, None), (3.0, None), (4.0, None), (5.0, None)]
    assert rows(f"SELECT a.v, b.v AS w FROM a LEFT JOIN b {on}") == alone


def test_a_constant_condition_of_an_asof_join_is_taken_or_leaves_nothing() -> None:
    select, on = "SELECT a.v, b.v AS w FROM a", "ON a.k = b.k AND a.t >= b.t"
    # Of key x none is before 0, that of 1 is latest at 10, that of 20 at 21; of y that of 5 at 5.
    assert rows(f"{select} ASOF JOIN b {on} AND TRUE") == [(2.0, 2.0), (3.0, 1.0), (5.0, 0.5)]
    for never in ("FALSE", "NULL", "1 = 0"):
        assert rows(f"{select} ASOF JOIN b {on} AND {never}") == []
        left = rows(f"{select} ASOF LEFT JOIN b {on} AND {never}")
        assert left == [(1.0, None), (2.0, None), (3.0, None), (4.0, None), (5.0, None)]


def test_a_subquery_that_lacks_a_time_is_refused() -> None:
    gaps = pa.table({"t": pa.array([at(0), None], pa.timestamp("us")), "v": [1.0, 2.0]})
    with pytest.raises(SchemaError, match="null"):
        rows("SELECT a.v FROM a ASOF JOIN (SELECT * FROM g ORDER BY t) AS g ON a.t >= g.t", g=gaps)
