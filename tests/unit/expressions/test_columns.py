"""Columns of any numeric type become the two that expressions compute with, value by value."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.expressions.columns import to_arrays

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
