"""Read sources into a Spark frame of events with what accompanies them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.column_choice import FoundColumns, as_read, choose_columns, declared_time
from chronicle.ingest.columns import (
    BLOCK_START,
    CHECK,
    FAULT,
    HELPERS,
    PATH,
    POSITION,
    RAW_RECORD,
    RAW_TIME,
    ROW_ID,
    TIME,
)
from chronicle.ingest.constants import schema_in_files, with_constants
from chronicle.ingest.direct import (
    DirectSplit,
    needs_no_conversion,
    plan_splits,
    rows_of_groups,
)
from chronicle.ingest.quotes import unmarked
from chronicle.ingest.report import IngestOptions
from chronicle.ingest.sources import (
    SourceFormat,
    SourceSet,
    check_column_names,
    inspect_json,
)
from chronicle.ingest.spark_tools import CSV_OPTIONS, escaped, quoted
from chronicle.ingest.times import (
    ISO_OFFSET,
    Fault,
    TimeReading,
    TimeSource,
    choose_time_reading,
    read_time,
)
from chronicle.ingest.types import to_arrow_schema
from chronicle.schema import check_same_schema, normalise_schema
from chronicle.time import TimeType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

SPLIT_BYTES_MIN = 4 << 20
SPLIT_BYTES_MAX = 128 << 20
"""A split is a task's work: large enough to pay for the task, small enough to spread."""

SPLITS_ALONE_MAX = 64
"""Up to so many files each is read by tasks of its own, however small."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Sources as a frame that has not been read yet."""

    frame: DataFrame
    """The events' columns and those that accompany them."""

    schema: pa.Schema
    """Of the events, as a stream stores them."""

    time: str
    format: SourceFormat
    split_per_task: bool
    """Whether each task reads one split."""

    direct: tuple[DirectSplit, ...] | None = None
    """What workers can read without Spark's reader; None if they cannot."""


def read_sources(
    spark: SparkSession,
    found: FoundColumns,
    options: IngestOptions,
    *,
    stream_schema: pa.Schema | None,
) -> Reading:
    """Build the frame of an ingest; reads data only to infer a schema that nothing states.

    Parameters
    ----------
    spark
        A session of ``open_spark``; its settings for splits and readers are changed.
    found
        From ``inspect_sources``.
    options
        How to read.
    stream_schema
        Of the stream the events are for, None if it is new.

    Raises
    ------
    SourceError, SchemaError
        If options do not apply, or columns are missing or cannot be stored.
    """
    sources = found.sources
    columns = choose_columns(spark, found, options, schema_in_files(stream_schema, sources))
    check_column_names(columns.names, time=options.time, where=f"'{sources.files[0]}'")
    to_arrow_schema(columns)  # refuses columns a stream cannot store
    if sources.format is SourceFormat.JSON:
        inspect_json(sources.files, columns.names)
    declared = declared_time(columns, options, stream_schema)
    raw = as_read(columns, options, sources.format)
    n_cores = spark.sparkContext.defaultParallelism
    alone = _split_per_task(sources)
    split_bytes = options.split_bytes or choose_split_bytes(sources.size_bytes, n_cores)
    _set_splits(spark, split_bytes, alone=alone)
    by_batches = str(not found.by_rows).lower()
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", by_batches)
    frame = _load(spark, found, raw)
    reading = _choose_time(frame, raw, options, declared)
    frame, schema = _to_events(spark, frame, raw, options, reading, found)
    frame, schema = with_constants(frame, schema, sources, stream_schema)
    if stream_schema is not None:
        check_same_schema(schema, stream_schema, where=str(sources.files[0]))
    stored = normalise_schema(schema)
    direct = None
    # A test that sets the size of Spark's splits wants Spark's splits.
    if (
        alone
        and found.is_uniform
        and options.split_bytes is None
        and needs_no_conversion(found.parquet_schema, stored, reading)
    ):
        groups = [rows_of_groups(path) for path in sources.files]
        direct = tuple(plan_splits(sources.files, groups, n_tasks=n_cores))
    return Reading(frame, stored, options.time, sources.format, alone, direct)


def choose_split_bytes(size_bytes: int, n_cores: int) -> int:
    """Return the size of a split that gives every core one, within bounds. Pure."""
    return max(SPLIT_BYTES_MIN, min(SPLIT_BYTES_MAX, math.ceil(size_bytes / max(1, n_cores))))


def _split_per_task(sources: SourceSet) -> bool:
    """Return whether splits are large enough that each deserves a task and a data file."""
    n_files = len(sources.files)
    return n_files <= SPLITS_ALONE_MAX or sources.size_bytes / n_files >= SPLIT_BYTES_MIN


def _set_splits(spark: SparkSession, split_bytes: int, *, alone: bool) -> None:
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(split_bytes))
    # Opening a file is said to cost a whole split, so that none shares its task with another.
    spark.conf.set("spark.sql.files.openCostInBytes", str(split_bytes if alone else 1 << 20))


# ---------------------------------------------------------------------------------------------
# The frame.


def _load(spark: SparkSession, found: FoundColumns, columns: StructType) -> DataFrame:
    from pyspark.sql.types import StringType, StructField, StructType

    reader = spark.read.format(found.sources.format.value)
    if found.sources.format is SourceFormat.PARQUET:
        return reader.schema(columns).load(escaped(found.files))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW_RECORD}
    if found.sources.format is SourceFormat.CSV:
        options |= CSV_OPTIONS
    wanted = StructType([*columns.fields, StructField(RAW_RECORD, StringType())])
    return reader.schema(wanted).options(**options).load(escaped(found.files))


def _choose_time(
    frame: DataFrame, columns: StructType, options: IngestOptions, declared: TimeType | None
) -> TimeReading:
    source = _time_source(columns[options.time].dataType, options.time)
    undecided = (
        source is TimeSource.TEXT
        and declared is None
        and options.time_format is None
        and options.time_zone is None
    )
    reading = choose_time_reading(
        source,
        column=options.time,
        declared=declared,
        pattern=options.time_format,
        zone=options.time_zone,
        text_has_offset=undecided and _first_has_offset(frame, options.time),
    )
    _check_spellings(frame.sparkSession, reading)
    return reading


def _time_source(data_type: DataType, column: str) -> TimeSource:
    name = data_type.typeName()
    if name in ("byte", "short", "integer", "long"):
        return TimeSource.INTEGER
    if name in ("date", "timestamp_ntz"):
        return TimeSource.LOCAL
    if name == "timestamp":
        return TimeSource.INSTANT
    if name == "string":
        return TimeSource.TEXT
    raise SchemaError(
        f"time column '{column}' is {data_type.simpleString()}; time is an integer, a timestamp "
        "or text that reads as one, so name another column or convert it"
    )


def _first_has_offset(frame: DataFrame, time: str) -> bool:
    """Return whether the first time that is there has an offset from UTC."""
    first = frame.select(quoted(time)).where(quoted(time).isNotNull()).head(1)
    return bool(first) and re.search(ISO_OFFSET, str(first[0][0]).strip()) is not None


def _check_spellings(spark: SparkSession, reading: TimeReading) -> None:
    """Let Spark say whether it knows the pattern and the zone, before a job fails on them."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    one = spark.range(1)
    if reading.pattern is not None:
        try:
            one.select(F.try_to_timestamp(F.lit("x"), F.lit(reading.pattern))).collect()
        except PySparkException as error:
            raise SourceError(
                f"time format '{reading.pattern}' is no Spark datetime pattern; "
                "write it like yyyy-MM-dd HH:mm:ss"
            ) from error
    if reading.zone is not None:
        local = F.lit("2000-01-01").cast("timestamp_ntz")
        try:
            one.select(F.convert_timezone(F.lit(reading.zone), F.lit("UTC"), local)).collect()
        except PySparkException as error:
            raise SourceError(
                f"no time zone '{reading.zone}'; name one like America/Chicago or +02:00"
            ) from error


def _to_events(
    spark: SparkSession,
    frame: DataFrame,
    columns: StructType,
    options: IngestOptions,
    reading: TimeReading,
    found: FoundColumns,
) -> tuple[DataFrame, pa.Schema]:
    """Put the stream's time in place and add what accompanies the events."""
    from pyspark.sql import functions as F  # noqa: N812

    raw_time = quoted(options.time)
    is_text = found.sources.format is not SourceFormat.PARQUET
    record = F.col(RAW_RECORD) if is_text else F.lit(None).cast("string")
    time, time_fault = read_time(raw_time, reading)
    fault = F.when(record.isNotNull(), int(Fault.RECORD)).otherwise(time_fault)
    if found.copies is not None:
        is_marked, record = unmarked(record, width=len(columns.names))
        fault = F.when(is_marked, int(Fault.OPEN_QUOTE)).otherwise(fault)
    metadata = frame.metadataColumn("_metadata")
    accompanied = frame.select(
        *[quoted(name) for name in columns.names],
        record.alias(RAW_RECORD),
        fault.cast("int").alias(FAULT),
        metadata["file_path"].alias(PATH),
        metadata["file_block_start"].alias(BLOCK_START),
        F.monotonically_increasing_id().alias(ROW_ID),
    )
    faulty = F.col(FAULT) != int(Fault.NONE)
    accompanied = accompanied.select(
        *[
            F.when(~faulty, time).alias(name) if name == options.time else quoted(name)
            for name in columns.names
        ],
        *[F.col(name) for name in (RAW_RECORD, FAULT, PATH, BLOCK_START, ROW_ID)],
        F.when(faulty, raw_time.cast("string")).alias(RAW_TIME),
    )
    schema = to_arrow_schema(accompanied.select(*map(quoted, columns.names)).schema)
    return _with_position(spark, accompanied, frame.inputFiles(), found.files), schema


def _with_position(
    spark: SparkSession, frame: DataFrame, names: Sequence[str], files: Sequence[Path]
) -> DataFrame:
    """Replace Spark's name of the file by its position among the sources."""
    from pyspark.sql import functions as F  # noqa: N812

    if len(files) == 1:
        return frame.withColumn(POSITION, F.lit(0)).drop(PATH)
    positions = {path: position for position, path in enumerate(files)}
    rows = [(name.replace("file://", "file:", 1), positions[_to_path(name)]) for name in names]
    lookup = spark.createDataFrame(rows, f"{PATH} string, {POSITION} int")
    return frame.join(F.broadcast(lookup), on=PATH, how="left").drop(PATH)


def _to_path(name: str) -> Path:
    """Return the path behind Spark's name of a file."""
    return Path(unquote(name.removeprefix("file://")))


def survey_frame(reading: Reading) -> DataFrame:
    """Return what a survey looks at: the time and where each record comes from."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted: list[Column] = [
        quoted(reading.time).alias(TIME),
        F.col(POSITION),
        F.col(BLOCK_START),
    ]
    if reading.format is not SourceFormat.PARQUET:
        # Cells nobody asks for are not parsed, and their faults not found.
        wanted.append(F.xxhash64(*map(quoted, reading.schema.names)).alias(CHECK))
    return reading.frame.select(*wanted)


def write_frame(reading: Reading, columns: Sequence[str], *, n_partitions: int | None) -> DataFrame:
    """Return what is written, sorted into ``n_partitions``; as it arrived if None.

    The events' ``columns`` come first, in this order and by number instead of name, because
    ``mapInArrow`` stumbles over names with dots and backticks; then those of ``HELPERS``.
    """
    from pyspark.sql import functions as F  # noqa: N812

    frame = reading.frame
    if n_partitions is not None:
        frame.sparkSession.conf.set("spark.sql.shuffle.partitions", str(n_partitions))
        order = [quoted(reading.time), F.col(POSITION), F.col(BLOCK_START), F.col(ROW_ID)]
        frame = frame.orderBy(*order)
    numbered = [quoted(name).alias(f"c{i}") for i, name in enumerate(columns)]
    return frame.select(*numbered, *map(F.col, HELPERS))
