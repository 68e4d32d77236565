"""Columns of any numeric type become the two that expressions compute with, value by value."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.errors import NotSupportedError
from replay.expressions.columns import Columns, to_arrays
from replay.expressions.nodes import CURRENT, Attribute, DataType

EPOCH = dt.datetime(1970, 1, 1)
DAY = dt.timedelta(days=1)
DAY_US = 86_400_000_000

KINDS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "int8": (pa.int8(), [-128, 0, 127], [-128, 0, 127]),
    "uint32": (pa.uint32(), [0, 7, 2**32 - 1], [0, 7, 2**32 - 1]),
    "int64": (pa.int64(), [-(2**63), 0, 2**63 - 1], [-(2**63), 0, 2**63 - 1]),
    "float16": (pa.float16(), [-1.5, 0.0, 65504.0], [-1.5, 0.0, 65504.0]),
    "float32": (pa.float32(), [0.1, -0.0, 3e38], [float(np.float32(0.1)), -0.0, np.float32(3e38)]),
    "float64": (pa.float64(), [0.1, 5e-324, 1e308], [0.1, 5e-324, 1e308]),
    "bool": (pa.bool_(), [True, False, True], [True, False, True]),
    "date": (pa.date32(), [EPOCH.date(), (EPOCH - DAY).date(), (EPOCH + DAY).date()], [0, -1, 1]),
    "timestamp": (pa.timestamp("ms"), [EPOCH, EPOCH - DAY, EPOCH + DAY], [0, -DAY_US, DAY_US]),
    "duration": (pa.duration("s"), [0 * DAY, -DAY, DAY], [0, -DAY_US, DAY_US]),
}


@pytest.mark.parametrize("n_chunks", [1, 2])
@pytest.mark.parametrize("with_null", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_keeps_its_values_whatever_its_width(
    kind: str, with_null: bool, n_chunks: int
) -> None:
    of, values, expected = KINDS[kind]
    given = [np.float16(value) for value in values] if kind == "float16" else values
    chunk = [*given, None, *given] if with_null else [*given, *given]
    data, valid = to_arrays(pa.chunked_array([pa.array(chunk, of)] * n_chunks))
    there = np.array([value is not None for value in chunk] * n_chunks)
    assert (valid is None) is not with_null
    if valid is not None:
        assert valid.tolist() == there.tolist()
    assert data.dtype == np.array(expected).dtype
    assert data[there].tolist() == [*expected, *expected] * n_chunks


def test_margins_are_read_but_have_no_value_of_their_own() -> None:
    table = pa.table({"i": [10, 11, 12, 13]})
    columns = Columns(table, before=1, after=1)
    previous = columns.at(Attribute("i", DataType.INTEGER, CURRENT, -1))
    assert (previous.data.tolist(), previous.valid) == ([10, 11], None)
    beyond = columns.at(Attribute("i", DataType.INTEGER, CURRENT, 2))
    assert (beyond.data[:1].tolist(), beyond.valid.tolist()) == ([13], [True, False])


@pytest.mark.parametrize(
    ("values", "arrow_type", "wanted"),
    [
        pytest.param([1000, None], pa.timestamp("ns"), [1, None], id="nanoseconds"),
        pytest.param([2, None], pa.timestamp("s", "UTC"), [2_000_000, None], id="seconds"),
        pytest.param([3, None], pa.date32(), [3, None], id="days"),
        pytest.param([4, None], pa.duration("ms"), [4000, None], id="durations"),
        pytest.param([5, None], pa.int8(), [5, None], id="small integers"),
    ],
)
def test_columns_of_any_width_are_carried_as_int64(values, arrow_type, wanted) -> None:
    array = pa.array(values, pa.int64() if arrow_type != pa.date32() else pa.int32())
    table = pa.table({"c": array.cast(arrow_type)})
    data, valid = Columns(table).at(Attribute("c", DataType.INTEGER))
    assert data.dtype == np.int64
    assert [v if ok else None for v, ok in zip(data.tolist(), valid, strict=True)] == wanted


def test_nested_column_is_refused_by_type() -> None:
    table = pa.table({"c": pa.array([[1], [2]])})
    with pytest.raises(NotSupportedError, match="type list"):
        Columns(table).at(Attribute("c", DataType.INTEGER))
