"""The Delta log and its versions: their times never go back, and old ones answer as they did."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from chronicle.describe import history
from chronicle.errors import (
    CommitConflictError,
    CorruptBlockError,
    StorageError,
    VacuumedVersionError,
    VersionNotFoundError,
)
from chronicle.log import delta_log
from chronicle.log.delta_log import Commit, FollowedTable, NewFile
from chronicle.log.history import parse_version, to_history, version_at
from chronicle.store import _OLD_SNAPSHOTS_MAX, Stream, open_store
from chronicle.write.commit import OPERATION
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import TICKS, date_commits, make_stream, ticks

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
    date_commits(stream, NOON, dt.timedelta(hours=1))
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


SCHEMA = pa.schema([("t", pa.timestamp("us")), ("x", pa.int64())])


def _table(folder: Path) -> Path:
    path = folder / "deep" / "table"
    delta_log.create_table(path, SCHEMA, {"chronicle.note": "kept"})
    return path


def _add(path: Path, name: str, *, read_version: int | None) -> int:
    pq.write_table(SCHEMA.empty_table(), path / name)
    size = (path / name).stat().st_size
    files = delta_log.new_files([(name, size, 0)])
    return delta_log.commit_changes(
        path, add=files, read_version=read_version, metadata={"who": name}
    )


def test_creating_a_table_again_changes_nothing(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    delta_log.create_table(path, SCHEMA, {"chronicle.note": "other"})
    assert delta_log.load_table(path).properties["chronicle.note"] == "kept"
    assert [file.name for file in delta_log.live_files(path)] == ["a.parquet"]


@pytest.mark.parametrize(
    "read_version", [pytest.param(0, id="a transaction"), pytest.param(None, id="none")]
)
def test_stale_commit_conflicts_whatever_the_other_carried_where_a_version_was_read(
    tmp_path: Path, read_version: int | None
):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=read_version)
    with pytest.raises(CommitConflictError, match="after version 0"):
        _add(path, "b.parquet", read_version=0)
    _add(path, "c.parquet", read_version=None)
    assert {file.name for file in delta_log.live_files(path)} == {"a.parquet", "c.parquet"}


@pytest.mark.parametrize(
    ("error", "has_rival", "read_version", "is_conflict"),
    [
        (CommitFailedError("lost"), True, 0, True),
        (CommitFailedError("lost"), False, 0, False),
        (CommitFailedError("lost"), True, None, False),
        (OSError("no space"), True, 0, False),
    ],
)
def test_a_failed_commit_is_a_conflict_only_where_it_lost_to_another(
    tmp_path: Path, monkeypatch, error, has_rival: bool, read_version: int | None, is_conflict
):
    path = _table(tmp_path)

    def fail(*_args: object, **_options: object) -> None:
        monkeypatch.undo()
        if has_rival:
            _add(path, "rival.parquet", read_version=None)
        raise error

    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", fail)
    with pytest.raises(StorageError) as caught:
        _add(path, "a.parquet", read_version=read_version)
    assert isinstance(caught.value, CommitConflictError) is is_conflict


def test_missing_table_and_version_are_said(tmp_path: Path):
    with pytest.raises(StorageError, match="no Delta table at"):
        delta_log.load_table(tmp_path)
    assert not delta_log.table_exists(tmp_path)
    path = _table(tmp_path)
    with pytest.raises(StorageError, match=r"version 7 of Delta table .*; name a version from 0"):
        delta_log.load_table(path, 7)
    with pytest.raises(StorageError, match="no version -1 of Delta table"):
        delta_log.load_table(path, -1)


def test_damaged_log_is_said(tmp_path: Path):
    path = _table(tmp_path)
    (path / "_delta_log" / f"{1:020d}.json").write_text("{")
    with pytest.raises(StorageError, match=r"cannot be read .* puts it aside") as caught:
        delta_log.load_table(path)
    assert "\n" not in str(caught.value)


def test_missing_commit_is_said_without_the_inner_state_of_delta(tmp_path: Path):
    path = _table(tmp_path)
    for name in "abc":
        _add(path, f"{name}.parquet", read_version=None)
    (path / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(StorageError, match=r"found gap\); restore '.*_delta_log' from a copy$"):
        delta_log.load_table(path)


@pytest.mark.parametrize("n_gone", [1, 10])
def test_version_that_delta_cleaned_up_is_said(tmp_path: Path, n_gone: int):
    path = _table(tmp_path)
    for i in range(24):
        _add(path, f"{i}.parquet", read_version=None)
    assert list((path / "_delta_log").glob("*.checkpoint.parquet"))
    for version in range(n_gone):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    assert len(delta_log.live_files(path)) == 24
    with pytest.raises(StorageError, match=f"older commits than {n_gone} are gone: name a later"):
        delta_log.load_table(path, n_gone)


def test_what_is_not_live_cannot_be_taken_out_of_the_version_it_was_read_in(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    with pytest.raises(StorageError, match=r"'.*gone.parquet' is not part of version 1"):
        delta_log.commit_changes(path, remove=["gone.parquet"], read_version=1, metadata={})
    version = delta_log.commit_changes(path, remove=["gone"], read_version=None, metadata={})
    assert (version, delta_log.load_table(path).version) == (1, 1)


def test_transactions_ride_in_commits_and_outlive_checkpoints(tmp_path: Path):
    path = _table(tmp_path)
    assert delta_log.transaction_version(path, "source.a") is None
    big = (1 << 63) - 1
    delta_log.commit_changes(
        path, read_version=0, metadata={}, transactions={"source.a": big, "source.b": 2}
    )
    assert delta_log.changes_since(path, 0)[0].transactions.keys() == {
        "source.a",
        "source.b",
    }
    for i in range(1, 105):
        _add(path, f"f{i}.parquet", read_version=i)
    (checkpoint, *_) = sorted((path / "_delta_log").glob("*.checkpoint.parquet"))
    for commit in (path / "_delta_log").glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) <= int(checkpoint.name.split(".")[0]) - 1:
            commit.unlink()
    assert delta_log.transaction_version(path, "source.a") == big
    assert delta_log.transaction_version(path, "source.b") == 2


def test_moving_rows_between_files_is_no_change_of_data(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    delta_log.commit_changes(
        path, remove=["a.parquet"], read_version=1, metadata={}, data_change=False
    )
    (line,) = [
        line
        for line in (path / "_delta_log" / f"{2:020d}.json").read_text().splitlines()
        if '"remove"' in line
    ]
    assert '"dataChange":false' in line.replace(" ", "")


# ---------------------------------------------------------------------------------------------
# A table kept open sees what others commit, and reads no commit twice


def commit_path(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def same(followed: FollowedTable, path: Path) -> bool:
    fresh, state = delta_log.load_table(path), followed.state
    return (state.version, state.schema, dict(state.properties), sorted(map(str, state.files))) == (
        fresh.version, fresh.schema, dict(fresh.properties), sorted(map(str, fresh.files)),
    )  # fmt: skip


def test_refresh_gives_what_a_fresh_reader_sees(tmp_path: Path) -> None:
    path = _table(tmp_path)
    followed = FollowedTable(path)
    assert not followed.refresh()
    _add(path, "a.parquet", read_version=None)
    _add(path, "b.parquet", read_version=None)
    assert followed.refresh()
    assert same(followed, path)
    delta_log.commit_changes(path, remove=["a.parquet"], read_version=2, metadata={})
    delta_log.add_columns(
        path, pa.schema([("n", pa.string())]), read_version=3, metadata={"why": "asked"}
    )
    assert followed.refresh()
    assert same(followed, path)
    assert [file.name for file in followed.state.files] == ["b.parquet"]
    assert followed.state.schema.names == ["t", "x", "n"]
    assert not followed.refresh()


def test_commits_before_the_checkpoint_are_not_looked_at(tmp_path: Path) -> None:
    path = _table(tmp_path)
    for name in ("a.parquet", "b.parquet", "c.parquet"):
        _add(path, name, read_version=None)
    deltalake.DeltaTable(str(path)).create_checkpoint()
    _add(path, "d.parquet", read_version=None)
    commit_path(path, 2).write_bytes(b"")
    assert len(FollowedTable(path).state.files) == 4
    with pytest.raises(StorageError, match=r"0002\.json' is empty"):
        delta_log.load_table(path, 2)


def test_empty_commit_is_refused_each_time_until_it_is_restored(tmp_path: Path) -> None:
    path = _table(tmp_path)
    followed = FollowedTable(path)
    _add(path, "a.parquet", read_version=None)
    content = commit_path(path, 1).read_bytes()
    commit_path(path, 1).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(StorageError, match="is empty"):
            followed.refresh()
    with pytest.raises(StorageError, match="is empty"):
        FollowedTable(path)
    commit_path(path, 1).write_bytes(content)
    assert followed.refresh()
    assert same(followed, path)
    assert len(FollowedTable(path).state.files) == 1
    _add(path, "b.parquet", read_version=None)
    commit_path(path, 1).write_bytes(b"")  # in the middle
    with pytest.raises(StorageError, match="is empty"):
        FollowedTable(path)


def test_statistics_are_at_hand(tmp_path: Path) -> None:
    path = tmp_path / "table"
    delta_log.create_table(path, TICKS, {})
    (path / "a.parquet").write_bytes(b"data")
    file = NewFile("a.parquet", 4, {"numRecords": 3, "minValues": {"t": 1}, "maxValues": {"t": 9}})
    delta_log.commit_changes(path, add=[file], read_version=None, metadata={})
    rows = delta_log.load_table(path).statistics.to_pylist()
    assert [(row["path"], row["min"]["t"], row["max"]["t"]) for row in rows] == [
        ("a.parquet", 1, 9)
    ]


def test_columns_added_on_a_stale_version_conflict(tmp_path: Path) -> None:
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=None)
    columns = pa.schema([("n", pa.int64())])
    with pytest.raises(CommitConflictError, match="after version 0"):
        delta_log.add_columns(path, columns, read_version=0, metadata={})
    assert delta_log.load_table(path).schema == SCHEMA
    assert delta_log.add_columns(path, columns, read_version=1, metadata={"k": "v"}) == 2
    assert delta_log.commits(path)[0].metadata["k"] == "v"
    assert delta_log.load_table(path).schema == SCHEMA.append(pa.field("n", pa.int64()))


def test_columns_of_a_derived_table_are_added_once(tmp_path: Path) -> None:
    path = _table(tmp_path)
    columns = pa.schema([("x", pa.int64()), ("n", pa.int64())])
    for _ in range(2):
        assert delta_log.add_columns(path, columns, read_version=None, metadata={}) == 1
    assert delta_log.load_table(path).schema.names == ["t", "x", "n"]
