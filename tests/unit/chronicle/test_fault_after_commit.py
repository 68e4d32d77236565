"""What fails once events are in the stream: the report says so, and nobody adds them twice."""

from __future__ import annotations

import datetime as dt
import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

import chronicle.write.commit as commit_module
from chronicle import Store, Stream, StreamSettings, create_store, open_store
from chronicle.errors import ChronicleError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.write.append import append
from chronicle.write.lifecycle import delete_range
from indexing.check import check_runs
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from replay import query
from tests.crash_points import dying_at
from tests.unit.chronicle.stream_cases import TICKS, at, seen_times

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
