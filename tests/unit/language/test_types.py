"""Types of attributes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.expressions.evaluate import constant
from replay.expressions.nodes import Call, DataType, Literal
from replay.expressions.types import CASTS, TYPE_NAMES, TYPES_NOT_YET, remedy_for, to_data_type

T = DataType


@pytest.mark.parametrize(
    ("arrow_type", "data_type"),
    [
        (pa.int8(), T.INTEGER),
        (pa.int64(), T.INTEGER),
        (pa.float32(), T.DOUBLE),
        (pa.bool_(), T.BOOLEAN),
        (pa.large_string(), T.STRING),
        (pa.dictionary(pa.int8(), pa.string()), T.STRING),
        (pa.timestamp("s"), T.TIMESTAMP),
        (pa.timestamp("us", "America/Chicago"), T.TIMESTAMP_UTC),
        (pa.date32(), T.DATE),
        (pa.duration("ms"), T.INTERVAL),
    ],
)
def test_arrow_type_that_queries_can_use(arrow_type, data_type):
    assert to_data_type(arrow_type) is data_type


@pytest.mark.parametrize(
    ("arrow_type", "remedy"),
    [
        (pa.uint8(), "int64"),
        (pa.float16(), "double"),
        (pa.decimal128(19, 2), "at most 18 digits"),
        (pa.decimal128(5, -2), "double"),
        (pa.timestamp("ns"), "microseconds"),
        (pa.duration("ns"), "microseconds"),
        (pa.date64(), "date32"),
        (pa.time64("us"), "microseconds"),
        (pa.struct({"a": pa.int64()}), "attributes of their own"),
        (pa.dictionary(pa.int8(), pa.int64()), "number"),
        (pa.binary(), "text"),
        (pa.null(), "text"),
    ],
)
def test_arrow_type_that_queries_cannot_use_has_a_remedy(arrow_type, remedy):
    assert to_data_type(arrow_type) is None
    assert remedy in remedy_for(arrow_type)


def test_every_cast_can_be_computed():
    for source, target in CASTS:
        value = {T.STRING: "1", T.BOOLEAN: True, T.DOUBLE: 1.0}.get(source, 1)
        assert constant(Call("cast", (Literal(value, source),), target)).type is target


def test_no_type_is_both_known_and_not_yet():
    assert not TYPES_NOT_YET & set(TYPE_NAMES)
