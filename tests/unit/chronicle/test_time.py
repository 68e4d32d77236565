"""Time columns become int64 in the stream's unit, and text becomes times as on a calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError
from chronicle.time import (
    DAY_US,
    TIME_LIMIT,
    find_zone,
    from_int64,
    instant_us,
    is_ascending,
    local_us,
    show_time,
    show_times,
    time_type,
    to_days,
    to_instant,
    to_int64,
    to_internal_time,
)


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


EPOCH = datetime(1970, 1, 1)
US = timedelta(microseconds=1)


@given(st.dates())
def test_days_are_those_of_the_calendar(day: date) -> None:
    assert to_days(day.year, day.month, day.day) == (day - date(1970, 1, 1)).days


def test_leap_days_are_those_of_the_gregorian_calendar() -> None:
    leap = [year for year in (1896, 1900, 1904, 2000, 2023, 2024) if to_days(year, 2, 29)]
    assert leap == [1896, 1904, 2000, 2024]


@given(st.integers(-9999, 9999), st.integers(0, 13), st.integers(0, 32))
def test_calendar_repeats_every_400_years(year: int, month: int, day: int) -> None:
    here, there = to_days(year, month, day), to_days(year + 400, month, day)
    assert (here is None) == (there is None)
    assert here is None or there == here + 146_097


@given(st.datetimes())
def test_local_time_reads_back(time: datetime) -> None:
    # Python writes years before 1000 with four digits too.
    assert local_us(time.isoformat()) == (time - EPOCH) // US
    assert local_us(time.isoformat(" ")) == (time - EPOCH) // US
    assert instant_us(time.isoformat()) == (time - EPOCH) // US


@given(st.datetimes(), st.integers(-18 * 60, 18 * 60))
def test_instant_reads_back(time: datetime, minutes: int) -> None:
    aware = time.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = (time - EPOCH) // US - minutes * 60_000_000
    assert instant_us(aware.isoformat()) == expected
    assert local_us(aware.isoformat()) is None


# Chicago, 1 November 2020: 00:59 -> 01:00 … 01:59 -> 01:00 … 01:59 -> 02:00, first at UTC-5.
# Chicago,  8 March    2020: 01:59 -> 03:00; a clock that went on as before shows 02:30 at UTC-6.
@pytest.mark.parametrize(
    ("local", "expected"),
    [
        pytest.param("2020-11-01T01:30:00", "2020-11-01T06:30:00Z", id="twice: the first"),
        pytest.param("2020-03-08T02:30:00", "2020-03-08T08:30:00Z", id="never: moved on"),
        pytest.param("2020-07-01T00:00:00", "2020-07-01T05:00:00Z", id="summer"),
        pytest.param("12020-07-01T00:00:00", "12020-07-01T05:00:00Z", id="beyond Python's years"),
        pytest.param("-0400-07-01T00:00:00", "-0400-07-01T05:50:36Z", id="before all zones"),
    ],
)
def test_local_time_becomes_an_instant(local: str, expected: str) -> None:
    us = local_us(local)
    assert us is not None
    assert to_instant(us, ZoneInfo("America/Chicago")) == instant_us(expected)
    assert instant_us(f"{local} America/Chicago") == instant_us(expected)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("Z", 0), ("UTC", 0), ("+02:00", 7200), ("-2", -7200), ("+1:2", 3720), ("+0230", 9000),
     ("+01:02:03", 3723), ("GMT+2", 7200), ("EST", -18000), ("+18:00", 64800), ("z", None),
     ("+18:01", None), ("+00:60", None), ("+001:00", None), ("Mars/Olympus", None), ("", None),
     ("america/chicago", None), ("../etc/passwd", None)],
)  # fmt: skip
def test_zone_is_an_offset_or_a_region(name: str, seconds: int | None) -> None:
    zone = find_zone(name)
    if seconds is None:
        assert zone is None
    else:
        assert zone is not None
        assert zone.utcoffset(datetime(2020, 1, 1)) == timedelta(seconds=seconds)


def test_times_beyond_64_bits_are_none() -> None:
    assert local_us("294247-01-10T04:00:54.775807") == 2**63 - 1
    assert local_us("294247-01-10T04:00:54.775808") is None
    assert instant_us("294247-01-10T04:00:54.775807-01:00") is None


def test_time_a_person_writes_is_that_of_the_stream() -> None:
    assert to_internal_time("-7", "integer") == -7
    assert to_internal_time("1970-01-02", "timestamp") == DAY_US
    assert to_internal_time("1970-01-02T00:00:01+01:00", "timestamp_utc") == DAY_US - 3_599_000_000
    assert datetime(1970, 1, 2, tzinfo=UTC).timestamp() * 1e6 == to_internal_time(
        "1970-01-02", "timestamp_utc"
    )
    for text, kind in (("1970-01-02", "integer"), (str(2**62), "integer"), ("soon", "timestamp"),
                       ("1970-01-02T00:00:00Z", "timestamp")):  # fmt: skip
        with pytest.raises(SchemaError, match="no time of this stream"):
            to_internal_time(text, kind)  # type: ignore[arg-type]


TO_US = {"us": 1, "ms": 1000, "s": 1_000_000}


@given(st.datetimes())
def test_times_are_shown_as_python_writes_them(time: datetime) -> None:
    for unit in ("us", "ms", "s"):
        cut = time.replace(microsecond=time.microsecond // TO_US[unit] * TO_US[unit])
        number = (cut - EPOCH) // US // TO_US[unit]
        [shown] = show_times(pa.array([number]).cast(pa.timestamp(unit)))
        assert shown is not None
        assert datetime.fromisoformat(shown) == cut
    assert show_time((time - EPOCH) // US, "timestamp_utc").endswith("Z")


def test_times_beyond_pythons_years_are_shown_too() -> None:
    days = pa.array([0, 2932896, 2932897, -719528, -719529, None], pa.int32()).cast(pa.date32())
    assert show_times(days) == [
        "1970-01-01", "9999-12-31", "10000-01-01", "0000-01-01", "-0001-12-31", None,
    ]  # fmt: skip
    assert show_times(pa.array([-719529 * 86_400]).cast(pa.timestamp("s", "UTC"))) == [
        "-0001-12-31T00:00:00Z"
    ]
