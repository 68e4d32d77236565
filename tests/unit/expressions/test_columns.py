"""Columns of any type become those that expressions compute with, and faults are counted by row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import NotSupportedError
from replay.expressions.columns import Columns, Values, to_arrays, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    CURRENT,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
)
from replay.patterns.conditions.across import AcrossCompiler
from tests.oracles.scalar_functions import apply_function
from tests.unit.expressions.bound_conditions import condition_in

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


T = DataType
CONDITIONS = pa.schema(
    {
        "t": pa.int64(),
        "i": pa.int64(),
        "s": pa.string(),
        "f": pa.bool_(),
        "ts": pa.timestamp("us"),
    }
)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("s || A.s = 'x'", "'concat'"),
        ("length(s || A.s) = 1", "'length'"),
        ("CAST(i + A.i AS STRING) = 'x'", r"'CAST\(… AS STRING\)'"),
        (
            "CASE WHEN f THEN ts ELSE A.ts END AT TIME ZONE 'UTC' > TIMESTAMP '2020-01-01 00:00Z'",
            "'AT TIME ZONE'",
        ),
    ],
)
def test_texts_of_different_rows_are_refused_by_the_name_of_the_function(
    condition: str, named: str
) -> None:
    with pytest.raises(NotSupportedError, match=named):
        AcrossCompiler(("A", "B")).add(1, [condition_in(CONDITIONS, condition)])


def count_faults(expression: Expression, table: pa.Table) -> int:
    faults = Faults()
    evaluate(expression, Columns(table), faults)
    return faults.count


@pytest.mark.parametrize("encoded", [False, True])
def test_rows_at_fault_are_counted_and_rows_with_null_are_not(encoded) -> None:
    texts = pa.array(["1", "x", "x", None, "", "-7"])
    table = pa.table({"s": texts.dictionary_encode() if encoded else texts})
    number = Call("cast", (Attribute("s", T.STRING),), T.INTEGER)  # 3 are no numbers
    assert count_faults(number, table) == 3
    logarithm = Call("ln", (Call("cast", (number,), T.DOUBLE),), T.DOUBLE)  # nor has -7 one
    assert count_faults(logarithm, table) == 4
    part = Call("split_part", (Attribute("s", T.STRING), Literal("-", T.STRING), number), T.STRING)
    assert count_faults(part, table) == 3


def test_faults_are_counted_once_per_row_also_on_dictionaries() -> None:
    table = pa.table({"s": pa.array(["a", "", "", "a", None]).dictionary_encode(), "i": [1] * 5})
    length = Call("length", (Attribute("s", T.STRING),), T.INTEGER)
    inverse = Call("/", (Literal(1, T.INTEGER), length), T.INTEGER)  # 1 / 0 in two rows
    faults = Faults()
    data, valid = evaluate(
        Call("=", (inverse, Literal(1, T.INTEGER)), T.BOOLEAN), Columns(table), faults
    )
    assert faults.count == 2
    assert (data & valid).tolist() == [True, False, False, True, False]


def test_text_made_of_a_dictionary_keeps_the_order_of_the_rows() -> None:
    texts = pa.array(["b", None, "a", "b"]).dictionary_encode()
    values, _ = evaluate(
        Call("upper", (Attribute("s", T.STRING),), T.STRING),
        Columns(pa.table({"s": texts})),
        Faults(),
    )
    assert values.to_pylist() == ["B", None, "A", "B"]


def test_text_of_an_event_is_joined_with_what_the_match_tells() -> None:
    table = pa.table({"s": pa.array(["x", "y"]).dictionary_encode()})
    joined, _ = evaluate(
        Call("concat", (Attribute("s", T.STRING), Classifier()), T.STRING),
        Columns(table),
        Faults(),
        match_values=lambda _: Values(pa.array(["A", "B"]), None),
    )
    assert joined.to_pylist() == ["xA", "yB"]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]
)
@settings(deadline=None, max_examples=30)
@given(moments=st.lists(st.integers(-60_000_000_000_000_000, 2_300_000_000_000_000), max_size=5))
def test_clocks_of_a_zone_are_those_of_python(zone, moments) -> None:
    table = pa.table({"ts": pa.array(moments, pa.int64())})
    for op, of, result in (
        ("local_time", T.TIMESTAMP_UTC, T.TIMESTAMP),
        ("instant", T.TIMESTAMP, T.TIMESTAMP_UTC),
    ):
        call = Call(op, (Attribute("ts", of), Literal(zone, T.STRING)), result)
        found = to_arrow(evaluate(call, Columns(table), Faults()), T.INTEGER).to_pylist()
        assert found == [apply_function(op, [moment, zone]) for moment in moments]
