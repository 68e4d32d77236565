"""Streams dropped, renamed and moved, and ranges of their time deleted."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from chronicle.config import EVENTS_TABLE
from chronicle.describe import history
from chronicle.errors import (
    CommitConflictError,
    CorruptBlockError,
    StorageError,
    StoreNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    StreamReplacedError,
)
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.vacuum import vacuum
from chronicle.store import Stream, open_store
from chronicle.stream_folder import open_staging
from chronicle.write import lifecycle
from chronicle.write.append import append as append_late
from chronicle.write.lifecycle import delete_range, drop_stream, rename_stream
from indexing import RunWriter
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import (
    TICKS,
    arrived,
    ever_live,
    make_stream,
    meet,
    on_disk,
    seen_rows,
)

NOTHING = dt.timedelta(0)
Row = tuple[int, float]


def _stream(tmp_path: Path, n_files: int = 4) -> Stream:
    """Files of 4 events, one a time unit: file i has times 4 i to 4 i + 3, and x = t."""
    tables = [arrived(list(range(4 * i, 4 * i + 4)), 4 * i) for i in range(n_files)]
    return make_stream(tmp_path, tables, schema=TICKS)


# Drop.


def test_a_dropped_stream_vanishes_and_its_name_is_free(tmp_path: Path):
    stream = _stream(tmp_path)
    store = open_store(tmp_path / "store")
    held = store.stream("ticks")
    drop_stream(store, "ticks")
    assert store.stream_names() == ()
    assert [path.name for path in store.path.iterdir()] == ["chronicle-store.json"]
    for gone in (held, stream):
        with pytest.raises(StreamNotFoundError, match="no stream 'ticks'"):
            gone.snapshot()
    with pytest.raises(StreamNotFoundError):
        store.stream("ticks")
    again = store.create_stream("ticks", TICKS, held.settings)
    assert again.snapshot().n_events == 0
    with pytest.raises(StreamReplacedError):
        held.snapshot()


def test_a_stream_that_is_not_there_cannot_be_dropped(tmp_path: Path):
    _stream(tmp_path)
    store = open_store(tmp_path / "store")
    for name in ("tics", "..", "ticks/events", ""):
        with pytest.raises(StreamNotFoundError, match="streams: ticks"):
            drop_stream(store, name)
    assert store.stream_names() == ("ticks",)


@pytest.mark.parametrize("remover", ["vacuum", "ingest"])
def test_killed_while_dropping_the_stream_is_gone_and_the_rest_goes_later(
    tmp_path: Path, monkeypatch, remover
):
    _stream(tmp_path)
    store = open_store(tmp_path / "store")
    other = store.create_stream("other", TICKS, store.stream("ticks").settings)
    # A killed process deletes nothing more; the system releases its lock.
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
    drop_stream(store, "ticks")
    monkeypatch.undo()
    assert store.stream_names() == ("other",)
    assert len(list(store.path.glob(".*/ticks/events/*.parquet"))) == 4
    if remover == "vacuum":
        assert vacuum(other).n_staging == 1
    else:
        with open_staging(store.path):
            assert not list(store.path.glob(".*/ticks"))
    assert not list(store.path.glob(".*"))


# Rename and move.


def test_a_renamed_stream_is_the_same_under_its_new_name(tmp_path: Path):
    rows = seen_rows(_stream(tmp_path))
    store = open_store(tmp_path / "store")
    held = store.stream("ticks")
    renamed = rename_stream(store, "ticks", "quotes")
    assert (store.stream_names(), renamed.name) == (("quotes",), "quotes")
    assert (seen_rows(renamed), seen_rows(renamed, 1)) == (rows, rows[:4])
    with pytest.raises(StreamNotFoundError, match="streams: quotes"):
        held.snapshot()


def test_a_name_that_is_taken_or_not_allowed_is_refused(tmp_path: Path):
    stream = _stream(tmp_path)
    store = open_store(tmp_path / "store")
    store.create_stream("other", TICKS, stream.settings)
    (store.path / "folder").mkdir()
    for taken in ("other", "ticks", "folder"):
        with pytest.raises(StreamExistsError, match="has already"):
            rename_stream(store, "ticks", taken)
    for bad in (".hidden", "a/b", "", "..", "ä"):
        with pytest.raises(StorageError, match="cannot be used"):
            rename_stream(store, "ticks", bad)
    with pytest.raises(StreamNotFoundError):
        rename_stream(store, "nothing", "new")
    assert store.stream_names() == ("other", "ticks")
    assert len(seen_rows(stream)) == 16


def test_of_two_renames_to_one_name_one_is_refused(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path)
    store = open_store(tmp_path / "store")
    other = store.create_stream("other", TICKS, stream.settings)
    commit_table(other, arrived([1]))
    rival = open_store(store.path)
    meet(monkeypatch, lifecycle, "_move", lambda: rename_stream(rival, "other", "new"))
    with pytest.raises(StreamExistsError, match="meanwhile"):
        rename_stream(store, "ticks", "new")
    assert store.stream_names() == ("new", "ticks")
    assert len(seen_rows(store.stream("new"))) == 1
    assert len(seen_rows(store.stream("ticks"))) == 16


def test_a_store_that_was_moved_works_at_its_new_place(tmp_path: Path):
    stream = _stream(tmp_path)
    runs = RunWriter(("x",), "t")
    commit_table(stream, arrived([16, 17], 16), derived=runs)
    rows = seen_rows(stream)
    (tmp_path / "far").mkdir()
    shutil.move(tmp_path / "store", tmp_path / "far" / "moved")
    with pytest.raises(StoreNotFoundError):
        stream.snapshot()
    moved = open_store(tmp_path / "far" / "moved").stream("ticks")
    assert seen_rows(moved) == rows
    assert seen_rows(moved, 2) == rows[:8]
    moved.append(arrived([3, 20], 18), derived=runs)
    assert seen_rows(moved) == [*rows[:4], (3, 18.0), *rows[4:], (20, 19.0)]
    compact_events(moved, derived=runs, full=True)
    delete_range(moved, 4, 16, derived=runs)
    vacuum(moved, derived=runs, retention=NOTHING)
    assert seen_rows(moved) == [*rows[:4], (3, 18.0), *rows[16:], (20, 19.0)]
    for text in (tmp_path / "far" / "moved").rglob("*.json"):
        assert str(tmp_path) not in text.read_text()


# Delete.


def test_files_inside_the_range_go_and_those_at_its_rim_are_rewritten(tmp_path: Path):
    stream = _stream(tmp_path)
    names = [file.name for file in stream.snapshot().files]
    report = delete_range(stream, 2, 13, derived=None)
    assert (report.n_files_removed, report.n_files_rewritten) == (2, 2)
    assert str(report) == "11 events deleted, version 5: 2 files removed, 2 rewritten"
    assert [t for t, _ in seen_rows(stream)] == [0, 1, 13, 14, 15]
    files = stream.snapshot().files
    assert [file.ordinal for file in files] == [names[0][:20], names[3][:20]]
    entry = history(stream)[0]
    assert (entry.operation, entry.n_events, entry.n_events_total) == ("delete", 11, 5)


def test_a_range_without_events_commits_nothing(tmp_path: Path):
    stream = make_stream(tmp_path, [arrived([0, 1, 5, 6]), arrived([9, 10], 4)], schema=TICKS)
    for start, stop in ((2, 5), (7, 9), (11, None), (None, 0), (6, 3)):
        report = delete_range(stream, start, stop, derived=None)
        assert (report.n_events, report.version) == (0, 2)
    assert stream.snapshot().version == 2


@pytest.fixture
def raced(tmp_path: Path, monkeypatch) -> Callable[[Callable[[Stream], object]], Stream]:
    """Return a stream with which another process does something while files are rewritten."""

    def race(act: Callable[[Stream], object]) -> Stream:
        stream = _stream(tmp_path)
        rival = open_store(tmp_path / "store").stream("ticks")
        meet(monkeypatch, lifecycle, "rewrite_files", lambda: act(rival))
        return stream

    return race


def test_events_that_arrive_late_meanwhile_are_deleted_or_kept_by_their_time(raced):
    stream = raced(lambda rival: append_late(rival, arrived([1, 6, 14], 100), derived=None))
    report = delete_range(stream, 2, 13, derived=None)
    assert report.n_events == 12
    assert seen_rows(stream) == [
        (0, 0.0), (1, 1.0), (1, 100.0), (13, 13.0), (14, 14.0), (14, 102.0), (15, 15.0),
    ]  # fmt: skip
    assert on_disk(stream) == ever_live(stream)


def test_events_appended_to_the_range_meanwhile_are_deleted(raced):
    stream = raced(lambda rival: append_late(rival, arrived([20, 21], 100), derived=None))
    assert delete_range(stream, 2, None, derived=None).n_events == 16
    assert seen_rows(stream) == [(0, 0.0), (1, 1.0)]


def test_a_compaction_meanwhile_changes_nothing(raced):
    stream = raced(lambda rival: compact_events(rival, derived=None, full=True))
    assert delete_range(stream, 2, 13, derived=None).n_events == 11
    assert [t for t, _ in seen_rows(stream)] == [0, 1, 13, 14, 15]


def test_a_deletion_that_always_loses_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path)
    lose = Mock(side_effect=CommitConflictError("lost"))
    monkeypatch.setattr(lifecycle, "commit_change", lose)
    with pytest.raises(CommitConflictError, match="lost"):
        delete_range(stream, 2, 13, derived=None)
    assert len(on_disk(stream)) == 4


def test_a_damaged_file_at_the_rim_stops_the_deletion(tmp_path: Path):
    stream = _stream(tmp_path)
    name = stream.snapshot().files[0].name
    (stream.path / EVENTS_TABLE / name).write_bytes(b"PAR1")
    with pytest.raises((CorruptBlockError, StorageError)):
        delete_range(stream, 2, 13, derived=None)
    assert stream.snapshot().n_events == 16


def test_damaged_files_inside_the_range_can_be_deleted(tmp_path: Path):
    stream = _stream(tmp_path)
    name = stream.snapshot().files[1].name
    (stream.path / EVENTS_TABLE / name).write_bytes(b"PAR1")
    assert delete_range(stream, 4, 8, derived=None).n_events == 4
    assert [t for t, _ in seen_rows(stream)] == [*range(4), *range(8, 16)]
