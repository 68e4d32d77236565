"""Repair: derived data becomes whole again, events are never touched, leftovers go when old."""

import fcntl
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.log import delta_log
from chronicle.maintenance import check, check_events, repair
from chronicle.maintenance.check import check_store, check_stream
from chronicle.maintenance.finding import Finding, Severity
from chronicle.maintenance.repair import RepairReport, repair_store, repair_stream
from chronicle.store import Stream, open_store
from tests.unit.chronicle.stream_cases import flip, names_of, ticks

NOTHING_DONE = RepairReport((), 0, (), ())


def _not_ok(stream: Stream) -> list[Finding]:
    return [f for f in check_stream(stream.path, deep=True) if f.severity is not Severity.OK]


def _age(path: Path) -> None:
    """Put a file in its place as an older version wrote them."""
    pq.write_table(pa.table({"level": [0], "count": [1]}), path)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_whole_stream_is_left_as_it_is(stream: Stream):
    before = _contents(stream.path)
    assert repair_stream(stream) == NOTHING_DONE
    assert _contents(stream.path) == before


@pytest.mark.parametrize("damage", [flip, _age, Path.unlink])
def test_a_tree_file_damaged_outdated_or_missing_is_written_anew(
    stream: Stream, damage: Callable[[Path], None]
):
    name = names_of(stream)[1]
    path = stream.path / "tree" / name
    expected = path.read_bytes()
    events = _contents(stream.path / "events")
    damage(path)
    report = repair_stream(stream.path)
    assert report == RepairReport((f"ticks/tree/{name}",), 1, (), ())
    assert path.read_bytes() == expected
    assert _not_ok(stream) == []
    assert _contents(stream.path / "events") == events
    assert repair_stream(stream.path) == NOTHING_DONE


def test_an_open_stream_sees_what_was_repaired(stream: Stream):
    name = names_of(stream)[1]
    flip(stream.path / "tree" / name, 4)  # of the columns every reader needs
    opened = open_store(stream.path.parent).stream("ticks")
    assert [file.has_tree for file in opened.snapshot().files] == [True, False, True]
    assert opened.snapshot().aggregate(0, 30, "x").sum == sum(range(30))
    repair_stream(opened)
    assert [file.has_tree for file in opened.snapshot().files] == [True, True, True]


def test_a_missing_tree_table_is_put_anew(stream: Stream):
    shutil.rmtree(stream.path / "tree")
    assert repair_stream(stream.path) == RepairReport(("ticks/tree",), 3, (), ())
    assert _not_ok(stream) == []


def test_missing_tree_entries_are_completed(stream: Stream):
    names = names_of(stream)[1:]
    delta_log.commit_changes(stream.path / "tree", remove=names, read_version=None, metadata={})
    assert repair_stream(stream.path) == RepairReport((), 2, (), ())
    assert _not_ok(stream) == []


@pytest.mark.parametrize("damage", ["empty", "missing"])
def test_a_tree_table_whose_log_is_damaged_is_put_anew(stream: Stream, damage: str):
    commit = stream.path / "tree/_delta_log" / f"{1:020d}.json"
    if damage == "missing":
        commit.unlink()
    else:
        commit.write_text("")
    opened = open_store(stream.path.parent).stream("ticks")
    snapshot = opened.snapshot()
    assert snapshot.aggregate(0, 30, "x").sum == sum(range(30))
    if damage == "empty":  # a commit that is missing is no fault to Delta: entries are fewer
        [fault] = snapshot.faults
        assert "repair" in fault
    report = repair_stream(opened)
    assert report == RepairReport(("ticks/tree",), 3, (), ())
    assert opened.snapshot().faults == ()
    assert all(file.has_tree for file in opened.snapshot().files)
    assert _not_ok(stream) == []
    assert sorted(p.name for p in stream.path.iterdir()) == ["events", "tree"]


def test_a_repair_killed_between_two_steps_leaves_right_answers_and_can_be_run_again(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
):
    name = names_of(stream)[0]
    flip(stream.path / "tree" / name)

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(repair, "complete_derived", killed)
        with pytest.raises(KeyboardInterrupt):
            repair_stream(stream.path)
    snapshot = open_store(stream.path.parent).stream("ticks").snapshot()
    assert snapshot.aggregate(0, 30, "x").sum == sum(range(30))
    assert repair_stream(stream.path) == RepairReport((), 1, (), ())
    assert _not_ok(stream) == []


def test_a_damaged_data_file_is_reported_and_everything_else_is_repaired(stream: Stream):
    names = names_of(stream)
    flip(stream.path / "events" / names[0])
    delta_log.commit_changes(
        stream.path / "tree", remove=[names[0]], read_version=None, metadata={}
    )
    flip(stream.path / "tree" / names[1])
    report = repair_stream(stream.path)
    assert report.replaced == (f"ticks/tree/{names[1]}",)
    assert report.n_written == 1
    [left] = report.left
    assert (left.invariant, left.file) == (check_events.CHECKSUMS, f"ticks/events/{names[0]}")
    assert "restore the file from a copy" in left.remedy
    assert "delete its stretch of time" in left.remedy


def test_files_no_table_knows_are_removed_once_they_are_old(stream: Stream):
    name = names_of(stream)[0]
    old, new = f"9-{name}", f"10-{name}"
    for copy in (old, new):
        shutil.copy(stream.path / "events" / name, stream.path / "events" / copy)
    long_ago = (stream.path / "events" / new).stat().st_mtime - 100_000
    os.utime(stream.path / "events" / old, (long_ago, long_ago))
    assert repair_stream(stream.path) == RepairReport((), 0, (f"ticks/events/{old}",), ())
    left = repair_stream(stream.path, leftover_age=timedelta(0))
    assert left == RepairReport((), 0, (f"ticks/events/{new}",), ())
    assert _not_ok(stream) == []


@pytest.mark.parametrize("damage", ["lost", "garbled"])
def test_nothing_is_removed_or_written_while_the_log_of_the_events_is_broken(
    stream: Stream, damage: str
):
    commit = stream.path / "events/_delta_log" / f"{2:020d}.json"
    if damage == "lost":
        commit.unlink()
    else:
        commit.write_text("{")
    before = _contents(stream.path)
    report = repair_stream(stream.path, leftover_age=timedelta(0))
    assert (report.replaced, report.n_written, report.removed) == ((), 0, ())
    assert {f.invariant for f in report.left} <= {check.COMMITTED, check.LOGS}
    assert report.left
    assert _contents(stream.path) == before


def test_folders_of_killed_operations_are_removed_and_those_at_work_stay(stream: Stream):
    root = stream.path.parent
    dead, alive = f".ingest-{1:032x}", f".ingest-{2:032x}"
    for name in (dead, alive):
        (root / name).mkdir()
        (root / name / "lock").touch()
    with (root / alive / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = repair_store(root)
    assert done == {"ticks": RepairReport((), 0, (dead,), ())}
    assert (root / alive).exists()
    repair_store(root)
    assert {f.severity for f in check_store(root)} == {Severity.OK}


def test_a_damaged_tree_file_of_an_older_version_is_taken_out(stream: Stream):
    name = names_of(stream)[0]
    version = delta_log.load_table(stream.path / "events").version
    delta_log.commit_changes(
        stream.path / "events", remove=[name], read_version=version, metadata={}
    )
    flip(stream.path / "tree" / name)
    assert repair_stream(stream.path) == RepairReport((f"ticks/tree/{name}",), 0, (), ())
    assert _not_ok(stream) == []
    old = open_store(stream.path.parent).stream("ticks").snapshot(version)
    assert old.aggregate(0, 30, "x").sum == sum(range(30))


def test_a_log_that_names_a_checkpoint_which_is_gone_is_read_again(stream: Stream):
    for t in range(1000, 1025):
        stream.append(ticks(t, t + 1))
    n_events = stream.snapshot().n_events
    log = stream.path / "events" / "_delta_log"
    checkpoints = list(log.glob("*.checkpoint*.parquet"))
    assert checkpoints, "delta-rs writes one now and then"
    for checkpoint in checkpoints:
        checkpoint.unlink()
    hint = log / "_last_checkpoint"
    [fault] = [f for f in check_stream(stream.path) if f.severity is Severity.FAULT]
    assert fault.file.endswith("/events/_delta_log/_last_checkpoint")
    assert "chronicle repair" in fault.remedy
    assert any(name.endswith(hint.name) for name in repair_stream(stream.path).removed)
    assert Stream(stream.name, stream.path).snapshot().n_events == n_events
    assert [f for f in check_stream(stream.path) if f.severity is Severity.FAULT] == []
