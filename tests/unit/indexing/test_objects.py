"""Objects of entries: from every source a lookup has, equal to a look at the events."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.errors import IndexingError
from indexing.index import RunTable, clear_caches
from indexing.key_range import KeyRange, KeyRanges
from indexing.kway_merge import merge_runs
from indexing.lookup import Lookup
from indexing.run import open_run
from indexing.writer import RunWriter
from tests.oracles.index import matching_rows, to_key
from tests.unit.indexing.doubles import (
    Piece,
    SnapshotDouble,
    cut_into_pieces,
    index_set,
    only,
    write_runs,
)
from tests.unit.indexing.index_strategies import ranges_for, streams

_FEW = st.integers(0, 3)
_LARGE = st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 40, 0])
_NAMES = st.sampled_from(["", "a", "é", "x" * 300])
OBJECT_TYPES: list[tuple[pa.DataType, st.SearchStrategy]] = [
    (pa.int64(), _FEW),
    (pa.int64(), _LARGE),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.int32(), _FEW),
    (pa.bool_(), st.booleans()),
    (pa.string(), _NAMES),
    (pa.string(), st.text(max_size=3)),
    (pa.large_string(), _NAMES),
    (pa.dictionary(pa.int32(), pa.string()), _NAMES),
]


@st.composite
def keyed_streams(draw: st.DrawFn) -> pa.Table:
    events = draw(streams())
    data_type, values = draw(st.sampled_from(OBJECT_TYPES))
    if draw(st.booleans()):
        values = st.one_of(st.none(), values)
    n = events.num_rows
    objects = pa.array(draw(st.lists(values, min_size=n, max_size=n)), data_type)
    return events.append_column("k", objects)


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, list[Piece], KeyRanges, int]:
    events = draw(keyed_streams())
    sizes = draw(st.lists(st.integers(1, 30), max_size=3))
    pieces = cut_into_pieces(events, sizes, draw(st.integers(1, 7)))
    return events, pieces, draw(ranges_for(events["x"].combine_chunks())), draw(st.integers(2, 9))


def objects_of(found: Lookup) -> list[object]:
    assert found.objects is not None
    assert len(found.objects) == len(found.seq)
    assert found.objects.type in (pa.int64(), pa.dictionary(pa.int32(), pa.string()))
    return list(found.objects.to_pylist())


def expected_objects(events: pa.Table, rows: list[int]) -> list[object]:
    return [to_key(events["k"][row].as_py()) for row in rows]


@given(cases(), st.data())
@settings(deadline=None)
def test_lookup_returns_what_a_look_at_every_event_returns(
    case: tuple[pa.Table, list[Piece], KeyRanges, int], data: st.DataObject
) -> None:
    events, pieces, ranges, fence_entries = case
    covered = [p for p in pieces if data.draw(st.booleans(), label=f"{p.name} has a run")]
    expected = matching_rows(events["x"].to_pylist(), ranges.ranges)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        n_scanned = 0
        if data.draw(st.booleans(), label="the tail is scanned"):
            n_scanned = sum(p.events.num_rows for p in pieces if p not in covered)
            patch.setattr("indexing.tail.MEMTABLE_EVENTS", 0)
            patch.setattr("indexing.tail.SCAN_EVENTS", data.draw(st.integers(1, 20)))
        clear_caches()  # memtables of other examples have the same names
        write_runs(Path(folder), covered, ("x",), fence_entries=fence_entries, key="k")
        snapshot = SnapshotDouble(Path(folder), pieces, key="k")
        indexes = index_set(snapshot, {"x": RunTable(0, tuple(p.name for p in covered))})
        plain = indexes.index("x").lookup(ranges)
        found = indexes.index("x").lookup(ranges, with_objects=True)
        least, most = indexes.index("x").estimate_count(ranges)
    assert plain.objects is None
    assert found.t.tolist() == [events["t"][row].as_py() for row in expected]
    assert least <= len(expected) <= most
    if not pa.types.is_string(events["x"].type):  # a fence cuts strings of over 256 characters
        # Exact but for two row groups of each run and range.
        assert most - least <= 2 * fence_entries * len(covered) * len(ranges.ranges) + n_scanned
    assert found.seq.tolist() == plain.seq.tolist() == expected
    assert found.t.tolist() == plain.t.tolist()
    assert objects_of(found) == expected_objects(events, expected)
    assert indexes.faults == []


@given(cases(), st.data())
@settings(deadline=None)
def test_merged_runs_carry_objects(
    case: tuple[pa.Table, list[Piece], KeyRanges, int], data: st.DataObject
) -> None:
    events, pieces, ranges, fence_entries = case
    names = [p.name for p in pieces]
    expected = matching_rows(events["x"].to_pylist(), ranges.ranges)
    with TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexing.kway_merge.MERGE_GROUPS", data.draw(st.integers(1, 3)))
        clear_caches()
        folder = Path(text)
        write_runs(folder, pieces, ("x",), fence_entries=fence_entries, key="k")
        # Every second file first, so that the merged run's files are no neighbours.
        for chosen, target in ((names[::2], "even"), (["even", *names], "all")):
            merge_runs(folder, "x", chosen, live=names, target=target, fence_entries=fence_entries)
        snapshot = SnapshotDouble(folder, pieces, key="k")
        for listed in (["even", *names[1::2]], ["all"], ["all", "even", *names]):
            indexes = index_set(snapshot, {"x": RunTable(0, tuple(listed))})
            found = indexes.index("x").lookup(ranges, with_objects=True)
            assert found.seq.tolist() == expected
            assert objects_of(found) == expected_objects(events, expected)
            assert indexes.index("x").n_tail_events == 0
    assert snapshot.n_blocks_read == 0


def keyed(n: int = 40) -> pa.Table:
    return pa.table(
        {
            "t": pa.array(range(n), pa.int64()),
            "x": pa.array([i % 5 for i in range(n)], pa.int64()),
            "k": [None if i % 7 == 0 else f"bus {i % 3}" for i in range(n)],
        }
    )


def test_run_written_without_objects_is_tail_to_lookups_that_ask_for_them(tmp_path: Path) -> None:
    pieces = cut_into_pieces(keyed(), [20], 5)
    write_runs(tmp_path, pieces[:1], ("x",))
    tables = write_runs(tmp_path, pieces[1:], ("x",), key="k")
    listed = {"x": RunTable(0, tuple(p.name for p in pieces))}
    assert tables["x"].names == (pieces[1].name,)
    snapshot = SnapshotDouble(tmp_path, pieces, key="k")
    index = index_set(snapshot, listed).index("x")
    assert index.lookup(only(2)).seq.tolist() == list(range(2, 40, 5))
    assert snapshot.n_blocks_read == 0
    found = index.lookup(only(2), with_objects=True)
    assert found.seq.tolist() == list(range(2, 40, 5))
    assert objects_of(found) == expected_objects(keyed(), found.seq.tolist())
    assert snapshot.n_blocks_read == 4  # those of the first file


def test_merging_with_a_run_without_objects_gives_one_without(tmp_path: Path) -> None:
    pieces = cut_into_pieces(keyed(), [20], 5)
    names = [p.name for p in pieces]
    write_runs(tmp_path, pieces[:1], ("x",))
    write_runs(tmp_path, pieces[1:], ("x",), key="k")
    merge_runs(tmp_path, "x", names, live=names, target="m")
    assert open_run(tmp_path / "index" / "x" / "m").object_kind is None


def test_runs_of_different_object_types_are_not_merged(tmp_path: Path) -> None:
    other = keyed().set_column(2, "k", pa.array(range(40), pa.int64()))
    pieces = [Piece("a", keyed(), [40]), Piece("b", other, [40])]
    write_runs(tmp_path, pieces, ("x",), key="k")
    with pytest.raises(IndexingError, match="objects of 2 types"):
        merge_runs(tmp_path, "x", ["a", "b"], live=["a", "b"], target="m")


def test_objects_of_a_stream_without_a_key_column_are_refused(tmp_path: Path) -> None:
    pieces = cut_into_pieces(keyed(), [], 5)
    index = index_set(SnapshotDouble(tmp_path, pieces), write_runs(tmp_path, pieces, ("x",)))
    with pytest.raises(IndexingError, match="has no key column"):
        index.index("x").lookup(only(2), with_objects=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param({"k": pa.float64()}, "tells no objects apart", id="doubles"),
        pytest.param({}, "no column 'k'", id="missing"),
    ],
)
def test_key_column_that_names_no_objects_is_refused(
    columns: dict[str, pa.DataType], message: str
) -> None:
    schema = pa.schema({"t": pa.int64(), "x": pa.int64(), **columns})
    with pytest.raises(IndexingError, match=message):
        RunWriter(("x",), "t", key="k").tables(schema)


@pytest.mark.parametrize("has_run", [True, False])
def test_answer_that_finds_nothing_has_objects_too(tmp_path: Path, has_run: bool) -> None:
    clear_caches()
    pieces = cut_into_pieces(keyed(), [20], 5)
    tables = write_runs(tmp_path, pieces, ("x",), key="k")
    snapshot = SnapshotDouble(tmp_path, pieces, key="k")
    index = index_set(snapshot, tables if has_run else {"x": RunTable(0, ())}).index("x")
    found = index.lookup(only(99), with_objects=True)
    assert (objects_of(found), found.seq.tolist()) == ([], [])


def test_the_key_column_itself_can_be_indexed(tmp_path: Path) -> None:
    pieces = cut_into_pieces(keyed(), [20], 5)
    tables = write_runs(tmp_path, pieces, ("k",), key="k")
    index = index_set(SnapshotDouble(tmp_path, pieces, key="k"), tables).index("k")
    ranges = KeyRanges.of([KeyRange("bus 1", "bus 1")])
    assert set(objects_of(index.lookup(ranges, with_objects=True))) == {"bus 1"}


def test_many_objects_make_no_more_files(tmp_path: Path) -> None:
    n = 20_000
    events = pa.table({"t": range(n), "x": [i % 9 for i in range(n)], "k": range(n)})
    pieces = cut_into_pieces(events, [], 2_000)
    write_runs(tmp_path, pieces, ("x",), fence_entries=4096, key="k")
    [run] = (tmp_path / "index" / "x").iterdir()
    found = open_run(run).read(open_run(run).fences.count.nonzero()[0])
    assert found.objects is not None
    assert found.objects.to_pylist() == found.position.tolist()
    # Each of them takes eight bytes, and two to be named.
    (tmp_path / "plain").mkdir()
    write_runs(tmp_path / "plain", pieces, ("x",), fence_entries=4096)
    [plain] = (tmp_path / "plain" / "index" / "x").iterdir()
    assert run.stat().st_size - plain.stat().st_size < 10.1 * n + 4_000
