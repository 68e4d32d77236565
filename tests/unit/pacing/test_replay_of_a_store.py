"""Paced replay over stored events: what it reads, and from which version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import StreamSettings, create_store
from chronicle.errors import SchemaError
from chronicle.store import Store
from replay.errors import QueryError

N, BLOCK = 4000, 100


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = create_store(tmp_path / "store")
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "x": pa.int64()})
    stream = store.create_stream("s", schema, StreamSettings("at", block_events=BLOCK))
    times = pa.array(np.arange(N) * 1_000_000, pa.int64()).cast(schema.field("at").type)
    stream.append(pa.table({"at": times, "x": list(range(N))}))
    return store


@pytest.fixture
def blocks_read(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ordinals of the blocks that were read since."""
    from chronicle import Snapshot

    seen: set[int] = set()
    read = Snapshot.read_blocks

    def watched(self, blocks, columns):
        seen.update(np.asarray(blocks).tolist())
        return read(self, blocks, columns)

    monkeypatch.setattr(Snapshot, "read_blocks", watched)
    return seen


def values(tables) -> list[int]:
    return [x for table in tables for x in table["x"].to_pylist()]


def test_nothing_before_the_start_is_read(store: Store, blocks_read: set[int]) -> None:
    start = "1970-01-01T00:33:20Z"  # second 2,000
    paced = replay.events(store, "s", start=start, stop="1970-01-01T00:35:00Z")
    assert values(paced) == list(range(2000, 2100))
    assert blocks_read == {20}


def test_tables_in_memory_are_no_store_to_replay_events_from() -> None:
    with pytest.raises(TypeError, match=r"from a store .*, not from dict"):
        replay.events({"s": pa.table({"at": [1]})}, "s")  # type: ignore[arg-type]


def test_a_seek_reads_on_from_there(store: Store, blocks_read: set[int]) -> None:
    paced = replay.events(store, "s", start="1970-01-01T00:00:00Z", stop="1970-01-01T00:01:00Z")
    found = values(paced)
    assert found == list(range(60))
    blocks_read.clear()
    with replay.events(store, "s") as paced:
        paced.seek("1970-01-01T01:06:30Z")
        assert values(paced) == list(range(3990, 4000))
    assert blocks_read == {39}


def test_a_condition_leaves_out_blocks_that_cannot_satisfy_it(
    store: Store, blocks_read: set[int]
) -> None:
    paced = replay.events(store, "s", where="x BETWEEN :low AND 3051", params={"low": 3050})
    assert values(paced) == [3050, 3051]
    assert blocks_read == {30}


@pytest.mark.parametrize(
    ("condition", "line", "column", "shown"),
    [
        ("x >", 1, 4, "x >"),
        ("y > 3", 1, 1, "y > 3"),
        ("x > 3 AND\n  y > 3", 2, 3, "  y > 3"),
        ("x > 3 AND 'a' > x -- too", 1, 15, "x > 3 AND 'a' > x -- too"),
    ],
)
@pytest.mark.parametrize("start", [None, "1970-01-01T00:01:00Z"])
def test_what_is_wrong_with_a_condition_is_shown_in_the_condition(
    store: Store, condition: str, line: int, column: int, shown: str, start: str | None
) -> None:
    with pytest.raises(QueryError) as caught:
        list(replay.events(store, "s", where=condition, start=start))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.excerpt == f"  {shown}\n  {' ' * (column - 1)}^"


def test_it_stays_on_the_version_it_began_with(store: Store) -> None:
    paced = replay.events(store, "s", columns=["x"])
    version = store.stream("s").snapshot().version
    times = pa.array([N * 1_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    store.stream("s").append(pa.table({"at": times, "x": [N]}))
    assert len(values(paced)) == N
    assert len(values(replay.events(store, "s"))) == N + 1
    assert len(values(replay.events(store, "s", as_of=version))) == N


def test_tables_have_the_columns_asked_for_in_their_order(store: Store) -> None:
    paced = replay.events(store, "s", columns=["x", "at"])
    table = next(iter(paced))
    assert table.schema == paced.schema
    assert table.schema.names == ["x", "at"]
    assert paced.time == "at"
    assert next(iter(replay.events(store, "s", columns=["x"]))).schema.names == ["x"]


def test_what_is_wrong_is_said_at_once(store: Store) -> None:
    with pytest.raises(SchemaError, match="did you mean 'x'"):
        replay.events(store, "s", columns=["X"])
    with pytest.raises(SchemaError, match="no time of this stream"):
        replay.events(store, "s", start=5)
    with pytest.raises(QueryError, match="nothing lies"):
        replay.events(store, "s", start="1970-01-02T00:00:00Z", stop="1970-01-01T00:00:00Z")
