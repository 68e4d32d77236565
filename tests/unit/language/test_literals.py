"""Types of attributes, and texts of times and durations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.expressions.evaluate import constant
from replay.expressions.literals import (
    from_parameter,
    parse_date,
    parse_duration,
    parse_timestamp,
)
from replay.expressions.nodes import Call
from replay.expressions.types import CASTS, TYPE_NAMES, TYPES_NOT_YET, remedy_for, to_data_type
from replay.language.bound import DataType, Literal

T = DataType


@pytest.mark.parametrize(
    ("text", "value", "data_type"),
    [
        ("1970-01-01", 0, T.TIMESTAMP),
        (" 1970-01-01 00:00 ", 0, T.TIMESTAMP),
        ("1970-01-01T00:00:01", 1_000_000, T.TIMESTAMP),
        ("1969-12-31 23:59:59.5", -500_000, T.TIMESTAMP),
        ("1970-01-01 00:00:00.000001", 1, T.TIMESTAMP),
        ("1970-01-01 00:00:00Z", 0, T.TIMESTAMP_UTC),
        ("1970-01-01 02:00:00 +02:00", 0, T.TIMESTAMP_UTC),
        ("1970-01-01 02:00:00+02", 0, T.TIMESTAMP_UTC),
        ("1969-12-31 18:30:00-0530", 0, T.TIMESTAMP_UTC),
    ],
)
def test_timestamp(text, value, data_type):
    assert parse_timestamp(text) == Literal(value, data_type)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "19700101",
        "1970-1-1",
        "1970-W01-1",
        "1970-13-01",
        "1970-01-01 24:00:01",
        "1970-01-01 1:00",
        "1970-01-01 00:00:00.0000001",
        "1970-01-01Z",
        "today",
    ],
)
def test_text_that_is_no_timestamp_is_named_with_the_form(text):
    with pytest.raises(ValueError, match="is not a timestamp") as raised:
        parse_timestamp(text)
    assert str(raised.value).startswith(f"'{text}' ")
    assert "expected 'YYYY-MM-DD HH:MM:SS" in str(raised.value)


@pytest.mark.parametrize("text", ["1970-01-01 00:00", "1970-02-30", "01.01.1970"])
def test_text_that_is_no_date(text):
    with pytest.raises(ValueError, match="expected 'YYYY-MM-DD'"):
        parse_date(text)


@pytest.mark.parametrize(
    ("amount", "unit", "microseconds"),
    [
        ("30", "MINUTE", 1_800_000_000),
        ("-1", "HOUR", -3_600_000_000),
        ("0.5", "MILLISECOND", 500),
        ("1e2", "MICROSECOND", 100),
        ("2", "WEEK", 1_209_600_000_000),
    ],
)
def test_duration(amount, unit, microseconds):
    assert parse_duration(amount, unit) == Literal(microseconds, T.INTERVAL)


@pytest.mark.parametrize(
    ("amount", "unit", "words"),
    [
        ("x", "MINUTE", "'x' is not a number of MINUTES"),
        ("1:30", "HOUR", "'1:30' is not a number of HOURS"),
        ("0.1", "MICROSECOND", "no whole number of microseconds"),
        ("1e20", "DAY", "longer than 64 bits can count"),
        ("NaN", "DAY", "longer than 64 bits can count"),
    ],
)
def test_what_is_no_duration(amount, unit, words):
    with pytest.raises(ValueError, match=words):
        parse_duration(amount, unit)


@given(st.datetimes())
def test_local_time_comes_back(moment):
    epoch = datetime.fromisoformat("1970-01-01")
    literal = parse_timestamp(moment.isoformat(" "))
    assert epoch + timedelta(microseconds=literal.value) == moment
    assert from_parameter(moment) == literal


@given(st.datetimes(timezones=st.timezones()))
def test_instant_comes_back(moment):
    literal = from_parameter(moment)
    assert literal.type is T.TIMESTAMP_UTC
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert timedelta(microseconds=literal.value) == moment - epoch


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
