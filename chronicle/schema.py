"""Which columns and schemas a stream can have, and how batches are brought into them."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from chronicle.errors import SchemaError, did_you_mean
from chronicle.settings import StreamSettings
from chronicle.time import time_type
from chronicle.tree.derived_attributes import check_derived
from chronicle.type_names import sql_type


def normalise_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema a stream stores for events of ``schema``.

    Timestamps become microseconds (those with a zone UTC), dictionaries and large or view types
    plain ones. Metadata is dropped, every column is nullable.

    Refuses types that Delta or Chronicle cannot store, and names that differ only by case.
    """
    seen: dict[str, str] = {}
    fields = []
    for field in schema:
        if field.name.casefold() in seen:
            raise SchemaError(
                f"columns '{seen[field.name.casefold()]}' and '{field.name}' differ at most by "
                "case, which Delta does not tell apart; rename one"
            )
        if "\0" in field.name:
            raise SchemaError(f"column {field.name!r} has a NUL in its name; rename it")
        seen[field.name.casefold()] = field.name
        fields.append(pa.field(field.name, _normalise_type(field.type, field.name)))
    if not fields:
        raise SchemaError("the events have no column; give at least a time column")
    return pa.schema(fields)


def _normalise_type(data_type: pa.DataType, column: str) -> pa.DataType:
    if pat.is_dictionary(data_type):
        return _normalise_type(data_type.value_type, column)
    if pat.is_signed_integer(data_type) or pat.is_boolean(data_type):
        return data_type
    if pat.is_float32(data_type) or pat.is_float64(data_type):
        return data_type
    if pat.is_string(data_type) or pat.is_large_string(data_type) or pat.is_string_view(data_type):
        return pa.string()
    if _is_binary(data_type):
        return pa.binary()
    if pat.is_date(data_type):
        return pa.date32()
    if pat.is_timestamp(data_type) and data_type.unit != "ns":
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if pat.is_decimal(data_type) and data_type.precision <= 38:
        return pa.decimal128(data_type.precision, data_type.scale)
    raise SchemaError(f"column '{column}' is {data_type}; {_remedy(data_type)}")


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(
        pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
        or pat.is_binary_view(data_type)
        or pat.is_fixed_size_binary(data_type)
    )


def _remedy(data_type: pa.DataType) -> str:
    if pat.is_unsigned_integer(data_type):
        return "Delta has no unsigned integers, cast it to int64 first"
    if pat.is_timestamp(data_type):
        return "Delta stores microseconds, cast it to timestamp[us] first"
    if pat.is_float16(data_type):
        return "Delta has no half floats, cast it to float first"
    if pat.is_nested(data_type):
        return "events are flat, so flatten it into columns of their own first"
    if pat.is_null(data_type):
        return "no value tells its type, so name one or drop the column"
    if pat.is_time(data_type) or pat.is_duration(data_type):
        return "Delta has no such type, cast it to int64 first"
    return "this type cannot be stored, so cast it or drop the column"


def parquet_schema(file: pq.ParquetFile) -> pa.Schema:
    """Return the columns of a Parquet file.

    Arrow calls INT96 nanoseconds; Spark and Impala write instants of microseconds in it.
    """
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    int96 = {column.path for column in columns if column.physical_type == "INT96"}
    instant = pa.timestamp("us", "UTC")
    return pa.schema(
        [one.with_type(instant) if one.name in int96 else one for one in file.schema_arrow]
    )


def check_settings(schema: pa.Schema, settings: StreamSettings) -> None:
    """Check that the columns the settings name exist and can do their job."""
    for role, name in (("time", settings.time), ("key", settings.key)):
        if name is not None and name not in schema.names:
            raise SchemaError(
                f"no {role} column '{name}' (columns: {', '.join(schema.names)})"
                f"{did_you_mean(name, schema.names)}"
            )
    time_type(schema.field(settings.time).type, column=settings.time)
    check_derived(schema, settings.derived, key=settings.key)


def check_key(schema: pa.Schema, name: str) -> None:
    """Check that a column can be the key of a new stream: its indexes will hold the values."""
    found = schema.field(name).type
    if pat.is_floating(found) or pat.is_decimal(found) or pat.is_binary(found):
        raise SchemaError(
            f"key column '{name}' is {sql_type(found)}, which tells no objects apart; "
            "use a column of integers or strings"
        )


def check_same_schema(given: pa.Schema, stored: pa.Schema, *, where: str) -> None:
    """Check that events of ``given`` can be added to a stream of ``stored``; order may differ."""
    incoming = normalise_schema(given)
    missing = [name for name in stored.names if name not in incoming.names]
    unknown = [name for name in incoming.names if name not in stored.names]
    if missing or unknown:
        parts = []
        if missing:
            parts.append(f"lack {_listed(missing)}")
        if unknown:
            parts.append(f"have {_listed(unknown)} that the stream lacks")
        remedy = "give the same columns, with nulls where there is no value"
        if unknown:
            remedy += "; a column is added to the stream with 'chronicle add-column'"
        raise SchemaError(f"the events {' and '.join(parts)} ({where}); {remedy}")
    for field in stored:
        found = incoming.field(field.name).type
        if found != field.type:
            raise SchemaError(
                f"column '{field.name}' is {sql_type(found)}, the stream has "
                f"{sql_type(field.type)} ({where}); cast it first"
            )


def _listed(names: list[str]) -> str:
    return ("columns " if len(names) > 1 else "column ") + ", ".join(f"'{name}'" for name in names)


def check_extends(old: pa.Schema, new: pa.Schema, *, where: str) -> None:
    """Check that a table's schema differs from an older one by columns added behind at most.

    Other programs can drop, rename or move columns, or give them another type.
    """
    if list(new)[: len(old)] != list(old):
        raise SchemaError(
            f"columns of '{where}' were dropped, renamed, moved or given another type by another "
            f"program (they were {', '.join(old.names)}, now {', '.join(new.names)}); restore the "
            "table to the last version before that (Delta RESTORE)"
        )


def conform(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, *, where: str) -> pa.Table:
    """Bring events into the stream's column order and types.

    ``where`` says in messages what the events belong to. A value that does not survive the
    conversion, or is no text, is refused.
    """
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    if not table.schema.equals(schema):
        check_same_schema(table.schema, schema, where=where)
        try:
            table = table.select(schema.names).cast(schema).replace_schema_metadata(None)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"an event does not fit the stream ({where}): {error}") from error
    check_texts(table, where=where)
    return table


def check_texts(table: pa.Table, *, where: str) -> None:
    """Refuse texts that are not UTF-8, as Parquet files of careless writers hold them."""
    for field, column in zip(table.schema, table.columns, strict=True):
        if pat.is_string(field.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    f"column '{field.name}' holds text that is not UTF-8 ({where}); convert it, "
                    "or cast it to binary"
                ) from error


SEPARATOR = "+"


def composite_parts(columns: Collection[str], name: str) -> tuple[str, ...] | None:
    """Return what a name joins, in its order; None if it is a column's or joins nothing. Pure.

    A column of that very name comes first; the parts returned may be no columns.
    """
    if SEPARATOR not in name or name in columns:
        return None
    return tuple(name.split(SEPARATOR))
