"""Run files: what is written is read back, damage is found."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing import run as run_module
from indexing.bounds import to_bounds
from indexing.config import FENCE_KEY_CHARS
from indexing.encoding import TimeScale, choose_layout
from indexing.entries import sort_entries
from indexing.errors import CorruptRunError
from indexing.fences import Selection
from indexing.key_range import KeyRange, KeyRanges
from indexing.keys import KeyKind, key_kind, to_keys
from indexing.run import FileRun, open_run
from indexing.run_file import cut_above, cut_below, write_entries
from indexing.run_format import CoveredFile
from indexing.scratch import Room


def write(path: Path, column: pa.Array, *, fence_entries: int = 4) -> FileRun:
    times = np.arange(len(column), dtype=np.int64) * 10
    entries = sort_entries(to_keys(column, "x"), times, fence_entries=fence_entries)
    kind = key_kind(column.type, "x")
    cover = CoveredFile("f.parquet", len(column), len(entries.t))
    layout = choose_layout(
        "x", kind, object_kind=None, scale=TimeScale.of(times), repetition=entries.repetition
    )
    write_entries(path, entries, cover, layout)
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


def test_run_is_an_ordinary_parquet_file(tmp_path: Path) -> None:
    write(tmp_path / "run.parquet", pa.array([5, 3, None, 3, 9, 7]), fence_entries=2)
    # Sorted by (key, row): 3@1 3@3 | 5@0 7@5 | 9@4.
    assert pq.read_table(tmp_path / "run.parquet").to_pydict() == {
        "key": [3, 3, 5, 7, 9],
        "t": [1, 3, 0, 5, 4],  # as steps of 10 from 0
        "position": [1, 3, 0, 5, 4],
    }
    assert pq.read_metadata(tmp_path / "run.parquet").num_row_groups == 3


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        pytest.param(pa.array([5, 3, None, 3, 9, 7]), [3, 3, 9], id="integers"),
        pytest.param(pa.array([5.5, 3, None, 3, 9, 7]), [3.0, 3.0, 9.0], id="doubles"),
        pytest.param(pa.array(["d", "b", None, "b", "f", "e"]), ["b", "b", "f"], id="strings"),
    ],
)
def test_reading_groups_returns_them_in_order(
    tmp_path: Path, column: pa.Array, keys: list[object]
) -> None:
    # Sorted by (key, row), in groups of two: rows 1 3 | 0 5 | 4.
    read = write(tmp_path / "run.parquet", column, fence_entries=2).read(np.array([0, 2]))
    assert read.keys.tolist() == keys
    assert read.t.tolist() == [10, 30, 40]
    assert read.position.tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("groups", "rim", "position"),
    [
        pytest.param([0, 1, 2], [False, False, False], [1, 3, 0, 5, 4], id="all-inside"),
        pytest.param([0, 1, 2], [True, False, True], [0, 5], id="rims-on-both-sides"),
        pytest.param([1, 2], [False, True], [0, 5], id="rim-behind"),
        pytest.param([0, 1], [True, True], [0, 5], id="rims-only"),
        pytest.param([0, 2], [False, False], [1, 3, 4], id="not-adjacent"),
        pytest.param([0, 2], [True, True], [], id="nothing-admitted"),
    ],
)
def test_keys_are_compared_in_groups_at_the_rim_only(
    tmp_path: Path, groups: list[int], rim: list[bool], position: list[int]
) -> None:
    # Sorted by (key, row), in groups of two: rows 1 3 | 0 5 | 4, keys 3 3 | 5 7 | 9.
    column = pa.array([5, 3, None, 3, 9, 7])
    run = write(tmp_path / "run.parquet", column, fence_entries=2)
    bounds = to_bounds(KeyRanges.of([KeyRange(4, 8)]), KeyKind.INTEGER)
    inside = Selection(np.array(groups), np.array(rim))
    found = run.find(inside, bounds, shift=100, room=Room(6))
    assert found.position.tolist() == [100 + p for p in position]
    assert found.t.tolist() == [10 * p for p in position]
    assert found.n_entries_read == sum([2, 2, 1][g] for g in groups)
    for first, end in pairwise(found.cuts.tolist()):
        assert found.position[first:end].tolist() == sorted(found.position[first:end].tolist())


def test_bytes_read_are_those_of_the_groups(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    run = write(path, pa.array([5, 3, None, 3, 9, 7]), fence_entries=2)
    metadata = pq.read_metadata(path)
    sizes = [
        sum(metadata.row_group(g).column(c).total_compressed_size for c in range(3))
        for g in range(3)
    ]
    bounds = to_bounds(KeyRanges.everything(), KeyKind.INTEGER)
    for groups in ([1], [0, 2], [0, 1, 2]):
        inside = Selection(np.array(groups), np.zeros(len(groups), dtype=bool))
        found = run.find(inside, bounds, shift=0, room=Room(5))
        assert found.n_bytes_read == sum(sizes[g] for g in groups)


@pytest.mark.parametrize("rim", [[False, True, False], [True, False, False], [False] * 3])
def test_keys_that_tell_nothing_are_read_for_the_checksum_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rim: list[bool]
) -> None:
    """Asked again, groups inside the ranges take as much less as their keys take, and the head of
    the page behind them, of at most 100 bytes."""
    monkeypatch.setattr(run_module, "SKIPPED_BYTES_MIN", 0)
    path = tmp_path / "run.parquet"
    run = write(path, pa.array([5, 3, None, 3, 9, 7]), fence_entries=2)
    keys = [pq.read_metadata(path).row_group(g).column(0).total_compressed_size for g in range(3)]
    bounds = to_bounds(KeyRanges.of([KeyRange(3, 5)]), KeyKind.INTEGER)
    n_read, answers = [], []
    for _ in range(2):
        found = run.find(Selection(np.arange(3), np.array(rim)), bounds, shift=7, room=Room(5))
        n_read.append(found.n_bytes_read)
        answers.append((found.position.tolist(), found.t.tolist(), found.cuts.tolist()))
    assert answers[0] == answers[1]
    skipped = sum(size for size, is_rim in zip(keys, rim, strict=True) if not is_rim)
    assert skipped <= n_read[0] - n_read[1] <= skipped + 100 * rim.count(False)


def test_no_draft_stays_behind(tmp_path: Path) -> None:
    write(tmp_path / "run.parquet", pa.array([5, 3, None, 3, 9, 7]))
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"]


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_damaged_row_group_is_found_when_it_is_read(tmp_path: Path, where: str) -> None:
    path = tmp_path / "run.parquet"
    run = write(path, pa.array([5, 3, None, 3, 9, 7]), fence_entries=8)
    start, end = run.places.starts.tolist()
    content = bytearray(path.read_bytes())
    content[{"first": start, "middle": (start + end) // 2, "last": end - 1}[where]] ^= 0xFF
    path.write_bytes(content)
    damaged = open_run(path)
    with pytest.raises(CorruptRunError, match="row group 0"):
        damaged.read(np.array([0]))


def test_damaged_footer_is_found_when_the_run_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    run = write(path, pa.array([5, 3, None, 3, 9, 7]))
    content = path.read_bytes()
    for at in range(int(run.places.starts[-1]), len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x01
        path.write_bytes(damaged)
        with pytest.raises(CorruptRunError):
            open_run(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"PAR1", id="short"),
        pytest.param(b"PAR1" + b"\x00" * 40 + b"PAR1", id="no-run"),
        pytest.param(b"x" * 100, id="no-parquet"),
    ],
)
def test_file_that_is_no_run_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(content)
    with pytest.raises(CorruptRunError, match=r"run\.parquet"):
        open_run(path)


def test_parquet_file_without_a_head_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table({"key": [1]}), path)
    with pytest.raises(CorruptRunError, match="names no run"):
        open_run(path)


def test_run_of_an_older_format_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write(path, pa.array([5, 3]))
    path.write_bytes(path.read_bytes().replace(b"chronicle-run-3:", b"chronicle-run-2:"))
    with pytest.raises(CorruptRunError, match=r"older format.*'chronicle repair' writes"):
        open_run(path)


def doubles_that_repeat(n: int) -> pa.Array:
    return pa.array([float(i % 10) - 4.5 for i in range(n)])


@pytest.mark.parametrize(
    ("column", "encodings"),
    [
        pytest.param(doubles_that_repeat(400), {"PLAIN", "RLE_DICTIONARY"}, id="doubles-repeat"),
        pytest.param(pa.array([i / 7 for i in range(400)]), {"PLAIN"}, id="doubles-differ"),
        pytest.param(pa.array(range(400)), {"DELTA_BINARY_PACKED"}, id="integers"),
        pytest.param(pa.array(["a"] * 400), {"PLAIN", "RLE_DICTIONARY"}, id="strings"),
    ],
)
def test_keys_are_encoded_as_their_repetition_asks_for(
    tmp_path: Path, column: pa.Array, encodings: set[str]
) -> None:
    run = write(tmp_path / "run.parquet", column, fence_entries=64)
    chunk = pq.read_metadata(tmp_path / "run.parquet").row_group(1).column(0)
    assert set(chunk.encodings) - {"RLE"} == encodings  # a dictionary's own page is plain
    everything = run.read(np.arange(len(run.fences)))
    assert sorted(everything.keys.tolist()) == sorted(column.to_pylist())


@pytest.mark.parametrize("low", [-4.5, -0.5, 3.5])
def test_doubles_in_a_dictionary_are_compared_at_the_rim(tmp_path: Path, low: float) -> None:
    column = doubles_that_repeat(400)
    run = write(tmp_path / "run.parquet", column, fence_entries=64)
    bounds = to_bounds(KeyRanges.of([KeyRange(low, low + 1, high_closed=False)]), KeyKind.DOUBLE)
    found = run.find(run.fences.select(bounds), bounds, shift=0, room=Room(400))
    expected = [row for row, key in enumerate(column.to_pylist()) if key == low]
    assert sorted(found.position.tolist()) == expected


LONG = "x" * FENCE_KEY_CHARS


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
    ],
)  # fmt: skip
def test_fences_of_long_strings_are_cut_outwards(key: object, below: object, above: object) -> None:
    assert cut_below(key) == below
    assert cut_above(key) == above


def test_fence_of_last_code_points_alone_is_not_cut() -> None:
    key = "\U0010ffff" * (FENCE_KEY_CHARS + 1)
    assert cut_above(key) == key


@given(st.lists(st.text("x\ud7ff\U0010ffff", max_size=3), min_size=2).map(sorted))
def test_cut_fences_enclose_their_keys_and_ascend(ends: list[str]) -> None:
    keys = sorted(LONG[:-1] + end for end in ends)
    low, high = [cut_below(k) for k in keys], [cut_above(k) for k in keys]
    assert all(a <= k <= b for a, k, b in zip(low, keys, high, strict=True))  # type: ignore[operator]
    assert low == sorted(low)  # type: ignore[type-var]
    assert high == sorted(high)  # type: ignore[type-var]
