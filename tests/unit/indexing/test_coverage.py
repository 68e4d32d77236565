"""What an index table lists against what lies on disk, and what the next ingest must write."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store
from chronicle.log.delta_log import live_files
from chronicle.store import Stream
from chronicle.write.commit import complete_derived
from indexing import KeyRange, KeyRanges, RunWriter, clear_caches, open_indexes
from indexing.coverage import list_runs
from indexing.lifecycle import compact_index, create_index
from tests.helpers import commit_table
from tests.unit.indexing.doubles import flip_byte

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64()), ("y", pa.string())])
WRITER = RunWriter(("x", "y"), "t")


def rows(n: int, *, first: int = 0) -> pa.Table:
    at = range(first, first + n)
    columns = {"t": list(at), "x": [i % 5 for i in at], "y": [f"v{i % 3}" for i in at]}
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """Three data files of 10, 10 and 5 events, each with a run of x and of y."""
    settings = StreamSettings(time="t", block_events=4, file_events=10)
    stream = create_store(tmp_path / "store").create_stream("s", SCHEMA, settings)
    write(stream, rows(25))
    return stream


def write(stream: Stream, table: pa.Table, writer: RunWriter | None = WRITER) -> None:
    commit_table(stream, table, derived=writer)


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
    write(stream, rows(5, first=25), writer)
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


def test_a_damaged_run_is_written_anew_and_listed_once(stream: Stream) -> None:
    name = min(data_files(stream))
    flip_byte(stream.path / "index" / "x" / name, -20)
    files = data_files(stream)
    assert WRITER.damaged(stream.path, files) == {"index/x": {name}, "index/y": set()}
    assert_answers(stream, 25, tail=10)
    assert complete_derived(stream, WRITER) == 1
    assert [file.name for file in live_files(stream.path / "index" / "x")].count(name) == 1
    assert WRITER.damaged(stream.path, files)["index/x"] == set()
    assert_answers(stream, 25)
    assert complete_derived(stream, WRITER) == 0


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


def test_a_run_of_another_attribute_is_damaged(stream: Stream) -> None:
    name = min(data_files(stream))
    folder = stream.path / "index"
    (folder / "x" / name).write_bytes((folder / "y" / name).read_bytes())
    assert WRITER.damaged(stream.path, data_files(stream))["index/x"] == {name}


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
