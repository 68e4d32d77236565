"""Stores and streams by their folders: made, opened, dropped, renamed, moved, and lost.

Also folders of work under way, and ranges of a stream's time deleted.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import time as clock
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest

from chronicle import config
from chronicle.derived import DERIVED_SCHEMA
from chronicle.describe import history
from chronicle.errors import (
    CommitConflictError,
    CorruptBlockError,
    FormatVersionError,
    SchemaError,
    SourceError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    StreamReplacedError,
)
from chronicle.ingest import IngestOptions, ingest
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.ingest.sources import find_sources
from chronicle.log import delta_log
from chronicle.maintenance.check import check_store, check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Finding, Severity, faults_of
from chronicle.maintenance.repair import repair_store, repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.paths import local_path
from chronicle.settings import Lineage, StreamSettings
from chronicle.store import Store, Stream, create_store, ensure_store, open_or_create, open_store
from chronicle.stream_folder import STAGING_PREFIX, open_staging, remove_abandoned
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.write import lifecycle
from chronicle.write.append import append as append_late
from chronicle.write.lifecycle import delete_range, drop_if_empty, drop_stream, rename_stream
from chronicle.write.materialise import materialise
from indexing import RunWriter
from indexing.check import check_runs
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from tests.crash_points import dying_at
from tests.helpers import commit_table
from tests.store_model import rows_of
from tests.unit.chronicle.stream_cases import (
    TICKS,
    KilledError,
    arrived,
    at,
    ever_live,
    kill,
    make_stream,
    meet,
    on_disk,
    seen_rows,
)

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64())])
EVENTS = pa.table({"t": [5, 6], "a": [1, 2]}, SCHEMA)


def make_filled(path: Path) -> Store:
    store = create_store(path)
    stream = store.create_stream("s", SCHEMA, StreamSettings(time="t"))
    stream.append(EVENTS, derived=RunWriter(("a",), "t"))
    store.create_stream("other", SCHEMA, StreamSettings(time="t"))
    return store


@pytest.fixture(
    params=[
        pytest.param(["events/_delta_log"], id="log of the events"),
        pytest.param(["events"], id="all of the events"),
        pytest.param(["events", "tree"], id="all but the indexes"),
    ]
)
def lossy(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """A store of which a stream has lost folders."""
    store = make_filled(tmp_path / "store")
    for folder in request.param:
        shutil.rmtree(store.path / "s" / folder)
    return open_store(store.path)


def test_stream_that_lost_its_log_is_a_fault_and_repair_of_the_store_says_so(lossy: Store) -> None:
    assert lossy.stream_names() == ("other",)
    assert "s/events/_delta_log" in [finding.file for finding in faults_of(check_store(lossy))]
    before = sorted(lossy.path.rglob("*"))
    reports = repair_store(lossy)
    assert list(reports) == ["other", "s"]
    assert not reports["other"].left
    assert "s/events/_delta_log" in [fault.file for fault in reports["s"].left]
    assert sorted(lossy.path.rglob("*")) == before


def test_no_stream_is_made_over_one_that_lost_its_log(lossy: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,2\n")
    settings = StreamSettings(time="t")
    lineage = Lineage("SELECT * FROM other", {"other": 0}, {})
    before = sorted(lossy.path.rglob("*"))
    for make_anew in (
        lambda: lossy.create_stream("s", SCHEMA, settings),
        lambda: append_files(lossy, "s", [file], AppendOptions(time="t")),
        lambda: ingest(lossy, "s", [file], IngestOptions(time="t")),
        lambda: materialise(
            lossy, "s", EVENTS.to_batches(), schema=SCHEMA, settings=settings, lineage=lineage
        ),
    ):
        with pytest.raises(StorageError, match=r"store/s' holds data files .*restore '.*/_delta_"):
            make_anew()
    assert sorted(lossy.path.rglob("*")) == before


def test_stream_that_a_crash_left_half_made_is_made_anew(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    delta_log.create_table(store.path / "s" / TREE_TABLE, DERIVED_SCHEMA, {})
    (store.path / "s" / "events" / "_delta_log").mkdir(parents=True)
    assert not faults_of(check_store(store))
    stream = store.create_stream("s", SCHEMA, StreamSettings(time="t"))
    stream.append(EVENTS)
    assert stream.snapshot().n_events == 2
    assert not faults_of(check_store(store))


def test_folder_that_is_no_stream_is_left_alone(tmp_path: Path) -> None:
    store = make_filled(tmp_path / "store")
    for name in ("notes", "s.bak"):
        (store.path / name / "events").mkdir(parents=True)
    (store.path / "s.bak" / "events" / "a.parquet").write_bytes(b"")
    (store.path / "notes" / "a.txt").write_text("")
    assert not faults_of(check_store(store))


def leave(store: Path, name: str, *, lock: bool, seconds_ago: float) -> Path:
    """Make what a killed ingest leaves behind."""
    folder = store / f"{STAGING_PREFIX}{name}"
    folder.mkdir()
    if lock:
        (folder / "lock").touch()
    made = clock.time() - seconds_ago
    os.utime(folder, (made, made))
    return folder


def test_folder_is_gone_after_its_block(tmp_path: Path) -> None:
    with open_staging(tmp_path) as folder:
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_folder_at_work_stays_and_an_abandoned_one_goes(tmp_path: Path) -> None:
    abandoned = leave(tmp_path, f"{1:032x}", lock=True, seconds_ago=0)
    with open_staging(tmp_path) as first:
        assert not abandoned.exists()
        with open_staging(tmp_path):
            assert first.exists()


def test_folder_without_a_lock_goes_once_it_is_old(tmp_path: Path) -> None:
    young = leave(tmp_path, f"{1:032x}", lock=False, seconds_ago=0)
    old = leave(tmp_path, f"{2:032x}", lock=False, seconds_ago=3600)
    assert remove_abandoned(tmp_path, dry_run=True) == [old]
    assert old.exists()
    assert remove_abandoned(tmp_path) == [old]
    assert (young.exists(), old.exists()) == (True, False)


SETTINGS = StreamSettings(time="t", block_events=2, file_events=6, derived=("delta(x)",))


def wrong(path: Path) -> list[Finding]:
    found = check_stream(path, derived_checks=[check_runs])
    return [finding for finding in found if finding.severity is not Severity.OK]


def repaired(stream: Stream) -> None:
    repair_stream(
        stream.path,
        derived=writer_for(open_store(stream.path.parent).stream(stream.name)),
        derived_checks=[check_runs],
        leftover_age=dt.timedelta(0),
    )


def make(store: Store) -> Stream:
    stream = store.create_stream("s", TICKS, SETTINGS)
    stream.append(at(1, 2))
    return stream


@pytest.mark.parametrize("table", ["events", "tree", "index/x", "quarantine"])
@pytest.mark.parametrize("draft", ["00000000000000000007.json#1", ".a1b2.draft"])
def test_the_draft_of_a_commit_that_was_killed_is_named_and_removed(
    store: Store, table: str, draft: str
) -> None:
    stream = make(store)
    create_index(stream, ["x"], least_events=0)
    log = stream.path / table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / draft).write_text("{")
    [finding] = [f for f in wrong(stream.path) if f.file.endswith(draft)]
    assert finding.severity is Severity.WARNING
    repaired(stream)
    assert wrong(stream.path) == []
    assert not (log / draft).exists()
    assert len(rows_of(open_store(store.path).stream("s"))) == 2


@pytest.mark.parametrize("table", ["index/x", "quarantine"])
def test_a_table_that_was_never_made_is_no_fault_and_is_made_or_removed(
    store: Store, table: str
) -> None:
    stream = make(store)
    log = stream.path / table / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json#1").write_text("{")
    assert {f.severity for f in wrong(stream.path)} == {Severity.WARNING}
    if table == "index/x":
        create_index(stream, ["x"], least_events=0)
        stream.append(at(9), derived=writer_for(stream))
    repaired(stream)
    assert wrong(stream.path) == []


def test_a_kill_at_any_step_of_making_a_stream_leaves_its_name_free(store: Store) -> None:
    with dying_at(None, kill) as steps:
        store.create_stream("counting", TICKS, SETTINGS)
    for step in range(steps.n_taken):
        name = f"s{step}"
        try:
            with dying_at(step, kill):
                store.create_stream(name, TICKS, SETTINGS)
        except KilledError:
            pass
        made = open_store(store.path)
        if name not in made.stream_names():
            made.create_stream(name, TICKS, SETTINGS)
        assert rows_of(made.stream(name)) == []
        assert wrong(store.path / name) == []
    assert not [f for f in check_store(store) if f.severity is Severity.FAULT]


def test_what_an_older_chronicle_left_of_a_stream_it_was_making_does_not_keep_the_name(
    store: Store,
) -> None:
    whole = make(store)
    half = store.path / "half"
    (half / "tree" / "_delta_log").mkdir(parents=True)
    commit = "_delta_log/00000000000000000000.json"
    (half / "tree" / commit).write_bytes((whole.path / "tree" / commit).read_bytes())
    assert rows_of(store.create_stream("half", TICKS, SETTINGS)) == []
    with pytest.raises(StreamExistsError):
        store.create_stream("half", TICKS, SETTINGS)


def test_a_stream_is_not_dropped_as_empty_once_somebody_appended_to_it(store: Store) -> None:
    stream = store.create_stream("s", TICKS, SETTINGS)
    open_store(store.path).stream("s").append(at(1))
    drop_if_empty(store, stream)
    assert len(rows_of(store.stream("s"))) == 1
    drop_stream(store, "s")
    store.create_stream("s", TICKS, SETTINGS)
    with pytest.raises(StorageError):
        drop_if_empty(store, stream)
    drop_if_empty(store, store.stream("s"))
    assert store.stream_names() == ()


@pytest.mark.parametrize("name", ["s" * 300, "s" * 201])
def test_a_stream_name_that_no_folder_can_have_is_refused_with_the_limit(
    store: Store, name: str
) -> None:
    with pytest.raises(StorageError, match="200"):
        store.create_stream(name, TICKS, SETTINGS)
    assert rows_of(store.create_stream("s" * 200, TICKS, SETTINGS)) == []


@pytest.mark.parametrize("source", ["", " ", "\0", "a\0b", "x" * 300, "/" + "x/" * 3000, "."])
def test_an_absurd_source_name_is_one_sentence_and_makes_nothing(
    store: Store, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with pytest.raises(SourceError):
        append_files(store, "s", [source], AppendOptions(time="t"))
    assert store.stream_names() == ()


def test_missing_store_is_also_a_file_not_found(tmp_path: Path):
    with pytest.raises(StoreNotFoundError, match="no Chronicle store at") as caught:
        open_store(tmp_path / "nowhere")
    assert isinstance(caught.value, FileNotFoundError)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreNotFoundError):
        open_store(tmp_path / "file")


def test_marker_that_cannot_be_read_is_said(tmp_path: Path):
    (tmp_path / config.MARKER_FILE).mkdir()
    with pytest.raises(StorageError, match=r"marker file .* cannot be read \(Is a directory\)"):
        open_store(tmp_path)


def test_store_is_not_created_over_anything(tmp_path: Path):
    create_store(tmp_path / "store")
    with pytest.raises(StoreExistsError, match="a store exists"):
        create_store(tmp_path / "store")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.csv").write_text("")
    with pytest.raises(StoreExistsError, match="not an empty folder"):
        create_store(tmp_path / "data")
    with pytest.raises(StoreExistsError, match="not an empty folder"):
        create_store(tmp_path / "data" / "mine.csv")


def test_ensure_store_creates_once(tmp_path: Path):
    ensure_store(tmp_path / "a" / "b").create_stream("x", SCHEMA, StreamSettings("t"))
    assert ensure_store(tmp_path / "a" / "b").stream_names() == ("x",)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"format_version": 99}', FormatVersionError),
        ('{"format_version": "new"}', FormatVersionError),
        ("{}", StorageError),
        ("", StorageError),
        ("[1]", StorageError),
    ],
)
def test_marker_of_another_format_or_damaged_is_refused(tmp_path: Path, content, error):
    (tmp_path / config.MARKER_FILE).write_text(content)
    with pytest.raises(error):
        open_store(tmp_path)


def test_unknown_stream_names_the_nearest(tmp_path: Path):
    store = create_store(tmp_path / "s")
    with pytest.raises(StreamNotFoundError, match="streams: none yet"):
        store.stream("crimes")
    store.create_stream("crimes", SCHEMA, StreamSettings("t"))
    with pytest.raises(StreamNotFoundError, match="did you mean 'crimes'"):
        store.stream("crime")
    with pytest.raises(StreamNotFoundError):
        store.stream("../s/crimes")


def test_stream_is_created_once(tmp_path: Path):
    store = create_store(tmp_path / "s")
    stream = store.create_stream("x", SCHEMA, StreamSettings("t"))
    assert store.stream("x") is stream
    with pytest.raises(StreamExistsError, match="append to it"):
        store.create_stream("x", SCHEMA, StreamSettings("t"))


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "-x", "_delta_log"])
def test_stream_names_are_folder_names(tmp_path: Path, name: str):
    with pytest.raises(StorageError, match="cannot be used"):
        create_store(tmp_path / "s").create_stream(name, SCHEMA, StreamSettings("t"))


def test_stream_needs_its_time_column(tmp_path: Path):
    store = create_store(tmp_path / "s")
    with pytest.raises(SchemaError, match=r"no time column 'T'.*did you mean 't'"):
        store.create_stream("x", SCHEMA, StreamSettings("T"))
    with pytest.raises(SchemaError, match="no key column 'k'"):
        store.create_stream("x", SCHEMA, StreamSettings("t", key="k"))
    assert store.stream_names() == ()


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(9, 2), pa.binary()])
def test_a_key_column_that_no_index_can_hold_is_refused_at_once(
    store: Store, kind: pa.DataType
) -> None:
    schema = pa.schema([("t", pa.int64()), ("k", kind)])
    with pytest.raises(SchemaError, match=r"key column 'k' is .* which tells no objects apart"):
        store.create_stream("s", schema, StreamSettings("t", key="k"))
    assert store.stream_names() == ()


def fail_after_work(store: Store) -> None:
    (store.path / "s").mkdir()
    raise KeyboardInterrupt


def test_new_store_stays_if_its_block_succeeds(tmp_path: Path) -> None:
    with open_or_create(tmp_path / "a" / "store") as store:
        assert store.stream_names() == ()
    assert (tmp_path / "a" / "store" / "chronicle-store.json").exists()


@pytest.mark.parametrize("made", [[], ["a"]], ids=["no folder", "outer folder"])
def test_new_store_goes_with_the_folders_made_for_it(tmp_path: Path, made: list[str]) -> None:
    for name in made:
        (tmp_path / name).mkdir()
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path / "a" / "b" / "store"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == made


def test_empty_folder_that_was_there_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_store_that_existed_or_holds_something_stays(tmp_path: Path) -> None:
    create_store(tmp_path / "old")
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path / "old"):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path / "new") as store:
        fail_after_work(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    assert (tmp_path / "new" / "chronicle-store.json").exists()


def test_folder_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(StoreExistsError), open_or_create(tmp_path):
        pytest.fail("no store can be made here")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def lend(path: str | Path) -> None:
    with open_or_create(path):
        pass


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://bucket/x", "abfss://c@a.net/x"])
@pytest.mark.parametrize("give", [str, Path])
@pytest.mark.parametrize("use", [create_store, open_store, ensure_store, lend])
def test_a_url_is_no_store_and_makes_no_folder(
    use: Callable[[object], object],
    give: Callable[[str], object],
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=f"'{url}' is a URL"):
        use(give(url))
    assert list(tmp_path.iterdir()) == []


def test_the_home_folder_and_a_file_url_are_places_for_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    create_store("~/one")
    create_store(f"file://{tmp_path}/a%20b")
    assert open_store(tmp_path / "home" / "one").path == tmp_path / "home" / "one"
    assert open_store(tmp_path / "a b").path == tmp_path / "a b"


def test_a_path_may_hold_a_colon() -> None:
    assert local_path("/data/10:30/x") == Path("/data/10:30/x")
    assert local_path("C:/data") == Path("C:/data")


def test_a_source_is_found_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.csv").write_text("t\n1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_sources(["~/x.csv"], format_name=None).files == (tmp_path / "x.csv",)


def test_a_store_named_by_a_relative_path_is_the_same_to_a_process_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert create_store("data").path == tmp_path / "data"
    assert open_store("data").path == tmp_path / "data"
    assert ensure_store("./data").path == tmp_path / "data"


NOTHING = dt.timedelta(0)


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


def test_files_inside_the_range_go_those_at_its_rim_are_rewritten_others_stay(tmp_path: Path):
    stream = _stream(tmp_path, n_files=6)
    names = [file.name for file in stream.snapshot().files]
    report = delete_range(stream, 6, 17, derived=None)
    assert (report.n_files_removed, report.n_files_rewritten) == (2, 2)
    assert str(report) == "11 events deleted, version 7: 2 files removed, 2 rewritten"
    assert [t for t, _ in seen_rows(stream)] == [*range(6), *range(17, 24)]
    files = stream.snapshot().files
    assert [file.ordinal for file in files] == [names[i][:20] for i in (0, 1, 4, 5)]
    assert (files[0].name, files[3].name) == (names[0], names[5])
    entry = history(stream)[0]
    assert (entry.operation, entry.n_events, entry.n_events_total) == ("delete", 11, 13)


def test_a_deletion_says_what_could_not_be_written_beside_it(tmp_path: Path):
    stream = _stream(tmp_path)
    with patch("chronicle.write.commit.commit_tree", side_effect=OSError("odd")):
        report = delete_range(stream, 2, 13, derived=None)
    assert "'chronicle repair' writes them" in str(report.fault)


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
    (stream.path / config.EVENTS_TABLE / name).write_bytes(b"PAR1")
    with pytest.raises((CorruptBlockError, StorageError)):
        delete_range(stream, 2, 13, derived=None)
    assert stream.snapshot().n_events == 16


def test_damaged_files_inside_the_range_can_be_deleted(tmp_path: Path):
    stream = _stream(tmp_path)
    name = stream.snapshot().files[1].name
    (stream.path / config.EVENTS_TABLE / name).write_bytes(b"PAR1")
    assert delete_range(stream, 4, 8, derived=None).n_events == 4
    assert [t for t, _ in seen_rows(stream)] == [*range(4), *range(8, 16)]


@pytest.mark.parametrize("name", ["a%20b", "a\\b", "a\nb", "a#b", "a?b"])
def test_a_folder_that_delta_takes_for_another_holds_no_new_stream(tmp_path: Path, name: str):
    store = create_store(tmp_path / name / "store")
    with pytest.raises(StorageError, match="rename the folder"):
        store.create_stream("s", SCHEMA, StreamSettings("t"))
    assert store.stream_names() == ()


def test_a_stream_that_was_moved_into_such_a_folder_is_not_another(tmp_path: Path):
    # Delta would open the second one by the name of the first.
    for name in ("c", "a b"):
        create_store(tmp_path / name).create_stream("s", SCHEMA, StreamSettings("t"))
    (tmp_path / "c").rename(tmp_path / "a%20b")
    with pytest.raises(StorageError, match="rename the folder"):
        open_store(tmp_path / "a%20b").stream("s")


def test_a_folder_may_have_a_percent_sign(tmp_path: Path):
    store = create_store(tmp_path / "5% [a]")
    store.create_stream("s", SCHEMA, StreamSettings("t"))
    assert history(open_store(store.path).stream("s"))


FORKED = """
import os, sys
import pyarrow as pa
import chronicle
store = chronicle.create_store(sys.argv[1])
schema = pa.schema([("t", pa.int64())])
store.create_stream("s", schema, chronicle.StreamSettings("t"))
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    try:
        chronicle.open_store(sys.argv[1]).stream("s")
    except chronicle.StorageError as error:
        os.write(1, str(error).encode())
    os._exit(0)
"""


def test_a_forked_process_is_told_how_to_start_another(tmp_path: Path):
    words = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "store")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("start it anew: multiprocessing.get_context('spawn')")
