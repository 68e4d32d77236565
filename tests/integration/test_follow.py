"""A followed folder: each file is taken once, whatever happens in between."""

from __future__ import annotations

import shutil
import threading
import time as clock
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest import FollowReport, follow, ingest
from chronicle.store import Store, create_store
from chronicle.write import commit
from indexing import RunWriter
from tests.ingest_files import TIES, Row, by_time, options, put, read_rows, rows_of, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(import_module("chronicle.ingest.follow"), "POLL_SECONDS", 0.05)
    (tmp_path / "in").mkdir()
    return create_store(tmp_path / "store")


def arrive(store: Store, name: str, times: list[int], first: int = 0) -> list[Row]:
    put(store.path.parent / "in", name, times, first)
    return rows_of(times, first)


def once(store: Store, **given: Any) -> FollowReport:
    chosen = options(index=("n",))
    return follow(
        store, "s", store.path.parent / "in", chosen, derived=RunWriter, once=True, **given
    )


def test_each_file_is_taken_once_and_late_ones_are_merged(store: Store) -> None:
    rows = arrive(store, "a%20ü 1.parquet", [10, 30, 20])
    rows += arrive(store, "b.parquet", [20, 5], first=10)
    said: list[str] = []
    arrive(store, "_hidden.parquet", [1])
    (store.path.parent / "in" / "notes.txt").write_text("no events")
    first = once(store, progress=said.append)
    assert (first.n_batches, first.n_events) == (1, 5)
    assert any("notes.txt', whose ending tells no format" in text for text in said)

    rows += arrive(store, "c.parquet", [7, 40, 20], first=20)
    second = once(store)
    assert (second.n_events, second.n_late) == (3, 2)
    assert once(store).n_batches == 0
    assert read_rows(store) == by_time(rows)


def test_events_beyond_the_lateness_are_put_aside(store: Store) -> None:
    arrive(store, "a.parquet", [100])
    once(store, lateness=10)
    arrive(store, "b.parquet", [90, 89, 200, 95], first=10)
    report = once(store, lateness=10)
    assert (report.n_events, report.n_late, report.n_quarantined) == (3, 2, 1)
    assert [row["t"] for row in read_rows(store)] == [90, 95, 100, 200]
    arrive(store, "c.parquet", [300])
    with pytest.raises(SchemaError, match="time is an integer"):
        once(store, lateness=timedelta(hours=1))


def interrupted(step: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not before:
            step(*args, **kwargs)
        raise OSError("the disk is gone")

    return run


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_batch_that_failed_around_its_commit_is_taken_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    rows = arrive(store, "a.parquet", [1, 2])
    once(store)
    rows += arrive(store, "b.parquet", [1, 3], first=10)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit_events", interrupted(commit.commit_events, before=before))
        with pytest.raises(OSError, match="the disk is gone"):
            once(store)
    assert len(read_rows(store)) == (2 if before else 4)
    once(store)
    assert read_rows(store) == by_time(rows)
    live = {file.name for file in store.stream("s").snapshot().files}
    assert {path.name for path in (store.path / "s" / "events").glob("*.parquet")} >= live
    assert all(file.has_tree for file in store.stream("s").snapshot().files)


def test_what_was_taken_is_known_by_the_log_of_the_stream_alone(store: Store) -> None:
    rows = arrive(store, "a.parquet", [1, 2])
    ingest(store, "s", [store.path.parent / "in" / "a.parquet"], options())
    assert once(store).n_skipped == 1
    rows += arrive(store, "b.parquet", [3], first=10)
    report = once(store)
    assert (report.n_events, report.n_skipped) == (1, 1)
    assert read_rows(store) == by_time(rows)
    assert [entry.name for entry in store.path.iterdir() if entry.is_dir()] == ["s"]

    shutil.rmtree(store.path / "s")  # and with the log goes what was taken
    assert once(Store(store.path)).n_events == 3


def test_batch_without_a_usable_record_goes_to_the_quarantine_and_does_not_stop(
    store: Store,
) -> None:
    arrive(store, "a.parquet", [1])
    once(store)
    write_rows(store.path.parent / "in" / "b.parquet", [{"t": None, "n": 1, "pad": ""}], TIES)
    assert once(store).n_quarantined == 1
    arrive(store, "c.parquet", [2], first=5)
    assert once(store).n_events == 1


def test_file_that_cannot_be_read_stops_with_its_reason_and_is_tried_again(store: Store) -> None:
    rows = arrive(store, "a.parquet", [1])
    bad = store.path.parent / "in" / "b.parquet"
    bad.write_text("no parquet")
    with pytest.raises(SourceError, match=r"b\.parquet' is not a Parquet file"):
        once(store)
    bad.unlink()
    once(store)
    assert read_rows(store) == rows


def test_following_waits_for_files_and_ends_when_none_comes(store: Store) -> None:
    rows = arrive(store, "a.parquet", [1])
    more: list[Row] = []

    def progress(text: str) -> None:
        if text.startswith("batch 0"):
            more.extend(arrive(store, "b.parquet", [2], first=10))

    folder = store.path.parent / "in"
    report = follow(store, "s", folder, options(), idle_seconds=5, progress=progress)
    assert report.n_batches == 2
    assert read_rows(store) == rows + more


def test_appends_in_between_lose_no_event(store: Store) -> None:
    rows = arrive(store, "a.parquet", [1, 2])
    once(store)
    others: list[Row] = []

    def write() -> None:
        stream = Store(store.path).stream("s")
        for n in range(6):
            row = {"t": 3, "n": 1000 + n, "pad": "y"}
            stream.append(pa.Table.from_pylist([row], TIES))
            others.append(row)
            clock.sleep(0.3)

    writer = threading.Thread(target=write)
    rows += arrive(store, "b.parquet", [2, 4], first=10) + arrive(
        store, "c.parquet", [2, 4], first=20
    )
    writer.start()
    once(store)
    writer.join()
    got = read_rows(store)
    assert sorted(row["n"] for row in got) == sorted(row["n"] for row in [*rows, *others])
    assert [row["t"] for row in got] == sorted(row["t"] for row in got)
    assert [row["n"] for row in got if row["t"] == 3] == [row["n"] for row in others]
