"""Queries over streams that are still coming: rows in, certain rows of the answer out."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from chronicle.schema import normalise_schema
from chronicle.time import to_int64
from replay.errors import NotSupportedError, QueryError
from replay.language.bound import BoundPatternQuery, Outer
from replay.language.bound_select import BoundCreate, BoundQuery
from replay.language.syntax import Identifier, PatternQuery
from replay.operators.outer_pieces import OuterOperator
from replay.operators.packing import State
from replay.planning.reads import columns_of_query
from replay.running.binding import bind_over
from replay.running.online_query import OnlineQuery, checked
from replay.running.snapshots import digest_of, from_snapshot, to_snapshot
from replay.running.statement import Parameters, parse, prepare
from replay.running.steps import Chain, operators_of, stages


def online(
    sql: str,
    schema: pa.Schema,
    *,
    time: str | None = None,
    params: Parameters | None = None,
) -> OnlineQuery | OnlineFlow:
    """Return an operator that answers a query while its events come in.

    What it returns piece by piece is, one piece after the other, the answer of `replay.query` over
    all events at once.

    Parameters
    ----------
    sql
        The query; what its FROM names does not matter.
    schema
        Of the events.
    time
        The stream's time column; None: whatever ORDER BY or DESCRIPTOR names.
    params
        Values of the query's parameters (``:name``).

    Returns
    -------
    OnlineQuery or OnlineFlow
        The first for a row pattern over the events themselves; both have ``columns`` (which
        columns of the events it reads), ``schema`` (of the answer), ``push`` and ``finish``, and
        ``snapshot`` and ``restore`` to go on elsewhere, or after a restart.

    Raises
    ------
    QueryError
        If the query cannot be read or bound, needs all rows before it can give one (ORDER BY;
        GROUP BY, DISTINCT or HAVING around MATCH_RECOGNIZE), or joins streams.
    """
    parsed = parse(sql)
    if isinstance(parsed, PatternQuery) and isinstance(parsed.source, Identifier):
        statement = prepare(sql, schema, time, params or {})
        _check_rows_alone(statement.bound.outer)
        return OnlineQuery(statement, schema)
    bound = bind_over(sql, lambda _: (schema, time), params or {})
    if isinstance(bound, BoundCreate):
        raise NotSupportedError(
            "CREATE STREAM takes its rows from history; give its query alone to go online"
        )
    return OnlineFlow(bound, schema)


def _check_rows_alone(outer: Outer | None) -> None:
    if outer is not None and not outer.is_row_by_row:
        raise NotSupportedError(
            "ORDER BY, GROUP BY, aggregates, HAVING and DISTINCT around MATCH_RECOGNIZE need the "
            "whole answer, which an online query never has; leave them out, or use replay.query"
        )


class OnlineFlow:
    """A query of any other kind over events that are pushed in order of time; `online` makes it.

    Rows are kept as its operators need them: those of open windows, of undecided matches of a
    pattern over a subquery, and for DISTINCT what has been given.

    Attributes
    ----------
    schema
        Columns of the answer.
    """

    def __init__(self, query: BoundQuery, schema: pa.Schema) -> None:
        parts = stages(query)
        operators = [step for part in parts for step in operators_of(part, eager=True)]
        if any(isinstance(step, OuterOperator) and step.needs_end for step in operators):
            raise NotSupportedError(
                "ORDER BY, and GROUP BY around MATCH_RECOGNIZE, need the whole answer, which an "
                "online query never has; leave them out, or use replay.query"
            )
        names, self._time = _reads(parts[0])
        if self._time is None:
            raise QueryError(
                "an online query has to know which column is the time; give it as time='…'"
            )
        fields = [schema.field(name) for name in sorted({*names, self._time})]
        self._events = normalise_schema(pa.schema(fields))
        self._chain = Chain(operators)
        # No events make no difference, and tell the columns of the answer.
        self.schema = pa.concat_tables(self._chain.push(self._events.empty_table())).schema
        self._digest = digest_of(query, self._events)
        self._last_time: int | None = None
        self._is_finished = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the events that the query reads."""
        return tuple(self._events.names)

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough: no event to come changes the answer."""
        return self._chain.is_done

    @property
    def n_faults(self) -> int:
        """Number of faults of rows so far."""
        return self._chain.n_faults

    def push(self, table: pa.Table) -> pa.Table:
        """Take the next events and return the rows of the answer that are certain now.

        Parameters
        ----------
        table
            Events with at least the columns the query reads, in order of time and none before
            those pushed last.

        Raises
        ------
        SchemaError
            If a column is missing or has another type, or events have no time or go back in time.
        QueryError
            If a sum does not fit, or the query is finished.
        """
        if self._is_finished:
            raise QueryError("this online query is finished; make a new one for more events")
        assert self._time is not None
        events = checked(table, self._events, self._time, last_time=self._last_time)
        if events.num_rows:
            last = events.column(self._time).slice(events.num_rows - 1)
            self._last_time = to_int64(last, name=self._time)[0].as_py()
        return self._joined(iter(()) if self.is_done else self._chain.push(events))

    def finish(self) -> pa.Table:
        """End the stream and return the rest of the answer."""
        if self._is_finished:
            raise QueryError("this online query is finished already")
        self._is_finished = True
        return self._joined(self._chain.finish())

    def snapshot(self) -> bytes:
        """Return all state, to go on from in an operator made for the same query."""
        state: State = {
            "last_time": self._last_time,
            "is_finished": self._is_finished,
            "chain": self._chain.state(),
        }
        return to_snapshot(self._digest, state)

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot; what this operator had seen is forgotten.

        Raises
        ------
        QueryError
            If these bytes are no snapshot, or one of another query or another version.
        """
        state = from_snapshot(self._digest, data)
        self._last_time, self._is_finished = state["last_time"], state["is_finished"]
        self._chain.take_over(state["chain"])

    def _joined(self, tables: Iterable[pa.Table]) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *tables])


def _reads(query: BoundQuery) -> tuple[tuple[str, ...], str | None]:
    """Return the columns a query reads of a stream, and which is its time."""
    if isinstance(query, BoundPatternQuery):
        return columns_of_query(query), query.time
    return columns_of_query(query), query.source.time
