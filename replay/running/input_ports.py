"""Ports: where events of a query's streams go in and rows of the answer come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from chronicle.schema import normalise_schema
from replay.errors import NotSupportedError
from replay.joins.stream_join import JoinOutline
from replay.language.bound import (
    BoundPatternQuery,
    BoundQuery,
    Expression,
    JoinRelation,
    OneRow,
    Relation,
    SituationRelation,
    StreamRelation,
    SubqueryRelation,
)
from replay.language.required_columns import columns_of_query, columns_of_situations, pruned
from replay.limits import TOLD_MAX
from replay.operators.outer_pieces import OuterOperator
from replay.operators.packing import State
from replay.running.classes import class_of, of_table
from replay.running.steps import Chain, operators_of, situating

SchemaOf = Callable[[str], pa.Schema]
"""Gives the columns of a stream."""


def open_port(query: BoundQuery, schema_of: SchemaOf) -> InputPort:
    """Return what takes the events of a query's streams and gives its answer.

    Raises a NotSupportedError for a query that needs all rows before it can give one.
    """
    known = of_table(query)
    if known is not None:
        kind, stream = class_of(known), known.stream
        port = StreamPort(stream.name, stream.time, kind.reading(known).columns, schema_of)
        return ChainPort(port, Chain(kind.operators(known)))
    operators = operators_of(query, eager=True, told_max=TOLD_MAX)
    if any(isinstance(step, OuterOperator) and step.needs_end for step in operators):
        raise NotSupportedError(
            "rows in another order than they come in need the whole answer, which an online query "
            "never has; leave ORDER BY out, or use replay.query"
        )
    columns = columns_of_query(query)
    if isinstance(query, BoundPatternQuery):
        if query.source is None:
            inner: InputPort = StreamPort(query.stream, query.time, columns, schema_of)
        else:
            inner = _open_relation(query.source, columns, None, schema_of)
    else:
        # Windows are formed by all rows, those that fail WHERE among them.
        where = query.outer.where if query.windows is None else None
        inner = _open_relation(query.source, columns, where, schema_of)
    return ChainPort(inner, Chain(operators))


def _open_relation(
    relation: Relation,
    columns: tuple[str, ...],
    where: Expression | None,
    schema_of: SchemaOf,
) -> InputPort:
    """Return what gives rows of a relation, with some columns.

    ``where`` is what is asked of its rows afterwards: a join may leave out others.
    """
    if isinstance(relation, OneRow):
        raise NotSupportedError("a SELECT without FROM has no events to wait for; use replay.query")
    if isinstance(relation, StreamRelation):
        return StreamPort(relation.name, relation.time, columns, schema_of)
    if isinstance(relation, SubqueryRelation):
        return open_port(pruned(relation, columns).query, schema_of)
    if isinstance(relation, SituationRelation):
        below = _open_relation(relation.source, columns_of_situations(relation), None, schema_of)
        return ChainPort(below, Chain(situating(relation)))
    outline = JoinOutline.of(relation, where=where, columns=columns)
    joined: JoinRelation = outline.join
    left, right = outline.side_columns
    return JoinPort(
        outline,
        _open_relation(joined.left, left, None, schema_of),
        _open_relation(joined.right, right, None, schema_of),
    )


class StreamPort:
    """The events of one stream.

    ``time`` is None where the time column is not known; ``schema_of`` knows the types of
    ``columns``, those that are read.
    """

    is_done = False
    n_faults = 0

    def __init__(
        self, stream: str, time: str | None, columns: tuple[str, ...], schema_of: SchemaOf
    ) -> None:
        self.stream = stream
        self.time = time
        known = schema_of(stream)
        read = {*columns} if time is None else {*columns, time}
        self.schema: pa.Schema = normalise_schema(
            pa.schema([known.field(name) for name in sorted(read)])
        )
        self.reached: int | None = None

    @property
    def streams(self) -> tuple[StreamPort, ...]:
        """Return itself."""
        return (self,)

    def push(self, stream: str, events: pa.Table) -> Iterator[pa.Table]:
        """Yield the columns of events of this stream."""
        if stream == self.stream:
            yield events.select(self.schema.names)

    def advance(self, stream: str, time: int) -> Iterator[pa.Table]:
        """Note the time; it makes no rows."""
        if stream == self.stream:
            self.reached = time if self.reached is None else max(self.reached, time)
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        """Yield nothing: no event waits."""
        return iter(())

    def state(self) -> State:
        """Return the time that was noted."""
        return {"reached": self.reached}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self.reached = state["reached"]


class ChainPort:
    """Rows of another port that pass through operators."""

    def __init__(self, inner: InputPort, chain: Chain) -> None:
        self._inner = inner
        self._chain = chain
        self.streams: tuple[StreamPort, ...] = inner.streams
        # No rows make no difference, and tell the columns of what comes out.
        self.schema: pa.Schema = pa.concat_tables(chain.push(inner.schema.empty_table())).schema

    @property
    def reached(self) -> int | None:
        """The time before which no further row comes out, where an operator tells it."""
        if self._chain.keeps_times and isinstance(self._inner, ChainPort):
            return self._inner.reached
        return self._chain.reached

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough, here or below."""
        return self._chain.is_done or self._inner.is_done

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        return self._chain.n_faults + self._inner.n_faults

    def push(self, stream: str, events: pa.Table) -> Iterator[pa.Table]:
        """Take the next events of a stream."""
        yield from self._passed(self._inner.push(stream, events))
        if isinstance(self._inner, ChainPort):  # how far a stream has come its rows tell
            yield from self._advanced()

    def advance(self, stream: str, time: int) -> Iterator[pa.Table]:
        """Take it that no further event of a stream is before a time."""
        yield from self._passed(self._inner.advance(stream, time))
        yield from self._advanced()

    def _advanced(self) -> Iterator[pa.Table]:
        reached = self._inner.reached
        if reached is not None and not self._chain.is_done:
            yield from self._chain.advance(reached)

    def _passed(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        while not self._chain.is_done:
            table = next(tables, None)
            if table is None:
                return
            yield from self._chain.push(table)

    def finish(self) -> Iterator[pa.Table]:
        """Take it that all streams end."""
        yield from self._passed(self._inner.finish())
        yield from self._chain.finish()

    def state(self) -> State:
        """Return what is known and kept."""
        return {"inner": self._inner.state(), "chain": self._chain.state()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._inner.take_over(state["inner"])
        self._chain.take_over(state["chain"])


class JoinPort:
    """Pairs of the rows of two ports."""

    reached: int | None = None
    """Which times its rows will have is known of none."""

    def __init__(self, outline: JoinOutline, left: InputPort, right: InputPort) -> None:
        self._sides = left, right
        self._operator = outline.operator(left.schema, right.schema)
        self.schema: pa.Schema = self._operator.schema
        self.streams: tuple[StreamPort, ...] = (*left.streams, *right.streams)

    @property
    def is_done(self) -> bool:
        """Whether neither side has a row to come."""
        return all(side.is_done for side in self._sides)

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        return self._operator.n_faults + sum(side.n_faults for side in self._sides)

    def push(self, stream: str, events: pa.Table) -> Iterator[pa.Table]:
        """Take the next events of a stream, and yield the pairs that are certain now."""
        for place, side in enumerate(self._sides):
            for rows in side.push(stream, events):
                self._operator.push(place, rows)
            if isinstance(side, ChainPort) and side.reached is not None:
                self._operator.advance(place, side.reached)
        yield from self._operator.certain(False, False)

    def advance(self, stream: str, time: int) -> Iterator[pa.Table]:
        """Take it that no further event of a stream is before a time."""
        for place, side in enumerate(self._sides):
            for rows in side.advance(stream, time):
                self._operator.push(place, rows)
            if side.reached is not None:
                self._operator.advance(place, side.reached)
        yield from self._operator.certain(False, False)

    def finish(self) -> Iterator[pa.Table]:
        """Take it that all streams end, and yield the rest of the pairs."""
        for place, side in enumerate(self._sides):
            for rows in side.finish():
                self._operator.push(place, rows)
        yield from self._operator.certain(True, True)

    def state(self) -> State:
        """Return what is known and kept."""
        sides = [side.state() for side in self._sides]
        return {"sides": sides, "operator": self._operator.state()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._operator.take_over(state["operator"])
        for side, own in zip(self._sides, state["sides"], strict=True):
            side.take_over(own)


InputPort = StreamPort | ChainPort | JoinPort
"""A part of a query over streams that are still coming.

`push`, `advance` and `finish` return iterators; each is exhausted before the next. ``reached`` is
the time before which no further row comes out, beyond what rows tell; None: not known.
"""
