"""Rows of a side as they come in: checked, keys numbered, what cannot have a partner marked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chronicle.errors import SchemaError
from chronicle.time import is_ascending, to_int64
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.joins.kernels import NONE, OUT
from replay.joins.keys import KeyNumbers
from replay.joins.rows import KeptRows
from replay.language.bound import Expression, JoinRelation
from replay.language.join_conditions import JoinConditions
from replay.operators.packing import State


class SideIntake:
    """Takes the rows of one side in order: checks them, numbers their keys, keeps them.

    Parameters
    ----------
    schema
        Columns of the side, at least those that are read.
    time
        Its time column.
    keys
        Columns that make the key.
    counted, partners
        Which rows count at all, and which of them may have a partner; None: all.
    what
        The side in messages.
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


def behind(sides: tuple[SideIntake, SideIntake], ended: tuple[bool, bool]) -> int:
    """Return the side that must go on for more to become certain: 0 the left, 1 the right."""
    if ended[0] or ended[1]:
        return int(ended[0])
    left, right = (side.last_time for side in sides)
    return int(left is not None and (right is None or right < left))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema without dictionaries, in which rows from several tables can be kept."""
    return pa.schema(
        [
            pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in schema
        ]
    )


def intakes_of(
    join: JoinRelation, left: pa.Schema, right: pa.Schema, conditions: JoinConditions
) -> tuple[SideIntake, SideIntake]:
    """Return what takes the rows of each side of a join.

    Parameters
    ----------
    join
        The join.
    left, right
        Columns of the sides, at least those that are read.
    conditions
        What ON and WHERE ask of each side.
    """
    return (
        SideIntake(
            left,
            time=join.left_time,
            keys=tuple(one for one, _ in join.equal),
            counted=conditions.left_rows,
            partners=conditions.left_partners,
            what="left side",
        ),
        SideIntake(
            right,
            time=join.right_time,
            keys=tuple(other for _, other in join.equal),
            counted=None,
            partners=conditions.right_partners,
            what="right side",
        ),
    )
