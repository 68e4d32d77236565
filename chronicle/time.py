"""Time columns as Arrow stores them and as int64, the form Chronicle computes with."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError

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
    raise SchemaError(
        f"time column '{column}' is {data_type}; time is a signed integer or a timestamp, "
        "so parse or cast it first"
    )


def to_int64(column: pa.Array | pa.ChunkedArray, *, name: str) -> pa.Array:
    """Convert a time column to Chronicle's internal time.

    ``column`` holds signed integers or timestamps in s, ms or us; the result microseconds for
    timestamps, the column's own unit for integers. Nulls and values that do not fit are refused.
    """
    kind = time_type(column.type, column=name)
    if column.null_count:
        raise SchemaError(
            f"time column '{name}' has {column.null_count} null values; "
            "drop or quarantine events without a time"
        )
    try:
        if kind != "integer":
            column = column.cast(pa.timestamp("us", column.type.tz))
        times = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise SchemaError(f"time column '{name}' does not fit microseconds: {error}") from error
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks() if times.num_chunks != 1 else times.chunk(0)
    _check_limit(times, name)
    return times


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
    if pat.is_timestamp(data_type):
        return array.cast(pa.timestamp("us", data_type.tz)).cast(data_type)
    return array.cast(data_type)


def show_time(time: int, kind: TimeType) -> str:
    """Return an internal time as people read it: ISO 8601, or the number where time is one."""
    if kind == "integer":
        return str(time)
    zone = "Z" if kind == "timestamp_utc" else ""
    return str(np.datetime64(time, "us")).removesuffix(".000000") + zone


def is_ascending(times: npt.NDArray[np.int64]) -> bool:
    """Return whether no time is smaller than its predecessor."""
    return bool((times[1:] >= times[:-1]).all())
