"""Events fetched once, by ``seq``, and read from there by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns, Values
from replay.language.bound import Attribute, DataType

IntArray = npt.NDArray[np.int64]
Fetch = Callable[[list[str], IntArray], pa.Table]
"""Reads columns (at least one) of the events at ascending, distinct ``seq``, maybe none."""

_BYTES_MAX_PER_SEQ = 8
"""How sparse events may be for a byte per event between the first and the last of them."""


class FetchedEvents:
    """Columns of the events at some ``seq``.

    Parameters
    ----------
    fetch
        Where to read; not asked where no column is wanted.
    names
        Columns wanted, each once or more.
    wanted
        ``seq`` of the events wanted, in any order, -1 for none.
    """

    def __init__(self, fetch: Fetch, names: Iterable[str], wanted: Iterable[IntArray]) -> None:
        columns = sorted(set(names))
        self._seq = np.empty(0, np.int64)
        if columns:
            self._seq = _distinct(wanted)
            self._table = fetch(columns, self._seq)
            self._columns = Columns(self._table)
        n = len(self._seq)
        self._has_no_gap = n > 0 and bool(self._seq[-1] - self._seq[0] == n - 1)

    def rows(self, seq: IntArray) -> IntArray:
        """Return where the events at ``seq`` stand among those fetched, -1 for none."""
        rows = seq - self._seq[0] if self._has_no_gap else np.searchsorted(self._seq, seq)
        return np.where(seq < 0, -1, rows)

    def values(self, attribute: Attribute, rows: IntArray) -> Values:
        """Return an attribute's values at rows that `rows` gave; NULL for -1."""
        here, there = Attribute(attribute.name, attribute.type), rows >= 0
        if attribute.type is DataType.STRING:
            codes, dictionary = self._columns.encoded(here)
            found = codes[rows] if len(codes) else np.zeros(len(rows), np.int32)
            is_null = ~there | (found == len(dictionary))
            return Values(dictionary.take(pa.array(found, mask=is_null)), None)
        data, valid = self._columns.at(here)
        if not len(data):
            return Values(np.zeros(len(rows), data.dtype), there)
        return Values(data[rows], there if valid is None else there & valid[rows])

    def plain(self, name: str, rows: IntArray) -> pa.Array:
        """Return a column's values as they are stored, dictionaries decoded; NULL for -1."""
        column = self._table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries().cast(column.type.value_type)
        return column.take(pa.array(rows, mask=rows < 0))


def _distinct(wanted: Iterable[IntArray]) -> IntArray:
    """Return all ``seq`` but -1, ascending, each once."""
    parts = [part for part in (seq[seq >= 0] for seq in wanted) if len(part)]
    if not parts:
        return np.empty(0, np.int64)
    low, high = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
    if high - low > _BYTES_MAX_PER_SEQ * sum(map(len, parts)):
        return np.unique(np.concatenate(parts))
    is_wanted = np.zeros(high - low + 1, np.bool_)  # where they stand close, no sort is needed
    for part in parts:
        is_wanted[part - low] = True
    return np.flatnonzero(is_wanted) + low
