"""A row pattern over a stream that is still coming: rows in, certain rows of the answer out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.errors import SchemaError
from chronicle.frames import to_table
from chronicle.schema import normalise_schema
from chronicle.time import is_ascending, to_int64
from chronicle.type_names import sql_type
from replay.engines.input_buffer import InputBuffer
from replay.engines.source import encode_strings
from replay.errors import QueryError, SkipError
from replay.expressions.scalars import Faults
from replay.language.bound import Attribute, BoundPatternQuery, Classifier, walk
from replay.language.required_columns import columns_of_pattern
from replay.operators.packing import State, pack, stated, unpack
from replay.patterns.answer import to_rows, wanted_parts
from replay.patterns.matcher import new_matcher
from replay.patterns.matches import Matches
from replay.patterns.measures import answer_parts
from replay.running.statement import Statement

IntArray = npt.NDArray[np.int64]


class Resumable(ABC):
    """A query under way, whose state can be written down and gone on from elsewhere."""

    def __init__(self, query: object, events: object) -> None:
        self._digest = hashlib.sha256(repr((query, events)).encode()).hexdigest()
        """What tells this bound query over events of some columns from others."""
        self._is_finished = False

    def snapshot(self) -> bytes:
        """Return all state, to go on from in an operator made for the same query."""
        return pack({"query": self._digest, "operator": self.state()})

    def restore(self, data: bytes | bytearray | memoryview) -> None:
        """Go on from a snapshot; what this operator had seen is forgotten.

        Restore only what you wrote: a checksum tells damage, not intent.

        Raises
        ------
        QueryError
            If these bytes are no snapshot, or one of another query or another version.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a snapshot is bytes, not {type(data).__name__}")
        found = unpack(bytes(data))
        if found.get("query") != self._digest:
            raise QueryError("the snapshot is one of another query or of other columns")
        with stated():
            self.take_over(found["operator"])

    @abstractmethod
    def state(self) -> State:
        """Return all state, for `take_over` of an operator made for the same query."""

    @abstractmethod
    def take_over(self, state: State) -> None:
        """Go on from a state; what this operator had seen is forgotten."""

    def _check_open(self) -> None:
        if self._is_finished:
            raise QueryError("this online query is finished; make a new one for more events")

    def _end(self) -> None:
        if self._is_finished:
            raise QueryError("this online query is finished already")
        self._is_finished = True


class OnlineQuery(Resumable):
    """A row pattern over events that are pushed in order of time; `replay.online` makes it.

    Rows are kept as long as a match may still need them: those of matches that are undecided, and
    those PREV and NEXT may reach. With PREV or NEXT under PARTITION BY nothing is certain before
    `finish`, and all rows are kept.

    Attributes
    ----------
    schema
        Columns of the answer.
    """

    def __init__(self, statement: Statement, schema: pa.Schema) -> None:
        self._query = statement.bound
        self._program = statement.program
        self._matcher = new_matcher(statement.program)
        read = columns_of_pattern(self._query)
        normal = normalise_schema(pa.schema([schema.field(name) for name in read]))
        self._schema = normal
        super().__init__(self._query, str(normal))
        self._before, self._after = _reach(self._query)
        self._rows = InputBuffer(normal, self._query.time, self._query.order_by)
        self._n_matched = 0
        self._faults = Faults()
        # No events make no difference, and tell the columns of the answer.
        self.schema = self._advance().schema

    def __repr__(self) -> str:
        ended = ", finished" if self._is_finished else ""
        return f"<OnlineQuery: reads {', '.join(self.columns)}, {self.n_kept:,} rows kept{ended}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the events that the query reads."""
        return tuple(self._schema.names)

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough: no event to come changes the answer."""
        outer = self._query.outer
        return self._query.limit == 0 or (outer is not None and outer.limit == 0)

    @property
    def n_kept(self) -> int:
        """Number of rows kept."""
        return self._rows.n_kept

    @property
    def n_faults(self) -> int:
        """Number of faults of rows so far."""
        return self._matcher.n_faults + self._faults.count

    def push(self, table: Any) -> pa.Table:
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
        StepLimitError, SkipError
            If matching must stop; the operator cannot be used further.
        """
        self._check_open()
        self._rows.append(
            checked(table, self._schema, self._query.time, last_time=self._rows.last_time)
        )
        return self._advance()

    def finish(self) -> pa.Table:
        """End the stream and return the rest of the answer."""
        self._end()
        self._rows.close()
        return self._advance()

    def _advance(self) -> pa.Table:
        """Match what has all its neighbours by now, and measure what is certain."""
        failure = None
        try:
            self._match()
        except SkipError as error:  # LIMIT may have enough with what comes before it
            failure = error
        answer = self._measured()
        if failure is not None and not self.is_done:
            raise failure
        self._rows.drop_before(self._oldest_needed())
        return answer

    def _match(self) -> None:
        ended = self._is_finished
        first, ready = self._n_matched, self._rows.n_placed - (0 if ended else self._after)
        if self.is_done:
            self._n_matched = max(first, ready)
            return
        if ready > first:
            self._n_matched = ready
            before = min(self._program.rows_before, first)
            after = min(self._program.rows_after, self._rows.n_placed - ready)
            table = self._rows.between(first - before, ready + after)
            prepared = self._program.prepare(encode_strings(table), before=before, after=after)
            self._matcher.push(prepared, first)
        if ended:
            self._matcher.finish()

    def _measured(self) -> pa.Table:
        """Return the rows of the answer that are certain, and count them off LIMIT and OFFSET."""
        query, n_inner = self._query, 0

        def inner() -> Iterator[pa.Table]:
            nonlocal n_inner
            for part in wanted_parts(query, self._program, self._certain()):
                for table in answer_parts(
                    query,
                    self._program,
                    part,
                    self._fetch,
                    n_events=self._rows.n_placed,
                    faults=self._faults,
                ):
                    n_inner += table.num_rows
                    yield table

        outer = query.outer
        if outer is not None:  # OFFSET is counted off below
            limit = None if outer.limit is None else outer.offset + outer.limit
            query = replace(query, outer=replace(outer, limit=limit, offset=0))
        answer = pa.concat_tables(to_rows(query, inner(), self._faults))
        return self._counted(answer, n_inner)

    def _counted(self, answer: pa.Table, n_inner: int) -> pa.Table:
        query, outer = self._query, self._query.outer
        if query.limit is not None:
            query = replace(query, limit=max(0, query.limit - n_inner))
        if outer is not None:
            kept = answer.slice(outer.offset, outer.limit)
            offset = max(0, outer.offset - answer.num_rows)
            limit = None if outer.limit is None else outer.limit - kept.num_rows
            query, answer = replace(query, outer=replace(outer, limit=limit, offset=offset)), kept
        self._query = query
        return answer

    def _certain(self) -> Iterator[Matches]:
        return iter(()) if self.is_done else self._matcher.batches()

    def _fetch(self, columns: list[str], seqs: IntArray) -> pa.Table:
        return encode_strings(self._rows.at(columns, seqs))

    def _oldest_needed(self) -> int:
        """Return the first row that PREV, or a match still undecided, may read."""
        if self.is_done:
            return self._n_matched
        open_seq = self._matcher.open_seq
        oldest = self._n_matched if open_seq is None else min(open_seq, self._n_matched)
        return oldest - max(self._before, self._program.rows_before)

    def state(self) -> State:
        """Return all state, for `take_over` of an operator made for the same query."""
        outer = self._query.outer
        return {
            "n_matched": self._n_matched,
            "is_finished": self._is_finished,
            "n_faults": self._faults.count,
            "limit": self._query.limit,
            "outer_limit": None if outer is None else outer.limit,
            "outer_offset": 0 if outer is None else outer.offset,
            "rows": self._rows.state(),
            "matcher": self._matcher.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from a state; what this operator had seen is forgotten."""
        self._matcher = new_matcher(self._program)
        self._matcher.take_over(state["matcher"])
        self._rows.restore(state["rows"])
        self._n_matched, self._is_finished = state["n_matched"], state["is_finished"]
        self._faults = Faults()
        self._faults.count = state["n_faults"]
        outer = self._query.outer
        if outer is not None:
            outer = replace(outer, limit=state["outer_limit"], offset=state["outer_offset"])
        self._query = replace(self._query, limit=state["limit"], outer=outer)


def _reach(query: BoundPatternQuery) -> tuple[int, int]:
    """Return how far before and after the rows of a match its conditions and measures look."""
    measures = [measure.expression for measure in query.measures]
    defines = [define for define in query.defines if define is not None]
    parts = (part for expression in (*defines, *measures) for part in walk(expression))
    offsets = [p.offset for p in parts if isinstance(p, Attribute | Classifier)]
    return max(0, *(-offset for offset in offsets), 0), max(0, *offsets, 0)


def checked(events: Any, schema: pa.Schema, time: str, *, last_time: int | None) -> pa.Table:
    """Return what an online query reads of the events pushed to it.

    Raises a SchemaError if a column is missing or has another type, or events have no time or go
    back in time.
    """
    table = to_table(events, what="what is pushed")
    there = set(table.column_names)
    missing = [name for name in schema.names if name not in there]
    if missing:
        raise SchemaError(f"the events have no column '{missing[0]}', which the query reads")
    chosen = table.select(schema.names)
    if not chosen.schema.equals(schema, check_metadata=True):  # a cast takes longer than the rest
        chosen = _cast(chosen, schema)
    times = chosen.column(time)
    if times.null_count:
        raise SchemaError(f"{times.null_count} events have no time; filter them out first")
    values = to_int64(times, name=time).to_numpy()
    if not is_ascending(values) or (
        last_time is not None and len(values) and values[0] < last_time
    ):
        raise SchemaError(
            f"the events go back in time in column '{time}'; an online query takes them in order "
            "of time"
        )
    return chosen


def _cast(events: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return events in the types of a stream; SchemaError if a stream would not store them so."""
    if not normalise_schema(events.schema).equals(schema):
        raise SchemaError(
            f"the events are {_types(events.schema)}, and the query was made for "
            f"{_types(schema)}; cast them first"
        )
    try:
        return events.cast(schema)
    except pa.ArrowInvalid as error:  # a time in seconds may lie beyond all microseconds
        raise SchemaError(f"an event does not fit the query: {error}") from error


def _types(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {sql_type(field.type)}" for field in schema)
