"""Keys of groups, numbered as they are met, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.tree.summary import Ints
from replay.expressions.columns import Columns, Values, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import Attribute, DataType, Expression
from replay.limits import check_limits
from replay.operators.grouping import group_rows
from replay.operators.packing import State
from replay.operators.partition_keys import UNKNOWN, KnownValues
from replay.windows.results import key_type

_NAN = "NaN"
"""Stands for NaN, which Python would not find again; no other value of its column is a text."""


class KeyTable:
    """Keys met so far, numbered from 0.

    NULL is like NULL, NaN like NaN and -0.0 like 0.0; the first one met is shown.

    Without expressions there is one key, number 0.
    """

    def __init__(self, expressions: Sequence[Expression], schema: pa.Schema) -> None:
        self._expressions = tuple(expressions)
        self._types = [key_type(expression, schema) for expression in expressions]
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._values: list[tuple[Any, ...]] = []
        self._columns: list[list[pa.Array]] = [[pa.array([], kind)] for kind in self._types]
        self._ranks: Ints = np.zeros(0, np.int64)
        self._known = KnownValues()
        if not self._expressions:
            self._numbers[()] = 0
            self._values.append(())

    @property
    def width(self) -> int:
        """How many expressions make a key."""
        return len(self._expressions)

    def __len__(self) -> int:
        return len(self._values)

    def number(self, table: pa.Table, faults: Faults) -> tuple[Ints, Ints]:
        """Give each row the number of its key; new keys get the next ones, by their first rows.

        The first array holds for each row the number of its key among some, int64[n_rows], at most
        as many as there are rows; the second holds for each of these the number of the key.
        ``faults`` counts the rows whose arithmetic or cast gave NULL.
        """
        source = Columns(table)
        keys = [_key(expression, source, faults) for expression in self._expressions]
        single = _single(keys)
        if single is not None and len(self) <= table.num_rows:
            listed, codes = single
            found = self._known.numbers(listed)
            found = found if codes is None else found[codes]
            if not (found == UNKNOWN).any():
                return found, np.arange(len(self))
        groups = group_rows([key.codes for key in keys], table.num_rows)
        if not keys:
            return groups.of_row, np.zeros(1, np.int64)
        firsts = pa.array(groups.first_rows)
        values = list(zip(*(_plain(key, groups.first_rows) for key in keys), strict=True))
        numbers = np.empty(len(values), np.int64)
        new = []
        for at, value in enumerate(values):
            known = self._numbers.get(value)
            if known is None:
                known = self._numbers[value] = len(self._values)
                self._values.append(value)
                new.append(at)
            numbers[at] = known
        if new:
            rows = firsts.take(pa.array(new))
            for number, expression in enumerate(self._expressions):
                column = _shown(table, expression, keys[number], rows)
                self._columns[number].append(column.cast(self._types[number]))
        if single is not None:
            listed, codes = single
            places = groups.first_rows if codes is None else codes[groups.first_rows]
            self._known.enter(listed.take(places), numbers)
        return groups.of_row, numbers

    def columns(self, numbers: Ints) -> list[pa.Array]:
        """Return the values of keys, a column for each expression."""
        wanted = pa.array(numbers)
        for number, parts in enumerate(self._columns):
            if len(parts) > 1:
                self._columns[number] = [pa.concat_arrays(parts)]
        return [parts[0].take(wanted) for parts in self._columns]

    def forget_others(self, kept: Ints) -> Ints:
        """Forget all keys but some, and give those new numbers in the same order.

        ``kept`` are numbers, ascending. The array gives, by old number, the new number of each key,
        -1 for those forgotten.
        """
        numbers = np.full(len(self), -1)
        numbers[kept] = np.arange(len(kept))
        self._columns = [[column] for column in self.columns(kept)]
        self._values = [self._values[old] for old in kept.tolist()]
        self._numbers = {value: number for number, value in enumerate(self._values)}
        self._ranks, self._known = np.zeros(0, np.int64), KnownValues()
        return numbers

    def with_zeros(self) -> Ints:
        """Return the keys with a zero of DOUBLE: of 0.0 and -0.0 the one met first is shown."""
        is_float = [pa.types.is_floating(kind) for kind in self._types]
        if not any(is_float):
            return np.zeros(0, np.int64)
        return np.array(
            [
                number
                for number, value in enumerate(self._values)
                if any(part == 0 for part, of in zip(value, is_float, strict=True) if of)
            ],
            np.int64,
        )

    def state(self) -> State:
        """Return the keys met so far."""
        everything = self.columns(np.arange(len(self), dtype=np.int64))
        return {"values": [list(value) for value in self._values], "columns": everything}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._values = [
            tuple(_unpacked(part, kind) for part, kind in zip(value, self._types, strict=True))
            for value in state["values"]
        ]
        self._numbers = {value: number for number, value in enumerate(self._values)}
        self._columns = [[column] for column in state["columns"]]
        self._ranks, self._known = np.zeros(0, np.int64), KnownValues()

    def ranks(self) -> Ints:
        """Return the place of each key in their order: ascending, then NaN, then NULL."""
        n_keys = len(self)
        if len(self._ranks) != n_keys:
            check_limits()
            self._ranks = np.zeros(n_keys, np.int64)
            if self.width:
                names = [str(number) for number in range(self.width)]
                columns = self.columns(np.arange(n_keys, dtype=np.int64))
                order = pc.sort_indices(
                    pa.table(columns, names), sort_keys=[(name, "ascending") for name in names]
                )
                self._ranks[order.to_numpy()] = np.arange(n_keys)
        return self._ranks


class _Key(NamedTuple):
    """One expression of the keys of rows."""

    codes: Values
    """Numbers that are equal where the values are, or the values themselves."""
    dictionary: Any
    """The texts that the codes number; None where they are the values."""


def _key(expression: Expression, source: Columns, faults: Faults) -> _Key:
    if isinstance(expression, Attribute) and expression.type is DataType.STRING:
        codes, dictionary = source.encoded(expression)
        return _Key(Values(codes, None), dictionary)
    return _Key(evaluate(expression, source, faults), None)


def _single(keys: list[_Key]) -> tuple[Ints | pa.Array, Ints | None] | None:
    """Return a single key of texts, or of whole numbers without NULL; None of others.

    The second array tells which of the values of the first each row has; None: its own.
    """
    if len(keys) != 1:
        return None
    (data, valid), dictionary = keys[0]
    if dictionary is not None:
        return pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)]), data
    is_whole = isinstance(data, np.ndarray) and data.dtype == np.int64 and valid is None
    return (data, None) if is_whole else None


def _shown(table: pa.Table, expression: Expression, key: _Key, rows: pa.Array) -> pa.Array:
    if isinstance(expression, Attribute):
        return table.column(expression.name).take(rows).combine_chunks()
    return to_arrow(key.codes, expression.type).take(rows)


def _plain(key: _Key, rows: Ints) -> list[Any]:
    """Return the values of rows as Python has them."""
    data, valid = key.codes
    if key.dictionary is not None:
        texts = [*key.dictionary.to_pylist(), None]
        return [texts[code] for code in data[rows].tolist()]
    if not isinstance(data, np.ndarray):
        return list(data.take(pa.array(rows)).to_pylist())
    chosen: list[Any] = data[rows].tolist()
    if data.dtype.kind == "f":
        chosen = [value if value == value else _NAN for value in chosen]  # noqa: PLR0124
    if valid is not None:
        chosen = [v if there else None for v, there in zip(chosen, valid[rows], strict=True)]
    return chosen


def _unpacked(value: Any, kind: pa.DataType) -> Any:
    """Return a part of a key, in which a text among floats is the one that stands for NaN."""
    return _NAN if isinstance(value, str) and pa.types.is_floating(kind) else value
