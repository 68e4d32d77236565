"""Files are appended once, whoever else appends them at the same time."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from chronicle import create_store
from chronicle.errors import SourceError
from chronicle.ingest import local as subject
from chronicle.ingest.local import AppendOptions, append_files
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
