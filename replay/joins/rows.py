"""Rows of a join: those of each side taken in and kept, those of the answer put together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.errors import SchemaError
from chronicle.time import from_int64, is_ascending, to_int64, type_of_moments
from replay.expressions.columns import Columns, in_few_chunks
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.joins.kernels import NONE, OUT
from replay.joins.keys import KeyNumbers
from replay.language.bound import JOIN_TIME, Expression, JoinRelation, attributes
from replay.language.join_conditions import JoinConditions, JoinNames
from replay.operators.packing import INT64, State, integer, integers

IntArray = npt.NDArray[np.int64]

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
        self.table = in_few_chunks(pa.concat_tables([self.table, table]))
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


class SideIntake:
    """Takes the rows of one side in order: checks them, numbers their keys, keeps them.

    ``keys`` are the columns that make its key. ``counted`` says which rows count at all,
    ``partners`` which of them may have a partner; None: all. ``what`` names the side in messages.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        time: str,
        keys: tuple[str, ...],
        counted: Expression | None,
        partners: Expression | None,
        what: str,
    ) -> None:
        self._schema = plain_schema(schema)
        self._time = time
        self._keys = keys
        self._counted = counted
        self._partners = partners
        self._what = what
        self.kept = KeptRows(self._schema)
        self.origin: int | None = None
        """Time of the first row that came; None before."""
        self.last_time: int | None = None
        """Time before which no further row is; None if nothing is known."""
        self._next_seq = 0

    @property
    def complete_until(self) -> int | None:
        """Up to which time all rows have come; None before the first."""
        return None if self.last_time is None else self.last_time - 1

    def push(
        self, table: pa.Table, first_seq: int | None, keys: KeyNumbers, faults: Faults
    ) -> None:
        """Take rows in order of time, none before those pushed last."""
        table = table.select(self._schema.names).cast(self._schema)
        if not table.num_rows:
            return
        times = self._checked_times(table)
        self.origin = int(times[0]) if self.origin is None else self.origin
        self.last_time = int(times[-1])
        first = self._next_seq if first_seq is None else first_seq
        self._next_seq = first + len(times)
        codes = keys.number(table, self._keys)
        if self._partners is not None:
            codes = np.where(truths(self._partners, Columns(table), faults), codes, NONE)
        if self._counted is not None:
            codes = np.where(truths(self._counted, Columns(table), faults), codes, OUT)
        self.kept.append(table, times, np.arange(first, self._next_seq), codes)

    def _checked_times(self, table: pa.Table) -> np.ndarray[Any, Any]:
        times = np.asarray(to_int64(table.column(self._time), name=self._time).to_numpy(), np.int64)
        if not is_ascending(times) or (self.last_time is not None and times[0] < self.last_time):
            raise SchemaError(
                f"the {self._what} of the join goes back in time in column '{self._time}'; a join "
                "takes events in order of time, so order the subquery by it"
            )
        return times

    def advance(self, time: int) -> None:
        """Take it that no further row is before a time."""
        self.last_time = time if self.last_time is None else max(self.last_time, time)

    def state(self) -> State:
        """Return what is known and kept."""
        return {
            "origin": self.origin,
            "last_time": self.last_time,
            "next_seq": self._next_seq,
            "kept": self.kept.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self.origin, self.last_time = state["origin"], state["last_time"]
        self._next_seq = state["next_seq"]
        self.kept.take_over(state["kept"])

    def renumber(self, keys: KeyNumbers) -> None:
        """Give the keys of the rows kept new numbers; rows without a partner stay so."""
        codes = self.kept.codes
        codes[:] = np.where(codes < 0, codes, keys.number(self.kept.table, self._keys))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema without dictionaries, in which rows from several tables can be kept."""
    return pa.schema(
        [
            pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in schema
        ]
    )


class JoinLayout:
    """How a row of the answer is put together from one of each side.

    Each side's schema has at least the columns wanted, its time, its keys and those of conditions;
    ``schema`` has those of ``columns``, the wanted ones, in the join's order.
    """

    def __init__(
        self,
        join: JoinRelation,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
    ) -> None:
        self._names = JoinNames.of(join)
        self._time = _pair_time_type(join, left, right)
        wanted = {*columns} or {join.time}  # a table without columns forgets its rows
        self.wanted = tuple(name for name, _ in join.columns if name in wanted)
        self._fields = {
            **{name: _field(name, left, own) for name, own in self._names.left.items()},
            **{name: _field(name, right, own) for name, own in self._names.right.items()},
            JOIN_TIME: pa.field(JOIN_TIME, self._time),
        }
        self.schema = pa.schema([self._field_of(name) for name in self.wanted])

    def _field_of(self, name: str) -> pa.Field:
        found = self._fields[name]
        assert found is not None, f"column '{name}' was not read"
        return found

    def rows(
        self,
        names: Iterable[str],
        left: KeptRows,
        right: KeptRows,
        pairs: IntArray,
    ) -> pa.Table:
        """Return columns of pairs.

        ``pairs`` holds the number of the left and of the right row, shape (2, n); `NONE` for no
        right row.
        """
        names = list(names)
        from_left = [name for name in names if name in self._names.left]
        from_right = [name for name in names if name in self._names.right]
        one = left.take([self._names.left[name] for name in from_left], pairs[0])
        other = right.take([self._names.right[name] for name in from_right], pairs[1])
        columns = dict(zip((*from_left, *from_right), (*one, *other), strict=True))
        if JOIN_TIME in names:
            columns[JOIN_TIME] = self._pair_times(left, right, pairs)
        return pa.table(
            [columns[name] for name in names], schema=pa.schema(map(self._field_of, names))
        )

    def _pair_times(self, left: KeptRows, right: KeptRows, pairs: IntArray) -> pa.Array:
        times = left.times[pairs[0] - left.first]
        both = pairs[1] != NONE
        times[both] = np.maximum(times[both], right.times[pairs[1][both] - right.first])
        return from_int64(times, self._time)


def side_columns(
    join: JoinRelation, conditions: JoinConditions, columns: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the own names of the columns of each side that a join must read.

    ``columns`` are those of the join that are wanted of the answer.
    """
    names = JoinNames.of(join)
    wanted = {*columns, *_read(conditions.pairs)}
    left = {own for name, own in names.left.items() if name in wanted}
    right = {own for name, own in names.right.items() if name in wanted}
    left |= {join.left_time, *(one for one, _ in join.equal)}
    right |= {join.right_time, *(other for _, other in join.equal)}
    left |= _read(conditions.left_rows) | _read(conditions.left_partners)
    right |= _read(conditions.right_partners)
    return tuple(sorted(left)), tuple(sorted(right))


def _read(condition: Expression | None) -> set[str]:
    return {attribute.name for attribute in attributes(condition)}


def _field(name: str, schema: pa.Schema, own: str) -> pa.Field | None:
    """Return the field of a column in the answer; None if it is not read."""
    if own not in schema.names:
        return None
    return pa.field(name, plain_schema(pa.schema([schema.field(own)])).field(0).type)


def _pair_time_type(join: JoinRelation, left: pa.Schema, right: pa.Schema) -> pa.DataType:
    """Return the type of the time of a pair, which the times of both sides fit in."""
    one, other = left.field(join.left_time).type, right.field(join.right_time).type
    return one if one == other else type_of_moments(one)
