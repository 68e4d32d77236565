"""The commit protocol: one winner among stale writers, and no crash loses or doubles an event.

Appends: any split of the events, in any order, makes the same stream. Who holds a stream that is
dropped or renamed and made again is told so.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chronicle.write.commit as commit_module
from chronicle import Store, Stream, StreamSettings, create_store, open_store
from chronicle.derived import DerivedFile
from chronicle.errors import (
    CommitConflictError,
    CorruptBlockError,
    ForeignFileError,
    SchemaError,
    StorageError,
    StreamNotFoundError,
    StreamReplacedError,
)
from chronicle.log import delta_log
from chronicle.log.delta_log import LoggedChange
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import faults_of
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.snapshot import DataFile
from chronicle.write import append as append_module
from chronicle.write.append import Placement, append, place_late
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import (
    APPEND,
    COMPACT,
    OPERATION,
    Change,
    commit_change,
    commit_derived,
    commit_events,
    commit_tree,
    complete_derived,
    keeps_order,
    why_unsafe,
)
from chronicle.write.evolve import add_column
from chronicle.write.lifecycle import delete_range, drop_stream, rename_stream
from chronicle.write.rewrite import Rewrite, even_cuts, rewrite_files
from indexing.lifecycle import create_index, drop_index
from indexing.writer import writer_for
from replay import query
from replay.query import batches
from tests.helpers import commit_table, write_table
from tests.unit.chronicle.stream_cases import (
    RUNS,
    TICKS,
    at,
    make_stream,
    meet,
    on_disk,
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
    commit_change(ours, Change(tuple(our_files)), read_version=read_version, metadata={})
    with pytest.raises(CommitConflictError, match="run it again"):
        commit_change(theirs, Change(tuple(their_files)), read_version=read_version, metadata={})
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
        found = commit_module.time_statistics("t", data_type, times[0], times[-1])
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
    assert commit_module.time_statistics("t", pa.timestamp("us"), 0, year_10000) == {}
    assert commit_module.time_statistics("t", pa.timestamp("us"), 0, year_10000 - 1) != {}


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
    commit_change(stream, Change(tuple(late)), read_version=stream.snapshot().version, metadata={})
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
    return LoggedChange(1, {OPERATION: operation}, added, (), {})


@pytest.mark.parametrize("operation", [APPEND, COMPACT])
def test_append_into_what_another_file_now_spans_is_unsafe(operation: str) -> None:
    change = Change((written("x", 20, 30, 10),))
    others = [logged(operation, "m")]
    assert why_unsafe(change, others, [live("m", 1, 50)], {}) is not None
    assert why_unsafe(change, others, [live("m", 30, 50)], {}) is not None
    assert why_unsafe(change, others, [live("m", 31, 50)], {}) is None


@pytest.mark.parametrize(
    ("theirs", "is_safe"),
    [
        pytest.param({"chronicle.source.a": 5}, False, id="the same path"),
        pytest.param({"chronicle.source.b": 7}, False, id="the same content by another path"),
        pytest.param({"chronicle.source.b": 5}, True, id="another file"),
        pytest.param({"chronicle.returned.b": 7}, True, id="no file"),
    ],
)
def test_source_that_another_commit_took_makes_a_change_unsafe(
    theirs: dict[str, int], is_safe: bool
) -> None:
    other = LoggedChange(1, {OPERATION: APPEND}, (), (), theirs)
    reason = why_unsafe(Change(()), [other], [], {"chronicle.source.a": 7})
    assert (reason is None) == is_safe


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


SETTINGS = StreamSettings(time="t", block_events=4, file_events=100)


def make(store: Store, *appends: tuple[int, ...]) -> Stream:
    stream = store.create_stream("s", TICKS, SETTINGS)
    for times in appends:
        append(stream, at(*times))
    return stream


def remade(store: Store, how: str, *appends: tuple[int, ...]) -> Stream:
    """Have another process take the stream away and make one of that name."""
    other = open_store(store.path)
    if how == "drop":
        drop_stream(other, "s")
    else:
        rename_stream(other, "s", "elsewhere")
    return make(other, *appends)


@pytest.mark.parametrize("how", ["drop", "rename"])
@pytest.mark.parametrize(
    "appends",
    [
        pytest.param(((7,),), id="fewer versions"),
        pytest.param(((7,), (8,)), id="as many versions"),
        pytest.param(((7,), (8,), (9,)), id="more versions"),
        pytest.param((), id="no event"),
    ],
)
def test_who_holds_a_stream_that_was_made_again_is_told_so_and_who_asks_by_name_gets_the_new(
    store: Store, how: str, appends: tuple[tuple[int, ...], ...]
) -> None:
    held = make(store, tuple(range(50)), tuple(range(50, 100)))
    sql = "SELECT COUNT(*) AS n FROM s"
    assert query(store, sql).table.to_pylist() == [{"n": 100}]
    new = remade(store, how, *appends)
    for ask in (held.snapshot, held.refresh, held.next_generation):
        with pytest.raises(StreamReplacedError, match="open it again"):
            ask()
    expected = [t for times in appends for t in times]
    assert seen_times(new) == expected
    assert query(store, sql).table.to_pylist() == [{"n": len(expected)}]
    assert seen_times(store.stream("s")) == expected


OPERATIONS: dict[str, Callable[[Stream], object]] = {
    "append": lambda stream: stream.append(at(1000)),
    "append late": lambda stream: stream.append(at(1), derived=writer_for(stream)),
    "compact": lambda stream: compact_events(stream, derived=None, full=True),
    "delete": lambda stream: delete_range(stream, 0, 3, derived=None),
    "add column": lambda stream: add_column(stream, "y", "double"),
    "vacuum": lambda stream: vacuum(stream, derived=None),
    "index": lambda stream: create_index(stream, ["x"], least_events=0),
    "drop index": lambda stream: drop_index(stream, "x"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_that_the_holder_does_reaches_the_stream_that_was_made_in_its_place(
    store: Store, name: str
) -> None:
    held = make(store, (0, 2), (4, 6))
    create_index(held, ["x"], least_events=0)
    new = remade(store, "drop", (7,), (8,))
    with pytest.raises(StreamReplacedError):
        OPERATIONS[name](held)
    assert seen_times(new) == [7, 8]
    assert faults_of(check_stream(new)) == []
    assert [path.name for path in store.path.glob("*/*") if path.name == "index"] == []


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "vacuum"])
def test_a_stream_that_goes_in_the_middle_of_an_operation_is_one_sentence_and_frees_its_name(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, again: bool
) -> None:
    held = make(store, (0, 2), (4, 6))
    if name == "drop index":
        create_index(held, ["x"], least_events=0)

    def go() -> None:
        drop_stream(open_store(store.path), "s")
        if again:
            make(open_store(store.path), (7,), (8,))

    by_refresh = name in ("add column", "drop index")
    meet(monkeypatch, Stream, "refresh" if by_refresh else "snapshot", go, after=True)
    if name == "drop index":
        held.refresh()
    with pytest.raises((StreamReplacedError, StreamNotFoundError)):
        OPERATIONS[name](held)
    monkeypatch.undo()
    if again:
        assert seen_times(open_store(store.path).stream("s")) == [7, 8]
    else:
        assert not (store.path / "s").exists()
        assert seen_times(make(open_store(store.path), (1,))) == [1]
    assert faults_of(check_stream(store.path / "s")) == []


def test_a_commit_prepared_on_the_version_the_new_stream_has_too_is_refused(store: Store) -> None:
    held = make(store, (0,), (4,))
    version = held.refresh()
    written = write_table(held, at(1000), generation=9)
    new = remade(store, "drop", (7,), (8,))
    assert new.refresh() == version
    with pytest.raises(StreamReplacedError):
        commit_change(held, Change(tuple(written)), read_version=version, metadata={})
    assert seen_times(new) == [7, 8]


def test_a_query_under_way_when_its_stream_goes_ends_in_a_sentence(store: Store) -> None:
    make(store, tuple(range(100)), tuple(range(100, 200)))
    reader = batches(store, "SELECT t FROM s")
    next(iter(reader))
    drop_stream(open_store(store.path), "s")
    held = store.stream
    with pytest.raises(StreamNotFoundError):
        held("s")
    make(store, (7,))
    try:
        rest = reader.read_all()
    except StreamReplacedError:
        return
    assert set(rest.column("t").to_pylist()) <= set(range(200))  # open files are still the old's


def test_damage_is_not_left_out_where_the_stream_is_gone(store: Store) -> None:
    stream = make(store, tuple(range(100)), tuple(range(100, 200)))
    stream.snapshot()
    other = open_store(store.path)
    reads = commit_module.BlockReader.read

    def going(*args: object, **options: object) -> object:
        if "s" in other.stream_names():
            drop_stream(other, "s")
        return reads(*args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_module.BlockReader, "read", going)
        with pytest.raises(StreamNotFoundError):
            query(store, "SELECT t, x FROM s WHERE x > 5", skip_damaged=True)


def test_the_tree_table_made_again_by_a_repair_is_followed(store: Store) -> None:
    held = make(store, (0, 2), (4, 6))
    held.snapshot()
    log = held.path / "tree" / "_delta_log"
    for text in log.iterdir():
        text.write_text("no commit")
    repair_stream(open_store(store.path).stream("s"))
    assert seen_times(held) == [0, 2, 4, 6]
    assert [fault for fault in held.snapshot().faults if fault] == []


# ---------------------------------------------------------------------------------------------
# A commit whose text is that of another.


def commit_file(stream: Stream, version: int) -> Path:
    return stream.path / "events" / "_delta_log" / f"{version:020d}.json"


def overwrite(store: Store, how: str) -> Stream:
    stream = make(store, (0,), (2,), (4,))
    if how == "of its own stream, in the middle":
        commit_file(stream, 2).write_bytes(commit_file(stream, 1).read_bytes())
    elif how == "of its own stream, the newest":
        commit_file(stream, 3).write_bytes(commit_file(stream, 2).read_bytes())
    elif how == "of another stream, the same number":
        other = store.create_stream("other", TICKS, SETTINGS)
        for t in (1, 3, 5):
            append(other, at(t))
        commit_file(stream, 3).write_bytes(commit_file(other, 3).read_bytes())
    else:
        lines = [json.loads(line) for line in commit_file(stream, 3).read_text().splitlines()]
        kept = [line for line in lines if "add" not in line]
        commit_file(stream, 3).write_text("".join(json.dumps(line) + "\n" for line in kept))
    return stream


HOWS = (
    "of its own stream, in the middle",
    "of its own stream, the newest",
    "of another stream, the same number",
    "without the file it added",
)


@pytest.mark.parametrize("how", HOWS)
def test_a_commit_overwritten_by_another_text_is_a_fault_where_it_is_read_and_in_check(
    store: Store, how: str
) -> None:
    stream = overwrite(store, how)
    with pytest.raises(StorageError, match="overwritten"):
        open_store(store.path).stream("s").snapshot()
    found = [finding.what for finding in faults_of(check_stream(stream.path))]
    assert any("overwritten" in what or "text of" in what for what in found), found


@pytest.mark.parametrize("how", HOWS[1:])
def test_who_read_the_commit_before_it_was_overwritten_says_so_too(store: Store, how: str) -> None:
    stream = make(store)
    store.path.joinpath("spare").mkdir()
    whole = overwrite_of(stream, store, how)
    with pytest.raises(StorageError, match="overwritten"):
        stream.snapshot()
    commit_file(stream, 3).write_bytes(whole)
    assert seen_times(stream) == [0, 2, 4]


def overwrite_of(stream: Stream, store: Store, how: str) -> bytes:
    """Let a stream be read, then overwrite its newest commit; return what that held."""
    for t in (0, 2, 4):
        append(stream, at(t))
    whole = commit_file(stream, 3).read_bytes()
    spare = create_store(store.path / "spare")
    commit_file(stream, 3).write_bytes(commit_file(overwrite(spare, how), 3).read_bytes())
    return whole
