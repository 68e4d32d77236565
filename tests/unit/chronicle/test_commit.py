"""The commit protocol: one winner among stale writers, and no crash loses or doubles an event."""

import shutil
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.derived import DerivedChange, DerivedFile
from chronicle.errors import CommitConflictError, CorruptBlockError, ForeignFileError, StorageError
from chronicle.log import delta_log
from chronicle.settings import StreamSettings
from chronicle.store import Stream, create_store, open_store
from chronicle.write import commit
from chronicle.write.commit import (
    Change,
    commit_derived,
    commit_events,
    commit_files,
    commit_tree,
    complete_derived,
)
from tests.helpers import commit_table, write_table
from tests.unit.chronicle.stream_cases import SCHEMA, events, make_stream

TICKS = pa.schema([("t", pa.int64()), ("x", pa.float64())])


class _Runs:
    """A derived writer: copies a column, as an index would."""

    def tables(self, schema: pa.Schema) -> tuple[str, ...]:
        return ("index/x",)

    def write(self, stream_dir, data_file, events, time, block_counts) -> list[DerivedFile]:
        assert events.schema.equals(TICKS)
        path = stream_dir / "index/x" / data_file
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(events.select(["x"]), path)
        return [DerivedFile("index/x", data_file, path.stat().st_size, events.num_rows)]

    def lacking(self, stream_dir, files) -> dict[str, set[str]]:
        listed = {file.name for file in delta_log.live_files(stream_dir / "index/x")}
        return {"index/x": set(files) - listed}

    def damaged(self, stream_dir, files) -> dict[str, set[str]]:
        return {}

    def tidy(self, stream_dir, live, *, budget) -> list[DerivedChange]:
        return []

    def expired(self, stream_dir, kept) -> list[DerivedChange]:
        return []


def _ticks(first: int, stop: int) -> pa.Table:
    times = range(first, stop)
    return pa.table({"t": times, "x": [float(t) for t in times]}, schema=TICKS)


def _times(stream: Stream) -> list[int]:
    snapshot = open_store(stream.path.parent).stream(stream.name).snapshot()
    return snapshot.read_blocks(np.arange(snapshot.n_blocks), ["t"])["t"].to_pylist()


def _stream(tmp_path: Path) -> Stream:
    return make_stream(tmp_path, [_ticks(0, 20)], schema=TICKS)


def test_of_two_stale_appends_one_stops_and_can_be_run_again(tmp_path: Path):
    ours = _stream(tmp_path)
    theirs = open_store(tmp_path / "store").stream("ticks")
    read_version = ours.snapshot().version
    assert theirs.snapshot().version == read_version
    our_files = write_table(ours, _ticks(20, 30))
    their_files = write_table(theirs, _ticks(20, 40))
    commit_files(ours, our_files, read_version=read_version, metadata={})
    with pytest.raises(CommitConflictError, match="run it again"):
        commit_files(theirs, their_files, read_version=read_version, metadata={})
    assert _times(ours) == list(range(30))
    commit_table(theirs, _ticks(30, 40))
    assert _times(ours) == list(range(40))


def test_appends_in_turn_do_not_conflict(tmp_path: Path):
    stream = _stream(tmp_path)
    version = stream.snapshot().version
    for i in range(2, 5):
        assert commit_table(stream, _ticks(10 * i, 10 * i + 10)) == version + i - 1
    assert _times(stream) == list(range(50))


def test_generations_count_up(tmp_path: Path):
    stream = make_stream(tmp_path, [], schema=TICKS)
    assert stream.next_generation() == 0
    commit_table(stream, _ticks(0, 5))
    commit_table(stream, _ticks(5, 9))
    assert stream.next_generation() == 2
    assert [file.ordinal for file in stream.snapshot().files] == [
        "000000-000000-000000",
        "000001-000000-000000",
    ]


@pytest.mark.parametrize("steps_done", [0, 1, 2, 3])
def test_crash_between_any_two_steps_leaves_right_answers(tmp_path: Path, steps_done: int):
    stream = _stream(tmp_path)
    files = write_table(stream, _ticks(20, 40), derived=_Runs())
    read_version = stream.snapshot().version
    steps = (
        lambda: commit_events(stream, Change(tuple(files)), read_version=read_version, metadata={}),
        lambda: commit_tree(stream, files),
        lambda: commit_derived(stream, files),
    )
    for step in steps[:steps_done]:
        step()
    expected = list(range(40 if steps_done else 20))
    assert _times(stream) == expected
    snapshot = open_store(stream.path.parent).stream("ticks").snapshot()
    assert snapshot.aggregate(0, 100, "x").sum == sum(expected)
    assert all(file.has_tree for file in snapshot.files) == (steps_done != 1)

    complete_derived(stream, _Runs())
    snapshot = stream.snapshot()
    assert all(file.has_tree for file in snapshot.files)
    assert snapshot.bounds("x").known.all()
    runs = {file.name for file in delta_log.live_files(stream.path / "index/x")}
    assert runs == {file.name for file in snapshot.files}
    assert complete_derived(stream, _Runs()) == 0


def test_entries_completed_later_equal_those_written_at_once(tmp_path: Path):
    stream = _stream(tmp_path)
    names = [file.name for file in stream.snapshot().files]
    before = [(stream.path / "tree" / name).read_bytes() for name in names]
    shutil.rmtree(stream.path / "tree")
    assert complete_derived(stream, None) == len(names)
    assert [(stream.path / "tree" / name).read_bytes() for name in names] == before


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


@given(events(max_size=12))
def test_every_column_type_survives_the_way_through_delta(table: pa.Table):
    # Only the schema: values are covered by the snapshot's tests.
    assert table.schema.equals(SCHEMA)
    stored = pa.schema(deltalake.Schema.from_arrow(SCHEMA).to_arrow())
    assert stored.names == SCHEMA.names


def test_foreign_file_is_named_and_nothing_is_answered(tmp_path: Path):
    stream = _stream(tmp_path)
    deltalake.write_deltalake(str(stream.path / "events"), _ticks(20, 30), mode="append")
    with pytest.raises(ForeignFileError, match="RESTORE"):
        stream.snapshot()
    with pytest.raises(ForeignFileError):
        stream.next_generation()


def test_overlapping_files_are_refused(tmp_path: Path):
    stream = _stream(tmp_path)
    late = write_table(stream, _ticks(5, 10))
    commit_files(stream, late, read_version=stream.snapshot().version, metadata={})
    with pytest.raises(StorageError, match="overlap in time"):
        stream.snapshot()


def test_completing_names_a_damaged_data_file(tmp_path: Path):
    stream = _stream(tmp_path)
    files = write_table(stream, _ticks(20, 30))
    commit_events(stream, Change(tuple(files)), read_version=stream.snapshot().version, metadata={})
    (stream.path / "events" / files[0].name).write_bytes(b"no parquet")
    with pytest.raises(CorruptBlockError, match=files[0].name):
        complete_derived(stream, None)


def test_metadata_rides_in_the_commit(tmp_path: Path):
    stream = _stream(tmp_path)
    files = write_table(stream, _ticks(20, 30))
    committed = commit_files(
        stream, files, read_version=stream.snapshot().version, metadata={"sources": "a.csv"}
    )
    newest = delta_log.commits(stream.path / "events")[0]
    assert (newest.version, newest.metadata["sources"]) == (committed.version, "a.csv")


def test_settings_live_in_the_table_properties(tmp_path: Path):
    settings = StreamSettings("t", block_events=7, file_events=70, fan_out=3, key="x")
    stream = create_store(tmp_path / "s").create_stream("ticks", TICKS, settings)
    assert open_store(tmp_path / "s").stream("ticks").settings == settings
    delta = deltalake.DeltaTable(str(stream.path / "events"))
    assert delta.metadata().configuration["chronicle.block_events"] == "7"


def test_index_dropped_while_its_run_is_committed_costs_the_append_nothing(tmp_path: Path):
    stream = _stream(tmp_path)
    files = write_table(stream, _ticks(20, 40), derived=_Runs())
    read_version = stream.snapshot().version
    commit_events(stream, Change(tuple(files)), read_version=read_version, metadata={})
    shutil.rmtree(stream.path / "index/x")
    commit_derived(stream, files)
    assert not (stream.path / "index/x").exists()
    assert _times(stream) == list(range(40))


def test_run_that_is_there_and_cannot_be_committed_is_said(tmp_path: Path):
    stream = _stream(tmp_path)
    files = write_table(stream, _ticks(20, 40), derived=_Runs())
    (stream.path / "index/x/_delta_log").write_text("no folder")
    with pytest.raises(StorageError):
        commit_derived(stream, files)
