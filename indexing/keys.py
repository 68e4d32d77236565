"""Arrow columns as keys: ``int64``, ``double`` or ``string``, without null and NaN."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from chronicle.config import TIME_UNIT
from chronicle.tree.summarise import to_plain
from chronicle.type_names import sql_type
from indexing.errors import IndexingError


class KeyKind(Enum):
    """How the keys of a run are held."""

    INTEGER = "int64"  # integers, booleans, dates (days), timestamps (µs)
    DOUBLE = "double"
    STRING = "string"  # ordered by code point, which is the order of the UTF-8 bytes

    __hash__ = object.__hash__  # that of Enum is a call of Python

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the key column of a run."""
        return {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}[self.value]

    @property
    def numpy_type(self) -> type:
        """Type of the array keys are compared in."""
        return _NUMPY_TYPES[self]


_NUMPY_TYPES: dict[KeyKind, type] = {
    KeyKind.INTEGER: np.int64,
    KeyKind.DOUBLE: np.float64,
    KeyKind.STRING: object,
}


@dataclass(frozen=True, slots=True)
class Keys:
    """The usable keys of a column."""

    values: pa.Array
    """Of ``int64``, ``double`` or ``string``, no nulls, no NaN, in the column's order."""
    rows: np.ndarray
    """int64: the row each key comes from, ascending."""


def key_kind(data_type: pa.DataType, attribute: str) -> KeyKind:
    """Return how keys of a column of ``data_type`` are held.

    Raises `IndexingError` if the type has no order that an index could use.
    """
    types = pa.types
    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    if types.is_timestamp(data_type) and data_type.unit == "ns":
        reason = "nanoseconds are not stored; cast it to timestamp[us]"
    elif types.is_uint64(data_type):
        reason = "unsigned 64-bit integers are not stored; cast it to int64"
    elif types.is_decimal(data_type):
        reason = "decimals are not indexed; cast it to double"
    elif types.is_floating(data_type):
        return KeyKind.DOUBLE
    elif types.is_string(data_type) or types.is_large_string(data_type):
        return KeyKind.STRING
    elif (
        types.is_integer(data_type)
        or types.is_boolean(data_type)
        or types.is_date(data_type)
        or types.is_timestamp(data_type)
    ):
        return KeyKind.INTEGER
    else:
        reason = "the type has no order; index numbers, booleans, dates, timestamps or strings"
    raise IndexingError(
        f"column '{attribute}' of type {sql_type(data_type)} cannot be indexed: {reason}"
    )


def to_keys(column: pa.Array | pa.ChunkedArray, attribute: str) -> Keys:
    """Return the usable keys of a column, in its order; ``attribute`` names it in messages."""
    kind = key_kind(column.type, attribute)
    column = to_plain(column)
    rows = np.arange(len(column), dtype=np.int64)
    if column.null_count:
        rows = rows[column.is_valid().to_numpy(zero_copy_only=False)]
        column = column.drop_null()
    if kind is KeyKind.INTEGER:
        return Keys(as_int64(column), rows)
    if kind is KeyKind.STRING:
        return Keys(column.cast(pa.string()), rows)
    # Adding zero turns -0.0 into 0.0: the two are one key, and sorting must not tell them apart.
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    usable = ~np.isnan(numbers)
    if not usable.all():
        numbers, rows = numbers[usable], rows[usable]
    return Keys(pa.array(numbers), rows)


def to_comparable(keys: pa.Array) -> np.ndarray:
    """Return keys as an array NumPy can compare and search: int64, float64 or object (str)."""
    values: np.ndarray = keys.to_numpy(zero_copy_only=False)
    return values


def as_int64(column: pa.Array) -> pa.Array:
    """Return integers, booleans, dates and timestamps as the numbers they are held as."""
    if pa.types.is_timestamp(column.type):
        # The zone plays no part in the number; casting between zones would be a shift in vain.
        unit = pa.timestamp(TIME_UNIT, column.type.tz)
        return column.cast(unit).cast(pa.int64())
    if pa.types.is_date(column.type):
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    return column.cast(pa.int64())
