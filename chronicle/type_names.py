"""Types of columns by their names in SQL, as people read and write them."""

from __future__ import annotations

import pyarrow as pa

from chronicle.errors import SchemaError

_NAMES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_UTC": pa.timestamp("us", "UTC"),
}
_TYPES = {str(data_type): name for name, data_type in _NAMES.items()}


def sql_type(data_type: pa.DataType | str) -> str:
    """Return what SQL calls a type, or a text of Arrow's for it; this where it has none. Pure.

    Examples
    --------
    >>> sql_type(pa.int64()), sql_type(pa.decimal128(9, 2)), sql_type(pa.list_(pa.int8()))
    ('BIGINT', 'DECIMAL(9, 2)', 'list<item: int8>')
    """
    text = str(data_type)
    return _TYPES.get(text) or text.replace("decimal128", "DECIMAL")


def type_named(text: str) -> pa.DataType:
    """Return the type of a name of SQL's or Arrow's, such as ``bigint`` or ``int64``. Pure."""
    plain = text.strip().lower()
    found = _NAMES.get("STRING" if plain == "varchar" else plain.upper())
    try:
        return pa.type_for_alias(plain) if found is None else found
    except ValueError as error:
        *names, last = _NAMES
        raise SchemaError(f"no type '{text}'; take {', '.join(names)} or {last}") from error
