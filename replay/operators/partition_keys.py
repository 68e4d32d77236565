"""Keys of partitions: which rows have equal values in some columns, and numbers that keys keep."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.expressions.columns import Columns, to_plain
from replay.language.bound import Attribute, DataType

IntArray = npt.NDArray[np.int64]
Key = tuple[Any, ...]

_NAN = ("NaN",)
"""Stands for NaN in keys: NaN is not equal to itself, but one partition holds all of them."""


TABLE_MAX: Final = 1 << 18
"""Whole numbers from the least to the greatest of which a table is kept."""

FEWER: Final = 4
"""With this many times more values known than asked for, each is looked up by itself: Arrow makes
its hash table of all that are known."""

UNKNOWN: Final = -1
"""Instead of the number of a value that has none yet."""


@dataclass(frozen=True)
class Partitions:
    """Which partition of the batch each row belongs to, and the partitions' keys."""

    codes: IntArray
    listed: list[Key] | IntArray | pa.Array
    """The keys; of one column of texts, or of whole numbers without NULL, these."""

    @cached_property
    def keys(self) -> list[Key]:
        """The key of each partition."""
        listed = self.listed
        return listed if isinstance(listed, list) else [(value,) for value in listed.tolist()]


class KnownValues:
    """Numbers of whole numbers or of texts, looked up by column and not each by itself.

    Whole numbers that lie close together have a table of all between the least and the greatest.
    """

    def __init__(self) -> None:
        self._low, self._table = 0, np.zeros(0, np.int64)
        self._others: pa.Array | None = None
        self._numbers = np.zeros(0, np.int64)
        """Of the others."""

    def numbers(self, values: IntArray | pa.Array) -> IntArray:
        """Return the number of each value; `UNKNOWN` of those that are not known."""
        if isinstance(values, pa.Array):
            return self._of_others(values)
        low, stop = self._low, self._low + len(self._table)
        if len(values) and low <= int(values.min()) and int(values.max()) < stop:
            found: IntArray = self._table.take(values - low)
        else:
            found = np.full(len(values), UNKNOWN)
            inside = (values >= low) & (values < stop)
            found[inside] = self._table[values[inside] - low]
        if self._others is not None and (found == UNKNOWN).any():
            found = np.where(found == UNKNOWN, self._of_others(pa.array(values)), found)
        return found

    def _of_others(self, values: pa.Array) -> IntArray:
        others = self._others
        if others is None or self._are_few(values):
            return np.full(len(values), UNKNOWN)
        places = pc.index_in(values, value_set=others).fill_null(UNKNOWN)
        found: IntArray = np.append(self._numbers, UNKNOWN)[places.to_numpy(zero_copy_only=False)]
        return found

    def _are_few(self, values: IntArray | pa.Array) -> bool:
        return self._others is not None and len(self._others) > FEWER * len(values)

    def enter(self, values: IntArray | pa.Array, numbers: IntArray) -> None:
        """Keep the numbers of values, unless too few to be asked for; `UNKNOWN` is none."""
        is_new = numbers != UNKNOWN
        if not is_new.any():
            return
        if isinstance(values, np.ndarray) and self._in_table(values[is_new], numbers[is_new]):
            return
        if self._are_few(values):
            return
        others, listed = self._others, pa.array(values)
        if others is not None:
            is_new &= ~pc.is_in(listed, value_set=others).to_numpy(zero_copy_only=False)
        numbers, listed = numbers[is_new], listed.filter(pa.array(is_new))
        self._others = listed if others is None else pa.concat_arrays([others, listed])
        self._numbers = np.append(self._numbers, numbers)

    def _in_table(self, values: IntArray, numbers: IntArray) -> bool:
        """Keep numbers in the table, if it has room for them."""
        low, high = int(values.min()), int(values.max())
        before = self._table
        if len(before):
            low, high = min(low, self._low), max(high, self._low + len(before) - 1)
        if high - low >= TABLE_MAX:
            return False
        if high - low >= len(before):
            # Twice as long each time, so that few are copied however they grow.
            table = np.full(2 * (high - low + 1), UNKNOWN)
            table[self._low - low if len(before) else 0 :][: len(before)] = before
            self._low, self._table = low, table
        self._table[values - self._low] = numbers
        return True


class KeyNumbers:
    """Gives each key a number that stays, from 0 in the order in which they come."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._numbers = {key: number for number, key in enumerate(keys)}
        self._values = KnownValues()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> list[Key]:
        """The keys, by number."""
        return list(self._numbers)

    def of(self, partitions: Partitions) -> IntArray:
        """Return the number of each row's key; those that come first get new ones."""
        known, listed = self._numbers, partitions.listed
        found = None if isinstance(listed, list) else self._values.numbers(listed)
        if found is None or (found == UNKNOWN).any():
            of_keys = [known.setdefault(key, len(known)) for key in partitions.keys]
            found = np.array(of_keys, np.int64)
            if not isinstance(listed, list):
                self._values.enter(listed, found)
        return found[partitions.codes]


def group_keys(
    columns: Columns, table: pa.Table, by: tuple[str, ...], *, before: int = 0
) -> Partitions:
    """Return the partition of every row ``by`` columns; NULL equals NULL, and NaN equals NaN.

    The table has the rows of ``columns`` and ``before`` others before them.
    """
    codes: IntArray = np.zeros(columns.n_rows, np.int64)
    keys: list[Key] = [()]
    entries: list[Any] | IntArray | pa.Array
    for name in by:
        column = table.column(name)
        if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
            own, dictionary = columns.encoded(Attribute(name, DataType.STRING))
            entries = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
        else:
            window = column.slice(before, columns.n_rows)
            own, entries = _encoded(to_plain(window.combine_chunks()))
        if not isinstance(entries, list):
            if len(by) == 1:
                return Partitions(own.astype(np.int64, copy=False), entries)
            entries = entries.tolist()
        if len(keys) == 1:
            codes = own.astype(np.int64, copy=False)
            keys = [(*keys[0], entry) for entry in entries]
            continue
        pairs = pa.array(codes * len(entries) + own).dictionary_encode()
        codes = pairs.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = [divmod(pair, len(entries)) for pair in pairs.dictionary.to_pylist()]
        keys = [(*keys[old], entries[new]) for old, new in found]
    return Partitions(codes, keys)


def _encoded(array: Any) -> tuple[npt.NDArray[Any], list[Any] | IntArray]:
    """Return codes of plain values, and the value of each code."""
    is_whole = pa.types.is_signed_integer(array.type) and not array.null_count
    if is_whole and len(array):
        data = array.to_numpy()
        low, high = int(data.min()), int(data.max())
        if high - low < len(data):  # a table of all values between is faster than a hash table
            offsets = np.subtract(data, low, dtype=np.int64)
            is_there = np.zeros(high - low + 1, np.bool_)
            is_there[offsets] = True
            codes = np.cumsum(is_there) - 1
            return codes[offsets], np.flatnonzero(is_there) + low
    encoded = array.dictionary_encode("encode")
    if is_whole:
        whole = encoded.dictionary.to_numpy().astype(np.int64)
        return encoded.indices.to_numpy().astype(np.int64), whole
    entries = [_NAN if _is_nan(value) else value for value in encoded.dictionary.to_pylist()]
    return encoded.indices.to_numpy(zero_copy_only=False), entries


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
