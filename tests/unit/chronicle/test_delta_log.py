"""The Delta log: create, add, list, and notice newer versions."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import delta_log
from chronicle.errors import CommitConflictError, StorageError

SCHEMA = pa.schema([("t", pa.timestamp("us")), ("x", pa.int64())])


def _table(folder: Path) -> Path:
    path = folder / "deep" / "table"
    delta_log.create_table(path, SCHEMA, {"chronicle.note": "kept"})
    return path


def _add(path: Path, name: str, *, read_version: int | None) -> int:
    pq.write_table(SCHEMA.empty_table(), path / name)
    size = (path / name).stat().st_size
    files = delta_log.new_files([(name, size, 0)])
    return delta_log.add_files(path, files, read_version=read_version, metadata={"who": name})


def test_new_table_has_schema_properties_and_no_files(tmp_path: Path):
    path = _table(tmp_path)
    state = delta_log.load_table(path)
    assert (state.version, state.files) == (0, ())
    assert state.schema.names == ["t", "x"]
    assert state.schema.field("t").type == pa.timestamp("us")
    assert state.properties["chronicle.note"] == "kept"


def test_creating_a_table_again_changes_nothing(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    delta_log.create_table(path, SCHEMA, {"chronicle.note": "other"})
    assert delta_log.load_table(path).properties["chronicle.note"] == "kept"
    assert [file.name for file in delta_log.live_files(path)] == ["a.parquet"]


def test_versions_list_their_own_files(tmp_path: Path):
    path = _table(tmp_path)
    assert not delta_log.version_exists_after(path, 0)
    assert _add(path, "a.parquet", read_version=0) == 1
    assert _add(path, "b.parquet", read_version=1) == 2
    assert delta_log.version_exists_after(path, 0)
    assert not delta_log.version_exists_after(path, 2)
    assert delta_log.latest_version(path) == 2
    (first,) = delta_log.live_files(path, 1)
    assert (first.name, first.n_rows) == ("a.parquet", 0)
    assert first.size_bytes == (path / "a.parquet").stat().st_size
    assert {file.name for file in delta_log.live_files(path)} == {"a.parquet", "b.parquet"}
    assert [entry.get("who") for entry in delta_log.history(path)] == [
        "b.parquet", "a.parquet", None,
    ]  # fmt: skip


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


def test_file_added_twice_lives_once(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=None)
    _add(path, "a.parquet", read_version=None)
    assert len(delta_log.live_files(path)) == 1


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
    with pytest.raises(StorageError, match=r"cannot be read .*; restore '.*_delta_log'") as caught:
        delta_log.load_table(path)
    assert "\n" not in str(caught.value)


def test_commit_that_lost_its_content_is_no_commit_of_nothing(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    commit = path / "_delta_log" / f"{1:020d}.json"
    commit.write_text("")
    with pytest.raises(StorageError, match=f"'{commit}' is empty"):
        delta_log.load_table(path)


def test_many_commits_are_read_past_a_checkpoint(tmp_path: Path):
    path = _table(tmp_path)
    for i in range(105):
        _add(path, f"f{i}.parquet", read_version=i)
    assert list((path / "_delta_log").glob("*.checkpoint.parquet"))
    state = delta_log.load_table(path)
    assert len(state.files) == 105
    assert all(file.n_rows == 0 for file in state.files)
