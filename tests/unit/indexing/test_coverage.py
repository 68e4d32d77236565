"""What an index table lists against what lies on disk: lacking, damaged and lost runs."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.log.delta_log import live_files
from chronicle.log.stream_metadata import ATTRIBUTES_FILE
from chronicle.maintenance.check import LOGS, check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Finding, Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.store import Stream
from chronicle.write.commit import complete_derived
from indexing import (
    KeyRange,
    KeyRanges,
    RunWriter,
    UnknownIndexError,
    clear_caches,
    open_indexes,
    writer_for,
)
from indexing.check import check_runs
from indexing.coverage import list_runs
from indexing.lifecycle import compact_index, create_index, drop_index, list_indexes
from tests.helpers import commit_table, copy_stream
from tests.unit.indexing.doubles import flip_byte

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64()), ("y", pa.string())])
WRITER = RunWriter(("x", "y"), "t")


def rows(n: int, *, first: int = 0) -> pa.Table:
    at = range(first, first + n)
    columns = {"t": list(at), "x": [i % 5 for i in at], "y": [f"v{i % 3}" for i in at]}
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    settings = StreamSettings(time="t", block_events=4, file_events=10)
    store = create_store(tmp_path_factory.mktemp("made") / "store")
    stream = store.create_stream("s", SCHEMA, settings)
    commit_table(stream, rows(25), derived=WRITER)
    return stream


@pytest.fixture
def stream(made: Stream, tmp_path: Path) -> Stream:
    """Three data files of 10, 10 and 5 events, each with a run of x and of y."""
    return copy_stream(made, tmp_path)


def data_files(stream: Stream) -> dict[str, int]:
    return {file.name: file.n_events for file in stream.snapshot().files}


def listed(stream: Stream, attribute: str) -> set[str]:
    return {file.name for file in live_files(stream.path / "index" / attribute)}


def assert_answers(stream: Stream, n: int, *, tail: int = 0) -> None:
    indexes = open_indexes(stream.snapshot())
    assert indexes.index("x").n_tail_events == tail
    found = indexes.index("x").lookup(KeyRanges.of([KeyRange(1, 2)]))
    assert found.seq.tolist() == [i for i in range(n) if 1 <= i % 5 <= 2]


def test_without_an_index_table_every_file_is_lacking(stream: Stream) -> None:
    files = data_files(stream)
    assert RunWriter(("z",), "t").lacking(stream.path, files) == {"index/z": set(files)}


def test_a_file_with_other_events_than_its_run_says_is_lacking(stream: Stream) -> None:
    files = data_files(stream)
    first = min(files)
    assert WRITER.lacking(stream.path, files | {first: 11})["index/x"] == {first}


def test_a_merged_run_covers_its_files(stream: Stream) -> None:
    compact_index(stream, full=True)
    assert len(listed(stream, "x")) == 1
    assert WRITER.lacking(stream.path, data_files(stream)) == {"index/x": set(), "index/y": set()}


def test_small_files_are_not_lacking_and_get_no_run(stream: Stream) -> None:
    writer = RunWriter(("x", "y"), "t", least_events=6)
    exactly = RunWriter(("z",), "t", least_events=10)
    assert len(exactly.lacking(stream.path, data_files(stream))["index/z"]) == 2
    commit_table(stream, rows(5, first=25), derived=writer)
    files = data_files(stream)
    assert writer.lacking(stream.path, files) == {"index/x": set(), "index/y": set()}
    assert WRITER.lacking(stream.path, files)["index/x"] == {max(files)}
    assert complete_derived(stream, writer) == 0
    assert_answers(stream, 30, tail=5)


def test_a_missing_run_is_written_again_under_its_name(stream: Stream) -> None:
    name = min(data_files(stream))
    (stream.path / "index" / "x" / name).unlink()
    before = listed(stream, "x")
    assert WRITER.lacking(stream.path, data_files(stream)) == {"index/x": {name}, "index/y": set()}
    assert complete_derived(stream, WRITER) == 1
    assert listed(stream, "x") == before
    assert len(live_files(stream.path / "index" / "x")) == 3
    assert_answers(stream, 25)


def _holding_another(path: Path) -> None:
    path.write_bytes((path.parent.parent / "y" / path.name).read_bytes())


@pytest.mark.parametrize(
    "harm",
    [lambda path: flip_byte(path, -20), _holding_another],
    ids=["a byte flipped", "the run of another attribute"],
)
def test_a_damaged_run_is_written_anew_and_listed_once(
    stream: Stream, harm: Callable[[Path], None]
) -> None:
    name = min(data_files(stream))
    harm(stream.path / "index" / "x" / name)
    files = data_files(stream)
    assert WRITER.damaged(stream.path, files) == {"index/x": {name}, "index/y": set()}
    assert_answers(stream, 25, tail=10)
    assert complete_derived(stream, WRITER) == 1
    assert [file.name for file in live_files(stream.path / "index" / "x")].count(name) == 1
    assert WRITER.damaged(stream.path, files)["index/x"] == set()
    assert_answers(stream, 25)
    assert complete_derived(stream, WRITER) == 0


def test_a_damaged_run_of_a_file_too_small_for_one_leaves_its_table(stream: Stream) -> None:
    name = min(data_files(stream))
    flip_byte(stream.path / "index" / "x" / name, -20)
    assert complete_derived(stream, RunWriter(("x", "y"), "t", least_events=11)) == 0
    assert listed(stream, "x") == set(data_files(stream)) - {name}
    assert_answers(stream, 25, tail=10)


def test_a_damaged_merged_run_leaves_its_table_for_runs_of_its_files(stream: Stream) -> None:
    compact_index(stream, full=True)
    [merged] = listed(stream, "x")
    flip_byte(stream.path / "index" / "x" / merged, -20)
    clear_caches()
    assert_answers(stream, 25, tail=25)
    assert complete_derived(stream, WRITER) == 3
    assert listed(stream, "x") == set(data_files(stream))
    assert_answers(stream, 25)


def test_a_crash_between_writing_and_committing_a_run_anew_leaves_a_whole_one(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = min(data_files(stream))
    flip_byte(stream.path / "index" / "x" / name, -20)

    def die(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("chronicle.log.delta_log.commit_changes", die)
        with pytest.raises(KeyboardInterrupt):
            complete_derived(stream, WRITER)
    assert_answers(stream, 25)
    assert complete_derived(stream, WRITER) == 0


def test_runs_of_dead_data_files_are_not_even_opened(stream: Stream) -> None:
    files = data_files(stream)
    dead = min(files)
    (stream.path / "index" / "x" / dead).write_bytes(b"no run")
    del files[dead]
    listing = list_runs(stream.path, "x", files)
    assert set(listing.whole) == set(files)
    assert listing.damaged == {}


def test_a_writer_can_be_sent_to_other_processes(stream: Stream) -> None:
    writer = pickle.loads(pickle.dumps(RunWriter(("x",), "t", least_events=11)))
    assert writer.lacking(stream.path, data_files(stream)) == {"index/x": set()}
    assert writer.write(stream.path, "f.parquet", rows(10), rows(10)["t"].chunk(0), [10]) == []


@pytest.mark.parametrize("merged", [False, True])
def test_creating_an_index_again_replaces_runs_damaged_inside(stream: Stream, merged: bool) -> None:
    if merged:
        compact_index(stream, full=True)
    damaged = stream.path / "index" / "x" / min(listed(stream, "x"))
    flip_byte(damaged, 8)  # of the first column: its head is whole
    clear_caches()
    [report] = create_index(stream, ["x"], least_events=1)
    assert (report.existed, report.n_files) == (True, 3 if merged else 1)
    [said] = report.replaced
    assert said.startswith(
        f"run '{damaged}' was damaged (the checksum of its column 'key' differs)"
    )
    clear_caches()
    assert listed(stream, "x") == set(data_files(stream))
    assert_answers(stream, 25)
    [report] = create_index(stream, ["x"], least_events=1)
    assert (report.n_files, report.replaced) == (0, ())


LOST_SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
SEVENS = "SELECT t FROM s WHERE a = 7"


def events(first: int, stop: int) -> pa.Table:
    """Events of which a is the time modulo 10 and b its half."""
    times = range(first, stop)
    columns = {"t": times, "a": [t % 10 for t in times], "b": [t // 2 for t in times]}
    return pa.table(columns, LOST_SCHEMA)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    store = create_store(tmp_path_factory.mktemp("indexed") / "store")
    stream = store.create_stream("s", LOST_SCHEMA, StreamSettings(time="t", block_events=4))
    stream.append(events(0, 40))
    create_index(stream, ["a", "b"], least_events=1)
    return stream


@pytest.fixture
def store(indexed: Stream, tmp_path: Path) -> Store:
    """A stream of 40 events in one data file, indexed by a and by b."""
    return open_store(copy_stream(indexed, tmp_path).path.parent)


def lose(store: Store, *folder: str) -> Stream:
    shutil.rmtree(store.path.joinpath("s", "index", *folder))
    return open_store(store.path).stream("s")


def faults(stream: Stream) -> list[Finding]:
    found = check_stream(stream, derived_checks=[check_runs])
    return [finding for finding in found if finding.severity is not Severity.OK]


def mend(stream: Stream) -> None:
    writer = writer_for(stream, least_events=1)
    assert repair_stream(stream, derived=writer, derived_checks=[check_runs]).left == ()


def declared(store: Store) -> list[str]:
    tables: list[str] = json.loads((store.path / "s" / ATTRIBUTES_FILE).read_text())["tables"]
    return tables


def runs(stream: Stream) -> dict[str, int]:
    return {described.attribute: described.n_runs for described in list_indexes(stream.snapshot())}


def test_check_names_the_indexes_that_are_gone_and_the_remedy(store: Store) -> None:
    assert faults(store.stream("s")) == []
    gone = "the log of a table is gone"
    of_a, of_b = (
        Finding(Severity.FAULT, LOGS, f"s/index/{name}/_delta_log", gone, "chronicle repair")
        for name in "ab"
    )
    assert faults(lose(store, "b")) == [of_b]
    assert faults(lose(store)) == [of_a, of_b]


def test_repair_makes_lost_indexes_anew(store: Store) -> None:
    stream = lose(store)
    mend(stream)
    assert faults(stream) == []
    assert runs(stream) == {"a": 1, "b": 1}
    found = open_indexes(stream.snapshot()).index("a").lookup(KeyRanges.of([KeyRange(7, 7)]))
    assert found.seq.tolist() == [7, 17, 27, 37]


def test_creating_a_lost_index_makes_it_anew(store: Store) -> None:
    stream = lose(store, "a")
    assert len(faults(stream)) == 1
    [report] = create_index(stream, ["a"], least_events=1)
    assert (report.existed, report.n_files) == (False, 1)
    assert faults(stream) == []


def test_query_answers_the_same_and_says_that_an_index_is_missing(store: Store) -> None:
    lose(store, "a")
    result = replay.query(open_store(store.path), SEVENS)
    assert result.table.column("t").to_pylist() == [7, 17, 27, 37]
    [warning] = result.actual.warnings
    assert "the runs of index 'a' are not known" in warning
    assert "'chronicle repair' writes them anew" in warning


def test_an_index_written_with_the_first_events_is_missed_too(store: Store) -> None:
    stream = store.create_stream("r", LOST_SCHEMA, StreamSettings(time="t"))
    stream.append(events(0, 40), derived=RunWriter(("a",), "t"))
    assert faults(stream) == []
    shutil.rmtree(stream.path / "index")
    assert [finding.file for finding in faults(stream)] == ["r/index/a/_delta_log"]


def test_a_stream_that_lost_its_indexes_can_be_tended(store: Store) -> None:
    stream = lose(store)
    stream.append(events(40, 60), derived=writer_for(stream))
    compact_events(stream, derived=writer_for(stream), full=True)
    compact_index(stream, full=True)
    vacuum(stream, derived=writer_for(stream))
    assert replay.query(store, SEVENS).table.column("t").to_pylist() == [7, 17, 27, 37, 47, 57]
    mend(stream)
    assert faults(stream) == []
    assert runs(stream) == {"a": 1, "b": 1}


def test_a_dropped_index_is_not_missed(store: Store) -> None:
    stream = store.stream("s")
    drop_index(stream, "a")
    assert declared(store) == ["index/b"]
    assert faults(stream) == []
    mend(stream)
    assert runs(stream) == {"b": 1}


def test_a_lost_index_can_be_dropped(store: Store) -> None:
    stream = lose(store)
    assert runs(stream) == {"a": 0, "b": 0}
    assert drop_index(stream, "a") == 0
    assert runs(stream) == {"b": 0}
    with pytest.raises(UnknownIndexError):
        drop_index(stream, "a")


def test_indexes_of_before_they_were_declared_are_missed_once_repair_ran(store: Store) -> None:
    (store.path / "s" / ATTRIBUTES_FILE).write_text('{"derived": []}')
    stream = store.stream("s")
    assert faults(stream) == []
    assert runs(stream) == {"a": 1, "b": 1}
    mend(stream)
    assert declared(store) == ["index/a", "index/b"]
    assert [finding.file for finding in faults(lose(store, "b"))] == ["s/index/b/_delta_log"]
