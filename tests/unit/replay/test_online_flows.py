"""Filters, windows and compositions while their events come in: the answer over history."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import replay
from chronicle.errors import SchemaError
from replay.errors import NotSupportedError, QueryError

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("x", pa.float64()), ("k", pa.string())])
N_EVENTS = 120


def events(seed: int = 1) -> pa.Table:
    drawn = random.Random(seed)
    t, rows = 0, []
    for _ in range(N_EVENTS):
        t += drawn.choice((0, 0, 1, 1, 2, 9))
        rows.append(
            {
                "t": t,
                "a": drawn.choice((None, 0, 1, 2, 3)),
                "x": drawn.choice((0.5, 1.0, -2.0, None)),
                "k": drawn.choice(("u", "v", None)),
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


HOP = "TABLE(HOP(TABLE {}, DESCRIPTOR(t), 3, 8))"
PAIRS = (
    "MATCH_RECOGNIZE (PARTITION BY window_start, window_end, k ORDER BY t MEASURES A.a AS m "
    "PATTERN (A B+) SEMANTICS SKIP TILL ANY WITHIN 4 DEFINE B AS x > 0)"
)
QUERIES = (
    "SELECT t, a + 1 AS b FROM s WHERE x > 0 ORDER BY t",
    "SELECT DISTINCT a FROM s",
    "SELECT DISTINCT a, k FROM s LIMIT 5 OFFSET 2",
    (
        f"SELECT window_start, COUNT(*) AS n, SUM(a) AS total FROM {HOP.format('s')} "
        "GROUP BY window_start, window_end"
    ),
    (
        f"SELECT window_start, k, AVG(x) AS mean FROM {HOP.format('s')} WHERE a > 0 "
        "GROUP BY window_start, window_end, k ORDER BY window_start LIMIT 20"
    ),
    (
        "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE s PARTITION BY k, "
        "DESCRIPTOR(t), 5)) GROUP BY window_start, window_end, k"
    ),
    (
        "SELECT window_start, MAX(x) AS top FROM TABLE(HOP_ROWS(TABLE s, DESCRIPTOR(t), 2, 5)) "
        "GROUP BY window_start, window_end"
    ),
    "SELECT COUNT(*) AS n, MIN(a) AS low FROM s WHERE a > 1",
    (
        f"SELECT MAX(n) AS most FROM (SELECT window_start, COUNT(*) AS n FROM {HOP.format('s')} "
        "GROUP BY window_start, window_end) WHERE n > 1"
    ),
    (
        f"SELECT * FROM (SELECT window_start, COUNT(*) AS n FROM {HOP.format('(SELECT t FROM s)')} "
        "GROUP BY window_start, window_end) MATCH_RECOGNIZE (ORDER BY window_start MEASURES "
        "A.window_start AS began, LAST(B.n) AS n PATTERN (A B+) DEFINE B AS n > PREV(n))"
    ),
    (
        "SELECT * FROM (SELECT * FROM s WHERE a > 0 ORDER BY t) MATCH_RECOGNIZE (ORDER BY t "
        "MEASURES A.t AS t, B.a AS b PATTERN (A B) WITHIN 5 DEFINE B AS B.a > A.a) LIMIT 6"
    ),
    (
        f"SELECT window_start, k, COUNT(*) AS n, SUM(m) AS s FROM {HOP.format('s')} {PAIRS} "
        "GROUP BY k, window_start HAVING COUNT(*) > 1 ORDER BY window_start"
    ),
    (
        "SELECT window_start, COUNT(DISTINCT m) AS n, AVG(B.x) AS x FROM TABLE(CUMULATE(TABLE s, "
        f"DESCRIPTOR(t), 2, 8)) {PAIRS} GROUP BY window_start"
    ),
    (
        "SELECT DISTINCT k, MAX(m) AS top FROM TABLE(HOP(TABLE (SELECT * FROM s WHERE a > 0 ORDER "
        f"BY t), DESCRIPTOR(t), 3, 8)) {PAIRS} GROUP BY window_start, k LIMIT 5 OFFSET 1"
    ),
    f"SELECT window_end, m FROM TABLE(SLIDING(TABLE s, DESCRIPTOR(t), 4)) {PAIRS} WHERE k = 'u'",
)


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize(("each", "moved_every"), [(1, None), (1, 5), (7, 7), (N_EVENTS, N_EVENTS)])
def test_pieces_of_a_stream_give_the_answer_over_history(
    sql: str, each: int, moved_every: int | None
) -> None:
    table = events()
    result = replay.query({"s": table}, with_time(sql))
    operator = replay.online(sql, SCHEMA, time="t")

    pieces = []
    for at in range(0, N_EVENTS, each):
        if moved_every and at % moved_every == 0:
            state = operator.snapshot()
            operator = replay.online(sql, SCHEMA, time="t")
            operator.restore(state)
        pieces.append(operator.push(table.slice(at, each)))
    found = pa.concat_tables([*pieces, operator.finish()])

    assert found.schema == operator.schema
    assert found.to_pylist() == result.table.to_pylist()
    assert operator.n_faults == result.actual.faults
    if each == 1 and "GROUP BY window_start" in sql and "MAX(n)" not in sql:
        assert sum(piece.num_rows for piece in pieces) > 0.7 * found.num_rows


def test_a_snapshot_remembers_the_end_and_the_last_time() -> None:
    first = replay.online(QUERIES[0], SCHEMA, time="t")
    first.push(events())
    other = replay.online(QUERIES[0], SCHEMA, time="t")
    other.restore(first.snapshot())
    with pytest.raises(SchemaError, match="go back in time"):
        other.push(events())
    first.finish()
    other.restore(first.snapshot())
    with pytest.raises(QueryError, match="is finished"):
        other.push(events())


def test_a_snapshot_of_another_query_or_other_columns_is_refused() -> None:
    state = replay.online(QUERIES[3], SCHEMA, time="t").snapshot()
    with pytest.raises(QueryError, match="another query"):
        replay.online(QUERIES[3].replace("SUM(a)", "SUM(x)"), SCHEMA, time="t").restore(state)
    wider = pa.schema([("t", pa.int64()), ("a", pa.float64())])
    with pytest.raises(QueryError, match="other columns"):
        replay.online(QUERIES[3], wider, time="t").restore(state)
    with pytest.raises(QueryError, match="no snapshot"):
        replay.online(QUERIES[3], SCHEMA, time="t").restore(b"something else")
    with pytest.raises(TypeError, match="a snapshot is bytes, not str"):
        replay.online(QUERIES[3], SCHEMA, time="t").restore("something else")  # type: ignore[arg-type]
    replay.online(QUERIES[3], SCHEMA, time="t").restore(memoryview(state))


def with_time(sql: str) -> str:
    """Return the query with ORDER BY in its subqueries, since nobody names a table's time."""
    return sql.replace("(SELECT t FROM s)", "(SELECT t FROM s ORDER BY t)")


def test_only_the_columns_that_are_read_are_asked_for() -> None:
    operator = replay.online(QUERIES[4], SCHEMA, time="t")
    assert operator.columns == ("a", "k", "t", "x")
    narrow = replay.online("SELECT a FROM (SELECT * FROM s) WHERE a > 1", SCHEMA, time="t")
    assert narrow.columns == ("a", "t")
    assert narrow.push(pa.table({"t": [1, 2], "a": [1, 2]})).to_pylist() == [{"a": 2}]


def test_columns_that_are_not_read_may_be_of_any_type() -> None:
    odd = pa.schema([*SCHEMA, pa.field("u", pa.uint64()), pa.field("m", pa.map_(*2 * [pa.int8()]))])
    assert replay.online(QUERIES[0], odd, time="t").columns == ("a", "t", "x")


def test_no_events_have_an_answer_too() -> None:
    count = replay.online("SELECT COUNT(*) AS n FROM s", SCHEMA, time="t")
    assert count.finish().to_pylist() == [{"n": 0}]
    windows = replay.online(QUERIES[3], SCHEMA, time="t")
    assert windows.finish().equals(windows.schema.empty_table())


@pytest.mark.parametrize(
    ("window", "over", "told"),
    [
        pytest.param("TUMBLE(TABLE s, DESCRIPTOR(t), 3)", 6, [3], id="tumble"),
        pytest.param("HOP(TABLE s, DESCRIPTOR(t), 2, 4)", 6, [2], id="hop"),
        pytest.param("SESSION(TABLE s, DESCRIPTOR(t), 2)", 6, [4], id="session"),
        pytest.param(
            "HOP_ROWS(TABLE s PARTITION BY k, DESCRIPTOR(t), 2, 2)", 5, [4], id="rows by key"
        ),
    ],
)
def test_a_window_is_told_once_it_is_promised_that_nothing_comes_before_its_end(
    window: str, over: int, told: list[int]
) -> None:
    keys = ", k" if "PARTITION" in window else ""
    sql = f"SELECT window_start FROM TABLE({window}) GROUP BY window_start, window_end{keys}"
    flow = replay.online(sql, SCHEMA, time="t")
    schema = pa.schema([SCHEMA.field(name) for name in flow.columns])
    rows = [{"t": t, "k": "u"} for t in (0, 1, 4, 4)]
    flow.push(pa.Table.from_pylist([{n: r[n] for n in schema.names} for r in rows], schema=schema))

    assert flow.advance(over - 1).num_rows == 0
    other = replay.online(sql, SCHEMA, time="t")
    other.restore(flow.snapshot())
    assert other.advance(over).column("window_start").to_pylist() == told
    assert other.advance(over + 1).num_rows == 0


def test_a_pattern_waits_for_the_next_event_and_the_promise_is_held_to() -> None:
    flow = replay.online(QUERIES[-1], SCHEMA, time="t")
    flow.push(events())
    assert flow.advance(10**9).num_rows == 0
    with pytest.raises(SchemaError, match="go back in time"):
        flow.push(events())


def test_a_limit_is_done_when_it_has_enough() -> None:
    operator = replay.online("SELECT t FROM s LIMIT 2", SCHEMA, time="t")
    assert not operator.is_done
    assert operator.push(events()).num_rows == 2
    assert operator.is_done
    assert operator.push(events().slice(N_EVENTS - 1)).num_rows == 0
    assert operator.finish().num_rows == 0


def test_faults_of_rows_are_counted_in_every_step() -> None:
    operator = replay.online(
        "SELECT 1 / none AS q, top FROM (SELECT MAX(1 / a) AS top, COUNT(*) * 0 AS none "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 9)) GROUP BY window_start, window_end)",
        SCHEMA,
        time="t",
    )
    table = events()
    n_windows = operator.push(table).num_rows + operator.finish().num_rows
    assert operator.n_faults == table.column("a").to_pylist().count(0) + n_windows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t FROM s ORDER BY x",
        "SELECT t FROM s ORDER BY t DESC",
        (
            f"SELECT window_start FROM {HOP.format('s')} GROUP BY window_start, window_end "
            "ORDER BY COUNT(*)"
        ),
    ],
)
def test_what_needs_the_whole_answer_is_refused(sql: str) -> None:
    with pytest.raises(NotSupportedError, match="need the whole answer"):
        replay.online(sql, SCHEMA, time="t")


def test_a_time_is_asked_for() -> None:
    with pytest.raises(QueryError, match="which column is the time"):
        replay.online("SELECT a FROM s", SCHEMA)
