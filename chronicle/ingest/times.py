"""Read the time of an event out of a column, and say what is wrong where it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from chronicle.errors import SchemaError, SourceError
from chronicle.time import TIME_LIMIT, TimeType

if TYPE_CHECKING:
    from pyspark.sql import Column


class Fault(IntEnum):
    """Why a record cannot become an event."""

    NONE = 0
    RECORD = 1
    NO_TIME = 2
    UNPARSABLE = 3
    NO_OFFSET = 4
    OFFSET = 5
    TOO_FINE = 6
    OUT_OF_RANGE = 7
    OPEN_QUOTE = 8

    def reason(self, time: str) -> str:
        """Return the reason in words; ``time`` is the name of the time column."""
        return {
            Fault.NONE: "",
            Fault.RECORD: "the record does not parse",
            Fault.NO_TIME: f"no time in column '{time}'",
            Fault.UNPARSABLE: f"time '{time}' does not parse",
            Fault.NO_OFFSET: f"time '{time}' has no offset from UTC (give --time-zone)",
            Fault.OFFSET: f"time '{time}' has an offset from UTC, the stream's times have none",
            Fault.TOO_FINE: f"time '{time}' is finer than a microsecond",
            Fault.OUT_OF_RANGE: f"time '{time}' is beyond 2^62",
            Fault.OPEN_QUOTE: "a quoted cell has a line break, or its quote is never closed",
        }[self]


class TimeSource(Enum):
    """What the time column holds before it is read."""

    INTEGER = "integer"
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
    """Spark datetime pattern for text, None for ISO 8601."""

    zone: str | None
    """Zone of local times, None if they stay local."""


def choose_time_reading(
    source: TimeSource,
    *,
    column: str,
    declared: TimeType | None,
    pattern: str | None,
    zone: str | None,
    text_has_offset: bool,
) -> TimeReading:
    """Decide how a time column is read. Pure.

    Parameters
    ----------
    source
        What the column holds.
    column
        Its name, for messages.
    declared
        What the schema or the existing stream says it is to become; None if nothing does.
    pattern, zone
        What the user gave.
    text_has_offset
        Whether the first time written as text has an offset from UTC; decides for a new stream.

    Raises
    ------
    SourceError
        If a pattern or zone is given that cannot apply.
    SchemaError
        If the times do not fit what is declared.
    """
    if source is not TimeSource.TEXT and pattern is not None:
        raise SourceError(
            f"a time format reads times written as text, and column '{column}' holds a "
            f"{source.value}; leave --time-format out"
        )
    if source is TimeSource.INTEGER:
        if zone is not None:
            raise SourceError(
                f"time column '{column}' holds integers, which have no time zone; "
                "leave --time-zone out"
            )
        return TimeReading(source, "integer", None, None)
    kind = _kind(source, declared=declared, pattern=pattern, zone=zone, offset=text_has_offset)
    if declared is not None and kind != declared:
        raise SchemaError(_misfit(column, source, kind, declared))
    return TimeReading(source, kind, pattern, zone)


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


def has_offset_field(pattern: str) -> bool:
    """Return whether a Spark datetime pattern reads a zone or an offset.

    Examples
    --------
    >>> has_offset_field("yyyy-MM-dd'T'HH:mm"), has_offset_field("yyyy-MM-dd HH:mm XXX")
    (False, True)
    """
    quoted = False
    for letter in pattern:
        if letter == "'":
            quoted = not quoted
        elif not quoted and letter in "VzOXxZ":
            return True
    return False


_CLOCK = r"\d{1,2}:\d{1,2}(:\d{1,2}(\.\d+)?)?"
_OFFSET = r"(Z|z|UTC|GMT|[+-]\d{1,2}(:\d{2}){0,2}|[A-Za-z_]+(/[A-Za-z_+-]+)+)"
ISO_TIME = rf"^[+-]?\d{{4,6}}-\d{{1,2}}-\d{{1,2}}([T ]{_CLOCK}\s*{_OFFSET}?)?$"
"""Spark's cast reads more than this, such as ``12:30`` as a time of today."""

ISO_OFFSET = rf"[T ]{_CLOCK}\s*{_OFFSET}$"
ISO_TOO_FINE = r"\.\d{6}\d*[1-9]"


def read_time(raw: Column, reading: TimeReading) -> tuple[Column, Column]:
    """Return the event's time and its fault as expressions; the time counts where there is none.

    Parameters
    ----------
    raw
        The time column as it was read.
    reading
        How to read it.

    Returns
    -------
    tuple of Column
        The time (of the stream's type) and the number of a ``Fault``.
    """
    from pyspark.sql import functions as F  # noqa: N812 -- the name everyone knows

    if reading.source is TimeSource.INTEGER:
        beyond = F.abs(raw.cast("decimal(20, 0)")) >= F.lit(TIME_LIMIT)
        fault = F.when(raw.isNull(), int(Fault.NO_TIME)).when(beyond, int(Fault.OUT_OF_RANGE))
        return raw, fault.otherwise(int(Fault.NONE))
    if reading.source is TimeSource.TEXT:
        return _read_text(F.trim(raw), reading)
    time = raw
    if reading.source is TimeSource.LOCAL:
        local = raw.cast("timestamp_ntz")
        time = local if reading.zone is None else _to_instant(local, reading.zone)
    missing = F.when(raw.isNull(), int(Fault.NO_TIME)).otherwise(int(Fault.NONE))
    return time, missing


def _read_text(text: Column, reading: TimeReading) -> tuple[Column, Column]:
    """Read times written as text. The session's zone is UTC: local times parse as if in UTC."""
    from pyspark.sql import functions as F  # noqa: N812

    missing = F.when(text.isNull() | (text == ""), int(Fault.NO_TIME))
    if reading.pattern is not None:
        parsed = F.try_to_timestamp(text, F.lit(reading.pattern))
        fault = missing.when(parsed.isNull(), int(Fault.UNPARSABLE))
        absolute = has_offset_field(reading.pattern)
        time = parsed if absolute else _from_local(parsed.cast("timestamp_ntz"), reading.zone)
        return time, fault.otherwise(int(Fault.NONE))
    parsed = text.try_cast("timestamp")
    absolute = text.rlike(ISO_OFFSET)
    unparsable = ~text.rlike(ISO_TIME) | parsed.isNull()
    fault = missing.when(unparsable, int(Fault.UNPARSABLE))
    fault = fault.when(text.rlike(ISO_TOO_FINE), int(Fault.TOO_FINE))
    local = parsed.cast("timestamp_ntz")
    if reading.kind == "timestamp":
        fault = fault.when(absolute, int(Fault.OFFSET))
        return local, fault.otherwise(int(Fault.NONE))
    if reading.zone is None:
        fault = fault.when(~absolute, int(Fault.NO_OFFSET))
        return parsed, fault.otherwise(int(Fault.NONE))
    time = F.when(absolute, parsed).otherwise(_to_instant(local, reading.zone))
    return time, fault.otherwise(int(Fault.NONE))


def _from_local(local: Column, zone: str | None) -> Column:
    return local if zone is None else _to_instant(local, zone)


def _to_instant(local: Column, zone: str) -> Column:
    """Return the instant of a local time.

    The hour that occurs twice in autumn is taken as its first occurrence; an hour that never
    occurs in spring is moved on by the length of the gap (``java.time`` has it so).
    """
    from pyspark.sql import functions as F  # noqa: N812

    return F.convert_timezone(F.lit(zone), F.lit("UTC"), local).cast("timestamp")
