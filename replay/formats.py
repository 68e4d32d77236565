"""Answers as machines read them: JSON, CSV, Parquet, Arrow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import PurePath
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from replay.json_rows import bytes_of, json_rows

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

    Parameters
    ----------
    tables
        The answer: at least one table, all of one schema.
    output_format
        ``json`` (one array of row objects, see `json_rows`), ``jsonl`` (the same objects, one a
        line), ``csv`` (with header; intervals are seconds, bytes hexadecimal digits), ``parquet``
        (intervals are seconds), or ``arrow`` (an IPC stream).
    stream
        Where to; left open.

    Raises
    ------
    ValueError
        If the format is none of these.
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
    with pq.ParquetWriter(sink, _intervals_to_seconds(schema.empty_table()).schema) as writer:
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
            seconds = pc.divide(micros.cast(pa.float64()), 1e6)
            table = table.set_column(index, field.name, seconds)
    return table


def as_csv(table: pa.Table) -> pa.Table:
    """Return the table with intervals as seconds and bytes as hexadecimal digits: CSV is text."""
    table = _intervals_to_seconds(table)
    for index, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            digits = [None if v is None else v.hex() for v in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(digits, pa.string()))
    return table


def to_json_rows(table: pa.Table) -> list[str]:
    """Return each row as a JSON object on one line; see `json_rows`."""
    return [row for piece in _pieces(table) for row in json_rows(piece).to_pylist()]
