"""Checks and repair: what is broken is found as just that, and made whole from the events."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import StorageError
from chronicle.log import audit, delta_log
from chronicle.maintenance import check, check_events
from chronicle.maintenance.check import check_store, check_stream
from chronicle.maintenance.finding import CheckedEvents, Finding, Severity
from chronicle.maintenance.repair import RepairReport, repair_store, repair_stream
from chronicle.store import Stream, open_store
from chronicle.tree.column_file import open_columns
from chronicle.write.block_writer import write_events, write_tree
from tests.helpers import commit_table, copy_stream
from tests.unit.chronicle.stream_cases import TICKS, at, flip, make_stream, names_of, ticks


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    folder = tmp_path_factory.mktemp("made")
    return make_stream(folder, [ticks(0, 20), ticks(20, 30)], schema=TICKS)


@pytest.fixture
def stream(made: Stream, tmp_path: Path) -> Stream:
    """Three files of 16, 4 and 10 events in blocks of 4."""
    return copy_stream(made, tmp_path)


INVARIANTS = {
    check.LOGS,
    check.SETTINGS,
    check.DECLARED,
    check_events.NAMES,
    check_events.FILES,
    check_events.CHECKSUMS,
    check_events.BLOCKS,
    check_events.TIMES,
    check_events.ORDER,
    check_events.TREE,
    check.COMMITTED,
    check.OLD_TREE,
    check.LEFTOVERS,
    check.FOREIGN,
    check_events.QUARANTINE,
}


def _broken(stream: Stream, *, deep: bool = False) -> list[tuple[str, str, str]]:
    """Return severity, invariant and file of what does not hold."""
    found = check_stream(stream.path, deep=deep)
    return [(f.severity, f.invariant, f.file) for f in found if f.severity is not Severity.OK]


def _relist(stream: Stream, name: str, n_events: int) -> None:
    """Make the log say the size and count a data file has now."""
    table = stream.path / "events"
    found = [(name, (table / name).stat().st_size, n_events)]
    version = delta_log.load_table(table).version
    delta_log.commit_changes(
        table, add=delta_log.new_files(found), read_version=version, metadata={}
    )


def _rewrite(stream: Stream, name: str, table: pa.Table, *, block_events: int = 4) -> None:
    """Put other events in the place of a data file's, and make log and tree agree with them."""
    write_events(stream.path / "events" / name, table, block_events)
    times = table.column("t").combine_chunks()
    if not times.null_count:
        counts = [block_events] * (len(table) // block_events)
        counts += [len(table) % block_events] if len(table) % block_events else []
        tree = write_tree(stream.path, name, table, times.to_numpy(), counts, stream.settings)
        found = delta_log.new_files([(name, tree.size_bytes, tree.n_rows)])
        delta_log.commit_changes(stream.path / "tree", add=found, read_version=None, metadata={})
    _relist(stream, name, len(table))


def spoil(commit: Path, damage: str) -> None:
    if damage == "missing":
        commit.unlink()
    else:
        commit.write_text("" if damage == "empty" else '{"add": ')


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_stream_has_one_ok_per_invariant(stream: Stream, deep: bool):
    found = check_stream(stream, deep=deep)
    assert {f.severity for f in found} == {Severity.OK}
    assert sorted(f.invariant for f in found) == sorted(INVARIANTS)
    assert {f.file for f in found} == {"ticks"}


def test_a_store_is_checked_with_all_its_streams(stream: Stream):
    found = check_store(stream.path.parent)
    assert {f.severity for f in found} == {Severity.OK}
    assert {f.invariant for f in found} == INVARIANTS | {check.MARKER, check.STAGING}


@pytest.mark.parametrize("marker", ['{"format_version": 99}', "", "{}"])
def test_a_damaged_or_newer_marker_is_found(stream: Stream, marker: str):
    (stream.path.parent / "chronicle-store.json").write_text(marker)
    [finding] = check_store(stream.path.parent)
    assert (finding.severity, finding.invariant) == (Severity.FAULT, check.MARKER)
    assert finding.file == "chronicle-store.json"


def test_a_newer_format_of_a_stream_is_found(stream: Stream):
    log = stream.path / "events/_delta_log" / f"{0:020d}.json"
    text = log.read_text()
    newer = text.replace('"chronicle.format_version": "', '"chronicle.format_version": "9')
    assert newer != text
    log.write_text(newer)
    assert _broken(stream) == [("fault", check.SETTINGS, "ticks/events")]


@pytest.mark.parametrize("table", ["events", "tree"])
@pytest.mark.parametrize("damage", ["empty", "garbled", "missing"])
def test_a_commit_that_is_empty_garbled_or_missing_is_found(
    stream: Stream, table: str, damage: str
):
    commit = stream.path / table / "_delta_log" / f"{1:020d}.json"
    spoil(commit, damage)
    found = [f for f in _broken(stream) if f[1] == check.LOGS]
    assert found == [("fault", check.LOGS, f"ticks/{table}/_delta_log/{1:020d}.json")]


def test_a_commit_that_fails_to_be_read_without_a_word_is_named_by_the_error(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
):
    def fail(_: Path) -> set[str]:
        raise OSError

    monkeypatch.setattr("chronicle.log.audit._commit_names", fail)
    faults = audit.audit_log(stream.path / "events").faults
    assert [fault.what for fault in faults] == ["OSError"] * 3  # creation, two appends


def test_a_missing_data_file_is_found(stream: Stream):
    name = names_of(stream)[1]
    (stream.path / "events" / name).unlink()
    assert _broken(stream) == [("fault", check_events.FILES, f"ticks/events/{name}")]
    [finding] = [f for f in check_stream(stream.path) if f.severity is Severity.FAULT]
    assert finding.what.endswith("; its 4 events lie from 16 to 19")


@pytest.mark.parametrize("at", [4, 40, 300, -30, -5])
def test_a_flipped_byte_of_a_data_file_is_found(stream: Stream, at: int):
    name = names_of(stream)[0]
    flip(stream.path / "events" / name, at)
    assert _broken(stream) == [("fault", check_events.CHECKSUMS, f"ticks/events/{name}")]


def test_a_data_file_of_another_size_or_count_than_the_log_says_is_found(stream: Stream):
    name = names_of(stream)[0]
    path = stream.path / "events" / name
    log = next((stream.path / "events/_delta_log").glob("*1.json"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if line.get("add", {}).get("path") == name:
            line["add"]["size"] += 1
            line["add"]["stats"] = line["add"]["stats"].replace(
                '"numRecords": 16', '"numRecords": 15'
            )
            assert '"numRecords": 15' in line["add"]["stats"]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for commit in log.parent.glob("*.json"):  # an older Chronicle does not count rows
        commit.write_text(commit.read_text().replace("chronicle.rows", "of old"))
    found = check_stream(stream.path)
    whats = [f.what for f in found if f.severity is Severity.FAULT]
    size = path.stat().st_size
    assert f"it has {size} bytes, the log says {size + 1}" in whats
    assert "it has 16 events, the log says 15" in whats
    assert {f.invariant for f in found if f.severity is Severity.FAULT} == {check_events.FILES}


def test_a_file_of_a_foreign_name_is_found(stream: Stream):
    table = stream.path / "events"
    pq.write_table(ticks(30, 34), table / "part-0.parquet", row_group_size=4)
    _relist(stream, "part-0.parquet", 4)
    found = [f for f in _broken(stream) if f[0] == "fault"]
    assert found == [("fault", check_events.NAMES, "ticks/events/part-0.parquet")]


@pytest.mark.parametrize(
    ("place", "events", "block_events", "invariant", "what"),
    [
        pytest.param(0, ticks(0, 16), 5, check_events.BLOCKS, "block 0 has 5 events, not 4",
                     id="large blocks"),
        pytest.param(0, ticks(0, 16), 3, check_events.BLOCKS, "block 0 has 3 events",
                     id="small blocks"),
        pytest.param(-1, ticks(20, 37), 4, check_events.BLOCKS, "17 events",
                     id="more events than a file holds"),
        pytest.param(0, pa.table({"t": [0, None], "x": [0.0, 1.0]}, TICKS), 4,
                     check_events.TIMES, "", id="an event without a time"),
        pytest.param(-1, at(18, 31), 4, check_events.ORDER, "", id="overlap in time"),
    ],
)  # fmt: skip
def test_a_file_of_wrong_blocks_or_times_is_found(
    stream: Stream, place: int, events: pa.Table, block_events: int, invariant: str, what: str
):
    name = names_of(stream)[place]
    _rewrite(stream, name, events, block_events=block_events)
    assert _broken(stream) == [("fault", invariant, f"ticks/events/{name}")]
    assert any(what in f.what for f in check_stream(stream.path))


def test_times_that_go_back_are_found(stream: Stream):
    name = names_of(stream)[0]
    table = pa.table({"t": [0, 1, 2, 3, 2, 5], "x": [0.0] * 6}, schema=TICKS)
    write_events(stream.path / "events" / name, table, 4)
    _relist(stream, name, 6)
    found = check_stream(stream.path)
    faults = [f for f in found if f.invariant == check_events.TIMES]
    assert [(f.severity, f.file) for f in faults] == [("fault", f"ticks/events/{name}")]
    assert faults[0].what == "time goes back from 3 to 2 at its event 4"


def test_files_that_tie_at_a_border_are_no_fault(stream: Stream):
    commit_table(stream, at(29, 29, 31))
    assert _broken(stream) == []


def test_missing_tree_entries_cost_time_and_are_a_warning(stream: Stream):
    name = names_of(stream)[1]
    delta_log.commit_changes(stream.path / "tree", remove=[name], read_version=None, metadata={})
    assert _broken(stream) == [("warning", check_events.TREE, f"ticks/tree/{name}")]


def _flip_attribute(path: Path) -> None:
    flip(path, open_columns(path, kind="tree").columns["x__max"].start + 3)


def _flip_footer(path: Path) -> None:
    flip(path, path.stat().st_size - 99)


def _age(path: Path) -> None:
    pq.write_table(pa.table({"level": [0], "count": [1]}), path)


def test_tree_entries_of_other_times_are_found(stream: Stream):
    name = names_of(stream)[1]
    write_tree(stream.path, name, ticks(16, 20), np.array([16, 17, 18, 18]), [4], stream.settings)
    assert _broken(stream) == [("fault", check_events.TREE, f"ticks/tree/{name}")]


def test_only_a_deep_check_compares_every_summary(stream: Stream):
    name = names_of(stream)[0]
    other = pa.table({"t": range(16), "x": [0.0] * 15 + [99.0]}, schema=TICKS)
    write_tree(stream.path, name, other, np.arange(16), [4] * 4, stream.settings)
    assert _broken(stream) == []
    assert _broken(stream, deep=True) == [("fault", check_events.TREE, f"ticks/tree/{name}")]


def test_a_lost_newest_commit_of_the_events_is_said_plainly(stream: Stream):
    names = names_of(stream)
    log = stream.path / "events/_delta_log" / f"{2:020d}.json"
    log.unlink()
    found = check_stream(stream.path)
    broken = [f for f in found if f.severity is not Severity.OK]
    assert [(f.severity, f.invariant, f.file) for f in broken] == [
        ("fault", check.COMMITTED, f"ticks/events/{names[-1]}")
    ]
    assert "newest commits of the events table were lost" in broken[0].what
    assert "from a copy" in broken[0].remedy


@pytest.mark.parametrize("table", ["events", "tree"])
def test_a_file_no_table_knows_is_a_warning(stream: Stream, table: str):
    name = names_of(stream)[0]
    shutil.copy(stream.path / table / name, stream.path / table / f"9-{name}")
    assert _broken(stream) == [("warning", check.LEFTOVERS, f"ticks/{table}/9-{name}")]


def test_checks_of_derived_data_are_handed_what_the_events_say(stream: Stream):
    names = names_of(stream)
    flip(stream.path / "events" / names[0], 40)
    seen: list[tuple[CheckedEvents, bool]] = []

    def derived_check(found: CheckedEvents, *, deep: bool) -> list[Finding]:
        seen.append((found, deep))
        return [Finding(Severity.FAULT, "runs", "ticks/index/x", "broken")]

    found = check_stream(stream, deep=True, derived_checks=[derived_check])
    assert found[-1].invariant == "runs"
    [(checked, deep)] = seen
    assert deep
    assert checked.counts == dict(zip(names, (16, 4, 10), strict=True))
    assert checked.readable == frozenset(names[1:])
    assert checked.known == frozenset(names)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_quarantine_without_a_log_is_a_fault_if_a_commit_of_the_events_names_it(
    stream: Stream, is_named: bool
):
    log = stream.path / "quarantine" / "_delta_log"
    if is_named:
        stream.append(ticks(0, 1), late="quarantine")
        shutil.rmtree(log)
    log.mkdir(parents=True)
    found = {severity for severity, _, file in _broken(stream) if "quarantine" in file}
    assert max(found, key="warning fault".find) == ("fault" if is_named else "warning")


NOTHING_DONE = RepairReport((), 0, (), ())


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_whole_stream_is_left_as_it_is(stream: Stream):
    before = _contents(stream.path)
    assert repair_stream(stream) == NOTHING_DONE
    assert _contents(stream.path) == before


@pytest.mark.parametrize("damage", [flip, _flip_attribute, _flip_footer, _age, Path.unlink])
def test_a_tree_file_damaged_outdated_or_missing_is_found_and_written_anew(
    stream: Stream, damage: Callable[[Path], None]
):
    name = names_of(stream)[1]
    path = stream.path / "tree" / name
    expected = path.read_bytes()
    events = _contents(stream.path / "events")
    damage(path)
    assert _broken(stream) == [("fault", check_events.TREE, f"ticks/tree/{name}")]
    report = repair_stream(stream.path)
    assert report == RepairReport((f"ticks/tree/{name}",), 1, (), ())
    assert path.read_bytes() == expected
    assert _broken(stream, deep=True) == []
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
    assert _broken(stream, deep=True) == []


def test_missing_tree_entries_are_completed(stream: Stream):
    names = names_of(stream)[1:]
    delta_log.commit_changes(stream.path / "tree", remove=names, read_version=None, metadata={})
    assert repair_stream(stream.path) == RepairReport((), 2, (), ())
    assert _broken(stream, deep=True) == []


@pytest.mark.parametrize("damage", ["empty", "missing"])
def test_a_tree_table_whose_log_is_damaged_is_put_anew(stream: Stream, damage: str):
    commit = stream.path / "tree/_delta_log" / f"{1:020d}.json"
    spoil(commit, damage)
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
    assert _broken(stream, deep=True) == []
    assert sorted(p.name for p in stream.path.iterdir()) == ["events", "tree"]


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
    assert _broken(stream, deep=True) == []


@pytest.mark.parametrize("damage", ["missing", "garbled"])
def test_nothing_is_removed_or_written_while_the_log_of_the_events_is_broken(
    stream: Stream, damage: str
):
    commit = stream.path / "events/_delta_log" / f"{2:020d}.json"
    spoil(commit, damage)
    before = _contents(stream.path)
    report = repair_stream(stream.path, leftover_age=timedelta(0))
    assert (report.replaced, report.n_written, report.removed) == ((), 0, ())
    assert {f.invariant for f in report.left} <= {check.COMMITTED, check.LOGS}
    assert report.left
    assert _contents(stream.path) == before


def test_folders_of_killed_operations_are_warned_of_and_removed_and_those_at_work_stay(
    stream: Stream,
):
    root = stream.path.parent
    dead, alive = f".ingest-{1:032x}", f".ingest-{2:032x}"
    for name in (dead, alive):
        (root / name).mkdir()
        (root / name / "lock").touch()
    with (root / alive / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = [f for f in check_store(root) if f.severity is not Severity.OK]
        done = repair_store(root)
    assert [(f.severity, f.invariant, f.file) for f in found] == [("warning", check.STAGING, dead)]
    assert done == {"ticks": RepairReport((), 0, (dead,), ())}
    assert (root / alive).exists()
    repair_store(root)
    assert {f.severity for f in check_store(root)} == {Severity.OK}


def test_a_damaged_tree_file_of_an_older_version_is_found_and_taken_out(stream: Stream):
    name = names_of(stream)[0]
    version = delta_log.load_table(stream.path / "events").version
    delta_log.commit_changes(
        stream.path / "events", remove=[name], read_version=version, metadata={}
    )
    assert _broken(stream) == []
    flip(stream.path / "tree" / name)
    assert _broken(stream) == [("fault", check.OLD_TREE, f"ticks/tree/{name}")]
    assert repair_stream(stream.path) == RepairReport((f"ticks/tree/{name}",), 0, (), ())
    assert _broken(stream, deep=True) == []
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


@pytest.mark.parametrize(
    "name",
    [
        "events/_delta_log/_last_checkpoint",
        "tree/_delta_log/_last_checkpoint",
        "events/_delta_log/{:020}.json",
        "tree/_delta_log/{:020}.json",
        "events/_delta_log/{:020}.checkpoint.parquet",
        "tree/_delta_log/{:020}.checkpoint.parquet",
        "tree/{}",
    ],
)
def test_a_folder_in_the_place_of_a_file_is_named_and_put_aside(stream: Stream, name: str):
    n_events, data_file = stream.snapshot().n_events, stream.snapshot().files[0].name
    next_version = delta_log.load_table(stream.path / name.partition("/")[0]).version + 1
    odd = stream.path / name.format(data_file if name == "tree/{}" else next_version)
    odd.unlink(missing_ok=True)
    odd.mkdir()
    (odd / "note").write_text("somebody's")
    faults = [f for f in check_stream(stream.path) if f.severity is Severity.FAULT]
    assert [f.file for f in faults] == [odd.relative_to(stream.path.parent).as_posix()]
    if name == "events/_delta_log/{:020}.json":
        with pytest.raises(StorageError, match="a folder of that name lies there"):
            stream.append(ticks(1000, 1001))
    [place] = repair_stream(stream.path).put_aside
    assert (stream.path.parent / place / "note").read_text() == "somebody's"
    assert [f for f in check_stream(stream.path) if f.severity is Severity.FAULT] == []
    again = Stream(stream.name, stream.path)
    again.append(ticks(1000, 1001))
    assert again.snapshot().n_events == n_events + 1
