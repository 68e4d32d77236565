"""Types of columns on both sides of the border between Arrow and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def to_spark_type(data_type: pa.DataType) -> DataType:
    """Return Spark's type for a type a stream stores (see ``chronicle.schema``)."""
    from pyspark.sql import types as T  # noqa: N812 -- the name everyone knows

    if pat.is_timestamp(data_type):
        return T.TimestampNTZType() if data_type.tz is None else T.TimestampType()
    if pat.is_decimal(data_type):
        return T.DecimalType(data_type.precision, data_type.scale)
    return {
        pa.int8(): T.ByteType(),
        pa.int16(): T.ShortType(),
        pa.int32(): T.IntegerType(),
        pa.int64(): T.LongType(),
        pa.float32(): T.FloatType(),
        pa.float64(): T.DoubleType(),
        pa.bool_(): T.BooleanType(),
        pa.string(): T.StringType(),
        pa.binary(): T.BinaryType(),
        pa.date32(): T.DateType(),
    }[data_type]


def to_arrow_type(data_type: DataType, *, column: str) -> pa.DataType:
    """Return the type a stream stores for values of a Spark type.

    Raises
    ------
    SchemaError
        If a stream cannot store it.
    """
    name = data_type.typeName()
    if name == "decimal":
        return pa.decimal128(data_type.precision, data_type.scale)
    known = {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    if name not in known:
        raise SchemaError(
            f"column '{column}' is {data_type.simpleString()}, which a stream cannot store; "
            "events are flat, so take it out or apart into columns of their own"
        )
    return known[name]


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema a stream stores for rows of a Spark schema; every column nullable."""
    return pa.schema(
        [pa.field(one.name, to_arrow_type(one.dataType, column=one.name)) for one in schema.fields]
    )
