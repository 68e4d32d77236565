"""Versions have times that never go back, and old ones answer as they did."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.describe import history
from chronicle.errors import (
    CorruptBlockError,
    StorageError,
    VacuumedVersionError,
    VersionNotFoundError,
)
from chronicle.log import delta_log
from chronicle.log.delta_log import Commit
from chronicle.log.history import parse_version, to_history, version_at
from chronicle.store import _OLD_SNAPSHOTS_MAX, Stream, open_store
from chronicle.write.commit import OPERATION
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import TICKS, make_stream, ticks

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def commit(version: int, time_ms: int, **metadata: str) -> Commit:
    said = {OPERATION if name == "operation" else name: text for name, text in metadata.items()}
    return Commit(version, time_ms, "WRITE", said)


def at(time_ms: float) -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=time_ms)


def newest_first(times: list[int], first: int = 0) -> list[Commit]:
    return [commit(first + i, time) for i, time in enumerate(times)][::-1]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 25), st.integers(0, 5))
def test_time_finds_the_latest_version_of_all_committed_until_then(
    times: list[int], asked: int, first: int
) -> None:
    commits = newest_first(times, first)
    # The naive reading: a version is committed once it and all before it are.
    until = [first + i for i in range(len(times)) if all(t <= asked for t in times[: i + 1])]
    if until:
        assert version_at(commits, at(asked)) == max(until)
    else:
        with pytest.raises(VersionNotFoundError):
            version_at(commits, at(asked))


def test_clock_that_went_back_hides_no_version() -> None:
    #  version   0      1      2 (clock 4 s back)   3
    #  ms        1000   5000   1000                 6000
    commits = newest_first([1000, 5000, 1000, 6000])
    assert version_at(commits, at(4999)) == 0
    assert version_at(commits, at(5000)) == 2
    assert [entry.time for entry in to_history(commits, None)] == [
        at(6000), at(5000), at(5000), at(1000),
    ]  # fmt: skip


def test_time_without_a_zone_is_utc_and_others_are_converted() -> None:
    commits = newest_first([0, 3_600_000])
    east = dt.timezone(dt.timedelta(hours=1))
    assert version_at(commits, dt.datetime(1970, 1, 1, 0, 59, 59)) == 0
    assert version_at(commits, dt.datetime(1970, 1, 1, 1)) == 1
    assert version_at(commits, dt.datetime(1970, 1, 1, 1, tzinfo=east)) == 0
    assert version_at(commits, dt.datetime(1970, 1, 1, 2, tzinfo=east)) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 20240501 ", 20240501),
        ("2024-05-01", dt.datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01T12:30", dt.datetime(2024, 5, 1, 12, 30, tzinfo=UTC)),
        ("2024-05-01 12:30:00.5Z", dt.datetime(2024, 5, 1, 12, 30, 0, 500_000, UTC)),
        ("2024-05-01T12:30+02:00", dt.datetime(2024, 5, 1, 10, 30, tzinfo=UTC)),
    ],
)
def test_versions_are_numbers_or_iso_times(text: str, expected: object) -> None:
    assert parse_version(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "yesterday", "1.5", "2024-13-01", "٣ Mai"])
def test_text_that_is_no_version_is_said(text: str) -> None:
    with pytest.raises(VersionNotFoundError, match="neither a version nor a time"):
        parse_version(text)


def test_totals_follow_from_what_the_commits_say() -> None:
    commits = [
        commit(5, 5, operation="add column"),
        commit(4, 4, operation="delete", n_events="30"),
        commit(3, 3, operation="compact", n_events="999"),
        commit(2, 2, operation="append", n_events="20", n_late="5"),
        commit(1, 1, operation="ingest", n_events="100", sources='[{"path": "/a.csv"}]'),
        Commit(0, 0, "CREATE TABLE", {}),
    ]
    entries = to_history(commits, 90)
    assert [entry.n_events_total for entry in entries] == [90, 90, 120, 120, 100, 0]
    assert [entry.operation for entry in entries] == [
        "add column", "delete", "compact", "append", "ingest", "create",
    ]  # fmt: skip
    assert [entry.n_late for entry in entries] == [0, 0, 0, 5, 0, 0]
    assert entries[4].sources == ("/a.csv",)
    assert entries[4].to_dict()["time"] == "1970-01-01T00:00:00.001000Z"


def test_foreign_commit_ends_what_is_known_of_totals() -> None:
    commits = [
        commit(3, 3, operation="append", n_events="20"),
        Commit(2, 2, "OPTIMIZE", {}),
        commit(1, 1, operation="ingest", n_events="100"),
        Commit(0, 0, "CREATE TABLE", {}),
    ]
    entries = to_history(commits, 120)
    assert [entry.n_events_total for entry in entries] == [120, 100, None, 0]
    assert entries[1].operation == "optimize"


def test_history_of_a_stream_names_each_version(tmp_path: Path) -> None:
    table = pa.table({"t": [1, 2], "x": [1.0, 2.0]})
    stream = make_stream(tmp_path, [table], schema=table.schema)
    commit_table(stream, pa.table({"t": [5], "x": [3.0]}))
    entries = history(stream)
    assert [entry.version for entry in entries] == [2, 1, 0]
    assert entries[0].n_events_total == 3
    assert entries[-1].operation == "create"
    for entry in entries:
        found = stream.snapshot(entry.time).version
        # Commits of one millisecond cannot be told apart; the latest of them is found.
        assert found == max(e.version for e in entries if e.time == entry.time)


NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def hourly_stream(folder: Path, n_appends: int) -> Stream:
    """A stream created at noon to which ten events were appended at each full hour since."""
    stream = make_stream(folder, [], schema=TICKS)
    for i in range(n_appends):
        commit_table(stream, ticks(10 * i, 10 * i + 10))
    for commit in sorted((stream.path / "events" / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        time = NOON + dt.timedelta(hours=int(commit.stem))
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = int(time.timestamp() * 1000)
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return open_store(folder / "store").stream(stream.name)


def test_version_is_named_by_number_time_or_text(tmp_path: Path) -> None:
    stream = hourly_stream(tmp_path, 3)
    for version in (
        1, "1", NOON + dt.timedelta(minutes=119), "2024-05-01T13:59:59Z", "2024-05-01T13:00",
        "2024-05-01 15:30+02:00",
    ):  # fmt: skip
        snapshot = stream.snapshot(version)
        assert (snapshot.version, snapshot.n_events) == (1, 10)
    assert stream.snapshot("2024-05-02").n_events == 30
    assert stream.snapshot("2024-05-02") is stream.snapshot()
    assert stream.version_of("2024-05-01T12:00") == 0


def test_time_sees_what_was_committed_since_it_was_last_asked(tmp_path: Path) -> None:
    stream = hourly_stream(tmp_path, 1)
    assert stream.snapshot("2999-01-01").n_events == 10
    commit_table(open_store(tmp_path / "store").stream(stream.name), ticks(10, 20))
    assert stream.snapshot("2999-01-01").n_events == 20


def test_time_before_the_stream_names_its_first(tmp_path: Path) -> None:
    stream = hourly_stream(tmp_path, 2)
    with pytest.raises(VersionNotFoundError, match=r"version 0 of 2024-05-01T12:00:00Z"):
        stream.snapshot("2024-05-01T11:59:59.999")
    with pytest.raises(StorageError, match="name a version from 0"):
        stream.snapshot(99)


def test_vacuumed_version_says_so_and_the_newest_is_read(tmp_path: Path) -> None:
    stream = hourly_stream(tmp_path, 2)
    replaced, kept = stream.snapshot().files
    path = stream.path / "events"
    delta_log.commit_changes(path, remove=[replaced.name], read_version=2, metadata={})
    (path / replaced.name).unlink()
    with pytest.raises(VacuumedVersionError, match=r"version 1 .*vacuumed.*name a later version"):
        stream.snapshot(1)
    assert [file.name for file in stream.snapshot().files] == [kept.name]


def test_missing_file_of_the_newest_version_is_damage_in_old_ones_too(tmp_path: Path) -> None:
    stream = hourly_stream(tmp_path, 2)
    (stream.path / "events" / stream.snapshot(1).files[0].name).unlink()
    with pytest.raises(CorruptBlockError, match=r"--skip-damaged.*chronicle check"):
        stream.snapshot(1).read_blocks(np.array([0]), ["x"])


def test_trees_of_old_versions_are_kept_for_a_few_only(tmp_path: Path) -> None:
    n = _OLD_SNAPSHOTS_MAX + 4
    stream = hourly_stream(tmp_path, n)
    path = stream.path / "events"
    for version in range(n, 2 * n):  # every version has a file of its own
        oldest = stream.snapshot().files[0].name
        delta_log.commit_changes(path, remove=[oldest], read_version=version, metadata={})
    assert stream.snapshot().n_events == 0
    for version in range(1, n + 1):
        assert stream.snapshot(version).n_events == 10 * version
        assert stream.snapshot().n_events == 0
    kept = [stream.snapshot(v).files for v in range(n + 1 - _OLD_SNAPSHOTS_MAX, n + 1)]
    assert set(stream._trees) == {file.name for files in kept for file in files}
    for version in (0, 2 * n - 1, 2 * n - 2, 2 * n - 3):
        stream.snapshot(version)
    assert len(stream._trees) == 3


def test_trees_of_the_newest_version_stay_while_old_ones_are_read(tmp_path: Path) -> None:
    stream = hourly_stream(tmp_path, 3)
    newest = stream.snapshot()
    trees = {name: id(tree) for name, tree in stream._trees.items()}
    commit_table(open_store(tmp_path / "store").stream(stream.name), ticks(30, 40))
    stream.snapshot(1)  # the newest is not taken yet
    assert stream.snapshot().n_events == newest.n_events + 10
    assert trees.items() <= {name: id(tree) for name, tree in stream._trees.items()}.items()
