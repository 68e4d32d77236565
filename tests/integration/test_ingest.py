"""From files to a stream on Spark: order, formats, faults, folders, and indexes."""

from __future__ import annotations

import datetime as dt
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest import IngestOptions, IngestReport, follow
from chronicle.ingest.jobs import spark_runner
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.ingest.pipeline import ingest
from chronicle.log import delta_log
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.store import Store
from indexing import IndexingError, KeyRange, KeyRanges, RunWriter
from indexing.check import check_runs
from indexing.composite import composite_ranges
from indexing.index import clear_caches, open_indexes
from indexing.keys import KeyKind
from indexing.lifecycle import create_index, drop_index
from tests.ingest_files import (
    TIES,
    Row,
    by_time,
    options,
    put,
    quarantine_of,
    read_rows,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

TIES_DDL = "t BIGINT, n BIGINT, pad STRING"
FORMATS = ("parquet", "csv", "json")


def tied_files(folder: Path, ending: str, *, ordered: bool) -> tuple[list[Path], list[Row]]:
    """Three files of 1,500 rows over few distinct times, named out of order."""
    generator = random.Random(7)
    times = [generator.randrange(5) for _ in range(4500)]
    if ordered:
        times.sort()
    rows = [{"t": t, "n": n, "pad": f"{n:06d}" * 4} for n, t in enumerate(times)]
    names = ("b", "c", "a")
    paths = [
        write_rows(folder / f"{name}.{ending}", rows[at * 1500 : (at + 1) * 1500], TIES)
        for at, name in enumerate(names)
    ]
    return paths, rows


def ties_options(ending: str) -> IngestOptions:
    return options(schema=None if ending == "parquet" else TIES_DDL, split_bytes=16_000)


# ---------------------------------------------------------------------------------------------
# Order.


@pytest.mark.parametrize(
    ("ending", "is_shared"),
    [*((ending, False) for ending in FORMATS), ("parquet", True), ("csv", True)],
)
def test_ties_keep_arrival_order(
    tmp_path: Path, store: Store, ending: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, rows = tied_files(tmp_path, ending, ordered=False)
    if is_shared:
        monkeypatch.setattr("chronicle.ingest.tasks.FILES_ALONE_MAX", 1)
        monkeypatch.setattr("chronicle.ingest.tasks.TASK_BYTES_MIN", paths[0].stat().st_size * 2)
    report = ingest(store, "s", paths, ties_options(ending))
    assert read_rows(store) == by_time(rows)
    assert (report.n_events, report.n_quarantined, report.in_order) == (4500, 0, False)


def test_input_in_order_is_not_sorted(tmp_path: Path, store: Store) -> None:
    paths, rows = tied_files(tmp_path, "csv", ordered=True)
    assert ingest(store, "s", paths, ties_options("csv")).in_order
    assert read_rows(store) == rows


# ---------------------------------------------------------------------------------------------
# Formats, types and times.

WEATHER = pa.schema(
    [
        ("at", pa.timestamp("us")),
        ("station", pa.string()),
        ("degrees", pa.float64()),
        ("n", pa.int32()),
        ("dry", pa.bool_()),
    ]
)
WEATHER_DDL = "at TIMESTAMP_NTZ, station STRING, degrees DOUBLE, n INT, dry BOOLEAN"


def weather_rows() -> list[Row]:
    begin = datetime(2020, 3, 28, 22, 30)
    stations = ('He said "no", twice', "Łódź", None, "a;b")
    return [
        {
            "at": begin + timedelta(minutes=(7 * i) % 200, microseconds=i),
            "station": stations[i % 4],
            "degrees": None if i % 5 == 0 else i / 8,
            "n": -i if i % 3 else None,
            "dry": (True, False, None)[i % 3],
        }
        for i in range(60)
    ]


def test_csv_json_and_parquet_give_the_same_stream(tmp_path: Path, store: Store) -> None:
    for ending in FORMATS:
        path = write_rows(tmp_path / f"w.{ending}", weather_rows(), WEATHER)
        ddl = None if ending == "parquet" else WEATHER_DDL
        ingest(store, ending, [path], options(time="at", schema=ddl))
    expected = sorted(weather_rows(), key=lambda row: row["at"])
    for ending in FORMATS:
        assert store.stream(ending).schema == WEATHER
        assert read_rows(store, ending) == expected


def test_instants_are_sorted(tmp_path: Path, store: Store) -> None:
    # Chicago is five hours behind UTC in July, six in January.
    (tmp_path / "a.csv").write_text("at,n\n2021-07-01 12:00:00,0\n2021-01-01 12:00:00,1\n")
    given = options(time="at", time_zone="America/Chicago")
    assert not ingest(store, "s", [tmp_path / "a.csv"], given).in_order
    times = [datetime(2021, 1, 1, 18, tzinfo=UTC), datetime(2021, 7, 1, 17, tzinfo=UTC)]
    assert [row["at"] for row in read_rows(store)] == times


def test_a_parquet_file_of_many_groups_tells_by_its_order_which_hour_is_meant(
    tmp_path: Path, store: Store
) -> None:
    minutes = [*range(0, 180, 5), *range(120, 240, 5)]  # clocks go back at 03:00
    local = [datetime(2025, 10, 26) + timedelta(minutes=minute) for minute in minutes]
    table = pa.table({"t": pa.array(local, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    given = options(time_zone="Europe/Berlin", ambiguous="infer", split_bytes=1)
    report = ingest(store, "s", [tmp_path / "a.parquet"], given)
    begin = datetime(2025, 10, 25, 22, tzinfo=UTC)
    expected = [begin + timedelta(minutes=5 * number) for number in range(len(minutes))]
    assert [row["t"] for row in read_rows(store)] == expected
    assert report.notes == ("24 times that clocks show twice were taken by the order of the file",)


def test_odd_names_of_files_and_columns(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "we ird%20ü[1]"
    folder.mkdir()
    schema = pa.schema([("a.b `c`", pa.int64()), ("x", pa.string())])
    for name, t in (("b {2}&#?", 1), ("a*'+", 2)):
        write_rows(folder / f"{name}.parquet", [{"a.b `c`": t, "x": name}], schema)
    paths = [folder / "b {2}&#?.parquet", folder / "a*'+.parquet"]
    ingest(store, "s", paths, options(time="a.b `c`"))
    assert [row["x"] for row in read_rows(store)] == ["b {2}&#?", "a*'+"]


# ---------------------------------------------------------------------------------------------
# Faults of records and sources.


def test_faulty_records_are_put_aside_in_the_batch_of_their_commit(
    tmp_path: Path, store: Store
) -> None:
    path = tmp_path / "a.csv"
    day = "2020-01-01T00:00"
    lines = [f"{day}:00,1,a", f"{day}:01,one,b", f"{day}:02,2", ",3,d", "yesterday,4,e"]
    path.write_text("t,x,s\n" + "".join(line + "\n" for line in lines))
    ddl = "t TIMESTAMP_NTZ, x BIGINT, s STRING"
    report = ingest(store, "s", [path], options(schema=ddl))
    assert [row["x"] for row in read_rows(store)] == [1]
    assert report.n_quarantined == 4
    assert report.reasons == {
        "time 't' does not parse": 1,
        "the record does not parse: it has fewer cells than there are columns": 1,
        "column 'x' does not parse as BIGINT": 1,
        "no time in column 't'": 1,
    }
    rows = quarantine_of(store)
    assert {row["source"] for row in rows} == {str(path)}
    placed = {row["line"]: row["record"] for row in rows}
    assert placed == {n: lines[n - 2] for n in (3, 4, 5, 6)}
    assert {row["reading"] for row in rows} == {json.dumps({"schema": ddl})}
    assert report.first_time == report.last_time == f"{day}:00"
    newest = delta_log.commits(store.path / "s" / "events")[0]
    assert {row["batch"] for row in rows} == {newest.metadata["quarantine_batch"]}


def test_fault_that_shows_only_while_sorting_is_a_sentence(tmp_path: Path, store: Store) -> None:
    rows = [{"t": -n, "n": n, "pad": "a" * 40 + str(n)} for n in range(1000)]
    path = write_rows(tmp_path / "a.parquet", rows, TIES)
    footer = pq.read_metadata(path).row_group(3).column(2)
    content = bytearray(path.read_bytes())
    # The survey reads the times only, and does not meet what is wrong with the texts.
    at = footer.dictionary_page_offset or footer.data_page_offset
    content[at : at + footer.total_compressed_size] = b"\xff" * footer.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"a.parquet' cannot be read .*check the file"):
        ingest(store, "s", [path], options())
    assert store.stream_names() == ()


def test_input_without_any_event_changes_nothing(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\nsoon,1\nlater,2\n")
    with pytest.raises(SourceError, match=r"none of the 2 records .* check --time"):
        ingest(store, "s", [path], options())
    path.write_text("t,x\n")
    with pytest.raises(SourceError, match="no event"):
        ingest(store, "s", [path], options(schema="t BIGINT, x BIGINT"))
    assert store.stream_names() == ()
    assert [entry.name for entry in store.path.iterdir()] == ["chronicle-store.json"]


def test_a_file_with_a_header_only_adds_nothing_to_a_stream_that_is_there(
    tmp_path: Path, store: Store
) -> None:
    (tmp_path / "empty.csv").write_text("t,x\n")
    (tmp_path / "a.csv").write_text("t,x\n1,2\n")
    ingest(store, "s", [tmp_path / "a.csv"], options())
    assert "nothing new" in str(ingest(store, "s", [tmp_path / "empty.csv"], options()))
    assert [row["x"] for row in read_rows(store)] == [2]


def test_files_that_do_not_fit_the_stream_are_refused(tmp_path: Path, store: Store) -> None:
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", [{"t": 1, "x": 1}], schema)], options())
    path = write_rows(tmp_path / "b.parquet", [{"t": 2}], pa.schema([("t", pa.int64())]))
    with pytest.raises(SchemaError, match=r"lack column 'x' \(.*/b\.parquet\)"):
        ingest(store, "s", [path], options())
    assert read_rows(store) == [{"t": 1, "x": 1}]


# ---------------------------------------------------------------------------------------------
# Folders as sources have the outcome that an append has.


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

    def put_one(month: str, city: str, t: int) -> None:
        folder = lake / f"month={month}" / f"city={city}"
        folder.mkdir(parents=True)
        put(folder, f"x.{ending}", [t], t)

    put_one("05", "S%C3%A3o Paulo", 2)
    put_one("06", "__HIVE_DEFAULT_PARTITION__", 1)
    said: list[str] = []
    ingest(store, "s", [lake], options(), progress=said.append)
    assert "column from names of folders: month STRING" in said
    put_one("07", "12", 3)
    take(store, lake)
    found = [(row["t"], row["n"], row["month"], row["city"]) for row in read_rows(store)]
    assert found == [(1, 1, "06", None), (2, 2, "05", "São Paulo"), (3, 3, "07", "12")]
    assert by_columns(read_rows(store)) == by_columns(appended(store, lake))


def test_a_followed_folder_gives_columns_and_a_delta_table_is_not_followed(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "lake" / "month=05"
    folder.mkdir(parents=True)
    put(folder, "x.parquet", [1])
    follow(store, "s", tmp_path / "lake", options(), once=True)
    assert [row["month"] for row in read_rows(store)] == ["05"]
    write_deltalake(tmp_path / "table", pa.table({"t": [1]}))
    with pytest.raises(SourceError, match="is a Delta table"):
        follow(store, "s", tmp_path / "table", options(), once=True)


# ---------------------------------------------------------------------------------------------
# Indexes on several columns and on derived attributes: tasks write them, late events keep them.

KEYED = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.int64())])
NAME, RISE = "k+x", "delta(x)"
FIRST = ((0, "a", 5), (1, "b", 5), (2, "a", 6), (3, "b", None), (4, None, 5), (9, "a", 5))


def put_keyed(path: Path, *rows: tuple[int, str | None, int | None]) -> Path:
    columns = dict(zip(KEYED.names, zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns, schema=KEYED), path)
    return path


def found(store: Store) -> list[int]:
    """Sequence numbers of the events with k = 'a' and x = 5."""
    clear_caches()
    point = (KeyRanges((KeyRange("a", "a"),)), KeyRanges((KeyRange(5, 5),)))
    asked = composite_ranges([KeyKind.STRING, KeyKind.INTEGER], point)
    assert asked is not None
    index = open_indexes(store.stream("s").snapshot()).index(NAME)
    assert index.n_tail_events == 0
    seq: list[int] = index.lookup(asked[0]).seq.tolist()
    return seq


def assert_whole(store: Store) -> None:
    findings = check_stream(store.stream("s"), deep=True, derived_checks=(check_runs,))
    assert [one for one in findings if one.severity is not Severity.OK] == []


def test_ingest_writes_it_and_later_ones_keep_it(tmp_path: Path, store: Store) -> None:
    first = put_keyed(tmp_path / "a.parquet", *FIRST)
    ingest(store, "s", [first], options(index=(NAME, "x")), derived=RunWriter)
    assert found(store) == [0, 5]

    late = put_keyed(tmp_path / "b.parquet", (4, "a", 5), (5, "a", None), (10, "a", 5))
    ingest(store, "s", [late], options(), derived=RunWriter)
    # 0a5 1b5 2a6 3b- 4-5 4a5 5a- 9a5 10a5
    assert found(store) == [0, 5, 7, 8]
    assert_whole(store)


def test_index_is_filled_by_spark_as_by_threads(
    spark: SparkSession, tmp_path: Path, store: Store
) -> None:
    ingest(store, "s", [put_keyed(tmp_path / "a.parquet", *FIRST)], options(), derived=RunWriter)
    for runner in ({"runner": spark_runner(spark)}, {}):
        [report] = create_index(store.stream("s"), [NAME], least_events=0, **runner)
        assert (report.n_entries, report.existed) == (5, False)
        assert found(store) == [0, 5]
        assert_whole(store)
        drop_index(store.stream("s"), NAME)


def rising(store: Store) -> list[int]:
    index = open_indexes(store.stream("s").snapshot()).index(RISE)
    found: list[int] = index.lookup(KeyRanges((KeyRange(low=1),))).seq.tolist()
    return found


def test_derived_attribute_is_ingested_and_corrected_by_late_events(
    tmp_path: Path, store: Store
) -> None:
    given = options(key="k", derive=("delta( x )",), index=(RISE, "x"))
    first = put_keyed(
        tmp_path / "a.parquet",
        (0, "a", 5), (1, "b", 50), (2, "a", 6), (3, "b", 40), (4, "a", 4), (9, "b", 60),
    )  # fmt: skip
    ingest(store, "s", [first], given, derived=RunWriter)
    stream = store.stream("s")
    assert stream.settings.derived == (RISE,)
    assert rising(store) == [0, 1, 2, 5]
    assert [file.has_tree for file in stream.snapshot().files] == [True]

    late = put_keyed(tmp_path / "b.parquet", (4, "b", 70), (5, "a", 5))
    ingest(store, "s", [late], options(), derived=RunWriter)
    # 0a 1b 2a 3b 4a 4b 5a 9b
    assert rising(store) == [0, 1, 2, 5, 6]
    snapshot = stream.snapshot()
    top = snapshot.level(snapshot.tree.n_levels - 1, RISE).attribute
    assert top is not None
    assert (top.minimum.tolist(), top.maximum.tolist()) == ([-10], [30])
    assert open_indexes(snapshot).index(RISE).n_tail_events == 0

    with pytest.raises(SchemaError, match=r"does not derive 'delta\(t\)'"):
        ingest(store, "s", [late], options(derive=("delta(t)",)), derived=RunWriter)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"index": ("k+x+k",)}, "names column 'k' twice", id="twice"),
        pytest.param({"derive": ("delta(k)",)}, "column 'k' is STRING", id="derived"),
    ],
)
def test_what_cannot_be_indexed_is_refused_before_anything_is_written(
    tmp_path: Path, store: Store, given: dict[str, tuple[str, ...]], message: str
) -> None:
    path = put_keyed(tmp_path / "a.parquet", *FIRST)
    with pytest.raises((SchemaError, IndexingError), match=message):
        ingest(store, "s", [path], options(**given), derived=RunWriter)
    assert store.stream_names() == ()
