"""Appends without Spark: any split of the events, in any order, makes the same stream."""

import tempfile
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import CommitConflictError, LateEventError, SchemaError
from chronicle.log import delta_log
from chronicle.maintenance.compaction import compact_events
from chronicle.settings import StreamSettings
from chronicle.store import Stream, create_store, open_store
from chronicle.write import append as append_module
from chronicle.write.append import append

SCHEMA = pa.schema([("t", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def _stream(folder: Path, *, file_events: int = 8, block_events: int = 3) -> Stream:
    settings = StreamSettings("t", block_events=block_events, file_events=file_events, fan_out=2)
    return create_store(folder / "store").create_stream("s", SCHEMA, settings)


def _table(times: list[int | None], first: int = 0) -> pa.Table:
    rows = range(first, first + len(times))
    return pa.table({"t": times, "n": rows, "s": [f"e{n}" for n in rows]}, schema=SCHEMA)


def _rows(stream: Stream) -> list[tuple[int, int]]:
    snapshot = open_store(stream.path.parent).stream(stream.name).snapshot()
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), ["t", "n", "s"])
    assert table["s"].to_pylist() == [f"e{n}" for n in table["n"].to_pylist()]
    return list(zip(table["t"].to_pylist(), table["n"].to_pylist(), strict=True))


@given(st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=6), st.booleans())
def test_merged_stream_is_sorted_by_time_and_arrival(batches: list[list[int]], tidy: bool):
    with tempfile.TemporaryDirectory() as folder:
        stream = _stream(Path(folder))
        arrived: list[tuple[int, int]] = []
        for times in batches:
            end = max((time for time, _ in arrived), default=None)
            add = stream.append if tidy else partial(append, stream)
            report = add(_table(times, len(arrived)))
            n_late = 0 if end is None else sum(time < end for time in times)
            assert (report.n_events, report.n_late) == (len(times), n_late)
            arrived += [(time, len(arrived) + i) for i, time in enumerate(times)]
        assert _rows(stream) == sorted(arrived)
        for file in stream.snapshot().files:
            assert file.n_events <= 8
            counts = pq.ParquetFile(stream.path / "events" / file.name).metadata
            groups = [counts.row_group(i).num_rows for i in range(counts.num_row_groups)]
            assert groups[:-1] == [3] * (len(groups) - 1)


def test_only_the_files_concerned_are_rewritten(tmp_path: Path):
    stream = _stream(tmp_path)
    append(stream, _table(list(range(0, 80, 2))))
    before = {file.name: (file.t_min, file.t_max) for file in stream.snapshot().files}
    report = append(stream, _table([33, 34, 90], 40))
    after = {file.name for file in stream.snapshot().files}
    gone = set(before) - after
    assert [before[name] for name in gone] == [(32, 46)]
    assert (report.n_late, report.n_rewritten) == (2, 1)
    change = delta_log.changes_since(stream.path / "events", report.version - 1)[-1]
    assert set(change.removed) == gone
    assert change.metadata["chronicle.operation"] == "append"


def test_late_events_can_be_refused_as_a_whole(tmp_path: Path):
    stream = _stream(tmp_path)
    stream.append(_table([10, 20]))
    with pytest.raises(LateEventError, match=r"1 of 2 events are older than the end") as caught:
        stream.append(_table([5, 30], 2), late="reject")
    assert caught.value.n_late == 1
    assert _rows(stream) == [(10, 0), (20, 1)]


def test_late_events_and_events_without_a_time_can_be_put_aside(tmp_path: Path):
    stream = _stream(tmp_path)
    stream.append(_table([10, 20]))
    report = stream.append(_table([5, None, 30], 2), late="quarantine")
    assert _rows(stream) == [(10, 0), (20, 1), (30, 4)]
    assert (report.n_events, report.n_late, report.n_quarantined) == (1, 0, 2)
    quarantine = stream.path / "quarantine"
    (file,) = delta_log.live_files(quarantine)
    rows = pq.read_table(quarantine / file.name).to_pylist()
    assert {row["reason"] for row in rows} == {
        "the event has no time",
        "the event is older than the end of the stream",
    }
    newest = delta_log.commits(stream.path / "events")[0]
    assert {row["batch"] for row in rows} == {newest.metadata["quarantine_batch"]}


def test_events_that_are_all_put_aside_are_accounted_for_by_a_commit(tmp_path: Path):
    stream = _stream(tmp_path)
    stream.append(_table([10]))
    report = stream.append(_table([5], 1), late="quarantine")
    assert (report.n_events, report.n_quarantined) == (0, 1)
    assert "quarantine_batch" in delta_log.commits(stream.path / "events")[0].metadata
    assert _rows(stream) == [(10, 0)]


def test_columns_that_do_not_fit_are_named(tmp_path: Path):
    stream = _stream(tmp_path)
    with pytest.raises(SchemaError, match="lack columns 'n', 's'"):
        stream.append(pa.table({"t": [1]}))


@pytest.mark.parametrize("step", ["_write_new", "commit_quarantine", "commit_change"])
def test_append_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    stream = _stream(tmp_path)
    stream.append(_table([10, 20]))
    events = {path.name for path in (stream.path / "events").glob("*.parquet")}

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(append_module, step, fail)
        with pytest.raises(OSError, match="no space"):
            stream.append(_table([5, None, 30], 2), late="merge")
    assert {path.name for path in (stream.path / "events").glob("*.parquet")} == events
    assert _rows(stream) == [(10, 0), (20, 1)]


def test_append_follows_one_that_came_first_if_their_times_are_apart(tmp_path: Path):
    ours = _stream(tmp_path)
    append(ours, _table([10, 20, 30, 40, 50, 60, 70, 80, 90, 100]))
    versions = _interleaved(ours, _table([15, 101], 10), _table([95, 200], 12))
    assert versions == [2, 3]
    assert [t for t, _ in _rows(ours)] == [*range(10, 20, 10), 15, *range(20, 100, 10), 95, 100,
                                           101, 200]  # fmt: skip


def test_append_is_prepared_anew_if_another_rewrote_its_file(tmp_path: Path):
    ours = _stream(tmp_path)
    append(ours, _table([10, 20, 30]))
    _interleaved(ours, _table([15, 35], 3), _table([15, 35], 5))
    assert _rows(ours) == [(10, 0), (15, 3), (15, 5), (20, 1), (30, 2), (35, 3 + 1), (35, 5 + 1)]


def _interleaved(ours: Stream, first: pa.Table, second: pa.Table) -> list[int]:
    """Append ``second`` in a process of its own mind whose commit comes after ``first``'s."""
    theirs = open_store(ours.path.parent).stream(ours.name)
    versions: list[int] = []
    commit = append_module.commit_change
    done = threading.Event()

    def late_commit(*args: object, **kwargs: object) -> int:
        if not done.is_set():
            done.set()
            versions.append(append(ours, first).version)
        return commit(*args, **kwargs)

    append_module.commit_change, original = late_commit, commit
    try:
        done.clear()
        versions.append(append(theirs, second).version)
    finally:
        append_module.commit_change = original
    return versions


def test_a_stale_commit_of_the_same_source_is_refused(tmp_path: Path):
    ours = _stream(tmp_path)
    append(ours, _table([10]), transactions={"source.a": 1})
    theirs = open_store(ours.path.parent).stream(ours.name)
    version = theirs.snapshot().version
    append(ours, _table([20], 1), transactions={"source.b": 1})
    from chronicle.write.commit import Change, commit_change

    with pytest.raises(CommitConflictError, match="took the same source"):
        commit_change(
            theirs, Change(()), read_version=version, metadata={}, transactions={"source.b": 1}
        )


def test_files_that_landed_and_were_replaced_at_once_are_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stream = _stream(tmp_path, file_events=100)
    append(stream, _table([10]))
    commit = append_module.commit_change

    def landed_and_replaced(*args: object, **kwargs: object) -> None:
        version = commit(*args, **kwargs).version
        compact_events(stream, derived=None, full=True)
        raise OSError(f"no space to note version {version}")

    monkeypatch.setattr(append_module, "commit_change", landed_and_replaced)
    with pytest.raises(OSError, match="version 2"):
        append(stream, _table([20], 1))
    assert _rows(stream) == [(10, 0), (20, 1)]
    assert open_store(tmp_path / "store").stream("s").snapshot(2).n_events == 2
    for file in stream.snapshot(2).files:
        assert (stream.path / "events" / file.name).exists()
