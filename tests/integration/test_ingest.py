"""From files to a stream on Spark: order of the events, formats and times."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
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


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_input_in_order_is_not_sorted(tmp_path: Path, store: Store, ending: str) -> None:
    paths, rows = tied_files(tmp_path, ending, ordered=True)
    report = ingest(store, "s", paths, ties_options(ending))
    assert report.in_order
    assert read_rows(store) == rows


@pytest.mark.parametrize("ending", ["parquet", "csv"])
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


def test_instants_are_sorted(tmp_path: Path, store: Store) -> None:
    # Chicago is five hours behind UTC in July, six in January.
    (tmp_path / "a.csv").write_text("at,n\n2021-07-01 12:00:00,0\n2021-01-01 12:00:00,1\n")
    given = options(time="at", time_zone="America/Chicago")
    assert not ingest(store, "s", [tmp_path / "a.csv"], given).in_order
    times = [datetime(2021, 1, 1, 18, tzinfo=UTC), datetime(2021, 7, 1, 17, tzinfo=UTC)]
    assert [row["at"] for row in read_rows(store)] == times


def test_odd_names_of_files_and_columns(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "we ird%20ü[1]"
    folder.mkdir()
    schema = pa.schema([("a.b `c`", pa.int64()), ("x", pa.string())])
    for name, t in (("b {2}&#?", 1), ("a*'+", 2)):
        write_rows(folder / f"{name}.parquet", [{"a.b `c`": t, "x": name}], schema)
    paths = [folder / "b {2}&#?.parquet", folder / "a*'+.parquet"]
    ingest(store, "s", paths, options(time="a.b `c`"))
    assert [row["x"] for row in read_rows(store)] == ["b {2}&#?", "a*'+"]
