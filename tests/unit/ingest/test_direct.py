"""Parquet that workers read themselves: splits cover it, and faults are those Spark's way finds."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SourceError
from chronicle.ingest.columns import FAULT, RAW_TIME
from chronicle.ingest.direct import (
    DirectSplit,
    _read,
    _to_records,
    needs_no_conversion,
    plan_splits,
    survey_split,
)
from chronicle.ingest.times import Fault, TimeReading, TimeSource
from chronicle.schema import normalise_schema

INTEGER = TimeReading(TimeSource.INTEGER, "integer", None, None)
LOCAL = TimeReading(TimeSource.LOCAL, "timestamp", None, None)


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=8), min_size=1, max_size=5), st.integers(1, 6)
)
def test_splits_cover_every_row_group_once_in_order(groups: list[list[int]], n_tasks: int):
    paths = [Path(f"{i}.parquet") for i in range(len(groups))]
    splits = plan_splits(paths, groups, n_tasks=n_tasks)
    covered = [(s.position, group) for s in splits for group in range(s.first, s.stop)]
    assert covered == [(i, group) for i, rows in enumerate(groups) for group in range(len(rows))]
    size = max(1, -(-sum(map(sum, groups)) // n_tasks))
    for split in splits:
        rows = groups[split.position][split.first : split.stop]
        assert sum(rows[:-1]) <= size


def test_a_file_of_many_groups_is_shared_among_tasks():
    splits = plan_splits([Path("a"), Path("b")], [[10, 10, 10, 10], [5]], n_tasks=2)
    assert [(s.position, s.first, s.stop) for s in splits] == [(0, 0, 3), (0, 3, 4), (1, 0, 1)]


@pytest.mark.parametrize(
    ("found", "time", "expected"),
    [
        ([("t", pa.int64()), ("s", pa.large_string())], INTEGER, True),
        ([("s", pa.dictionary(pa.int32(), pa.string())), ("t", pa.int64())], INTEGER, True),
        ([("t", pa.int64()), ("s", pa.int64())], INTEGER, False),
        ([("t", pa.int64()), ("s", pa.uint8())], INTEGER, False),
        ([("t", pa.int64())], INTEGER, False),
        ([("t", pa.int64()), ("s", pa.string()), ("a.b", pa.string())], INTEGER, False),
    ],
)
def test_only_what_arrow_reads_as_spark_does_is_read_directly(found, time, expected):
    schema = pa.schema([("t", pa.int64()), ("s", pa.string())])
    assert needs_no_conversion(pa.schema(found), schema, time) is expected


def test_times_that_must_be_converted_are_not_read_directly():
    schema = pa.schema([("t", pa.timestamp("us"))])
    assert needs_no_conversion(pa.schema([("t", pa.timestamp("ms"))]), schema, LOCAL)
    zoned = TimeReading(TimeSource.LOCAL, "timestamp_utc", None, "Europe/Berlin")
    assert not needs_no_conversion(schema, pa.schema([("t", pa.timestamp("us", "UTC"))]), zoned)
    text = TimeReading(TimeSource.TEXT, "timestamp", None, None)
    assert not needs_no_conversion(schema, schema, text)
    assert not needs_no_conversion(None, schema, LOCAL)
    assert not needs_no_conversion(pa.schema([("t", pa.timestamp("ns"))]), schema, LOCAL)


def _write(path: Path, times: list[int | None]) -> DirectSplit:
    table = pa.table({"x": range(len(times)), "t": pa.array(times, pa.int64())})
    pq.write_table(table, path, row_group_size=2)
    return DirectSplit(0, str(path), 1, -(-len(times) // 2))


def test_rows_without_a_usable_time_carry_their_fault(tmp_path: Path):
    split = _write(tmp_path / "a.parquet", [1, 2, 3, None, 1 << 62, -(1 << 62), 4])
    schema = normalise_schema(pa.schema([("t", pa.int64()), ("x", pa.int64())]))
    (batch,) = [_to_records(b, split, schema, "t") for b in _read(split, schema.names)]
    assert batch.column(0).to_pylist() == [3, None, None, None, 4]
    assert batch.column(1).to_pylist() == [2, 3, 4, 5, 6]
    out, none, no = int(Fault.OUT_OF_RANGE), int(Fault.NONE), int(Fault.NO_TIME)
    assert batch.column(FAULT).to_pylist() == [none, no, out, out, none]
    raw = [None, None, str(1 << 62), str(-(1 << 62)), None]
    assert batch.column(RAW_TIME).to_pylist() == raw


def test_survey_of_a_split_sees_its_rows_alone(tmp_path: Path):
    split = _write(tmp_path / "a.parquet", [9, 9, 3, None, 2, 5])
    schema = pa.schema([("x", pa.int64()), ("t", pa.int64())])
    (row,) = json.loads(survey_split(split.to_json(), schema=schema, time="t", stream_end=4))
    assert (row["n_usable"], row["n_bad"], row["t_min"], row["t_max"]) == (3, 1, 2, 5)
    assert (row["ordered"], row["n_late"], row["late"]) == (False, 2, [3, 2])
    assert (row["position"], row["block_start"]) == (0, 1)


def test_a_file_that_is_damaged_is_named(tmp_path: Path):
    split = _write(tmp_path / "a.parquet", [1, 2, 3])
    data = (tmp_path / "a.parquet").read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    (tmp_path / "a.parquet").write_bytes(data[:4] + bytes(len(data) - 4 - footer) + data[-footer:])
    schema = pa.schema([("x", pa.int64()), ("t", pa.int64())])
    with pytest.raises(SourceError, match=r"a\.parquet' cannot be read"):
        survey_split(
            DirectSplit(0, split.path, 0, 2).to_json(), schema=schema, time="t", stream_end=None
        )
