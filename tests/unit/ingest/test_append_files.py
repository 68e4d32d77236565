"""Files are appended once, whoever else appends them at the same time."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from chronicle import create_store
from chronicle.errors import SourceError
from chronicle.ingest import local as subject
from chronicle.ingest.local import AppendFilesReport, AppendOptions, append_files
from chronicle.log import delta_log
from chronicle.log.delta_log import writing
from chronicle.store import Store
from tests.ingest_files import read_rows
from tests.unit.chronicle.stream_cases import meet


@pytest.fixture
def store(tmp_path: Path) -> Store:
    path = tmp_path / "first.csv"
    path.write_text("t,x\n1,1\n")
    made = create_store(tmp_path / "store")
    append_files(made, "s", [path], AppendOptions(time="t"))
    return made


def test_file_that_another_process_takes_meanwhile_is_not_taken_twice(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "next.csv"
    path.write_text("t,x\n2,2\n")
    beat = partial(append_files, store, "s", [path], AppendOptions())
    meet(monkeypatch, subject, "sort_sources", beat, after=True)
    with pytest.raises(SourceError, match=r"another process took .*next.csv"):
        append_files(store, "s", [path], AppendOptions())
    assert [row["x"] for row in read_rows(store)] == [1, 2]
    report = append_files(store, "s", [path], AppendOptions())
    assert (report.n_skipped, report.appended) == (1, None)


def test_again_takes_a_file_that_changed(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "first.csv"
    path.write_text("t,x\n3,3\n")
    with pytest.raises(SourceError, match="has other content now"):
        append_files(store, "s", [path], AppendOptions())
    append_files(store, "s", [path], AppendOptions(again=True))
    assert [row["x"] for row in read_rows(store)] == [1, 3]
    assert append_files(store, "s", [path], AppendOptions()).n_skipped == 1


def test_file_without_events_leaves_no_new_stream(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    for text, said in (("t,x\nsoon,1\n", "nothing was taken"), ("t,x\n", "nothing to append")):
        path.write_text(text)
        with pytest.raises(SourceError, match=said):
            append_files(store, "new", [path], AppendOptions(time="t"))
    assert store.stream_names() == ("s",)


def append_all(store: Store, folder: Path, *names: str, **given: bool) -> AppendFilesReport:
    paths = [folder / name for name in names]
    return append_files(store, "s", paths, AppendOptions(time="t", **given))


def values(store: Store) -> list[int]:
    return [row["x"] for row in read_rows(store)]


@pytest.fixture
def _checkpoints_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_CHECKPOINT_COMMITS", 2)


@pytest.mark.usefixtures("_checkpoints_often")
@pytest.mark.parametrize("n_commits", [0, 3], ids=["in commits", "in a checkpoint"])
def test_file_that_was_renamed_is_passed_over_aloud(
    store: Store, tmp_path: Path, n_commits: int
) -> None:
    for n in range(n_commits):
        store.stream("s").append(pa.table({"t": [n + 2], "x": [0]}))
    assert bool(list((store.path / "s/events/_delta_log").glob("*.parquet"))) == bool(n_commits)
    (tmp_path / "first.csv").rename(tmp_path / "old.csv")
    report = append_all(store, tmp_path, "old.csv")
    assert (report.n_skipped, report.appended) == (1, None)
    assert "old.csv' has the content of a file that was taken before" in str(report)
    assert append_all(store, tmp_path, "old.csv", again=True).appended is not None
    assert values(store).count(1) == 2


def test_logs_that_are_rotated_are_taken_once_each(store: Store, tmp_path: Path) -> None:
    for n in range(2, 5):
        for old in range(n - 2, 0, -1):
            (tmp_path / f"first-{old}.csv").rename(tmp_path / f"first-{old + 1}.csv")
        (tmp_path / "first.csv").rename(tmp_path / "first-1.csv")
        (tmp_path / "first.csv").write_text(f"t,x\n{n},{n}\n")
        append_all(store, tmp_path, *sorted(path.name for path in tmp_path.glob("first*.csv")))
        assert values(store) == list(range(1, n + 1))
    (tmp_path / "back.csv").write_text("t,x\n1,1\n")  # of a path that stands for another content
    assert append_all(store, tmp_path, "back.csv").n_skipped == 1


def test_copy_beside_a_file_that_grew_is_no_rotation(store: Store, tmp_path: Path) -> None:
    (tmp_path / "copy.csv").write_text("t,x\n1,1\n")
    (tmp_path / "first.csv").write_text("t,x\n1,1\n2,2\n")
    with pytest.raises(SourceError, match=r"first.csv' was taken .* has other content now"):
        append_all(store, tmp_path, "copy.csv", "first.csv")
    assert values(store) == [1]


def test_two_files_of_one_content_are_one_unless_folders_tell_them_apart(
    store: Store, tmp_path: Path
) -> None:
    for folder in ("p=1", "p=2"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        for name in ("a.csv", "b.csv"):
            (tmp_path / "in" / folder / name).write_text("t,x\n7,7\n")
    report = append_files(store, "by_p", [tmp_path / "in"], AppendOptions(time="t"))
    assert [row["p"] for row in read_rows(store, "by_p")] == [1, 2]
    assert str(report).count("has the same content as") == 2
    (tmp_path / "in/p=1/a.csv").rename(tmp_path / "in/p=1/c.csv")
    (tmp_path / "in/p=3").mkdir()
    (tmp_path / "in/p=2/a.csv").rename(tmp_path / "in/p=3/a.csv")
    report = append_files(store, "by_p", [tmp_path / "in"], AppendOptions())
    assert [row["p"] for row in read_rows(store, "by_p")] == [1, 2, 3]


def test_file_without_a_record_is_taken_once_it_has_one(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,x\n2,2\n")
    (tmp_path / "b.csv").write_text("t,x\n")
    append_all(store, tmp_path, "a.csv", "b.csv")
    (tmp_path / "b.csv").write_text("t,x\n3,3\n")
    append_all(store, tmp_path, "a.csv", "b.csv")
    assert values(store) == [1, 2, 3]


def test_file_that_changes_while_it_is_read_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n2,2\n")
    grow = partial(path.write_text, "t,x\n2,2\n3,3\n")
    meet(monkeypatch, subject, "read_files", grow)
    with pytest.raises(SourceError, match=r"a.csv' changed while it was read"):
        append_all(store, tmp_path, "a.csv")
    append_all(store, tmp_path, "a.csv")
    assert values(store) == [1, 2, 3]


@pytest.mark.usefixtures("_checkpoints_often")
def test_numbers_of_sources_are_those_the_delta_library_knows(store: Store, tmp_path: Path) -> None:
    events = store.path / "s" / "events"
    for n in range(4):
        (tmp_path / f"{n}.csv").write_text(f"t,x\n{n},{n}\n")
        append_all(store, tmp_path, f"{n}.csv", again=True)
    found = delta_log.numbers_by_application(events, "chronicle.source.")
    assert len(found) == 5
    table = DeltaTable(events)
    assert found == {name: table.transaction_version(name) for name in found}
