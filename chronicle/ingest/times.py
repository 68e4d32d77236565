"""Read the time of an event out of a column, and say what is wrong where it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum, IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.cells import as_text, capitalised, is_like_a_name, read_cells
from chronicle.ingest.local_times import UNKNOWN, Ambiguous, Clocks, Folds, is_too_far
from chronicle.ingest.read_options import TIME_UNITS
from chronicle.ingest.time_patterns import has_offset_field, read_pattern
from chronicle.time import TIME_LIMIT, TimeType, cut_to_us, find_zone, split_time, to_us

Faults = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Fault(IntEnum):
    """Why a record with a time column cannot become an event."""

    NONE = 0
    NO_TIME = 1
    UNPARSABLE = 2
    NO_OFFSET = 3
    OFFSET = 4
    TOO_FINE = 5
    OUT_OF_RANGE = 6
    WEEKDAY = 7
    TWICE = 8
    NEVER = 9

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
            Fault.WEEKDAY: f"the weekday of time '{time}' is not that of its date",
            Fault.TWICE: f"clocks show time '{time}' twice (--ambiguous earlier or later takes it)",
            Fault.NEVER: f"clocks never show time '{time}', they skip it",
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

    ambiguous: Ambiguous | None = None
    """Which instant is meant by local times that clocks show twice; None puts them aside."""

    @property
    def looks_ahead(self) -> bool:
        """Whether the order of a file says which instants are meant."""
        return self.ambiguous == "infer"


def choose_time_reading(
    source: TimeSource,
    *,
    column: str,
    declared: TimeType | None,
    pattern: str | None,
    zone: str | None,
    text_has_offset: bool,
    unit: str | None = None,
    ambiguous: Ambiguous | None = None,
) -> TimeReading:
    """Decide how a time column is read. Pure.

    ``declared`` is what the schema or the stream says the time is to become, None if nothing does;
    ``pattern``, ``zone``, ``unit`` and ``ambiguous`` are what the user gave. ``text_has_offset``,
    whether times written as text have an offset from UTC, decides for a new stream.
    """
    if source is not TimeSource.TEXT and pattern is not None:
        raise SourceError(
            f"a time format reads times written as text, and column '{column}' holds a "
            f"{source.value}; leave --time-format out"
        )
    if ambiguous is not None and not _has_clocks(source, pattern, zone):
        raise SourceError(
            "--ambiguous is about times that clocks of a zone show twice; give --time-zone, or "
            "leave it out"
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
        raise SchemaError(_misfit(column, source, kind, declared, zone))
    return TimeReading(source, kind, pattern, zone, ambiguous=ambiguous)


def _has_clocks(source: TimeSource, pattern: str | None, zone: str | None) -> bool:
    """Return whether times are those of clocks of a zone: one that is given, or stands in texts."""
    if zone is not None:
        return source in (TimeSource.TEXT, TimeSource.LOCAL, TimeSource.INSTANT)
    return source is TimeSource.TEXT and (pattern is None or has_offset_field(pattern))


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
    if declared == "integer":
        raise SchemaError(
            f"numbers with a unit are instants, and times in column '{column}' are integers; leave "
            "--time-unit out, or take the files into a new stream"
        )
    if declared == "timestamp":
        raise SchemaError(_misfit(column, source, "timestamp_utc", declared, zone))
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


def _misfit(
    column: str, source: TimeSource, kind: TimeType, declared: TimeType, zone: str | None
) -> str:
    if declared == "integer":
        held = {TimeSource.LOCAL: "dates or timestamps without zone", TimeSource.TEXT: "text"}
        found = held.get(source, "timestamps")
        return f"time column '{column}' holds {found}, not the integers it must; convert it"
    if kind == "timestamp":
        return (
            f"times in column '{column}' have no zone, and instants are wanted; "
            "give --time-zone, the zone they are local to"
        )
    remedy = "take the files into a new stream" if zone is None else "leave --time-zone out"
    return (
        f"times in column '{column}' are instants, and local times without a zone are wanted; "
        f"{remedy}, or convert them"
    )


_CLOCK = r"\d{1,2}:\d{1,2}(:\d{1,2}(\.\d+)?)?"
_OFFSET = r"(Z|z|UTC|GMT|[+-]\d{1,2}(:\d{2}){0,2}|[A-Za-z_]+(/[A-Za-z_+-]+)+)"
ISO_TIME = rf"^[+-]?\d{{4,6}}-\d{{1,2}}-\d{{1,2}}([Tt ]{_CLOCK}\s*{_OFFSET}?)?$"
ISO_OFFSET = rf"[Tt ]{_CLOCK}\s*{_OFFSET}$"
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


_INTEGER = r"^\s*-?(0|[1-9][0-9]*)\s*$"
_NUMBER = r"^\s*-?((0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+|[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]+)\s*$"


@dataclass(frozen=True, slots=True)
class Look:
    """What most of the first times look like that can be times; bad ones decide nothing."""

    source: TimeSource | None
    """None where nothing looks like a time."""

    has_offset: bool


def look_at_times(texts: pa.Array, column: str) -> Look:
    """Return what times that are written look like.

    They are refused if most of them can be two days: which is meant nobody but the user knows.
    """
    bare = pc.utf8_trim_whitespace(texts)
    is_iso = _matches(bare, ISO_TIME)
    either = _matches(bare, _DAY_OR_MONTH_FIRST)
    shapes = {
        TimeSource.INTEGER: _matches(bare, _INTEGER),
        TimeSource.NUMBER: _matches(bare, _NUMBER),
        TimeSource.TEXT: is_iso,
    }
    # Of two that are as frequent the one that comes first.
    counts = {
        one: (int(mask.sum()), -int(np.append(mask, True).argmax())) for one, mask in shapes.items()
    }
    source = max(counts, key=lambda one: counts[one])
    n_alike = counts[source][0]
    if either.sum() > n_alike:
        text = texts[int(np.flatnonzero(either)[0])]
        raise SourceError(
            f"time '{text}' in column '{column}' does not tell the day from the month; give "
            "--time-format, such as 'dd/MM/yyyy' or 'MM/dd/yyyy HH:mm:ss', as the times are written"
        )
    offsets = _matches(bare, ISO_OFFSET)[is_iso]
    n_more = 2 * int(offsets.sum()) - len(offsets)
    has_offset = n_more > 0 or (n_more == 0 and bool(offsets[:1].any()))
    return Look(source if n_alike else None, has_offset)


def _matches(texts: pa.Array, regex: str) -> Mask:
    return _mask(pc.fill_null(pc.match_substring_regex(texts, regex), False))


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

    n_twice: int = 0
    """Times that clocks show twice, and are one of the two instants."""


def read_times(
    raw: pa.Array, reading: TimeReading, target: pa.DataType, folds: Folds | None = None
) -> Times:
    """Read a time column.

    ``folds`` tells which of their instants times are that clocks show twice, if the order of the
    file does.
    """
    if reading.unit is not None:
        return _read_numbers(raw, reading.unit, _missing(raw))
    if reading.source is TimeSource.INTEGER:
        return _read_integers(raw, target)
    clocks, faults, n_cut = read_clocks(raw, reading)
    if folds is None:
        folds = np.full(len(raw), _FOLDS.get(reading.ambiguous, UNKNOWN), np.int8)
    faults[is_too_far(clocks.us) & (faults == 0)] = int(Fault.OUT_OF_RANGE)
    found = clocks.instants()
    is_twice = found.is_twice & (faults == 0)
    faults[is_twice & (folds == UNKNOWN)] = int(Fault.TWICE)
    faults[found.is_never & (faults == 0)] = int(Fault.NEVER)
    us = np.where(folds == 1, found.second, found.first)
    faults[is_too_far(us) & (faults == 0)] = int(Fault.OUT_OF_RANGE)
    times = pa.array(us).cast(stored_type(reading, target))
    n_twice = int(np.count_nonzero(is_twice & (faults == 0)))
    return Times(_without(times, faults), faults, n_cut, n_twice)


_FOLDS: dict[Ambiguous | None, int] = {"earlier": 0, "later": 1}


def read_clocks(raw: pa.Array, reading: TimeReading) -> tuple[Clocks, Faults, int]:
    """Read what clocks show out of texts and timestamps; also faults, and how many were cut."""
    if reading.source is TimeSource.TEXT:
        texts = pc.utf8_trim(as_text(raw), " ")
        read = _read_iso if reading.pattern is None else _read_patterned
        return *read(texts, reading), 0
    faults = _missing(raw)
    micro, n_cut = cut_to_us(raw)
    micro, is_beyond = to_us(micro, limit=TIME_LIMIT)
    faults[is_beyond] = int(Fault.OUT_OF_RANGE)
    us = pc.fill_null(micro.cast(pa.int64()), 0).to_numpy()
    zones: tuple[tzinfo, ...] = ()
    if reading.source is TimeSource.LOCAL and reading.zone is not None:
        zones = (named_zone(reading.zone),)
    return Clocks(us, np.full(len(us), len(zones) - 1, np.int32), zones), faults, n_cut


def look_ahead(raw: pa.Array, reading: TimeReading) -> tuple[Ints, Mask, Mask]:
    """Return what clocks show, of which records, and which times they show twice."""
    clocks, faults, _ = read_clocks(raw, reading)
    return clocks.us, faults == int(Fault.NONE), clocks.instants().is_twice


def _read_integers(raw: pa.Array, target: pa.DataType) -> Times:
    """Read times that stay integers; digits that begin with 0 or + are names, as in any column."""
    faults = _missing(raw)
    values, bad = read_cells(raw, target)
    faults[bad] = int(Fault.UNPARSABLE)
    if pat.is_string(raw.type):
        faults[is_like_a_name(raw)] = int(Fault.UNPARSABLE)
        if bad.any():
            far = pc.match_substring_regex(raw, _FAR_INTEGER)
            faults[bad & _mask(pc.fill_null(far, False))] = int(Fault.OUT_OF_RANGE)
    wide = values.cast(pa.int64())
    beyond = pc.or_(pc.less_equal(wide, -TIME_LIMIT), pc.greater_equal(wide, TIME_LIMIT))
    faults[_mask(pc.fill_null(beyond, False))] = int(Fault.OUT_OF_RANGE)
    return Times(_without(values, faults), faults)


_FAR_INTEGER = r"^\s*-?[1-9][0-9]{18,}\s*$"


def _missing(raw: pa.Array) -> Faults:
    """Return the faults of records that have no time."""
    return np.where(_mask(raw.is_null()), int(Fault.NO_TIME), int(Fault.NONE)).astype(np.int32)


_EPOCH = r"^\s*(?P<sign>[+-]?)(?P<whole>[0-9]{1,400})(?:\.(?P<part>[0-9]*))?\s*$"


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


def _read_patterned(texts: pa.Array, reading: TimeReading) -> tuple[Clocks, Faults]:
    """Read times written after the user's pattern."""
    assert reading.pattern is not None
    found = read_pattern(texts, reading.pattern)
    faults = np.zeros(len(texts), np.int32)
    faults[found.wrong_weekday] = int(Fault.WEEKDAY)
    faults[found.bad] = int(Fault.UNPARSABLE)
    faults[found.too_fine & (faults == 0)] = int(Fault.TOO_FINE)
    faults[_is_missing(texts)] = int(Fault.NO_TIME)
    given = -1 if reading.zone is None else 0
    zones = [] if reading.zone is None else [named_zone(reading.zone)]
    number = np.full(len(texts), given, np.int32)
    if found.zones is not None:
        for name in pc.unique(found.zones).drop_null().to_pylist():
            here = _mask(pc.fill_null(pc.equal(found.zones, name), False))
            zone = find_zone(_capital_zone(name.strip()))
            if name and zone is not None:
                number[here] = len(zones)
                zones.append(zone)
            elif name or given < 0:
                wrong = Fault.UNPARSABLE if name else Fault.NO_OFFSET
                faults[here & (faults == 0)] = int(wrong)
    return Clocks(found.us, number, tuple(zones)), faults


def _capital_zone(name: str) -> str:
    """Return UTC's names in capitals, which RFC 3339 allows in small letters."""
    return name.upper() if name.lower() in ("z", "utc", "gmt") else name


def _is_missing(texts: pa.Array) -> npt.NDArray[np.bool_]:
    return _mask(pc.fill_null(pc.equal(texts, ""), True))


def _read_iso(texts: pa.Array, reading: TimeReading) -> tuple[Clocks, Faults]:
    """Read times as ISO 8601 has them, at once where they are plain and one by one where not."""
    n = len(texts)
    us = np.zeros(n, np.int64)
    faults = np.zeros(n, np.int32)
    is_local = np.zeros(n, np.bool_)
    missing = _is_missing(texts)
    faults[missing] = int(Fault.NO_TIME)
    odd = ~missing
    present = pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), texts)
    kinds = (pa.timestamp("us", "UTC"), pa.timestamp("us"))
    for data_type in kinds if reading.kind == "timestamp_utc" else kinds[::-1]:
        if not odd.any():
            break
        left = pc.if_else(pa.array(odd), present, pa.scalar(None, pa.string()))
        times, bad = read_cells(left, data_type)
        here = odd & ~bad
        us = np.where(here, pc.fill_null(times.cast(pa.int64()), 0).to_numpy(), us)
        is_local[here] = data_type.tz is None
        odd &= bad
    number = np.full(n, -1, np.int32)
    zones: dict[tzinfo, int] = {}
    has_offset = ~is_local & ~missing
    places = np.flatnonzero(odd)
    for place, text in zip(places, texts.take(pa.array(places)).to_pylist(), strict=True):
        us[place], zone, faults[place] = _read_one(text)
        has_offset[place] = zone is not None
        if zone is not None:
            number[place] = zones.setdefault(zone, len(zones))
    readable = faults == int(Fault.NONE)
    if reading.kind == "timestamp":
        faults[has_offset & readable] = int(Fault.OFFSET)
    elif reading.zone is None:
        faults[~has_offset & readable] = int(Fault.NO_OFFSET)
    else:
        zone = named_zone(reading.zone)
        number[~has_offset & readable] = zones.setdefault(zone, len(zones))
    return Clocks(us, number, tuple(zones)), faults


def _read_one(text: str) -> tuple[int, tzinfo | None, int]:
    """Return the microseconds that a clock shows, its zone if it is named, and the fault."""
    found = None
    if pc.match_substring_regex(pa.scalar(text), ISO_TIME).as_py():
        found = split_time(capitalised(pa.scalar(text)).as_py())
    if found is None:
        return 0, None, int(Fault.UNPARSABLE)
    too_fine = pc.match_substring_regex(pa.scalar(text), ISO_TOO_FINE).as_py()
    return *found, int(Fault.TOO_FINE if too_fine else Fault.NONE)


def _without(values: pa.Array, faults: Faults) -> pa.Array:
    return pc.if_else(pa.array(faults == int(Fault.NONE)), values, None)


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found
