"""Times written as text, against Python's own calendar and clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError
from chronicle.time import (
    DAY_US,
    find_zone,
    instant_us,
    local_us,
    to_days,
    to_instant,
    to_internal_time,
)

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
