"""Lookups and counts against a look at every value, and the answers that are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indexing
from indexing.cache import BoundedCache
from indexing.errors import UnknownIndexError
from indexing.index import _ANSWER_BYTES, Index, RunTable, _answer_bytes, _answers
from indexing.key_range import KeyRange, KeyRanges
from indexing.row_mask import RowMask
from tests.oracles.index import matching_rows
from tests.unit.indexing.doubles import (
    Piece,
    SnapshotDouble,
    cut_into_pieces,
    cut_short,
    index_over,
    index_set,
    only,
    write_runs,
)
from tests.unit.indexing.index_strategies import ranges_for, streams

EQUAL = 2  # key that the frequent tests ask for
VALUES = [(i * 31) % 17 for i in range(300)]


def integers(values: list[int] | list[float]) -> pa.Table:
    return pa.table({"t": range(len(values)), "x": values})


def below(high: int) -> KeyRanges:
    return KeyRanges.of([KeyRange(None, high)])


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


@pytest.mark.parametrize(
    ("file_events", "live", "n_tail"),
    [
        pytest.param([10, 10], lambda pieces: pieces[::2], 0, id="a-file-is-dead"),
        pytest.param(
            [],
            lambda pieces: cut_into_pieces(pieces[0].events.slice(0, 20), [], 4),
            20,
            id="the-file-has-fewer-events-than-the-run-says",
        ),
        pytest.param(
            [],
            lambda pieces: cut_into_pieces(pieces[0].events, [], 10),
            0,
            id="the-file-is-cut-into-other-blocks",
        ),
    ],
)
def test_run_is_used_for_live_files_of_as_many_events_whatever_their_blocks(
    tmp_path: Path,
    file_events: list[int],
    live: Callable[[list[Piece]], list[Piece]],
    n_tail: int,
) -> None:
    pieces = cut_into_pieces(integers([i % 3 for i in range(30)]), file_events, 4)
    tables = write_runs(tmp_path, pieces, ("x",))
    snapshot = SnapshotDouble(tmp_path, live(pieces))
    index = index_set(snapshot, tables).index("x")
    found = index.lookup(only(EQUAL)).seq.tolist()
    assert found == matching_rows(snapshot.events["x"].to_pylist(), only(EQUAL).ranges)
    assert index.n_tail_events == n_tail
    assert index.n_entries == snapshot.n_events - n_tail


ASKED: dict[str, Callable[[Index], np.ndarray]] = {
    "all-events": lambda index: index.lookup(below(3)).seq,
    "ranges-of-events": lambda index: index.lookup(below(3), within=WITHIN).seq,
    "rows": lambda index: (
        index.lookup_within(below(3), RowMask.of(300, spans=(WITHIN[:, 0], WITHIN[:, 1]))).seq
    ),
}
WITHIN = np.array([[0, 5], [90, 110], [210, 220]])


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("harm", [Path.unlink, cut_short], ids=["missing", "short"])
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_lost_run_is_named_and_changes_no_answer(
    tmp_path: Path, ask: Callable[[Index], np.ndarray], harm: Callable[[Path], None], is_open: bool
) -> None:
    pieces = cut_into_pieces(integers(VALUES), [100, 100], 10)
    index = index_over(tmp_path, pieces)
    expected = ask(index).tolist()
    path = tmp_path / "index" / "x" / pieces[1].name
    harm(path)
    if not is_open:
        names = tuple(piece.name for piece in pieces)
        index = index_set(SnapshotDouble(tmp_path, pieces), {"x": RunTable(0, names)}).index("x")
    assert ask(index).tolist() == expected  # which is kept where the run is open
    indexing.clear_caches()
    assert ask(index).tolist() == expected
    [fault] = index.faults
    assert pieces[1].name in fault
    assert ("missing" in fault) == (harm is Path.unlink)


@pytest.fixture(scope="module")
def sound_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Piece], bytes]:
    folder = tmp_path_factory.mktemp("sound")
    pieces = cut_into_pieces(integers([(i * 31) % 17 for i in range(60)]), [], 8)
    write_runs(folder, pieces, ("x",), fence_entries=16)
    return folder, pieces, (folder / "index" / "x" / pieces[0].name).read_bytes()


def lookup_of_damaged(
    sound_run: tuple[Path, list[Piece], bytes], content: bytes
) -> tuple[bool, int]:
    """Return whether a lookup of a run of this content is right, and how many faults it met."""
    folder, pieces, _ = sound_run
    path = folder / "index" / "x" / f"damaged-{hash(content)}.parquet"
    path.write_bytes(content)
    indexes = index_set(SnapshotDouble(folder, pieces), {"x": RunTable(0, (path.name,))})
    ranges = KeyRanges.of([KeyRange(3, 3), KeyRange(9, None)])
    found = indexes.index("x").lookup(ranges).seq.tolist()
    path.unlink()
    return found == matching_rows(pieces[0].events["x"].to_pylist(), ranges.ranges), len(
        indexes.faults
    )


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_corrupt_byte_in_a_run_changes_no_answer(
    sound_run: tuple[Path, list[Piece], bytes], data: st.DataObject
) -> None:
    damaged = bytearray(sound_run[2])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    is_right, _ = lookup_of_damaged(sound_run, bytes(damaged))
    assert is_right


@given(size=st.integers(0, 2_000))
@settings(deadline=None, max_examples=60)
def test_run_cut_short_changes_no_answer(
    sound_run: tuple[Path, list[Piece], bytes], size: int
) -> None:
    sound = sound_run[2]
    assert lookup_of_damaged(sound_run, sound[: min(size, len(sound) - 1)]) == (True, 1)


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


@pytest.mark.parametrize("cuts", [[], [100]])
def test_answer_weighs_what_its_memory_takes(tmp_path: Path, cuts: list[int]) -> None:
    index = index_over(tmp_path, cut_into_pieces(integers(VALUES), cuts, 10))
    found = index.lookup(KeyRanges.everything())
    assert len(found.seq) == 300
    assert _answer_bytes(found) == 300 * 16 + _ANSWER_BYTES


def test_answer_cannot_be_written_to(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(VALUES), [], 10)
    index = index_over(tmp_path, pieces)
    for _ in range(2):
        found = index.lookup(below(3))
        for array in (found.seq, found.t):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7


def test_kept_answers_stay_within_their_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = BoundedCache(12_000, _answers._weigh)
    monkeypatch.setattr("indexing.index._answers", small)
    pieces = cut_into_pieces(integers(VALUES), [], 10)
    index = index_over(tmp_path, pieces)
    for high in [*range(17), *range(17)]:
        assert index.lookup(below(high)).seq.tolist() == matching_rows(
            VALUES, [KeyRange(None, high)]
        )
        small._check()
    # The last answer holds 300 turns of 16 bytes, so at most two of its size are kept.
    assert index.lookup(below(16)).n_bytes_read == 0
    assert index.lookup(below(2)).n_bytes_read > 0


def test_indexes_of_other_snapshots_keep_their_own_answers(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(VALUES), [100], 10)
    tables = write_runs(tmp_path, pieces, ("x",))
    old = index_set(SnapshotDouble(tmp_path, pieces[:1]), tables).index("x")
    new = index_set(SnapshotDouble(tmp_path, pieces), tables).index("x")
    assert old.lookup(below(20)).seq.tolist() == list(range(100))
    assert new.lookup(below(20)).seq.tolist() == list(range(300))


def test_threads_get_right_answers_while_caches_are_cleared(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(VALUES), [100], 10)
    index = index_over(tmp_path, pieces)
    expected = [matching_rows(VALUES, [KeyRange(None, high)]) for high in range(17)]
    answers: list[bool] = []

    def ask() -> None:
        for high in [*range(17)] * 5:
            answers.append(index.lookup(below(high)).seq.tolist() == expected[high])
            if high % 5 == 0:
                indexing.clear_caches()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * (4 * 85)


# ---------------------------------------------------------------------------------------------
# Lookups within some sequence numbers.


@given(streams(), st.lists(st.integers(1, 12), max_size=6), st.data())
@settings(deadline=None)
def test_lookup_within_ranges_has_every_event_that_lies_in_them(
    table: pa.Table, file_events: list[int], data: st.DataObject
) -> None:
    pieces = cut_into_pieces(table, file_events, 5)
    ranges = data.draw(ranges_for(table["x"].combine_chunks()))
    borders = data.draw(st.sets(st.integers(0, table.num_rows)).map(sorted))
    within = np.array(borders[: len(borders) // 2 * 2], dtype=np.int64).reshape(-1, 2)
    inside = {seq for first, stop in within.tolist() for seq in range(first, stop)}
    n_run = data.draw(st.integers(0, len(pieces)))
    with TemporaryDirectory() as folder:
        tables = write_runs(Path(folder), pieces[:n_run], ("x",))
        snapshot = SnapshotDouble(Path(folder), pieces)
        index = index_set(snapshot, tables or {"x": RunTable(0, ())}).index("x")
        restricted = index.lookup(ranges, within=within)
        _, most = index.estimate_count(ranges, within=within)
        again = index.lookup(ranges, within=within)
        found = index.lookup(ranges)
        after = index.lookup(ranges, within=within)
    times = dict(zip(found.seq.tolist(), found.t.tolist(), strict=True))
    for answer in (restricted, again, after):
        assert inside & times.keys() <= set(answer.seq.tolist()) <= times.keys()
        assert [times[seq] for seq in answer.seq.tolist()] == answer.t.tolist()
    assert again.n_bytes_read == 0
    assert restricted.n_entries_read <= found.n_entries_read
    assert len(restricted.seq) <= most


def test_lookup_within_ranges_reads_no_run_and_no_file_outside(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(VALUES), [100, 50, 50], 10)
    tables = write_runs(tmp_path, pieces[:2], ("x",))
    snapshot = SnapshotDouble(tmp_path, pieces)
    index = index_set(snapshot, tables).index("x")
    everything = KeyRanges.everything()
    # Events 0 to 99 and 100 to 149 have runs, 150 to 199 and 200 to 299 are scanned.
    second = np.array([[100, 101]], dtype=np.int64)
    assert index.lookup(everything, within=second).seq.tolist() == list(range(100, 150))
    assert index.estimate_count(everything, within=second) == (50, 50)
    assert snapshot.n_blocks_read == 0
    ends = np.array([[0, 1], [299, 300]], dtype=np.int64)
    found = index.lookup(everything, within=ends).seq.tolist()
    assert found == [*range(100), *range(200, 300)]
    assert snapshot.n_blocks_read == 10
    nothing = np.empty((0, 2), dtype=np.int64)
    assert len(index.lookup(everything, within=nothing).seq) == 0
    assert index.estimate_count(everything, within=nothing) == (0, 0)


def test_answer_within_ranges_is_not_taken_for_that_of_other_runs(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(VALUES), [100, 100], 10)
    index = index_over(tmp_path, pieces)
    first, second = (np.array([[seq, seq + 1]], dtype=np.int64) for seq in (0, 100))
    expected = matching_rows(VALUES, [KeyRange(None, 3)])
    found = index.lookup(below(3), within=first).seq.tolist()
    assert found == [seq for seq in expected if seq < 100]
    cut_short(tmp_path / "index" / "x" / pieces[0].name)
    index.lookup(below(8), within=first)  # meets the damage: what was second is now first
    found = index.lookup(below(3), within=second).seq.tolist()
    assert found == [seq for seq in expected if 100 <= seq < 200]


def test_answers_can_be_forgotten_alone(tmp_path: Path) -> None:
    pieces = cut_into_pieces(integers(VALUES), [100], 10)
    index = index_over(tmp_path, pieces)
    first = index.lookup(below(3))
    assert index.lookup(below(3)).n_bytes_read == 0
    indexing.clear_answers()
    assert index.lookup(below(3)).n_bytes_read == first.n_bytes_read > 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7))))
def test_weight_stays_within_the_bound(steps: list[tuple[int, int]]) -> None:
    cache: BoundedCache[int, int] = BoundedCache(10, lambda value: value)
    for key, value in steps:
        cache.put(key, value)
        cache._check()
        assert cache.find(key) == value


def test_value_unused_for_longest_is_dropped_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3, lambda _: 1)
    for key in "abc":
        cache.put(key, 1)
    assert cache.find("a") == 1
    cache.put("d", 1)
    assert [key for key in "abcd" if cache.find(key) is not None] == ["a", "c", "d"]


def test_value_heavier_than_the_bound_is_made_and_not_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3, lambda value: value)
    assert cache.get("a", lambda: 5) == 5
    assert cache.find("a") is None
    cache._check()


def test_kept_value_is_not_made_again() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3, lambda _: 1)
    assert cache.get("a", lambda: 1) == 1
    assert cache.get("a", lambda: 2) == 1
