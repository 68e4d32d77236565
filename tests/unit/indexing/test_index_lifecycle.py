"""Indexes that are created, dropped, listed and compacted while the stream holds events."""

from __future__ import annotations

import datetime as dt
import importlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store, open_store
from chronicle.errors import CorruptBlockError, StorageError
from chronicle.jobs import Result, Task, run_locally
from chronicle.log import delta_log
from chronicle.store import Stream
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import (
    Change,
    commit_derived,
    commit_events,
    commit_tidy,
    commit_tree,
)
from indexing import (
    IndexingError,
    KeyRange,
    KeyRanges,
    RunWriter,
    UnknownIndexError,
    clear_caches,
    lifecycle,
    open_indexes,
)
from indexing.config import RUN_MERGE_WIDTH
from indexing.lifecycle import compact_index, create_index, drop_index, list_indexes
from tests.helpers import commit_table, copy_stream, write_table
from tests.oracles.index import matching_rows
from tests.unit.chronicle.stream_cases import meet
from tests.unit.indexing.doubles import flip_byte

DAY = dt.date(2024, 1, 1)


def rows(n: int, *, first: int = 0) -> pa.Table:
    """``n`` events with a column of every type that can be indexed."""
    at = range(first, first + n)
    return pa.table(
        {
            "t": pa.array([i // 2 for i in at], pa.int64()),
            "small": pa.array([None if i % 7 == 0 else i % 11 for i in at], pa.int16()),
            "price": [float("nan") if i % 5 == 0 else (i * 37) % 50 / 4 for i in at],
            "single": pa.array([i * 0.5 for i in at], pa.float32()),
            "venue": [f"v{(i * 7) % 9}" for i in at],
            "is_late": [i % 3 == 0 for i in at],
            "day": [DAY + dt.timedelta(days=i % 6) for i in at],
            "seen": pa.array([i * 1_000_000 for i in at], pa.timestamp("us")),
            "seen_utc": pa.array([i * 1_000_000 for i in at], pa.timestamp("us", "UTC")),
            "blob": pa.array([b"x"] * n, pa.binary()),
        }
    )


class Killed(BaseException):
    """What a process meets when it is killed."""


@contextmanager
def killed_at(step: int | None, targets: Sequence[str]) -> Iterator[list[int]]:
    """Let the ``step``-th call of any of ``targets`` kill the process, before it does anything.

    None kills nothing. Yields how many calls there were, as the one item of a list.
    """
    calls = [0]

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == step:
                raise Killed
            return real(*args, **options)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)
        for target in targets:
            module, name = target.rsplit(".", 1)
            patch.setattr(target, wrap(getattr(importlib.import_module(module), name)))
        try:
            yield calls
        except Killed:
            clear_caches()  # they were those of the dead process


N = 45


RANGES = {
    "t": KeyRange(3, 12),
    "small": KeyRange(2, 5),
    "price": KeyRange(None, 6.5),
    "single": KeyRange(4.0, 9.5, low_closed=False),
    "venue": KeyRange("v3", "v6"),
    "is_late": KeyRange(1, 1),
    "day": KeyRange(19724, 19725),  # 2 and 3 January 2024
    "seen": KeyRange(5_000_000, 17_000_000),
    "seen_utc": KeyRange(5_000_000, None),
}
ALL = tuple(RANGES)
VENUE_ROWS = matching_rows(rows(N)["venue"].to_pylist(), [RANGES["venue"]])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    settings = StreamSettings(time="t", block_events=4, file_events=10)
    store = create_store(tmp_path_factory.mktemp("made") / "store")
    stream = store.create_stream("s", rows(1).schema, settings)
    commit_table(stream, rows(N))
    return stream


@pytest.fixture
def stream(made: Stream, tmp_path: Path) -> Stream:
    """Five data files of 10, 10, 10, 10 and 5 events, and no index."""
    return copy_stream(made, tmp_path)


def create(stream: Stream, attributes: Sequence[str], **options: Any) -> list[Any]:
    return create_index(stream, attributes, **{"least_events": 1} | options)


def assert_answers(stream: Stream, table: pa.Table, attributes: Sequence[str]) -> None:
    indexes = open_indexes(stream.snapshot())
    for attribute in attributes:
        found = indexes.index(attribute).lookup(KeyRanges.of([RANGES[attribute]]))
        expected = matching_rows(table[attribute].to_pylist(), [RANGES[attribute]])
        assert expected, "a range that admits nothing proves nothing"
        assert found.seq.tolist() == expected, attribute


def tail_of(stream: Stream, attribute: str) -> int:
    return open_indexes(stream.snapshot()).index(attribute).n_tail_events


def test_created_indexes_of_every_type_hold_all_events(stream: Stream) -> None:
    reports = create(stream, ALL)
    assert [r.attribute for r in reports] == list(ALL)
    assert not any(r.existed for r in reports)
    assert {r.n_files for r in reports} == {5}
    by_name = {r.attribute: r for r in reports}
    assert by_name["t"].n_entries == N
    assert by_name["small"].n_entries == N - 7  # 0, 7, ..., 42 are null
    assert by_name["price"].n_entries == N - 9  # 0, 5, ..., 40 are NaN
    assert [tail_of(stream, a) for a in ALL] == [0] * len(ALL)
    assert_answers(stream, rows(N), ALL)


def test_a_created_index_equals_the_one_an_ingest_writes(stream: Stream, tmp_path: Path) -> None:
    create(stream, ("venue", "price"))
    settings = StreamSettings(time="t", block_events=4, file_events=10)
    other = create_store(tmp_path / "other").create_stream("s", rows(1).schema, settings)
    commit_table(other, rows(N), derived=RunWriter(("venue", "price"), "t"))
    ours, theirs = (list_indexes(s.snapshot()) for s in (stream, other))
    assert [(d.attribute, d.n_runs, d.n_entries) for d in ours] == [
        (d.attribute, d.n_runs, d.n_entries) for d in theirs
    ]
    assert_answers(other, rows(N), ("venue", "price"))


def test_small_files_stay_tail(stream: Stream) -> None:
    [report] = create(stream, ["venue"], least_events=6)
    assert (report.n_files, report.n_tail_events) == (4, 5)
    assert tail_of(stream, "venue") == 5
    assert_answers(stream, rows(N), ["venue"])
    [report] = create(stream, ["small"], least_events=10)
    assert (report.n_files, report.n_tail_events) == (4, 5)
    [report] = create_index(stream, ["price"])
    assert (report.n_files, report.n_tail_events) == (0, N)
    assert_answers(stream, rows(N), ["price"])


def test_creating_what_is_there_says_so_and_does_nothing(stream: Stream) -> None:
    create(stream, ["venue"])
    before = delta_log.load_table(stream.path / "index" / "venue").version
    report, other = create(stream, ["venue", "price"])
    assert (report.existed, report.n_files) == (True, 0)
    assert (other.existed, other.n_files) == (False, 5)
    assert delta_log.load_table(stream.path / "index" / "venue").version == before


def test_an_index_on_a_stream_without_events_is_empty(tmp_path: Path) -> None:
    store = create_store(tmp_path / "empty")
    stream = store.create_stream("s", rows(1).schema, StreamSettings(time="t"))
    [report] = create(stream, ["venue"])
    assert (report.n_files, report.n_entries) == (0, 0)
    [described] = list_indexes(stream.snapshot())
    assert (described.covered_share, described.bytes_per_entry) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (["nothing"], "no column 'nothing'"),
        (["blob"], "has no order"),
        (["venue", "venue"], "twice"),
        (["venue", "blob"], "has no order"),
    ],
)
def test_what_cannot_be_indexed_is_refused_and_leaves_nothing(
    stream: Stream, attributes: list[str], message: str
) -> None:
    with pytest.raises(IndexingError, match=message):
        create(stream, attributes)
    assert open_indexes(stream.snapshot()).attributes == ()
    assert not (stream.path / "index").exists()


@pytest.mark.parametrize("name", ["item#", "ok?"])
def test_a_column_whose_folder_would_have_no_history_is_not_indexed(
    tmp_path: Path, name: str
) -> None:
    schema = pa.schema([("t", pa.int64()), (name, pa.int64())])
    stream = create_store(tmp_path / "store").create_stream("s", schema, StreamSettings("t"))
    with pytest.raises(IndexingError, match="rename the column to index it"):
        create_index(stream, [name])
    assert list_indexes(stream.snapshot()) == []


def test_each_data_file_is_read_once_with_the_columns_needed(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chronicle.tree.blocks import BlockReader

    reads: list[tuple[str, tuple[str, ...]]] = []
    read = BlockReader.read

    def counting(self: Any, name: str, groups: Any, columns: Any, *args: Any, **more: Any) -> Any:
        reads.append((name, tuple(columns)))
        return read(self, name, groups, columns, *args, **more)

    monkeypatch.setattr(BlockReader, "read", counting)
    create(stream, ["venue", "price"])
    assert sorted(name for name, _ in reads) == [f.name for f in stream.snapshot().files]
    assert {columns for _, columns in reads} == {("venue", "price", "t")}


def test_progress_is_told_and_runs_are_committed_some_files_at_a_time(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexing.lifecycle.FILES_PER_COMMIT", 2)
    told: list[str] = []
    create(stream, ["venue"], progress=told.append)
    assert told == [f"indexed {n} of 5 data files" for n in (2, 4, 5)]


def test_jobs_can_be_sent_to_other_processes(stream: Stream) -> None:
    def elsewhere(job: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return pickle.loads(pickle.dumps(run_locally(*pickle.loads(pickle.dumps((job, tasks))))))

    create(stream, ["venue"], runner=elsewhere)
    assert tail_of(stream, "venue") == 0
    compact_index(stream, full=True, runner=elsewhere)
    assert list_indexes(stream.snapshot())[0].n_runs == 1
    assert_answers(stream, rows(N), ["venue"])


@pytest.mark.parametrize("step", range(1, 14))
def test_killed_while_creating_leaves_right_answers_and_creating_again_completes(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    steps = ["chronicle.log.delta_log.create_table", "chronicle.log.delta_log.commit_changes",
             "indexing.lifecycle.write_runs"]  # fmt: skip
    with monkeypatch.context() as patch, killed_at(step, steps) as calls:
        patch.setattr("indexing.lifecycle.FILES_PER_COMMIT", 2)
        create(stream, ["venue", "price"])
    assert calls == [step]
    there = [a for a in ("venue", "price") if a in open_indexes(stream.snapshot()).attributes]
    assert_answers(stream, rows(N), there)
    create(stream, ["venue", "price"])
    assert [tail_of(stream, a) for a in ("venue", "price")] == [0, 0]
    assert_answers(stream, rows(N), ["venue", "price"])


def test_a_damaged_events_file_stops_the_creation_and_is_named(stream: Stream) -> None:
    name = stream.snapshot().files[2].name
    path = stream.path / "events" / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptBlockError, match=name):
        create(stream, ["venue"])


@pytest.mark.parametrize("writes_runs", [False, True])
def test_events_appended_while_an_index_is_created_are_found(
    stream: Stream, writes_runs: bool
) -> None:
    def slow(job: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        commit_table(
            stream, rows(10, first=N), derived=RunWriter(("venue",), "t") if writes_runs else None
        )
        return run_locally(job, tasks)

    create(stream, ["venue"], runner=slow)
    assert tail_of(stream, "venue") == (0 if writes_runs else 10)
    assert_answers(stream, rows(N + 10), ["venue"])


def test_two_creations_at_once_make_one_index(stream: Stream) -> None:
    def twice(job: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = run_locally(job, tasks)
        create(stream, ["venue"])
        return results

    create(stream, ["venue"], runner=twice)
    assert len(delta_log.live_files(stream.path / "index" / "venue")) == 5
    assert_answers(stream, rows(N), ["venue"])


def test_a_dropped_index_is_gone_and_can_be_made_again(stream: Stream) -> None:
    create(stream, ["venue", "price"])
    size = sum(p.stat().st_size for p in (stream.path / "index" / "venue").rglob("*.*"))
    assert drop_index(stream, "venue") >= size > 0
    assert open_indexes(stream.snapshot()).attributes == ("price",)
    assert [p.name for p in (stream.path / "index").iterdir()] == ["price"]
    create(stream, ["venue"])
    assert_answers(stream, rows(N), ["venue", "price"])


def test_queries_under_way_read_the_events_once_their_index_is_dropped(stream: Stream) -> None:
    create(stream, ["venue"])
    clear_caches()
    index = open_indexes(stream.snapshot()).index("venue")
    assert index.n_tail_events == 0  # the runs are open now
    drop_index(stream, "venue")
    assert index.lookup(KeyRanges.of([RANGES["venue"]])).seq.tolist() == VENUE_ROWS


def test_an_index_made_again_is_seen_though_its_versions_start_anew(stream: Stream) -> None:
    create(stream, ["venue"])
    compact_index(stream, full=True)
    snapshot = stream.snapshot()
    assert tail_of(stream, "venue") == 0
    drop_index(stream, "venue")
    create(stream, ["venue"])
    assert stream.snapshot() is snapshot
    assert_answers(stream, rows(N), ["venue"])
    assert tail_of(stream, "venue") == 0
    assert open_indexes(snapshot).faults == []


def test_what_is_not_indexed_cannot_be_dropped_or_compacted(stream: Stream) -> None:
    create(stream, ["venue"])
    for name in ("price", "nothing", "..", ".", ""):
        with pytest.raises(UnknownIndexError, match="indexes: venue"):
            drop_index(stream, name)
        with pytest.raises(UnknownIndexError, match="indexes: venue"):
            compact_index(stream, name)


def test_a_column_called_like_the_way_to_the_events_drops_none_of_them(tmp_path: Path) -> None:
    name = "../events"
    schema = pa.schema([("t", pa.int64()), (name, pa.int64())])
    store = create_store(tmp_path / "store")
    stream = store.create_stream("s", schema, StreamSettings("t"))
    stream.append(pa.table({"t": [1, 2], name: [3, 4]}))
    (stream.path / "index").mkdir()
    with pytest.raises(UnknownIndexError):
        drop_index(stream, name)
    assert stream.snapshot().n_events == 2


def test_an_index_with_a_damaged_log_is_named_answers_from_the_events_and_can_be_dropped(
    stream: Stream,
) -> None:
    create(stream, ["venue"])
    for commit in (stream.path / "index" / "venue" / "_delta_log").glob("*.json"):
        commit.write_text("no json", encoding="utf-8")
    [fault] = open_indexes(stream.snapshot()).faults
    assert "'venue'" in fault
    assert tail_of(stream, "venue") == N
    assert_answers(stream, rows(N), ["venue"])
    drop_index(stream, "venue")
    create(stream, ["venue"])
    assert tail_of(stream, "venue") == 0


def test_killed_while_dropping_leaves_no_index_and_the_next_drop_clears_up(
    stream: Stream,
) -> None:
    create(stream, ["venue", "price"])
    with killed_at(1, ["shutil.rmtree"]):
        drop_index(stream, "venue")
    assert open_indexes(stream.snapshot()).attributes == ("price",)
    assert len(list((stream.path / "index").iterdir())) == 2
    drop_index(stream, "price")
    assert list((stream.path / "index").iterdir()) == []


def test_files_that_cannot_be_deleted_are_named(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(stream, ["venue"])

    def refuse(_: Path) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(StorageError, match=r"'venue'.*not permitted.*'\.dropped-'"):
        drop_index(stream, "venue")
    assert open_indexes(stream.snapshot()).attributes == ()


def append(stream: Stream, *, steps: int) -> list[WrittenFile]:
    """Append ten events with runs and commit ``steps`` of them, the tree and the runs."""
    files = write_table(stream, rows(10, first=N), derived=RunWriter(ALL, "t"))
    version = stream.snapshot().version
    commit_events(stream, Change(tuple(files)), read_version=version, metadata={})
    if steps > 1:
        commit_tree(stream, files)
    if steps > 2:
        commit_derived(stream, files)
    return files


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_commit_cut_short_leaves_a_tail_and_right_answers(stream: Stream, steps: int) -> None:
    create(stream, ALL)
    append(stream, steps=steps)
    assert tail_of(stream, "price") == (0 if steps == 3 else 10)
    assert_answers(stream, rows(N + 10), ALL)


def test_indexes_are_opened_anew_only_when_something_was_committed(stream: Stream) -> None:
    create(stream, ALL)
    opened = open_indexes(stream.snapshot())
    assert open_indexes(stream.snapshot()) is opened
    files = append(stream, steps=1)
    assert open_indexes(stream.snapshot()) is not opened
    # Runs that are committed later are seen by the same snapshot.
    snapshot = stream.snapshot()
    assert open_indexes(snapshot).index("price").n_tail_events == 10
    commit_derived(stream, files)
    assert open_indexes(snapshot).index("price").n_tail_events == 0
    assert_answers(stream, rows(N + 10), ALL)


def test_listing_tells_sizes_and_what_no_run_covers(stream: Stream) -> None:
    create(stream, ["venue", "price"], least_events=6)
    commit_table(stream, rows(5, first=N), derived=RunWriter(("venue",), "t"))
    price, venue = list_indexes(stream.snapshot())
    assert (price.attribute, price.n_runs, price.n_entries) == ("price", 4, 32)
    assert (venue.attribute, venue.n_runs, venue.n_entries) == ("venue", 5, 45)
    assert (price.n_events, price.n_tail_events) == (50, 10)
    assert (price.covered_share, venue.covered_share) == (0.8, 0.9)
    folder = stream.path / "index" / "price"
    assert price.size_bytes == sum(p.stat().st_size for p in folder.glob("*.parquet"))
    assert price.bytes_per_entry == price.size_bytes / 32
    assert (price.faults, venue.faults) == ((), ())


def test_listing_names_damaged_runs(stream: Stream) -> None:
    create(stream, ["venue"])
    name = stream.snapshot().files[0].name
    (stream.path / "index" / "venue" / name).write_bytes(b"no run")
    clear_caches()
    [described] = list_indexes(stream.snapshot())
    assert (described.n_runs, described.n_tail_events) == (4, 10)
    [fault] = described.faults
    assert name in fault


def test_compaction_merges_runs_of_like_size_and_full_all(stream: Stream) -> None:
    create(stream, ["venue"])
    # Four of 10 entries are of one tier; the fifth, of 5, is too: 4 <= 5 < 16.
    [report] = compact_index(stream, "venue")
    assert (report.n_runs_before, report.n_runs_after, report.n_entries) == (5, 1, 45)
    commit_table(stream, rows(3, first=N), derived=RunWriter(("venue",), "t"))
    [report] = compact_index(stream)
    assert (report.n_runs_before, report.n_runs_after, report.n_entries) == (2, 2, 0)
    [report] = compact_index(stream, full=True)
    assert (report.n_runs_before, report.n_runs_after, report.n_entries) == (2, 1, 48)
    assert_answers(stream, rows(N + 3), ["venue"])


@pytest.mark.parametrize("is_merged", [False, True], ids=["before", "after"])
def test_an_index_dropped_by_another_while_its_runs_are_merged_has_none(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, is_merged: bool
) -> None:
    create_index(stream, ["venue"], least_events=0)
    drop = partial(drop_index, open_store(stream.path.parent).stream(stream.name), "venue")
    meet(monkeypatch, lifecycle, "commit_tidy", drop, after=is_merged)
    [report] = compact_index(stream, full=True)
    assert report.n_runs_after == 0
    assert list_indexes(stream.snapshot()) == []


def test_older_snapshots_answer_from_runs_merged_later(stream: Stream) -> None:
    create(stream, ["venue"])
    old = stream.snapshot()
    commit_table(stream, rows(10, first=N), derived=RunWriter(("venue",), "t"))
    compact_index(stream, full=True)
    index = open_indexes(old).index("venue")
    assert index.n_tail_events == 0
    assert index.lookup(KeyRanges.of([RANGES["venue"]])).seq.tolist() == VENUE_ROWS


@pytest.mark.parametrize("step", [1, 2, 3])
def test_killed_while_compacting_leaves_the_old_runs_or_the_new(stream: Stream, step: int) -> None:
    create(stream, ["venue", "price"])
    steps = ["indexing.compaction.merge_runs", "chronicle.log.delta_log.commit_changes"]
    with killed_at(step, steps) as calls:
        compact_index(stream)
    assert calls == [step]
    assert {d.n_runs for d in list_indexes(stream.snapshot())} == {5}
    assert_answers(stream, rows(N), ["venue", "price"])
    compact_index(stream)
    assert {d.n_runs for d in list_indexes(stream.snapshot())} == {1}
    assert_answers(stream, rows(N), ["venue", "price"])


def test_two_compactions_at_once_leave_one_run_in_the_end(stream: Stream) -> None:
    create(stream, ["venue"])

    def twice(job: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = run_locally(job, tasks)
        compact_index(stream, "venue")
        return results

    compact_index(stream, "venue", runner=twice)
    assert_answers(stream, rows(N), ["venue"])
    assert len(delta_log.live_files(stream.path / "index" / "venue")) == 2
    compact_index(stream, "venue")
    assert len(delta_log.live_files(stream.path / "index" / "venue")) == 1
    assert tail_of(stream, "venue") == 0
    assert_answers(stream, rows(N), ["venue"])


def test_tidy_keeps_its_budget_and_takes_damaged_runs_out(stream: Stream) -> None:
    create(stream, ["venue", "price"])
    writer = RunWriter(("venue", "price"), "t")
    live = [f.name for f in stream.snapshot().files]
    assert list(writer.tidy(stream.path, live, budget=20)) == []
    path = stream.path / "index" / "venue" / live[1]
    flip_byte(path, 6)  # an entry, which no footer shows
    venue, price = writer.tidy(stream.path, live, budget=90)
    assert venue.removed[0] == live[1]
    assert set(venue.removed) == set(live)
    assert set(price.removed) == set(live)
    assert sum(file.n_rows for c in (venue, price) for file in c.added) == 35 + 36
    folders = [stream.path / "index" / a for a in ("venue", "price")]
    assert [len(list(folder.glob("*.parquet"))) for folder in folders] == [6, 6]


def test_tidy_takes_out_runs_whose_footer_is_damaged(stream: Stream) -> None:
    create(stream, ["venue"])
    live = [f.name for f in stream.snapshot().files]
    (stream.path / "index" / "venue" / live[1]).write_bytes(b"no run")
    [change] = RunWriter(("venue",), "t").tidy(stream.path, live, budget=0)
    assert (change.added, change.removed) == ((), (live[1],))


MANY = RUN_MERGE_WIDTH + 6


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose stream has more runs than are read at once, of an event each."""
    settings = StreamSettings(time="t", block_events=1, file_events=1)
    store = create_store(tmp_path_factory.mktemp("many") / "store")
    stream = store.create_stream("s", rows(1).schema, settings)
    commit_table(stream, rows(MANY), derived=RunWriter(("t",), "t"))
    return store.path


def test_runs_merged_in_two_rounds_leave_only_the_last_one(many_runs: Path, tmp_path: Path) -> None:
    stream = open_store(copytree(many_runs, tmp_path / "store")).stream("s")
    live = [f.name for f in stream.snapshot().files]
    [change] = RunWriter(("t",), "t").tidy(stream.path, live, budget=2 * MANY)
    # 64 and 6 in the first round, which are of different tiers: 4 ** 3 and 4 ** 1.
    assert sorted(file.n_rows for file in change.added) == [6, 64]
    assert sorted(change.removed) == sorted(live)
    commit_tidy(stream, [change])
    [report] = compact_index(stream, full=True)
    assert (report.n_runs_before, report.n_runs_after) == (2, 1)
    assert_answers(stream, rows(MANY), ["t"])


def test_full_compaction_of_more_runs_than_are_read_at_once_keeps_no_draft(
    many_runs: Path, tmp_path: Path
) -> None:
    stream = open_store(copytree(many_runs, tmp_path / "store")).stream("s")
    [report] = compact_index(stream, full=True)
    assert (report.n_runs_before, report.n_runs_after, report.n_entries) == (MANY, 1, MANY)
    assert len(list((stream.path / "index" / "t").glob("*.parquet"))) == MANY + 1
    assert_answers(stream, rows(MANY), ["t"])
