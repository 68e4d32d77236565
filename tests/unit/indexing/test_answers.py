"""Answers that are kept: equal to fresh ones, sound, and bounded by the cache they are kept in."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indexing
from indexing.cache import BoundedCache
from indexing.index import _ANSWER_BYTES, RunTable, _answer_bytes, _answers
from indexing.key_range import KeyRange, KeyRanges
from tests.oracles.index import matching_rows
from tests.unit.indexing.doubles import (
    SnapshotDouble,
    cut_into_pieces,
    index_over,
    index_set,
    write_runs,
)
from tests.unit.indexing.index_strategies import ranges_for, streams

VALUES = [(i * 31) % 17 for i in range(300)]


def events() -> pa.Table:
    return pa.table({"t": pa.array(range(300), pa.int64()), "x": pa.array(VALUES, pa.int64())})


def below(high: int) -> KeyRanges:
    return KeyRanges.of([KeyRange(None, high)])


def test_answer_weighs_what_its_memory_takes(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
    index = index_over(tmp_path, pieces)
    found = index.lookup(KeyRanges.everything())
    memory = found.seq.base
    assert memory is not None
    assert memory is found.t.base
    assert memory.nbytes == 300 * 16
    assert _answer_bytes(found) == memory.nbytes + _ANSWER_BYTES


def test_answer_cannot_be_written_to(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [], 10)
    index = index_over(tmp_path, pieces)
    for _ in range(2):
        found = index.lookup(below(3))
        for array in (found.seq, found.t):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7


def test_run_found_damaged_later_changes_no_answer(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
    index = index_over(tmp_path, pieces)
    kept = index.lookup(below(3))
    for piece in pieces:
        path = tmp_path / "index" / "x" / piece.name
        path.write_bytes(path.read_bytes()[:40])
    assert index.lookup(below(8)).seq.tolist() == matching_rows(VALUES, [KeyRange(None, 8)])
    assert len(index.faults) == 2
    assert index.lookup(below(3)).seq.tolist() == kept.seq.tolist()
    indexing.clear_caches()
    assert index.lookup(below(3)).seq.tolist() == kept.seq.tolist()


def test_kept_answers_stay_within_their_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = BoundedCache(12_000, _answers._weigh)
    monkeypatch.setattr("indexing.index._answers", small)
    pieces = cut_into_pieces(events(), [], 10)
    index = index_over(tmp_path, pieces)
    for high in [*range(17), *range(17)]:
        assert index.lookup(below(high)).seq.tolist() == matching_rows(
            VALUES, [KeyRange(None, high)]
        )
        small._check()
    # The last answer holds 300 events of 16 bytes, so at most two of its size are kept.
    assert index.lookup(below(16)).n_bytes_read == 0
    assert index.lookup(below(2)).n_bytes_read > 0


def test_indexes_of_other_snapshots_keep_their_own_answers(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
    tables = write_runs(tmp_path, pieces, ("x",))
    old = index_set(SnapshotDouble(tmp_path, pieces[:1]), tables).index("x")
    new = index_set(SnapshotDouble(tmp_path, pieces), tables).index("x")
    assert old.lookup(below(20)).seq.tolist() == list(range(100))
    assert new.lookup(below(20)).seq.tolist() == list(range(300))


def test_threads_get_right_answers_while_caches_are_cleared(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
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
    pieces = cut_into_pieces(events(), [100, 50, 50], 10)
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


def test_run_found_damaged_within_ranges_changes_no_answer(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100, 100], 10)
    index = index_over(tmp_path, pieces)
    within = np.array([[0, 5], [210, 220]], dtype=np.int64)
    expected = index.lookup(below(3), within=within)
    path = tmp_path / "index" / "x" / pieces[0].name
    path.write_bytes(path.read_bytes()[:40])
    indexing.clear_caches()
    # A snapshot that opened its runs before meets the damage at the first lookup.
    assert index.lookup(below(3), within=within).seq.tolist() == expected.seq.tolist()
    assert len(index.faults) == 1
    last = np.array([[200, 201]], dtype=np.int64)
    assert set(index.lookup(below(3), within=last).seq.tolist()) == {
        seq for seq in matching_rows(VALUES, [KeyRange(None, 3)]) if seq >= 200
    }


def test_answer_within_ranges_is_not_taken_for_that_of_other_runs(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100, 100], 10)
    index = index_over(tmp_path, pieces)
    first, second = (np.array([[seq, seq + 1]], dtype=np.int64) for seq in (0, 100))
    expected = matching_rows(VALUES, [KeyRange(None, 3)])
    found = index.lookup(below(3), within=first).seq.tolist()
    assert found == [seq for seq in expected if seq < 100]
    path = tmp_path / "index" / "x" / pieces[0].name
    path.write_bytes(path.read_bytes()[:40])
    index.lookup(below(8), within=first)  # meets the damage: what was second is now first
    found = index.lookup(below(3), within=second).seq.tolist()
    assert found == [seq for seq in expected if 100 <= seq < 200]


def test_answers_can_be_forgotten_alone(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
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
