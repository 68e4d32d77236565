"""Lookups within some rows: nothing outside them, everything inside, and little is decoded."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing import row_mask
from indexing.attributes import KeySpace
from indexing.cover import Segments
from indexing.index import RunTable
from indexing.key_range import Bounds, KeyRange, KeyRanges
from indexing.lookup import look_up
from indexing.placed_run import PlacedRun
from indexing.row_mask import RowMask
from indexing.run import Run, open_run
from tests.oracles.index import matching_rows
from tests.unit.indexing.doubles import (
    SnapshotDouble,
    cut_into_pieces,
    index_over,
    index_set,
    only,
    write_runs,
)
from tests.unit.indexing.index_strategies import ranges_for, streams

WORDS = ("a", "b", "b", "", None)


@st.composite
def wanted(draw: st.DrawFn, n: int) -> tuple[list[np.ndarray], tuple[np.ndarray, np.ndarray], set]:
    """Single rows and spans of a stream of ``n`` events, and all these rows."""
    single = sorted(draw(st.sets(st.integers(0, n - 1), max_size=20)))
    borders = sorted(draw(st.sets(st.integers(0, n), max_size=8)))
    pairs = list(zip(borders[0::2], borders[1::2], strict=False))
    spans = tuple(np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    rows = {*single, *(row for first, stop in pairs for row in range(first, stop))}
    return [np.array(single, dtype=np.int64)], spans, rows


@given(streams(), st.lists(st.integers(1, 12), max_size=6), st.integers(2, 9), st.data())
@settings(deadline=None)
def test_lookup_within_rows_returns_what_a_look_at_every_value_there_returns(
    table: pa.Table, file_events: list[int], fence_entries: int, data: st.DataObject
) -> None:
    keys = data.draw(st.lists(st.sampled_from(WORDS), min_size=len(table), max_size=len(table)))
    table = table.append_column("k", pa.array(keys, pa.string()))
    pieces = cut_into_pieces(table, file_events, 5)
    ranges = data.draw(ranges_for(table["x"].combine_chunks()))
    rows, spans, inside = data.draw(wanted(len(table)))
    covered = [piece for piece in pieces if data.draw(st.booleans())]
    with_times, with_objects = data.draw(st.booleans()), data.draw(st.booleans())
    with TemporaryDirectory() as folder:
        write_runs(Path(folder), covered, ("x",), fence_entries=fence_entries, key="k")
        snapshot = SnapshotDouble(Path(folder), pieces, key="k")
        names = tuple(piece.name for piece in covered)
        index = index_set(snapshot, {"x": RunTable(0, names)}).index("x")
        mask = RowMask.of(len(table), rows=rows, spans=spans)
        asked = {"with_times": with_times, "with_objects": with_objects}
        found = index.lookup_within(ranges, mask, **asked)
        index.lookup(ranges, with_objects=with_objects)
        kept = index.lookup_within(ranges, RowMask.of(len(table), rows=rows, spans=spans), **asked)
    matching = matching_rows(table["x"].to_pylist(), ranges.ranges)
    expected = [row for row in matching if row in inside]
    for answer in (found, kept):
        assert answer.seq.tolist() == expected
        if with_times:
            assert answer.t is not None
            assert answer.t.tolist() == [table["t"][row].as_py() for row in expected]
        if with_objects:
            assert answer.objects is not None
            assert answer.objects.to_pylist() == [keys[row] for row in expected]
    assert (kept.n_entries_read, kept.n_bytes_read) == (0, 0)


@given(st.integers(1, 3000), st.integers(2, 12), st.data())
def test_mask_has_every_row_and_of_long_streams_few_besides(
    n: int, n_bits: int, data: st.DataObject
) -> None:
    rows, spans, inside = data.draw(wanted(n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_mask, "ROW_MASK_BITS_MAX", n_bits)
        mask = RowMask.of(n, rows=rows, spans=spans)
        held = set(np.flatnonzero(mask.contains(np.arange(n))).tolist())
        step = 1 << mask.shift
        assert n <= step << n_bits
        assert step == 1 or n > (step >> 1) << n_bits
        assert held == {row for row in range(n) if any(r // step == row // step for r in inside)}
        assert not mask.contains(np.array([-1])).any()
        stretches = np.array([[a, a + 1 + a % 7] for a in range(n - 7)], dtype=np.int64)
        touched = mask.touch(stretches.reshape(-1, 2)).tolist()
        assert touched == [
            any(r // step in range(a // step, (z - 1) // step + 1) for r in inside)
            for a, z in stretches.tolist()
        ]


def events(n: int) -> pa.Table:
    """Key 0 and 1 in turns, and once, in the middle, key 2."""
    x = np.arange(n, dtype=np.int64) % 2
    x[n // 2] = 2
    return pa.table({"t": np.arange(n, dtype=np.int64), "x": x})


def test_only_groups_that_have_a_row_are_read_on(tmp_path: Path) -> None:
    """5,000 entries of key 1 in groups of 100: 3000 and 3010 are in one or two."""
    pieces = cut_into_pieces(events(10_000), [], 100)
    index = index_over(tmp_path, pieces, fence_entries=100)
    rows = [np.array([3000, 3001, 3010, 3011])]
    found = index.lookup_within(only(1), RowMask.of(10_000, rows=rows))
    assert found.seq.tolist() == [3001, 3011]
    assert found.n_entries_read <= 2 * 100
    everything = index.lookup_within(KeyRanges.everything(), RowMask.of(10_000, rows=rows))
    assert everything.seq.tolist() == [3000, 3001, 3010, 3011]


def test_runs_and_files_without_a_row_are_not_read(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(400), [100, 100, 100], 10)
    tables = write_runs(tmp_path, pieces[:2], ("x",))
    snapshot = SnapshotDouble(tmp_path, pieces)
    index = index_set(snapshot, tables).index("x")
    mask = RowMask.of(400, rows=[np.array([150, 151])])
    found = index.lookup_within(only(0), mask)
    assert found.seq.tolist() == [150]
    assert snapshot.n_blocks_read == 0
    first = (tmp_path / "index" / "x" / pieces[0].name).stat().st_size
    assert 0 < found.n_bytes_read < first


def run_of_ones(folder: Path, n: int) -> tuple[Run, Bounds]:
    """Return the run of ``n`` events, in groups of four, and the bounds of key 1."""
    pieces = cut_into_pieces(events(n), [], 10)
    tables = write_runs(folder, pieces, ("x",), fence_entries=4)
    bounds = KeySpace.of(pieces[0].events.schema, "x").candidates(only(1))
    return open_run(folder / "index" / "x" / tables["x"].names[0]), bounds


def test_entries_of_files_taken_from_another_run_are_left_out(tmp_path: Path) -> None:
    """Of three files in one run the second is dead, and the third comes before the first."""
    run, bounds = run_of_ones(tmp_path, 30)
    segments = Segments(
        np.array([10, 20, 30]), np.array([10, 0, -20]), np.array([True, False, True])
    )
    mask = RowMask.of(30, spans=(np.array([0, 13]), np.array([4, 30])))
    found = run.find_within(
        run.fences.select(bounds), bounds, segments, mask, with_times=True, with_objects=False
    )
    # Rows 1, 3, …, 9 of the first file are at 11, 13, …; of the third 21, … are at 1, 3, ….
    placed = {1: 21, 3: 23, 13: 3, 15: 5, 17: 7, 19: 9}
    assert dict(zip(found.seq.tolist(), found.t.tolist(), strict=True)) == placed


def test_entries_of_files_that_changed_places_come_in_order_of_the_stream(tmp_path: Path) -> None:
    """Of two files in one run the second comes before the first: no two entries need ascend."""
    run, bounds = run_of_ones(tmp_path, 20)
    segments = Segments(np.array([10, 20]), np.array([10, -10]), np.array([True, True]))
    mask = RowMask.of(20, spans=(np.array([2]), np.array([20])))
    placed = PlacedRun(run, segments)
    kept = placed.read(bounds, mask, with_times=True, with_objects=False)
    assert kept.seq.tolist() == sorted(kept.seq.tolist())
    # Rows 1, 3, … of the first file are at 11, 13, …, rows 11, 13, … of the second at 1, 3, ….
    found = look_up([placed], bounds, None, rows=mask)
    assert found.seq.tolist() == list(range(3, 20, 2))
    assert found.t is not None
    assert found.t.tolist() == [13, 15, 17, 19, 1, 3, 5, 7, 9]


def test_keys_are_compared_in_every_group_that_a_range_cuts(tmp_path: Path) -> None:
    """Keys 6 to 29 of 40 in groups of four: the groups of 6 and of 29 are cut, at their middles."""
    events_by_key = pa.table({"t": np.arange(40), "x": np.arange(40)})
    pieces = cut_into_pieces(events_by_key, [], 10)
    index = index_over(tmp_path, pieces, fence_entries=4)
    spans = np.array([0]), np.array([40])
    found = index.lookup_within(KeyRanges.of([KeyRange(6, 29)]), RowMask.of(40, spans=spans))
    assert found.seq.tolist() == list(range(6, 30))
