"""Filters read only what they must, in the order they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_index, create_store
from replay.engines.scan import Reading, Scan
from replay.engines.source import TableSource
from replay.errors import PlanError
from replay.planning.block_ranges import all_blocks
from tests.helpers import fill_stream
from tests.strategies import SmallStream

N_EVENTS = 1000
BLOCK_EVENTS = 10


def rows() -> list[dict[str, Any]]:
    """``x`` rises with time (the tree can tell its range), ``a`` repeats (only an index can)."""
    made = [
        {"t": 2 * i, "a": i % 5, "x": i / 10, "s": f"s{i % 3}", "f": None, "k": 0}
        for i in range(N_EVENTS)
    ]
    made[205]["a"] = made[605]["a"] = 77
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    small = SmallStream(rows(), BLOCK_EVENTS, file_events=300, fan_out=4, cuts=(500,))
    store = create_store(tmp_path_factory.mktemp("filters") / "store")
    fill_stream(store, "s", small, index=("a",))
    return store


def times(result: replay.Result) -> list[int]:
    return result.table.column("t").to_pylist()


def test_an_index_finds_the_blocks_of_a_rare_value(store: Store) -> None:
    result = replay.query(store, "SELECT t, s FROM s WHERE a = 77", plan="indexes=a")

    assert result.table.to_pylist() == [{"t": 410, "s": "s1"}, {"t": 1210, "s": "s2"}]
    assert result.actual.blocks_read == 2
    assert result.plan.name == "indexes=s.a"
    assert times(replay.query(store, "SELECT t FROM s WHERE a = 77", plan="indexes=s.a")) == [
        410,
        1210,
    ]


def test_the_tree_leaves_the_blocks_of_a_range_of_time(store: Store) -> None:
    result = replay.query(store, "SELECT * FROM s WHERE t >= 400 AND t < 450", plan="tree")

    assert times(result) == list(range(400, 450, 2))
    assert result.actual.blocks_read == 3  # events 200 to 224 in blocks of ten
    assert result.actual.rows_replayed == 30


def test_the_newest_events_are_read_from_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.engines.scan.FEW_EVENTS", BLOCK_EVENTS)
    result = replay.query(
        store, "SELECT t FROM s WHERE x < 99.85 ORDER BY t DESC LIMIT 2", plan="full"
    )

    assert times(result) == [1996, 1994]
    assert result.actual.blocks_read == 1


def test_a_limit_reads_no_more_than_it_needs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.engines.scan.FEW_EVENTS", BLOCK_EVENTS)
    result = replay.query(store, "SELECT t FROM s WHERE a = 3 LIMIT 5", plan="full")

    assert times(result) == [6, 16, 26, 36, 46]  # two of ten events: the third lies in block two
    assert result.actual.blocks_read == 3  # units of one block, then of two


def test_batches_are_read_as_they_are_asked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.engines.scan.UNIT_EVENTS", BLOCK_EVENTS)
    reader = replay.batches(store, "SELECT t FROM s WHERE x >= 10 ORDER BY t", plan="full")

    assert reader.schema == pa.schema([("t", pa.int64())])
    first = next(batch for batch in reader if batch.num_rows)
    assert first.column("t").to_pylist() == list(range(200, 220, 2))


def test_a_plan_that_cannot_apply_to_a_filter_says_why(store: Store) -> None:
    with pytest.raises(PlanError, match="the condition of s bounds no attribute 'x'"):
        replay.query(store, "SELECT t FROM s WHERE a = 77", plan="indexes=x")
    with pytest.raises(PlanError, match="there is no index on x"):
        replay.query(store, "SELECT t FROM s WHERE a = 77 AND x > 3", plan="indexes=x")
    with pytest.raises(PlanError, match="nothing in WHERE bounds an attribute"):
        replay.query(store, "SELECT t FROM s", plan="tree")
    with pytest.raises(PlanError, match="a table in memory is replayed in full"):
        replay.query({"s": pa.table({"t": [1]})}, "SELECT t FROM s WHERE t = 1", plan="tree")


def test_a_filter_explains_itself_without_being_run(store: Store) -> None:
    told = replay.explain(store, "SELECT t FROM s WHERE a = 77", plan="indexes=a")

    assert told.to_dict()["plan"] == "indexes=s.a"
    assert told.to_dict()["actual"] is None
    assert "looked up" in str(told)
    nothing = replay.explain(store, "SELECT t FROM s WHERE a > 1000")
    assert "no event can pass" in str(nothing)


def test_a_condition_that_no_event_can_meet_reads_nothing(store: Store) -> None:
    result = replay.query(store, "SELECT t, s FROM s WHERE x > 1000")

    assert result.table.num_rows == 0
    assert result.table.schema == pa.schema([("t", pa.int64()), ("s", pa.string())])
    assert result.actual.blocks_read == 0


def test_faults_of_rows_are_counted_wherever_they_are(store: Store) -> None:
    result = replay.query(store, "SELECT 1 / a AS q FROM s WHERE 6 / a >= 6 OR t = 0", plan="full")

    n_zero = sum(row["a"] == 0 for row in rows())
    assert result.actual.faults == n_zero + 1  # WHERE on every event, SELECT on the first alone


# ---------------------------------------------------------------------------------------------
# Blocks cut into units, and units read backward


@pytest.mark.parametrize("unit", [1, 2, 3, 5, 100])
def test_read_backward_events_of_one_time_keep_their_order(
    unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.engines.source.TABLE_BLOCK_EVENTS", 1)
    monkeypatch.setattr("replay.engines.scan.UNIT_EVENTS", unit)
    t = [1, 1, 1, 2, 3, 3, 3, 3, 4, 4, 7, 7]
    table = pa.table({"t": t, "n": list(range(len(t)))})
    source = TableSource(table, ["t", "n"], time="t", name="s")
    reading = Reading(("t", "n"), time="t", backward=True)

    found = pa.concat_tables(Scan(source, all_blocks(source.n_blocks), reading).tables())

    expected = sorted(zip(t, range(len(t)), strict=True), key=lambda row: (-row[0], row[1]))
    pairs = zip(found.column("t").to_pylist(), found.column("n").to_pylist(), strict=True)
    assert list(pairs) == expected


@pytest.mark.parametrize("plan", ["full", "tree", "all"])
def test_a_list_with_a_fraction_leaves_large_whole_numbers_what_they_are(
    tmp_path: Path, plan: str
) -> None:
    store = create_store(tmp_path / "store")
    large = [2**53, 2**53 + 1, None, 7]  # as doubles the first two are one
    table = pa.table({"t": range(4), "a": pa.array(large, pa.int64())})
    stream = store.create_stream("s", table.schema, StreamSettings(time="t", block_events=2))
    create_index(stream, ["a"])
    stream.append(table)

    for options, found in {
        "9007199254740993, 0.5": [1],
        "0.5, 7, 9007199254740992": [0, 3],
    }.items():
        for sql, expected in {"a IN": found, "a NOT IN": sorted({0, 1, 3} - {*found})}.items():
            try:
                result = replay.query(store, f"SELECT t FROM s WHERE {sql} ({options})", plan=plan)
            except PlanError:  # NOT bounds nothing
                assert (plan, sql) != ("full", "a IN")
                continue
            assert times(result) == expected, (sql, options)
