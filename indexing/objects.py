"""Objects: the values of a stream's key column, which entries carry beside their own key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from chronicle.config import TIME_UNIT
from chronicle.tree.summarise import to_plain
from chronicle.type_names import sql_type
from indexing.errors import IndexingError
from indexing.keys import KeyKind, as_int64, key_kind

_NO_WORDS = pa.nulls(0, pa.dictionary(pa.int32(), pa.string()))


def object_kind(data_type: pa.DataType, column: str) -> KeyKind:
    """Return how the values of a key column are held: as integers or strings.

    Raises `IndexingError` if the type tells no objects apart.
    """
    kind = key_kind(data_type, column)
    if kind is KeyKind.DOUBLE:
        raise IndexingError(
            f"key column '{column}' is {sql_type(data_type)}, which tells no objects apart; "
            "use a column of integers or strings"
        )
    return kind


def to_objects(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Return the values of a key column as ``int64`` or ``string``, nulls included."""
    kind = object_kind(column.type, name)
    values = to_plain(column)
    return as_int64(values) if kind is KeyKind.INTEGER else values.cast(pa.string())


def from_objects(objects: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return objects as values of the type of the column that `to_objects` was given."""
    if pa.types.is_dictionary(objects.type):
        objects = objects.dictionary_decode()
    if pa.types.is_timestamp(data_type):
        objects = objects.cast(pa.timestamp(TIME_UNIT, data_type.tz))
    elif pa.types.is_date(data_type):
        objects = objects.cast(pa.int32()).cast(pa.date32())
    return objects.cast(data_type)


def join_values(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the values of all parts, at least one: of strings a dictionary array.

    Parts are of one type but that strings may have a dictionary or none. No string comes twice in
    the dictionary, unless it does in that of an only part.
    """
    return pa.concat_arrays([to_codes(part) for part in parts])


def code_words(codes: np.ndarray, nulls: np.ndarray, words: pa.StringArray) -> pa.DictionaryArray:
    """Return strings as a dictionary array, in which no string comes twice.

    ``codes`` (int64, without meaning where ``nulls``) are places in ``words``, where one may.
    """
    indices = pa.array(codes.astype(np.int32), mask=nulls if nulls.any() else None)
    return pa.concat_arrays([_NO_WORDS, pa.DictionaryArray.from_arrays(indices, words)])


def to_codes(objects: pa.Array) -> pa.Array:
    """Return strings as a dictionary array; integers, and what is one already, as they are."""
    return objects.dictionary_encode() if pa.types.is_string(objects.type) else objects
