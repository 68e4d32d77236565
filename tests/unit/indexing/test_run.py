"""Run files: what is written or merged is read back, its times too, and damage is found."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chronicle.tree import column_file
from chronicle.tree.column_file import open_columns
from indexing.config import FENCE_KEY_CHARS
from indexing.cover import Segments
from indexing.entries import sort_entries
from indexing.errors import CorruptRunError, IndexingError
from indexing.fences import Selection
from indexing.key_range import KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind, key_kind, to_keys
from indexing.kway_merge import merge_runs
from indexing.run import Run, open_run
from indexing.run_format import CoveredFile, RunHead, TimeScale, cut_above, cut_below, write_entries
from indexing.writer import RunWriter
from tests.unit.indexing.doubles import (
    Piece,
    cut_into_pieces,
    flip_byte,
    write_runs,
)
from tests.unit.indexing.index_strategies import streams


def write(path: Path, column: pa.Array, *, fence_entries: int = 4) -> Run:
    times = np.arange(len(column), dtype=np.int64) * 10
    entries = sort_entries(to_keys(column, "x"), times, fence_entries=fence_entries)
    cover = CoveredFile("f.parquet", len(column), len(entries.t))
    scale = TimeScale.of(times)
    write_entries(path, entries, RunHead("x", key_kind(column.type, "x"), None, scale, (cover,)))
    return open_run(path)


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        pytest.param(pa.array([5, 3, None, 3, 9, 7]), [3], [9], id="integers"),
        pytest.param(pa.array([0.5, float("nan"), -1.0, 2.0]), [-1.0], [2.0], id="doubles"),
        pytest.param(pa.array(["b", "", "é", None]), [""], ["é"], id="strings"),
    ],
)
def test_run_says_what_it_covers_and_holds(
    tmp_path: Path, column: pa.Array, low: list[object], high: list[object]
) -> None:
    run = write(tmp_path / "run.parquet", column, fence_entries=8)
    n = len(to_keys(column, "x").rows)
    assert run.cover == (CoveredFile("f.parquet", len(column), n),)
    assert run.head.attribute == "x"
    assert run.kind is key_kind(column.type, "x")
    assert run.fences.low.tolist() == low
    assert run.fences.high.tolist() == high
    assert run.fences.count.tolist() == [n]
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"], "no draft stays"


def test_run_holds_plain_columns(tmp_path: Path) -> None:
    write(tmp_path / "run.parquet", pa.array([5, 3, None, 3, 9, 7]), fence_entries=2)
    # Sorted by (key, row): 3@1 3@3 | 5@0 7@5 | 9@4.
    file = open_columns(tmp_path / "run.parquet", kind="run")
    assert {name: file.read_all(name)[0].tolist() for name in file.columns} == {
        "key": [0, 0, 0, 1, 0],
        "t": [1, 3, 0, 5, 4],  # as steps of 10 from 0
        "position": [1, 3, 0, 5, 4],
        "key_word": [3, 5, 7, 9],
        "key_words": [1, 2, 1],
        "count": [2, 2, 1],
        "low": [3, 5, 9],
        "high": [3, 7, 9],
    }


@pytest.mark.parametrize("rim", [[False, True, False], [True, False, False], [False] * 3])
def test_keys_are_read_of_groups_at_the_rim_alone(tmp_path: Path, rim: list[bool]) -> None:
    run = write(tmp_path / "run.parquet", pa.array([5, 3, None, 3, 9, 7]), fence_entries=2)
    bounds = to_bounds(KeyRanges.of([KeyRange(3, 5)]), KeyKind.INTEGER)
    segments = Segments.of(run.cover, {"f.parquet": 7})
    selection = Selection(np.arange(3), np.array(rim))
    found = run.find(selection, bounds, segments, with_objects=False)
    # Four bytes each for time and position of five entries, two for a key.
    assert found.n_bytes_read == 8 * 5 + 2 * 2 * sum(rim)


@pytest.mark.parametrize("column", ["key", "t", "position", "key_word"])
def test_damaged_column_is_found_when_it_is_read(tmp_path: Path, column: str) -> None:
    path = tmp_path / "run.parquet"
    write(path, pa.array([5, 3, None, 3, 9, 7]), fence_entries=8)
    flip_byte(path, open_columns(path, kind="run").columns[column].start)
    damaged = open_run(path)
    with pytest.raises(CorruptRunError, match="checksum"):
        damaged.read(np.array([0]))


def test_damage_behind_the_entries_is_found_when_the_run_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write(path, pa.array([5, 3, None, 3, 9, 7]))
    content = path.read_bytes()
    head_at = open_columns(path, kind="run").columns["key_words"].start
    for at in range(head_at, len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x01
        path.write_bytes(damaged)
        try:
            assert open_run(path).fences.low.tolist() == [3], "a byte between columns"
        except CorruptRunError as error:
            assert error.path == str(path)  # noqa: PT017


def test_run_that_another_took_the_place_of_is_not_mixed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    run = write(path, pa.array([5, 3, 3, 9]))
    run.read(np.array([0]))
    write(path, pa.array([9, 3, 3, 5]))
    with pytest.raises(CorruptRunError, match="taken its place"):
        run.read(np.array([0]))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"PAR1", id="short"),
        pytest.param(b"\x00" * 40 + b"CHRONCOL", id="no-head"),
        pytest.param(b"x" * 100, id="no-parquet"),
    ],
)
def test_file_that_is_no_run_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(content)
    with pytest.raises(CorruptRunError, match=r"run\.parquet"):
        open_run(path)


def test_run_of_an_older_format_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table({"key": [1]}), path)
    with pytest.raises(
        CorruptRunError, match=r"older Chronicle.*'chronicle repair' writes"
    ) as told:
        open_run(path)
    assert told.value.older


def test_run_of_a_later_format_is_named_as_such(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "run.parquet"
    monkeypatch.setattr(column_file, "VERSION", 2)
    write(path, pa.array([5, 3]))
    monkeypatch.undo()
    with pytest.raises(CorruptRunError, match="it is of format 2, this Chronicle reads 1"):
        open_run(path)


LONG = "x" * FENCE_KEY_CHARS
HIGHEST = "\U0010ffff" * (FENCE_KEY_CHARS + 1)


@pytest.mark.parametrize(
    ("key", "below", "above"),
    [
        pytest.param(7, 7, 7, id="number"),
        pytest.param("abc", "abc", "abc", id="short"),
        pytest.param(LONG, LONG, LONG, id="just-fits"),
        pytest.param(LONG + "a", LONG, LONG[:-1] + "y", id="long"),
        pytest.param(
            LONG[:-1] + "\ud7ff" + "a", LONG[:-1] + "\ud7ff", LONG[:-1] + "\ue000",
            id="next-is-a-surrogate",
        ),
        pytest.param(
            LONG[:-1] + "\U0010ffff" + "a", LONG[:-1] + "\U0010ffff", LONG[:-2] + "y",
            id="last-code-point",
        ),
        pytest.param(HIGHEST, HIGHEST[:-1], HIGHEST, id="last-code-points-alone"),
    ],
)  # fmt: skip
def test_fences_of_long_strings_are_cut_outwards(key: object, below: object, above: object) -> None:
    assert cut_below(key) == below
    assert cut_above(key) == above


@given(st.lists(st.text("x\ud7ff\U0010ffff", max_size=3), min_size=2).map(sorted))
def test_cut_fences_enclose_their_keys_and_ascend(ends: list[str]) -> None:
    keys = sorted(LONG[:-1] + end for end in ends)
    low, high = [cut_below(k) for k in keys], [cut_above(k) for k in keys]
    assert all(a <= k <= b for a, k, b in zip(low, keys, high, strict=True))  # type: ignore[operator]
    assert low == sorted(low)  # type: ignore[type-var]
    assert high == sorted(high)  # type: ignore[type-var]


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def restored(scale: TimeScale, steps: np.ndarray) -> list[int]:
    """Undo a scale with Python's numbers, which know no overflow but the one made here."""
    times = [scale.first + scale.divisor * step for step in steps.tolist()]
    return [(t + (1 << 63)) % (1 << 64) - (1 << 63) for t in times]


@given(st.lists(INT64))
@example([-(1 << 63), (1 << 63) - 1])
@example([5] * 3)
@example([0, 1, *(1_000 * i for i in range(2, 600))])  # the 1 is in no sample
def test_any_times_are_restored_from_their_steps(times: list[int]) -> None:
    array = np.array(times, dtype=np.int64)
    scale = TimeScale.of(array)
    assert restored(scale, scale.to_steps(array)) == times


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=900), st.integers(1, 10_000), INT64)
def test_divisor_is_the_greatest_that_divides_all_times_less_the_first(
    steps: list[int], unit: int, first: int
) -> None:
    times = [min(max(first, -(1 << 62)), 1 << 62) + unit * step for step in steps]
    scale = TimeScale.of(np.array(times, dtype=np.int64))
    greatest = math.gcd(*(t - min(times) for t in times))
    assert scale == TimeScale(min(times), max(times), greatest)


def test_one_time_that_no_sample_holds_makes_the_divisor_smaller() -> None:
    times = np.arange(600) * 1_000
    times[1] = 400
    assert TimeScale.of(times) == TimeScale(0, 599_000, 200)


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=9), min_size=1, max_size=4))
def test_merged_scale_is_that_of_all_times(parts: list[list[int]]) -> None:
    arrays = [np.array(part) * 10 for part in parts]
    merged = TimeScale.merged([TimeScale.of(array) for array in arrays])
    assert merged == TimeScale.of(np.concatenate(arrays))


EVENTS = pa.table({"t": [1, 2, 3], "x": [5, None, 4], "s": ["b", "a", "b"], "l": [[1], [2], [3]]})


def test_one_run_per_attribute_is_reported_as_written(tmp_path: Path) -> None:
    writer = RunWriter(("x", "s"), "t")
    files = writer.write(tmp_path, "f.parquet", EVENTS, EVENTS["t"].combine_chunks(), [2, 1])
    assert [(f.table, f.name, f.n_rows) for f in files] == [
        ("index/x", "f.parquet", 2),
        ("index/s", "f.parquet", 3),
    ]
    for file in files:
        path = tmp_path / file.table / file.name
        assert path.stat().st_size == file.size_bytes
        assert open_run(path).cover[0].n_events == 3


def test_attribute_without_an_order_leaves_no_run_of_the_others(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="cannot be indexed"):
        RunWriter(("x", "l"), "t").write(
            tmp_path, "f.parquet", EVENTS, EVENTS["t"].combine_chunks(), [3]
        )
    assert not list(tmp_path.rglob("*.parquet*"))


@pytest.mark.parametrize("name", ["a/b", "..", "_x", "a%b", "", "a\nb", "x" * 201])
def test_attribute_that_cannot_name_a_folder_is_refused(name: str) -> None:
    with pytest.raises(IndexingError, match="cannot name an index folder"):
        RunWriter((name,), "t")


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
