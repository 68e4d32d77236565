"""A join as it is carried out: over streams where it may be, its conditions by side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from replay.joins.asof import AsofJoin
from replay.joins.join import StreamJoin
from replay.joins.layout import side_columns
from replay.joins.windowed import WindowJoin
from replay.language.bound import Expression, JoinKind, JoinRelation
from replay.language.join_conditions import JoinConditions, split_conditions, unfold


@dataclass(frozen=True, slots=True)
class JoinOutline:
    """What carrying out a join takes, whatever the sides are read from."""

    join: JoinRelation
    conditions: JoinConditions
    columns: tuple[str, ...]
    """Its columns that are wanted."""
    side_columns: tuple[tuple[str, ...], tuple[str, ...]]
    """Columns to read of the left and of the right, by their own names."""

    @classmethod
    def of(
        cls, join: JoinRelation, *, where: Expression | None, columns: Collection[str]
    ) -> JoinOutline:
        """Return the outline of a bound join.

        Parameters
        ----------
        join
            The join.
        where
            Condition over its columns that is applied to what it gives; rows that it leaves out
            for certain may be dropped early.
        columns
            Its columns that are wanted.
        """
        unfolded = unfold(join)
        conditions = split_conditions(
            unfolded.join, where, left=unfolded.left_condition, right=unfolded.right_condition
        )
        names = side_columns(unfolded.join, conditions, columns)
        return cls(unfolded.join, conditions, tuple(columns), names)

    def operator(
        self,
        left: pa.Schema,
        right: pa.Schema,
        *,
        origins: tuple[int | None, int | None] = (None, None),
    ) -> StreamJoin:
        """Return the operator that carries it out; ``origins`` as in `WindowJoin`.

        ``left`` and ``right`` are what is read of the sides, at least ``side_columns``.

        Raises
        ------
        NotSupportedError
            If an ASOF join asks for more than it can.
        """
        if self.join.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
            return AsofJoin(self.join, self.conditions, left, right, self.columns)
        return WindowJoin(self.join, self.conditions, left, right, self.columns, origins=origins)
