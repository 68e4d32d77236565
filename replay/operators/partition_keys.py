"""Keys of partitions: which rows of a table have the same values in the columns of PARTITION BY."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns, to_plain
from replay.language.bound import Attribute, DataType

IntArray = npt.NDArray[np.int64]
Key = tuple[Any, ...]

_NAN = ("NaN",)
"""Stands for NaN in keys: NaN is not equal to itself, but one partition holds all of them."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """Which partition of the batch each row belongs to, and the partitions' keys."""

    codes: IntArray
    keys: list[Key]


def group_keys(
    columns: Columns, table: pa.Table, by: tuple[str, ...], *, before: int = 0
) -> Partitions:
    """Return the partition of every row ``by`` columns; NULL equals NULL, and NaN equals NaN.

    The table has the rows of ``columns`` and ``before`` others before them.
    """
    codes: IntArray = np.zeros(columns.n_rows, np.int64)
    keys: list[Key] = [()]
    for name in by:
        column = table.column(name)
        if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
            own, dictionary = columns.encoded(Attribute(name, DataType.STRING))
            entries = [*dictionary.to_pylist(), None]
        else:
            window = column.slice(before, columns.n_rows)
            own, entries = _encoded(to_plain(window.combine_chunks()))
        if len(keys) == 1:
            codes = own.astype(np.int64, copy=False)
            keys = [(*keys[0], entry) for entry in entries]
            continue
        pairs = pa.array(codes * len(entries) + own).dictionary_encode()
        codes = pairs.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = [divmod(pair, len(entries)) for pair in pairs.dictionary.to_pylist()]
        keys = [(*keys[old], entries[new]) for old, new in found]
    return Partitions(codes, keys)


def _encoded(array: Any) -> tuple[npt.NDArray[Any], list[Any]]:
    """Return codes of plain values, and the value of each code."""
    if pa.types.is_integer(array.type) and not array.null_count and len(array):
        data = array.to_numpy()
        low, high = int(data.min()), int(data.max())
        if high - low < len(data):  # a table of all values between is faster than a hash table
            offsets = np.subtract(data, low, dtype=np.int64)
            is_there = np.zeros(high - low + 1, np.bool_)
            is_there[offsets] = True
            codes = np.cumsum(is_there) - 1
            return codes[offsets], (np.flatnonzero(is_there) + low).tolist()
    encoded = array.dictionary_encode("encode")
    entries = [_NAN if _is_nan(value) else value for value in encoded.dictionary.to_pylist()]
    return encoded.indices.to_numpy(zero_copy_only=False), entries


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
