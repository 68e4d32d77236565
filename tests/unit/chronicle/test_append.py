"""Appends without Spark: any split of the events, in any order, makes the same stream."""

import tempfile
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle.errors import CommitConflictError, SchemaError
from chronicle.log import delta_log
from chronicle.maintenance.compaction import compact_events
from chronicle.settings import StreamSettings
from chronicle.store import Stream, create_store, open_store
from chronicle.write import append as append_module
from chronicle.write.append import Placement, append, place_late
from chronicle.write.commit import Change, commit_change
from chronicle.write.evolve import add_column
from chronicle.write.rewrite import even_cuts
from tests.unit.chronicle.stream_cases import meet, on_disk

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


@settings(max_examples=settings().max_examples // 4)
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


@pytest.mark.parametrize("step", ["_write_new", "commit_quarantine", "commit_change"])
def test_append_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    stream = _stream(tmp_path)
    stream.append(_table([10, 20]))
    before = on_disk(stream)
    with monkeypatch.context() as patch:
        patch.setattr(append_module, step, Mock(side_effect=OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            stream.append(_table([5, None, 30], 2), late="merge")
    assert on_disk(stream) == before
    assert _rows(stream) == [(10, 0), (20, 1)]


@pytest.mark.parametrize(
    ("stored", "first", "second"),
    [
        pytest.param(range(10, 101, 10), [15, 101], [95, 200], id="into files apart"),
        pytest.param([10, 20, 30], [15, 35], [15, 35], id="into a file that the first rewrote"),
    ],
)
def test_of_two_appends_at_once_the_second_follows_the_first_to_commit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stored: list[int],
    first: list[int],
    second: list[int],
):
    ours = _stream(tmp_path)
    append(ours, _table([*stored]))
    theirs = open_store(ours.path.parent).stream(ours.name)
    beat = partial(append, ours, _table(first, len(stored)))
    meet(monkeypatch, append_module, "commit_change", beat)
    assert append(theirs, _table(second, len(stored) + 2)).version == 3
    times = [*stored, *first, *second]
    assert _rows(ours) == sorted((t, n) for n, t in enumerate(times))


def test_a_stale_commit_of_the_same_source_is_refused(tmp_path: Path):
    ours = _stream(tmp_path)
    append(ours, _table([10]), transactions={"source.a": 1})
    theirs = open_store(ours.path.parent).stream(ours.name)
    version = theirs.snapshot().version
    append(ours, _table([20], 1), transactions={"source.b": 1})
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


@pytest.mark.parametrize("times", [[7], [1], [1, 7]], ids=["new", "late", "both"])
def test_append_that_meets_a_new_column_asks_for_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: list[int]
) -> None:
    stream = _stream(tmp_path)
    stream.append(_table([5, 6]))
    rival = open_store(stream.path.parent).stream("s")
    meet(monkeypatch, append_module, "commit_change", lambda: add_column(rival, "c", "int64"))
    before = on_disk(stream)
    with pytest.raises(SchemaError, match="lack column 'c'"):
        stream.append(_table(times, 2))
    assert stream.snapshot().n_events == 2
    assert on_disk(stream) == before


def test_worked_example():
    # Files [0, 10], [10, 10], [20, 30]: a 10 goes behind both tens, a 15 and a 10 into one file.
    placed = place_late(np.array([-5, 3, 10, 15, 20, 29]), np.array([0, 10, 20]))
    assert placed == [Placement(0, 0, 2), Placement(1, 2, 4), Placement(2, 4, 6)]


@given(st.integers(0, 200), st.integers(1, 40), st.integers(1, 50))
def test_cuts_make_as_few_files_as_can_be_of_whole_blocks(
    n_events: int, file_events: int, block_events: int
):
    cuts = even_cuts(n_events, file_events, block_events)
    sizes = np.diff(cuts)
    assert cuts[0] == 0
    assert cuts[-1] == n_events
    assert (sizes > 0).all()
    assert (sizes <= file_events).all()
    assert len(sizes) <= -(-n_events // file_events)
    if file_events % block_events == 0:
        assert (sizes[:-1] % block_events == 0).all()


def test_a_full_file_is_halved():
    assert list(even_cuts(101, 100, 10)) == [0, 60, 101]
