"""Lookups and counts against an index that looks at every value."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.errors import UnknownIndexError
from indexing.index import RunTable
from indexing.key_range import KeyRange, KeyRanges
from tests.oracles.index import matching_rows
from tests.unit.indexing.doubles import (
    Piece,
    SnapshotDouble,
    cut_into_pieces,
    index_over,
    index_set,
    write_runs,
)
from tests.unit.indexing.index_strategies import ranges_for, streams

EQUAL = 2  # key that the frequent tests ask for


def only(key: int) -> KeyRanges:
    return KeyRanges.of([KeyRange(key, key)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, list[Piece], KeyRanges, list[bool], int]:
    events = draw(streams())
    sizes = draw(st.lists(st.integers(1, 30), max_size=3))
    pieces = cut_into_pieces(events, sizes, draw(st.integers(1, 7)))
    has_run = draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    ranges = draw(ranges_for(events["x"].combine_chunks()))
    return events, pieces, ranges, has_run, draw(st.integers(2, 9))


@given(cases())
@settings(deadline=None)
def test_estimate_is_exact_to_two_row_groups_per_run_and_range(
    case: tuple[pa.Table, list[Piece], KeyRanges, list[bool], int],
) -> None:
    events, pieces, ranges, _, fence_entries = case
    long = pa.types.is_string(events["x"].type)  # a fence cuts strings of over 256 characters
    with TemporaryDirectory() as folder:
        index = index_over(Path(folder), pieces, fence_entries=fence_entries)
        least, most = index.estimate_count(ranges)
    if not long:
        assert most - least <= 2 * fence_entries * len(pieces) * len(ranges.ranges)


def integers(values: list[int], *, t: list[int] | None = None) -> pa.Table:
    return pa.table(
        {
            "t": pa.array(t if t is not None else range(len(values)), pa.int64()),
            "x": pa.array(values, pa.int64()),
        }
    )


def test_narrow_lookup_reads_few_row_groups(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([(i * 7919) % 10_000 for i in range(10_000)]), [5_000], 100)
    tables = write_runs(tmp_path, pieces, ("x",), fence_entries=64)
    snapshot = SnapshotDouble(tmp_path, pieces)
    found = index_set(snapshot, tables).index("x").lookup(KeyRanges.of([KeyRange(100, 199)]))
    assert len(found.seq) == 100
    # Two runs, each with at most two rim groups of 64 and what lies between them.
    assert found.n_entries_read <= 100 + 2 * 2 * 64
    assert snapshot.n_blocks_read == 0


def test_frequent_key_owns_whole_row_groups(tmp_path: Path) -> None:
    # Sorted: 40 ones, 400 twos, 60 threes; groups of at most 32. The first group is full of
    # ones, the second holds 8 ones and 24 twos (the change lies in its first half, so it is
    # filled), 11 groups are full of twos, and where the twos end after 24 of the next, in its
    # second half, it is cut. So 376 of 400 twos lie in groups of their own.
    events = integers(([1] * 2 + [2] * 20 + [3] * 3) * 20)
    pieces = cut_into_pieces(events, [], 10)
    index = index_over(tmp_path, pieces, fence_entries=32)
    assert index.estimate_count(only(EQUAL)) == (376, 408)
    found = index.lookup(only(EQUAL))
    assert len(found.seq) == 400
    assert found.n_entries_read == 408


def test_entries_of_files_not_live_are_skipped(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([i % 3 for i in range(30)]), [10, 10], 4)
    tables = write_runs(tmp_path, pieces, ("x",))
    snapshot = SnapshotDouble(tmp_path, [pieces[0], pieces[2]])
    index = index_set(snapshot, tables).index("x")
    assert index.lookup(KeyRanges.everything()).seq.tolist() == list(range(20))
    assert index.n_entries == 20


def test_run_of_a_file_with_more_events_is_not_used(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([i % 3 for i in range(30)]), [], 4)
    tables = write_runs(tmp_path, pieces, ("x",))
    fewer = cut_into_pieces(pieces[0].events.slice(0, 20), [], 4)
    index = index_set(SnapshotDouble(tmp_path, fewer), tables).index("x")
    assert index.lookup(KeyRanges.everything()).seq.tolist() == list(range(20))
    assert index.n_tail_events == 20


def test_position_does_not_depend_on_blocks(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([i % 3 for i in range(30)]), [], 4)
    tables = write_runs(tmp_path, pieces, ("x",))
    recut = cut_into_pieces(pieces[0].events, [], 10)
    index = index_set(SnapshotDouble(tmp_path, recut), tables).index("x")
    assert index.lookup(only(EQUAL)).seq.tolist() == list(range(2, 30, 3))
    assert index.n_tail_events == 0


def test_missing_run_is_read_as_tail_and_named(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([i % 3 for i in range(30)]), [10, 10], 4)
    tables = write_runs(tmp_path, pieces, ("x",))
    (tmp_path / "index" / "x" / pieces[1].name).unlink()
    indexes = index_set(SnapshotDouble(tmp_path, pieces), tables)
    found = indexes.index("x").lookup(only(EQUAL))
    assert found.seq.tolist() == list(range(2, 30, 3))
    [fault] = indexes.faults
    assert pieces[1].name in fault
    assert "missing" in fault


def test_run_removed_after_opening_changes_no_answer(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([i % 3 for i in range(30)]), [10, 10], 4)
    tables = write_runs(tmp_path, pieces, ("x",))
    indexes = index_set(SnapshotDouble(tmp_path, pieces), tables)
    assert indexes.index("x").n_runs == 3
    (tmp_path / "index" / "x" / pieces[1].name).unlink()
    assert indexes.index("x").lookup(only(EQUAL)).seq.tolist() == list(range(2, 30, 3))
    assert len(indexes.faults) == 1


@pytest.fixture(scope="module")
def sound_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Piece], bytes]:
    folder = tmp_path_factory.mktemp("sound")
    pieces = cut_into_pieces(integers([(i * 31) % 17 for i in range(60)]), [], 8)
    write_runs(folder, pieces, ("x",), fence_entries=16)
    return folder, pieces, (folder / "index" / "x" / pieces[0].name).read_bytes()


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_corrupt_byte_in_a_run_changes_no_answer(
    sound_run: tuple[Path, list[Piece], bytes], data: st.DataObject
) -> None:
    folder, pieces, sound = sound_run
    damaged = bytearray(sound)
    at = data.draw(st.integers(0, len(sound) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    name = f"damaged-{at}-{damaged[at]}.parquet"
    path = folder / "index" / "x" / name
    path.write_bytes(damaged)
    indexes = index_set(SnapshotDouble(folder, pieces), {"x": RunTable(0, (name,))})
    ranges = KeyRanges.of([KeyRange(3, 3), KeyRange(9, None)])
    found = indexes.index("x").lookup(ranges)
    path.unlink()
    expected = matching_rows(pieces[0].events["x"].to_pylist(), ranges.ranges)
    assert found.seq.tolist() == expected


@given(size=st.integers(0, 2_000))
@settings(deadline=None, max_examples=60)
def test_run_cut_short_changes_no_answer(
    sound_run: tuple[Path, list[Piece], bytes], size: int
) -> None:
    folder, pieces, sound = sound_run
    name = f"short-{size}.parquet"
    path = folder / "index" / "x" / name
    path.write_bytes(sound[: min(size, len(sound) - 1)])
    indexes = index_set(SnapshotDouble(folder, pieces), {"x": RunTable(0, (name,))})
    found = indexes.index("x").lookup(only(3))
    path.unlink()
    expected = matching_rows(pieces[0].events["x"].to_pylist(), [KeyRange(3, 3)])
    assert found.seq.tolist() == expected
    assert len(indexes.faults) == 1


def test_large_tail_is_scanned_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexing.tail.MEMTABLE_EVENTS", 5)
    monkeypatch.setattr("indexing.tail.SCAN_EVENTS", 7)
    values = [(i * 31) % 17 for i in range(60)]
    pieces = cut_into_pieces(integers(values), [3], 4)
    snapshot = SnapshotDouble(tmp_path, pieces)
    index = index_set(snapshot, {"x": RunTable(0, ())}).index("x")
    least, most = index.estimate_count(only(3))
    assert (least, most) == (0, 57)  # the file of 3 events is counted, the other is not
    assert index.lookup(only(3)).seq.tolist() == matching_rows(values, [KeyRange(3, 3)])


def test_memtable_is_read_once(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(list(range(20))), [], 5)
    snapshot = SnapshotDouble(tmp_path, pieces)
    for _ in range(3):
        index = index_set(snapshot, {"x": RunTable(0, ())}).index("x")
        assert index.estimate_count(only(7)) == (1, 1)
        assert index.lookup(only(7)).seq.tolist() == [7]
    assert snapshot.n_blocks_read == 4


def test_attribute_without_a_key_has_an_empty_run_and_no_tail(tmp_path: Path) -> None:
    events = pa.table({"t": [1, 2], "x": pa.array([None, float("nan")], pa.float64())})
    pieces = cut_into_pieces(events, [], 5)
    index = index_over(tmp_path, pieces)
    assert index.lookup(KeyRanges.everything()).seq.tolist() == []
    assert index.estimate_count(KeyRanges.everything()) == (0, 0)
    assert (index.n_runs, index.n_entries, index.n_tail_events) == (1, 0, 0)


def test_unknown_index_names_the_nearest(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers([1]), [], 5)
    indexes = index_set(SnapshotDouble(tmp_path, pieces), {"x": RunTable(0, ())})
    with pytest.raises(UnknownIndexError, match="did you mean 'x'") as caught:
        indexes.index("X")
    assert (caught.value.name, caught.value.candidates) == ("X", ("x",))
