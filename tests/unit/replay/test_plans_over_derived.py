"""Chains of rises are found through derived attributes, where these are what PREV reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings
from chronicle.store import Stream
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from replay.errors import PlanError

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("n", pa.int64())])


def filled(store: Store, events: pa.Table, **settings: Any) -> Stream:
    """Make a stream of small blocks."""
    how = StreamSettings(time="t", block_events=20, file_events=2000, fan_out=4, **settings)
    stream = store.create_stream("s", events.schema, how)
    stream.append(events, derived=writer_for(stream, least_events=0))
    return stream


CHAIN = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, F.x AS x "
    "PATTERN (A B C D E F) DEFINE {})"
)


def rare_rises() -> pa.Table:
    """4,000 events that fall, but for a lone rise every hundred and two chains of six."""
    x, at = [], 0.0
    for i in range(4000):
        chained = 1210 <= i < 1216 or 3301 <= i < 3307
        at += 5.0 if chained or i % 100 == 50 else -1.0
        x.append(at)
    nothing = pa.nulls(4000, pa.int64())
    return pa.table(
        [pa.array(range(4000)), pa.nulls(4000, pa.string()), pa.array(x), nothing], schema=SCHEMA
    )


@pytest.mark.parametrize(
    "rise", ["{0}.x > PREV({0}.x)", "{0}.x - PREV({0}.x) > 4", "PREV({0}.x) + 4.5 <= {0}.x"]
)
def test_a_chain_of_rises_reads_only_blocks_with_rises(store: Store, rise: str) -> None:
    stream = filled(store, rare_rises(), derived=("delta(x)",))
    sql = CHAIN.format(", ".join(f"{name} AS {rise.format(name)}" for name in "ABCDEF"))
    # Chains begin at 1210 and 3301; neither begins in the events before a lone rise.
    expected = [1210, 3301]
    full = replay.query(store, sql, plan="full")
    assert full.table.column("a").to_pylist() == expected
    tree = replay.query(store, sql, plan="tree")
    assert tree.table.equals(full.table)
    # By the tree alone a block with one rise may hold six; those with none are left out.
    assert tree.actual.blocks_read < 100 < tree.actual.blocks_total == 200
    create_index(stream, ["delta(x)"])
    indexed = replay.query(store, sql, plan="all")
    assert indexed.table.equals(full.table)
    assert indexed.actual.blocks_read <= 4
    assert "A.delta(x)" in indexed.plan.name
    assert replay.query(store, sql).table.equals(full.table)


@pytest.mark.parametrize(
    ("key", "partition", "declared", "is_used"),
    [
        (None, "", ("delta(x)",), True),
        (None, "", (), False),
        (None, "", ("delta(n)",), False),
        ("k", "", ("delta(x)",), False),
        ("k", "PARTITION BY k", ("delta(x)",), True),
        ("k", "PARTITION BY k, n", ("delta(x)",), False),
        (None, "PARTITION BY k", ("delta(x)",), False),
    ],
)
def test_a_derived_attribute_is_used_where_it_is_what_prev_reads(
    store: Store, key: str | None, partition: str, declared: tuple[str, ...], is_used: bool
) -> None:
    filled(store, rare_rises(), key=key, derived=declared)
    sql = CHAIN.format(", ".join(f"{name} AS {name}.x > PREV({name}.x)" for name in "ABCDEF"))
    sql = sql.replace("(ORDER", f"({partition} ORDER")
    plan = replay.explain(store, sql).plan
    used = {name for position in plan.required.positions for name in position.ranges}
    assert used == ({"delta(x)"} if is_used else set())
    assert len(replay.query(store, sql)) == 2
    if is_used:
        assert len(replay.query(store, sql, plan="tree")) == 2
    else:
        assert plan.name == "full"
        with pytest.raises(PlanError, match="cannot apply"):
            replay.query(store, sql, plan="tree")


def two_objects() -> pa.Table:
    """The rises of `rare_rises`, each event followed by one of an object that always falls."""
    rises = rare_rises()
    rows = [
        {"t": 2 * row["t"] + i, "k": "ab"[i], "x": x, "n": None}
        for row in rises.to_pylist()
        for i, x in enumerate((row["x"], -float(row["t"])))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def test_a_chain_within_an_object_reads_only_blocks_where_that_object_rises(
    store: Store,
) -> None:
    stream = filled(store, two_objects(), key="k", derived=("delta(x)",))
    create_index(stream, ["delta(x)"])
    rise = [f"{b} AS {b}.x > {a}.x" for a, b in zip("ABCDE", "BCDEF", strict=True)]
    sql = CHAIN.format(", ".join(rise)).replace("(ORDER", "(PARTITION BY k ORDER")
    sql = sql.replace("DEFINE", "WITHIN 20 DEFINE")
    full = replay.query(store, sql, plan="full")
    # Six rises, of the object of the even times, begin at 1210 and 3301; A need be no rise.
    assert full.table.column("a").to_pylist() == [2 * 1209, 2 * 3300]
    indexed = replay.query(store, sql, plan="all")
    assert indexed.table.equals(full.table)
    assert "B.delta(x)" in indexed.plan.name
    assert indexed.actual.rows_replayed < 200 < indexed.actual.rows_total == 8000
    # PREV of the stream is not the difference that is told.
    of_stream = sql.replace("PARTITION BY k ", "")
    assert "delta" not in str(replay.explain(store, of_stream))


def test_differences_of_objects_that_planning_cannot_tell_are_not_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chronicle.store.check_key", lambda *_: None)  # streams of before have one
    # Of a key column of doubles planning knows nothing, while delta(x) is by object all the same:
    # in the stream each odd event is above the one before, in its object none is.
    schema = pa.schema([("t", pa.int64()), ("k", pa.float64()), ("x", pa.float64())])
    odd = [float(i % 2) for i in range(200)]
    events = pa.table([list(range(200)), odd, odd], schema=schema)
    settings = StreamSettings(time="t", block_events=10, key="k", derived=("delta(x)",))
    store.create_stream("s", schema, settings).append(events)
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a PATTERN (A) "
        "DEFINE A AS A.x > PREV(A.x))"
    )
    assert len(replay.query(store, sql, plan="full")) == 100
    assert len(replay.query(store, sql)) == 100
    with pytest.raises(PlanError, match="no symbol"):
        replay.query(store, sql, plan="tree")
