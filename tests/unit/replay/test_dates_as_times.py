"""A column of dates is a time as one of timestamps is: each day is its midnight."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import combinations

import pyarrow as pa
import pytest

import replay
from chronicle import StreamSettings, create_store
from chronicle.errors import SchemaError
from replay.errors import QueryError

FIRST = dt.date(2024, 2, 27)
ROWS = [(FIRST + dt.timedelta(days=n * n % 11), n % 4) for n in range(24)]
DAYS = pa.table({"d": pa.array([d for d, _ in ROWS]), "x": [x for _, x in ROWS]})
MOMENTS = DAYS.set_column(0, "d", DAYS["d"].cast(pa.timestamp("us")))
SORTED = sorted(ROWS, key=lambda row: row[0])


def midnight(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day)


def test_within_and_its_order_are_those_of_days() -> None:
    sql = """SELECT * FROM s MATCH_RECOGNIZE (ORDER BY d MEASURES A.d AS a, B.d AS b, B.d - A.d AS n
             PATTERN (A B) SEMANTICS SKIP TILL ANY WITHIN 2 DAYS DEFINE B AS B.x > A.x)"""
    near = Counter(
        (one[0], other[0], (other[0] - one[0]).days)
        for one, other in combinations(SORTED, 2)
        if (other[0] - one[0]).days <= 2 and other[1] > one[1]
    )
    found = replay.query({"s": DAYS}, sql).table.to_pylist()
    assert Counter(tuple(row.values()) for row in found) == near
    assert [row["a"] for row in found] == sorted(row["a"] for row in found)


def test_windows_over_days_are_of_timestamps() -> None:
    sql = """SELECT window_start, window_end, COUNT(*) AS n, MAX(d) AS last
             FROM HOP(TABLE s, DESCRIPTOR(d), 12 HOURS, 1 DAY) GROUP BY window_start, window_end"""
    half = dt.timedelta(hours=12)
    days = Counter(d for d, _ in ROWS)
    expected = {
        (start, start + 2 * half): (n, day)
        for day, n in days.items()
        for start in (midnight(day) - half, midnight(day))
    }
    found = replay.query({"s": DAYS}, sql).table
    assert found.schema.field("window_start").type == pa.timestamp("us")
    told = [row for row in found.to_pylist() if row["n"]]
    assert {(s, e): (n, last) for s, e, n, last in map(dict.values, told)} == expected


AS_OF_MOMENTS = {
    "windows before a pattern": """SELECT window_end, COUNT(*) AS n
        FROM TABLE(HOP(TABLE s, DESCRIPTOR(d), 1 DAY, 3 DAYS)) MATCH_RECOGNIZE (
          PARTITION BY window_start, window_end ORDER BY d PATTERN (A B)
          SEMANTICS SKIP TILL ANY DEFINE B AS B.x > A.x) GROUP BY window_end""",
    "situations": """SELECT * FROM s MATCH_SITUATIONS (ORDER BY d
        DEFINE high AS x > 1 AT LEAST 1 DAY)""",
    "join": """SELECT l.x, r.x AS rx FROM (SELECT * FROM s ORDER BY d) l
        JOIN (SELECT * FROM s ORDER BY d) r WITHIN 2 DAYS ON l.x > r.x""",
    "asof": """SELECT l.x, r.x AS rx FROM (SELECT * FROM s ORDER BY d) l
        ASOF LEFT JOIN (SELECT * FROM s ORDER BY d) r ON l.d > r.d WITHIN 1 DAY""",
    "behind a filter": """SELECT * FROM (SELECT * FROM s WHERE x < 3) MATCH_RECOGNIZE (ORDER BY d
        MEASURES COUNT(*) AS n PATTERN (A B*) WITHIN 1 DAY DEFINE B AS x >= PREV(x))""",
}


@pytest.mark.parametrize("sql", AS_OF_MOMENTS.values(), ids=AS_OF_MOMENTS)
def test_the_answer_is_that_of_midnights(sql: str) -> None:
    expected = replay.query({"s": MOMENTS}, sql).table
    assert expected.num_rows > 2
    assert replay.query({"s": DAYS}, sql).table.equals(expected)


def test_days_join_timestamps() -> None:
    sql = """SELECT l.x, r.x AS rx FROM (SELECT * FROM s ORDER BY d) l
             JOIN (SELECT * FROM r ORDER BY d) r WITHIN 1 DAY ON l.x = r.x"""
    both = replay.query({"s": MOMENTS, "r": MOMENTS}, sql).table
    assert replay.query({"s": DAYS, "r": MOMENTS}, sql).table.equals(both)


def test_days_come_online_and_are_waited_for() -> None:
    sql = """SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(d), 2 DAYS)
             GROUP BY window_start"""
    table = DAYS.sort_by("d")
    flow = replay.online(sql, DAYS.schema, time="d")
    pieces = [flow.push(table[at : at + 7]) for at in range(0, len(table), 7)]
    pieces += [flow.advance("2024-04-01"), flow.finish()]
    assert pa.concat_tables(pieces).equals(replay.query({"s": DAYS}, sql).table)
    pattern = replay.online(
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY d MEASURES A.d AS a PATTERN (A B) WITHIN 1 DAY)",
        DAYS.schema,
        time="d",
    )
    assert pattern.push(table[:2])["a"].to_pylist() == [FIRST]


def test_a_stream_is_told_to_take_timestamps(tmp_path) -> None:
    store = create_store(tmp_path / "store")
    with pytest.raises(SchemaError, match=r"'d' is a DATE.*CAST\(… AS TIMESTAMP\)"):
        store.create_stream("s", DAYS.schema, StreamSettings(time="d"))
    store.create_stream("s", MOMENTS.schema, StreamSettings(time="d")).append(MOMENTS.sort_by("d"))
    days = "(SELECT CAST(d AS DATE) AS day, x FROM s)"
    made = f"CREATE STREAM days AS SELECT * FROM {days} ORDER BY day"
    with pytest.raises(QueryError, match=r"'day', a DATE; select CAST\(day AS TIMESTAMP\) AS day"):
        replay.query(store, made)
    by_day = f"""SELECT * FROM {days} MATCH_RECOGNIZE (
        ORDER BY day MEASURES A.day AS a PATTERN (A B) WITHIN 0 DAYS)"""
    sure = [n // 2 for _, n in sorted(Counter(d for d, _ in ROWS).items())]
    assert len(replay.query(store, by_day)) == sum(sure)
