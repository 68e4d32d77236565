"""Parameters that are lists mean what the same list means written out, wherever IN stands."""

from __future__ import annotations

import sqlite3
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import replay
from replay.errors import QueryError

KEYS = ["a", "b", "c", None]
EVENTS = pa.table({"t": [1, 2, 3, 4], "k": KEYS})


def answered(sql: str, values: object) -> list[dict[str, object]]:
    return replay.query({"s": EVENTS}, sql, params={"v": values}).table.to_pylist()


def written_out(key: str | None, values: list[str | None]) -> tuple[bool | None, ...]:
    """Return what SQLite says of ``key [NOT] IN (values)``."""
    listed = ", ".join("NULL" if value is None else f"'{value}'" for value in values)
    sql = f"SELECT ? IN ({listed}), ? NOT IN ({listed})"
    with sqlite3.connect(":memory:") as memory:
        found = memory.execute(sql, (key, key)).fetchone()
    memory.close()
    return tuple(None if one is None else bool(one) for one in found)


@pytest.mark.parametrize("size", range(4))
def test_in_a_list_is_what_sqlite_says_of_the_list_written_out(size: int) -> None:
    for values in product(["a", "c", "z", None], repeat=size):
        expected = [written_out(key, list(values)) for key in KEYS]
        for beside in ("", ", COUNT(*) OVER () AS c"):  # DuckDB's
            sql = f"SELECT k IN :v AS i, k NOT IN :v AS n{beside} FROM s ORDER BY t"
            rows = answered(sql, list(values))
            assert [(row["i"], row["n"]) for row in rows] == expected, values


ONE_ROW = "MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t{} PATTERN (A) WITHIN 1{})"
DEFINED = f"SELECT * FROM s {ONE_ROW.format('', ' DEFINE A AS k IN :v')}"
PLACES = {
    "where": "SELECT t FROM s WHERE k IN :v",
    "define": DEFINED,
    "measures": f"SELECT t FROM s {ONE_ROW.format(', A.k IN :v AS i', '')} WHERE i",
    "situation": "SELECT b_start AS t FROM s MATCH_SITUATIONS (ORDER BY t DEFINE b AS k IN :v)",
    "having": """SELECT window_start AS t FROM TUMBLE(TABLE s, DESCRIPTOR(t), 1)
                 GROUP BY window_start HAVING MAX(k) IN :v""",
    "join": """SELECT l.t AS t FROM (SELECT * FROM s ORDER BY t) l
               JOIN (SELECT * FROM s ORDER BY t) r WITHIN 1 ON l.k = r.k AND r.k IN :v""",
}


@pytest.mark.parametrize("sql", PLACES.values(), ids=PLACES)
def test_a_list_stands_wherever_a_condition_does(sql: str) -> None:
    assert [row["t"] for row in answered(sql, ["a", None, "c"])][:1] == [1]
    assert answered(sql.replace(" IN :v", " NOT IN :v"), ["a", None]) == []
    assert answered(sql, []) == []


def test_a_list_stands_in_a_definition_and_a_condition_online() -> None:
    for sql in (PLACES["where"], DEFINED):
        flow = replay.online(sql, EVENTS.schema, time="t", params={"v": ["c", None]})
        told = [*flow.push(EVENTS).to_pylist(), *flow.finish().to_pylist()]
        assert told == [{"t": 3}], sql


@pytest.mark.parametrize("values", [("a",), {"a"}, np.array(["a"]), pa.array(["a"])])
def test_what_holds_several_values_is_a_list(values: object) -> None:
    for beside in ("", " AND EXISTS (SELECT 1)"):
        assert answered(f"SELECT t FROM s WHERE k IN :v{beside}", values) == [{"t": 1}]


def test_a_place_takes_a_list() -> None:
    sql = "SELECT t FROM s WHERE k IN ? AND t < ?"
    assert replay.query({"s": EVENTS}, sql, params=[["a", "c"], 3]).table.to_pylist() == [{"t": 1}]


@pytest.mark.parametrize(
    ("condition", "values", "said"),
    [
        ("k IN :v", "abc", "has the type str; IN takes a list, or one value in parentheses"),
        ("k IN :v", [["a"]], "is a list of lists"),
        ("k IN :v", [1], r"cannot compare k \(STRING\) and :v \(INTEGER\)"),
        ("nosuch IN :v", [], "no attribute 'nosuch'"),
        ("k IN (:v)", ["a"], "is a list, which only stands behind IN"),
        ("k = :v", ["a"], "is a list, which only stands behind IN"),
    ],
)
def test_a_list_out_of_place_is_told(condition: str, values: object, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        answered(f"SELECT t FROM s WHERE {condition}", values)


def test_a_text_is_no_list_to_duckdb_either() -> None:
    with pytest.raises(QueryError, match="line 1, column 28: the parameter ':v' has the type str"):
        answered("SELECT t FROM s WHERE k IN :v AND EXISTS (SELECT 1)", "abc")
