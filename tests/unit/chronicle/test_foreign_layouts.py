"""Folders that are more than their loose files, and pipes in the place of files: refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chronicle
import replay
from chronicle.ingest.sources import find_sources
from chronicle.log.foreign_layouts import loose_files
from chronicle.paths import kind_of_special
from chronicle.store import Store

MARKERS = {
    "Hudi": ".hoodie/hoodie.properties",
    "Iceberg": "metadata/00000-5f1ffd6b-7e2f-4dd4-a3a1-3a4d5d2c4b11.metadata.json",
    "streaming sink": "_spark_metadata/0",
    "Delta": "_delta_log/00000000000000000000.json",
}
"""What lies in the root of a table of a program, by a word of its refusal."""


def table_of(folder: Path, marker: str) -> Path:
    """Make a table with two files of one row, in its root and in a partition."""
    pq.write_table(pa.table({"t": [1]}), made(folder / "a.parquet"))
    pq.write_table(pa.table({"t": [2]}), made(folder / "p=1" / "b.parquet"))
    made(folder / marker).write_text(json.dumps({}))
    return folder


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def by_append(store: Store, source: str) -> object:
    return chronicle.append_files(store, "s", [source], chronicle.AppendOptions(time="t"))


def by_ingest(_: Store, source: str) -> object:
    return find_sources([source], format_name=None)


def by_adopt(store: Store, source: str) -> object:
    return chronicle.adopt(store, "s", source, time="t")


def by_from(store: Store, source: str) -> object:
    return replay.query(store, f"SELECT count(*) FROM '{source}'")


DOORS = (
    *((door, source) for door in (by_append, by_ingest) for source in ("", "p=1", "*.parquet")),
    (by_adopt, "p=1"),
    (by_from, "*.parquet"),
    (by_from, "**/*.parquet"),
)


@pytest.mark.parametrize(
    ("door", "source", "word"),
    # A Delta table that is named is read by its log.
    [(*way, word) for way in DOORS for word in MARKERS if (way[1], word) != ("", "Delta")],
)
def test_table_of_another_program_is_no_folder_of_files(
    store: Store, tmp_path: Path, door: Callable[[Store, str], object], source: str, word: str
) -> None:
    table = table_of(tmp_path / "table", MARKERS[word])
    with pytest.raises(chronicle.ChronicleError, match=word):
        door(store, str(table / source) if source else str(table))
    with pytest.raises(chronicle.ChronicleError, match=word):
        by_append(store, str(tmp_path / "*" / "*" / "*.parquet"))
    assert store.stream_names() == ()


@pytest.mark.parametrize("word", MARKERS)
def test_folder_that_holds_such_a_table_is_refused_and_its_file_by_name_is_not(
    store: Store, tmp_path: Path, word: str
) -> None:
    table = table_of(tmp_path / "lake" / "table", MARKERS[word])
    for door in (by_append, by_adopt):
        with pytest.raises(chronicle.SourceError, match=f"holds .*{word}"):
            door(store, str(tmp_path / "lake"))
    by_append(store, str(table / "a.parquet"))
    assert replay.query(store, "SELECT t FROM s").table.column("t").to_pylist() == [1]


def test_partition_of_a_hudi_table_is_known_where_its_table_is_not(
    store: Store, tmp_path: Path
) -> None:
    table_of(tmp_path / "table", "p=1/.hoodie_partition_metadata")
    with pytest.raises(chronicle.SourceError, match="Hudi"):
        by_append(store, str(tmp_path / "table" / "p=1"))


def test_folders_that_only_look_alike_are_taken(store: Store, tmp_path: Path) -> None:
    folder = table_of(tmp_path / "table", "metadata/about.metadata.json.txt")
    (folder / "_delta_log").mkdir()
    assert by_append(store, str(folder)) is not None
    assert replay.query(store, "SELECT t FROM s").table.column("t").to_pylist() == [1, 2]


def test_files_that_are_not_written_to_their_end_are_left_out(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv.tmp", "c.csv.part", "_d.csv", ".e.csv", "_f/g.csv", "h/i.csv"):
        made(tmp_path / name).write_text("t\n1\n")
    found = loose_files(tmp_path, lambda _: True)
    assert [path.name for path in found] == ["a.csv", "i.csv"]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "x.csv"
    os.mkfifo(path)
    return path


def test_what_is_in_the_place_of_a_file_is_told_apart(tmp_path: Path, pipe: Path) -> None:
    assert kind_of_special(pipe) == "a pipe"
    assert kind_of_special("/dev/null") == "a device"
    (tmp_path / "y.csv").symlink_to(pipe)
    assert kind_of_special(tmp_path / "y.csv") == "a pipe"
    assert kind_of_special(tmp_path) is None
    assert kind_of_special(tmp_path / "none") is None


def test_pipe_in_the_place_of_a_marker_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "chronicle-store.json")
    with pytest.raises(chronicle.StorageError, match="is a pipe"):
        chronicle.open_store(tmp_path)
