"""Vacuum: what no retained version needs goes, and nothing else ever does."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from functools import partial
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle import config
from chronicle.config import EVENTS_TABLE
from chronicle.errors import StorageError, VacuumedVersionError
from chronicle.log import delta_log
from chronicle.log.delta_log import Commit, reading
from chronicle.maintenance.check import FOREIGN, check_stream
from chronicle.maintenance.check_events import QUARANTINE
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import FileOnDisk, choose_garbage, oldest_retained, vacuum
from chronicle.store import Stream, open_store
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.write.append import append as append_late
from chronicle.write.commit import Change, commit_change, complete_derived
from chronicle.write.lifecycle import delete_range
from chronicle.write.quarantine import (
    QUARANTINE_SCHEMA,
    QUARANTINE_TABLE,
    QuarantineWriter,
    commit_quarantine,
)
from tests.helpers import commit_table, write_table
from tests.unit.chronicle.stream_cases import (
    RUNS,
    TICKS,
    date_commits,
    live,
    make_stream,
    meet,
    on_disk,
    seen_times,
    ticks,
)

NOTHING = dt.timedelta(0)
WEEK = dt.timedelta(days=7)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


# The choice.


@st.composite
def _pasts(draw: st.DrawFn) -> tuple[list[tuple[int, set[str], set[str]]], int]:
    """Commits as (time, added, removed), on clocks that may go back, and a cutoff."""
    live: set[str] = set()
    commits = []
    now = 0
    for version in range(draw(st.integers(1, 12))):
        now += draw(st.integers(-3, 10))
        removed = {name for name in sorted(live) if draw(st.booleans())} if version else set()
        added = {f"{version}-{i}" for i in range(draw(st.integers(0, 2)))} if version else set()
        live = live - removed | added
        commits.append((now, added, removed))
    return commits, draw(st.integers(-5, now + 5))


@given(_pasts())
def test_what_any_retained_version_needs_is_kept_and_all_else_is_garbage(past):
    commits, cutoff = past
    states: list[set[str]] = []
    for _, added, removed in commits:
        states.append(((states[-1] if states else set()) - removed) | added)
    newest_first = [Commit(v, time, "", {}) for v, (time, _, _) in enumerate(commits)][::-1]
    oldest = oldest_retained(newest_first, EPOCH + dt.timedelta(milliseconds=cutoff))

    # A version is replaced when the next one is committed, or when a clock says a later time.
    replaced = [max(time for time, _, _ in commits[: v + 2]) for v in range(len(commits) - 1)]
    needed = set(states[-1]).union(*(
        state for state, end in zip(states, replaced, strict=False) if end > cutoff
    ))  # fmt: skip
    kept = states[oldest].union(*(added for _, added, _ in commits[oldest + 1 :]))
    assert kept == needed

    written = {name: commits[int(name.split("-")[0])][0] for name in set().union(*states)}
    on_disk = [FileOnDisk(name, 1, when) for name, when in sorted(written.items())]
    garbage = {file.name for file in choose_garbage(on_disk, kept=kept, cutoff_ms=cutoff)}
    assert garbage.isdisjoint(needed)
    assert garbage == {name for name in written if name not in needed and written[name] <= cutoff}


def test_where_the_log_begins_later_its_first_version_is_the_oldest():
    commits = [Commit(8, 300, "", {}), Commit(7, 200, "", {})]
    assert oldest_retained(commits, EPOCH) == 7


# The actor.


def _compacted(tmp_path: Path) -> Stream:
    """A stream of eight files of 4 events, versions 1 to 8, then merged into two by 9 and 10."""
    stream = make_stream(tmp_path, [ticks(4 * i, 4 * i + 4) for i in range(8)], schema=TICKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "COMPACT_MERGES_PER_COMMIT", 1)
        compact_events(stream, derived=None, full=True)
    assert len(stream.snapshot().files) == 2
    return stream


def test_with_no_retention_only_the_newest_version_stays_as_a_dry_run_says(tmp_path: Path):
    stream = _compacted(tmp_path)
    old = on_disk(stream) - live(stream)
    n_bytes = sum(
        (stream.path / table / name).stat().st_size for table in (EVENTS_TABLE, TREE_TABLE)
        for name in old
    )  # fmt: skip
    before = {table: on_disk(stream, table) for table in (EVENTS_TABLE, TREE_TABLE)}
    version = delta_log.load_table(stream.path / TREE_TABLE).version
    said = vacuum(stream, retention=NOTHING, dry_run=True)
    assert "would be removed" in str(said)
    assert before == {table: on_disk(stream, table) for table in before}
    assert delta_log.load_table(stream.path / TREE_TABLE).version == version
    report = vacuum(stream, retention=NOTHING)
    assert (report.n_files, report.n_bytes) == (said.n_files, said.n_bytes) == (16, n_bytes)
    assert report.bytes_by_table.keys() == {EVENTS_TABLE, TREE_TABLE}
    assert report.oldest_version == stream.snapshot().version == 10
    assert on_disk(stream) == live(stream) == live(stream, TREE_TABLE)
    assert on_disk(stream, TREE_TABLE) == live(stream)
    assert seen_times(stream) == list(range(32))
    with pytest.raises(VacuumedVersionError):
        seen_times(stream, 8)
    assert vacuum(stream, retention=NOTHING).n_files == 0


def _write_uncommitted(stream: Stream) -> set[str]:
    return {file.name for file in write_table(stream, ticks(50, 60), generation=99)}


def test_leftovers_no_table_knows_go_once_they_are_old(tmp_path: Path):
    stream = _compacted(tmp_path)
    left = _write_uncommitted(stream)
    draft = stream.path / TREE_TABLE / f"_000-000-000-{0:032x}.parquet.{1:032x}.draft"
    draft.write_bytes(b"half")
    vacuum(stream)
    assert left < on_disk(stream)
    assert draft.exists()
    vacuum(stream, now=dt.datetime.now(dt.UTC) + WEEK + dt.timedelta(hours=1))
    assert on_disk(stream) == live(stream)
    assert not draft.exists()


def test_files_of_others_are_left_alone(tmp_path: Path):
    stream = _compacted(tmp_path)
    note = stream.path / EVENTS_TABLE / "README.txt"
    note.write_text("mine")
    table = stream.path / EVENTS_TABLE / "mine.parquet"
    table.write_bytes(b"mine")
    vacuum(stream, retention=NOTHING)
    assert note.exists()
    assert table.exists()


def test_nothing_behind_a_link_is_deleted(tmp_path: Path):
    stream = _compacted(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    name = f"{0:032x}.parquet"
    (elsewhere / name).write_bytes(b"of somebody else")
    (stream.path / QUARANTINE_TABLE).symlink_to(elsewhere)
    (stream.path / EVENTS_TABLE / name).symlink_to(elsewhere / name)
    (stream.path.parent / f".ingest-{3:032x}").symlink_to(elsewhere)
    later = dt.datetime.now(dt.UTC) + WEEK + WEEK
    report = vacuum(stream, retention=NOTHING, now=later)
    assert report.links == tuple(
        (stream.path / table).as_posix() for table in (f"{EVENTS_TABLE}/{name}", QUARANTINE_TABLE)
    )
    assert "is a link and was left alone" in str(report)
    repair_stream(stream, leftover_age=NOTHING)
    assert (elsewhere / name).read_bytes() == b"of somebody else"
    assert (stream.path / EVENTS_TABLE / name).is_symlink()
    told = {(f.severity, f.file) for f in check_stream(stream) if f.invariant == FOREIGN}
    assert told == {("warning", f"ticks/events/{name}"), ("warning", "ticks/quarantine")}


def test_a_leftover_that_its_writer_takes_away_meanwhile_does_not_end_a_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = _compacted(tmp_path)
    left = _write_uncommitted(stream)
    looks = Path.is_file

    def look_and_take_away(path: Path) -> bool:
        is_file = looks(path)
        if path.name in left:
            path.unlink(missing_ok=True)
        return is_file

    module = sys.modules["chronicle.maintenance.repair"]
    take_away = partial(monkeypatch.setattr, Path, "is_file", look_and_take_away)
    meet(monkeypatch, module, "check_stream", take_away, after=True)
    repair_stream(stream, leftover_age=NOTHING)
    assert left.isdisjoint(on_disk(stream))
    assert seen_times(stream) == list(range(32))


def test_what_is_committed_while_vacuum_decides_stays(tmp_path: Path, monkeypatch):
    module = sys.modules["chronicle.maintenance.vacuum"]
    stream = _compacted(tmp_path)
    rival = open_store(tmp_path / "store").stream("ticks")
    commits = partial(commit_table, rival, ticks(32, 40))
    meet(monkeypatch, module, "_list_files", commits, after=True)
    vacuum(stream, retention=NOTHING)
    assert seen_times(stream) == list(range(40))


def test_killed_between_tables_and_files_the_next_vacuum_goes_on(tmp_path: Path, monkeypatch):
    stream = _compacted(tmp_path)
    original = Path.unlink
    n_left = iter(range(5))

    def fail(path, missing_ok=False):
        if next(n_left, None) is None:
            raise PermissionError(13, "Permission denied")
        return original(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(StorageError, match=r"cannot be deleted \(Permission denied\)"):
        vacuum(stream, retention=NOTHING)
    monkeypatch.undo()
    assert seen_times(stream) == list(range(32))
    assert vacuum(stream, retention=NOTHING).n_files == 11
    assert on_disk(stream) == live(stream)


def test_runs_of_data_files_that_went_leave_index_and_disk(tmp_path: Path):
    stream = make_stream(tmp_path, [], schema=TICKS)
    for i in range(4):
        commit_table(stream, ticks(4 * i, 4 * i + 4), derived=RUNS)
    old = live(stream, "index/x")
    assert len(old) == 4
    compact_events(stream, derived=RUNS, full=True)
    assert vacuum(stream, derived=RUNS).n_files == 0
    vacuum(stream, derived=RUNS, retention=NOTHING)
    assert live(stream, "index/x") == on_disk(stream, "index/x")
    assert old.isdisjoint(on_disk(stream, "index/x"))
    counts = {file.name: file.n_events for file in stream.snapshot().files}
    assert RUNS.lacking(stream.path, counts) == {"index/x": set()}


def test_runs_replaced_by_a_merge_stay_for_the_retention(tmp_path: Path):
    stream = make_stream(tmp_path, [], schema=TICKS)
    for i in range(12):
        commit_table(stream, ticks(16 * i, 16 * i + 16), derived=RUNS)
    before = on_disk(stream, "index/x")
    report = compact_events(stream, derived=RUNS, full=True)
    assert report.n_events_rewritten == 0
    assert report.n_runs_merged > 1
    vacuum(stream, derived=RUNS)
    assert before <= on_disk(stream, "index/x")
    vacuum(stream, derived=RUNS, retention=NOTHING)
    assert on_disk(stream, "index/x") == live(stream, "index/x")
    counts = {file.name: file.n_events for file in stream.snapshot().files}
    assert RUNS.lacking(stream.path, counts) == {"index/x": set()}
    assert complete_derived(stream, RUNS) == 0


AA, BB = "a" * 32, "b" * 32


def _put_aside(stream: Stream, batch: str) -> str:
    writer = QuarantineWriter(stream.path / QUARANTINE_TABLE, f"{batch}.parquet")
    writer.write(
        pa.table(
            [[batch], ["bad"], ["s.csv"], ["1,2"], [1], [None], [None]], schema=QUARANTINE_SCHEMA
        )
    )
    file = writer.close()
    assert file is not None
    commit_quarantine(stream.path, [file])
    return file.name


def _quarantined(tmp_path: Path) -> Stream:
    """Batch ``AA`` rides in a commit to the events, batch ``BB`` in none."""
    stream = make_stream(tmp_path, [ticks(0, 4)], schema=TICKS)
    _put_aside(stream, AA)
    files = write_table(stream, ticks(4, 8))
    metadata = {"chronicle.operation": "ingest", "quarantine_batch": AA}
    commit_change(
        stream, Change(tuple(files)), read_version=stream.snapshot().version, metadata=metadata
    )
    _put_aside(stream, BB)
    return stream


def test_quarantined_records_of_an_ingest_that_never_committed_go(tmp_path: Path):
    stream = _quarantined(tmp_path)
    assert vacuum(stream).n_files == 0
    assert vacuum(stream, retention=NOTHING).n_files == 1
    assert live(stream, QUARANTINE_TABLE) == on_disk(stream, QUARANTINE_TABLE) == {f"{AA}.parquet"}


def test_quarantined_records_stay_where_the_log_no_longer_tells(tmp_path: Path):
    stream = _quarantined(tmp_path)
    deltalake.DeltaTable(str(stream.path / EVENTS_TABLE)).create_checkpoint()
    for version in (0, 1):
        (stream.path / EVENTS_TABLE / "_delta_log" / f"{version:020d}.json").unlink()
    vacuum(stream, retention=NOTHING)
    assert on_disk(stream, QUARANTINE_TABLE) == {f"{AA}.parquet", f"{BB}.parquet"}


def test_a_damaged_quarantine_file_stays(tmp_path: Path):
    stream = _quarantined(tmp_path)
    (stream.path / QUARANTINE_TABLE / f"{BB}.parquet").write_bytes(b"PAR1")
    vacuum(stream, retention=NOTHING)
    assert f"{BB}.parquet" in on_disk(stream, QUARANTINE_TABLE)


def test_damage_to_the_quarantine_is_found(tmp_path: Path):
    stream = _quarantined(tmp_path)
    file = stream.path / QUARANTINE_TABLE / f"{AA}.parquet"
    whole = file.read_bytes()

    def faults() -> list[tuple[str, str]]:
        return [(f.file, f.invariant) for f in check_stream(stream) if f.severity == "fault"]

    assert faults() == []
    at = ("ticks/quarantine/" + file.name, QUARANTINE)
    page = len(whole) // 8  # in its first column, which the footer does not tell
    for damaged in (b"", whole[:-20], whole[:page] + bytes([whole[page] ^ 1]) + whole[page + 1 :]):
        file.write_bytes(damaged)
        assert faults() == [at]
    file.unlink()
    assert faults() == [at]
    shutil.rmtree(stream.path / QUARANTINE_TABLE)
    assert faults() == [("ticks/quarantine", QUARANTINE)]


def test_a_store_that_was_copied_elsewhere_is_vacuumed_there(tmp_path: Path):
    stream = _compacted(tmp_path)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    shutil.rmtree(tmp_path / "store")
    copied = open_store(tmp_path / "copy").stream("ticks")
    assert seen_times(copied, 8) == list(range(32))
    # A copy is as old as the copying: within the retention from then on nothing goes.
    assert vacuum(copied).n_files == 0
    assert vacuum(copied, retention=NOTHING).n_files == 16
    assert seen_times(copied) == list(range(32))
    commit_table(copied, ticks(32, 40))
    assert seen_times(copied) == list(range(40))
    assert not stream.path.exists()


def test_a_negative_retention_is_refused(tmp_path: Path):
    stream = make_stream(tmp_path, [], schema=TICKS)
    with pytest.raises(ValueError, match="zero or more"):
        vacuum(stream, retention=-WEEK)


def test_the_old_snapshot_a_process_holds_fails_clearly(tmp_path: Path):
    stream = make_stream(tmp_path, [ticks(0, 4), ticks(4, 8)], schema=TICKS)
    held = stream.snapshot()
    compact_events(stream, derived=None, full=True)
    vacuum(stream, retention=NOTHING)
    assert stream.snapshot().n_events == 8
    with pytest.raises(StorageError):
        held.read_blocks(np.arange(held.n_blocks), ["t"])
    assert pq.read_table(stream.path / EVENTS_TABLE / stream.snapshot().files[0].name).num_rows == 8


def test_commits_keep_their_numbers_where_others_commit_while_they_are_listed(
    tmp_path: Path, monkeypatch
):
    stream = _compacted(tmp_path)
    events = stream.path / EVENTS_TABLE
    truth = delta_log.commits(events)
    assert [commit.version for commit in truth] == list(range(10, -1, -1))
    original = reading.open_table

    class _Overtaken:
        """Numbers the commits it listed from a version that was made afterwards, or before."""

        def __init__(self, table, shift):
            self._table, self._shift = table, shift

        def version(self):
            return self._table.version() + min(self._shift, 0)

        def history(self):
            return [
                entry | {"version": entry["version"] + self._shift}
                for entry in self._table.history()
            ]

    shifts = iter([1, -1])

    def overtaken(path, version):
        shift = next(shifts, None)
        table = original(path, version)
        return table if shift is None else _Overtaken(table, shift)

    monkeypatch.setattr(reading, "open_table", overtaken)
    assert delta_log.commits(events) == truth
    assert next(shifts, None) is None


@settings(max_examples=8)
@given(
    st.lists(st.sampled_from(["append", "late", "compact", "delete"]), min_size=1, max_size=8),
    st.integers(0, 40),
)
def test_after_any_past_retained_versions_answer_as_before_and_no_other_file_is_left(
    tmp_path_factory, operations, half_days
):
    tmp_path = tmp_path_factory.mktemp("case")
    stream = make_stream(tmp_path, [ticks(0, 12)], schema=TICKS, file_events=8)
    for i, operation in enumerate(operations):
        if operation == "append":
            append_late(stream, ticks(20 + 5 * i, 24 + 5 * i), derived=RUNS)
        elif operation == "late":
            append_late(stream, ticks(3, 6), derived=RUNS)
        elif operation == "compact":
            compact_events(stream, derived=RUNS, full=True)
        else:
            delete_range(stream, 4, 22, derived=RUNS)
    complete_derived(stream, RUNS)
    answers = {
        version: seen_times(stream, version) for version in range(stream.snapshot().version + 1)
    }
    day = dt.timedelta(days=1)
    first = dt.datetime.now(dt.UTC) + day
    date_commits(stream, first, day)
    last = first + (len(answers) - 1) * day
    oldest = vacuum(stream, derived=RUNS, now=last, retention=half_days * day / 2).oldest_version
    assert oldest == max(0, len(answers) - 1 - (half_days + 1) // 2)
    kept: set[str] = set()
    for version, times in answers.items():
        if version < oldest:
            continue
        assert seen_times(stream, version) == times
        snapshot = open_store(stream.path.parent).stream("ticks").snapshot(version)
        assert all(file.has_tree for file in snapshot.files)
        kept |= {file.name for file in snapshot.files}
    assert on_disk(stream) == on_disk(stream, TREE_TABLE) == live(stream, TREE_TABLE) == kept
    counts = {file.name: file.n_events for file in stream.snapshot().files}
    assert RUNS.lacking(stream.path, counts) == {"index/x": set()}
