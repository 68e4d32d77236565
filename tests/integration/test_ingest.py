"""From files to a stream on Spark: order of the events, formats and times."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.ingest import IngestOptions
from chronicle.ingest.pipeline import ingest
from chronicle.store import Store
from tests.ingest_files import TIES, Row, options, read_rows, write_rows

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


@pytest.mark.parametrize("ending", FORMATS)
def test_ties_keep_arrival_order(tmp_path: Path, store: Store, ending: str) -> None:
    paths, rows = tied_files(tmp_path, ending, ordered=False)
    report = ingest(store, "s", paths, ties_options(ending))
    assert read_rows(store) == sorted(rows, key=lambda row: row["t"])
    assert (report.n_events, report.n_quarantined, report.in_order) == (4500, 0, False)


@pytest.mark.parametrize("ending", FORMATS)
def test_input_in_order_is_not_sorted(tmp_path: Path, store: Store, ending: str) -> None:
    paths, rows = tied_files(tmp_path, ending, ordered=True)
    report = ingest(store, "s", paths, ties_options(ending))
    assert report.in_order
    assert read_rows(store) == rows


@pytest.mark.parametrize("ending", FORMATS)
def test_files_that_share_tasks_give_the_same_stream(
    tmp_path: Path, store: Store, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, rows = tied_files(tmp_path, ending, ordered=False)
    monkeypatch.setattr("chronicle.ingest.tasks.FILES_ALONE_MAX", 1)
    monkeypatch.setattr("chronicle.ingest.tasks.TASK_BYTES_MIN", paths[0].stat().st_size * 2)
    ingest(store, "s", paths, ties_options(ending))
    assert read_rows(store) == sorted(rows, key=lambda row: row["t"])


def test_second_ingest_appends(tmp_path: Path, store: Store) -> None:
    first = [{"t": t, "n": t, "pad": ""} for t in (3, 1, 5)]
    second = [{"t": t, "n": 10 + t, "pad": ""} for t in (9, 5)]
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", first, TIES)], options())
    ingest(store, "s", [write_rows(tmp_path / "b.csv", second, TIES)], IngestOptions(time="t"))
    assert [row["n"] for row in read_rows(store)] == [1, 3, 5, 15, 19]


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


def test_csv_json_and_parquet_agree_on_the_instants_of_local_times(
    tmp_path: Path, store: Store
) -> None:
    # Chicago is five hours behind UTC in July, six in January.
    local = [datetime(2021, 1, 1, 12), datetime(2021, 7, 1, 12)]
    instants = [datetime(2021, 1, 1, 18, tzinfo=UTC), datetime(2021, 7, 1, 17, tzinfo=UTC)]
    schema = pa.schema([("at", pa.timestamp("us")), ("n", pa.int64())])
    for ending in FORMATS:
        rows = [{"at": at, "n": n} for n, at in enumerate(local)]
        path = write_rows(tmp_path / f"w.{ending}", rows, schema)
        ingest(store, ending, [path], options(time="at", time_zone="America/Chicago"))
        assert store.stream(ending).time_type == "timestamp_utc"
        assert [row["at"] for row in read_rows(store, ending)] == instants


@pytest.mark.parametrize(
    ("texts", "given", "expected"),
    [
        pytest.param(
            ["2020-01-01T00:00:00Z", "2020-01-01T03:00:00+02:00"],
            {},
            [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 1, tzinfo=UTC)],
            id="offsets",
        ),
        pytest.param(
            ["31/12/2019 23h", "01/01/2020 01h"],
            {"time_format": "dd/MM/yyyy HH'h'", "time_zone": "+01:00"},
            [datetime(2019, 12, 31, 22, tzinfo=UTC), datetime(2020, 1, 1, 0, tzinfo=UTC)],
            id="pattern and zone",
        ),
        pytest.param(["-3", "7"], {}, [-3, 7], id="integers"),
    ],
)
def test_times_written_as_text(
    tmp_path: Path, store: Store, texts: list[str], given: Row, expected: list[Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n" + "".join(f"{text},1\n" for text in texts))
    ingest(store, "s", [path], options(**given))
    assert [row["t"] for row in read_rows(store)] == expected


def test_odd_names_of_files_and_columns(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "we ird%20ü[1]"
    folder.mkdir()
    schema = pa.schema([("a.b `c`", pa.int64()), ("x", pa.string())])
    for name, t in (("b {2}&#?", 1), ("a*'+", 2)):
        write_rows(folder / f"{name}.parquet", [{"a.b `c`": t, "x": name}], schema)
    paths = [folder / "b {2}&#?.parquet", folder / "a*'+.parquet"]
    ingest(store, "s", paths, options(time="a.b `c`"))
    assert [row["x"] for row in read_rows(store)] == ["b {2}&#?", "a*'+"]


def test_parquet_of_split_bytes_is_taken(tmp_path: Path, store: Store) -> None:
    # Spark's reader of batches refuses the encoding.
    table = pa.table({"t": [3, 1, 2], "x": pa.array([0.5, 1.5, None], pa.float32())})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_dictionary=False, use_byte_stream_split=["x"])
    ingest(store, "s", [path], options())
    assert read_rows(store) == [{"t": 1, "x": 1.5}, {"t": 2, "x": None}, {"t": 3, "x": 0.5}]
