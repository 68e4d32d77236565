"""A SELECT without FROM reads one row that has no columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

import replay
from replay.errors import NotSupportedError, QueryError

EVENTS = pa.table({"t": [1, 2], "x": [5, 6]})


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 + 1", [{"1 + 1": 2}]),
        ("SELECT 7 / 2 AS q, 'it''s' AS text, :v AS v", [{"q": 3, "text": "it's", "v": None}]),
        ("SELECT 1 AS one WHERE 1 > 2", []),
        ("SELECT 2 AS two ORDER BY two LIMIT 1;", [{"two": 2}]),
        ("SELECT COUNT(*) AS n, MAX(3) AS most", [{"n": 1, "most": 3}]),
        ("WITH w AS (SELECT 4 AS x) SELECT x + 1 AS y FROM w", [{"y": 5}]),
        ("SELECT y.x FROM (SELECT 1 AS x) AS y", [{"x": 1}]),
        ("SELECT 0 AS t UNION ALL SELECT t FROM s", [{"t": 0}, {"t": 1}, {"t": 2}]),
        ("SELECT 3 AS x, COUNT(*) OVER () AS n", [{"x": 3, "n": 1}]),
        ("SELECT t limit FROM s LIMIT 1", [{"limit": 1}]),
    ],
)
def test_values_are_one_row(sql: str, rows: list[dict[str, object]]) -> None:
    params = {"v": None} if ":v" in sql else {}
    assert replay.query({"s": EVENTS}, sql, params=params).table.to_pylist() == rows


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT x", "line 1, column 8: this SELECT has no FROM; write SELECT x FROM stream"),
        ("SELECT *", "line 1, column 8: this SELECT has no FROM"),
        ("SELECT * FORM s", "line 1, column 10: .* found 'FORM'; did you mean 'FROM'"),
        ("SELECT x FORM s", "line 1, column 10: .* found 'FORM'; did you mean 'FROM'"),
        ("CREATE STREAM z AS SELECT 1 AS t", "needs a time"),
    ],
)
def test_what_needs_a_stream_says_so(sql: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        replay.query({"s": EVENTS}, sql)


def test_there_is_nothing_to_wait_for_online() -> None:
    with pytest.raises(NotSupportedError, match="has no events to wait for"):
        replay.online("SELECT 1 + 1", EVENTS.schema, time="t")
