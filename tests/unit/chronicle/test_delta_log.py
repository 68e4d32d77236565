"""The Delta log: create, add, list, and notice newer versions."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import CommitConflictError, StorageError
from chronicle.log import delta_log
from chronicle.log.delta_log import FollowedTable, NewFile
from tests.unit.chronicle.stream_cases import TICKS

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


def test_stale_commit_conflicts_only_where_a_version_was_read(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    with pytest.raises(CommitConflictError, match="after version 0"):
        _add(path, "b.parquet", read_version=0)
    _add(path, "c.parquet", read_version=None)
    assert {file.name for file in delta_log.live_files(path)} == {"a.parquet", "c.parquet"}


def test_commit_that_carries_no_transaction_conflicts_too(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "optimised-by-others.parquet", read_version=None)
    with pytest.raises(CommitConflictError):
        _add(path, "b.parquet", read_version=0)


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
    assert delta_log.changes_since(path, 0)[0].transactions == {"source.a", "source.b"}
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
