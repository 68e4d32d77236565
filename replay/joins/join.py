"""What all joins of two streams share: rows of either side in, those of the answer out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator

import pyarrow as pa

from replay.expressions.scalars import Faults
from replay.joins.intake import behind, intakes_of
from replay.joins.kernels import OUT
from replay.joins.keys import KeyNumbers
from replay.joins.layout import JoinLayout
from replay.language.bound import JoinRelation
from replay.language.join_conditions import JoinConditions
from replay.operators.packing import State, integers

KEPT_ROWS_MIN = 1 << 12
"""Rows out of every window that pile up at least before they are dropped."""

KEYS_PER_ROW = 4
"""With so many times more keys known than rows kept, keys are numbered anew."""

END_OF_TIME = (1 << 62) - 1
"""No event is later."""


class StreamJoin(ABC):
    """A join of two streams, over rows that are pushed in order of time.

    The answer has one order, however the rows of one side come between those of the other.

    Parameters
    ----------
    join
        The bound join.
    conditions
        Its conditions by side.
    left, right
        Columns of each side, at least those that `layout.side_columns` names.
    columns
        Columns of the join that are wanted.
    """

    def __init__(
        self,
        join: JoinRelation,
        conditions: JoinConditions,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
    ) -> None:
        self._layout = JoinLayout(join, left, right, columns)
        self._keys = KeyNumbers(len(join.equal))
        self._faults = Faults()
        self._sides = intakes_of(join, left, right, conditions)
        self._left, self._right = (side.kept for side in self._sides)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer."""
        return self._layout.schema

    @property
    def n_faults(self) -> int:
        """Faults of rows in conditions so far."""
        return self._faults.count

    @property
    def n_kept(self) -> int:
        """Rows kept of both sides."""
        return self._left.n_kept + self._right.n_kept

    def push(self, place: int, table: pa.Table, first_seq: int | None = None) -> None:
        """Take the next rows of a side.

        Parameters
        ----------
        place
            0 for the left, 1 for the right.
        table
            Rows in order of time, none before those pushed last.
        first_seq
            Position of the first of them in its stream; None: behind those pushed last.

        Raises
        ------
        SchemaError
            If they have no time or go back in time.
        """
        self._sides[place].push(table, first_seq, self._keys, self._faults)

    def advance(self, place: int, time: int) -> None:
        """Take it that no further row of a side is before a time.

        Parameters
        ----------
        place
            0 for the left, 1 for the right.
        time
            As `chronicle.time.to_int64` has it.
        """
        self._sides[place].advance(time)

    def behind(self, left_ended: bool, right_ended: bool) -> int:
        """Return the side of which rows are needed next; see `intake.behind`."""
        return behind(self._sides, (left_ended, right_ended))

    @abstractmethod
    def is_over(self, left_ended: bool, right_ended: bool) -> bool:
        """Return whether no row to come can change the answer, all of which has been given."""

    @abstractmethod
    def certain(self, left_ended: bool, right_ended: bool) -> Iterator[pa.Table]:
        """Yield the rows of the answer that are certain now; exhaust it before the next push.

        Parameters
        ----------
        left_ended, right_ended
            Whether no further row comes of a side.
        """

    def state(self) -> State:
        """Return what is known and kept, for `take_over` of an operator of the same join."""
        return {
            "n_faults": self._faults.count,
            "keys": self._keys.state(),
            "sides": [side.state() for side in self._sides],
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; what was pushed here is forgotten."""
        self._faults.count = state["n_faults"]
        self._keys.take_over(state["keys"])
        for side, own in zip(self._sides, state["sides"], strict=True):
            side.take_over(own)
            integers(side.kept.codes, (side.kept.n_kept,), OUT, len(self._keys) - 1)

    def _forget_keys(self) -> None:
        """Forget the keys of rows long gone, once those are most of them, by numbering anew."""
        if len(self._keys) > KEYS_PER_ROW * self.n_kept + KEPT_ROWS_MIN:
            self._keys = KeyNumbers(self._keys.n_columns)
            for side in self._sides:
                side.renumber(self._keys)
