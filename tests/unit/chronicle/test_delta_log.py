"""The Delta log: create, add, list, and notice newer versions."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import CommitConflictError, StorageError
from chronicle.log import delta_log

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
    assert delta_log.load_table(path).version == 2
    (first,) = delta_log.live_files(path, 1)
    assert (first.name, first.n_rows) == ("a.parquet", 0)
    assert first.size_bytes == (path / "a.parquet").stat().st_size
    assert {file.name for file in delta_log.live_files(path)} == {"a.parquet", "b.parquet"}
    commits = delta_log.commits(path)
    assert [commit.version for commit in commits] == [2, 1, 0]
    assert [commit.metadata.get("who") for commit in commits] == ["b.parquet", "a.parquet", None]


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


def test_files_come_and_go_in_one_commit(tmp_path: Path):
    path = _table(tmp_path)
    _add(path, "a.parquet", read_version=0)
    _add(path, "b.parquet", read_version=1)
    pq.write_table(SCHEMA.empty_table(), path / "ab.parquet")
    files = delta_log.new_files([("ab.parquet", (path / "ab.parquet").stat().st_size, 0)])
    version = delta_log.commit_changes(
        path, add=files, remove=["a.parquet", "b.parquet"], read_version=2, metadata={}
    )
    assert [file.name for file in delta_log.live_files(path, version)] == ["ab.parquet"]
    assert {file.name for file in delta_log.live_files(path, 2)} == {"a.parquet", "b.parquet"}
    (change,) = delta_log.changes_since(path, 2)
    assert (change.added, set(change.removed)) == (("ab.parquet",), {"a.parquet", "b.parquet"})
    assert (path / "a.parquet").exists()


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
