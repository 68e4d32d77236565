"""Derived attributes: what they are called, and their values within one data file, by hand."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from chronicle.errors import SchemaError
from chronicle.tree.derived_attributes import (
    Delta,
    attribute_field,
    check_derived,
    columns_for,
    extend,
    parse_derived,
    split_open,
    summarise_derived,
)

INF, NAN = float("inf"), float("nan")
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("f", pa.bool_())])


def delta_of(values: pa.Array, key: pa.Array | None = None) -> list[object]:
    events = pa.table({"x": values} if key is None else {"x": values, "k": key})
    extended = extend(events, ["delta(x)"], None if key is None else "k")
    assert extended.column_names[-1] == "delta(x)"
    return extended.column("delta(x)").to_pylist()


@pytest.mark.parametrize(
    ("text", "source"),
    [("delta(x)", "x"), (" delta( speed ) ", "speed"), ("delta(a (b))", "a (b)")],
)
def test_name_of_a_delta_is_read(text: str, source: str):
    found = parse_derived(text)
    assert found == Delta(source)
    assert found is not None
    assert found.name == f"delta({source})"


@pytest.mark.parametrize("text", ["x", "delta", "delta()", "delta( )", "prev(x)", "delta(x"])
def test_other_names_are_no_derived_attributes(text: str):
    assert parse_derived(text) is None


def test_first_event_of_a_file_is_open_and_the_others_differ_from_the_one_before():
    assert delta_of(pa.array([1.0, 3.5, 3.5, 2.0])) == [INF, 2.5, 0.0, -1.5]


def test_with_a_key_the_event_before_is_the_last_of_the_same_object():
    found = delta_of(pa.array([1, 10, 4, 30, 5]), pa.array(["a", "b", "a", "b", "a"]))
    assert found == [INT64_MAX, INT64_MAX, 3, 20, 1]


def test_null_tells_an_object_apart_like_any_other_key():
    found = delta_of(pa.array([1, 10, 4, 30]), pa.array([None, "b", None, "b"]))
    assert found == [INT64_MAX, INT64_MAX, 3, 20]


def test_key_read_from_blocks_with_a_dictionary_each_tells_the_same_objects_apart():
    key = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()]
    )
    events = pa.table({"x": pa.chunked_array([[1, 10], [12, 4]]), "k": key})
    found = extend(events, ["delta(x)"], "k").column("delta(x)").to_pylist()
    assert found == [INT64_MAX, INT64_MAX, 2, 3]


def test_more_objects_than_16_bits_count_are_told_apart():
    n = (1 << 16) + 2
    key = pa.array(np.concatenate([np.arange(n), np.arange(n)]))
    values = pa.array(np.concatenate([np.zeros(n, np.int64), np.arange(n)]))
    found = delta_of(values, key)
    assert found == [INT64_MAX] * n + list(range(n))


def test_null_and_nan_of_the_event_or_the_one_before_give_null():
    found = delta_of(pa.array([None, 1.0, NAN, 2.0, 3.0, None]))
    assert found == [None, None, None, None, 1.0, None]


def test_difference_of_infinities_and_one_beyond_double_are_open():
    found = delta_of(pa.array([0.0, INF, INF, -1.7e308, 1.7e308]))
    assert found == [INF, INF, INF, INF, INF]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (-1, INT64_MAX, INT64_MAX),
        (1, INT64_MIN, INT64_MAX),
        (INT64_MIN, INT64_MAX, INT64_MAX),
        (0, INT64_MAX - 1, INT64_MAX - 1),
        (0, INT64_MIN, INT64_MIN),
        (INT64_MIN, -1, INT64_MAX),
        (INT64_MIN, 0, INT64_MAX),
    ],
)
def test_difference_beyond_int64_is_open(before: int, after: int, expected: int):
    assert delta_of(pa.array([before, after])) == [INT64_MAX, expected]


def test_small_integers_do_not_overflow_in_their_own_type():
    assert delta_of(pa.array([-128, 127], pa.int8())) == [INT64_MAX, 255]


def test_floats_of_32_bits_are_subtracted_as_doubles():
    one, tiny = np.float32(1.0), np.float32(2**-30)
    assert delta_of(pa.array([one, tiny], pa.float32())) == [INF, 2**-30 - 1.0]


def test_dates_differ_in_days_and_timestamps_in_microseconds():
    days = pa.array([dt.date(2024, 2, 28), dt.date(2024, 3, 1)])
    assert delta_of(days) == [INT64_MAX, 2]
    times = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59), None, dt.datetime(1970, 1, 1)])
    assert delta_of(times) == [INT64_MAX, None, None]
    zoned = pa.array([0, 1_500_000]).cast(pa.timestamp("us", "UTC"))
    assert delta_of(zoned) == [INT64_MAX, 1_500_000]


def test_no_events_have_no_values():
    assert delta_of(pa.array([], pa.float64())) == []
    assert delta_of(pa.array([], pa.int64()), pa.array([], pa.string())) == []


def test_column_that_is_there_is_not_computed_again():
    events = pa.table({"x": [1, 2], "delta(x)": [7, 8]})
    assert extend(events, ["delta(x)"], None) is events


def test_values_known_and_open_events_are_told_apart():
    events = extend(pa.table({"x": [1.0, None, 2.0, 5.0]}), ["delta(x)"], None)
    values, is_open = split_open(events.column("delta(x)"))
    assert values.to_pylist() == [None, None, None, 3.0]
    assert is_open.tolist() == [True, False, False, False]


def test_summaries_count_open_events_by_block_and_leave_them_out_of_extremes():
    events = pa.table({"x": [1, 4, 2, 9, 9], "k": ["a", "a", "b", "b", "b"]})
    found = summarise_derived(events, Delta("x"), "k", [2, 2, 1])
    values, opened = found["delta(x)"], found["open(delta(x))"]
    assert opened.null_count.tolist() == [1, 1, 0]
    assert values.n_values.tolist() == [1, 1, 1]
    assert values.minimum.tolist() == [3, 7, 0]
    assert values.maximum.tolist() == [3, 7, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("delta(s)", "column 's' is string; derive from numbers, timestamps or dates"),
        ("delta(f)", "column 'f' is bool"),
        ("delta(y)", r"no column 'y' to derive 'delta\(y\)' from \(columns: t, x, s, f\)"),
        ("x", r"'x' is no derived attribute; write delta\(COLUMN\)"),
    ],
)
def test_what_has_no_difference_is_refused(name: str, message: str):
    with pytest.raises(SchemaError, match=message):
        check_derived(SCHEMA, [name], key=None)


@pytest.mark.parametrize("taken", ["delta(x)", "open(delta(x))"])
def test_attribute_with_the_name_of_a_column_is_refused(taken: str):
    with pytest.raises(SchemaError, match="there is a column"):
        check_derived(SCHEMA.append(pa.field(taken, pa.int64())), ["delta(x)"], key=None)


def test_a_column_goes_before_a_derived_attribute_of_its_name():
    schema = SCHEMA.append(pa.field("delta(x)", pa.string()))
    field = attribute_field(schema, "delta(x)")
    assert field is not None
    assert field.type == pa.string()
    assert attribute_field(SCHEMA, "nothing") is None


def test_columns_to_read_are_the_source_and_the_key_once_each():
    assert columns_for(SCHEMA, ["delta(x)", "t", "x"], "s") == ["x", "s", "t"]
    assert columns_for(SCHEMA, ["delta(x)"], None) == ["x"]
    assert columns_for(SCHEMA, ["t"], "s") == ["t"]
