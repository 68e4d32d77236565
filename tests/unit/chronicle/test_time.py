"""Time columns become int64 in the stream's unit; whatever cannot order events is refused."""

import numpy as np
import pyarrow as pa
import pytest

from chronicle.errors import SchemaError
from chronicle.time import TIME_LIMIT, from_int64, is_ascending, time_type, to_int64


@pytest.mark.parametrize(
    ("data_type", "kind"),
    [
        (pa.int8(), "integer"),
        (pa.int64(), "integer"),
        (pa.timestamp("s"), "timestamp"),
        (pa.timestamp("us", "Asia/Tokyo"), "timestamp_utc"),
    ],
)
def test_types_that_order_events(data_type, kind):
    assert time_type(data_type, column="t") == kind


@pytest.mark.parametrize(
    ("data_type", "remedy"),
    [
        (pa.timestamp("ns"), "microseconds"),
        (pa.uint16(), "cast it to int64"),
        (pa.float64(), "can be NaN"),
        (pa.float32(), "can be NaN"),
        (pa.decimal128(10, 2), "fractional"),
        (pa.string(), "parse or cast"),
        (pa.date32(), "parse or cast"),
        (pa.bool_(), "parse or cast"),
    ],
)
def test_types_that_do_not_order_events_say_the_remedy(data_type, remedy):
    with pytest.raises(SchemaError, match=f"time column 'when' is .*{remedy}"):
        time_type(data_type, column="when")


@pytest.mark.parametrize(("unit", "factor"), [("s", 10**6), ("ms", 10**3), ("us", 1)])
def test_timestamps_count_microseconds_both_ways(unit, factor):
    column = pa.chunked_array([pa.array([-1, 0], pa.timestamp(unit)), [5]], pa.timestamp(unit))
    times = to_int64(column, name="t")
    assert times.to_pylist() == [-factor, 0, 5 * factor]
    assert from_int64(times, column.type).to_pylist() == column.to_pylist()


def test_integers_keep_their_unit_both_ways():
    times = to_int64(pa.array([3, -4], pa.int16()), name="t")
    assert times.type == pa.int64()
    assert from_int64(np.array(times), pa.int16()).to_pylist() == [3, -4]


def test_nulls_are_counted_and_refused():
    with pytest.raises(SchemaError, match="'t' has 2 null values"):
        to_int64(pa.array([None, 1, None], pa.int64()), name="t")


@pytest.mark.parametrize("time", [TIME_LIMIT, -TIME_LIMIT, 2**63 - 1, -(2**63)])
def test_times_whose_differences_could_overflow_are_refused(time):
    with pytest.raises(SchemaError, match="coarser unit"):
        to_int64(pa.array([0, time], pa.int64()), name="t")


def test_timestamps_beyond_microseconds_are_refused():
    with pytest.raises(SchemaError, match="microseconds"):
        to_int64(pa.array([2**60], pa.timestamp("s")), name="t")


@pytest.mark.parametrize(
    ("times", "ascending"), [([], True), ([1], True), ([1, 1, 2], True), ([1, 2, 1], False)]
)
def test_ties_ascend(times, ascending):
    assert is_ascending(np.array(times, np.int64)) is ascending
