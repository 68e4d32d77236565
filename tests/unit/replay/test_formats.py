"""Answers for machines: what text formats make of types they do not have, to the last bit."""

from __future__ import annotations

import csv
import datetime as dt
import gc
import io
import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay.formats
from replay.errors import NotSupportedError, QueryError
from replay.formats import json_rows, to_json_rows, values_as_texts, write_answer
from tests.oracles.json_objects import json_objects

TABLE = pa.table(
    {
        "raw": pa.array([b"a\xff", None], pa.binary()),
        "price": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
        "took": pa.array([dt.timedelta(seconds=2), None], pa.duration("us")),
        "day": pa.array([dt.date(2024, 2, 29), None], pa.date32()),
        "is_late": [True, False],
    }
)


def written(tables: Iterable[pa.Table], output_format: str) -> bytes:
    stream = io.BytesIO()
    write_answer(tables, output_format, stream)
    return stream.getvalue()


def test_csv_has_bytes_as_digits_and_intervals_as_seconds() -> None:
    head, first, second = written([TABLE], "csv").decode().splitlines()
    assert head == '"raw","price","took","day","is_late"'
    assert first == '"61ff",1.25,2,2024-02-29,true'
    assert second == ",,,,false"


def test_a_type_that_parquet_has_not_is_told() -> None:
    held = pa.array([[(0, 1, 0)]], pa.list_(pa.month_day_nano_interval()))
    with pytest.raises(NotSupportedError, match="has a type that Parquet has not"):
        written([pa.table({"held": held})], "parquet")


def test_clock_times_of_csv_have_no_quotes_of_their_own() -> None:
    clocks = [dt.time(12, 0, 1), dt.time(0, 0, 0, 5), None]
    text = written([pa.table({"at": pa.array(clocks, pa.time64("us")), "n": [1, 2, 3]})], "csv")
    rows = list(csv.reader(io.StringIO(text.decode())))
    assert rows == [["at", "n"], ["12:00:01", "1"], ["00:00:00.000005", "2"], ["", "3"]]


TIMES = [dt.datetime(2026, 3, 2, 9, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), None]


@pytest.mark.parametrize("data_type", ["timestamp[us]", "timestamp[ms]", "timestamp[ns]"])
def test_times_of_csv_are_those_of_json(data_type: str) -> None:
    local = pa.array(TIMES).cast(data_type)
    zones = {zone: pa.compute.assume_timezone(local, zone) for zone in ("UTC", "Europe/Paris")}
    table = pa.table({"local": local, **zones})
    rows = list(csv.reader(io.StringIO(written([table], "csv").decode())))
    digits = "500000000" if data_type == "timestamp[ns]" else "500000"
    assert rows[1] == ["2026-03-02T09:30:00", "2026-03-02T09:30:00Z", "2026-03-02T09:30:00+01:00"]
    assert rows[2][:2] == [f"1969-12-31T23:59:59.{digits}{zone}" for zone in ("", "Z")]
    objects = json.loads(written([table], "json"))
    assert rows[1:] == [[time or "" for time in row.values()] for row in objects]


def test_format_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format 'xml'"):
        written([TABLE], "xml")


PIECES = [TABLE.slice(0, 0), TABLE.slice(0, 1), TABLE.slice(0, 0), TABLE.slice(1), TABLE]


@pytest.mark.parametrize("output_format", ["json", "csv"])
def test_pieces_give_the_bytes_of_the_whole(output_format: str) -> None:
    in_pieces = written(iter(PIECES), output_format)
    assert in_pieces == written([pa.concat_tables(PIECES)], output_format)
    assert in_pieces.count(b"61ff") == 2


def read_parquet(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


def read_arrow(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


@pytest.mark.parametrize(
    ("output_format", "read"), [("parquet", read_parquet), ("arrow", read_arrow)]
)
def test_pieces_give_the_rows_of_the_whole(
    output_format: str, read: Callable[[bytes], pa.Table]
) -> None:
    table = read(written(iter(PIECES), output_format))
    assert table.num_rows == 4
    assert table.column("is_late").to_pylist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("output_format", "expected"),
    [("json", "[]\n"), ("csv", '"raw","price","took","day","is_late"\n')],
)
def test_an_answer_without_rows_is_whole(output_format: str, expected: str) -> None:
    assert written([TABLE.slice(0, 0)], output_format).decode() == expected


@pytest.mark.parametrize("output_format", ["json", "csv", "arrow"])
def test_rows_are_written_before_the_next_are_asked_for(output_format: str) -> None:
    stream = io.BytesIO()

    def found() -> Iterator[pa.Table]:
        yield TABLE
        assert b"2024-02-29" in stream.getvalue() or output_format == "arrow"
        assert stream.tell() > 0
        raise KeyError

    with pytest.raises(KeyError):
        write_answer(found(), output_format, stream)


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize(
    ("output_format", "read", "refused"),
    [
        ("json", json.loads, ValueError),
        ("parquet", read_parquet, pa.ArrowInvalid),
        ("arrow", read_arrow, pa.ArrowInvalid),
    ],
)
def test_what_an_error_cuts_off_is_not_read_as_a_whole_answer(
    monkeypatch: pytest.MonkeyPatch,
    output_format: str,
    read: Callable[[bytes], Any],
    refused: type[Exception],
    n_rows: int,
) -> None:
    monkeypatch.setattr(replay.formats, "ROW_GROUP_ROWS", 2)  # one row is no row group, three are
    piece = pa.table({"n": range(n_rows)})

    def pieces() -> Iterator[pa.Table]:
        yield piece
        raise QueryError("the second piece")

    stream = io.BytesIO()
    gc.freeze()  # what the other tests left takes half a second to look through
    with pytest.raises(QueryError):
        write_answer(pieces(), output_format, stream)
    gc.collect()  # writers end what they write when they go
    gc.unfreeze()
    with pytest.raises(refused):
        read(stream.getvalue())
    assert len(read(written([piece], output_format))) == n_rows


DAY_1 = dt.datetime(1, 1, 1)
ANY_TIMES = st.datetimes(DAY_1, dt.datetime(9999, 12, 31)) | st.datetimes().map(
    lambda time: time.replace(microsecond=0)
)
COLUMNS = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "count": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "x": (pa.float64(), st.floats() | st.integers(-(2**60), 2**60).map(float)),
    "small": (pa.float32(), st.floats(width=32)),
    "is_late": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    'a "name"\n': (pa.large_string(), st.text('\\"\x00\x1f\x7f\n\té\U0001f600a', max_size=8)),
    "symbol": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["", "A", '"'])),
    "at": (pa.timestamp("us", "UTC"), ANY_TIMES),
    "local": (pa.timestamp("us"), ANY_TIMES),
    "second": (pa.timestamp("s"), ANY_TIMES.map(lambda time: time.replace(microsecond=0))),
    "day": (pa.date32(), st.dates()),
    "took": (pa.duration("us"), st.timedeltas(dt.timedelta(days=-999), dt.timedelta(days=999))),
    "price": (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "huge": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1)),
    "raw": (pa.binary(), st.binary(max_size=4)),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw a table of a few columns in chunks of any sizes."""
    n = draw(st.integers(1, 6))
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True))
    arrays = [
        pa.array(draw(st.lists(COLUMNS[name][1] | st.none(), min_size=n, max_size=n)), data_type)
        for name in names
        for data_type in [COLUMNS[name][0]]
    ]
    table = pa.table(arrays, names=names)
    cut = draw(st.integers(0, n))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@given(tables())
def test_columns_give_the_objects_that_values_give(table: pa.Table) -> None:
    expected = [json.loads(row) for row in json_objects(table)]

    # By repr, 1 is not 1.0, and -0.0 is not 0.0.
    assert repr([json.loads(row) for row in to_json_rows(table)]) == repr(expected)
    pieces = [table.slice(0, 1), table.slice(1)]
    assert repr(json.loads(written(pieces, "json"))) == repr(expected)
    lines = written(pieces, "jsonl").decode().removesuffix("\n").split("\n")
    assert repr([json.loads(line) for line in lines]) == repr(expected)


@pytest.mark.parametrize(("rows", "size"), [(2, 1 << 20), (1 << 10, 40), (1 << 10, 1)])
def test_a_long_table_is_written_in_pieces(
    monkeypatch: pytest.MonkeyPatch, rows: int, size: int
) -> None:
    monkeypatch.setattr(replay.formats, "JSON_ROWS", rows)
    monkeypatch.setattr(replay.formats, "JSON_BYTES", size)
    table = pa.table({"n": range(7), "s": ["x" * n for n in range(7)]})

    assert json.loads(written([table], "json")) == [{"n": n, "s": "x" * n} for n in range(7)]


def test_a_time_of_whole_nanoseconds_keeps_them() -> None:
    times = pa.array([1, 10**9, 10**9 + 500], pa.timestamp("ns", "UTC"))

    assert [json.loads(row)["t"] for row in json_rows(pa.table({"t": times})).to_pylist()] == [
        "1970-01-01T00:00:00.000000001Z", "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000000500Z",
    ]  # fmt: skip


DAYS_10000 = 2_932_897
"""From 1970-01-01 to 10000-01-01, the first day that Python's dates do not have."""

DAYS_40000 = DAYS_10000 + 75 * 146_097
"""To 40000-01-01: 75 times 400 years, and times that Arrow has no text for."""


@pytest.mark.parametrize(
    ("days", "shown"), [(DAYS_10000, "10000-01-01"), (DAYS_40000, "40000-01-01")]
)
@pytest.mark.parametrize("zone", ["", "Z"])
def test_times_of_any_year_are_written(days: int, shown: str, zone: str) -> None:
    instants = pa.array([days * 86_400_000_000, None, 1_500_000], pa.int64())
    ends = instants.cast(pa.timestamp("us", "UTC" if zone else None))
    table = pa.table({"day": pa.array([days, None, 1], pa.int32()).cast(pa.date32()), "end": ends})
    until = [f"{shown}T00:00:00{zone}", None, f"1970-01-01T00:00:01.500000{zone}"]

    objects = [json.loads(row) for row in to_json_rows(table)]
    assert objects == [
        {"day": day, "end": end}
        for day, end in zip([shown, None, "1970-01-02"], until, strict=True)
    ]
    assert [values_as_texts(column) for column in table.columns] == [
        [shown, None, "1970-01-02"],
        until,
    ]
    written_times = [row[1] for row in csv.reader(io.StringIO(written([table], "csv").decode()))]
    assert written_times[1:] == [text or "" for text in until]


@pytest.mark.parametrize("output_format", ["csv", "parquet"])
def test_an_interval_of_thousands_of_years_is_its_seconds(output_format: str) -> None:
    years = pa.array([DAYS_10000 * 86_400_000_000 + 1, None, -1], pa.duration("us"))
    content = written([pa.table({"took": years})], output_format)
    read = (
        read_parquet(content).column("took").to_pylist()
        if output_format == "parquet"
        else [float(row) if row else None for row in content.decode().splitlines()[1:]]
    )
    assert read == [253_402_300_800.000001, None, -0.000001]


def test_times_of_any_year_are_told_in_lists_and_structs() -> None:
    micros = 300_000_000_000_000_000  # the year 11476
    times = pa.array([[micros, 0], None, []], pa.list_(pa.timestamp("us", "UTC")))
    of_row = pa.array([{"day": 4_000_000}] * 3, pa.struct([("day", pa.date32())]))
    far = str(np.datetime64(micros, "us")).removesuffix(".000000") + "Z"
    day = str(np.datetime64(4_000_000, "D"))
    rows = [json.loads(row) for row in to_json_rows(pa.table({"l": times, "s": of_row}))]
    assert [row["l"] for row in rows] == [[far, "1970-01-01T00:00:00Z"], None, []]
    assert [row["s"] for row in rows] == [{"day": day}] * 3
