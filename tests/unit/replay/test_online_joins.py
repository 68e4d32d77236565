"""Joins while the events of their streams come in: the answer over history, however they mix."""

from __future__ import annotations

import datetime as dt
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle.errors import SchemaError, StreamNotFoundError
from replay.errors import QueryError

LEFT = pa.schema([("t", pa.timestamp("us")), ("k", pa.string()), ("x", pa.float64())])
RIGHT = pa.schema([("t", pa.timestamp("us")), ("k", pa.string()), ("y", pa.int64())])
SCHEMAS = {"l": LEFT, "r": RIGHT}
N_EVENTS = 40

JOINED = "l JOIN r WITHIN 4 SECONDS ON l.k = r.k"
BY_FIVE = "TABLE(TUMBLE(TABLE l, DESCRIPTOR(t), INTERVAL '5' SECOND))"
WINDOWED = (
    f"SELECT window_start AS s, COUNT(*) AS n FROM {BY_FIVE} GROUP BY window_start, window_end"
)
PAIRS = f"SELECT join_time, y FROM {JOINED}"
QUERIES = {
    "all pairs": "SELECT * FROM l JOIN r WITHIN 3 SECONDS",
    "where": f"SELECT l.t, x, y FROM {JOINED} WHERE y > 1",
    "left": "SELECT l.t, x, y FROM l LEFT JOIN r WITHIN 2 SECONDS ON l.k = r.k AND x < y",
    "rows": "SELECT l.t, x, y FROM l JOIN r WITHIN (3 ROWS, 6 SECONDS SLIDE 2 SECONDS)",
    "asof": "SELECT l.t, x, r.t AS u, y FROM l ASOF JOIN r ON l.k = r.k AND l.t >= r.t",
    "asof left": "SELECT l.t, x, y FROM l ASOF LEFT JOIN r ON l.t > r.t WITHIN 3 SECONDS",
    "itself": "SELECT a.t, b.t AS u, b.x FROM l AS a JOIN l AS b WITHIN 2 SECONDS ON a.k = b.k",
    "limit": f"SELECT DISTINCT y FROM {JOINED} LIMIT 3",
    "filtered side": (
        "SELECT e.t, y FROM (SELECT t, k FROM l WHERE x > 0 ORDER BY t) AS e "
        "JOIN r WITHIN 5 SECONDS ON e.k = r.k"
    ),
    "windows joined": f"SELECT w.s, n, y FROM ({WINDOWED}) AS w JOIN r WITHIN 6 SECONDS",
    "join in windows": (
        "SELECT window_start, COUNT(*) AS n, SUM(y) AS total FROM TABLE(TUMBLE(TABLE "
        f"({PAIRS}), DESCRIPTOR(join_time), INTERVAL '7' SECOND)) GROUP BY window_start, window_end"
    ),
    "pattern over a join": (
        f"SELECT * FROM ({PAIRS}) MATCH_RECOGNIZE (ORDER BY join_time MEASURES A.join_time AS "
        "began, B.y AS y PATTERN (A B) DEFINE B AS B.y > A.y)"
    ),
    "join over a join": (
        "SELECT l.t, x, n FROM l JOIN (SELECT join_time, a.y + b.y AS n FROM r AS a "
        "JOIN r AS b WITHIN 2 SECONDS) AS both WITHIN 3 SECONDS"
    ),
}


def at(second: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=second)


def events(schema: pa.Schema, drawn: random.Random) -> pa.Table:
    second, rows = drawn.choice((0, 3)), []
    for _ in range(N_EVENTS):
        second += drawn.choice((0, 0, 1, 1, 2, 7))
        value = drawn.choice((None, 0, 1, 2, 3))
        rows.append({"t": at(second), "k": drawn.choice(("u", "v", None)), schema.names[2]: value})
    return pa.Table.from_pylist(rows, schema=schema)


def pieces(table: pa.Table, drawn: random.Random) -> list[pa.Table]:
    cuts = sorted(drawn.randint(0, N_EVENTS) for _ in range(drawn.randint(0, 12)))
    return [table.slice(a, b - a) for a, b in pairwise([0, *cuts, N_EVENTS])]


def flow_of(sql: str) -> Any:
    return replay.online(sql, SCHEMAS, time="t")


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("seed", range(6))
def test_any_mix_of_both_streams_gives_the_answer_over_history(sql: str, seed: int) -> None:
    drawn = random.Random(seed)
    tables = {name: events(schema, drawn) for name, schema in SCHEMAS.items()}
    expected = replay.query(tables, sql).table
    flow = flow_of(sql)
    waiting = {name: pieces(tables[name], drawn) for name in flow.streams}
    found = [flow.schema.empty_table()]
    while any(waiting.values()):
        name = drawn.choice([name for name, rest in waiting.items() if rest])
        found.append(flow.push(waiting[name].pop(0), stream=name))
        following = [t for rest in waiting[name] for t in rest.column("t").to_pylist()]
        if following and drawn.random() < 0.3:
            found.append(flow.advance(following[0], stream=name))
        if drawn.random() < 0.3:
            state = flow.snapshot()
            flow = flow_of(sql)
            flow.restore(state)
    found.append(flow.finish())
    assert pa.concat_tables(found).to_pylist() == expected.to_pylist()


def pushed(flow: Any, stream: str, *seconds: int) -> list[dict[str, Any]]:
    """What comes out when events of these times come in; each has its second as its value."""
    schema = SCHEMAS[stream]
    rows = [{"t": at(s), "k": "u", schema.names[2]: s} for s in seconds]
    return flow.push(pa.Table.from_pylist(rows, schema=schema), stream=stream).to_pylist()


def test_a_stream_that_is_silent_holds_a_join_back_until_it_is_told_on() -> None:
    flow = flow_of("SELECT x, y FROM l JOIN r WITHIN 3 SECONDS")
    assert pushed(flow, "l", 1, 2) == []
    assert pushed(flow, "r", 2, 8) == []  # the left may have more events of second 2
    # Of second 2 first the pair of the earlier left event, then that of the left event of it.
    both = [{"x": 1.0, "y": 2}, {"x": 2.0, "y": 2}]
    assert flow.advance(at(3), stream="l").to_pylist() == both
    assert flow.advance("2024-01-01T00:00:20", stream="l").num_rows == 0
    with pytest.raises(SchemaError, match="go back in time"):
        pushed(flow, "l", 19)
    assert pushed(flow, "l", 20) == []
    assert flow.finish().num_rows == 0


def test_a_promise_outlives_a_snapshot() -> None:
    flow = flow_of("SELECT x, y FROM l JOIN r WITHIN 3 SECONDS")
    flow.advance(at(10), stream="l")
    other = flow_of("SELECT x, y FROM l JOIN r WITHIN 3 SECONDS")
    other.restore(flow.snapshot())
    with pytest.raises(SchemaError, match="go back in time"):
        pushed(other, "l", 9)


def test_each_stream_is_asked_for_the_columns_read_of_it() -> None:
    flow = flow_of(
        "SELECT a.x, b.k FROM l AS a JOIN l AS b WITHIN 1 SECONDS JOIN r WITHIN 1 SECONDS"
    )
    assert flow.streams == {"l": ("k", "t", "x"), "r": ("t",)}
    with pytest.raises(QueryError, match="reads the streams l, r; say which"):
        flow.columns  # noqa: B018
    alone = replay.online("SELECT a.x FROM l AS a JOIN l AS b WITHIN 1 SECONDS", LEFT, time="t")
    assert alone.columns == ("t", "x")


def test_streams_are_told_apart_by_name() -> None:
    sql = "SELECT x, y FROM l JOIN r WITHIN 3 SECONDS"
    flow = flow_of(sql)
    with pytest.raises(QueryError, match="reads the streams l, r; say which"):
        flow.push(events(LEFT, random.Random(1)))
    with pytest.raises(QueryError, match="reads the streams l, r; not 'm'"):
        flow.advance(at(1), stream="m")
    with pytest.raises(QueryError, match="give the schema of each"):
        replay.online(sql, LEFT, time="t")
    with pytest.raises(StreamNotFoundError):
        replay.online(sql, {"l": LEFT}, time="t")
    timed = replay.online(sql, SCHEMAS, time={"l": "t", "r": "t"})
    assert timed.streams == flow.streams


def test_a_time_that_is_none_of_the_stream_is_refused() -> None:
    flow = flow_of("SELECT x, y FROM l JOIN r WITHIN 3 SECONDS")
    with pytest.raises(SchemaError, match="is no time of this stream"):
        flow.advance(3, stream="l")
    flow.finish()
    with pytest.raises(QueryError, match="is finished"):
        flow.advance(at(3), stream="l")
