"""Types: from Arrow's, from the words in CAST, and which casts there are."""

from __future__ import annotations

import pyarrow as pa

from replay.expressions.nodes import DataType

_PLAIN: dict[pa.DataType, DataType] = {
    pa.int8(): DataType.INTEGER,
    pa.int16(): DataType.INTEGER,
    pa.int32(): DataType.INTEGER,
    pa.int64(): DataType.INTEGER,
    pa.float32(): DataType.DOUBLE,
    pa.float64(): DataType.DOUBLE,
    pa.bool_(): DataType.BOOLEAN,
    pa.string(): DataType.STRING,
    pa.large_string(): DataType.STRING,
    pa.date32(): DataType.DATE,
}

TIME_TYPES = frozenset(
    {DataType.INTEGER, DataType.DATE, DataType.TIMESTAMP, DataType.TIMESTAMP_UTC}
)
"""What a time column can be; that of a stream of a store is no DATE."""

DECIMAL_DIGITS = 18
"""Digits of a DECIMAL that queries compute with: 64 bits hold its units."""

DECIMAL_OF_SCALE: tuple[DataType, ...] = tuple(
    DataType[f"DECIMAL_{scale}"] for scale in range(DECIMAL_DIGITS + 1)
)

SCALES: dict[DataType, int] = {kind: scale for scale, kind in enumerate(DECIMAL_OF_SCALE)}
"""Digits behind the point, of every DECIMAL."""

NUMERIC = frozenset({DataType.INTEGER, DataType.DOUBLE, *SCALES})

TYPE_NAMES: dict[str, DataType] = {
    "INTEGER": DataType.INTEGER,
    "INT": DataType.INTEGER,
    "BIGINT": DataType.INTEGER,
    "DOUBLE": DataType.DOUBLE,
    "DOUBLE PRECISION": DataType.DOUBLE,
    "FLOAT": DataType.DOUBLE,
    "STRING": DataType.STRING,
    "VARCHAR": DataType.STRING,
    "CHARACTER VARYING": DataType.STRING,
    "TEXT": DataType.STRING,
    "BOOLEAN": DataType.BOOLEAN,
    "BOOL": DataType.BOOLEAN,
    "TIMESTAMP": DataType.TIMESTAMP,
    "TIMESTAMP WITHOUT TIME ZONE": DataType.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": DataType.TIMESTAMP_UTC,
    "TIMESTAMPTZ": DataType.TIMESTAMP_UTC,
    "DATE": DataType.DATE,
    "DECIMAL(76, 0)": DataType.DECIMAL_76,
}
"""Types as they are written; every whole number has 64 bits and every other one is a double."""

WITH_LENGTH = frozenset({"VARCHAR", "CHARACTER VARYING"})
"""Those that may be cut to a number of characters."""

TYPES_NOT_YET = frozenset(
    {"TINYINT", "SMALLINT", "HUGEINT", "REAL", "DECIMAL", "NUMERIC", "CHAR", "CHARACTER", "TIME"}
    | {"INTERVAL", "BLOB", "VARBINARY", "BINARY", "JSON", "UUID", "ARRAY", "MAP", "ROW", "STRUCT"}
)

T = DataType

CASTS = frozenset(
    {
        *((T.INTEGER, target) for target in (T.DOUBLE, T.BOOLEAN, T.STRING)),
        *((T.DOUBLE, target) for target in (T.INTEGER, T.STRING)),
        *((T.BOOLEAN, target) for target in (T.INTEGER, T.DOUBLE, T.STRING)),
        *((T.STRING, target) for target in (T.INTEGER, T.DOUBLE, T.BOOLEAN)),
        *((T.STRING, target) for target in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_UTC)),
        *((T.DATE, target) for target in (T.TIMESTAMP, T.TIMESTAMP_UTC, T.STRING)),
        *((T.TIMESTAMP, target) for target in (T.DATE, T.TIMESTAMP_UTC, T.STRING)),
        *((T.TIMESTAMP_UTC, target) for target in (T.DATE, T.TIMESTAMP, T.STRING)),
        *((kind, target) for kind in SCALES for target in (T.INTEGER, T.DOUBLE, T.STRING)),
        *((T.INTEGER, kind) for kind in SCALES),
        *((a, b) for a in SCALES for b in SCALES if SCALES[a] < SCALES[b]),
    }
)
"""Casts (from, to) that a query may ask for; ``INTERVAL`` goes to nothing but through functions."""


def to_data_type(arrow_type: pa.DataType) -> DataType | None:
    """Return the type that queries give an Arrow type; None if they cannot use it."""
    plain = _PLAIN.get(arrow_type)
    if plain is not None:
        return plain
    if pa.types.is_timestamp(arrow_type):
        if arrow_type.unit == "ns":
            return None
        return DataType.TIMESTAMP if arrow_type.tz is None else DataType.TIMESTAMP_UTC
    if pa.types.is_duration(arrow_type):
        return None if arrow_type.unit == "ns" else DataType.INTERVAL
    if pa.types.is_decimal128(arrow_type):
        fits = arrow_type.precision <= DECIMAL_DIGITS and arrow_type.scale >= 0
        return DECIMAL_OF_SCALE[arrow_type.scale] if fits else None
    if pa.types.is_dictionary(arrow_type):
        value = _PLAIN.get(arrow_type.value_type)
        return value if value is DataType.STRING else None
    return None


def type_of_moments(time: DataType) -> DataType:
    """Return the type of moments of a column of time, such as borders of windows over it."""
    return DataType.TIMESTAMP if time is DataType.DATE else time


def columns_of_schema(schema: pa.Schema) -> tuple[tuple[str, DataType | None], ...]:
    """Return name and type of each column; None for a type that queries cannot use."""
    return tuple((field.name, to_data_type(field.type)) for field in schema)


def remedy_for(arrow_type: pa.DataType) -> str:
    """Say what to make of an attribute whose type queries cannot use."""
    if pa.types.is_temporal(arrow_type):
        return "store it as a timestamp or duration in microseconds, or as date32"
    if pa.types.is_unsigned_integer(arrow_type):
        return "store it as int64"
    if pa.types.is_decimal(arrow_type):
        return f"store it as a decimal of at most {DECIMAL_DIGITS} digits, or as a double"
    if pa.types.is_floating(arrow_type):
        return "store it as a double or int64"
    if pa.types.is_nested(arrow_type):
        return "store its fields as attributes of their own"
    return "store it as text, a number, a boolean or a time"
