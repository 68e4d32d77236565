"""Objects: the values of a stream's key column, which entries carry beside their own key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from chronicle.config import TIME_UNIT
from chronicle.type_names import sql_type
from indexing.errors import IndexingError
from indexing.keys import KeyKind, as_int64, key_kind, to_plain


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


def join_objects(parts: Sequence[pa.Array], *, is_unique: bool = True) -> pa.Array:
    """Return the objects of all parts, at least one, with one dictionary if they have any.

    Parts are of one type but that strings may have a dictionary or none. With ``is_unique`` no
    string comes twice in the dictionary.
    """
    if len(parts) == 1 or not any(pa.types.is_dictionary(part.type) for part in parts):
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    coded = [to_codes(part) for part in parts]
    firsts = np.cumsum([0, *(len(part.dictionary) for part in coded)])
    codes = [
        part.indices.fill_null(0).to_numpy() + first
        for part, first in zip(coded, firsts.tolist(), strict=False)
    ]
    nulls = np.concatenate(
        [part.indices.is_null().to_numpy(zero_copy_only=False) for part in coded]
    )
    words = [part.dictionary for part in coded]
    return code_objects(np.concatenate(codes), nulls, words, is_unique=is_unique)


def code_objects(
    codes: np.ndarray, nulls: np.ndarray, words: Sequence[pa.StringArray], *, is_unique: bool
) -> pa.DictionaryArray:
    """Return strings as a dictionary array.

    ``codes`` (int64, without meaning where ``nulls``) are places in the arrays of ``words`` one
    after the other, which may hold a string more than once; with ``is_unique`` the dictionary does
    not.
    """
    dictionary = pa.concat_arrays([pa.array([], pa.string()), *words])
    if is_unique:
        encoded = dictionary.dictionary_encode()
        dictionary = encoded.dictionary
        if len(dictionary):
            codes = encoded.indices.to_numpy()[np.where(nulls, 0, codes)]
    indices = pa.array(codes.astype(np.int32, copy=False), mask=nulls if nulls.any() else None)
    return pa.DictionaryArray.from_arrays(indices, dictionary)


def to_codes(objects: pa.Array) -> pa.Array:
    """Return strings as a dictionary array; integers, and what is one already, as they are."""
    return objects.dictionary_encode() if pa.types.is_string(objects.type) else objects
