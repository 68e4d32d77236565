"""Versions have times that never go back, and a time finds the version that was newest then."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.describe import history
from chronicle.errors import VersionNotFoundError
from chronicle.log.delta_log import Commit
from chronicle.log.history import parse_version, to_history, version_at
from chronicle.write.commit import OPERATION
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import make_stream

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


def test_time_between_two_commits_finds_the_first_of_them() -> None:
    #  version   0      1      2
    #  ms        1000   2000   3000
    commits = newest_first([1000, 2000, 3000])
    asked = {999.5: None, 1000: 0, 1999.999: 0, 2000: 1, 2500: 1, 3000: 2, 10**9: 2}
    for time_ms, version in asked.items():
        if version is None:
            with pytest.raises(VersionNotFoundError, match=r"version 0 of 1970-01-01T00:00:01Z"):
                version_at(commits, at(time_ms))
        else:
            assert version_at(commits, at(time_ms)) == version


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
