"""A stream that has lost the log of its events is told of, and no other is made in its place."""

from __future__ import annotations

import os
import shutil
import time as clock
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import Store, StreamSettings, create_store
from chronicle.derived import DERIVED_SCHEMA
from chronicle.errors import StorageError
from chronicle.ingest import IngestOptions, ingest
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.log import delta_log
from chronicle.maintenance.check import check_store
from chronicle.maintenance.finding import faults_of
from chronicle.maintenance.repair import repair_store
from chronicle.settings import Lineage
from chronicle.store import open_store
from chronicle.stream_folder import STAGING_PREFIX, open_staging, remove_abandoned
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.write.materialise import materialise
from indexing import RunWriter

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64())])
EVENTS = pa.table({"t": [5, 6], "a": [1, 2]}, SCHEMA)


def make(path: Path) -> Store:
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
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """A store of which a stream has lost folders."""
    store = make(tmp_path / "store")
    for folder in request.param:
        shutil.rmtree(store.path / "s" / folder)
    return open_store(store.path)


def test_stream_that_lost_its_log_is_a_fault(store: Store) -> None:
    assert store.stream_names() == ("other",)
    assert "s/events/_delta_log" in [finding.file for finding in faults_of(check_store(store))]


def test_repair_of_the_store_says_that_its_log_is_lost(store: Store) -> None:
    before = sorted(store.path.rglob("*"))
    reports = repair_store(store)
    assert list(reports) == ["other", "s"]
    assert not reports["other"].left
    assert "s/events/_delta_log" in [fault.file for fault in reports["s"].left]
    assert sorted(store.path.rglob("*")) == before


def create(store: Store, file: Path) -> object:
    return store.create_stream("s", SCHEMA, StreamSettings(time="t"))


def by_append(store: Store, file: Path) -> object:
    return append_files(store, "s", [file], AppendOptions(time="t"))


def by_ingest(store: Store, file: Path) -> object:
    return ingest(store, "s", [file], IngestOptions(time="t"))


def by_query(store: Store, file: Path) -> object:
    return materialise(
        store, "s", EVENTS.to_batches(), schema=SCHEMA, settings=StreamSettings(time="t"),
        lineage=Lineage("SELECT * FROM other", {"other": 0}, {}),
    )  # fmt: skip


@pytest.mark.parametrize("make_stream", [create, by_append, by_ingest, by_query])
def test_no_stream_is_made_over_one_that_lost_its_log(
    store: Store, tmp_path: Path, make_stream: object
) -> None:
    assert callable(make_stream)
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,2\n")
    before = sorted(store.path.rglob("*"))
    with pytest.raises(StorageError, match=r"store/s' holds data files .*restore '.*/_delta_log'"):
        make_stream(store, file)
    assert sorted(store.path.rglob("*")) == before


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
    store = make(tmp_path / "store")
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
