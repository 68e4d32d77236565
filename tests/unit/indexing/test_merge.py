"""Merged runs against runs built at once."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.errors import CorruptRunError, IndexingError
from indexing.kway_merge import merge_runs
from indexing.run import open_run
from indexing.run_format import CoveredFile
from tests.unit.indexing.doubles import (
    Piece,
    cut_into_pieces,
    flip_byte,
    write_runs,
)
from tests.unit.indexing.index_strategies import streams


def run_content(path: Path) -> list[list[object]]:
    run = open_run(path)
    read = run.read(np.arange(len(run.fences)))
    columns = (read.keys, read.t, read.position, run.fences.count)
    return [column.tolist() for column in columns]


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[Piece], int]:
    sizes = draw(st.lists(st.integers(1, 20), max_size=4))
    pieces = cut_into_pieces(draw(streams()), sizes, draw(st.integers(1, 7)))
    return pieces, draw(st.integers(2, 9))


@given(cut_streams(), st.integers(1, 3), st.data())
@settings(deadline=None)
def test_merged_run_equals_one_built_at_once(
    case: tuple[list[Piece], int], merge_groups: int, data: st.DataObject
) -> None:
    pieces, fence_entries = case
    names = [p.name for p in pieces]
    live = [p for p in pieces if data.draw(st.booleans(), label=f"{p.name} lives")]
    with TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexing.kway_merge.MERGE_GROUPS", merge_groups)
        folder = Path(text)
        write_runs(folder, pieces, ("x",), fence_entries=fence_entries)
        merge_runs(
            folder, "x", data.draw(st.permutations(names)), live=[p.name for p in live],
            target="merged.parquet", fence_entries=fence_entries,
        )  # fmt: skip
        merged = folder / "index" / "x" / "merged.parquet"
        assert [c.name for c in open_run(merged).cover] == [p.name for p in live]
        if live:
            at_once = Piece(
                "at-once.parquet",
                pa.concat_tables([p.events for p in live]),
                [n for p in live for n in p.block_counts],
            )
            write_runs(folder, [at_once], ("x",), fence_entries=fence_entries)
            expected = folder / "index" / "x" / at_once.name
            assert run_content(merged) == run_content(expected)
            assert open_run(merged).fences.low.tolist() == open_run(expected).fences.low.tolist()
            assert open_run(merged).fences.high.tolist() == open_run(expected).fences.high.tolist()


def two_runs(folder: Path) -> list[str]:
    events = pa.table({"t": range(20), "x": [i % 7 for i in range(20)]})
    pieces = cut_into_pieces(events, [12], 5)
    write_runs(folder, pieces, ("x",))
    return [p.name for p in pieces]


def test_merge_reports_the_file_it_wrote(tmp_path: Path) -> None:
    names = two_runs(tmp_path)
    written = merge_runs(tmp_path, "x", names, live=names[1:], target="m.parquet")
    path = tmp_path / written.table / written.name
    assert (written.table, written.name, written.n_rows) == ("index/x", "m.parquet", 8)
    assert written.size_bytes == path.stat().st_size
    assert open_run(path).cover == (CoveredFile(names[1], 8, 8),)


def test_damaged_input_stops_the_merge_and_leaves_nothing(tmp_path: Path) -> None:
    names = two_runs(tmp_path)
    path = tmp_path / "index" / "x" / names[1]
    flip_byte(path, 20)
    with pytest.raises(CorruptRunError, match=names[1]):
        merge_runs(tmp_path, "x", names, live=names, target="m.parquet")
    assert sorted(p.name for p in path.parent.iterdir()) == sorted(names)


def test_runs_of_different_key_types_are_not_merged(tmp_path: Path) -> None:
    names = two_runs(tmp_path)
    strings = pa.table({"t": [100], "x": ["a"]})
    write_runs(tmp_path, [Piece("s.parquet", strings, [1])], ("x",))
    with pytest.raises(IndexingError, match="2 types"):
        merge_runs(tmp_path, "x", [*names, "s.parquet"], live=names, target="m.parquet")
