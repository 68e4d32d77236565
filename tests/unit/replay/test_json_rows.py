"""JSON by columns is JSON by values: the same objects, to the last bit of a number."""

from __future__ import annotations

import datetime as dt
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay.formats
from replay.formats import json_rows, to_json_rows, write_answer
from tests.oracles.json_objects import json_objects

DAY_1 = dt.datetime(1, 1, 1)
TIMES = st.datetimes(DAY_1, dt.datetime(9999, 12, 31)) | st.datetimes().map(
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
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "local": (pa.timestamp("us"), TIMES),
    "second": (pa.timestamp("s"), TIMES.map(lambda time: time.replace(microsecond=0))),
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
    written = {}
    for output_format in ("json", "jsonl"):
        stream = io.BytesIO()
        write_answer([table.slice(0, 1), table.slice(1)], output_format, stream)
        written[output_format] = stream.getvalue().decode()
    assert repr(json.loads(written["json"])) == repr(expected)
    lines = written["jsonl"].removesuffix("\n").split("\n")
    assert repr([json.loads(line) for line in lines]) == repr(expected)


@pytest.mark.parametrize(("rows", "size"), [(2, 1 << 20), (1 << 10, 40), (1 << 10, 1)])
def test_a_long_table_is_written_in_pieces(
    monkeypatch: pytest.MonkeyPatch, rows: int, size: int
) -> None:
    monkeypatch.setattr(replay.formats, "JSON_ROWS", rows)
    monkeypatch.setattr(replay.formats, "JSON_BYTES", size)
    stream = io.BytesIO()
    write_answer([pa.table({"n": range(7), "s": ["x" * n for n in range(7)]})], "json", stream)

    assert json.loads(stream.getvalue()) == [{"n": n, "s": "x" * n} for n in range(7)]


def test_a_time_of_whole_nanoseconds_keeps_them() -> None:
    times = pa.array([1, 10**9, 10**9 + 500], pa.timestamp("ns", "UTC"))

    assert [json.loads(row)["t"] for row in json_rows(pa.table({"t": times})).to_pylist()] == [
        "1970-01-01T00:00:00.000000001Z", "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000000500Z",
    ]  # fmt: skip
