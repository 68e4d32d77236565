"""Aggregates over matches, over a store: what explain tells of them, and where they may stand."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import chronicle
import replay
from chronicle import StreamSettings
from replay.errors import NotSupportedError
from tests.memory_stream import memory_store

EVENTS = pa.table(
    {"t": [1, 2, 3, 4, 5], "k": list("acdcd"), "x": [0.0, 1.0, 0.0, 10.0, 0.0], "y": [1] * 5}
)
PATTERN = (
    "MATCH_RECOGNIZE (PARTITION BY {by} ORDER BY t MEASURES A.x AS m PATTERN (A C D) "
    "SEMANTICS SKIP TILL ANY DEFINE A AS k = 'a', C AS k = 'c', D AS k = 'd')"
)
OVER_S = f"FROM s {PATTERN.format(by='y')}"


@pytest.fixture(scope="module")
def store() -> Iterator[chronicle.Store]:
    with memory_store() as store:
        store.create_stream("s", EVENTS.schema, StreamSettings(time="t")).append(EVENTS)
        yield store


@pytest.mark.parametrize(
    ("sql", "way", "why"),
    [
        (f"SELECT COUNT(*) {OVER_S}", "summed", ""),
        (
            f"SELECT COUNT(*) {OVER_S} WHERE m > 1",
            "enumerated",
            "WHERE reads 'm', a measure of each",
        ),
        (
            f"SELECT VAR_POP(C.x) {OVER_S}",
            "enumerated",
            "VAR_POP needs all values one by one",
        ),
        (
            f"SELECT COUNT(*) {OVER_S.replace('D AS', 'D AS x < C.x AND')}",
            "enumerated",
            "the condition of D reads a row mapped before",
        ),
    ],
)
def test_explain_tells_why_matches_are_made(store: chronicle.Store, sql: str, way: str, why: str):
    explained = replay.explain(store, sql)
    assert explained.to_dict()["aggregation"] == {"way": way, "why": why}
    told = f"matches   are made: {why}; there can be exponentially many"
    assert (told in str(explained)) is (way == "enumerated")


def test_explain_says_nothing_of_matches_that_are_the_answer(store: chronicle.Store):
    assert "aggregation" not in replay.explain(store, f"SELECT * {OVER_S}").to_dict()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n {OVER_S}",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM (SELECT * FROM s WHERE x >= 0) {PATTERN}",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM (SELECT t, k, x, y + 1 AS z FROM s) {PATTERN}",
        f"WITH q AS (SELECT SUM(C.x) AS s, COUNT(*) AS n {OVER_S}) SELECT * FROM q",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM s {PATTERN} UNION SELECT 12.0, 3",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM TUMBLE(TABLE q, DESCRIPTOR(t), 9) {PATTERN}",
    ],
)
def test_aggregates_over_symbols_stand_wherever_patterns_do(store: chronicle.Store, sql: str):
    by = "z" if "AS z" in sql else "window_start, y" if "TUMBLE" in sql else "y"
    sql = sql.replace("TABLE q", "TABLE (SELECT * FROM s WHERE x >= 0)")
    answer = replay.query(store, sql.format(by=by)).table
    assert answer.to_pylist() == [{"s": 12.0, "n": 3}]


def test_patterns_in_windows_do_not_go_online_yet():
    by_window = PATTERN.format(by="window_start")
    sql = f"SELECT * FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 9)) {by_window}"
    subquery = sql.replace("TABLE s", "TABLE (SELECT * FROM s WHERE x > 1)")
    for text in (sql, subquery):
        with pytest.raises(NotSupportedError, match="in windows cannot go online yet"):
            replay.online(text, EVENTS.schema, time="t")
