"""Read the time of an event out of a column, and say what is wrong where it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.cells import as_text, read_cells
from chronicle.ingest.read_options import TIME_UNITS
from chronicle.ingest.time_patterns import has_offset_field, read_pattern
from chronicle.time import TIME_LIMIT, TimeType, cut_to_us, find_zone, split_time, to_instant

Faults = npt.NDArray[np.int32]


class Fault(IntEnum):
    """Why a record with a time column cannot become an event."""

    NONE = 0
    NO_TIME = 1
    UNPARSABLE = 2
    NO_OFFSET = 3
    OFFSET = 4
    TOO_FINE = 5
    OUT_OF_RANGE = 6

    def reason(self, time: str) -> str:
        """Return the reason in words; ``time`` is the name of the time column."""
        return {
            Fault.NONE: "",
            Fault.NO_TIME: f"no time in column '{time}'",
            Fault.UNPARSABLE: f"time '{time}' does not parse",
            Fault.NO_OFFSET: f"time '{time}' has no offset from UTC (give --time-zone)",
            Fault.OFFSET: f"time '{time}' has an offset from UTC, the stream's times have none",
            Fault.TOO_FINE: f"time '{time}' is finer than a microsecond",
            Fault.OUT_OF_RANGE: f"time '{time}' is beyond 2^62",
        }[self]


class TimeSource(Enum):
    """What the time column holds before it is read."""

    INTEGER = "integer"
    NUMBER = "number"
    """With a fraction; a time only if its unit is told."""

    LOCAL = "timestamp without zone"
    INSTANT = "timestamp"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class TimeReading:
    """How the time column becomes the stream's time."""

    source: TimeSource
    kind: TimeType
    """What the stream stores."""

    pattern: str | None
    """Pattern of text, None for ISO 8601."""

    zone: str | None
    """Zone of local times, None if they stay local."""

    unit: str | None = None
    """Unit of numbers that are instants, None for times that stay integers."""


def choose_time_reading(
    source: TimeSource,
    *,
    column: str,
    declared: TimeType | None,
    pattern: str | None,
    zone: str | None,
    text_has_offset: bool,
    unit: str | None = None,
) -> TimeReading:
    """Decide how a time column is read. Pure.

    ``declared`` is what the schema or the stream says the time is to become, None if nothing does;
    ``pattern``, ``zone`` and ``unit`` are what the user gave. ``text_has_offset``, whether the
    first time written as text has an offset from UTC, decides for a new stream.
    """
    if source is not TimeSource.TEXT and pattern is not None:
        raise SourceError(
            f"a time format reads times written as text, and column '{column}' holds a "
            f"{source.value}; leave --time-format out"
        )
    if unit is not None:
        return _of_numbers(source, column=column, declared=declared, zone=zone, unit=unit)
    if source is TimeSource.NUMBER:
        raise SchemaError(
            f"time column '{column}' holds numbers with a fraction; time is an integer, a "
            "timestamp or text that reads as one, so give the --time-unit of seconds since 1970, "
            "or name another column"
        )
    if source is TimeSource.INTEGER:
        if zone is not None:
            raise SourceError(
                f"time column '{column}' holds integers, which have no time zone; "
                "leave --time-zone out"
            )
        if declared not in (None, "integer"):
            raise SchemaError(
                f"time column '{column}' holds integers, and timestamps are wanted; give the "
                "--time-unit they count since 1970"
            )
        return TimeReading(source, "integer", None, None)
    kind = _kind(source, declared=declared, pattern=pattern, zone=zone, offset=text_has_offset)
    if declared is not None and kind != declared:
        raise SchemaError(_misfit(column, source, kind, declared))
    return TimeReading(source, kind, pattern, zone)


def _of_numbers(
    source: TimeSource, *, column: str, declared: TimeType | None, zone: str | None, unit: str
) -> TimeReading:
    if source not in (TimeSource.INTEGER, TimeSource.NUMBER):
        raise SourceError(
            f"a time unit reads times written as numbers, and column '{column}' holds a "
            f"{source.value}; leave --time-unit out"
        )
    if zone is not None:
        raise SourceError("numbers count from 1970 in UTC; leave --time-zone out")
    if declared not in (None, "timestamp_utc"):
        raise SchemaError(_misfit(column, TimeSource.INSTANT, "timestamp_utc", declared))
    return TimeReading(source, "timestamp_utc", None, None, unit)


def _kind(
    source: TimeSource,
    *,
    declared: TimeType | None,
    pattern: str | None,
    zone: str | None,
    offset: bool,
) -> TimeType:
    if source is TimeSource.INSTANT or zone is not None:
        return "timestamp_utc"
    if source is TimeSource.LOCAL:
        return "timestamp"
    if pattern is not None:
        return "timestamp_utc" if has_offset_field(pattern) else "timestamp"
    if declared in ("timestamp", "timestamp_utc"):
        return declared
    return "timestamp_utc" if offset else "timestamp"


def _misfit(column: str, source: TimeSource, kind: TimeType, declared: TimeType) -> str:
    if declared == "integer":
        held = {TimeSource.LOCAL: "dates or timestamps without zone", TimeSource.TEXT: "text"}
        found = held.get(source, "timestamps")
        return f"time column '{column}' holds {found}, not the integers it must; convert it"
    if kind == "timestamp":
        return (
            f"times in column '{column}' have no zone, and instants are wanted; "
            "give --time-zone, the zone they are local to"
        )
    return (
        f"times in column '{column}' are instants, and local times without a zone are wanted; "
        "leave --time-zone out, or convert them"
    )


_CLOCK = r"\d{1,2}:\d{1,2}(:\d{1,2}(\.\d+)?)?"
_OFFSET = r"(Z|z|UTC|GMT|[+-]\d{1,2}(:\d{2}){0,2}|[A-Za-z_]+(/[A-Za-z_+-]+)+)"
ISO_TIME = rf"^[+-]?\d{{4,6}}-\d{{1,2}}-\d{{1,2}}([T ]{_CLOCK}\s*{_OFFSET}?)?$"
ISO_OFFSET = rf"[T ]{_CLOCK}\s*{_OFFSET}$"
ISO_TOO_FINE = r"\.\d{6}\d*[1-9]"

_DAY_OR_MONTH_FIRST = r"^\s*\d{1,2}[/.-]\d{1,2}[/.-](\d{4}|\d{2})\b"


def time_source(data_type: pa.DataType, column: str) -> TimeSource:
    """Return what a time column holds."""
    if pat.is_integer(data_type):
        return TimeSource.INTEGER
    if pat.is_floating(data_type) or pat.is_decimal(data_type):
        return TimeSource.NUMBER
    if pat.is_date(data_type):
        return TimeSource.LOCAL
    if pat.is_timestamp(data_type):
        return TimeSource.LOCAL if data_type.tz is None else TimeSource.INSTANT
    if pat.is_string(data_type):
        return TimeSource.TEXT
    raise SchemaError(
        f"time column '{column}' is {data_type}; time is an integer, a timestamp "
        "or text that reads as one, so name another column or convert it"
    )


def check_first_time(text: str, column: str) -> None:
    """Refuse a time that can be two days; what it is nobody but the user knows."""
    if pc.match_substring_regex(pa.scalar(text), _DAY_OR_MONTH_FIRST).as_py():
        raise SourceError(
            f"time '{text}' in column '{column}' does not tell the day from the month; give "
            "--time-format, such as 'dd/MM/yyyy' or 'MM/dd/yyyy HH:mm:ss', as the times are written"
        )


def has_offset(text: str) -> bool:
    """Return whether a time has an offset from UTC."""
    return bool(pc.match_substring_regex(pa.scalar(text.strip()), ISO_OFFSET).as_py())


def named_zone(name: str) -> tzinfo:
    """Return the zone the user names."""
    zone = find_zone(name)
    if zone is None:
        raise SourceError(f"no time zone '{name}'; name one like America/Chicago or +02:00")
    return zone


def stored_type(reading: TimeReading, raw: pa.DataType) -> pa.DataType:
    """Return the type of the times that are read; ``raw`` is that of integers."""
    if reading.kind == "integer":
        return raw
    return pa.timestamp("us", "UTC" if reading.kind == "timestamp_utc" else None)


@dataclass(frozen=True, slots=True)
class Times:
    """Times as they were read."""

    times: pa.Array
    """Null where there is a fault."""

    faults: Faults
    """Number of each record's ``Fault``."""

    n_cut: int = 0
    """Times that lost what is less than a microsecond."""


def read_times(raw: pa.Array, reading: TimeReading, target: pa.DataType) -> Times:
    """Read a time column."""
    faults = np.where(_mask(raw.is_null()), int(Fault.NO_TIME), int(Fault.NONE)).astype(np.int32)
    if reading.unit is not None:
        return _read_numbers(raw, reading.unit, faults)
    if reading.source is TimeSource.INTEGER:
        values, bad = read_cells(raw, target)
        faults[bad] = int(Fault.UNPARSABLE)
        wide = values.cast(pa.int64())
        beyond = pc.or_(pc.less_equal(wide, -TIME_LIMIT), pc.greater_equal(wide, TIME_LIMIT))
        faults[_mask(pc.fill_null(beyond, False))] = int(Fault.OUT_OF_RANGE)
        return Times(_without(values, faults), faults)
    if reading.source is TimeSource.TEXT:
        texts = pc.utf8_trim(as_text(raw), " ")
        read = _read_iso if reading.pattern is None else _read_patterned
        return Times(*read(texts, reading))
    micro, n_cut = cut_to_us(raw)
    if reading.source is TimeSource.LOCAL and reading.zone is not None:
        local = micro.cast(pa.timestamp("us"))
        return Times(_to_instants(local, named_zone(reading.zone)), faults, n_cut)
    return Times(micro.cast(target), faults, n_cut)


_EPOCH = r"^\s*(?P<sign>[+-]?)(?P<whole>[0-9]{1,19})(?:\.(?P<part>[0-9]*))?\s*$"


def _read_numbers(raw: pa.Array, unit: str, faults: Faults) -> Times:
    """Read numbers since 1970, the digits behind the microsecond cut off."""
    factor = TIME_UNITS[unit]
    n_digits = {"s": 6, "ms": 3, "us": 0, "ns": 0}[unit]
    if pat.is_floating(raw.type):
        raw = _plain_numbers(raw)
    found = pc.extract_regex(as_text(raw), _EPOCH)
    faults[_mask(pc.and_(raw.is_valid(), found.is_null()))] = int(Fault.UNPARSABLE)
    whole = _to_ints(pc.struct_field(found, "whole"))
    digits = pc.struct_field(found, "part")
    part = _to_ints(
        pc.utf8_slice_codeunits(pc.utf8_rpad(digits, max(n_digits, 1), "0"), 0, n_digits)
    )
    rest = pc.utf8_slice_codeunits(digits, n_digits)
    n_cut = int(
        np.count_nonzero(_mask(pc.fill_null(pc.match_substring_regex(rest, "[1-9]"), False)))
    )
    limit = TIME_LIMIT // max(factor, 1)
    faults[(whole >= limit) & (faults == 0)] = int(Fault.OUT_OF_RANGE)
    whole = np.where(whole >= limit, 0, whole)
    minus = _mask(pc.fill_null(pc.equal(pc.struct_field(found, "sign"), "-"), False))
    us = whole * factor + part
    if unit == "ns":
        us, rest_ns = np.divmod(np.where(minus, -whole, whole), 1000)
        n_cut = int(np.count_nonzero(rest_ns))
    else:
        us = np.where(minus, -us, us)
    times = pa.array(us).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return Times(_without(times, faults), faults, n_cut)


def _plain_numbers(raw: pa.Array) -> pa.Array:
    """Return doubles as they are written without an exponent."""
    return pa.array(
        [None if x is None else np.format_float_positional(x, trim="0") for x in raw.to_pylist()],
        pa.string(),
    )


def _to_ints(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return digits as integers, 0 for none, the largest there is for more."""
    filled = pc.if_else(pc.fill_null(pc.equal(texts, ""), True), "0", texts)
    try:
        found = filled.cast(pa.int64())
    except pa.ArrowInvalid:
        most = np.iinfo(np.int64).max
        found = pa.array([min(int(text), most) for text in filled.to_pylist()], pa.int64())
    ints: npt.NDArray[np.int64] = found.to_numpy(zero_copy_only=False)
    return ints


def _read_patterned(texts: pa.Array, reading: TimeReading) -> tuple[pa.Array, Faults]:
    """Read times written after the user's pattern."""
    assert reading.pattern is not None
    found = read_pattern(texts, reading.pattern)
    faults = np.zeros(len(texts), np.int32)
    faults[found.bad] = int(Fault.UNPARSABLE)
    faults[found.too_fine & (faults == 0)] = int(Fault.TOO_FINE)
    faults[_is_missing(texts)] = int(Fault.NO_TIME)
    times = _without(pa.array(found.us).cast(pa.timestamp("us")), faults)
    if found.zones is not None:
        parts = pa.nulls(len(texts), pa.timestamp("us", "UTC"))
        for name in pc.unique(found.zones).drop_null().to_pylist():
            zone = find_zone(name.strip())
            here = pc.fill_null(pc.equal(found.zones, name), False)
            if zone is None:
                faults[_mask(here) & (faults == 0)] = int(Fault.UNPARSABLE)
            else:
                parts = pc.if_else(here, _to_instants(times, zone), parts)
        return _without(parts, faults), faults
    if reading.zone is not None:
        return _to_instants(times, named_zone(reading.zone)), faults
    return times, faults


def _is_missing(texts: pa.Array) -> npt.NDArray[np.bool_]:
    return _mask(pc.fill_null(pc.equal(texts, ""), True))


def _read_iso(texts: pa.Array, reading: TimeReading) -> tuple[pa.Array, Faults]:
    """Read times as ISO 8601 has them, at once where they are plain and one by one where not."""
    us = np.zeros(len(texts), np.int64)
    absolute = np.zeros(len(texts), bool)
    faults = np.zeros(len(texts), np.int32)
    missing = _is_missing(texts)
    faults[missing] = int(Fault.NO_TIME)
    odd = ~missing
    present = pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), texts)
    utc = pa.timestamp("us", "UTC")
    kinds = (
        (utc, pa.timestamp("us")) if reading.kind == "timestamp_utc" else (pa.timestamp("us"), utc)
    )
    for data_type in kinds:
        if not odd.any():
            break
        left = pc.if_else(pa.array(odd), present, pa.scalar(None, pa.string()))
        times, bad = read_cells(left, data_type)
        here = odd & ~bad
        us = np.where(here, pc.fill_null(times.cast(pa.int64()), 0).to_numpy(), us)
        absolute[here] = data_type.tz is not None
        odd &= bad
    places = np.flatnonzero(odd)
    for place, text in zip(places, texts.take(pa.array(places)).to_pylist(), strict=True):
        us[place], absolute[place], faults[place] = _read_one(text)
    wrong = _wrong_offset(absolute, reading)
    faults[wrong & (faults == int(Fault.NONE))] = int(_offset_fault(reading))
    times = _without(pa.array(us).cast(pa.timestamp("us")), faults)
    if reading.kind == "timestamp":
        return times, faults
    instants = times.cast(utc)
    if reading.zone is None or absolute.all():
        return instants, faults
    local = _to_instants(times, named_zone(reading.zone))
    return pc.if_else(pa.array(absolute), instants, local), faults


def _read_one(text: str) -> tuple[int, bool, int]:
    """Return the microseconds of a time, whether it is an instant, and its fault."""
    found = (
        split_time(text) if pc.match_substring_regex(pa.scalar(text), ISO_TIME).as_py() else None
    )
    if found is None:
        return 0, False, int(Fault.UNPARSABLE)
    us, zone = found
    if zone is not None:
        instant = to_instant(us, zone)
        if instant is None:
            return 0, False, int(Fault.UNPARSABLE)
        us = instant
    too_fine = pc.match_substring_regex(pa.scalar(text), ISO_TOO_FINE).as_py()
    return us, zone is not None, int(Fault.TOO_FINE if too_fine else Fault.NONE)


def _wrong_offset(absolute: npt.NDArray[np.bool_], reading: TimeReading) -> Any:
    if reading.kind == "timestamp":
        return absolute
    return ~absolute if reading.zone is None else np.zeros(len(absolute), bool)


def _offset_fault(reading: TimeReading) -> Fault:
    return Fault.OFFSET if reading.kind == "timestamp" else Fault.NO_OFFSET


_HOUR_US = 3_600_000_000


def _to_instants(local: pa.Array, zone: tzinfo) -> pa.Array:
    """Return the instants of local times; see ``chronicle.time.to_instant`` for odd hours.

    Why: a zone changes its offset at most once an hour, so one that is the same at both ends of
    an hour is the same throughout.
    """
    utc = pa.timestamp("us", "UTC")
    if zone is UTC:
        return local.cast(utc)
    us = pc.fill_null(local.cast(pa.int64()), 0).to_numpy()
    hours, places = np.unique(us // _HOUR_US, return_inverse=True)
    offsets = np.array([_offset_of_hour(int(hour), zone) for hour in hours], object)
    found = np.zeros(len(us), np.int64)
    known = np.array([offset is not None for offset in offsets], bool)
    numbers = np.array([offset or 0 for offset in offsets], np.int64)
    found[:] = us - numbers[places]
    gone = np.zeros(len(us), bool)
    for row in np.flatnonzero(~known[places]).tolist():
        instant = to_instant(int(us[row]), zone)
        gone[row] = instant is None
        found[row] = instant or 0
    absent = pa.array(_mask(local.is_null()) | gone)
    times = pa.array(found).cast(pa.timestamp("us")).cast(utc)
    return pc.if_else(absent, pa.scalar(None, utc), times)


def _offset_of_hour(hour: int, zone: tzinfo) -> int | None:
    """Return a zone's offset throughout an hour of its clocks; None if it changes in it."""
    ends = (hour * _HOUR_US, (hour + 1) * _HOUR_US - 1)
    instants = [to_instant(end, zone) for end in ends]
    if None in instants:
        return None
    first, last = (end - instant for end, instant in zip(ends, instants, strict=True))  # type: ignore[operator]
    return first if first == last else None


def _without(values: pa.Array, faults: Faults) -> pa.Array:
    return pc.if_else(pa.array(faults == int(Fault.NONE)), values, None)


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found
