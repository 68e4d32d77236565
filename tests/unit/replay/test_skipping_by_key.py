"""Plans whose candidates agree on the key, or whose gaps hold one symbol, read what they claim."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Snapshot, Store, StreamSettings, create_store, open_store
from chronicle.store import Stream
from costmodel import CostParameters
from indexing import KeyRanges, RunWriter
from indexing.index import Index
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from replay.engines import partition_rows
from replay.engines.statistics import SnapshotStatistics, clear_statistics, statistics_of

N_EVENTS = 1000
BLOCK_EVENTS = 10
SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.string()),
        ("n", pa.int64()),
        ("d", pa.float64()),
        ("a", pa.int8()),
    ]
)


def events() -> pa.Table:
    """Every tenth event is an A (a = 1), five later comes a B (a = 2): the next of 20 keys.

    But at 500 the two have one key, as have those at 700, which have none at all. From 601 to 604
    all rows between are a = 3, from 801 to 804 all but one.
    """
    at = np.arange(N_EVENTS)
    number = at // 5 % 20
    number[505] = number[500]
    key = [None if seq in (700, 705) else f"k{n}" for seq, n in enumerate(number)]
    a = np.where(at % 10 == 0, 1, np.where(at % 10 == 5, 2, 0))
    a[[601, 602, 603, 604, 801, 803, 804]] = 3
    n = [None if k is None else 1000 * int(k[1:]) for k in key]
    return pa.table([at, key, n, number.astype(float), a], schema=SCHEMA)


Fill = Callable[..., Store]


@pytest.fixture(scope="module")
def fill(tmp_path_factory: pytest.TempPathFactory) -> Fill:
    """Lend what makes a store with a key column or none; each is made once and then copied."""

    @functools.cache
    def made(key: str | None, how: str) -> Path:
        store = create_store(tmp_path_factory.mktemp("made") / "store")
        stream = store.create_stream("s", SCHEMA, StreamSettings("t", BLOCK_EVENTS, 300, key=key))
        create_index(stream, ("a",))
        table = events()
        # The last events come late, into the middle of files that are there already.
        late = np.isin(np.arange(N_EVENTS), (505, 700, 3))
        for part in (table.filter(pa.array(~late)), table.filter(pa.array(late))):
            stream.append(part, derived=writer_of(stream, how))
        return store.path

    def copied(path: Path, key: str | None, *, how: str = "runs") -> Store:
        return open_store(shutil.copytree(made(key, how), path / "store"))

    return copied


def writer_of(stream: Stream, how: str) -> RunWriter | None:
    writers = {"runs": writer_for(stream), "without keys": RunWriter(("a",), "t"), "tail": None}
    return writers[how]


def sql(partition: str, pattern: str = "A Z*? B", within: int = 7) -> str:
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY {partition} ORDER BY t MEASURES A.t AS m "
        f"PATTERN ({pattern}) WITHIN {within} DEFINE A AS a = 1, B AS a = 2)"
    )


def read(store: Store, text: str, plan: str = "all") -> tuple[list[int], int]:
    """Return the starts found, after a check with the full replay, and how many blocks it took."""
    result, full = (replay.query(store, text, plan=name) for name in (plan, "full"))
    assert result.table.equals(full.table)
    assert full.actual.blocks_read == full.actual.blocks_total
    return sorted(result.table["m"].to_pylist()), result.actual.blocks_read


@pytest.mark.parametrize(
    ("key", "how", "partition"),
    [
        pytest.param("k", "runs", "k", id="texts"),
        pytest.param("k", "tail", "k", id="texts-without-runs"),
        pytest.param("n", "runs", "n", id="integers"),
        pytest.param("n", "tail", "n", id="integers-without-runs"),
        pytest.param("k", "runs", "k, n", id="further-columns"),
    ],
)
def test_plan_reads_only_where_the_key_agrees(
    fill: Fill, tmp_path: Path, key: str, how: str, partition: str
) -> None:
    # 100 pairs of A and B are 5 apart, two of them of one key: 500 to 505 and 700 to 705, with
    # and without a key. Each lies in one block; files cut at late events may split one more.
    found, n_blocks = read(fill(tmp_path, key, how=how), sql(partition))
    assert found == [500, 700]
    assert n_blocks <= 4


@pytest.mark.parametrize(
    ("key", "how", "partition"),
    [
        pytest.param(None, "runs", "k", id="no-key-column"),
        pytest.param("k", "runs", "d", id="another-column"),
        pytest.param("k", "without keys", "k", id="runs-without-keys"),
    ],
)
def test_plan_without_keys_reads_wherever_order_and_window_allow(
    fill: Fill, tmp_path: Path, key: str | None, how: str, partition: str
) -> None:
    store = fill(tmp_path, key, how=how)
    if how == "without keys":
        index = statistics_of(store.stream("s").snapshot()).indexes.index("a")
        assert not index.holds_objects
    found, n_blocks = read(store, sql(partition))
    assert found[0] == 500
    assert n_blocks >= N_EVENTS // BLOCK_EVENTS


@pytest.mark.parametrize("how", ["runs", "tail"])
@pytest.mark.parametrize("key", ["k", "n"])
@pytest.mark.parametrize(
    ("plan", "within", "rows"),
    [
        # A key holds for five events. From 500 to 505 all are of one key; of 700 to 705 two have
        # none, and they agree on it.
        pytest.param("indexes=A,B", "WITHIN 7", 6 + 2, id="both"),
        # Each other B is the first event of its key for a long time.
        pytest.param("indexes=B", "WITHIN 7", 6 + 2 + 98, id="the-last-alone"),
        # The key of 505 has five events at every hundred, and As from the first on.
        pytest.param("indexes=A,B", "", 5 * 5 + 6 + 2, id="without-a-window"),
    ],
)
def test_only_rows_of_candidates_keys_are_matched(
    fill: Fill, tmp_path: Path, key: str, how: str, plan: str, within: str, rows: int
) -> None:
    store = fill(tmp_path, key, how=how)
    text = sql(key).replace("WITHIN 7", within)
    result = replay.query(store, text, plan=plan)
    assert result.table.equals(replay.query(store, text, plan="full").table)
    assert result.actual.rows_replayed == rows


NEAR = (
    "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY {} ORDER BY t MEASURES A.t AS m, PREV(A.t, 4) "
    "AS before, NEXT(A.t) AS after PATTERN (A) DEFINE A AS a = 3 AND PREV(a) {})"
)


@pytest.mark.parametrize("how", ["runs", "tail"])
@pytest.mark.parametrize("key", ["k", "n"])
@pytest.mark.parametrize(("pattern", "blocks"), [("^ A Z*? B", 75), ("A Z*? B $", 50)])
@pytest.mark.parametrize("semantics", ["", "SEMANTICS SKIP TILL NEXT"])
def test_whether_a_row_is_the_first_or_last_of_its_key_is_found_out_beside(
    fill: Fill, tmp_path: Path, key: str, how: str, pattern: str, blocks: int, semantics: str
) -> None:
    # The key of 500 and 505 has rows before and behind, at most ten blocks away, of which 15 are
    # looked at. That of 700 and 705, which is none, has not: it takes all 70 blocks before, and 31
    # behind, to know.
    store = fill(tmp_path, key, how=how)
    text = sql(key, pattern).replace("WITHIN", f"{semantics} WITHIN")
    found, n_blocks = read(store, text)
    assert found == [700]
    assert n_blocks <= blocks
    assert replay.query(store, text, plan="all").actual.rows_replayed == 6 + 2


@pytest.mark.parametrize("key", ["k", "n"])
def test_an_index_of_the_key_tells_that_a_row_is_not_the_last_of_it(
    fill: Fill, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_rows, "PAGE_S", 1e-3)
    store = fill(tmp_path, key)
    create_index(store.stream("s"), (key,))
    text = (
        f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY {key} ORDER BY t MEASURES A.t AS m "
        "PATTERN (^ A | A $) DEFINE A AS a = 3)"
    )
    # Rows of a = 3 lie in the blocks of 600 and 800, the next of their key in those of 700 and 900.
    # Before the index is asked, one block on each side is looked at.
    found, n_blocks = read(store, text)
    assert found == []
    assert n_blocks <= 8


@pytest.mark.parametrize("how", ["runs", "tail"])
@pytest.mark.parametrize("key", ["k", "n"])
@pytest.mark.parametrize("indexes", [("a",), ("a", "key")])
def test_neighbours_in_the_partition_are_read_wherever_they_lie(
    fill: Fill,
    tmp_path: Path,
    key: str,
    how: str,
    indexes: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Blocks of ten events are so cheap to open that an index would be asked late.
    monkeypatch.setattr(partition_rows, "PAGE_S", 1e-3)
    store = fill(tmp_path, key, how=how)
    if "key" in indexes:
        create_index(store.stream("s"), (key,))
    # All seven rows of a = 3 are of the first key, which has five rows at every hundred, and 505,
    # but not 700: four of them come after another. The fourth row before, or the next one, lies
    # a hundred events away, or near.
    text = NEAR.format(key, "= 3")
    result, full = (replay.query(store, text, plan=plan) for plan in ("all", "full"))
    assert result.table.equals(full.table)
    assert result.table["m"].to_pylist() == [602, 603, 604, 804]
    assert result.table["before"].to_pylist() == [504, 505, 600, 800]
    assert result.table["after"].to_pylist() == [603, 604, 701, 900]
    assert result.actual.rows_replayed == 7
    # Rows replayed lie in the blocks of 600 and 800, those beside them in those of 500, 700, 900.
    # Without an index of the key 1, 2, 4, 8 blocks are looked at on either side, till all is found.
    assert result.actual.blocks_read <= (12 if "key" in indexes else 60)
    assert result.actual.blocks_total > 100


def test_an_index_is_not_asked_for_more_keys_than_the_next_blocks_are_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 keys take 6 ms to ask for; the keys of the 100 blocks there are take 2 ms to read."""
    settings = StreamSettings("t", BLOCK_EVENTS, key="n")
    stream = create_store(tmp_path / "store").create_stream("s", SCHEMA, settings)
    create_index(stream, ("n",))
    every = events().set_column(2, SCHEMA.field("n"), pa.array(range(N_EVENTS), pa.int64()))
    stream.append(every, derived=writer_for(stream))
    asked = []
    estimate_count = Index.estimate_count

    def counting(self: Index, ranges: KeyRanges, **within: np.ndarray | None) -> tuple[int, int]:
        asked.append(len(ranges.ranges))
        return estimate_count(self, ranges, **within)

    monkeypatch.setattr(Index, "estimate_count", counting)
    text = NEAR.format("n", "IS NULL").replace("a = 3", "t BETWEEN 300 AND 599")
    result = replay.query(Store(tmp_path / "store"), text, plan="tree")
    assert result.table["m"].to_pylist() == list(range(300, 600))
    assert max(asked, default=0) <= 1


def test_a_search_for_neighbours_is_given_up_before_it_costs_more_than_a_plan_may_lose(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of ten events are the more worth avoiding the more each of them takes.
    weights = CostParameters(block_s=30e-6)
    monkeypatch.setattr(SnapshotStatistics, "parameters", property(lambda _: weights))
    store = fill(tmp_path, "k")
    text = NEAR.format("k", "= 3")
    found = replay.query(store, text)
    assert found.plan.name == "indexes=A.a"
    assert found.actual.switched is None
    replay.clear_caches()
    monkeypatch.setattr(partition_rows.NeighbourCosts, "risk_s", 3e-4)  # a dozen keys of blocks
    result = replay.query(store, text)
    assert result.table.equals(found.table)
    assert "an index on k would tell where they are" in str(result.actual.switched)
    assert result.actual.rows_replayed == N_EVENTS


def test_neighbours_of_other_partitions_are_found_in_a_full_replay_alone(
    fill: Fill, tmp_path: Path
) -> None:
    store = fill(tmp_path, "k")
    for partition in ("n", "k, n"):
        reason = replay.explain(store, NEAR.format(partition, "= 3")).plan.reason
        assert "for PARTITION BY the stream's key column alone, and that is k" in reason
    (tmp_path / "other").mkdir()
    plain = fill(tmp_path / "other", None)
    assert "and it has none" in replay.explain(plain, NEAR.format("k", "= 3")).plan.reason


def test_keys_are_told_where_lookups_overlap(fill: Fill, tmp_path: Path) -> None:
    # Bs, which are asked first, are As too: the keys of As come from both lookups.
    store = fill(tmp_path, "k")
    text = sql("k", within=120).replace("A AS a = 1", "A AS a >= 1")
    found, _ = read(store, text, "indexes=A,B")
    assert len(found) > 20
    result = replay.query(store, text, plan="indexes=A,B")
    assert result.actual.rows_replayed < N_EVENTS


def test_plan_reads_only_where_the_gap_is_filled(fill: Fill, tmp_path: Path) -> None:
    store = fill(tmp_path, None)
    text = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS m PATTERN (A Z* B) WITHIN 7 "
        "DEFINE A AS a = 1, B AS a = 2, Z AS a = 3)"
    )
    assert read(store, text, "indexes=A,B") == ([600], store.stream("s").snapshot().n_blocks)
    for plan in ("indexes=A,B,Z", "all"):
        found, n_blocks = read(store, text, plan)
        assert found == [600]
        assert n_blocks <= 3  # 600 to 605; a file that got a late event ends with a short block


@pytest.mark.parametrize("key", ["k", "n", None], ids=str)
def test_keys_that_take_turns_are_counted(fill: Fill, tmp_path: Path, key: str | None) -> None:
    statistics = statistics_of(fill(tmp_path, key).stream("s").snapshot())
    assert statistics.key == key
    # Blocks of ten events have two keys, five events each: of 90 ordered pairs 40 agree.
    assert statistics.n_keys == pytest.approx(90 / 40 if key else 1.0, rel=0.3)


def test_keys_are_counted_once_for_a_snapshot(
    fill: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = fill(tmp_path, "k").stream("s").snapshot()
    counted = statistics_of(snapshot).n_keys
    clear_statistics()
    monkeypatch.setattr(Snapshot, "read_blocks", None)
    assert statistics_of(snapshot).n_keys == counted


def test_key_of_doubles_tells_no_objects_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chronicle.store.check_key", lambda *_: None)  # streams of before have one
    settings = StreamSettings("t", BLOCK_EVENTS, key="d")
    stream = create_store(tmp_path / "store").create_stream("s", SCHEMA, settings)
    stream.append(events())
    statistics = statistics_of(stream.snapshot())
    assert statistics.key is None
    assert statistics.n_keys == 1.0
