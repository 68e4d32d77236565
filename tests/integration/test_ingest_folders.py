"""Folders as sources of an ingest on Spark have the outcome that an append has."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from chronicle.errors import SourceError
from chronicle.ingest import IngestReport, follow, ingest
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.store import Store
from tests.ingest_files import TIES, options, read_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def take(store: Store, source: Path, **given: Any) -> IngestReport:
    return ingest(store, "s", [source], options(**given))


def appended(store: Store, *steps: Path) -> list[dict[str, Any]]:
    for source in steps:
        append_files(store, "by_append", [source], AppendOptions(time="t"))
    return read_rows(store, "by_append")


def by_columns(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Rows whatever the order of their columns."""
    return [sorted(row.items(), key=lambda cell: cell[0]) for row in rows]


def test_a_delta_table_is_its_live_rows_with_columns_of_partitions_and_later_ones(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    day = pa.array([dt.date(2024, 5, 1), None, None], pa.date32())
    events = pa.table({"t": [3, 1, 2], "day": day})
    write_deltalake(path, events, partition_by=["day"])
    DeltaTable(path).delete("t = 2")
    more = pa.table({"t": [5], "day": day[:1], "late": pa.array([7], pa.int32())})
    write_deltalake(path, more, mode="append", schema_mode="merge")
    take(store, path)
    assert [row["t"] for row in read_rows(store)] == [1, 3, 5]
    assert by_columns(read_rows(store)) == by_columns(appended(store, path))
    write_deltalake(path, pa.table({"t": [9], "day": day[:1], "late": [8]}), mode="append")
    DeltaTable(path).optimize.compact()
    take(store, path)
    assert [row["t"] for row in read_rows(store)] == [1, 3, 5, 9]
    assert by_columns(read_rows(store)) == by_columns(appended(store, path))
    report = take(store, path)
    assert (report.n_events, report.n_skipped > 0) == (0, True)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_of_folders_are_columns(ending: str, store: Store, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def put(month: str, city: str, t: int) -> None:
        folder = lake / f"month={month}" / f"city={city}"
        folder.mkdir(parents=True)
        write_rows(folder / f"x.{ending}", [{"t": t, "n": t, "pad": "p"}], TIES)

    put("05", "S%C3%A3o Paulo", 2)
    put("06", "__HIVE_DEFAULT_PARTITION__", 1)
    said: list[str] = []
    ingest(store, "s", [lake], options(), progress=said.append)
    assert "column from names of folders: month string" in said
    put("07", "12", 3)
    take(store, lake)
    found = [(row["t"], row["n"], row["month"], row["city"]) for row in read_rows(store)]
    assert found == [(1, 1, "06", None), (2, 2, "05", "São Paulo"), (3, 3, "07", "12")]
    assert by_columns(read_rows(store)) == by_columns(appended(store, lake))


def test_a_followed_folder_gives_columns_and_a_delta_table_is_not_followed(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "lake" / "month=05"
    folder.mkdir(parents=True)
    write_rows(folder / "x.parquet", [{"t": 1, "n": 1, "pad": "p"}], TIES)
    follow(store, "s", tmp_path / "lake", options(), once=True)
    assert [row["month"] for row in read_rows(store)] == ["05"]
    write_deltalake(tmp_path / "table", pa.table({"t": [1]}))
    with pytest.raises(SourceError, match="is a Delta table"):
        follow(store, "s", tmp_path / "table", options(), once=True)
