"""Errors of the disk: what was not handed out is not damaged, what cannot be written is said.

What fails once events are in the stream is said, and nobody adds them twice; from files that a
power failure cut nothing is answered, and repair puts logs right.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import DeltaError

import chronicle.write.commit as commit_module
import replay
from chronicle import Store, Stream, StreamSettings, create_store, open_store
from chronicle.errors import (
    ChronicleError,
    CorruptBlockError,
    StorageError,
    UnflushedCommitError,
    UnreadFileError,
)
from chronicle.log.delta_log.files import commit_path, put_aside, torn_files
from chronicle.log.stream_metadata import add_metadata
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Severity, faults_of
from chronicle.maintenance.repair import repair_stream
from chronicle.stream_folder import open_staging
from chronicle.tree.blocks import IDLE_FILES_MAX
from chronicle.write.append import append
from chronicle.write.commit import remove_uncommitted
from chronicle.write.lifecycle import delete_range
from chronicle.write.quarantine import QuarantineWriter
from indexing import RunWriter, clear_caches
from indexing.check import check_runs
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from replay import query
from replay.engines.weights import store_weights
from tests.crash_points import dying_at
from tests.helpers import write_table
from tests.store_model import NUMBERED, PROBE, Row, check_answers, plain, rows_of
from tests.unit.chronicle.stream_cases import TICKS, at, seen_times

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64())])
RUNS = RunWriter(("x",), "t")
QUERY = "SELECT t, x FROM s WHERE x = 3"


def events(first: int, stop: int) -> pa.Table:
    times = list(range(first, stop))
    return pa.table({"t": times, "x": [t % 7 for t in times]}, schema=SCHEMA)


def make_store(path: Path, *, n_files: int) -> Store:
    store = create_store(path)
    knobs = StreamSettings(time="t", block_events=4, file_events=8, fan_out=2)
    stream = store.create_stream("s", SCHEMA, knobs)
    stream.append(events(0, 8 * n_files), derived=RUNS)
    return store


def reading_fails(number: int, which: Callable[[str], bool]) -> Any:
    """Let opening certain files fail, however Python opens them."""
    real_open, real_os = Path.open, os.open

    def check(path: Any) -> None:
        if which(str(path)):
            raise OSError(number, os.strerror(number), str(path))

    def opened(path: Path, *args: Any, **options: Any) -> Any:
        check(path)
        return real_open(path, *args, **options)

    def os_opened(path: Any, *args: Any, **options: Any) -> int:
        check(path)
        return real_os(path, *args, **options)

    clear_caches()
    return patch.multiple(Path, open=opened), patch("os.open", os_opened)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_a_service_that_opens_the_store_for_each_question_keeps_few_files_open(tmp_path: Path):
    make_store(tmp_path / "store", n_files=20)

    def n_open() -> int:
        links = (os.path.realpath(path) for path in Path("/proc/self/fd").iterdir())
        return sum(str(tmp_path) in link for link in links)

    kept = []
    for _ in range(8):
        store = open_store(tmp_path / "store")
        kept.append(store)  # as caches and half-read answers keep them
        assert replay.query(store, QUERY, plan="full").table.num_rows == 23
    assert n_open() <= IDLE_FILES_MAX


def test_where_files_run_out_the_answer_says_so_and_comes_later(tmp_path: Path):
    store = make_store(tmp_path / "store", n_files=3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 400), hard))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for ask in (
            lambda: replay.query(store, QUERY, skip_damaged=True),
            lambda: open_store(store.path),
            lambda: check_stream(store.path / "s"),
        ):
            with pytest.raises((UnreadFileError, OSError), match="Too many open files") as caught:
                ask()
            assert "restore" not in str(caught.value)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    result = replay.query(store, QUERY)
    assert result.table.num_rows == 3
    assert result.actual.warnings == ()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES])
def test_events_that_are_not_handed_out_are_not_damaged(tmp_path: Path, number: int):
    store = make_store(tmp_path / "store", n_files=2)
    path, low = reading_fails(number, lambda name: "/events/" in name and name.endswith("parquet"))
    with path, low, pytest.raises(UnreadFileError) as caught:
        replay.query(store, QUERY, plan="full", skip_damaged=True)
    assert not isinstance(caught.value, CorruptBlockError)
    assert os.strerror(number) in str(caught.value)
    assert "restore" not in str(caught.value)
    with path, low:
        told = [f for f in check_stream(store.path / "s") if f.severity == "fault"]
    assert told
    assert all(finding.is_unread for finding in told)


def test_repair_leaves_alone_what_the_disk_did_not_hand_out(tmp_path: Path):
    store = make_store(tmp_path / "store", n_files=2)
    derived = sorted((store.path / "s").glob("index/x/*.parquet"))
    before = {path: path.stat().st_ino for path in derived}
    path, low = reading_fails(errno.EIO, lambda name: "/index/x/" in name)
    with path, low:
        repair_stream(store.path / "s", derived_checks=(check_runs,))
    assert {path: path.stat().st_ino for path in derived} == before
    assert replay.query(store, QUERY, plan="all").table.num_rows == 2


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_derived_files_that_are_not_handed_out_cost_time_and_are_not_made_anew(
    tmp_path: Path, number: int
):
    store = make_store(tmp_path / "store", n_files=2)
    path, low = reading_fails(number, lambda name: "/tree/" in name or "/index/" in name)
    with path, low:
        result = replay.query(store, QUERY)
    assert result.table.num_rows == 2
    assert "repair" not in " ".join(result.actual.warnings)


def test_a_log_that_is_not_looked_into_hides_no_commit(tmp_path: Path):
    stream = make_store(tmp_path / "store", n_files=1).stream("s")
    real = os.stat

    def fails(path: Any, *args: Any, **options: Any) -> Any:
        if "_delta_log" in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *args, **options)

    with patch("os.stat", fails), pytest.raises(UnreadFileError, match="Input/output"):
        stream.snapshot()


# What cannot be written.

WRITES: dict[str, Callable[[Store, Stream], Any]] = {
    "append": lambda _, stream: stream.append(events(100, 120), derived=RUNS),
    "late": lambda _, stream: stream.append(events(0, 3)),
    "quarantine": lambda _, stream: stream.append(events(0, 3), late="quarantine"),
    "compact": lambda _, stream: compact_events(stream, derived=RUNS, full=True),
    "declare": lambda _, stream: add_metadata(stream.path, tables=["index/y"]),
    "weights": lambda store, _: store_weights(store.path, {}),
    "create": lambda store, _: store.create_stream("u", SCHEMA, StreamSettings(time="t")),
    "store": lambda store, _: create_store(store.path / "inner"),
}


def make_grown(path: Path) -> tuple[Store, Stream, list[Row]]:
    """Make a store whose stream has small files to merge; return its rows, too."""
    store = make_store(path, n_files=2)
    stream = store.stream("s")
    stream.append(events(16, 18))
    stream.append(events(18, 20))
    return store, stream, rows_of(stream)


@pytest.fixture
def limited() -> Iterator[Callable[[], None]]:
    """Let no file grow beyond a few bytes, as a full disk does, for whoever writes it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("what", WRITES)
def test_where_the_disk_takes_no_bytes_nothing_is_lost_and_it_is_said(
    tmp_path: Path, limited: Callable[[], None], what: str
):
    store, stream, before = make_grown(tmp_path / "store")
    limited()
    with pytest.raises(StorageError) as caught:
        WRITES[what](store, stream)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert "File too large" in str(caught.value)
    assert "'ulimit -f'" in str(caught.value)
    assert rows_of(open_store(store.path).stream("s")) == before
    assert [f for f in check_stream(stream) if f.severity == "fault"] == []
    stream.append(events(30, 33), derived=RUNS)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_what_cannot_be_written_is_said_with_path_and_remedy(tmp_path: Path, number: int):
    store, stream, before = make_grown(tmp_path / "store")
    full = OSError(number, os.strerror(number))
    for what in sorted(set(WRITES) - {"weights", "declare", "store"}):
        with (
            patch.object(pq.ParquetWriter, "write_table", side_effect=full),
            patch.object(Path, "mkdir", side_effect=full),
            pytest.raises(StorageError) as caught,
        ):
            WRITES[what](store, stream)
        said = str(caught.value)
        assert f"({os.strerror(number)}); " in said, what
        assert str(store.path) in said, what
        assert rows_of(stream) == before, what


def test_a_folder_for_work_that_cannot_be_made_is_said(tmp_path: Path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        patch.object(Path, "mkdir", side_effect=full),
        pytest.raises(StorageError, match="free space"),
        open_staging(tmp_path),
    ):
        pass


def test_a_quarantine_file_that_cannot_be_written_leaves_nothing(tmp_path: Path):
    writer = QuarantineWriter(tmp_path, "a.parquet")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        patch.object(pq.ParquetWriter, "write_table", side_effect=full),
        pytest.raises(StorageError, match="free space"),
    ):
        writer.write(pa.table({"batch": ["b"], "reason": ["r"], "source": ["s"], "record": ["x"]}))
    writer.discard()
    assert list(tmp_path.iterdir()) == []


# Flushing.


def test_a_commit_that_the_disk_does_not_confirm_is_not_told_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHRONICLE_SYNC", "on")
    stream = make_store(tmp_path / "store", n_files=1).stream("s")
    version = stream.refresh()
    name = f"{version + 1:020d}.json"
    real = os.fsync

    def fails(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with patch("os.fsync", fails), pytest.raises(UnflushedCommitError, match="do not run it again"):
        stream.append(events(8, 10))
    assert len(rows_of(stream)) == 10


def test_the_variable_that_turns_flushing_off_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHRONICLE_SYNC", "no")
    with pytest.raises(StorageError, match="set it to 'on'"):
        create_store(tmp_path / "store")


def test_files_stay_where_the_log_does_not_tell_whether_their_commit_landed(tmp_path: Path):
    stream = make_store(tmp_path / "store", n_files=1).stream("s")
    written = write_table(stream, events(8, 10))
    unread = UnreadFileError("commit", "Input/output error", "run it again")
    with patch("chronicle.log.delta_log.changes_since", side_effect=unread):
        remove_uncommitted(stream, written, since=1)
    assert (stream.path / "events" / written[0].name).exists()
    remove_uncommitted(stream, written, since=1)
    assert not (stream.path / "events" / written[0].name).exists()


SETTINGS = StreamSettings(time="t", block_events=2, file_events=6)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A stream with an index whose next append merges small files and runs, too."""
    store = create_store(tmp_path_factory.mktemp("prepared") / "store")
    stream = store.create_stream("s", TICKS, SETTINGS)
    create_index(stream, ["x"], least_events=0)
    for t in range(0, 30, 10):
        append(stream, at(t, t + 1), derived=runs(stream))
    return store


def runs(stream: Stream):
    return writer_for(stream, least_events=0)


CHANGES: dict[str, tuple[Callable[[Stream], object], list[int]]] = {
    "append": (
        lambda stream: stream.append(at(30, 31), derived=runs(stream)),
        [0, 1, 10, 11, 20, 21, 30, 31],
    ),
    "append of late events": (
        lambda stream: stream.append(at(5, 15, 40), derived=runs(stream)),
        [0, 1, 5, 10, 11, 15, 20, 21, 40],
    ),
    "delete": (
        lambda stream: delete_range(stream, 1, 11, derived=runs(stream)),
        [0, 11, 20, 21],
    ),
    "compact": (
        lambda stream: compact_events(stream, derived=runs(stream), full=True),
        [0, 1, 10, 11, 20, 21],
    ),
}

BEFORE = [0, 1, 10, 11, 20, 21]


def copy_of(prepared: Store, place: Path) -> Stream:
    shutil.copytree(prepared.path, place)
    return open_store(place).stream("s")


def cases() -> list[object]:
    faults = {
        "disk full": OSError(errno.ENOSPC, "No space left"),
        "Arrow": pa.ArrowInvalid("odd"),
        "Delta": DeltaError("odd"),
    }
    fast = {("append", "disk full")}
    return [
        pytest.param(
            name,
            fault,
            id=f"{name}, {kind}",
            marks=() if (name, kind) in fast else pytest.mark.slow,
        )
        for name in CHANGES
        for kind, fault in faults.items()
    ]


@pytest.mark.parametrize(("name", "fault"), cases())
def test_a_fault_at_any_step_is_either_a_failure_that_left_nothing_or_said_of_events_that_are_in(
    tmp_path: Path, prepared: Store, name: str, fault: Exception
) -> None:
    change, after = CHANGES[name]
    with dying_at(None, lambda: None) as steps:
        change(copy_of(prepared, tmp_path / "counting"))

    def fail() -> None:
        raise fault

    n_said = 0
    for step in range(steps.n_taken):
        stream = copy_of(prepared, tmp_path / str(step))
        try:
            with dying_at(step, fail):
                report = change(stream)
        except (ChronicleError, type(fault)):
            if name != "compact":
                assert seen_times(stream) == BEFORE, step
            continue
        assert seen_times(stream) == after, step
        said = report.fault  # type: ignore[attr-defined]
        n_said += said is not None
        found = check_stream(stream, derived_checks=[check_runs])
        is_missing = any(f.severity is not Severity.OK for f in found)
        if said is None and not is_missing:
            continue
        repaired = repair_stream(
            stream.path,
            derived=runs(open_store(stream.path.parent).stream("s")),
            derived_checks=[check_runs],
            leftover_age=dt.timedelta(0),
        )
        assert is_missing or not (repaired.n_written or repaired.removed), (step, said)
        found = check_stream(stream, deep=True, derived_checks=[check_runs])
        assert [f for f in found if f.severity is not Severity.OK] == [], (step, said)
        assert seen_times(stream) == after, step
    assert n_said, "no step comes after the commit of the events"


def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_append_that_is_in(
    tmp_path: Path,
) -> None:
    stream = create_store(tmp_path / "store").create_stream("s", TICKS, SETTINGS)
    log = stream.path / "events" / "_delta_log"
    for version in range(1, 30):  # where checkpoints would be, folders are in the way
        (log / f"{version:020d}.checkpoint.parquet").mkdir()
    for t in range(22):
        append(stream, at(t))
        assert seen_times(stream) == list(range(t + 1))


def test_a_stream_made_of_a_query_whose_tree_cannot_be_committed_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = create_store(tmp_path / "store")
    store.create_stream("s", TICKS, SETTINGS).append(at(1, 2))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(commit_module, "commit_tree", fail)
        with pytest.raises(ChronicleError, match="was not made"):
            query(store, "CREATE STREAM made AS SELECT t, x FROM s")
    assert store.stream_names() == ("s",)
    query(store, "CREATE STREAM made AS SELECT t, x FROM s")
    assert seen_times(store.stream("made")) == [1, 2]


NUMBERED_RUNS = RunWriter(("a", "s"), "t")
CUTS = {
    "empty": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "cut": lambda whole: whole[: len(whole) // 2],
    "zeros at its end": lambda whole: whole[: len(whole) // 2] + bytes(len(whole) // 2),
}


def rows_from(first: int, stop: int) -> list[Row]:
    return [
        {"t": t, "a": t % 3, "x": t / 2, "s": "ab"[t % 2], "f": None, "k": None, "n": t}
        for t in range(first, stop)
    ]


def make_numbered(path: Path, n_appends: int = 3) -> Store:
    store = create_store(path)
    knobs = StreamSettings(time="t", block_events=3, file_events=9, fan_out=2)
    stream = store.create_stream("s", NUMBERED, knobs)
    for i in range(n_appends):
        rows = rows_from(5 * i, 5 * i + 5)
        stream.append(pa.Table.from_pylist(rows, schema=NUMBERED), derived=NUMBERED_RUNS)
    return store


def newest_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("cut", CUTS)
def test_a_newest_commit_that_was_cut_is_put_aside_and_kept(tmp_path: Path, cut: str):
    store = make_numbered(tmp_path / "store")
    fresh = pa.Table.from_pylist(rows_from(15, 20), schema=NUMBERED)
    with (
        patch("chronicle.write.commit.commit_tree"),
        patch("chronicle.write.commit.commit_derived"),
    ):
        append(store.stream("s"), fresh)
    commit = newest_commit(store.path / "s/events")
    torn = CUTS[cut](commit.read_bytes())
    commit.write_bytes(torn)
    with pytest.raises(StorageError, match="'chronicle repair' puts it aside"):
        open_store(store.path).stream("s").snapshot()
    report = repair_stream(store.path / "s", derived=NUMBERED_RUNS, derived_checks=(check_runs,))
    assert report.put_aside == (f"s/put-aside/events/{commit.name}",)
    assert (store.path / report.put_aside[0]).read_bytes() == torn
    assert report.left == ()
    assert plain(rows_of(open_store(store.path).stream("s"))) == plain(rows_from(0, 15))
    open_store(store.path).stream("s").append(fresh, derived=NUMBERED_RUNS)
    check_answers(open_store(store.path), "s", rows_from(0, 20), PROBE)
    assert faults_of(check_stream(store.path / "s", deep=True)) == []


def test_a_commit_that_others_stand_on_stays_where_it_is(tmp_path: Path):
    store = make_numbered(tmp_path / "store")
    log = store.path / "s/events/_delta_log"
    (log / f"{2:020d}.json").write_bytes(b"")
    assert repair_stream(store.path / "s").put_aside == ()
    assert (log / f"{2:020d}.json").exists()


def test_what_is_put_aside_lies_beside_what_was_before(tmp_path: Path):
    file = tmp_path / "s/events/_delta_log/1.json"
    file.parent.mkdir(parents=True)
    for text in ("first", "second", "third"):
        file.write_text(text)
        assert put_aside(tmp_path / "s", file).read_text() == text
    kept = {path.name: path.read_text() for path in (tmp_path / "s/put-aside/events").iterdir()}
    assert kept == {"1.json": "first", "1.json.1": "second", "1.json.2": "third"}


def test_a_commit_that_was_whole_once_stays_where_it_is(tmp_path: Path):
    store = make_numbered(tmp_path / "store")
    commit = newest_commit(store.path / "s/events")
    commit.write_bytes(b"")
    report = repair_stream(store.path / "s", derived=NUMBERED_RUNS)
    assert report.put_aside == ()
    assert report.left
    assert commit.exists()


@pytest.mark.parametrize("table", ["tree", "index/a"])
def test_a_derived_table_whose_newest_commit_was_cut_costs_time(tmp_path: Path, table: str):
    store = make_numbered(tmp_path / "store")
    newest_commit(store.path / "s" / table).write_bytes(b"{")
    clear_caches()
    check_answers(open_store(store.path), "s", rows_from(0, 15), PROBE)
    report = repair_stream(store.path / "s", derived=NUMBERED_RUNS, derived_checks=(check_runs,))
    assert [Path(place).parent.as_posix() for place in report.put_aside] == [f"s/put-aside/{table}"]
    assert report.replaced == ()
    check = check_stream(store.path / "s", deep=True, derived_checks=(check_runs,))
    assert faults_of(check) == []


def test_a_checkpoint_that_was_cut_is_put_aside(tmp_path: Path):
    store = make_numbered(tmp_path / "store", n_appends=0)
    for i in range(21):
        rows = rows_from(i, i + 1)
        store.stream("s").append(pa.Table.from_pylist(rows, schema=NUMBERED))
    log = store.path / "s/events/_delta_log"
    [checkpoint] = log.glob("*.checkpoint*.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:500])
    not_handed_out = OSError(errno.EIO, "Input/output error")
    with patch("chronicle.log.delta_log.files.pq.read_table", side_effect=not_handed_out):
        assert torn_files(log.parent) == []
    one_gone = commit_path(log.parent, 3).rename(tmp_path / "commit")
    assert torn_files(log.parent) == []
    one_gone.rename(commit_path(log.parent, 3))
    with pytest.raises(StorageError, match="'chronicle repair' puts it aside"):
        open_store(store.path).stream("s").snapshot()
    report = repair_stream(store.path / "s", derived=NUMBERED_RUNS)
    assert report.put_aside == (f"s/put-aside/events/{checkpoint.name}",)
    assert plain(rows_of(open_store(store.path).stream("s"))) == plain(rows_from(0, 21))
