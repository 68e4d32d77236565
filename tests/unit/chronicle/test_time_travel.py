"""Old versions answer as they did, by number and by time, and say so when they cannot."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chronicle.errors import (
    CorruptBlockError,
    StorageError,
    VacuumedVersionError,
    VersionNotFoundError,
)
from chronicle.log import delta_log
from chronicle.store import _OLD_SNAPSHOTS_MAX, Stream, open_store
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import make_stream

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64())])
NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def ticks(start: int, n: int = 10) -> pa.Table:
    return pa.table(
        {"t": range(start, start + n), "x": [float(i) for i in range(n)]}, schema=SCHEMA
    )


def hourly_stream(folder: Path, n_appends: int) -> Stream:
    """A stream created at noon to which ten events were appended at each full hour since."""
    stream = make_stream(folder, [], schema=SCHEMA)
    for i in range(n_appends):
        commit_table(stream, ticks(10 * i))
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
    commit_table(open_store(tmp_path / "store").stream(stream.name), ticks(10))
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
    commit_table(open_store(tmp_path / "store").stream(stream.name), ticks(30))
    stream.snapshot(1)  # the newest is not taken yet
    assert stream.snapshot().n_events == newest.n_events + 10
    assert trees.items() <= {name: id(tree) for name, tree in stream._trees.items()}.items()
