"""Cells of text become values as Spark's readers make them, and say where they do not."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.local.text_values import infer_type, read_cells


def read(cells: list[str | None], data_type: pa.DataType) -> list[Any]:
    """Values, "bad" where the cell does not parse."""
    values, bad = read_cells(pa.array(cells, pa.string()), data_type)
    assert values.type == data_type
    return ["bad" if is_bad else value for value, is_bad in
            zip(values.to_pylist(), bad, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("data_type", "cells", "expected"),
    [
        # Long.parseLong: a sign, digits of any script, nothing else.
        (pa.int64(), ["5", "+5", "-05", "٣", None], [5, 5, -5, 3, None]),
        (pa.int64(), [" 5", "5 ", "1.0", "0x1F", "1_0", "-", ""], ["bad"] * 7),
        (pa.int64(), [str(2**63 - 1), str(2**63), str(-(2**63))], [2**63 - 1, "bad", -(2**63)]),
        (pa.int8(), ["127", "128", "-128", "-129"], [127, "bad", -128, "bad"]),
        # Double.parseDouble: blanks around it, a suffix, hexadecimals.
        (pa.float64(), ["1d", " 5 ", "0x1p3", ".5", "5.", "1e400"], [1, 5, 8, 0.5, 5, math.inf]),
        (pa.float64(), ["inf", "nan", "INF", "1e", "1,5", "."], ["bad"] * 6),
        (pa.float64(), ["Inf", "-Inf", "+Infinity"], [math.inf, -math.inf, math.inf]),
        # 2^24 + 1 and a value just above half a unit of the last place: rounded once.
        (pa.float32(), ["16777217", "1e40"], [16777216.0, math.inf]),
        (pa.bool_(), ["true", "FALSE", "t", "1", " true"], [True, False, "bad", "bad", "bad"]),
        (pa.decimal128(5, 2), ["1.545", "-1.545", "999.995", "1,0,0"],
         [Decimal("1.55"), Decimal("-1.55"), "bad", Decimal(100)]),
        (pa.date32(), ["2020-1-2", "2020-01", "2020-01-02Tx", "2020-02-30", "2020-01-02x"],
         [date(2020, 1, 2), date(2020, 1, 1), date(2020, 1, 2), "bad", "bad"]),
        (pa.timestamp("us"), ["2020-01-02 3:4", "2020-01-02T03:04:05.1234567", "2020-01-02T24:00"],
         [datetime(2020, 1, 2, 3, 4), datetime(2020, 1, 2, 3, 4, 5, 123456), "bad"]),
        (pa.timestamp("us"), ["2020-01-02T03:04:05Z", "12:30"], ["bad", "bad"]),
        (pa.binary(), ["ü", None], ["ü".encode(), None]),
    ],
)  # fmt: skip
def test_cell_is_read_as_spark_reads_it(
    data_type: pa.DataType, cells: list[str | None], expected: list[Any]
) -> None:
    assert read(cells, data_type) == expected


def test_float_is_rounded_once() -> None:
    # Just above the middle of 1 and the next float, 1 + 2^-23: to the double below the middle
    # first, then to even, it would be 1.
    cell = "1.00000005960464477539062500000001"
    assert read([cell], pa.float32()) == [1 + 2**-23]
    assert read(["+" + cell], pa.float32()) == [1 + 2**-23]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_read_back(numbers: list[int]) -> None:
    assert read([str(number) for number in numbers], pa.int64()) == numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_read_back(numbers: list[float]) -> None:
    assert read([repr(number) for number in numbers], pa.float64()) == numbers


@given(st.lists(st.one_of(st.none(), st.sampled_from(["1", "+2", "x", " 3", "4"]))))
def test_one_odd_cell_changes_no_other(cells: list[str | None]) -> None:
    known = {"1": 1, "+2": 2, "x": "bad", " 3": "bad", "4": 4, None: None}
    assert read(cells, pa.int64()) == [known[cell] for cell in cells]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-5"], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["1", str(2**64)], pa.decimal128(20, 0)),
        (["1" * 39], pa.float64()),
        (["1", "x"], pa.string()),
        (["1", "true"], pa.string()),
        (["true", "FALSE"], pa.bool_()),
        (["2020-01-02"], pa.date32()),
        (["2020-01-02", "2020-01-02 00:00:01"], pa.timestamp("us")),
        (["2020-01-02T00:00:01Z"], pa.timestamp("us", "UTC")),
        (["2020", "2020-01-02"], pa.string()),
        ([None], pa.string()),
        ([], pa.string()),
    ],
)
def test_type_is_the_narrowest_all_cells_parse_as(
    cells: list[str | None], expected: pa.DataType
) -> None:
    assert infer_type(pa.array(cells, pa.string())) == expected
