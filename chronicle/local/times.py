"""Read the time of events out of an Arrow column, to the same outcome as ingest on Spark."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.times import (
    ISO_OFFSET,
    ISO_TIME,
    ISO_TOO_FINE,
    Fault,
    TimeReading,
    TimeSource,
)
from chronicle.local.text_times import find_zone, split_time, to_instant
from chronicle.time import TIME_LIMIT

Faults = npt.NDArray[np.int32]

_LOCAL = r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?$"
_INSTANT = (
    r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"(Z|[+-]0[0-9]:[0-5][0-9])$"
)
"""Times that mean the same to Arrow's cast as to Spark, if the cast takes them."""


def time_source(data_type: pa.DataType, column: str) -> TimeSource:
    """Return what a time column holds.

    Raises
    ------
    SchemaError
        If no time can be read from it.
    """
    if pat.is_signed_integer(data_type):
        return TimeSource.INTEGER
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


def first_has_offset(texts: pa.Array) -> bool:
    """Return whether the first time that is there has an offset from UTC."""
    present = texts.drop_null().slice(0, 1)
    found = pc.match_substring_regex(pc.utf8_trim_whitespace(present), ISO_OFFSET)
    return bool(found.to_pylist() == [True])


def named_zone(name: str) -> tzinfo:
    """Return the zone the user names.

    Raises
    ------
    SourceError
        If there is none.
    """
    zone = find_zone(name)
    if zone is None:
        raise SourceError(f"no time zone '{name}'; name one like America/Chicago or +02:00")
    return zone


def stored_type(reading: TimeReading, raw: pa.DataType) -> pa.DataType:
    """Return the type of the times that are read."""
    if reading.source is TimeSource.INTEGER:
        return raw
    return pa.timestamp("us", "UTC" if reading.kind == "timestamp_utc" else None)


def read_times(raw: pa.Array, reading: TimeReading) -> tuple[pa.Array, Faults]:
    """Read a time column.

    Parameters
    ----------
    raw
        As it stands in the source.
    reading
        How to read it.

    Returns
    -------
    times : pa.Array
        Null where there is a fault.
    faults : ndarray of int32
        Number of each record's ``Fault``.
    """
    faults = np.where(_mask(raw.is_null()), int(Fault.NO_TIME), int(Fault.NONE)).astype(np.int32)
    if reading.source is TimeSource.INTEGER:
        wide = raw.cast(pa.int64())
        beyond = pc.or_(
            pc.less_equal(wide, pa.scalar(-TIME_LIMIT, pa.int64())),
            pc.greater_equal(wide, pa.scalar(TIME_LIMIT, pa.int64())),
        )
        faults[_mask(pc.fill_null(beyond, False))] = int(Fault.OUT_OF_RANGE)
        return _without(raw, faults), faults
    if reading.source is TimeSource.TEXT:
        return _read_text(pc.utf8_trim(raw, " "), reading)
    if reading.source is TimeSource.LOCAL and reading.zone is not None:
        local = raw.cast(pa.timestamp("us"))
        return _to_instants(local, named_zone(reading.zone)), faults
    return raw.cast(stored_type(reading, raw.type)), faults


def _read_text(texts: pa.Array, reading: TimeReading) -> tuple[pa.Array, Faults]:
    """Read times written as text, quickly where they are plain and one by one where not."""
    us = np.zeros(len(texts), np.int64)
    absolute = np.zeros(len(texts), bool)
    faults = np.zeros(len(texts), np.int32)
    missing = _mask(texts.is_null()) | _mask(pc.fill_null(pc.equal(texts, ""), True))
    faults[missing] = int(Fault.NO_TIME)
    odd = ~missing
    for pattern, data_type in ((_LOCAL, pa.timestamp("us")), (_INSTANT, pa.timestamp("us", "UTC"))):
        plain = _mask(pc.fill_null(pc.match_substring_regex(texts, pattern), False))
        places = np.flatnonzero(plain)
        try:
            times = texts.take(pa.array(places)).cast(data_type)
        except pa.ArrowInvalid:  # such as the 30th of February
            continue
        us[places] = times.cast(pa.int64()).to_numpy()
        absolute[places] = data_type.tz is not None
        odd &= ~plain
    places = np.flatnonzero(odd)
    for place, text in zip(places, texts.take(pa.array(places)).to_pylist(), strict=True):
        us[place], absolute[place], faults[place] = _read_one(text)
    wrong = _wrong_offset(absolute, reading)
    faults[wrong & (faults == int(Fault.NONE))] = int(_offset_fault(reading))
    times = _without(pa.array(us).cast(pa.timestamp("us")), faults)
    if reading.kind == "timestamp":
        return times, faults
    instants = times.cast(pa.timestamp("us", "UTC"))
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


def _to_instants(local: pa.Array, zone: tzinfo) -> pa.Array:
    """Return the instants of local times; see ``text_times.to_instant`` for odd hours."""
    utc = pa.timestamp("us", "UTC")
    if zone is UTC:
        return local.cast(utc)
    distinct = pc.unique(local.cast(pa.int64()))
    found = [None if us is None else to_instant(us, zone) for us in distinct.to_pylist()]
    places = pc.index_in(local.cast(pa.int64()), distinct)
    return pa.array(found, pa.int64()).take(places).cast(pa.timestamp("us")).cast(utc)


def _without(values: pa.Array, faults: Faults) -> pa.Array:
    return pc.if_else(pa.array(faults == int(Fault.NONE)), values, None)


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found
