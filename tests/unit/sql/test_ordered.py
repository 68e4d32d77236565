"""Rows of one time, as they come through a part of DuckDB's to a pattern."""

import random

import pyarrow as pa
import pytest

import replay
from chronicle import StreamSettings, add_column, create_store
from tests.helpers import commit_table

N = 9_000
DICE = random.Random(1)
EVENTS = pa.table(
    {
        "t": [i // 7 for i in range(N)],
        "x": range(N),
        "k": [DICE.choice("abcd") for _ in range(N)],
        "y": [DICE.randint(0, 50) for _ in range(N)],
    }
)
KEPT = pa.table({"k": ["d", "b", "a"], "w": [1, 2, 3]})
WORDS = "MATCH_RECOGNIZE (ORDER BY t MEASURES ARRAY_AGG(x) AS xs PATTERN (A+))"

QUERIES = {
    "window": "SELECT * FROM (SELECT *, COUNT(*) OVER (PARTITION BY y) AS c FROM s) {m}",
    "filtered": "SELECT * FROM (SELECT t, x FROM s QUALIFY RANK() OVER (ORDER BY k) > 0) {m}",
    "cut": """SELECT * FROM (SELECT m.* EXCLUDE (b), SUM(x) OVER (PARTITION BY k) AS z FROM s
      MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t, A.x AS x, A.k AS k, A.y AS b PATTERN (A)) m
      JOIN (SELECT DISTINCT y FROM s) d ON d.y = m.b) {m}""",
    "limit": """SELECT * FROM (SELECT q.*, COUNT(*) OVER () AS c FROM (SELECT * FROM s
      ORDER BY t % 3, t LIMIT 9000) q ORDER BY q.t LIMIT 9000) {m}""",
    "with": """WITH w AS (SELECT s.*, COUNT(*) OVER (PARTITION BY y) AS c FROM s),
      v AS (SELECT t, x FROM w WHERE c > 0) SELECT * FROM v {m}""",
    "qualified": """WITH w AS (SELECT *, COUNT(*) OVER (PARTITION BY y) AS c FROM s)
      SELECT * FROM (SELECT w.* FROM w WHERE w.k IN (SELECT k FROM s)) {m}""",
}
"""Each of them gives a pattern all events."""

SOME = {
    "in": "SELECT t, x FROM s WHERE k IN (SELECT k FROM kept)",
    "semi": "SELECT o.*, 1 AS one FROM s o SEMI JOIN kept p ON p.k = o.k",
    "join": "SELECT * EXCLUDE w, LAG(x) OVER (PARTITION BY y) AS l FROM kept JOIN s USING (k)",
    "left": "SELECT * EXCLUDE (w) FROM s NATURAL LEFT JOIN kept WHERE w IS NOT NULL",
    "nested": """SELECT * FROM (SELECT t, x, SUM(y) OVER (PARTITION BY k) AS z, k FROM s) q
      WHERE EXISTS (SELECT 1 FROM kept WHERE kept.k = q.k)""",
}
"""Each of them keeps the events whose k is that of a row of KEPT."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a store with EVENTS in many files, of which some lack a column."""
    store = create_store(tmp_path_factory.mktemp("ordered") / "store")
    settings = StreamSettings("t", block_events=100, file_events=500, fan_out=4)
    stream = store.create_stream("s", EVENTS.drop(["y"]).schema, settings)
    commit_table(stream, EVENTS.drop(["y"]).slice(0, 2_100))
    add_column(stream, "y", pa.int64())
    commit_table(store.stream("s"), EVENTS.slice(2_100))
    return store


def order(source, sql, threads):
    sql = sql.replace("{m}", WORDS)
    [found] = replay.query(source, sql, tables={"kept": KEPT}, threads=threads).table["xs"]
    return found.as_py()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_events_of_one_time_come_to_a_pattern_as_they_stand(store, name, threads):
    assert order({"s": EVENTS}, QUERIES[name], threads) == list(range(N))
    if name != "cut":  # joins on a column that the first events of the store lack
        assert order(store, QUERIES[name], threads) == list(range(N))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SOME)
def test_events_of_one_time_that_a_join_leaves_stand_as_they_stood(store, name, threads):
    rows = zip(EVENTS["x"].to_pylist(), EVENTS["k"].to_pylist(), strict=True)
    due = [x for x, k in rows if k in ("a", "b", "d")]
    if name == "join":  # one row of KEPT after the other comes first
        due.sort(key=lambda x: (x // 7, "dba".index(EVENTS["k"][x].as_py())))
    asked = f"SELECT * FROM ({SOME[name]}) {{m}}"
    assert order({"s": EVENTS}, asked, threads) == due
    assert order(store, asked, threads) == due


def test_what_is_made_of_several_rows_goes_into_a_pattern_without_a_place():
    one = "(SELECT MAX(t) AS t, COUNT(*) AS x FROM s WHERE EXISTS (SELECT 1))"
    assert order({"s": EVENTS}, f"SELECT * FROM {one} {{m}}", 1) == [N]
    each = "(SELECT t, MAX(x) AS x FROM s GROUP BY ALL)"
    assert order({"s": EVENTS}, f"SELECT * FROM {each} {{m}}", 1) == [
        *range(6, N, 7),
        *([N - 1] if N % 7 else []),
    ]
