"""Queries over streams that are still coming: rows in, certain rows of the answer out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from chronicle.errors import SchemaError, StreamNotFoundError
from chronicle.schema import normalise_schema
from chronicle.time import TimeType, time_type, to_int64
from costmodel.tuning import Tuning
from replay.engines.read_ahead import shared
from replay.errors import NotSupportedError, QueryError
from replay.language.bound import BoundCreate, BoundQuery
from replay.language.syntax import Query, has_situations, streams_of
from replay.operators.packing import State
from replay.running.arguments import (
    Moment,
    check_params,
    check_query,
    check_threads,
    to_internal,
)
from replay.running.catalog import Described
from replay.running.input_ports import InputPort, StreamPort, open_port
from replay.running.online_query import OnlineQuery, Resumable, checked
from replay.running.statement import Parameters, alone, bind_over, parse, prepare
from replay.running.steps import whole_answer_needed
from replay.running.tuning import Tuner

Threads = int | Literal["auto"]
"""How many threads share a push; ``auto``: as many as the load asks for."""


def online(
    sql: str,
    schema: pa.Schema | Mapping[str, pa.Schema],
    *,
    time: str | Mapping[str, str] | None = None,
    params: Parameters | None = None,
    threads: Threads = 1,
) -> OnlineQuery | OnlineFlow:
    """Return an operator that answers a query while its events come in.

    What it returns piece by piece is, one piece after the other, the answer of `replay.query` over
    all events at once.

    Parameters
    ----------
    sql
        The query. Where it reads one stream, what its FROM names does not matter.
    schema
        Of the events; by the streams' names where a join reads more than one.
    time
        The stream's time column, or that of each by name; None: whatever ORDER BY or DESCRIPTOR
        names.
    params
        Values of the query's parameters (``:name``).
    threads
        How many threads may share a push of a query over situations: they look at conditions of
        stretches of its events, and for matches of partitions of their own. ``auto`` follows the
        load, once a second (`OnlineFlow.tuning`). The answer is the same. Pushes of less than a
        hundred thousand events gain nothing.

    Returns
    -------
    OnlineQuery or OnlineFlow
        The first for a row pattern over the events themselves, not in windows; both have
        ``columns`` (which columns of the events it reads), ``schema`` (of the answer), ``push`` and
        ``finish``, and ``snapshot`` and ``restore`` to go on elsewhere, or after a restart.

    Raises
    ------
    QueryError
        If the query cannot be read or bound, or needs all rows before it can give one (ORDER BY;
        GROUP BY around MATCH_RECOGNIZE without a column of its window), or if threads are to share
        what has no situations.
    StreamNotFoundError
        If it reads a stream whose schema is not given.

    Examples
    --------
    >>> both = "SELECT bid, ask FROM bids JOIN asks WITHIN 2"
    >>> bids = pa.schema([("t", pa.int64()), ("bid", pa.int64())])
    >>> asks = pa.schema([("t", pa.int64()), ("ask", pa.int64())])
    >>> flow = online(both, {"bids": bids, "asks": asks}, time="t")
    >>> flow.push(pa.table({"t": [1, 3], "bid": [10, 11]}), stream="bids").num_rows
    0
    >>> flow.push(pa.table({"t": [2, 4], "ask": [12, 13]}), stream="asks").to_pylist()
    [{'bid': 10, 'ask': 12}]
    >>> flow.advance(5, stream="bids").to_pylist()
    [{'bid': 11, 'ask': 12}]
    >>> flow.finish().to_pylist()
    [{'bid': 11, 'ask': 13}]
    """
    check_query(sql)
    params = {} if params is None else params
    check_params(params)
    if threads != "auto":
        check_threads(threads)
    parsed = _parsed(sql)
    if threads != 1 and not has_situations(parsed):
        raise NotSupportedError(
            "threads share the pushes of a query over situations (FROM … DEFINE … PATTERN), which "
            "this is not; leave threads out"
        )
    describe = _describer(streams_of(parsed), schema, time)
    described = alone(parsed, describe)
    statement = None if described is None else prepare(sql, *described, params)
    if described is not None and statement is not None and statement.plain.windows is None:
        outer = statement.bound.outer
        if outer is not None and not outer.is_row_by_row:
            raise whole_answer_needed()
        return OnlineQuery(statement, described[0])
    bound = bind_over(sql, describe, params)
    if isinstance(bound, BoundCreate):
        raise NotSupportedError(
            "CREATE STREAM takes its rows from history; give its query alone to go online"
        )
    return OnlineFlow(bound, describe, threads)


def _parsed(sql: str) -> Query:
    """Return the syntax tree of a query; one that is DuckDB's cannot be asked of events to come."""
    try:
        return parse(sql)
    except QueryError as error:
        from replay.sql.apart import Apart, take_apart

        if isinstance(take_apart(sql), Apart):
            raise NotSupportedError(
                "a statement that DuckDB runs cannot go online, since it needs all rows at once; "
                "give the part that is Chronicle's"
            ) from error
        raise


def _describer(
    streams: tuple[str, ...],
    schema: pa.Schema | Mapping[str, pa.Schema],
    time: str | Mapping[str, str] | None,
) -> Callable[[str], Described]:
    """Return what tells columns and time column of a stream of the query."""
    if not isinstance(schema, pa.Schema | Mapping):
        raise TypeError(
            "expected the schema of the events (pyarrow.schema) or schemas by stream, not "
            f"{type(schema).__name__}"
        )
    if isinstance(schema, pa.Schema):
        if len(streams) > 1:
            given = ", ".join(f"'{name}': …" for name in streams)
            raise QueryError(
                f"the query reads the streams {', '.join(streams)}; give the schema of each: "
                f"{{{given}}}"
            )
        schema = dict.fromkeys(streams, schema)
    schemas = dict(schema)
    times = dict(time) if isinstance(time, Mapping) else dict.fromkeys(schemas, time)
    for name in schemas.keys() & streams:
        _check_time(name, schemas[name], times.get(name))

    def describe(name: str) -> Described:
        if name not in schemas:
            raise StreamNotFoundError(name, candidates=schemas)
        return schemas[name], times.get(name)

    return describe


def _check_time(stream: str, schema: object, time: str | None) -> None:
    """Check that a stream is described by a schema, and that its time column is one."""
    if not isinstance(schema, pa.Schema):
        raise TypeError(
            f"expected the schema of '{stream}' (pyarrow.schema), not {type(schema).__name__}"
        )
    if time is None:
        return
    if time not in schema.names:
        raise SchemaError(f"no time column '{time}' (columns: {', '.join(schema.names)})")
    _time_type(normalise_schema(pa.schema([schema.field(time)])).field(0))


def _time_type(field: pa.Field) -> TimeType:
    """Return which kind of time a column is; what is to come may be of dates."""
    is_date = pa.types.is_date(field.type)
    return "timestamp" if is_date else time_type(field.type, column=field.name)


@dataclass(slots=True)
class _Stream:
    """A stream as its events come in."""

    schema: pa.Schema
    """What the query reads of them."""
    time: str
    last_time: int | None = None
    """Time before which no further event is; None if nothing is known."""


class OnlineFlow(Resumable):
    """A query of any other kind over events that are pushed in order of time; `online` makes it.

    Rows are kept as its operators need them: those of open windows, of undecided matches of a
    pattern over a subquery, those that may still be joined, and for DISTINCT what has been given.

    A join of two streams takes the events of each in their order, and those of one in any way
    between those of the other. It gives the rows up to the time that both have reached: what comes
    of one stream waits until the other has an event at least as late, or `advance` says that it
    has none.

    Attributes
    ----------
    schema
        Columns of the answer.
    """

    def __init__(
        self, query: BoundQuery, describe: Callable[[str], Described], threads: Threads = 1
    ) -> None:
        self._tuner = Tuner() if threads == "auto" else None
        self._n_threads = 1 if threads == "auto" else threads
        self._port: InputPort = open_port(query, lambda name: describe(name)[0])
        self._streams = _streams_of(self._port.streams)
        self.schema = self._port.schema
        read = [(name, str(stream.schema)) for name, stream in self._streams.items()]
        super().__init__(query, read)

    def __repr__(self) -> str:
        read = "; ".join(f"{name} ({', '.join(of)})" for name, of in self.streams.items())
        return f"<OnlineFlow: reads {read}{', finished' if self._is_finished else ''}>"

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Columns of the events that the query reads, by stream."""
        return {name: tuple(stream.schema.names) for name, stream in self._streams.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the events that a query over one stream reads; see `streams` for others.

        Raises
        ------
        QueryError
            If the query reads more than one stream.
        """
        return self.streams[self._name(None)]

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough: no event to come changes the answer."""
        return self._port.is_done

    @property
    def n_faults(self) -> int:
        """Number of faults of rows so far."""
        return self._port.n_faults

    @property
    def tuning(self) -> Tuning | None:
        """How many events a push should have, and threads share, by the load; with ``auto``."""
        return None if self._tuner is None else self._tuner.chosen

    def push(self, table: Any, *, stream: str | None = None) -> pa.Table:
        """Take the next events and return the rows of the answer that are certain now.

        Parameters
        ----------
        table
            Events with at least the columns the query reads, in order of time and none before
            those of the stream pushed last.
        stream
            Whose events they are; may be left out where the query reads one stream.

        Raises
        ------
        SchemaError
            If a column is missing or has another type, or events have no time or go back in time.
        QueryError
            If a sum does not fit, the query is finished, or it reads no such stream.
        """
        name = self._name(stream)
        self._check_open()
        known = self._streams[name]
        events = checked(table, known.schema, known.time, last_time=known.last_time)
        if events.num_rows:
            last = events.column(known.time).slice(events.num_rows - 1)
            known.last_time = to_int64(last, name=known.time)[0].as_py()
        measured = nullcontext() if self._tuner is None else self._tuner.push(events.num_rows)
        with measured:
            return self._joined(() if self.is_done else self._port.push(name, events))

    def advance(self, to: Moment, *, stream: str | None = None) -> pa.Table:
        """Promise that no further event of a stream is before a time, and return what is certain.

        A join then goes on although one of its streams is silent, and windows over events that end
        by then are told, also those that patterns are matched in. Patterns without windows, and
        what stands over subqueries, wait for the next event.

        Parameters
        ----------
        to
            A number where the stream's times are integers, else a ``datetime`` or ISO 8601 text.
        stream
            As in `push`.

        Raises
        ------
        SchemaError
            If it is no time of this stream.
        QueryError
            If the query is finished, or reads no such stream.
        """
        name = self._name(stream)
        self._check_open()
        known = self._streams[name]
        kind = _time_type(known.schema.field(known.time))
        time = to_internal(to, kind)
        known.last_time = time if known.last_time is None else max(known.last_time, time)
        return self._joined(() if self.is_done else self._port.advance(name, time))

    def finish(self) -> pa.Table:
        """End the streams and return the rest of the answer."""
        self._end()
        return self._joined(self._port.finish())

    def state(self) -> State:
        """Return all state, for `take_over` of an operator made for the same query."""
        return {
            "last_times": {name: stream.last_time for name, stream in self._streams.items()},
            "is_finished": self._is_finished,
            "inlet": self._port.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from a state; what this operator had seen is forgotten."""
        for name, stream in self._streams.items():
            stream.last_time = state["last_times"][name]
        self._is_finished = state["is_finished"]
        self._port.take_over(state["inlet"])

    def _name(self, stream: str | None) -> str:
        names = tuple(self._streams)
        if stream in names:
            return stream
        if stream is None and len(names) == 1:
            return names[0]
        said = "say which of them: stream=…" if stream is None else f"not '{stream}'"
        raise QueryError(f"the query reads the streams {', '.join(names)}; {said}")

    def _joined(self, tables: Iterable[pa.Table]) -> pa.Table:
        tuning = self.tuning
        with shared(self._n_threads if tuning is None else tuning.n_threads):
            return pa.concat_tables([self.schema.empty_table(), *tables])


def _streams_of(ports: Iterable[StreamPort]) -> dict[str, _Stream]:
    """Return what is read of each stream, wherever it is read."""
    streams: dict[str, _Stream] = {}
    for port in ports:
        if port.time is None:
            raise QueryError(
                "an online query has to know which column is the time; give it as time='…'"
            )
        known = streams.setdefault(port.stream, _Stream(port.schema, port.time))
        if known.time != port.time:
            raise SchemaError(
                f"stream '{port.stream}' is read in the order of '{known.time}' and of "
                f"'{port.time}'; its events can come in one order only"
            )
        fields = {field.name: field for field in (*known.schema, *port.schema)}
        known.schema = pa.schema([fields[name] for name in sorted(fields)])
    return streams
