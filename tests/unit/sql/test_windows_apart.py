"""Windows of ours, and patterns a row of the query around them is compared with, in SELECTs of
which DuckDB runs a part."""

import pyarrow as pa
import pytest

import replay
from replay.errors import NotSupportedError
from tests.unit.sql.sql_cases import ticks_store

EVENTS = {"s": pa.table({"t": [0, 1, 5, 30, 31], "k": list("abaab"), "x": [1, 2, 3, 4, 5]})}
TUMBLE = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10))"
COUNTS = [(0, 3), (10, 0), (20, 0), (30, 2)]
"""Each window's start and its events, by hand."""


def rows(sql, source=EVENTS, **how):
    return [tuple(row.values()) for row in replay.query(source, sql, **how).table.to_pylist()]


def test_windows_without_events_stay_where_duckdb_orders_them():
    sql = f"SELECT window_start, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start ORDER BY ALL"
    assert rows(sql) == COUNTS
    sql = f"""SELECT window_start AS a, COUNT(*), RANK() OVER (ORDER BY COUNT(*) DESC) AS r
      FROM {TUMBLE} AS w GROUP BY w.window_start, w.window_end ORDER BY w.window_start"""
    assert rows(sql) == [(0, 3, 1), (10, 0, 3), (20, 0, 3), (30, 2, 2)]
    assert replay.query(EVENTS, sql).table.column_names == ["a", "COUNT(*)", "r"]


def test_aggregates_of_windows_are_added_up_by_window_functions():
    sql = f"""SELECT window_start, k, SUM(SUM(x)) OVER (PARTITION BY k ORDER BY window_start) AS r
      FROM {TUMBLE} WHERE x > :least GROUP BY ALL HAVING COUNT(*) > 0 QUALIFY r > 2 ORDER BY ALL"""
    assert rows(sql, params={"least": 1}) == [(0, "a", 3), (30, "a", 7), (30, "b", 7)]


def test_windows_stand_in_sides_of_union_and_in_subqueries(tmp_path):
    one = f"SELECT window_start AS w, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start"
    named = one.replace("TABLE s", "TABLE few")
    sql = f"WITH few AS (SELECT * FROM s WHERE x < 3) {one} UNION ALL {named} ORDER BY w, n"
    assert rows(sql) == sorted([*COUNTS, (0, 2)])
    hop = """SELECT window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(t), 6, 12))
      WHERE price > 11 GROUP BY window_end ORDER BY ALL"""
    sql = f"SELECT * FROM ({hop}) q WHERE n > (SELECT 2)"
    assert rows(sql, ticks_store(tmp_path / "store")) == [(12, 8), (18, 7)]


@pytest.mark.parametrize(
    ("columns", "end", "answer"),
    [
        ("window_start, (SELECT COUNT(*) FROM s LIMIT 1)", "", [(0, 5), (10, 5), (20, 5), (30, 5)]),
        ("window_start", "HAVING COUNT(*) >= (SELECT MAX(x) - 2 FROM s)", [(0,)]),
        (
            "window_start, (SELECT MAX(i.x) FROM s i WHERE i.t < w.window_start)",
            "ORDER BY ALL",
            [(0, None), (10, 3), (20, 3), (30, 3)],
        ),
    ],
)
def test_aggregates_of_a_subquery_beside_windows_are_its_own(columns, end, answer):
    assert rows(f"SELECT {columns} FROM {TUMBLE} AS w GROUP BY window_start {end}") == answer


@pytest.mark.parametrize("alias", ["", " AS w"])
def test_rows_of_a_subquery_are_compared_with_those_of_windows(alias):
    name = "w" if alias else "s"
    sql = f"""SELECT window_start, k FROM {TUMBLE}{alias} GROUP BY window_start, k
      HAVING EXISTS (SELECT 1 FROM s i WHERE i.t = window_start AND i.k = {name}.k)"""
    assert rows(sql) == [(0, "a"), (30, "a")]


@pytest.mark.parametrize(
    ("sql", "remedy"),
    [
        (f"SELECT COUNT(*) FILTER (WHERE x > 1) AS n FROM {TUMBLE} GROUP BY window_start", "WITH"),
        (f"SELECT STRING_AGG(k) AS n FROM {TUMBLE} GROUP BY window_start ORDER BY ALL", "WITH"),
        (f"SELECT 1 AS n FROM {TUMBLE} JOIN s USING (t) GROUP BY ALL", "WITH"),
        (
            f"SELECT COUNT(*) FROM {TUMBLE} WHERE x IN (SELECT 1) GROUP BY window_start",
            "WITH found AS",
        ),
        (
            f"SELECT COUNT(*) FROM {TUMBLE.replace('s,', '(FROM s),')} GROUP BY window_start",
            "WITH found AS",
        ),
    ],
)
def test_windows_that_cannot_be_cut_out_are_refused_with_the_remedy(sql, remedy):
    with pytest.raises(NotSupportedError, match=remedy):
        rows(sql)


def test_what_windows_are_over_is_found_in_with_where_duckdb_has_to():
    found = "WITH found AS (SELECT * FROM s WHERE k IN (SELECT k FROM s WHERE x = 2))"
    over = TUMBLE.replace("TABLE s", "TABLE found")
    sql = f"{found} SELECT window_start, SUM(x) FROM {over} GROUP BY window_start ORDER BY ALL"
    assert rows(sql) == [(0, 2), (10, None), (20, None), (30, 5)]


def test_rows_within_a_match_are_found_by_a_correlated_subquery():
    matches = """s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS f, LAST(t) AS l
      PATTERN (A B) DEFINE B AS k = 'b') AS m"""  # 0 and 1, 30 and 31
    sql = f"SELECT t FROM s o WHERE EXISTS (SELECT 1 FROM {matches} WHERE o.t BETWEEN m.f AND m.l)"
    assert rows(sql + " ORDER BY t") == [(0,), (1,), (30,), (31,)]
    inside = f"SELECT t, (SELECT COUNT(*) FROM {matches} WHERE m.l < o.t) AS n FROM s o ORDER BY t"
    assert rows(inside) == [(0, 0), (1, 0), (5, 1), (30, 1), (31, 1)]
