"""Dataflows in Python compose SQL, and give its answer."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store
from chronicle.errors import StreamNotFoundError
from replay.errors import LimitExceededError, PlanError, QueryError
from tests.helpers import fill_stream
from tests.strategies import SmallStream, repeating_rows

N_EVENTS = 60


ROWS = repeating_rows(N_EVENTS, keys=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream(ROWS, 4, 16, 2, cuts=()), index=("a",))
    return store


def test_steps_are_sql_around_the_step_before(store: Store) -> None:
    flow = (
        replay.stream(store, "s")
        .filter("a > :low")
        .select("t", twice="2 * x")
        .window(size=10, slide=5)
        .aggregate(n="COUNT(*)", top="MAX(twice)")
    )

    assert " ".join(flow.sql.split()) == (
        "SELECT window_start, window_end, COUNT(*) AS n, MAX(twice) AS top FROM TABLE(HOP(TABLE ( "
        "SELECT t, 2 * x AS twice FROM ( SELECT * FROM s WHERE a > :low ) ), DESCRIPTOR(t), 5, 10))"
        " GROUP BY window_start, window_end"
    )
    params = {"low": 4}
    kept = [t for t in range(N_EVENTS) if t % 7 > 4]
    starts = range(kept[0] - 5, kept[-1] + 1, 5)
    inside = [[t for t in kept if low <= t < low + 10] for low in starts]
    expected = [
        {"window_start": low, "window_end": low + 10, "n": len(ts), "top": max(map(float, ts))}
        for low, ts in zip(starts, inside, strict=True)
    ]
    assert flow.run(params=params).table.to_pylist() == expected
    assert flow.batches(params=params).read_all().to_pylist() == expected
    assert "windows over a subquery" in str(flow.explain(params=params))


@pytest.mark.parametrize(
    ("window", "text"),
    [
        ({"size": 10}, "TUMBLE(TABLE s, DESCRIPTOR(t), 10)"),
        ({"size": "1 HOUR", "slide": "1 MINUTE"}, "HOP(TABLE s, DESCRIPTOR(t), 1 MINUTE, 1 HOUR)"),
        (
            {"size": dt.timedelta(seconds=2), "origin": 7},
            "TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '2000000' MICROSECOND, ORIGIN => 7)",
        ),
        (
            {"size": "1 DAY", "origin": "FIRST EVENT"},
            "TUMBLE(TABLE s, DESCRIPTOR(t), 1 DAY, ORIGIN => FIRST EVENT)",
        ),
        (
            {"size": "1 MONTH", "timezone": "Asia/Tokyo"},
            "TUMBLE(TABLE s, DESCRIPTOR(t), 1 MONTH, TIMEZONE => 'Asia/Tokyo')",
        ),
        ({"size": 10, "step": 2}, "CUMULATE(TABLE s, DESCRIPTOR(t), 2, 10)"),
        ({"gap": 3, "partition_by": ("k",)}, "SESSION(TABLE s PARTITION BY (k), DESCRIPTOR(t), 3)"),
        ({"rows": 5}, "TUMBLE_ROWS(TABLE s, DESCRIPTOR(t), 5)"),
        ({"rows": 5, "slide_rows": 2}, "HOP_ROWS(TABLE s, DESCRIPTOR(t), 2, 5)"),
    ],
)
def test_every_window_has_its_function(store: Store, window: dict[str, Any], text: str) -> None:
    assert f"FROM TABLE({text})" in replay.stream(store, "s").window(**window).aggregate(n="1").sql


def test_the_same_answer_by_sql_by_python_and_online(store: Store) -> None:
    flow = (
        replay.stream(store, "s")
        .filter("a <> 3")
        .window(size=4)
        .aggregate(total="SUM(a)")
        .match("MEASURES A.window_start AS began, B.total AS total PATTERN (A B) "
               "DEFINE B AS B.total > A.total", time="began")
    )  # fmt: skip
    sql = """SELECT * FROM (
      SELECT window_start, window_end, SUM(a) AS total
      FROM TABLE(TUMBLE(TABLE (SELECT * FROM s WHERE a <> 3), DESCRIPTOR(t), 4))
      GROUP BY window_start, window_end
    ) MATCH_RECOGNIZE (
      ORDER BY window_start MEASURES A.window_start AS began, B.total AS total
      PATTERN (A B) DEFINE B AS B.total > A.total)"""
    expected = replay.query(store, sql).table
    assert expected.num_rows > 3

    assert flow.run().table.equals(expected)
    operator = flow.online()
    assert operator.columns == ("a", "t")
    table = pa.Table.from_pylist(ROWS, schema=store.stream("s").schema)
    pieces = [operator.push(table.slice(at, 7)) for at in range(0, N_EVENTS, 7)]
    assert any(piece.num_rows for piece in pieces)
    assert pa.concat_tables([*pieces, operator.finish()]).equals(expected)
    in_memory = replay.stream({"s": table}, "s", time="t").filter("a <> 3").window(size=4)
    assert in_memory.aggregate(total="SUM(a)").run().table.column("total").to_pylist() == (
        replay.stream(store, "s").filter("a <> 3").window(size=4).aggregate(total="SUM(a)")
        .run().table.column("total").to_pylist()
    )  # fmt: skip


def test_tables_in_memory_give_the_same_answer_online() -> None:
    table = pa.table({"at": [0, 1, 5, 6], "x": [1.0, 2.0, 4.0, 8.0]})
    begun = replay.stream({"s": table}, "s", time="at").filter("x > 1")
    windows = begun.window(size=4).aggregate(n="COUNT(*)")
    for flow in (begun.select("x"), windows, windows.filter("n > 1")):
        operator = flow.online()
        pieces = [operator.push(table.slice(at, 1)) for at in range(len(table))]
        assert pa.concat_tables([*pieces, operator.finish()]).equals(flow.run().table)


def test_aggregates_of_keys_order_and_limit(store: Store) -> None:
    flow = replay.stream(store, "s").aggregate(by=("k",), n="COUNT(*)", low="MIN(x)")
    assert flow.order_by("k DESC").limit(1).run().table.to_pylist() == [
        {"k": 1, "n": 30, "low": 0.5}
    ]


def test_joins_pair_with_another_dataflow(store: Store) -> None:
    left = replay.stream(store, "s").filter("a = 6")
    right = replay.stream(store, "s").filter("a = 5")

    near = left.join(right, within=2, on="l.k <> r.k").select("join_time").run()
    assert near.table.column("join_time").to_pylist() == list(range(6, N_EVENTS, 7))
    last = left.asof_join(right, on="l.t >= r.t", left=True)
    counted = last.window(size=100).aggregate(n="COUNT(*)").run()
    assert counted.table.column("n").to_pylist() == [len(range(6, N_EVENTS, 7))]


def test_a_join_goes_online_with_the_streams_of_the_source(store: Store) -> None:
    source = replay.stream(store, "s").filter("a = 6").select("t", "x")
    source.create("sixes")
    flow = replay.stream(store, "s").filter("a = 5").join(replay.stream(store, "sixes"), within=3)
    expected = flow.run().table
    operator = flow.online()
    assert isinstance(operator, replay.OnlineFlow)
    assert set(operator.streams) == {"s", "sixes"}
    pieces = [
        operator.push(replay.stream(store, name).run().table, stream=name)
        for name in ("sixes", "s")
    ]
    assert expected.num_rows == len(range(6, N_EVENTS, 7))
    assert pa.concat_tables([*pieces, operator.finish()]).equals(expected)


def test_names_are_quoted_where_they_must_be() -> None:
    tables = {"my table": pa.table({"t": [1], "select": [2]})}
    flow = replay.stream(tables, "my table", time="t").select("t", "select", order='"select" + 1')
    assert flow.run().table.to_pylist() == [{"t": 1, "select": 2, "order": 3}]


def test_what_cannot_be_composed_is_said_at_once(store: Store) -> None:
    flow = replay.stream(store, "s")
    with pytest.raises(QueryError, match="a size, a gap, or rows"):
        flow.window(size=3, gap=2)
    for nonsense in (
        {"size": 6, "slide": 2, "step": 3},
        {"gap": 2, "slide": 1},
        {"gap": 2, "step": 1},
        {"rows": 2, "slide": 1},
        {"size": 2, "slide_rows": 1},
    ):
        with pytest.raises(QueryError, match="goes with"):
            flow.window(**nonsense)
    with pytest.raises(QueryError, match="which column is the time"):
        flow.select("a").window(size=3)
    with pytest.raises(QueryError, match="at least one aggregate"):
        flow.window(size=3).aggregate()
    with pytest.raises(QueryError, match="at least one column"):
        flow.select()
    with pytest.raises(StreamNotFoundError):
        replay.stream({}, "s")
    other = replay.stream({"s": pa.table({"t": [1]})}, "s", time="t")
    with pytest.raises(QueryError, match="streams of one store"):
        flow.join(other, within=3)
    with pytest.raises(PlanError, match="needs a store"):
        other.explain()


def test_a_dataflow_is_bounded_as_a_query_is(store: Store) -> None:
    flow = replay.stream(store, "s").filter("a = 6")
    n_rows = len(flow.run())
    bounds = {"timeout": "1 hour", "memory": "900GB", "max_rows": n_rows}
    assert len(flow.run(**bounds)) == flow.batches(**bounds).read_all().num_rows == n_rows
    with pytest.raises(LimitExceededError, match="max_rows"):
        flow.run(max_rows=n_rows - 1)
    with pytest.raises(LimitExceededError, match="max_rows"):
        flow.batches(max_rows=n_rows - 1).read_all()
    with pytest.raises(LimitExceededError, match="max_rows"):
        flow.create("sixes", max_rows=n_rows - 1)
    assert store.stream_names() == ("s",)
    flow.create("sixes", **bounds)
    assert len(replay.stream(store, "sixes").run()) == n_rows


def test_what_is_composed_says_what_it_is(store: Store) -> None:
    flow = replay.stream(store, "s").filter("a = 6")
    assert repr(flow) == "<Dataflow: SELECT * FROM s WHERE a = 6>"
    windows = replay.stream(store, "s").window(size=4)
    assert repr(windows) == "<Windowed: TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 4)), to be aggregated>"
    with pytest.raises(AttributeError, match=r"no 'run' before .*\.aggregate\(n="):
        windows.run()
    assert repr(flow.online()) == ("<OnlineFlow: reads s (a, f, k, s, t, x)>")
    pattern = replay.stream(store, "s").match("MEASURES A.t AS t PATTERN (A B)").online()
    pattern.push(pa.Table.from_pylist(ROWS[:3], schema=store.stream("s").schema))
    assert repr(pattern) == "<OnlineQuery: reads t, 1 rows kept>"


TEXTS = pa.table(
    {
        "t": [1, 2, 3, 4],
        "k": ["a\nb", "order by\n  t", "a\nb", "-- c"],
        "measures": [1, 1, 2, 2],
        "order by": [1.0, 2.0, 3.0, 4.0],
    }
)


def texts() -> replay.Dataflow:
    return replay.stream({"s": TEXTS}, "s", time="t")


@pytest.mark.parametrize("text", ["a\nb", "order by\n  t"])
def test_texts_stay_as_they_are_written_through_every_step(text: str) -> None:
    times = [
        t for t, k in zip(TEXTS["t"].to_pylist(), TEXTS["k"].to_pylist(), strict=True) if k == text
    ]
    kept = texts().filter(f"k = '{text}' -- WHERE").filter(f"k <> 'x{text}'").limit(9)
    assert kept.run()["t"].to_pylist() == times
    made = texts().select("t", z=f"'{text}' -- z").order_by("z", "t").limit(1).run()
    assert made.table.to_pylist() == [{"t": 1, "z": text}]
    windows = texts().window(size=9).aggregate(n=f"SUM(CASE WHEN k = '{text}' THEN 1 END)")
    assert windows.limit(1).run()["n"].to_pylist() == [len(times)]
    matched = texts().match(f"MEASURES A.t AS t PATTERN (A) DEFINE A AS k = '{text}'").limit(9)
    assert matched.run()["t"].to_pylist() == times
    runs = texts().situations(f"DEFINE b AS k = '{text}' AT LEAST 1 RETURN COUNT(b.t) AS n")
    assert len(runs.limit(9).run()) == len(runs.run())
    side = texts().filter(f"k = '{text}'")
    pairs = side.join(side, within=1, on=f"l.t = r.t AND l.k = '{text}' /* ON */").limit(9)
    assert len(pairs.run()) == len(times)


COUNTED = "MEASURES COUNT(*) AS n PATTERN (A+)"


@pytest.mark.parametrize(
    ("clauses", "rows"),
    [
        (f"PARTITION BY measures {{}}{COUNTED}", [(1, 2), (2, 2)]),
        (f"PARTITION BY measures -- ORDER BY\n{{}}{COUNTED}", [(1, 2), (2, 2)]),
        (f'PARTITION BY "order by" > 1 {{}}{COUNTED}', [(False, 1), (True, 3)]),
        (f"PARTITION BY k = 'all ' {{}}{COUNTED}", [(False, 4)]),
        ("/* MEASURES */ {}MEASURES A.t AS n PATTERN (A) DEFINE A AS k = 'order by\n  t'", [(2,)]),
        (f"PARTITION BY measures ORDER BY t DESC{{}} {COUNTED}", [(1, 2), (2, 2)]),
    ],
)
def test_order_by_stands_where_it_belongs_in_the_clauses_of_a_match(
    clauses: str, rows: list[tuple[object, ...]]
) -> None:
    order = "" if "DESC" in clauses else "ORDER BY t "
    sql = f"SELECT * FROM s MATCH_RECOGNIZE ({clauses.format(order)})"
    found = texts().match(clauses.format("")).run().table
    assert found.equals(replay.query({"s": TEXTS}, sql).table)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(rows)


def test_errors_show_what_was_written() -> None:
    flow = texts().filter("k = 'a\nb' AND\n  nosuch >  1").limit(1)
    with pytest.raises(QueryError, match="no column 'nosuch'") as raised:
        flow.run()
    *_, line, caret = str(raised.value).splitlines()
    assert (line, caret) == ("    nosuch >  1", "    ^")
    with pytest.raises(QueryError, match="line 1, column 14: MEASURES stands before PATTERN"):
        texts().match("PATTERN (A+) MEASURES COUNT(*) AS n")


@pytest.mark.parametrize(
    "step",
    [
        lambda: texts().filter("t > 1) OR (TRUE"),
        lambda: texts().filter("t > 1 LIMIT 1").run(),
        lambda: texts().select(z="1, 2"),
        lambda: texts().order_by("t, k"),
        lambda: texts().filter(" -- nothing"),
        lambda: texts().match("PATTERN (A)) LIMIT (1"),
        lambda: texts().situations("DEFINE b AS t > 1) LIMIT (1"),
        lambda: texts().join(texts(), within="1 ROWS ON TRUE"),
    ],
)
def test_a_piece_does_not_reach_beyond_its_place(step: Any) -> None:
    with pytest.raises(QueryError):
        step()


def test_what_duckdb_reads_stands_in_a_step() -> None:
    flow = texts().select("t", r="RANK() OVER (ORDER BY t DESC) -- r").filter("r < 3")
    assert flow.order_by("t::VARCHAR DESC").limit(1).run().table.to_pylist() == [{"t": 4, "r": 1}]
