"""Rows of values are compared as SQLite compares them, NULL among their values."""

from __future__ import annotations

import itertools
import sqlite3

import pyarrow as pa
import pytest

import replay
from replay.errors import QueryError

VALUES = list(itertools.product((None, 0, 1), repeat=4))
TABLE = pa.table(
    {
        "t": range(len(VALUES)),
        **{
            name: pa.array(column)
            for name, column in zip("abcd", zip(*VALUES, strict=True), strict=True)
        },
    }
)

COMPARISONS = [
    *(f"(a, b) {op} (c, d)" for op in ("=", "<>", "<", "<=", ">", ">=")),
    "NOT (a, b) = (c, d)",
    "(a, 1, b) < (c, 1, d)",
    "(a, b) BETWEEN (c, 0) AND (1, d)",
    "(a, b) NOT BETWEEN (c, 0) AND (1, d)",
    "(a, b) IS NOT DISTINCT FROM (c, d)",
    "(a, b) IS DISTINCT FROM (c, d)",
    "(a, b) IN ((0, 1), (c, d))",
    "(a, b) NOT IN ((0, 1), (c, d))",
]


def of_sqlite(condition: str) -> list[bool | None]:
    """Return what SQLite says of each row; it writes lists of rows and IS DISTINCT otherwise."""
    condition = condition.replace("IN ((0, 1), (c, d))", "IN (VALUES (0, 1), (c, d))")
    condition = condition.replace("(a, b) NOT BETWEEN", "NOT (a, b) BETWEEN")
    condition = condition.replace("IS NOT DISTINCT FROM", "IS").replace(
        "IS DISTINCT FROM", "IS NOT"
    )
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE s (a, b, c, d)")
        connection.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", VALUES)
        found = connection.execute(f"SELECT {condition} FROM s ORDER BY rowid").fetchall()
    return [None if value is None else bool(value) for (value,) in found]


@pytest.mark.parametrize("condition", COMPARISONS)
def test_rows_of_values_compare_as_in_sqlite(condition: str) -> None:
    due = of_sqlite(condition)
    selected = replay.query({"s": TABLE}, f"SELECT t, {condition} AS v FROM s").table
    assert selected.column("v").to_pylist() == due
    pattern = f"ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS {condition}"
    found = replay.query({"s": TABLE}, f"SELECT t FROM s MATCH_RECOGNIZE ({pattern})").table
    assert found.column("t").to_pylist() == [t for t, value in enumerate(due) if value]


def test_a_row_is_null_where_all_its_values_are_and_not_null_where_none_is() -> None:
    sql = "SELECT (a, b) IS NULL AS n, (a, b) IS NOT NULL AS v FROM s"
    found = replay.query({"s": TABLE}, sql).table
    assert found.column("n").to_pylist() == [a is None and b is None for a, b, *_ in VALUES]
    assert found.column("v").to_pylist() == [None not in (a, b) for a, b, *_ in VALUES]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("(a, b) = (c, d, 1)", "a row of 2 cannot be compared with one of 3"),
        ("(a, b) = c", "a row of 2 cannot be compared with one of 1"),
        ("(a, b) + (c, d) = 1", "takes single values"),
        ("abs((a, b)) = 1", r"as in \(a, b\) = \(1, 2\)"),
    ],
)
def test_a_row_of_values_that_stands_alone_is_told(condition: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        replay.query({"s": TABLE}, f"SELECT t FROM s WHERE {condition}")


def test_equal_rows_of_a_join_are_equal_columns() -> None:
    sides = "FROM (SELECT * FROM s ORDER BY t) l JOIN (SELECT * FROM s ORDER BY t) r WITHIN 30"
    rows, columns = (
        replay.query({"s": TABLE}, f"SELECT l.t AS l, r.t AS r {sides} ON {on}").table
        for on in ("(l.a, l.b) = (r.c, r.d)", "l.a = r.c AND l.b = r.d")
    )
    assert rows.num_rows
    assert rows.equals(columns)
