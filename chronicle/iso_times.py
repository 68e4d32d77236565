"""Read dates and times written as text, to the same outcome as Spark's casts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chronicle.errors import SchemaError
from chronicle.time import TIME_LIMIT, TimeType

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


def to_instant(local: int, zone: tzinfo) -> int | None:
    """Return the instant at which clocks of a zone show a local time, both in microseconds.

    An hour that occurs twice is taken as its first occurrence; one that never occurs is moved on
    by the length of the gap. None if it is beyond 64 bits.
    """
    # Outside of these years offsets are those of the same day 400 years earlier or later.
    cycle_us = 146_097 * DAY_US
    cycles = 0
    while not -62_000_000_000_000_000 <= local - cycles * cycle_us < 253_000_000_000_000_000:
        cycles += 1 if local > 0 else -1
    clock = datetime(1970, 1, 1) + timedelta(microseconds=local - cycles * cycle_us)  # noqa: DTZ001
    offset = clock.replace(tzinfo=zone).utcoffset()
    assert offset is not None
    us = local - offset // timedelta(microseconds=1)
    return us if us in _INT64 else None
