"""Times as Arrow stores them, as int64, the form Chronicle computes with, and as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError

Mask = npt.NDArray[np.bool_]

TimeType = Literal["integer", "timestamp", "timestamp_utc"]

TIME_LIMIT = 1 << 62
"""Times lie in (-TIME_LIMIT, TIME_LIMIT), so that the difference of two never overflows."""


def time_type(data_type: pa.DataType, *, column: str) -> TimeType:
    """Return which kind of time an Arrow type is."""
    if pat.is_signed_integer(data_type):
        return "integer"
    if pat.is_timestamp(data_type):
        if data_type.unit == "ns":
            raise SchemaError(
                f"time column '{column}' is {data_type}; Delta stores microseconds, "
                "cast it to timestamp[us] first"
            )
        return "timestamp" if data_type.tz is None else "timestamp_utc"
    if pat.is_unsigned_integer(data_type):
        raise SchemaError(
            f"time column '{column}' is {data_type}; Delta has no unsigned integers, "
            "cast it to int64 first"
        )
    if pat.is_floating(data_type) or pat.is_decimal(data_type):
        raise SchemaError(
            f"time column '{column}' is {data_type}, which can be NaN or fractional and so does "
            "not order events; convert it to a timestamp or to int64 in a unit that fits"
        )
    if pat.is_date(data_type):
        raise SchemaError(
            f"time column '{column}' is a DATE, and that of a stream is a signed integer or a "
            "timestamp; parse or cast it first (in SQL: CAST(… AS TIMESTAMP))"
        )
    raise SchemaError(
        f"time column '{column}' is {data_type}; time is a signed integer or a timestamp, "
        "so parse or cast it first"
    )


def type_of_moments(data_type: pa.DataType) -> pa.DataType:
    """Return the type of internal times in columns of their own, such as borders of windows.

    Between two dates there are moments, so those of a column of dates are timestamps.
    """
    if pat.is_date(data_type) or pat.is_timestamp(data_type):
        return pa.timestamp("us", None if pat.is_date(data_type) else data_type.tz)
    return pa.int64()


def to_int64(column: pa.Array | pa.ChunkedArray, *, name: str) -> pa.Array:
    """Convert a time column to Chronicle's internal time.

    ``column`` holds signed integers, timestamps in s, ms or us, or dates; the result microseconds
    for timestamps and, at midnight, dates, the column's own unit for integers. Nulls and values
    that do not fit are refused.
    """
    kind = "timestamp" if pat.is_date(column.type) else time_type(column.type, column=name)
    if column.null_count:
        raise SchemaError(
            f"time column '{name}' has {column.null_count} null values; "
            "drop or quarantine events without a time"
        )
    try:
        if kind != "integer":
            column = column.cast(type_of_moments(column.type))
        times = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise SchemaError(f"time column '{name}' does not fit microseconds: {error}") from error
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks() if times.num_chunks != 1 else times.chunk(0)
    _check_limit(times, name)
    return times


def times_of(events: pa.Table, column: str) -> npt.NDArray[np.int64]:
    """Return the internal times of events, shape (n_events,)."""
    return np.asarray(to_int64(events.column(column), name=column).to_numpy(), np.int64)


def _check_limit(times: pa.Array, name: str) -> None:
    if len(times) == 0:
        return
    extremes = pc.min_max(times).as_py()
    if extremes["min"] <= -TIME_LIMIT or extremes["max"] >= TIME_LIMIT:
        raise SchemaError(
            f"time column '{name}' reaches from {extremes['min']} to {extremes['max']}; times lie "
            "between -2^62 and 2^62, so use a coarser unit"
        )


def from_int64(times: npt.NDArray[np.int64] | pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert internal times back to the type of the time column."""
    array = pa.array(times, type=pa.int64()) if isinstance(times, np.ndarray) else times
    return array.cast(type_of_moments(data_type)).cast(data_type)


def show_time(time: int, kind: TimeType) -> str:
    """Return an internal time as people read it: ISO 8601, or the number where time is one."""
    if kind == "integer":
        return str(time)
    zone = "Z" if kind == "timestamp_utc" else ""
    return _written(np.datetime64(time, "us")) + zone


def show_times(values: pa.Array) -> list[str | None]:
    """Return dates and timestamps of any unit as `show_time` does, however far they are.

    Why: Python ends with the year 9999, and Arrow's own texts are wrong beyond 32767.
    """
    is_date = pat.is_date(values.type)
    days = values.cast(pa.date32()).cast(pa.int32()) if is_date else values.cast(pa.int64())
    unit: Any = "D" if is_date else values.type.unit
    zone = "Z" if not is_date and values.type.tz is not None else ""
    return [
        None if one is None else _written(np.datetime64(one, unit)) + zone
        for one in days.to_pylist()
    ]


def _written(time: np.datetime64) -> str:
    """Return a time without a fraction of zeros, its year of four digits at least."""
    whole, _, fraction = str(time).partition(".")
    sign = "-" if whole.startswith("-") else ""
    year, dash, rest = whole.removeprefix("-").partition("-")
    text = f"{sign}{year:0>4}{dash}{rest}"
    return f"{text}.{fraction}" if fraction.strip("0") else text


def is_ascending(times: npt.NDArray[np.int64]) -> bool:
    """Return whether no time is smaller than its predecessor."""
    return bool((times[1:] >= times[:-1]).all())


# ---------------------------------------------------------------------------------------------
# Times as text, read to the same outcome as Spark's casts


DAY_US = 86_400_000_000
_INT64 = range(-(1 << 63), 1 << 63)
_BLANKS = "".join(map(chr, range(33))) + "\x7f"

_TIME = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(?P<zone>\D.*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?"
    r"|(?:UTC|GMT|UT)?([+-])(\d{1,2}):(\d{2}):(\d{2})",
    re.ASCII,
)
_OFFSET_SECONDS_MAX = 18 * 3600
_SHORT_ZONES = {
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
    "PST": "America/Los_Angeles",
    "CST": "America/Chicago",
    "CET": "CET",
    "EET": "EET",
    "MET": "MET",
    "WET": "WET",
}
"""Names Java has beside the regions; others of its abbreviations are not read."""


def instant_us(text: str) -> int | None:
    """Return the microseconds of an instant, of a local time as if in UTC; None if it is none."""
    found = split_time(text)
    if found is None and "GMT" in text:
        found = split_time(text.replace("GMT", "", 1))
    if found is None:
        return None
    local, zone = found
    return local if zone is None else to_instant(local, zone)


def local_us(text: str) -> int | None:
    """Return the microseconds of a local time; None if it is none, or has an offset from UTC."""
    found = split_time(text)
    return None if found is None or found[1] is not None else found[0]


def to_internal_time(text: str, kind: TimeType) -> int:
    """Read a time a person writes: a number where time is one, else ISO 8601.

    For a stream of instants a time without an offset is UTC.
    """
    bare = text.strip()
    if kind == "integer":
        if re.fullmatch(r"[+-]?[0-9]{1,19}", bare) and abs(int(bare)) < TIME_LIMIT:
            return int(bare)
        raise SchemaError(f"'{text}' is no time of this stream; its times are integers")
    time = instant_us(bare) if kind == "timestamp_utc" else local_us(bare)
    if time is None:
        zone = "" if kind == "timestamp_utc" else ", without an offset from UTC"
        raise SchemaError(
            f"'{text}' is no time of this stream; write it like 2024-05-01 or "
            f"2024-05-01T12:30:00{zone}"
        )
    return time


def split_time(text: str) -> tuple[int, tzinfo | None] | None:
    """Read a time into the microseconds its clock shows, and its zone; None if it is no time."""
    found = _TIME.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, named = found.groups()
    days = to_days(int(sign + year), int(month or 1), int(day or 1))
    clock = (int(hour or 0), int(minute or 0), int(second or 0))
    if days is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    zone = None
    if named is not None:
        zone = find_zone(named.strip(_BLANKS))
        if zone is None:
            return None
    seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
    us = days * DAY_US + seconds * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))
    return (us, zone) if us in _INT64 else None


def to_days(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970 of a date of the Gregorian calendar; None if there is no such."""
    lengths = (31, 29 if _is_leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    # Years from March on, so that the leap day is a year's last.
    y, m = (year - 1, month + 9) if month <= 2 else (year, month - 3)
    return 365 * y + y // 4 - y // 100 + y // 400 + (153 * m + 2) // 5 + day - 719_469


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@lru_cache(maxsize=256)
def find_zone(name: str) -> tzinfo | None:
    """Return the zone of a region or of an offset from UTC; None if there is none.

    Examples
    --------
    >>> find_zone("+02:00")
    datetime.timezone(datetime.timedelta(seconds=7200))
    """
    if name in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is not None:
        return _offset_zone(*(part for part in found.groups() if part is not None))
    if name in _SHORT_ZONES and name != _SHORT_ZONES[name]:
        return find_zone(_SHORT_ZONES[name])
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset_zone(sign: str, hours: str, minutes: str = "0", seconds: str = "0") -> tzinfo | None:
    offset = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if int(minutes) > 59 or int(seconds) > 59 or offset > _OFFSET_SECONDS_MAX:
        return None
    return timezone(timedelta(seconds=-offset if sign == "-" else offset))


def to_instant(local: int, zone: tzinfo, *, fold: int = 0) -> int | None:
    """Return the instant at which clocks of a zone show a local time, both in microseconds.

    An hour that occurs twice is taken as its first occurrence; one that never occurs is moved on
    by the length of the gap. With ``fold`` 1 it is the second occurrence, or moved back. None if it
    is beyond 64 bits.
    """
    # Outside of these years offsets are those of the same day 400 years earlier or later.
    cycle_us = 146_097 * DAY_US
    cycles = 0
    while not -62_000_000_000_000_000 <= local - cycles * cycle_us < 253_000_000_000_000_000:
        cycles += 1 if local > 0 else -1
    clock = datetime(1970, 1, 1) + timedelta(microseconds=local - cycles * cycle_us)  # noqa: DTZ001
    offset = clock.replace(tzinfo=zone, fold=fold).utcoffset()
    assert offset is not None
    us = local - offset // timedelta(microseconds=1)
    return us if us in _INT64 else None


def cut_to_us(values: Any) -> tuple[Any, int]:
    """Return nanoseconds as microseconds, rounded down, and how many were not whole ones."""
    if not pat.is_timestamp(values.type) or values.type.unit != "ns":
        return values, 0
    ns = values.cast(pa.int64())
    us = _floor_divide(ns, 1000)
    n_cut = pc.sum(pc.not_equal(pc.multiply(us, 1000), ns)).as_py() or 0
    return us.cast(pa.timestamp("us", values.type.tz)), int(n_cut)


_US_PER = {"s": 1_000_000, "ms": 1000, "us": 1}
_DATE_US = {32: DAY_US, 64: 1000}


def to_us(values: pa.Array, *, limit: int = 1 << 63) -> tuple[pa.Array, Mask]:
    """Return times as microseconds, and which of them these cannot hold.

    ``values`` are timestamps in s, ms or us, or dates; what is none of these is returned as it is.
    The times of the mask, those that do not lie in (-``limit``, ``limit``), are null.
    """
    if pat.is_date(values.type):
        factor, target = _DATE_US[values.type.bit_width], pa.timestamp("us")
        counts = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    elif pat.is_timestamp(values.type) and values.type.unit in _US_PER:
        factor, target = _US_PER[values.type.unit], pa.timestamp("us", values.type.tz)
        counts = values
    else:
        return values, np.zeros(len(values), bool)
    most = (limit - 1) // factor
    if most == _INT64[-1]:  # microseconds, which hold themselves
        return values, np.zeros(len(values), bool)
    counts = counts.cast(pa.int64())
    extremes = pc.min_max(counts).as_py()
    if extremes["min"] is None or -most <= extremes["min"] <= extremes["max"] <= most:
        return values.cast(target), np.zeros(len(values), bool)
    beyond = pc.or_(pc.less(counts, -most), pc.greater(counts, most))
    counts = pc.if_else(beyond, pa.scalar(None, pa.int64()), counts)
    times = pc.multiply(counts, factor).cast(target)
    return times, np.asarray(pc.fill_null(beyond, False).to_numpy(zero_copy_only=False), bool)


def _floor_divide(values: Any, by: int) -> Any:
    found = pc.divide(values, by)
    over = pc.and_(pc.less(values, 0), pc.not_equal(pc.multiply(found, by), values))
    return pc.subtract(found, over.cast(pa.int64()))
