"""Read Parquet and Arrow files, which state the types of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.foreign_text import first_line
from chronicle.frames import with_plain_values
from chronicle.ingest.sources import SourceFormat, SourceSet
from chronicle.parquet_files import open_parquet
from chronicle.schema import normalise_schema, parquet_schema
from chronicle.type_names import sql_type

_BATCH_ROWS = 1 << 16


def arrow_table(path: str) -> pa.Table:
    """Return the rows of an Arrow file or stream; one whose buffers do not fit is refused."""
    return pa.Table.from_batches(list(_arrow_batches(Path(path))))


def read_schemas(sources: SourceSet) -> list[pa.Schema]:
    """Return the schema of each file, as it states it; reads no row."""
    read = _parquet_schema if sources.format is SourceFormat.PARQUET else _arrow_schema
    return [read(path) for path in sources.files]


def common_schema(sources: SourceSet, stated: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema all files agree on, as a stream stores it but for times.

    Files of several schemas and types that cannot be stored (unsigned integers, lists, …) are
    refused.
    """
    if sources.schema is not None:
        return sources.schema_in_files(sources.schema)  # some columns came after some files
    schemas = [_normalised(path, one) for path, one in zip(sources.files, stated, strict=True)]
    for path, schema in zip(sources.files[1:], schemas[1:], strict=True):
        difference = _difference(schemas[0], schema)
        if difference:
            raise SourceError(
                f"'{path}' has another schema than '{sources.files[0]}': {difference}; "
                "ingest files of one schema at a time"
            )
    return schemas[0]


def has_other_units(stated: Sequence[pa.Schema]) -> bool:
    """Return whether a file has times in another unit than microseconds, which may not hold them.

    Those of nanoseconds are cut, those of seconds and milliseconds may be beyond.
    """
    types = (one.type for schema in stated for one in schema)
    return any(pat.is_timestamp(one) and one.unit != "us" for one in types)


def _normalised(path: Path, schema: pa.Schema) -> pa.Schema:
    micro = [
        pa.field(one.name, pa.timestamp("us", one.type.tz))
        if pat.is_timestamp(one.type) and one.type.unit == "ns"
        else one
        for one in schema
    ]
    try:
        return normalise_schema(pa.schema(micro))
    except SchemaError as error:
        raise SchemaError(f"'{path}': {error}") from error


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        with pq.ParquetFile(path) as file:
            return parquet_schema(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"'{path}' is not a Parquet file ({error}); leave it out") from error


def _arrow_schema(path: Path) -> pa.Schema:
    return next(_arrow_batches(path)).schema


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    """Return in words how ``other`` differs, an empty string if only in order."""
    for field in first:
        if field.name not in other.names:
            return f"it lacks column '{field.name}'"
        found = other.field(field.name).type
        if found != field.type:
            return f"column '{field.name}' is {sql_type(found)}, not {sql_type(field.type)}"
    for name in other.names:
        if name not in first.names:
            return f"it has a column '{name}' more"
    return ""


def rows_of_groups(path: Path) -> list[int]:
    """Return the rows of every row group of a Parquet file, from its footer."""
    footer = pq.read_metadata(path)
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def read_typed(
    format: SourceFormat,  # noqa: A002
    path: Path,
    names: Sequence[str],
    first: int,
    stop: int,
    *,
    schema: pa.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in order, of the columns named.

    Columns come in the order of ``names``. ``first`` and ``stop`` are row groups of Parquet; Arrow
    files are read whole. With ``schema``, that of a Delta table, columns that the file lacks are
    NULL and others get its types.
    """
    batches = (
        _parquet_batches(path, names, range(first, stop))
        if format is SourceFormat.PARQUET
        else _arrow_batches(path)
    )
    try:
        for batch in batches:
            if batch.num_rows:
                yield batch.select(list(names)) if schema is None else _as(batch, names, schema)
    except (OSError, pa.ArrowException) as error:
        reason = first_line(str(error)) or type(error).__name__
        raise SourceError(f"'{path}' cannot be read ({reason}); check the file") from error


def _as(batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for name in names:
        wanted = schema.field(name).type
        if name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, wanted))
            continue
        found = batch.column(name)
        # What times microseconds cannot hold is for whoever has a quarantine.
        is_time = pat.is_timestamp(wanted) and pat.is_timestamp(found.type)
        columns.append(found if is_time else found.cast(wanted))
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _parquet_batches(path: Path, names: Sequence[str], groups: range) -> Iterator[pa.RecordBatch]:
    with open_parquet(path) as file:
        # A dot in a name would be taken for a path into a struct; and rows without a column of
        # the file are counted by no batch.
        plain = not any("." in name for name in names)
        has_all = set(names) <= set(file.schema_arrow.names)
        wanted = list(names) if plain and has_all else None
        yield from file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=wanted)


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file or stream, at least one."""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            data = pa.py_buffer(stream.read())
        if data[:6].to_pybytes() == b"ARROW1":
            with pa.ipc.open_file(data) as file:
                schema = file.schema
                for i in range(file.num_record_batches):
                    yield _checked(file.get_batch(i))
        else:
            with pa.ipc.open_stream(data) as batches:
                schema = batches.schema
                yield from map(_checked, batches)
        none = [pa.nulls(0, one.type) for one in schema]
        yield _plain(pa.RecordBatch.from_arrays(none, schema=schema))
    except (pa.ArrowException, OSError) as error:
        reason = first_line(str(error))
        raise SourceError(
            f"'{path}' is no Arrow file or stream, or is damaged ({reason}); restore it, or "
            "leave it out"
        ) from error


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose offsets and texts were looked at: Arrow follows them blindly."""
    batch.validate(full=True)
    return _plain(batch)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [with_plain_values(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
