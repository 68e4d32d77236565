"""The commit protocol: one winner among stale writers, and no crash loses or doubles an event."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronicle.write.append as append_module
from chronicle.derived import DerivedFile
from chronicle.errors import CommitConflictError, CorruptBlockError, ForeignFileError, StorageError
from chronicle.log import delta_log
from chronicle.log.delta_log import LoggedChange
from chronicle.snapshot import DataFile
from chronicle.store import Stream, open_store
from chronicle.write import commit
from chronicle.write.append import append
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import (
    APPEND,
    COMPACT,
    OPERATION,
    Change,
    commit_change,
    commit_derived,
    commit_events,
    commit_files,
    commit_tree,
    complete_derived,
    keeps_order,
    why_unsafe,
)
from chronicle.write.rewrite import Rewrite, rewrite_files
from tests.helpers import commit_table, write_table
from tests.unit.chronicle.stream_cases import (
    RUNS,
    TICKS,
    make_stream,
    meet,
    seen_times,
    ticks,
)


def test_of_two_stale_appends_one_stops_and_can_be_run_again(tmp_path: Path):
    ours = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    theirs = open_store(tmp_path / "store").stream("ticks")
    read_version = ours.snapshot().version
    assert theirs.snapshot().version == read_version
    our_files = write_table(ours, ticks(20, 30))
    their_files = write_table(theirs, ticks(20, 40))
    commit_files(ours, our_files, read_version=read_version, metadata={})
    with pytest.raises(CommitConflictError, match="run it again"):
        commit_files(theirs, their_files, read_version=read_version, metadata={})
    assert seen_times(ours) == list(range(30))
    commit_table(theirs, ticks(30, 40))
    assert seen_times(ours) == list(range(40))


@pytest.mark.parametrize("steps_done", [0, 1, 2, 3])
def test_crash_between_any_two_steps_leaves_right_answers(tmp_path: Path, steps_done: int):
    stream = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    files = write_table(stream, ticks(20, 40), derived=RUNS)
    read_version = stream.snapshot().version
    steps = (
        lambda: commit_events(stream, Change(tuple(files)), read_version=read_version, metadata={}),
        lambda: commit_tree(stream, files),
        lambda: commit_derived(stream, files),
    )
    for step in steps[:steps_done]:
        step()
    expected = list(range(40 if steps_done else 20))
    assert seen_times(stream) == expected
    snapshot = open_store(stream.path.parent).stream("ticks").snapshot()
    assert snapshot.aggregate(0, 100, "x").sum == sum(expected)
    assert all(file.has_tree for file in snapshot.files) == (steps_done != 1)

    complete_derived(stream, RUNS)
    snapshot = stream.snapshot()
    assert all(file.has_tree for file in snapshot.files)
    assert snapshot.bounds("x").known.all()
    runs = {file.name for file in delta_log.live_files(stream.path / "index/x")}
    assert runs == {file.name for file in snapshot.files}
    assert complete_derived(stream, RUNS) == 0


@given(st.data())
def test_statistics_never_hide_an_event_from_other_readers(data: st.DataObject):
    times = sorted(data.draw(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=5)))
    for data_type in (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        found = commit.time_statistics("t", data_type, times[0], times[-1])
        if found:
            low, high = found["minValues"]["t"], found["maxValues"]["t"]
            if data_type != pa.int64():
                low, high = (
                    np.datetime64(text.removesuffix("Z"), "us").astype(np.int64)
                    for text in (low, high)
                )
            assert (low, high) == (times[0], times[-1])


def test_timestamps_outside_four_digit_years_get_no_statistics():
    year_10000 = 253_402_300_800_000_000
    assert commit.time_statistics("t", pa.timestamp("us"), 0, year_10000) == {}
    assert commit.time_statistics("t", pa.timestamp("us"), 0, year_10000 - 1) != {}


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_deltalake_reads_and_skips_the_events_as_an_ordinary_table(tmp_path: Path, zone):
    schema = pa.schema([("t", pa.timestamp("us", zone)), ("s", pa.string())])
    times = [1_600_000_000_000_001, 1_600_000_000_000_999, 1_600_000_001_000_000]
    table = pa.table(
        {"t": pa.array(times, pa.int64()).cast(schema[0].type), "s": ["a", None, "c"]},
        schema=schema,
    )
    stream = make_stream(tmp_path, [table], schema=schema, file_events=1)
    delta = deltalake.DeltaTable(str(stream.path / "events"))
    assert [field.name for field in delta.schema().fields] == ["t", "s"]
    read = delta.to_pyarrow_table().sort_by("t")
    assert read["s"].to_pylist() == ["a", None, "c"]
    assert read["t"].cast(pa.int64()).to_pylist() == times
    for time in times:
        point = pa.scalar(time, pa.int64()).cast(schema[0].type)
        found = delta.to_pyarrow_dataset().to_table(filter=pa.compute.field("t") == point)
        assert found["t"].cast(pa.int64()).to_pylist() == [time]


def test_foreign_file_is_named_and_nothing_is_answered(tmp_path: Path):
    stream = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    deltalake.write_deltalake(str(stream.path / "events"), ticks(20, 30), mode="append")
    with pytest.raises(ForeignFileError, match="RESTORE"):
        stream.snapshot()
    with pytest.raises(ForeignFileError):
        stream.next_generation()


def test_overlapping_files_are_refused(tmp_path: Path):
    stream = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    late = write_table(stream, ticks(5, 10))
    commit_files(stream, late, read_version=stream.snapshot().version, metadata={})
    with pytest.raises(StorageError, match="overlap in time"):
        stream.snapshot()


def test_completing_names_a_damaged_data_file(tmp_path: Path):
    stream = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    files = write_table(stream, ticks(20, 30))
    commit_events(stream, Change(tuple(files)), read_version=stream.snapshot().version, metadata={})
    (stream.path / "events" / files[0].name).write_bytes(b"no parquet")
    with pytest.raises(CorruptBlockError, match=files[0].name):
        complete_derived(stream, None)


def test_index_dropped_while_its_run_is_committed_costs_the_append_nothing(tmp_path: Path):
    stream = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    files = write_table(stream, ticks(20, 40), derived=RUNS)
    read_version = stream.snapshot().version
    commit_events(stream, Change(tuple(files)), read_version=read_version, metadata={})
    shutil.rmtree(stream.path / "index/x")
    commit_derived(stream, files)
    assert not (stream.path / "index/x").exists()
    assert seen_times(stream) == list(range(40))


def test_run_that_is_there_and_cannot_be_committed_is_said(tmp_path: Path):
    stream = make_stream(tmp_path, [ticks(0, 20)], schema=TICKS)
    files = write_table(stream, ticks(20, 40), derived=RUNS)
    (stream.path / "index/x/_delta_log").write_text("no folder")
    with pytest.raises(StorageError):
        commit_derived(stream, files)


def live(name: str, t_min: int, t_max: int, ordinal: str = "000000-000000-000000") -> DataFile:
    return DataFile(name, ordinal, 10, 1, 100, t_min, t_max, has_tree=True)


def written(
    name: str, t_min: int, t_max: int, n_events: int, ordinal: str = "000000-000000-000000"
) -> WrittenFile:
    tree = DerivedFile("tree", name, 1, 1)
    return WrittenFile(name, ordinal, n_events, 100, t_min, t_max, tree, ())


def logged(operation: str, *added: str) -> LoggedChange:
    return LoggedChange(1, {OPERATION: operation}, added, (), frozenset())


@pytest.mark.parametrize("operation", [APPEND, COMPACT])
def test_append_into_what_another_file_now_spans_is_unsafe(operation: str) -> None:
    change = Change((written("x", 20, 30, 10),))
    others = [logged(operation, "m")]
    assert why_unsafe(change, others, [live("m", 1, 50)], {}) is not None
    assert why_unsafe(change, others, [live("m", 30, 50)], {}) is not None
    assert why_unsafe(change, others, [live("m", 31, 50)], {}) is None


#   before    a [1..10]      b [20..30]      c [40..50]
#   change    a+c [1..50]: would jump over b
def test_files_that_do_not_stand_together_cannot_become_one() -> None:
    before = [live("a", 1, 10), live("b", 20, 30), live("c", 40, 50)]
    assert not keeps_order(Change((written("ac", 1, 50, 20),), ("a", "c"), rearranges=True), before)
    assert keeps_order(Change((written("ab", 1, 30, 20),), ("a", "b"), rearranges=True), before)


#   three files of one time; the last one's ordinal is less than that the merged ones would get
def test_ordinal_that_would_move_events_of_one_time_is_refused() -> None:
    before = [
        live("a", 1, 4, "000007-000000-000000"),
        live("b", 5, 5, "000002-000000-000000"),
        live("c", 5, 5, "000003-000000-000000"),
    ]
    pieces = (
        written("ab0", 1, 5, 10, "000007-000000-000000-000000"),
        written("ab1", 5, 5, 10, "000007-000000-000000-000001"),
    )
    assert not keeps_order(Change(pieces, ("a", "b"), rearranges=True), before)


def merged(stream: Stream) -> Change:
    """Write the file that all of a stream's become."""
    files = stream.snapshot().files
    names = tuple(file.name for file in files)
    written = rewrite_files(
        Rewrite(names, files[0].ordinal),
        events_dir=stream.path / "events",
        target_dir=stream.path,
        schema=stream.schema,
        settings=stream.settings,
    )
    return Change(tuple(written), names, rearranges=True)


def merge_all(stream: Stream) -> None:
    version = stream.snapshot().version
    commit_change(stream, merged(stream), read_version=version, metadata={OPERATION: COMPACT})


def test_regression_append_between_files_that_are_compacted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(tmp_path, [ticks(1, 10)], schema=TICKS, file_events=100)
    other = open_store(tmp_path / "store").stream("ticks")

    def beat() -> None:
        append(other, ticks(40, 50))
        merge_all(other)

    meet(monkeypatch, append_module, "commit_change", beat)
    append(stream, ticks(20, 30))
    assert seen_times(stream) == [*range(1, 10), *range(20, 30), *range(40, 50)]


def test_regression_compaction_over_an_append_that_lands_between(tmp_path: Path) -> None:
    stream = make_stream(tmp_path, [], schema=TICKS, file_events=100)
    append(stream, ticks(1, 10))
    append(stream, ticks(40, 50))
    change = merged(stream)
    # A file between the two there are, of an append that was prepared before the second.
    files = write_table(stream, ticks(20, 30), generation=1)
    between = commit_change(
        stream, Change(tuple(files)), read_version=1, metadata={OPERATION: APPEND}
    ).version
    for version in (2, between):
        with pytest.raises(CommitConflictError):
            commit_change(stream, change, read_version=version, metadata={OPERATION: COMPACT})
