"""Numbers for the keys two streams are joined on: equal exactly where all values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns
from replay.joins.kernels import NONE, number_values
from replay.language.bound import Attribute, DataType
from replay.operators.packing import INT64, State, integers

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_SLOTS_MIN = 1 << 10
"""Slots of a hash table at first, a power of two."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, by which numbers in a row are spread over all bits."""

_NUMBER_BITS = 32
"""Numbers of keys need fewer bits: two of them fit into one int64."""


class KeyNumbers:
    """Gives rows of both sides the number of their key, as the rows come.

    Without any column, all rows have one key. ``null_safe`` tells of each column whether NULL is a
    value like others, and NaN another one; empty: of none.
    """

    def __init__(self, n_columns: int, null_safe: tuple[bool, ...] = ()) -> None:
        self.n_columns = n_columns
        self.null_safe = null_safe or (False,) * n_columns
        self._texts: list[dict[str, int]] = [{} for _ in range(n_columns)]
        self._values = [_Numbers() for _ in range(n_columns)]
        self._pairs = [_Numbers() for _ in range(max(0, n_columns - 1))]

    def __len__(self) -> int:
        """Return how many keys there are, those of rows long gone included."""
        if self._pairs:
            return len(self._pairs[-1])
        if not self._texts:
            return 1
        return max(len(self._texts[0]), len(self._values[0])) + _N_MISSING * self.null_safe[0]

    def number(self, table: pa.Table, names: Sequence[str]) -> IntArray:
        """Return the number of each row's key; `NONE` where a value is missing and equals nothing.

        Numbers are below ``len(self)``. -0.0 is like 0.0. ``names`` are the columns of ``table``,
        rows of either side, that make the key: as many and in the order as of the other side.
        """
        rows = Columns(table)
        codes: IntArray | None = None
        for place, name in enumerate(names):
            own = self._column(place, rows, table, name)
            if self.null_safe[place]:
                own = _with_missing(own, table.column(name))
            if codes is None:
                codes = own
                continue
            exists = (codes != NONE) & (own != NONE)
            paired = (codes << _NUMBER_BITS) | np.where(exists, own, 0)
            codes = self._pairs[place - 1].number(paired, exists)
        return np.zeros(table.num_rows, np.int64) if codes is None else codes

    def state(self) -> State:
        """Return the keys by their numbers."""
        return {
            "texts": [list(known) for known in self._texts],
            "values": [numbers.state() for numbers in self._values],
            "pairs": [numbers.state() for numbers in self._pairs],
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        texts = [{str(text): number for number, text in enumerate(t)} for t in state["texts"]]
        if [len(known) for known in texts] != [len(t) for t in state["texts"]]:
            raise ValueError("keys of the state are there twice")
        if len(texts) != len(self._texts):
            raise ValueError("the state has keys of other columns")
        self._texts = texts
        for numbers, own in zip(
            (*self._values, *self._pairs), (*state["values"], *state["pairs"]), strict=True
        ):
            numbers.take_over(own)

    def _column(self, place: int, rows: Columns, table: pa.Table, name: str) -> IntArray:
        data_type = table.schema.field(name).type
        if pa.types.is_string(data_type) or pa.types.is_dictionary(data_type):
            return self._number_texts(place, *rows.encoded(Attribute(name, DataType.STRING)))
        # Of what is no string, the array alone tells the type.
        data, valid = rows.at(Attribute(name, DataType.INTEGER))
        exists = np.ones(len(data), np.bool_) if valid is None else np.ascontiguousarray(valid)
        if data.dtype == np.float64:
            exists = exists & ~np.isnan(data)
            data = (data + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
        return self._values[place].number(data.astype(np.int64, copy=False), exists)

    def _number_texts(self, place: int, codes: npt.NDArray[np.int32], dictionary: Any) -> IntArray:
        """Return numbers of texts given as codes, each entry looked up once."""
        is_there = np.zeros(len(dictionary) + 1, np.bool_)
        is_there[codes] = True
        present = np.flatnonzero(is_there[:-1])
        known = self._texts[place]
        numbers = np.full(len(is_there), NONE, np.int64)
        numbers[present] = [
            known.setdefault(entry, len(known))
            for entry in dictionary.take(pa.array(present)).to_pylist()
        ]
        return numbers[codes]


_N_MISSING = 2
"""Numbers that stand for NULL and NaN where they are values."""


def _with_missing(codes: IntArray, column: pa.ChunkedArray) -> IntArray:
    """Return the numbers of values behind those of NULL, 0, and of NaN, 1."""
    is_null = column.is_null().to_numpy()
    return np.where(codes == NONE, np.where(is_null, 0, 1), codes + _N_MISSING)


class _Numbers:
    """A growing hash table from int64 to dense numbers."""

    def __init__(self) -> None:
        self._n = 0
        self._keys = np.zeros(_SLOTS_MIN, np.int64)
        self._numbers = np.full(_SLOTS_MIN, NONE)

    def __len__(self) -> int:
        return self._n

    def number(self, values: IntArray, exists: Bools) -> IntArray:
        """Return the number of each value; `NONE` where there is none."""
        self._make_room(len(values))
        out = np.empty(len(values), np.int64)
        self._n = self._fill(values, exists, self._n, out)
        return out

    def state(self) -> State:
        """Return the values in the order of their numbers."""
        return {"values": self._values()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._n, n_slots = 0, _SLOTS_MIN
        self._keys, self._numbers = np.zeros(n_slots, np.int64), np.full(n_slots, NONE)
        values = integers(state["values"], np.shape(state["values"]), INT64.min, INT64.max)
        self.number(values, np.ones(len(values), np.bool_))
        if self._n != len(values):
            raise ValueError("keys of the state are there twice")

    def _make_room(self, n_more: int) -> None:
        n_slots = len(self._keys)
        while n_slots < 2 * (self._n + n_more):
            n_slots *= 2
        if n_slots == len(self._keys):
            return
        values = self._values()
        self._keys, self._numbers = np.zeros(n_slots, np.int64), np.full(n_slots, NONE)
        self._fill(values, np.ones(self._n, np.bool_), 0, np.empty_like(values))

    def _values(self) -> IntArray:
        used = self._numbers != NONE
        values = np.empty(self._n, np.int64)
        values[self._numbers[used]] = self._keys[used]
        return values

    def _fill(self, values: IntArray, exists: Bools, n_known: int, out: IntArray) -> int:
        slots = _mixed(values) & np.int64(len(self._keys) - 1)
        values = values.view()
        values.flags.writeable = False  # as Arrow's are: it is compiled for one of both
        return int(number_values(values, exists, slots, self._keys, self._numbers, n_known, out))


def _mixed(values: IntArray) -> IntArray:
    """Return numbers whose low bits depend on all bits of the values."""
    mixed = values.view(np.uint64) * _MIX
    return (mixed ^ (mixed >> np.uint64(32))).view(np.int64)
