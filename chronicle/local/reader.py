"""Read files into one Arrow table of events without Spark, to the same outcome as ingest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.columns import FAULT, POSITION, RAW_RECORD, RAW_TIME
from chronicle.ingest.folders import Since
from chronicle.ingest.quarantine import csv_cells, json_cells, split_faults, to_quarantine
from chronicle.ingest.sources import (
    SourceFormat,
    SourceSet,
    check_column_names,
    check_header,
    find_sources,
    inspect_csv,
    inspect_json,
    inspect_parquet,
)
from chronicle.ingest.times import Fault, TimeReading, TimeSource, choose_time_reading
from chronicle.local.json_records import infer_json, split_json
from chronicle.local.text_records import Records, decode, lines_of, split_csv
from chronicle.local.text_values import infer_type, read_cells
from chronicle.local.times import (
    Faults,
    first_has_offset,
    named_zone,
    read_times,
    stored_type,
    time_source,
)
from chronicle.partitions import repeated
from chronicle.quarantine import QUARANTINE_SCHEMA
from chronicle.schema import check_same_schema, normalise_schema
from chronicle.time import time_type

BYTES_MAX = 1 << 30
"""Files are held in memory whole; beyond this, ingest on Spark is the way."""

STDIN = "-"
"""Stands for what comes in by standard input."""


@dataclass(frozen=True, slots=True)
class LocalEvents:
    """What files hold."""

    events: pa.Table
    """Of the stream's schema, in order of arrival."""

    put_aside: pa.Table
    """Rows of the quarantine table, their batch not named yet: records that are no events."""


def find_files(
    sources: Sequence[str | Path], *, format_name: str | None, since: Since = lambda _: None
) -> SourceSet:
    """Find files that can be read into memory, see ``find_sources``.

    Raises
    ------
    SourceError
        If one cannot be taken, or they are too large.
    """
    found = find_sources(sources, format_name=format_name, since=since)
    if found.size_bytes > BYTES_MAX:
        raise SourceError(
            f"the files hold {found.size_bytes / 1e9:.1f} GB, and an append takes at most "
            f"{BYTES_MAX / 1e9:.1f} GB; take them in with 'chronicle ingest'"
        )
    return found


def read_files(
    sources: Sequence[str | Path] | SourceSet,
    *,
    time: str,
    schema: pa.Schema | None,
    format_name: str | None = None,
    time_zone: str | None = None,
    stdin: BinaryIO | None = None,
) -> LocalEvents:
    """Read files of events into memory.

    A record with a cell that does not parse or without a time is no event, and is put aside with
    the reason. CSV and JSON are read as Spark reads them, so that a file has the same outcome by
    either way. Three ways of Spark's are not followed, in which another value is stored than is
    written: a bare ``12:30`` is no time of today, the text ``"20200102"`` in JSON no number of
    days, and a number beyond 127 in JSON no 8-bit integer.

    Parameters
    ----------
    sources
        Files, patterns or folders in the order of arrival, or only ``"-"`` for ``stdin``; or what
        was found of them.
    time
        Name of the time column.
    schema
        Of the stream the events are for; None to take that of the files.
    format_name
        ``parquet``, ``csv``, ``json`` or ``arrow``; by the files' endings if None.
    time_zone
        Zone in which times without an offset are local.
    stdin
        What ``"-"`` stands for.

    Raises
    ------
    SourceError
        If a source is missing, empty, too large, not in the format, or holds no event.
    SchemaError
        If columns are missing, cannot be stored, or are not those of the stream.
    """
    given: Sequence[str | Path] = sources.files if isinstance(sources, SourceSet) else sources
    with _spooled(given, format_name, stdin) as paths:
        if isinstance(sources, SourceSet):
            found = sources
        else:
            found = find_files(paths, format_name=format_name)
        named = tuple("standard input" if STDIN in given else str(f) for f in found.files)
        files = _Files(found, named, time, schema, time_zone)
        read = _read_typed if found.format in _TYPED else _read_text
        events, put_aside = read(files)
    if events.num_rows == 0:
        raise _nothing(files, put_aside.num_rows)
    if schema is not None:
        events = events.select(schema.names)
    return LocalEvents(events, put_aside)


@contextmanager
def _spooled(
    sources: Sequence[str | Path], format_name: str | None, stdin: BinaryIO | None
) -> Iterator[Sequence[str | Path]]:
    """Lend paths to read from; standard input is written to a file of its own first."""
    if STDIN not in sources:
        yield sources
        return
    if len(sources) > 1 or stdin is None:
        raise SourceError("'-' is standard input, and cannot be taken with files; name it alone")
    if format_name is None:
        raise SourceError(
            "standard input has no ending that tells its format; "
            "give --format parquet, csv, json or arrow"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard-input"
        path.write_bytes(stdin.read())
        try:
            yield [path]
        except (SchemaError, SourceError) as error:
            # Nobody knows the file by its path, which is gone by then.
            raise type(error)(str(error).replace(f"'{path}'", "standard input")) from error


@dataclass(frozen=True, slots=True)
class _Files:
    """What is to be read, and how."""

    found: SourceSet
    names: tuple[str, ...]
    """Of the files, for people."""

    time: str
    stream_schema: pa.Schema | None
    time_zone: str | None

    @property
    def schema(self) -> pa.Schema | None:
        """Columns of the stream that the files hold themselves; None for a new stream."""
        if self.stream_schema is None or not self.found.partitions.names:
            return self.stream_schema
        apart = self.found.partitions.names
        return pa.schema([one for one in self.stream_schema if one.name not in apart])

    @property
    def declared(self) -> Any:
        """Kind of the stream's time; None for a new stream."""
        if self.schema is None:
            return None
        return time_type(self.schema.field(self.time).type, column=self.time)


def _nothing(files: _Files, n_bad: int) -> SourceError:
    where = f"'{files.names[0]}'" + (" …" if len(files.names) > 1 else "")
    if n_bad == 0:
        return SourceError(f"{where} holds no event; nothing was appended, name another file")
    return SourceError(
        f"none of the {n_bad:,} records in {where} has a usable time in column "
        f"'{files.time}' and cells that parse; nothing was appended, check --time and the "
        "columns' types"
    )


# ---------------------------------------------------------------------------------------------
# Formats that state their types.

_TYPED = (SourceFormat.PARQUET, SourceFormat.ARROW)


def _read_typed(files: _Files) -> tuple[pa.Table, pa.Table]:
    """Read Parquet or Arrow files."""
    if files.found.schema is not None:
        tables = _load_delta(files.found.files, files.found.schema)
    else:
        load = _load_parquet if files.found.format is SourceFormat.PARQUET else _load_arrow
        tables = load(files.found.files)
    first = tables[0].schema
    check_column_names(first.names, time=files.time, where=f"'{files.names[0]}'")
    raw = tables[0].column(files.time)
    reading = _choose_reading(files, raw)
    schema = _with_time(first, files.time, stored_type(reading, raw.type))
    for name, table in zip(files.names, tables, strict=True):
        found = _with_time(table.schema, files.time, schema.field(files.time).type)
        check_same_schema(found, files.schema or schema, where=name)
    target = files.schema or schema
    parts = [
        _split_typed(files, position, table, reading, target)
        for position, table in enumerate(tables)
    ]
    return _joined(files, parts, target)


def _load_parquet(paths: Sequence[Path]) -> list[pa.Table]:
    schema = inspect_parquet(paths)
    try:
        return [pq.ParquetFile(path).read().select(schema.names).cast(schema) for path in paths]
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"'{paths[0]}' … cannot be read ({error}); check the files") from error


def _load_delta(paths: Sequence[Path], schema: pa.Schema) -> list[pa.Table]:
    """Read files of a Delta table; those written before a column was added lack it."""
    tables = []
    for path in paths:
        try:
            # What other folders are called is no column of this file.
            table = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
            for column in schema:
                if column.name not in table.column_names:
                    nulls = pa.nulls(table.num_rows, column.type)
                    table = table.append_column(column.name, nulls)
            tables.append(table.select(schema.names).cast(schema))
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"'{path}' cannot be read ({error}); check the file") from error
    return tables


def _load_arrow(paths: Sequence[Path]) -> list[pa.Table]:
    return [_load_arrow_file(path) for path in paths]


def _load_arrow_file(path: Path) -> pa.Table:
    try:
        with pa.input_stream(path, compression="detect") as stream:
            data = pa.py_buffer(stream.read())
        is_file = data[:6].to_pybytes() == b"ARROW1"
        table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(data).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"'{path}' is no Arrow file or stream ({error}); leave it out") from error
    try:
        return table.cast(normalise_schema(table.schema)).combine_chunks()
    except SchemaError as error:
        raise SchemaError(f"'{path}': {error}") from error


def _with_time(schema: pa.Schema, time: str, data_type: pa.DataType) -> pa.Schema:
    at = schema.get_field_index(time)
    return schema if at < 0 else schema.set(at, pa.field(time, data_type))


def _split_typed(
    files: _Files, position: int, table: pa.Table, reading: TimeReading, target: pa.Schema
) -> tuple[pa.Table, pa.Table]:
    raw = _whole(table.column(files.time))
    times, faults = read_times(raw, reading)
    values = {name: _whole(table.column(name)) for name in target.names}
    values[files.time] = times
    return _split(files, position, values, target, _Faulty(raw, faults, None, None))


# ---------------------------------------------------------------------------------------------
# Formats of text.


def _read_text(files: _Files) -> tuple[pa.Table, pa.Table]:
    """Read CSV files or JSON lines."""
    is_csv = files.found.format is SourceFormat.CSV
    header = inspect_csv(files.found.files) if is_csv else ()
    if is_csv:
        check_column_names(header, time=files.time, where=f"'{files.names[0]}'")
        if files.schema is not None:
            names = files.schema.names
            check_header(header, names, where=Path(files.names[0]), whose="the stream")
    else:
        known = None if files.schema is None else files.schema.names
        inspect_json(files.found.files, known)
    contents = [_content(path) for path in files.found.files]
    written = _columns(files, contents, header)
    if not is_csv:
        check_column_names(written.names, time=files.time, where=f"'{files.names[0]}'")
    take: Callable[[bytes], Records] = partial(split_json, columns=written)
    if is_csv:
        take = partial(split_csv, names=header)
    records = [take(content) for content in contents]
    texts = [_typed_cells(one, written) for one in records]
    raw = pa.chunked_array(
        [values[files.time] for values, _ in texts], written.field(files.time).type
    )
    reading = _choose_reading(files, raw)
    target = files.schema
    if target is None:
        time = stored_type(reading, raw.type)
        target = normalise_schema(_with_time(written, files.time, time))
    read_record = csv_cells(header) if is_csv else json_cells
    parts = []
    for position, (values, bad) in enumerate(texts):
        times, faults = read_times(values[files.time], reading)
        faults[bad] = int(Fault.RECORD)
        faults[list(records[position].open_lines)] = int(Fault.OPEN_QUOTE)
        lines = _record_texts(records[position], contents[position], faults)
        faulty = _Faulty(values[files.time], faults, lines, read_record)
        values = values | {files.time: times}
        parts.append(_split(files, position, values, target, faulty))
    return _joined(files, parts, target)


def _content(path: Path) -> bytes:
    try:
        with pa.input_stream(path, compression="detect") as stream:
            content: bytes = stream.read()
            return content
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from error


def _columns(files: _Files, contents: Sequence[bytes], header: Sequence[str]) -> pa.Schema:
    """Return the columns as they are to be read: the stream's, or else inferred; times as text."""
    if files.schema is not None:
        names = header or files.schema.names
        found = pa.schema([files.schema.field(name) for name in names])
    elif header:
        records = [split_csv(content, header) for content in contents]
        found = pa.schema(
            [
                pa.field(name, infer_type(pa.concat_arrays([one.cells[name] for one in records])))
                for name in header
            ]
        )
    else:
        found = infer_json(b"\n".join(contents), where=f"'{files.names[0]}'")
    if files.time not in found.names:
        return found
    data_type = found.field(files.time).type
    is_text = pat.is_timestamp(data_type) or pat.is_date(data_type) or pat.is_string(data_type)
    return _with_time(found, files.time, pa.string()) if is_text else found


def _typed_cells(records: Records, columns: pa.Schema) -> tuple[dict[str, pa.Array], Any]:
    """Return the values by column, and which records have a cell that does not parse."""
    bad = records.malformed.copy()
    values = {}
    for one in columns:
        values[one.name], wrong = read_cells(records.cells[one.name], one.type)
        bad |= wrong
    return values, bad


def _record_texts(records: Records, content: bytes, faults: Faults) -> Sequence[str]:
    if records.texts is not None:
        return records.texts
    return lines_of(decode(content))[1:] if faults.any() else ()


# ---------------------------------------------------------------------------------------------
# Both.


def _choose_reading(files: _Files, raw: pa.ChunkedArray) -> TimeReading:
    """Decide how the time column is read."""
    source = time_source(raw.type, files.time)
    undecided = source is TimeSource.TEXT and files.declared is None and files.time_zone is None
    reading = choose_time_reading(
        source,
        column=files.time,
        declared=files.declared,
        pattern=None,
        zone=files.time_zone,
        text_has_offset=undecided and first_has_offset(_whole(raw)),
    )
    if reading.zone is not None:
        named_zone(reading.zone)
    return reading


@dataclass(frozen=True, slots=True)
class _Faulty:
    """What is known of the records of one file that are no events."""

    raw_time: pa.Array
    faults: Faults
    lines: Sequence[str] | None
    """Texts of all records, if the file is one of text."""

    read_record: Callable[[str], dict[str, Any] | None] | None = field(default=None)


def _split(
    files: _Files,
    position: int,
    values: dict[str, pa.Array],
    target: pa.Schema,
    faulty: _Faulty,
) -> tuple[pa.Table, pa.Table]:
    """Part the events of one file from what is none."""
    columns = pa.table([values[name] for name in target.names], schema=target)
    if not faulty.faults.any():
        return columns, QUARANTINE_SCHEMA.empty_table()
    places = np.flatnonzero(faulty.faults)
    is_record = np.isin(faulty.faults, (int(Fault.RECORD), int(Fault.OPEN_QUOTE)))
    texts: list[str | None] = [None] * columns.num_rows
    if faulty.lines is not None:
        for place in np.flatnonzero(is_record).tolist():
            texts[place] = faulty.lines[place]
    accompanied = {
        FAULT: pa.array(faulty.faults),
        RAW_TIME: faulty.raw_time.cast(pa.string()),
        RAW_RECORD: pa.array(texts, pa.string()),
        POSITION: pa.array(np.full(columns.num_rows, position, np.int32)),
    }
    for name, column in accompanied.items():
        columns = columns.append_column(name, column)
    good, _ = split_faults(columns.combine_chunks().to_batches()[0])
    bad = columns.take(pa.array(places)).combine_chunks().to_batches()[0]
    aside = to_quarantine(
        bad,
        batch_id="",
        time=files.time,
        columns=target.names,
        sources=files.names,
        read_cells=faulty.read_record,
    )
    return pa.Table.from_batches([good]).select(target.names), aside


def _joined(
    files: _Files, parts: Sequence[tuple[pa.Table, pa.Table]], target: pa.Schema
) -> tuple[pa.Table, pa.Table]:
    """Put the files together, each with the values that its path or its table says."""
    tables = []
    for path, (events, _) in zip(files.found.files, parts, strict=True):
        events = events.cast(target)
        schema = files.stream_schema or files.found.partitions
        for name, value in files.found.constants(path, schema).items():
            column = repeated(value, events.num_rows, schema.field(name).type)
            events = events.append_column(name, column)
        tables.append(events)
    return pa.concat_tables(tables), pa.concat_tables([aside for _, aside in parts])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
