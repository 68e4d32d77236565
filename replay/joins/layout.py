"""Columns of a join: which of each side are read, and how rows of the answer are put together."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.time import from_int64, time_type
from replay.joins.intake import plain_schema
from replay.joins.kernels import NONE
from replay.joins.rows import KeptRows
from replay.language.bound import JOIN_TIME, Expression, JoinRelation, attributes
from replay.language.join_conditions import JoinConditions, JoinNames

IntArray = npt.NDArray[np.int64]


class JoinLayout:
    """How a row of the answer is put together from one of each side.

    Parameters
    ----------
    join
        The bound join.
    left, right
        Columns of each side: at least those wanted, its time, its keys and those of conditions.
    columns
        Columns of the join that are wanted; ``schema`` has them in the join's order.
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

        Parameters
        ----------
        names
            Which columns of the join.
        left, right
            Rows of each side.
        pairs
            Number of the left and of the right row, shape (2, n); `NONE` for no right row.
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

    Parameters
    ----------
    join, conditions
        The join and its conditions by side.
    columns
        Columns of the join that are wanted of the answer.
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
    if one == other:
        return one
    if time_type(one, column=join.left_time) == "integer":
        return pa.int64()
    return pa.timestamp("us", one.tz)
