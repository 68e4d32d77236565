"""Rows of a read that can be part of a match, by the spans of their keys."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.objects import to_objects
from replay.expressions.columns import Columns, to_arrays
from replay.language.bound import Attribute, DataType
from replay.planning.key_spans import KeySpans
from replay.planning.statistics import IntArray

NO_KEY: Final = -1
"""Number of a key that has no span."""

TABLE_KEYS_MAX: Final = 1 << 16
"""Integers that span at most so many are numbered by a table, which fits into a cache."""


class KeyFilter:
    """Tells the rows inside the spans of their keys, before anything else is asked of them.

    ``values`` are those of the keys of the spans, in their order: int64, or strings with a
    dictionary or none.
    """

    def __init__(self, column: str, values: pa.Array, spans: KeySpans, time: str) -> None:
        self._column = column
        self._spans = spans
        self._time = time
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        self._values = values
        self._is_text = pa.types.is_string(values.type)
        self._table = None if self._is_text else _to_table(values)

    @property
    def columns(self) -> set[str]:
        """What `rows` reads of a table."""
        return {self._column, self._time} if self._spans.by_time else {self._column}

    def rows(self, table: pa.Table, seq: IntArray) -> IntArray:
        """Return the rows of a table, in stream order, that lie in a span of their key, ascending.

        ``seq`` is of each row.
        """
        if self._is_text:
            keys = find_texts(table, self._column, self._values)
        else:
            keys = self._numbers_of(table)
        at = to_arrays(table.column(self._time)).data if self._spans.by_time else seq
        return np.flatnonzero(self._spans.contain(keys, at))

    def _numbers_of(self, table: pa.Table) -> IntArray:
        objects = to_objects(table.column(self._column), self._column)
        if self._table is None or objects.null_count:
            return find_keys(objects, self._values)
        first, numbers = self._table
        values = objects.to_numpy()
        inside = (values >= first) & (values <= first + len(numbers) - 1)
        return np.where(inside, numbers[np.where(inside, values - first, 0)], NO_KEY)


def find_texts(table: pa.Table, column: str, values: pa.Array) -> IntArray:
    """Return where the texts of a column stand in ``values``; see `find_keys`."""
    codes, words = Columns(table).encoded(Attribute(column, DataType.STRING))
    return find_keys(pa.concat_arrays([words, pa.nulls(1, pa.string())]), values)[codes]


def find_keys(wanted: pa.Array, values: pa.Array) -> IntArray:
    """Return where each of ``wanted`` stands in ``values``, null in null; `NO_KEY`: nowhere."""
    found = pc.index_in(wanted, value_set=values).fill_null(NO_KEY)
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _to_table(values: pa.Array) -> tuple[int, IntArray] | None:
    """Return the least of some integers and the places of all from there on; None if too many."""
    extremes = pc.min_max(values).as_py()
    low, high = extremes["min"], extremes["max"]
    if low is None or high - low >= TABLE_KEYS_MAX:
        return None
    numbers = np.full(high - low + 1, NO_KEY)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers[values.drop_null().to_numpy() - low] = np.flatnonzero(known)
    return low, numbers
