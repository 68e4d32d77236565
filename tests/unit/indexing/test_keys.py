"""Columns as keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given

from indexing.errors import IndexingError
from indexing.keys import KeyKind, key_kind, to_keys
from tests.oracles.index import to_key
from tests.unit.indexing.index_strategies import columns


@given(columns())
def test_keys_are_the_values_without_null_and_nan(column: pa.Array) -> None:
    expected = [(i, to_key(v)) for i, v in enumerate(column.to_pylist()) if to_key(v) is not None]
    for form in (column, pa.chunked_array([column, column.slice(0, 0)])):
        keys = to_keys(form, "x")
        assert list(zip(keys.rows.tolist(), keys.values.to_pylist(), strict=True)) == expected
        assert keys.values.type == key_kind(column.type, "x").arrow_type


def test_dictionary_encoded_strings_with_several_dictionaries_are_decoded() -> None:
    column = pa.chunked_array(
        [pa.array(["b", "a", None]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    )
    keys = to_keys(column, "x")
    assert keys.values.to_pylist() == ["b", "a", "c", "b"]
    assert keys.rows.tolist() == [0, 1, 3, 4]


def test_minus_zero_and_zero_are_one_key() -> None:
    [first, second] = to_keys(pa.array([-0.0, 0.0]), "x").values.to_pylist()
    assert str(first) == str(second) == "0.0"


def test_times_are_microseconds_and_dates_days() -> None:
    moment = dt.datetime(1970, 1, 2, 0, 0, 1)
    for unit in ("s", "ms", "us"):
        assert to_keys(pa.array([moment], pa.timestamp(unit)), "x").values.to_pylist() == [
            86_401_000_000
        ]
    utc = pa.array([moment], pa.timestamp("us", "UTC"))
    assert to_keys(utc, "x").values.to_pylist() == [86_401_000_000]
    assert to_keys(pa.array([moment.date()], pa.date32()), "x").values.to_pylist() == [1]


def test_column_without_chunks_has_no_keys() -> None:
    assert len(to_keys(pa.chunked_array([], pa.string()), "x").rows) == 0


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([[1]]), id="list"),
        pytest.param(pa.array([{"a": 1}]), id="struct"),
        pytest.param(pa.array([b"a"]), id="binary"),
        pytest.param(pa.array([Decimal("1.5")]), id="decimal"),
        pytest.param(pa.array([1], pa.timestamp("ns")), id="nanoseconds"),
        pytest.param(pa.array([1], pa.uint64()), id="uint64"),
        pytest.param(pa.array([None], pa.null()), id="null"),
        pytest.param(pa.array([1], pa.duration("us")), id="duration"),
    ],
)
def test_type_without_an_order_is_refused_by_name(column: pa.Array) -> None:
    with pytest.raises(IndexingError, match="column 'x' of type"):
        to_keys(column, "x")


def test_kinds() -> None:
    assert key_kind(pa.bool_(), "x") is KeyKind.INTEGER
    assert key_kind(pa.float32(), "x") is KeyKind.DOUBLE
    assert key_kind(pa.dictionary(pa.int32(), pa.string()), "x") is KeyKind.STRING
