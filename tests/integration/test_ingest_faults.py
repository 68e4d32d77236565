"""Records and sources that cannot be taken: put aside or refused, always with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import LateEventError, SchemaError, SourceError
from chronicle.ingest.pipeline import ingest
from chronicle.log import delta_log
from chronicle.store import Store
from tests.ingest_files import TIES, Row, options, read_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


# ---------------------------------------------------------------------------------------------
# Faults of records.


def quarantine(store: Store) -> list[Row]:
    table = store.path / "s" / "quarantine"
    files = [table / file.name for file in delta_log.live_files(table)]
    rows = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    return sorted(rows, key=lambda row: row["record"])


def test_faulty_csv_records_are_put_aside_with_their_reason(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "a.csv"
    lines = [
        "2020-01-01T00:00:00,1,a",
        "2020-01-01T00:00:01,one,b",
        "2020-01-01T00:00:02,2",
        ",3,d",
        "yesterday,4,e",
        "2020-01-01T00:00:05Z,5,f",
        "2020-01-01T00:00:06.0000001,6,g",
        "12:30:00,7,h",
        "2020-01-01T00:00:08,,",
        "2020-01-01T00:00:09,1,a,1",
    ]
    path.write_text("t,x,s\n" + "".join(line + "\n" for line in lines))
    ddl = "t TIMESTAMP_NTZ, x BIGINT, s STRING"
    report = ingest(store, "s", [path], options(schema=ddl))
    assert [row["x"] for row in read_rows(store)] == [1, None]
    assert report.n_quarantined == 8
    assert report.reasons == {
        "time 't' does not parse": 2,
        "the record does not parse: it has fewer cells than there are columns": 1,
        "the record does not parse: it has more cells than there are columns": 1,
        "column 'x' does not parse as int64": 1,
        "no time in column 't'": 1,
        "time 't' has an offset from UTC, the stream's times have none": 1,
        "time 't' is finer than a microsecond": 1,
    }
    rows = quarantine(store)
    assert {row["source"] for row in rows} == {str(path)}
    placed = {row["line"]: row["record"] for row in rows}
    assert placed == {n: lines[n - 2] for n in (3, 4, 5, 6, 7, 8, 9, 11)}
    newest = delta_log.commits(store.path / "s" / "events")[0]
    assert {row["batch"] for row in rows} == {newest.metadata["quarantine_batch"]}


def test_times_beyond_the_limit_are_put_aside(tmp_path: Path, store: Store) -> None:
    rows = [{"t": t, "n": n} for n, t in enumerate((2**62, -(2**63), 2**62 - 1))]
    report = ingest(store, "s", [write_rows(tmp_path / "a.parquet", rows, TIES)], options())
    assert [row["n"] for row in read_rows(store)] == [2]
    assert report.reasons == {"time 't' is beyond 2^62": 2}


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


# ---------------------------------------------------------------------------------------------
# Refusals.


def test_late_events_are_refused_by_number_and_name(tmp_path: Path, store: Store) -> None:
    first = [{"t": t, "n": t} for t in (10, 20)]
    late = [{"t": t, "n": t} for t in (30, 19, 20, 5)]
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", first, TIES)], options())
    path = write_rows(tmp_path / "b.parquet", late, TIES)
    with pytest.raises(LateEventError, match=r"2 of 4 events .*\(20\).*oldest of 5.*19 in 'b") as e:
        ingest(store, "s", [path], options(late="reject"))
    assert e.value.n_late == 2
    assert [row["n"] for row in read_rows(store)] == [10, 20]
    assert not list(store.path.glob(".ingest-*"))


@pytest.mark.parametrize(
    ("fields", "given", "message"),
    [
        pytest.param(
            [("t", "int64"), ("x", "string")], {}, r"column 'x' is string.*/b\.parquet\)", id="type"
        ),
        pytest.param(
            [("t", "int64")], {}, r"lack column 'x' \(.*/b\.parquet\)", id="missing column"
        ),
        pytest.param(
            [("t", "int64"), ("y", "int64")], {}, r"'y' that.*/b\.parquet\)", id="unknown column"
        ),
        pytest.param([("u", "int64"), ("x", "int64")], {"time": "u"}, "ordered by 't'", id="time"),
        pytest.param([("t", "int64"), ("x", "int64")], {"key": "x"}, "has key None", id="key"),
        pytest.param([("t", "int64"), ("x", "int64")], {"index": ("y",)}, "no column", id="index"),
        pytest.param(
            [("t", "int64"), ("x", "int64")], {"block_events": 7}, "block events 64", id="setting"
        ),
    ],
)
def test_what_does_not_fit_the_stream_is_refused(
    tmp_path: Path, store: Store, fields: list[Any], given: Row, message: str
) -> None:
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", [{"t": 1, "x": 1}], schema)], options())
    other = pa.schema([pa.field(name, pa.type_for_alias(alias)) for name, alias in fields])
    path = write_rows(tmp_path / "b.parquet", [{other.names[0]: 2}], other)
    with pytest.raises(SchemaError, match=message):
        ingest(store, "s", [path], options(**given))
    assert read_rows(store) == [{"t": 1, "x": 1}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"schema": "t BIGNT, x INT"}, "did you mean 'bigint'", id="schema"),
        pytest.param({"schema": "t BIGINT, y INT"}, "'--schema' has a column 'y'", id="header"),
        pytest.param({"time_format": "yyyy-bb"}, "no pattern of times", id="pattern"),
        pytest.param(
            {"time_zone": "Mars/Olympus", "time_format": "yyyy"}, "no time zone", id="zone"
        ),
        pytest.param({"time_zone": "UTC"}, "no time zone; leave", id="zone of integers"),
        pytest.param({"schema": "t BIGINT, x ARRAY<INT>"}, "cannot be read from", id="nested"),
        pytest.param({"key": "z"}, "no key column 'z'", id="key"),
    ],
)
def test_options_that_cannot_apply_are_refused(
    tmp_path: Path, store: Store, given: Row, message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n1,1\n")
    with pytest.raises((SchemaError, SourceError), match=message):
        ingest(store, "s", [path], options(**given))
    assert store.stream_names() == ()
