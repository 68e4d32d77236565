"""Ingests one after the other, or at once: late events, files taken before, and interrupts."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronicle.errors import ChronicleError, LateEventError, SourceError
from chronicle.ingest import IngestReport, pipeline
from chronicle.ingest.pipeline import ingest
from chronicle.log import delta_log
from chronicle.store import Store, open_store
from chronicle.write import commit
from chronicle.write.quarantine import LATE_REASON
from indexing import RunWriter, open_indexes
from tests.crash_points import watched_disk
from tests.ingest_files import (
    TIES,
    Row,
    assert_complete,
    by_time,
    options,
    put,
    quarantine_of,
    read_rows,
    rows_of,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def times(store: Store) -> list[int]:
    return [row["t"] for row in read_rows(store)]


def numbers(store: Store) -> list[int]:
    return [row["n"] for row in read_rows(store)]


# ---------------------------------------------------------------------------------------------
# Late events.


def test_reports_in_random_order_give_the_load_sorted_by_time_and_arrival(
    tmp_path: Path, store: Store
) -> None:
    # Like crimes: events of 300 hours reported in eight months, some long after they happened.
    generator = random.Random(11)
    rows: list[Row] = []
    given = options(index=("n",), file_events=100, block_events=16, split_bytes=16_000)
    for month in range(8):
        new = [max(0, 37 * (month + 1) - int(generator.expovariate(1 / 40))) for _ in range(150)]
        path = put(tmp_path, f"{month}.parquet", new, len(rows))
        end = max((row["t"] for row in rows), default=0)
        report = ingest(store, "s", [path], given, derived=RunWriter)
        assert (report.n_events, report.n_late) == (150, sum(t < end for t in new))
        rows += rows_of(new, len(rows))
    assert read_rows(store) == by_time(rows)
    snapshot = store.stream("s").snapshot()
    assert all(file.n_events <= 100 and file.has_tree for file in snapshot.files)
    assert open_indexes(snapshot).index("n").n_entries == len(rows)
    said = [one.metadata for one in delta_log.commits(store.path / "s" / "events")]
    ingests = [one for one in said if one.get("chronicle.operation") == "ingest"]
    assert sum(int(one["n_events"]) for one in ingests) == len(rows)


@pytest.mark.parametrize(
    ("late", "n_rewritten"),
    [
        pytest.param([14, 13], 1, id="inside a file"),
        pytest.param([12, 15], 2, id="at the last times of two files"),
        pytest.param([1, 2], 0, id="half a file before the first event"),
    ],
)
def test_late_events_come_after_all_of_their_time_and_rewrite_their_file_alone(
    tmp_path: Path, store: Store, late: list[int], n_rewritten: int
) -> None:
    # Files [10..12], [13..15], [16..18] of four events each.
    first, second = [10, 11, 12, 12, 13, 13, 14, 15, 16, 17, 17, 18], [*late, 18, 20]
    given = options(file_events=4, block_events=2)
    ingest(store, "s", [put(tmp_path, "a.parquet", first)], given)
    before = {file.name for file in store.stream("s").snapshot().files}
    report = ingest(store, "s", [put(tmp_path, "b.parquet", second, 100)], given)
    assert (report.n_late, report.n_rewritten) == (len(late), n_rewritten)
    assert read_rows(store) == by_time(rows_of(first) + rows_of(second, 100))
    changes = delta_log.changes_since(store.path / "s" / "events", 1)
    removed = next((set(change.removed) for change in changes if change.removed), set())
    assert removed <= before
    assert len(removed) == n_rewritten
    assert f"late: {len(late)} of them" in str(report)


def test_late_part_of_input_in_order_is_merged_without_a_sort(tmp_path: Path, store: Store) -> None:
    ingest(store, "s", [put(tmp_path, "a.parquet", range(0, 100, 2))], options())
    report = ingest(store, "s", [put(tmp_path, "b.parquet", range(1, 200, 2), 100)], options())
    assert (report.in_order, report.n_late) == (True, 49)
    assert read_rows(store) == by_time(rows_of(range(0, 100, 2)) + rows_of(range(1, 200, 2), 100))


def test_late_events_are_put_aside_with_their_source(tmp_path: Path, store: Store) -> None:
    ingest(store, "s", [put(tmp_path, "a.parquet", [10, 20])], options())
    second = [*rows_of([15, 25, 5], first=10), {"t": None, "n": 99, "pad": None}]
    path = write_rows(tmp_path / "b.parquet", second, TIES)
    report = ingest(store, "s", [path], options(late="quarantine"))
    assert report.reasons == {LATE_REASON: 2, "no time in column 't'": 1}
    assert (report.n_events, report.n_late, report.n_quarantined) == (1, 0, 3)
    assert times(store) == [10, 20, 25]
    late = [row for row in quarantine_of(store) if row["reason"] == LATE_REASON]
    assert [json.loads(row["record"])["t"] for row in late] == [15, 5]
    assert {row["source"] for row in late} == {str(path)}


def test_ingest_of_nothing_but_late_events_that_are_put_aside_is_remembered(
    tmp_path: Path, store: Store
) -> None:
    ingest(store, "s", [put(tmp_path, "a.parquet", [10, 20])], options())
    path = put(tmp_path, "b.parquet", [1, 2])
    first = ingest(store, "s", [path], options(late="quarantine"))
    again = ingest(store, "s", [path], options(late="quarantine"))
    assert (first.n_events, first.n_quarantined, again.n_skipped) == (0, 2, 1)
    assert len(quarantine_of(store)) == 2


def test_late_events_are_refused_where_they_are_to_be(tmp_path: Path, store: Store) -> None:
    ingest(store, "s", [put(tmp_path, "a.parquet", [10, 20])], options())
    path = put(tmp_path, "b.parquet", [30, 19, 20, 5])
    told = r"2 of 4 events .*\(20\).*oldest of 5.*19 in 'b.*--late merge"
    with pytest.raises(LateEventError, match=told) as refused:
        ingest(store, "s", [path], options(late="reject"))
    assert refused.value.n_late == 2
    assert times(store) == [10, 20]
    assert not list(store.path.glob(".ingest-*"))
    assert ingest(store, "s", [path], options()).n_late == 2
    assert times(store) == [5, 10, 19, 20, 20, 30]


@pytest.mark.parametrize("said", ["on", "off"])
def test_what_workers_wrote_is_flushed_before_it_is_acknowledged(
    tmp_path: Path, store: Store, said: str
) -> None:
    given = options(file_events=100, block_events=16)
    with watched_disk() as disk, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHRONICLE_SYNC", said)
        for i, new in enumerate((range(300), range(250, 400))):
            ingest(store, "s", [put(tmp_path, f"{i}.csv", [*new, *new])], given)
    table = store.path / "s" / "events"
    files = [table / file.name for file in delta_log.live_files(table)]
    for path in (*files, *(table / "_delta_log").glob("*.json")):
        assert (disk.contents.get(path.stat().st_ino) == path.read_bytes()) == (said == "on")
    if said == "on":
        assert {path.name for path in files} <= disk.names[table.stat().st_ino].keys()
        assert "s" in disk.names[store.path.stat().st_ino]


# ---------------------------------------------------------------------------------------------
# Files that were taken before.


def test_sources_taken_are_skipped_counted_and_start_no_spark(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = put(tmp_path, "a.parquet", [1, 2]), put(tmp_path, "b.parquet", [2, 3], 10)
    assert ingest(store, "s", [a], options()).n_skipped == 0
    both = ingest(store, "s", [b, a], options())
    assert (both.n_events, both.n_skipped) == (2, 1)
    assert "skipped: 1 source taken before" in str(both)

    monkeypatch.setattr(pipeline, "open_spark", None)
    version = store.stream("s").snapshot().version
    none = ingest(store, "s", [a, b], options())
    assert (none.n_events, none.n_skipped, none.version, none.log_file) == (0, 2, version, None)
    assert "nothing new" in str(none)
    assert numbers(store) == [0, 1, 10, 11]


def test_renamed_source_is_passed_over_and_its_successor_taken(
    tmp_path: Path, store: Store
) -> None:
    a = put(tmp_path, "a.parquet", [1, 2])
    ingest(store, "s", [a], options())
    a.rename(tmp_path / "a-1.parquet")
    report = ingest(store, "s", [tmp_path / "a-1.parquet"], options())
    assert (report.n_events, report.n_skipped) == (0, 1)
    assert "a-1.parquet' has the content of a file that was taken before" in str(report)
    put(tmp_path, "a.parquet", [3], 10)
    shutil.copy(a, tmp_path / "b.parquet")
    report = ingest(store, "s", [tmp_path / "*.parquet"], options())
    assert (report.n_events, report.n_skipped) == (1, 1)
    assert "b.parquet' has the same content as" in str(report)
    assert numbers(store) == [0, 1, 10]


def test_source_that_changes_while_it_is_taken_is_refused(tmp_path: Path, store: Store) -> None:
    a = put(tmp_path, "a.parquet", [1, 2])

    def change(step: str) -> None:
        if step.startswith("writing"):
            put(tmp_path, "a.parquet", [3, 4], 10)

    with pytest.raises(SourceError, match=r"a.parquet' changed while it was read"):
        ingest(store, "s", [a], options(), progress=change)
    assert ingest(store, "s", [a], options()).n_events == 2
    assert numbers(store) == [10, 11]


def at_once(store: Store, jobs: list[list[Path]]) -> list[IngestReport | ChronicleError]:
    """Ingest from several threads, each with a store object of its own."""
    found: list[IngestReport | ChronicleError] = []
    barrier = threading.Barrier(len(jobs))

    def run(paths: list[Path]) -> None:
        barrier.wait()
        try:
            found.append(ingest(open_store(store.path), "s", paths, options()))
        except ChronicleError as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(paths,)) for paths in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("exists", [False, True], ids=["first ingest", "stream that exists"])
def test_two_ingests_of_one_file_at_once_take_it_once(
    tmp_path: Path, store: Store, exists: bool
) -> None:
    a = put(tmp_path, "a.parquet", [5, 6], 10)
    if exists:
        ingest(store, "s", [put(tmp_path, "first.parquet", [1])], options())
    found = at_once(store, [[a], [a]])
    reports = [one for one in found if isinstance(one, IngestReport)]
    assert sorted(one.n_events for one in reports) == [0, 2]
    assert numbers(open_store(store.path)) == ([0] if exists else []) + [10, 11]


def test_two_ingests_of_two_files_at_once_both_land_in_full(tmp_path: Path, store: Store) -> None:
    ingest(store, "s", [put(tmp_path, "first.parquet", [1, 9])], options())
    a, b = put(tmp_path, "a.parquet", [5, 12], 10), put(tmp_path, "b.parquet", [5, 11, 13], 20)
    assert all(isinstance(found, IngestReport) for found in at_once(store, [[a], [b]]))
    rows = read_rows(open_store(store.path))
    assert [row["t"] for row in rows] == [1, 5, 5, 9, 11, 12, 13]
    assert {row["n"] for row in rows} == {0, 1, 10, 11, 20, 21, 22}
    assert not list(store.path.glob(".ingest-*"))


# ---------------------------------------------------------------------------------------------
# Interrupts between the steps of a commit.

STEPS: tuple[tuple[Any, str], ...] = (
    (pipeline, "commit_quarantine"),
    (commit, "commit_events"),
    (commit, "commit_tree"),
    (commit, "commit_derived"),
)


def interrupted(step: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """Return a step after (or before) which the process is interrupted."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if not before:
            step(*args, **kwargs)
        raise KeyboardInterrupt

    return run


def crash_file(folder: Path, first: int) -> Path:
    """Write five events and a row without a time."""
    rows: list[Row] = [*rows_of(range(first, first + 5)), {"t": None, "n": 99, "pad": "faulty"}]
    return write_rows(folder / f"{first}.parquet", rows, TIES)


@pytest.mark.parametrize(
    ("module", "step", "before"),
    [*((*step, True) for step in STEPS), (*STEPS[-1], False)],
    ids=[*(f"before {name}" for _, name in STEPS), f"after {STEPS[-1][1]}"],
)
def test_interrupted_append_is_done_or_undone(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    step: str,
    before: bool,
) -> None:
    first, second, third = (crash_file(tmp_path, t) for t in (0, 10, 20))
    given = options(index=("n",))
    ingest(store, "s", [first], given, derived=RunWriter)
    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupted(getattr(module, step), before=before))
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "s", [second], given, derived=RunWriter)
    landed = step in ("commit_tree", "commit_derived")
    expected = [*range(5), *(range(10, 15) if landed else ())]
    assert times(store) == expected
    assert not list(store.path.glob(".ingest-*"))
    live = {file.name for file in store.stream("s").snapshot().files}
    assert {path.name for path in (store.path / "s" / "events").glob("*.parquet")} == live

    # What landed is skipped, and completed all the same.
    again = ingest(store, "s", [second, third][not landed :], given, derived=RunWriter)
    assert again.n_skipped == landed
    assert times(store) == [*expected, *range(20, 25)]
    assert_complete(store, "n")


def test_interrupted_ingest_is_completed_though_all_is_skipped(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = put(tmp_path, "a.parquet", [1]), put(tmp_path, "b.parquet", [2], 10)
    ingest(store, "s", [a], options(index=("n",)), derived=RunWriter)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit_tree", interrupted(commit.commit_tree, before=True))
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "s", [a, b], options(), derived=RunWriter)
    assert ingest(store, "s", [a, b], options(), derived=RunWriter).n_skipped == 2
    assert_complete(store, "n")
    assert numbers(store) == [0, 10]


@pytest.mark.parametrize(
    ("module", "step"),
    [STEPS[0], STEPS[-1], (pipeline, "move_stream")],
    ids=["commit_quarantine", "commit_derived", "move_stream"],
)
def test_interrupted_first_ingest_leaves_no_stream(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    path = crash_file(tmp_path, 0)
    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupted(getattr(module, step), before=True))
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "s", [path], options())
    assert store.stream_names() == ()
    assert [entry.name for entry in store.path.iterdir()] == ["chronicle-store.json"]
    ingest(store, "s", [path], options())
    assert len(read_rows(store)) == 5
