"""Answers as machines read them: JSON, CSV, Parquet, Arrow."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from itertools import chain
from pathlib import PurePath
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from replay.errors import NotSupportedError

_ESCAPED_ALWAYS = {"\\": "\\\\", '"': '\\"'}
_ESCAPED_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)}

_LARGE = pa.large_string()
"""Texts of a piece may hold more bytes than 32 bits count."""

_FIRST_TOLD = np.datetime64("-32767-01-01", "s")
_LAST_TOLD = np.datetime64("32767-12-31", "s")
"""Arrow writes times between these as text, and of others only that they are out of range."""

_EXACT = 1 << 53
"""Whole numbers up to this are doubles."""


def json_rows(table: pa.Table, *, before: str = "", after: str = "") -> pa.LargeStringArray:
    r"""Return each row as a JSON object on one line, between two texts.

    Numbers keep their exact value, a double its point or exponent. Times are ISO 8601, those of UTC
    with Z; intervals seconds; bytes hexadecimal digits; NaN and the infinities null; decimals with
    a fraction texts, as a double does not hold them.

    Columns are one or more, of distinct names. ``before`` and ``after`` stand around each object.

    Examples
    --------
    >>> json_rows(pa.table({"a": [1, None], "b": ["x", 'say "y"']})).to_pylist()
    ['{"a": 1, "b": "x"}', '{"a": null, "b": "say \\"y\\""}']
    """
    parts: list[pa.LargeStringArray | str] = []
    opening = before + "{"
    for name, column in zip(table.column_names, table.columns, strict=True):
        parts.append(f"{opening}{json.dumps(name, ensure_ascii=False)}: ")
        parts.append(pc.coalesce(_texts(_whole(column)), _literal("null")))
        opening = ", "
    return _joined(*parts, "}" + after)


def bytes_of(texts: pa.LargeStringArray) -> memoryview:
    """Return what an array made by `json_rows` holds, one text after the other, without a copy."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def values_as_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Return values as a person reads them: as in JSON, but NaN and the infinities have names.

    Texts are without quotes and escapes; None where a value is null.
    """
    if pat.is_timestamp(column.type):
        return list(_of_times(_whole(column)).to_pylist())
    if pat.is_date32(column.type):
        return list(_of_days(_whole(column)).to_pylist())
    return [_as_text(value) for value in _values(_whole(column))]


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.timedelta):
        return str(value)
    return str(value) if isinstance(value, float) else str(json_value(value))


def json_value(value: Any) -> Any:
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
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    return str(value)


def _literal(text: str) -> pa.Scalar:
    return pa.scalar(text, _LARGE)


def _joined(*parts: pa.LargeStringArray | str) -> pa.LargeStringArray:
    """Return the parts of each row one after the other; null where one is null."""
    texts = [_literal(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, _literal(""))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _texts(column: pa.Array) -> pa.Array:
    """Return the JSON text of every value; null where it is null."""
    data_type = column.type
    if pat.is_dictionary(data_type):
        return _texts(column.cast(data_type.value_type))
    if pat.is_boolean(data_type) or pat.is_integer(data_type):
        return column.cast(_LARGE)
    if pat.is_floating(data_type):
        return _of_doubles(column.cast(pa.float64()))
    if pat.is_string(data_type) or pat.is_large_string(data_type):
        return _quoted(_escaped(column.cast(_LARGE)))
    if pat.is_timestamp(data_type):
        return _quoted(_of_times(column))
    if pat.is_date32(data_type):
        return _quoted(_of_days(column))
    values = map(json_value, _values(column))
    texts = [None if v is None else json.dumps(v, ensure_ascii=False) for v in values]
    return pa.array(texts, _LARGE)


def _values(column: pa.Array) -> list[Any]:
    """Return values as Python objects; times in lists that Python has none of are texts."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(_with_texts(column).to_pylist())


def _with_texts(column: pa.Array) -> pa.Array:
    """Return lists and structs with the texts of the times and dates in them."""
    if pat.is_list(column.type):
        ends = pc.cumulative_sum(pc.fill_null(column.value_lengths(), 0))
        starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        inside = _with_texts(column.flatten())
        return pa.ListArray.from_arrays(starts, inside, mask=column.is_null())
    if pat.is_struct(column.type):
        parts, names = map(_with_texts, column.flatten()), [field.name for field in column.type]
        return pa.StructArray.from_arrays(list(parts), names, mask=column.is_null())
    if pat.is_timestamp(column.type):
        return _of_times(column)
    return _of_days(column) if pat.is_date32(column.type) else column


def _quoted(texts: pa.Array) -> pa.Array:
    return _joined('"', texts, '"')


def _of_doubles(column: pa.Array) -> pa.Array:
    """Return the shortest texts that are these doubles again; readers see that they are none else.

    Arrow leaves the point of a whole number out, which would read as an integer.
    """
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))
    texts = finite.cast(_LARGE)
    has_point = pc.match_substring_regex(texts, "[.e]")
    if pc.all(has_point).as_py() is not False:
        return texts
    return pc.if_else(has_point, texts, _joined(texts, ".0"))


def _escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        return texts
    for character, escaped in _ESCAPED_ALWAYS.items():
        texts = pc.replace_substring(texts, character, escaped)
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        for character, escaped in _ESCAPED_CONTROLS.items():
            texts = pc.replace_substring(texts, character, escaped)
    return texts


def _of_times(column: pa.Array) -> pa.Array:
    """Return times as ISO 8601, each with a fraction if it has one."""
    data_type = column.type
    if data_type.tz not in (None, "UTC"):
        return pa.array(map(json_value, column.to_pylist()), _LARGE)
    # Without a zone: a cast with one looks it up for every value.
    naive = column.view(pa.timestamp(data_type.unit))
    if _is_far(naive):
        texts = _of_far_times(naive)
        return texts if data_type.tz is None else _joined(texts, "Z")
    seconds = naive.cast(pa.timestamp("s"), safe=False)
    is_whole = pc.equal(seconds, naive)
    if pc.all(is_whole).as_py() is not False:
        texts = _iso(seconds)
    else:
        exact = naive.cast(pa.timestamp("ns" if data_type.unit == "ns" else "us"))
        texts = pc.replace_with_mask(_iso(exact), is_whole, _iso(seconds.filter(is_whole)))
    return texts if data_type.tz is None else _joined(texts, "Z")


def _of_days(column: pa.Array) -> pa.Array:
    """Return dates as ISO 8601."""
    is_far = _is_far(column.cast(pa.timestamp("s")))
    return _of_far_times(column) if is_far else column.cast(_LARGE)


def _is_far(times: pa.Array) -> bool:
    """Tell whether a time without a zone lies in a year that Arrow writes no text of."""
    extremes = pc.min_max(times.view(pa.int64()))
    first, last = (np.datetime64(extremes[end].as_py(), times.type.unit) for end in ("min", "max"))
    return bool(first < _FIRST_TOLD or last > _LAST_TOLD)  # both are false of no time at all


def _of_far_times(column: pa.Array) -> pa.LargeStringArray:
    """Return dates, or times without a zone, of any year as ISO 8601; one after the other."""
    is_date = pat.is_date32(column.type)
    unit: Any = "D" if is_date else column.type.unit
    values = column.view(pa.int32() if is_date else pa.int64()).to_pylist()
    texts = (None if value is None else str(np.datetime64(value, unit)) for value in values)
    # A fraction of zeros is left out, as it is of other times.
    return pa.array([text and re.sub(r"\.0+$", "", text) for text in texts], _LARGE)


def _iso(times: pa.Array) -> pa.Array:
    """Return times without a zone as ISO 8601, all with the digits of their unit."""
    blank = -{"s": 9, "us": 16, "ns": 19}[times.type.unit]  # before the time of day, from the end
    texts = times.cast(_LARGE).cast(pa.large_binary())
    return pc.binary_replace_slice(texts, blank, blank + 1, b"T").cast(_LARGE)


MACHINE_FORMATS = ("json", "jsonl", "csv", "parquet", "arrow")

_FORMAT_OF_ENDING = {
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet",
    ".arrow": "arrow",
}  # fmt: skip

JSON_ROWS = 1 << 16
"""Rows that are made text at once."""

JSON_BYTES = 1 << 26
"""Bytes of a table that are made text at once, one row at least."""

ROW_GROUP_ROWS = 1 << 20
"""Rows of a row group of Parquet, which is written as a whole."""

MESSAGE_CUT_OFF = b"\xff\xff\xff\xff\x08\0\0\0"
"""Announces a message of an Arrow stream of which nothing comes: readers take the end of the bytes
for the end of the stream, unless it lies within a message."""


def format_of(name: str) -> str | None:
    """Return the format a file's ending stands for; None if for none. Pure."""
    return _FORMAT_OF_ENDING.get(PurePath(name).suffix.lower())


def write_answer(tables: Iterable[pa.Table], output_format: str, stream: BinaryIO) -> None:
    """Write tables to a binary stream as they come, and nothing else.

    If the tables end in an error, what was written of JSON, Parquet or Arrow cannot be read as a
    whole answer. CSV and JSON lines have no end that could be missing.

    ``tables`` are at least one, all of one schema; ``stream`` is left open. The format is ``json``
    (one array of row objects, see `json_rows`), ``jsonl`` (the same objects, one a line), ``csv``
    (with header; intervals, times and bytes as in JSON), ``parquet`` (intervals are
    seconds), or ``arrow`` (an IPC stream).
    """
    if output_format not in _WRITERS:
        raise ValueError(f"unknown format '{output_format}'; use one of {MACHINE_FORMATS}")
    coming = iter(tables)
    first = next(coming)
    _WRITERS[output_format](first.schema, chain([first], coming), stream)


def _write_json(schema: pa.Schema, tables: Iterable[pa.Table], stream: BinaryIO) -> None:  # noqa: ARG001
    is_first = True
    for piece in chain.from_iterable(map(_pieces, tables)):
        rows = bytes_of(json_rows(piece, before=",\n"))
        if is_first:
            stream.write(b"[")
            rows, is_first = rows[1:], False
        stream.write(rows)
    stream.write(b"[]\n" if is_first else b"\n]\n")


def _write_json_lines(schema: pa.Schema, tables: Iterable[pa.Table], stream: BinaryIO) -> None:  # noqa: ARG001
    pieces = chain.from_iterable(map(_pieces, tables))
    stream.writelines(bytes_of(json_rows(piece, after="\n")) for piece in pieces)


def _write_csv(schema: pa.Schema, tables: Iterable[pa.Table], stream: BinaryIO) -> None:
    import pyarrow.csv as pa_csv

    with pa_csv.CSVWriter(stream, as_csv(schema.empty_table()).schema) as writer:
        for table in tables:
            writer.write_table(as_csv(table))


def _write_parquet(schema: pa.Schema, tables: Iterable[pa.Table], stream: BinaryIO) -> None:
    import pyarrow.parquet as pq

    sink = _Sink(stream)
    try:
        opened = pq.ParquetWriter(sink, _intervals_to_seconds(schema.empty_table()).schema)
    except pa.ArrowNotImplementedError as error:  # lists of DuckDB's intervals, say
        sink.is_cut_off = True
        raise NotSupportedError(
            f"a column of the answer has a type that Parquet has not ({error}); leave it out, CAST "
            "it to VARCHAR, or take another format"
        ) from error
    with opened as writer:
        try:
            for table in _gathered(tables, ROW_GROUP_ROWS):
                writer.write_table(_intervals_to_seconds(table), row_group_size=ROW_GROUP_ROWS)
        except BaseException:
            sink.is_cut_off = True
            raise


class _Sink(io.RawIOBase):
    """Hands bytes on until it is cut off: a writer of Parquet, once there, cannot but end its file.

    A file with an end is a whole one, of the row groups written so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_cut_off = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(data) if self.is_cut_off else self._stream.write(data)


def _write_arrow(schema: pa.Schema, tables: Iterable[pa.Table], stream: BinaryIO) -> None:
    writer = pa.ipc.new_stream(stream, schema)
    try:
        for table in tables:
            writer.write_table(table)
    except BaseException:
        with suppress(OSError):  # if writing was what failed
            stream.write(MESSAGE_CUT_OFF)
        raise
    writer.close()


_WRITERS: Final = {
    "json": _write_json,
    "jsonl": _write_json_lines,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table in pieces that are made text at once; none of an empty one."""
    n_rows = max(1, min(JSON_ROWS, table.num_rows * JSON_BYTES // max(1, table.nbytes)))
    for first in range(0, table.num_rows, n_rows):
        yield table.slice(first, n_rows)


def _gathered(tables: Iterable[pa.Table], n_rows: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of at least so many, the last one aside; at least one."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= n_rows:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _intervals_to_seconds(table: pa.Table) -> pa.Table:
    """Return the table with intervals as seconds, since CSV and Parquet have no such type."""
    for index, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            micros = table.column(index).cast(pa.duration("us")).cast(pa.int64())
            table = table.set_column(index, field.name, _seconds(micros))
    return table


def _seconds(micros: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return microseconds as seconds, each rounded once."""
    extremes = pc.min_max(micros).as_py()
    if extremes["min"] is None or -_EXACT <= extremes["min"] <= extremes["max"] <= _EXACT:
        return pc.divide(micros.cast(pa.float64()), 1e6)
    seconds = (None if each is None else each / 10**6 for each in micros.to_pylist())
    return pa.array(seconds, pa.float64())


def as_csv(table: pa.Table) -> pa.Table:
    """Return the table with intervals, times, bytes and lists as JSON has them: CSV is text."""
    table = _intervals_to_seconds(table)
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if pat.is_timestamp(field.type):
            table = table.set_column(index, field.name, _of_times(_whole(column)))
        elif pat.is_binary(field.type):
            digits = [None if v is None else v.hex() for v in column.to_pylist()]
            table = table.set_column(index, field.name, pa.array(digits, pa.string()))
        elif pat.is_time(field.type):
            clocks = [None if v is None else str(v) for v in column.to_pylist()]
            table = table.set_column(index, field.name, pa.array(clocks, pa.string()))
        elif pat.is_nested(field.type) or pat.is_null(field.type):
            table = table.set_column(index, field.name, _texts(_whole(column)))
    return table


def to_json_rows(table: pa.Table) -> list[str]:
    """Return each row as a JSON object on one line; see `json_rows`."""
    return [row for piece in _pieces(table) for row in json_rows(piece).to_pylist()]
