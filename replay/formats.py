"""Answers as machines read them: JSON, CSV, Parquet, Arrow."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

MACHINE_FORMATS = ("json", "csv", "parquet", "arrow")


def write_answer(table: pa.Table, output_format: str, stream: BinaryIO) -> None:
    """Write a table to a binary stream, and nothing else.

    Parameters
    ----------
    table
        The answer.
    output_format
        ``json`` (one array of row objects; intervals are seconds, times ISO 8601, NaN and the
        infinities null), ``csv`` (with header; intervals are seconds), ``parquet``, or ``arrow``
        (an IPC stream). JSON and CSV have bytes as hexadecimal digits.
    stream
        Where to; left open.

    Raises
    ------
    ValueError
        If the format is none of these.
    """
    if output_format == "json":
        stream.write(_to_json(table).encode())
    elif output_format == "csv":
        import pyarrow.csv as pa_csv

        pa_csv.write_csv(bytes_to_digits(intervals_to_seconds(table)), stream)
    elif output_format == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(intervals_to_seconds(table), stream)
    elif output_format == "arrow":
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
    else:
        raise ValueError(f"unknown format '{output_format}'; use one of {MACHINE_FORMATS}")


def intervals_to_seconds(table: pa.Table) -> pa.Table:
    """Return the table with intervals as seconds, since CSV and Parquet have no such type."""
    for index, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            micros = table.column(index).cast(pa.duration("us")).cast(pa.int64())
            seconds = pc.divide(micros.cast(pa.float64()), 1e6)
            table = table.set_column(index, field.name, seconds)
    return table


def bytes_to_digits(table: pa.Table) -> pa.Table:
    """Return the table with bytes as hexadecimal digits, since CSV is text."""
    for index, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            digits = [None if v is None else v.hex() for v in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(digits, pa.string()))
    return table


def _to_json(table: pa.Table) -> str:
    rows = to_json_rows(table)
    return "[\n{}\n]\n".format(",\n".join(rows)) if rows else "[]\n"


def to_json_rows(table: pa.Table) -> list[str]:
    """Return each row as a JSON object on one line, with what `write_answer` says of its values."""
    rows = ({name: _json_value(v) for name, v in row.items()} for row in table.to_pylist())
    return [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]


def _json_value(value: Any) -> Any:
    """Return what JSON can carry of a value."""
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)  # a count beyond 64 bits, say: JSON's whole numbers have any length
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
