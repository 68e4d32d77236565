"""Folders as sources of an append: Delta tables by their log, and columns named by folders."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from deltalake import DeltaTable, write_deltalake

import replay
from chronicle import Store
from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.local import AppendFilesReport, AppendOptions, append_files
from tests.ingest_files import write_rows


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Delta table of events 0 to 89 in three files; 0 to 9 were deleted again."""
    path = tmp_path / "table"
    for i in range(3):
        write_deltalake(path, rows(i * 30, i * 30 + 30), mode="append")
    DeltaTable(path).delete("t < 10")
    return path


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"t": range(start, stop), "a": range(start, stop)})


def take(store: Store, *sources: Path, **options: Any) -> AppendFilesReport:
    return append_files(store, "s", list(sources), AppendOptions(time="t", **options))


def times(store: Store) -> list[int]:
    answer = replay.query(store, "SELECT t FROM s").table
    return answer.column("t").to_pylist()


# ---------------------------------------------------------------------------------------------
# Delta tables.


def test_a_delta_folder_is_its_live_rows_and_again_what_was_added(
    store: Store, table: Path
) -> None:
    (table / "loose.parquet").write_bytes(b"no part of the table")
    take(store, table)
    assert times(store) == list(range(10, 90))
    assert take(store, table).appended is None
    write_deltalake(table, rows(90, 95), mode="append")
    assert take(store, table).n_skipped == 3
    assert times(store) == list(range(10, 95))


def test_what_optimize_rearranged_is_not_taken_twice(store: Store, table: Path) -> None:
    take(store, table)
    write_deltalake(table, rows(90, 95), mode="append")  # taken and not taken become one file
    DeltaTable(table).optimize.compact()
    assert len(DeltaTable(table).file_uris()) == 1
    take(store, table)
    assert times(store) == list(range(10, 95))
    DeltaTable(table).optimize.compact()
    assert take(store, table).appended is None
    assert times(store) == list(range(10, 95))


def test_rows_that_were_deleted_since_are_refused_for_they_are_in_the_stream(
    store: Store, table: Path
) -> None:
    take(store, table)
    DeltaTable(table).delete("t < 20")
    with pytest.raises(SourceError, match=r"deleted or changed rows, .* new stream"):
        take(store, table)
    assert times(store) == list(range(10, 90))


def test_files_that_brought_rows_and_were_vacuumed_are_missed(store: Store, table: Path) -> None:
    take(store, table)
    write_deltalake(table, rows(90, 95), mode="append")
    DeltaTable(table).optimize.compact()
    options = {"dry_run": False, "enforce_retention_duration": False}
    DeltaTable(table).vacuum(retention_hours=0, **options)
    with pytest.raises(SourceError, match="was it vacuumed"):
        take(store, table)


def test_a_log_that_does_not_reach_back_is_told(store: Store, table: Path) -> None:
    take(store, table)
    for i in range(2):
        write_deltalake(table, rows(90 + i, 91 + i), mode="append")
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{4:020d}.json").unlink()
    with pytest.raises(SourceError, match="commit 4 is in its log no more"):
        take(store, table)


def test_again_takes_the_whole_table_once_more(store: Store, table: Path) -> None:
    take(store, table)
    take(store, table, again=True)
    assert times(store) == sorted([*range(10, 90)] * 2)


def test_columns_of_partitions_and_columns_added_later_are_filled_in(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    day = pa.array([dt.date(2024, 5, 1), None], pa.date32())
    name = pa.array(["a b/é", "x"])
    events = pa.table({"t": [1, 2], "day": day, "name": name})
    write_deltalake(path, events, partition_by=["day", "name"])
    more = events.append_column("late", pa.array([7, 8], pa.int32()))
    write_deltalake(path, more, mode="append", schema_mode="merge")
    take(store, path)
    found = replay.query(store, "SELECT t, day, name, late FROM s").table
    wanted = events.append_column("late", pa.nulls(2, pa.int32())).to_pylist() + more.to_pylist()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted))


def test_instants_of_partitions_are_those_that_were_written(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "table"
    at = pa.array([dt.datetime(2024, 5, 1, 5, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC"))
    events = pa.table({"t": [1, 2], "at": at})
    write_deltalake(path, events, partition_by=["at"])
    take(store, path)
    found = replay.query(store, "SELECT t, at FROM s").table
    assert found.to_pylist() == events.to_pylist()


@pytest.mark.parametrize("name", ["day=1", "."])
def test_a_folder_within_a_table_or_around_one_is_refused(
    name: str, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "lake" / "table"
    events = pa.table({"t": [1], "day": [1]})
    write_deltalake(path, events, partition_by=["day"])
    with pytest.raises(SourceError, match="Delta table"):
        take(store, path / name if name != "." else path.parent)


# ---------------------------------------------------------------------------------------------
# Folders named column=value.


def write(events: pa.Table, path: Path) -> None:
    """Write events in the format that the path's ending names."""
    if path.suffix in (".arrow", ".feather"):
        pa.feather.write_feather(events, path)
    else:
        write_rows(path, events.to_pylist(), events.schema)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow", "feather"])
def test_names_of_folders_are_columns(ending: str, store: Store, tmp_path: Path) -> None:
    def put(month: str, city: str, start: int) -> None:
        folder = tmp_path / "lake" / "year=2024" / f"month={month}" / f"city={city}"
        folder.mkdir(parents=True)
        write(rows(start, start + 2), folder / f"x.{ending}")

    put("05", "S%C3%A3o Paulo", 0)
    put("06", "__HIVE_DEFAULT_PARTITION__", 2)
    report = take(store, tmp_path / "lake")
    assert "column from names of folders: year BIGINT" in str(report)
    assert "column from names of folders: month STRING" in str(report)
    put("07", "12", 4)  # text by the stream, though a number by itself
    take(store, tmp_path / "lake")
    found = replay.query(store, "SELECT t, a, year, month, city FROM s").table.to_pylist()
    cities = ("São Paulo", "São Paulo", None, None, "12", "12")
    assert found == [
        {"t": t, "a": t, "year": 2024, "month": f"0{5 + t // 2}", "city": cities[t]}
        for t in range(6)
    ]


def test_a_date_is_a_date_and_what_a_file_holds_itself_counts_more(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "lake" / "day=2024-05-01" / "a=9"
    folder.mkdir(parents=True)
    write(rows(0, 2), folder / "x.csv")
    take(store, tmp_path / "lake")
    found = replay.query(store, "SELECT t, a, day FROM s").table.to_pylist()
    assert found == [{"t": t, "a": t, "day": dt.date(2024, 5, 1)} for t in range(2)]


def test_a_stream_that_lacks_the_column_of_a_folder_is_told(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "year=2024"
    folder.mkdir(parents=True)
    write(rows(0, 2), folder / "x.csv")
    take(store, folder / "x.csv")
    write(rows(2, 4), folder / "y.csv")
    with pytest.raises(SchemaError, match="add-column"):
        take(store, tmp_path / "lake")
    assert times(store) == [0, 1]
