"""Answers that are kept: equal to fresh ones, bounded, and sound."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indexing
from indexing.cache import BoundedCache
from indexing.index import _answers
from indexing.key_range import KeyRange, KeyRanges
from tests.oracles.index import matching_rows
from tests.unit.indexing.doubles import SnapshotDouble, cut_into_pieces, index_set, write_runs
from tests.unit.indexing.index_strategies import ranges_for, streams

VALUES = [(i * 31) % 17 for i in range(300)]


def events() -> pa.Table:
    return pa.table({"t": pa.array(range(300), pa.int64()), "x": pa.array(VALUES, pa.int64())})


def below(high: int) -> KeyRanges:
    return KeyRanges.of([KeyRange(None, high)])


@given(streams(), st.integers(1, 30), st.data())
@settings(deadline=None)
def test_kept_answer_equals_the_fresh_one(
    table: pa.Table, file_events: int, data: st.DataObject
) -> None:
    pieces = cut_into_pieces(table, [file_events], 5)
    ranges = data.draw(ranges_for(table["x"].combine_chunks()))
    with TemporaryDirectory() as folder:
        tables = write_runs(Path(folder), pieces[:1], ("x",))
        index = index_set(SnapshotDouble(Path(folder), pieces), tables).index("x")
        fresh = index.lookup(ranges)
        kept = index.lookup(ranges)
        indexing.clear_caches()
        again = index.lookup(ranges)
    for other in (kept, again):
        assert other.seq.tolist() == fresh.seq.tolist()
        assert other.t.tolist() == fresh.t.tolist()
        assert other.n_entries_read == fresh.n_entries_read
    assert kept.n_bytes_read == 0
    assert again.n_bytes_read == fresh.n_bytes_read


def test_answer_cannot_be_written_to(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [], 10)
    tables = write_runs(tmp_path, pieces, ("x",))
    index = index_set(SnapshotDouble(tmp_path, pieces), tables).index("x")
    for _ in range(2):
        found = index.lookup(below(3))
        for array in (found.seq, found.t):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7


def test_answers_outlive_lookups_that_follow(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
    tables = write_runs(tmp_path, pieces, ("x",))
    index = index_set(SnapshotDouble(tmp_path, pieces), tables).index("x")
    found = [index.lookup(below(high)) for high in range(17)]
    for high in range(17):
        assert found[high].seq.tolist() == matching_rows(VALUES, [KeyRange(None, high)])
        assert found[high].t.tolist() == found[high].seq.tolist()


def test_run_found_damaged_later_changes_no_answer(tmp_path: Path) -> None:
    pieces = cut_into_pieces(events(), [100], 10)
    tables = write_runs(tmp_path, pieces, ("x",))
    indexes = index_set(SnapshotDouble(tmp_path, pieces), tables)
    index = indexes.index("x")
    kept = index.lookup(below(3))
    for piece in pieces:
        path = tmp_path / "index" / "x" / piece.name
        path.write_bytes(path.read_bytes()[:40])
    assert index.lookup(below(8)).seq.tolist() == matching_rows(VALUES, [KeyRange(None, 8)])
    assert len(indexes.faults) == 2
    assert index.lookup(below(3)).seq.tolist() == kept.seq.tolist()
    indexing.clear_caches()
    assert index.lookup(below(3)).seq.tolist() == kept.seq.tolist()


def test_kept_answers_stay_within_their_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = BoundedCache(12_000, _answers._weigh)
    monkeypatch.setattr("indexing.index._answers", small)
    pieces = cut_into_pieces(events(), [], 10)
    tables = write_runs(tmp_path, pieces, ("x",))
    index = index_set(SnapshotDouble(tmp_path, pieces), tables).index("x")
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
    tables = write_runs(tmp_path, pieces, ("x",))
    index = index_set(SnapshotDouble(tmp_path, pieces), tables).index("x")
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
