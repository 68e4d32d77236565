"""Rows that came in pieces and are held, with a few whole numbers of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.scan import decoded
from replay.operators.packing import State

Ints = npt.NDArray[np.int64]


class HeldRows:
    """Rows in the order in which they came.

    Their values are kept in pieces, each at least twice as long as the one behind it, so that there
    are few of them and a row is copied few times, however small the pieces come. Strings are held
    plain: the dictionary of a piece has all that came with it, also those of rows that are dropped.
    """

    def __init__(self, values: pa.Table, n_numbers: int) -> None:
        self._pieces = [decoded(values.slice(0, 0))]
        self._numbers: Ints = np.zeros((n_numbers, 16), np.int64)
        self.n_rows = 0

    @property
    def numbers(self) -> Ints:
        """The numbers of each row, int64[n_numbers, n_rows]; a view."""
        return self._numbers[:, : self.n_rows]

    def append(self, values: pa.Table, *numbers: Ints) -> None:
        """Take in rows: a table with at least one column, and their numbers."""
        n = values.num_rows
        if not n:
            return
        stop = self.n_rows + n
        if stop > self._numbers.shape[1]:
            room = np.zeros((len(self._numbers), 2 * stop), np.int64)
            room[:, : self.n_rows] = self.numbers
            self._numbers = room
        for place, column in enumerate(numbers):
            self._numbers[place, self.n_rows : stop] = column
        self.n_rows = stop
        merged, pieces = [decoded(values)], self._pieces
        while pieces and pieces[-1].num_rows < 2 * n:
            merged.append(pieces.pop())
            n += merged[-1].num_rows
        pieces.append(_joined(merged[::-1]))

    @property
    def values(self) -> pa.Table:
        """The values of all rows, in pieces."""
        return pa.concat_tables(self._pieces) if len(self._pieces) > 1 else self._pieces[0]

    def take(self, places: Ints) -> pa.Table:
        """Return the values of some rows."""
        return self.values.take(pa.array(places))

    def keep(self, places: Ints) -> None:
        """Drop all rows but some, which ascend."""
        values = self.take(places)  # as slices would keep all of them
        self._pieces, self.n_rows = [_joined([values])], len(places)
        self._numbers = self._numbers[:, places].copy()

    def state(self) -> State:
        """Return all of it."""
        return {"values": _joined(self._pieces), "numbers": self.numbers.copy()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        values, numbers = state["values"], state["numbers"]
        if numbers.shape != (len(self._numbers), values.num_rows) or numbers.dtype != np.int64:
            raise ValueError("the rows of the state are of other lengths or types")
        self._pieces, self._numbers, self.n_rows = [values], numbers.copy(), values.num_rows


def _joined(tables: list[pa.Table]) -> pa.Table:
    """Return the rows of tables as one, in one piece of memory of their own."""
    return pa.concat_tables(tables).combine_chunks()
