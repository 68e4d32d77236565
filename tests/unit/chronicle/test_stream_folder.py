"""Folders of streams: made and unmade, of streams that lost their log, and of work under way."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time as clock
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import Store, Stream, StreamSettings, create_store, open_store
from chronicle.derived import DERIVED_SCHEMA
from chronicle.errors import SourceError, StorageError, StreamExistsError
from chronicle.ingest import IngestOptions, ingest
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.log import delta_log
from chronicle.maintenance.check import check_store, check_stream
from chronicle.maintenance.finding import Finding, Severity, faults_of
from chronicle.maintenance.repair import repair_store, repair_stream
from chronicle.settings import Lineage
from chronicle.stream_folder import STAGING_PREFIX, open_staging, remove_abandoned
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.write.lifecycle import drop_if_empty, drop_stream
from chronicle.write.materialise import materialise
from indexing import RunWriter
from indexing.check import check_runs
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from tests.crash_points import dying_at
from tests.store_model import rows_of
from tests.unit.chronicle.stream_cases import TICKS, KilledError, at

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
    for make_stream in (
        lambda: lossy.create_stream("s", SCHEMA, settings),
        lambda: append_files(lossy, "s", [file], AppendOptions(time="t")),
        lambda: ingest(lossy, "s", [file], IngestOptions(time="t")),
        lambda: materialise(
            lossy, "s", EVENTS.to_batches(), schema=SCHEMA, settings=settings, lineage=lineage
        ),
    ):
        with pytest.raises(StorageError, match=r"store/s' holds data files .*restore '.*/_delta_"):
            make_stream()
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


def kill() -> None:
    raise KilledError


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
