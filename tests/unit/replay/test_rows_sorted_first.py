"""Rows that come in another order than ORDER BY says are sorted by it before they are matched."""

from __future__ import annotations

import random
from operator import itemgetter

import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store
from replay.errors import NotSupportedError
from tests.helpers import fill_stream
from tests.strategies import SmallStream

ROWS = [{"t": t // 3, "x": float(t * 7 % 10), "a": t, "k": t % 2} for t in range(30)]
MIXED = random.Random(1).sample(ROWS, len(ROWS))
"""The same rows in no order, as tables in memory may have them."""

EACH = "SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY {} MEASURES A.a AS a PATTERN (A))"
ORDERS = {
    "t": [("t", 1)],
    "t, x": [("t", 1), ("x", 1)],
    "t, x DESC": [("t", 1), ("x", -1)],
    "t, x NULLS FIRST, k": [("t", 1), ("x", 1), ("k", 1)],
    "x, t DESC": [("x", 1), ("t", -1)],
    "t DESC": [("t", -1)],
    "t, t DESC": [("t", 1)],
    "t, x, x DESC, t": [("t", 1), ("x", 1)],
    "k DESC, k": [("k", -1)],
}
"""Each ORDER BY, and the columns it goes by, 1 for ascending."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = create_store(tmp_path_factory.mktemp("sorted") / "store")
    fill_stream(store, "s", SmallStream(ROWS, 4, 16, 2, cuts=()), index=())
    return store


def in_order(rows: list[dict[str, float]], order: str) -> list[float]:
    """Return column a of rows sorted as Python does, those that are alike in their order."""
    for name, sign in reversed(ORDERS[order]):
        rows = sorted(rows, key=lambda row, name=name, sign=sign: sign * row[name])
    return [row["a"] for row in rows]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("source", ["s", "(SELECT * FROM s WHERE a > 4)"])
def test_a_stream_a_table_and_a_subquery_are_matched_in_one_order(
    store: Store, source: str, order: str
) -> None:
    sql = EACH.format(source, order)
    for rows, of in ((ROWS, store), (MIXED, {"s": pa.Table.from_pylist(MIXED)})):
        left = [row for row in rows if source == "s" or row["a"] > 4]
        assert replay.query(of, sql).table["a"].to_pylist() == in_order(left, order)


UNTIMED = {
    "filter": "(SELECT * FROM s WHERE a >= 0)",
    "computed time": "(SELECT t + 0 AS t, a, k FROM s)",
    "distinct": "(SELECT DISTINCT t, a, k FROM s)",
    "filter of a filter": "(SELECT * FROM (SELECT * FROM s WHERE a >= 0) WHERE k >= 0)",
}


OVER_ROWS = [
    """SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY t MEASURES A.a AS a, B.a AS b
       PATTERN (A B) WITHIN 1 DEFINE B AS k <> A.k)""",
    """SELECT window_start, COUNT(*) AS n, FIRST(a) AS a
       FROM TUMBLE(TABLE {}, DESCRIPTOR(t), 2) GROUP BY window_start""",
    "SELECT * FROM {} MATCH_SITUATIONS (ORDER BY t DEFINE odd AS k = 1)",
]


@pytest.mark.parametrize("source", UNTIMED.values(), ids=UNTIMED)
def test_rows_of_a_table_in_memory_are_sorted_behind_a_subquery(source: str) -> None:
    table, ordered = pa.Table.from_pylist(MIXED), sorted(MIXED, key=itemgetter("t"))
    for asked in OVER_ROWS:
        sql = asked.format(source)
        expected = replay.query({"s": pa.Table.from_pylist(ordered)}, sql).table
        assert expected.num_rows > 3
        assert replay.query({"s": table}, sql).table.equals(expected)


def test_a_limit_below_takes_the_rows_as_they_come() -> None:
    sql = EACH.format("(SELECT * FROM s LIMIT 5)", "t")
    found = replay.query({"s": pa.Table.from_pylist(MIXED)}, sql).table["a"].to_pylist()
    assert found == in_order(MIXED[:5], "t")


def test_rows_to_come_are_not_sorted() -> None:
    schema = pa.Table.from_pylist(ROWS).schema
    for order in ("x", "t, x DESC"):
        with pytest.raises(NotSupportedError, match="another order than they come in"):
            replay.online(EACH.format("s", order), schema, time="t")
