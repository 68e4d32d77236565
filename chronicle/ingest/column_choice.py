"""Know or infer the columns of sources: names, types, and what their time is to become."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.quotes import close_quotes
from chronicle.ingest.report import IngestOptions
from chronicle.ingest.sources import (
    SourceFormat,
    SourceSet,
    check_column_names,
    check_header,
    inspect_csv,
    inspect_json,
    inspect_parquet,
    needs_row_reader,
)
from chronicle.ingest.spark_tools import CSV_OPTIONS, escaped, first_line, spark_faults
from chronicle.ingest.types import to_spark_type
from chronicle.time import TimeType, time_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """What is known of the sources before Spark starts."""

    sources: SourceSet
    parquet_schema: pa.Schema | None
    header: tuple[str, ...] | None
    by_rows: bool = False
    """Whether Spark is to read Parquet by rows, see ``needs_row_reader``."""

    is_uniform: bool = True
    """Whether all files hold all columns, in the types that are read."""

    copies: tuple[Path, ...] | None = None
    """What is read in the place of the files of ``sources``; None if these are."""

    @property
    def files(self) -> tuple[Path, ...]:
        """What is to be read."""
        return self.sources.files if self.copies is None else self.copies


def inspect_sources(sources: SourceSet, options: IngestOptions) -> FoundColumns:
    """Check what can be told from footers and headers, before any JVM starts.

    Raises
    ------
    SourceError, SchemaError
        See ``chronicle.ingest.sources``.
    """
    if sources.format is SourceFormat.ARROW:
        raise SourceError(
            f"'{sources.files[0]}' is an Arrow file, which Spark does not read; "
            "take it in with 'chronicle append', or write it as Parquet"
        )
    if sources.format is SourceFormat.PARQUET:
        if options.schema is not None:
            raise SourceError("Parquet files state their own schema; leave --schema out")
        schema, is_uniform = _parquet_columns(sources)
        check_column_names(schema.names, time=options.time, where=f"'{sources.files[0]}'")
        return FoundColumns(sources, schema, None, needs_row_reader(sources.files), is_uniform)
    if sources.format is SourceFormat.CSV:
        header = inspect_csv(sources.files)
        check_column_names(header, time=options.time, where=f"'{sources.files[0]}'")
        return FoundColumns(sources, None, header)
    inspect_json(sources.files, None)
    return FoundColumns(sources, None, None)


def _parquet_columns(sources: SourceSet) -> tuple[pa.Schema, bool]:
    """Return the columns of Parquet files, and whether each file has them just so.

    Those of a Delta table need not: some were added after a file was written.
    """
    if sources.schema is None:
        return inspect_parquet(sources.files), True
    try:
        found = inspect_parquet(sources.files)
    except SourceError:
        return sources.schema, False
    return sources.schema, sorted(map(str, found)) == sorted(map(str, sources.schema))


def with_quotes_closed(found: FoundColumns, folder: Path) -> FoundColumns:
    """Have copies in ``folder`` read of CSV files whose lines are not records throughout.

    Raises
    ------
    SourceError
        If a file cannot be read.
    """
    if found.header is None:
        return found
    files = close_quotes(found.sources.files, folder, width=len(found.header))
    return found if files == found.sources.files else replace(found, copies=files)


def choose_columns(
    spark: SparkSession,
    found: FoundColumns,
    options: IngestOptions,
    stream_schema: pa.Schema | None,
) -> StructType:
    """Return names and types as the files, the user, or else the stream state them."""
    if found.parquet_schema is not None:
        return _to_struct(found.parquet_schema)
    if options.schema is not None:
        columns = _parse_ddl(options.schema)
    elif stream_schema is not None:
        columns = _to_struct(stream_schema)
    else:
        return _infer(spark, found)
    if found.header is None:
        return columns
    return _in_header_order(columns, found, of_user=options.schema is not None)


def _to_struct(schema: pa.Schema) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(one.name, to_spark_type(one.type)) for one in schema])


def _parse_ddl(ddl: str) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return StructType.fromDDL(ddl)
    except PySparkException as error:
        raise SchemaError(
            f"schema '{ddl}' is no Spark DDL ({first_line(error)}); "
            "write it as 'ts TIMESTAMP_NTZ, price DOUBLE, name STRING'"
        ) from error


def _in_header_order(columns: StructType, found: FoundColumns, *, of_user: bool) -> StructType:
    """Return the columns as they stand in the files: Spark's CSV reader goes by position."""
    from pyspark.sql.types import StructType

    assert found.header is not None
    whose = "--schema" if of_user else "the stream"
    check_header(found.header, columns.names, where=found.sources.files[0], whose=whose)
    return StructType([columns[name] for name in found.header])


def _infer(spark: SparkSession, found: FoundColumns) -> StructType:
    """Let Spark guess types; integers are widened, so that the next file fits too."""
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    sources = found.sources
    before = spark.conf.get("spark.sql.timestampType")
    # Times without a zone are local times, not instants in UTC.
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        reader = spark.read.format(sources.format.value)
        if sources.format is SourceFormat.CSV:
            reader = reader.options(**CSV_OPTIONS, inferSchema="true")
        with spark_faults(sources):
            inferred = reader.load(escaped(found.files)).schema
    finally:
        spark.conf.set("spark.sql.timestampType", before)
    fields = [
        StructField(one.name, LongType() if one.dataType == IntegerType() else one.dataType)
        for one in inferred.fields
        if one.name != "_corrupt_record"
    ]
    if not fields:
        raise SourceError(f"'{sources.files[0]}' holds no record; leave it out")
    return StructType(fields)


def declared_time(
    columns: StructType, options: IngestOptions, stream_schema: pa.Schema | None
) -> TimeType | None:
    """Return what the time is to become, where the stream or the user's schema says so."""
    if stream_schema is not None:
        return time_type(stream_schema.field(options.time).type, column=options.time)
    if options.schema is None:
        return None
    stated: dict[str, TimeType] = {"timestamp": "timestamp_utc", "timestamp_ntz": "timestamp"}
    return stated.get(columns[options.time].dataType.typeName())


def as_read(columns: StructType, options: IngestOptions, format: SourceFormat) -> StructType:  # noqa: A002
    """Return the columns as the reader is to give them: times in text files are read as text."""
    from pyspark.sql.types import StringType, StructField, StructType

    if format is SourceFormat.PARQUET:
        return columns
    is_text = columns[options.time].dataType.typeName() in (
        "string",
        "date",
        "timestamp",
        "timestamp_ntz",
    )
    fields = [
        StructField(one.name, StringType())
        if one.name == options.time and (is_text or options.time_format is not None)
        else StructField(one.name, one.dataType)
        for one in columns.fields
    ]
    return StructType(fields)
