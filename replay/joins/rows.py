"""Rows of a join's sides on their way: kept as long as they may have a partner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.joins.kernels import NONE
from replay.operators.packing import INT64, State, integer, integers

IntArray = npt.NDArray[np.int64]

_CHUNKS_MAX = 32
"""Chunks of a table before they are copied into one: each makes taking rows slower."""

_ROOM_MIN = 1 << 10
"""Rows there is room for at first; when it is used up, it is doubled."""


class KeptRows:
    """The kept part of one side: its table, and the times, positions and keys of the rows.

    A row's number counts the rows that have come, whatever was dropped since; ``first`` is that of
    the first row kept, and a row's slot is what it is further on.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.table = schema.empty_table()
        self.first = 0
        self._n = 0
        self._columns = np.empty((3, _ROOM_MIN), np.int64)

    @property
    def end(self) -> int:
        """Number of the row that comes next."""
        return self.first + self._n

    @property
    def n_kept(self) -> int:
        """Number of rows kept."""
        return self._n

    @property
    def times(self) -> IntArray:
        """Time of each row, by slot."""
        return self._columns[0, : self._n]

    @property
    def seqs(self) -> IntArray:
        """Position of each row in its stream, by slot."""
        return self._columns[1, : self._n]

    @property
    def codes(self) -> IntArray:
        """Number of each row's key, by slot."""
        return self._columns[2, : self._n]

    def append(self, table: pa.Table, times: IntArray, seqs: IntArray, codes: IntArray) -> None:
        """Take rows behind all others."""
        self.table = pa.concat_tables([self.table, table])
        if self.table.num_columns and self.table.column(0).num_chunks > _CHUNKS_MAX:
            self.table = self.table.combine_chunks()
        n = self._n + len(times)
        if n > self._columns.shape[1]:
            grown = np.empty((3, max(n, 2 * self._n)), np.int64)
            grown[:, : self._n] = self._columns[:, : self._n]
            self._columns = grown
        for column, values in zip(self._columns, (times, seqs, codes), strict=True):
            column[self._n : n] = values
        self._n = n

    def state(self) -> State:
        """Return the rows kept."""
        return {
            "table": self.table,
            "first": self.first,
            "columns": self._columns[:, : self._n],
        }

    def take_over(self, state: State) -> None:
        """Keep what `state` gave."""
        table: pa.Table = state["table"]
        if not table.schema.equals(self.table.schema):
            raise ValueError("rows of the state have other columns")
        self.table, self._n = table, table.num_rows
        self.first = integer(state["first"], 0, INT64.max // 2)
        self._columns = integers(state["columns"], (3, self._n), INT64.min, INT64.max)

    def take(self, names: Sequence[str], rows: IntArray) -> list[pa.ChunkedArray]:
        """Return columns of some rows that are kept; NULLs for `NONE`."""
        missing = rows == NONE
        slots = pa.array(rows - self.first, mask=missing if missing.any() else None)
        return [self.table.column(name).take(slots) for name in names]

    def drop_before(self, row: int) -> None:
        """Forget the rows before ``row``."""
        self.keep(np.arange(row - self.first, self._n))
        self.first = row

    def keep(self, slots: IntArray) -> None:
        """Keep some rows only, ascending; they move to the first slots."""
        self.table = self.table.take(pa.array(slots)).combine_chunks()
        self._n = len(slots)
        self._columns = np.concatenate(
            (self._columns[:, slots], np.empty((3, max(_ROOM_MIN, self._n)), np.int64)), axis=1
        )
