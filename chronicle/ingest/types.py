"""Types of columns on their way from Arrow to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


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
