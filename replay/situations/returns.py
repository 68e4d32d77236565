"""What matches return: aggregates over the rows of situations up to the instant of detection."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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
from replay.operators.outer_pieces import AggregateRanges
from replay.operators.packing import State
from replay.situations.derive import Rows
from replay.situations.detection import OPEN
from replay.situations.matching import Matches

Ints = npt.NDArray[np.int64]

GROUP = Attribute("situation and instant", DataType.INTEGER)
"""By which rows are aggregated."""

AggregateGroups = Callable[[tuple[Aggregate, ...], pa.Table], pa.Table]
"""Gives a column for each aggregate with a row for each value of `GROUP`, these ascending."""


class _Held(NamedTuple):
    """Rows of one push or of several."""

    values: pa.Table
    """Columns that aggregates read."""
    partitions: Ints
    times: Ints
    seqs: Ints


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
        nothing: Ints = np.zeros(0, np.int64)
        self._pieces = [_Held(schema.empty_table().select(self._names), nothing, nothing, nothing)]
        self.n_rows = 0
        """How many rows are held."""
        self._ranges: AggregateRanges | None = None
        """Aggregates rows that are not held; None: they are."""
        self._columns = {part: f"aggregate {i}" for i, part in enumerate(aggregates)}
        self._types = {
            part: aggregate((part,), _grouped(self._pieces[0].values, nothing)).schema.field(0).type
            for part in aggregates
        }
        self.schema = pa.schema(
            [pa.field(one.name, self._type(one.expression, schema)) for one in query.returns]
        )

    def _type(self, expression: Expression, schema: pa.Schema) -> pa.DataType:
        if isinstance(expression, Aggregate):
            return self._types[expression]
        if isinstance(expression, Attribute):
            return schema.field(expression.name).type
        return ARROW_TYPES[expression.type]

    def push(self, events: pa.Table, rows: Rows, first: int) -> None:
        """Take in rows, numbered from ``first`` on."""
        if not self._by_situation or self._ranges is not None:
            return
        seqs = np.arange(first, first + events.num_rows)
        self._pieces.append(_Held(events.select(self._names), rows.partitions, rows.times, seqs))
        self.n_rows += events.num_rows

    def aggregate_by(self, ranges: AggregateRanges) -> None:
        """Have rows aggregated by where they stand in the stream; none is held any more."""
        self._ranges = ranges
        self.forget(OPEN)

    def _held(self) -> _Held:
        """Return all rows that are held, as one piece from now on."""
        if len(self._pieces) > 1:
            values, *arrays = zip(*self._pieces, strict=True)
            table = pa.concat_tables(values).combine_chunks()
            self._pieces = [_Held(table, *map(np.concatenate, arrays))]
        return self._pieces[0]

    def forget(self, before: int) -> None:
        """Drop the rows before a ``seq``."""
        held = self._held()
        place = int(np.searchsorted(held.seqs, before))
        arrays = (array[place:].copy() for array in held[1:])
        rest = pa.array(np.arange(place, len(held.seqs)))  # as a slice would keep all of them
        self._pieces = [_Held(held.values.take(rest), *arrays)]
        self.n_rows = len(self._pieces[0].seqs)

    def of(self, matches: Matches, keys: pa.Table) -> list[pa.Array]:
        """Return the columns of RETURN; ``keys`` has those of PARTITION BY, match by match."""
        if not self._returns:
            return []
        # A table without columns forgets how many rows it has.
        table = _grouped(keys, np.arange(len(matches.detections)))
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
        self, situation: int, aggregates: tuple[Aggregate, ...], matches: Matches
    ) -> list[pa.ChunkedArray]:
        """Return aggregates of one situation of each match, each once a situation and instant."""
        columns = (matches.firsts[:, situation], matches.detections, matches.partitions)
        # Rows that situations begin with are of one partition each, and of one situation of a name.
        order = np.lexsort(columns[1::-1])
        firsts, instants, partitions = (column[order] for column in columns)
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (firsts[1:] != firsts[:-1]) | (instants[1:] != instants[:-1])
        wanted = np.empty(len(order), np.int64)
        wanted[order] = np.cumsum(is_new) - 1
        stops = matches.stops[order, situation]
        asked = firsts[is_new], stops[is_new], instants[is_new]
        if self._ranges is not None:
            table = self._ranges(aggregates, *asked)
        else:
            held, rows, groups = self._rows_of(partitions[is_new], *asked)
            values = held.values.take(pa.array(rows)) if self._names else held.values
            table = self._aggregate(aggregates, _grouped(values, groups))
        return [column.take(pa.array(wanted)) for column in table.columns]

    def _rows_of(
        self, partitions: Ints, firsts: Ints, stops: Ints, instants: Ints
    ) -> tuple[_Held, Ints, Ints]:
        """Return the places of rows of situations up to an instant, and of which each is."""
        held = self._held()
        n = len(held.seqs)
        order = np.argsort(held.partitions, kind="stable")
        by_partition = held.partitions[order] * n + order
        stops = np.minimum(
            np.searchsorted(held.seqs, stops), np.searchsorted(held.times, instants, side="right")
        )
        begins = np.searchsorted(by_partition, partitions * n + np.searchsorted(held.seqs, firsts))
        lengths = np.searchsorted(by_partition, partitions * n + stops) - begins
        groups = np.repeat(np.arange(len(begins)), lengths)
        behind = np.cumsum(lengths)
        return held, order[np.arange(len(groups)) + (begins - behind + lengths)[groups]], groups

    def state(self) -> State:
        """Return the rows that are held."""
        return self._held()._asdict()

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._pieces = [_Held(**state)]
        self.n_rows = len(self._pieces[0].seqs)


def _grouped(values: pa.Table, groups: Ints) -> pa.Table:
    columns = [pa.array(groups, pa.int64()), *values.columns]
    return pa.table(columns, names=[GROUP.name, *values.column_names])
