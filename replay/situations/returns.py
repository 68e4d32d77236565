"""What matches return: aggregates over the rows of situations up to the instant of detection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import ARROW_TYPES, Columns, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Attribute,
    DataType,
    Expression,
    SituationRelation,
    attributes,
    rewritten,
    walk,
)
from replay.operators.packing import State
from replay.situations.derive import Rows
from replay.situations.matching import Match

Ints = npt.NDArray[np.int64]

GROUP = Attribute("situation and instant", DataType.INTEGER)
"""By which rows are aggregated."""

AggregateGroups = Callable[[tuple[Aggregate, ...], pa.Table], pa.Table]
"""Gives a column for each aggregate with a row for each value of `GROUP`, these ascending."""


class Returns:
    """Holds the rows of situations that may still be told, and aggregates them."""

    def __init__(
        self,
        query: SituationRelation,
        schema: pa.Schema,
        aggregate: AggregateGroups,
        faults: Faults,
    ) -> None:
        self._returns = query.returns
        self._faults = faults
        self._aggregate = aggregate
        parts = [part for one in query.returns for part in walk(one.expression)]
        aggregates = dict.fromkeys(part for part in parts if isinstance(part, Aggregate))
        self._by_situation: dict[int, tuple[Aggregate, ...]] = {}
        for part in aggregates:
            assert part.symbols is not None
            (situation,) = part.symbols
            self._by_situation[situation] = (*self._by_situation.get(situation, ()), part)
        named = {a.name for part in aggregates for a in attributes(part)}
        self._names = [name for name in schema.names if name in named]
        self._values = schema.empty_table().select(self._names)
        self._partitions: Ints = np.zeros(0, np.int64)
        self._times: Ints = np.zeros(0, np.int64)
        self._seqs: Ints = np.zeros(0, np.int64)
        self._columns = {part: f"aggregate {i}" for i, part in enumerate(aggregates)}
        self._types = {
            part: aggregate((part,), _grouped(self._values, self._seqs)).schema.field(0).type
            for part in aggregates
        }
        self.schema = pa.schema(
            [pa.field(one.name, self._type(one.expression, schema)) for one in query.returns]
        )

    @property
    def n_rows(self) -> int:
        """How many rows are held."""
        return len(self._seqs)

    def _type(self, expression: Expression, schema: pa.Schema) -> pa.DataType:
        if isinstance(expression, Aggregate):
            return self._types[expression]
        if isinstance(expression, Attribute):
            return schema.field(expression.name).type
        return ARROW_TYPES[expression.type]

    def push(self, events: pa.Table, rows: Rows, first: int) -> None:
        """Take in rows, numbered from ``first`` on."""
        if not self._by_situation:
            return
        self._values = pa.concat_tables([self._values, events.select(self._names)])
        self._partitions = np.concatenate([self._partitions, rows.partitions])
        self._times = np.concatenate([self._times, rows.times])
        self._seqs = np.concatenate([self._seqs, np.arange(first, first + events.num_rows)])

    def forget(self, before: int) -> None:
        """Drop the rows before a ``seq``."""
        place = int(np.searchsorted(self._seqs, before))
        self._values = self._values.slice(place).combine_chunks()
        self._partitions, self._times, self._seqs = (
            array[place:].copy() for array in (self._partitions, self._times, self._seqs)
        )

    def of(self, matches: Sequence[Match], keys: pa.Table) -> list[pa.Array]:
        """Return the columns of RETURN; ``keys`` has those of PARTITION BY, match by match."""
        if not self._returns:
            return []
        # A table without columns forgets how many rows it has.
        table = _grouped(keys, np.arange(len(matches)))
        for situation, aggregates in self._by_situation.items():
            for part, column in zip(
                aggregates, self._aggregated(situation, aggregates, matches), strict=True
            ):
                table = table.append_column(self._columns[part], column)
        source = Columns(table)
        columns = []
        for field, one in zip(self.schema, self._returns, strict=True):
            expression = rewritten(one.expression, self._named)
            if isinstance(expression, Attribute):
                column = table.column(expression.name).combine_chunks()
            else:
                column = to_arrow(evaluate(expression, source, self._faults), expression.type)
            columns.append(column.cast(field.type))
        return columns

    def _named(self, part: Expression) -> Expression | None:
        if not isinstance(part, Aggregate):
            return None
        return Attribute(self._columns[part], part.type)

    def _aggregated(
        self, situation: int, aggregates: tuple[Aggregate, ...], matches: Sequence[Match]
    ) -> list[pa.ChunkedArray]:
        """Return aggregates of one situation of each match, each once a situation and instant."""
        asked = [(match.situations[situation], match.detection) for match in matches]
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(asked))}
        order = np.argsort(self._partitions, kind="stable")
        whose = self._partitions[order]
        places, groups = [], []
        for (live, detection), number in numbers.items():
            low, high = np.searchsorted(whose, [live.partition, live.partition + 1])
            own = order[low:high]
            first = np.searchsorted(self._seqs[own], live.first)
            stop = min(
                np.searchsorted(self._seqs[own], live.stop),
                np.searchsorted(self._times[own], detection, side="right"),
            )
            places.append(own[first:stop])
            groups.append(np.full(stop - first, number))
        rows = pa.array(np.concatenate(places))
        values = self._values.take(rows) if self._names else self._values
        table = self._aggregate(aggregates, _grouped(values, np.concatenate(groups)))
        wanted = pa.array([numbers[pair] for pair in asked])
        return [column.take(wanted) for column in table.columns]

    def state(self) -> State:
        """Return the rows that are held."""
        return {
            "values": self._values,
            "partitions": self._partitions,
            "times": self._times,
            "seqs": self._seqs,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._values = state["values"]
        self._partitions, self._times = state["partitions"], state["times"]
        self._seqs = state["seqs"]


def _grouped(values: pa.Table, groups: Ints) -> pa.Table:
    columns = [pa.array(groups, pa.int64()), *values.columns]
    return pa.table(columns, names=[GROUP.name, *values.column_names])
