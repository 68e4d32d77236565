"""Queries whose work or answer explodes: limits end each class of them, in bounded memory."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

import replay
from replay import LimitExceededError
from replay.limits import resident_bytes
from replay.running.classes import CLASSES

N_EVENTS = 60_000
TIMEOUT_S = 0.2
MEMORY = 200_000_000
MAX_GROWTH = 300_000_000
"""What the process may grow by, one piece of work beyond the limit included."""

ALL_PAIRS = "FROM s ORDER BY t DEFINE A AS a = 0, B AS a = 1 PATTERN A before B WITHIN 1000000"
MATCHES = "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t {} DEFINE A AS a >= 0, B AS x > LAST(A.x))"
WINDOWS = "SELECT window_start, window_end, {} AS n FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 1, {}))"
PER_WINDOW = "GROUP BY window_start, window_end"
IN_WINDOWS = (
    "MATCH_RECOGNIZE (PARTITION BY window_start, window_end ORDER BY t PATTERN (A+ B) "
    f"SEMANTICS SKIP TILL ANY DEFINE A AS a >= 0, B AS x > LAST(A.x)) {PER_WINDOW}"
)
ORDERED = "(SELECT * FROM s ORDER BY t)"

EXPLODING = {
    "SituationQuery": ALL_PAIRS,
    "FilteredEvents": "SELECT * FROM s WHERE REPEAT(u, 500000 + a) LIKE '%c'",
    "situations of many names": "FROM s ORDER BY t DEFINE A AS a = 0, B AS a = 1, C AS a = 2, "
    "D AS a = 3 PATTERN A before B AND B before C AND C before D WITHIN 1000000",
    "aggregates of situations": "FROM s ORDER BY t DEFINE A AS a < 3, B AS a = 1 "
    "PATTERN A before B WITHIN 1000000 RETURN MEDIAN(A.x) AS m",
    "situations in a subquery": f"SELECT COUNT(*) AS n FROM ({ALL_PAIRS})",
    "row pattern": MATCHES.format("MEASURES SUM(A.x) AS n AFTER MATCH SKIP TO NEXT ROW "
                                  "PATTERN (A+ B+ $)"),
    "rows of matches": MATCHES.format("MEASURES SUM(A.x) AS n ALL ROWS PER MATCH AFTER MATCH "
                                      "SKIP TO NEXT ROW PATTERN (A+ B?)"),
    "every match": MATCHES.format("MEASURES A.t AS n PATTERN (A+ B) SEMANTICS SKIP TILL ANY"),
    "sums over matches": "SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t "
    "PATTERN (A+ B+) SEMANTICS SKIP TILL ANY DEFINE A AS a >= 0, B AS x > LAST(A.x))",
    "windows": f"{WINDOWS.format('COUNT(*)', 50_000_000)} {PER_WINDOW}",
    "windows of values": f"{WINDOWS.format('MEDIAN(x)', 1_000_000)} {PER_WINDOW}",
    "windows before a pattern": f"{WINDOWS.format('COUNT(*)', 1_000_000)} {IN_WINDOWS}",
    "join": f"SELECT l.t, r.x FROM {ORDERED} l JOIN {ORDERED} r ON l.u = r.u WITHIN 1000000",
    "counted join": f"SELECT COUNT(*) AS n FROM {ORDERED} l JOIN {ORDERED} r ON l.u = r.u "
    "WITHIN 1000000",
    "ordered rows": "SELECT REPEAT(u, 20000 + a) AS r FROM s ORDER BY x",
    "DuckDB's part": f"SELECT COUNT(*) OVER () AS n FROM ({ALL_PAIRS})",
}  # fmt: skip
"""A query of each class, by its name in the table of classes or in a few words."""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return some_rows(N_EVENTS)


def some_rows(n: int) -> pa.Table:
    places = range(n)
    x = [float(i * 7919 % 1009) for i in places]
    return pa.table({"t": places, "a": [i % 4 for i in places], "x": x, "u": ["ab"] * n})


@contextmanager
def bounded_growth() -> Iterator[None]:
    """Look at the memory of the process all along, and fail if it grows too much."""
    before, peak, is_over = resident_bytes(), [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.002):
            peak[0] = max(peak[0], resident_bytes())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()
    assert peak[0] - before < MAX_GROWTH


def test_each_class_of_the_table_is_asked_something_that_explodes() -> None:
    assert CLASSES.keys() <= EXPLODING.keys()


@pytest.mark.parametrize("kind", EXPLODING)
def test_limits_end_what_explodes(table: pa.Table, kind: str) -> None:
    sql = EXPLODING[kind]
    replay.query({"s": some_rows(20)}, sql, timeout=60)  # which loads what it needs

    with bounded_growth(), pytest.raises(LimitExceededError, match=r"timeout|memory"):
        replay.query({"s": table}, sql, timeout=TIMEOUT_S, memory=MEMORY)


def test_matches_of_situations_end_at_the_limit_of_memory(table: pa.Table) -> None:
    with bounded_growth(), pytest.raises(LimitExceededError, match="memory"):
        replay.query({"s": table}, ALL_PAIRS, memory=MEMORY // 2)


def test_each_of_several_queries_has_the_limits(table: pa.Table) -> None:
    counts = "SELECT COUNT(*) AS n FROM s"
    (one,) = replay.query_many({"s": table}, [counts], timeout=60)
    assert one.table["n"].to_pylist() == [N_EVENTS]
    with bounded_growth(), pytest.raises(LimitExceededError, match=r"timeout|memory"):
        replay.query_many({"s": table}, [counts, ALL_PAIRS], timeout=TIMEOUT_S, memory=MEMORY)
    with pytest.raises(LimitExceededError, match="max_rows"):
        replay.query_many({"s": table}, [counts, "SELECT t FROM s"], max_rows=1)


ASKING_TOO_MUCH = {
    "PREV of situations": "FROM s ORDER BY t DEFINE A AS PREV(x, 2000000000) > 3",
    "PREV of many partitions": "FROM s PARTITION BY t ORDER BY t DEFINE A AS PREV(x, 100000) > 3",
    "windows before a pattern": f"{WINDOWS.format('COUNT(*)', 10**12)} {IN_WINDOWS}",
    "text of all rows": "SELECT REPEAT('ab', 500000) AS r FROM s",
    "text of a dictionary": "SELECT REPEAT(u, 500000) AS r FROM s",
    "joined texts": "SELECT CONCAT_WS(u, REPEAT('y', 16000), REPEAT('x', 40000)) AS r FROM s",
}


@pytest.mark.parametrize("sql", ASKING_TOO_MUCH.values(), ids=ASKING_TOO_MUCH)
def test_what_a_number_of_the_text_asks_for_is_refused_before_it_is_taken(
    table: pa.Table, sql: str
) -> None:
    with bounded_growth(), pytest.raises(LimitExceededError, match="needed at once") as refused:
        replay.query({"s": table}, sql)
    assert refused.value.limit == "memory"


def test_what_a_number_of_the_text_asks_for_is_refused_online() -> None:
    rows = some_rows(20)
    with pytest.raises(LimitExceededError, match="PREV of 2,000,000,000 rows before"):
        replay.online(ASKING_TOO_MUCH["PREV of situations"], rows.schema, time="t")
    operator = replay.online(ASKING_TOO_MUCH["windows before a pattern"], rows.schema, time="t")
    with pytest.raises(LimitExceededError, match="windows have rows"):
        operator.push(rows)


@pytest.mark.parametrize("kind", ["row pattern", "every match", "sums over matches"])
def test_quantifiers_and_offsets_of_any_number_take_no_room(kind: str) -> None:
    far = (
        EXPLODING[kind].replace("(A+ B", "(A{2,999} B").replace("LAST(A.x)", "PREV(x, 2000000000)")
    )
    assert len(replay.query({"s": some_rows(50)}, far, memory="1GB", timeout=60)) <= 1


def test_memory_that_cannot_be_had_is_told_as_a_limit(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("replay.operators.outer.evaluate", no_room)
    with pytest.raises(LimitExceededError, match="more memory than this process can have"):
        replay.query({"s": table}, "SELECT x + 1 AS y FROM s")


def test_rows_of_long_matches_are_not_made_beyond_the_memory_allowed():
    events = {"s": pa.table({"t": range(8000), "u": ["ab"] * 8000})}
    long = "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES ARRAY_AGG(A.u) AS x "
    long += "AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS t >= 0)"
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceededError, match="limit --memory"):
            replay.query(events, long, memory="500MB")
        assert tracemalloc.get_traced_memory()[1] < 500_000_000
    finally:
        tracemalloc.stop()
