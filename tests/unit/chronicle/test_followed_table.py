"""A table kept open sees what others commit, and reads no commit twice."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from chronicle.errors import CommitConflictError, StorageError
from chronicle.log import delta_log
from chronicle.log.delta_log import FollowedTable, NewFile

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64())])


def make_table(folder: Path) -> Path:
    path = folder / "table"
    delta_log.create_table(path, SCHEMA, {"chronicle.time": "t"})
    return path


def add(path: Path, name: str) -> int:
    (path / name).write_bytes(b"data")
    statistics = {"numRecords": 3, "minValues": {"t": 1}, "maxValues": {"t": 9}}
    return delta_log.commit_changes(
        path, add=[NewFile(name, 4, statistics)], read_version=None, metadata={}
    )


def commit_path(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def same(followed: FollowedTable, path: Path) -> bool:
    fresh, state = delta_log.load_table(path), followed.state
    return (state.version, state.schema, dict(state.properties), sorted(map(str, state.files))) == (
        fresh.version, fresh.schema, dict(fresh.properties), sorted(map(str, fresh.files)),
    )  # fmt: skip


def test_refresh_gives_what_a_fresh_reader_sees(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    followed = FollowedTable(path)
    assert not followed.refresh()
    add(path, "a.parquet")
    add(path, "b.parquet")
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


def test_state_before_a_refresh_is_left_as_it_was(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    followed = FollowedTable(path)
    before = followed.state
    add(path, "a.parquet")
    followed.refresh()
    assert (before.version, before.files) == (0, ())


def test_commits_before_the_checkpoint_are_not_looked_at(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    for name in ("a.parquet", "b.parquet", "c.parquet"):
        add(path, name)
    deltalake.DeltaTable(str(path)).create_checkpoint()
    add(path, "d.parquet")
    commit_path(path, 2).write_bytes(b"")
    assert len(FollowedTable(path).state.files) == 4
    with pytest.raises(StorageError, match=r"0002\.json' is empty"):
        delta_log.load_table(path, 2)


def test_empty_commit_is_refused_each_time_until_it_is_restored(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    followed = FollowedTable(path)
    add(path, "a.parquet")
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


def test_statistics_are_at_hand(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    add(path, "a.parquet")
    rows = delta_log.load_table(path).statistics.to_pylist()
    assert [(row["path"], row["min"]["t"], row["max"]["t"]) for row in rows] == [
        ("a.parquet", 1, 9)
    ]


def test_columns_added_on_a_stale_version_conflict(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    add(path, "a.parquet")
    columns = pa.schema([("n", pa.int64())])
    with pytest.raises(CommitConflictError, match="after version 0"):
        delta_log.add_columns(path, columns, read_version=0, metadata={})
    assert delta_log.load_table(path).schema == SCHEMA
    assert delta_log.add_columns(path, columns, read_version=1, metadata={"k": "v"}) == 2
    assert delta_log.commits(path)[0].metadata["k"] == "v"
    assert delta_log.load_table(path).schema == SCHEMA.append(pa.field("n", pa.int64()))


def test_columns_of_a_derived_table_are_added_once(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    columns = pa.schema([("x", pa.float64()), ("n", pa.int64())])
    for _ in range(2):
        assert delta_log.add_columns(path, columns, read_version=None, metadata={}) == 1
    assert delta_log.load_table(path).schema.names == ["t", "x", "n"]
