"""Columns whose values stand in the paths of files, put beside what Spark reads of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from chronicle.ingest.columns import POSITION
from chronicle.ingest.sources import SourceSet
from chronicle.ingest.spark_tools import quoted
from chronicle.ingest.types import to_spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema_in_files(stream_schema: pa.Schema | None, sources: SourceSet) -> pa.Schema | None:
    """Return the columns of a stream that the files hold themselves; None for a new stream."""
    if stream_schema is None:
        return None
    return pa.schema([one for one in stream_schema if one.name not in sources.partitions.names])


def with_constants(
    frame: DataFrame, schema: pa.Schema, sources: SourceSet, stream_schema: pa.Schema | None
) -> tuple[DataFrame, pa.Schema]:
    """Put the values of partition columns beside events, by the file each comes from.

    Parameters
    ----------
    frame
        Events and what accompanies them, the position of the file among it.
    schema
        Of the events.
    sources
        The files.
    stream_schema
        Says the types of the columns; those of the sources do if None.

    Raises
    ------
    SchemaError
        If the stream lacks such a column, or a value is none of its type.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import IntegerType, StructField, StructType

    names = sources.partitions.names
    if not names:
        return frame, schema
    typed = stream_schema or sources.partitions
    rows = [
        (position, *(value.as_py() for value in sources.constants(path, typed).values()))
        for position, path in enumerate(sources.files)
    ]
    fields = [typed.field(name) for name in names]
    columns = [StructField(one.name, to_spark_type(one.type)) for one in fields]
    lookup = frame.sparkSession.createDataFrame(
        rows, StructType([StructField(POSITION, IntegerType()), *columns])
    )
    joined = frame.join(F.broadcast(lookup), on=POSITION, how="left")
    wanted = [*schema.names, *names, *(c for c in frame.columns if c not in schema.names)]
    return joined.select(*map(quoted, wanted)), pa.schema([*schema, *fields])
