"""The entry points: a query over a store or over tables in memory, and its explanation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from chronicle import Snapshot, Store, Stream
from chronicle.errors import CorruptBlockError, StreamNotFoundError
from chronicle.lost import check_not_vacuumed, lost_file
from replay.engines.local import INLINE_EVENTS, ReplayOutcome, replay
from replay.engines.source import EventSource, OnceRead, TableSource, fetch_events
from replay.engines.statistics import IndexPhase, SnapshotStatistics, look_up, statistics_of
from replay.errors import NotSupportedError, PlanError
from replay.language import bind, parse_query
from replay.language.bound import BoundPatternQuery, attributes
from replay.language.syntax import Query
from replay.operators.measures import evaluate_measures
from replay.operators.program import MatchProgram, compile_program
from replay.operators.scalars import Faults
from replay.planning.block_ranges import all_blocks, count_events
from replay.planning.explain import to_json, to_text
from replay.planning.intervals import replay_stretches
from replay.planning.plan import Plan, PlanKind
from replay.planning.planner import choose_plan
from replay.result import Actual, Result, Seconds

Tables = Mapping[str, pa.Table]
Parameters = Mapping[str, object]
AsOf = int | dt.datetime | str
"""A version of a stream: its number, or a time; see ``chronicle.Stream.snapshot``."""

STATEMENTS_CACHED = 256
"""Bound and compiled queries kept per process, as databases keep prepared statements."""


def query(
    source: Store | Tables,
    sql: str,
    *,
    params: Parameters | None = None,
    plan: str = "auto",
    engine: str = "local",
    as_of: AsOf | None = None,
    skip_damaged: bool = False,
) -> Result:
    """Answer a query over history.

    Every plan gives the same answer; they differ in what they read.

    Parameters
    ----------
    source
        A store, or tables in memory by name (always replayed in full).
    sql
        The query, see ``docs/queries.md``.
    params
        Values of the query's parameters (``:name``).
    plan
        ``auto``, ``full``, ``tree``, ``all``, or ``indexes=A.price,C``.
    engine
        ``local``; no other yet.
    as_of
        Version of the stream to answer on, the newest by default: its number; or a time, as
        ``datetime`` or ISO 8601 text, for the latest version committed at or before it. A time
        without a zone is UTC.
    skip_damaged
        Whether to leave out data files that cannot be read and to answer as if their events had
        never been. What was left out is said in ``actual.warnings``.

    Returns
    -------
    Result
        The rows in canonical order, the plan, and what happened.

    Raises
    ------
    QueryError
        If the query cannot be read, bound or answered.
    PlanError
        If the named plan cannot apply to the query.
    StorageError
        If the store, the stream, the version or a data file is missing or damaged.
    """
    started = perf_counter()
    if engine != "local":
        raise NotSupportedError(f"engine '{engine}' is not supported yet; use engine='local'")
    parsed = _parse(sql)
    if isinstance(source, Store):
        asked = _Asked(sql, params or {}, plan, started)
        return _query_stream(source.stream(parsed.stream), asked, as_of, skip_damaged)
    if as_of is not None:
        raise PlanError("as_of names a version of a store; tables in memory have none")
    return _query_table(source, parsed, sql, params or {}, plan, started)


class Explanation:
    """A plan and its rivals, without having run it.

    Attributes
    ----------
    plan
        The plan that would be carried out.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation with the stable keys of ``docs/queries.md``."""
        return to_json(self.plan, None)

    def __str__(self) -> str:
        return to_text(self.plan, None)


def explain(
    store: Store,
    sql: str,
    *,
    params: Parameters | None = None,
    plan: str = "auto",
    as_of: AsOf | None = None,
) -> Explanation:
    """Return the plan a query would take and its rivals, without reading an event.

    Parameters, plans and errors are those of :func:`query`.
    """
    parsed = _parse(sql)
    snapshot = store.stream(parsed.stream).snapshot(as_of)
    statement = _prepare(sql, snapshot.schema, snapshot.settings.time, params or {})
    return Explanation(_plan(statement, statistics_of(snapshot), plan))


@lru_cache(STATEMENTS_CACHED)
def _parse(sql: str) -> Query:
    return parse_query(sql)


@dataclass(frozen=True, eq=False)
class _Statement:
    """A query bound to a schema and compiled; equal only to itself, which makes it a cheap key."""

    bound: BoundPatternQuery
    program: MatchProgram


def _prepare(sql: str, schema: pa.Schema, time: str | None, params: Parameters) -> _Statement:
    """Bind and compile, or take both from the statement cache."""
    # The type is part of the key: 1, 1.0 and True are equal but bind differently.
    given = tuple(sorted((name, type(value), value) for name, value in params.items()))
    try:
        hash(given)
    except TypeError:  # a list or the like, which binding refuses by name
        return _prepare_cached.__wrapped__(sql, schema, time, given)
    return _prepare_cached(sql, schema, time, given)


@lru_cache(STATEMENTS_CACHED)
def _prepare_cached(
    sql: str,
    schema: pa.Schema,
    time: str | None,
    params: tuple[tuple[str, type, object], ...],
) -> _Statement:
    values = {name: value for name, _, value in params}
    bound = bind(_parse(sql), schema, time=time, text=sql, params=values)
    return _Statement(bound, compile_program(bound))


@lru_cache(STATEMENTS_CACHED)
def _plan(statement: _Statement, statistics: SnapshotStatistics, requested: str) -> Plan:
    """Plan, or take the plan made before for this statement on this snapshot."""
    return choose_plan(statement.bound, statistics, requested=requested)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query as it was asked, and when."""

    sql: str
    params: Parameters
    plan: str
    started: float


def _query_stream(stream: Stream, asked: _Asked, as_of: AsOf | None, skip_damaged: bool) -> Result:
    """Answer on one version, without the data files found unreadable on the way if so asked."""
    version = stream.version_of(as_of)
    lost: dict[str, str] = {}
    while True:
        try:
            snapshot = stream.snapshot(version, without=frozenset(lost))
            return _query_snapshot(snapshot, asked, tuple(lost.values()))
        except CorruptBlockError as error:
            check_not_vacuumed(stream, version, error)
            name = Path(error.path).name
            if not skip_damaged or name in lost:
                raise
            lost[name] = str(lost_file(stream, version, error))


def _query_snapshot(snapshot: Snapshot, asked: _Asked, lost: tuple[str, ...]) -> Result:
    started = asked.started
    statement = _prepare(asked.sql, snapshot.schema, snapshot.settings.time, asked.params)
    bound, program = statement.bound, statement.program
    statistics = statistics_of(snapshot)
    chosen = _plan(statement, statistics, asked.plan)
    planned = perf_counter()
    indexed = look_up(chosen, statistics)
    if chosen.kind is PlanKind.FULL:
        stretches = chosen.stretches
        n_candidates = n_intervals = 0
    else:
        found = replay_stretches(chosen, indexed.occurrences, bound, statistics)
        stretches, n_candidates, n_intervals = found.blocks, found.n_candidates, found.n_intervals
    looked_up = perf_counter()
    source = _source_of(snapshot, bound, stretches)
    outcome = replay(source, program, stretches, limit=bound.limit)
    answer = _materialise(source, bound, program, outcome)
    actual = Actual(
        blocks_read=outcome.n_blocks,
        blocks_total=snapshot.n_blocks,
        entries_read=indexed.n_entries_read,
        rows_replayed=outcome.n_rows,
        rows_total=snapshot.n_events,
        candidates=n_candidates,
        intervals=n_intervals,
        faults=outcome.n_faults + answer.n_faults,
        warnings=(*lost, *statistics.faults),
        seconds=Seconds(
            plan=planned - started,
            index=looked_up - planned,
            read=outcome.seconds_read,
            match=outcome.seconds_match + answer.seconds,
            total=perf_counter() - started,
        ),
        count_bytes=_byte_counter(snapshot, stretches, program, indexed),
    )
    return Result(answer.table, chosen, actual)


def _source_of(
    snapshot: Snapshot, bound: BoundPatternQuery, stretches: np.ndarray[Any, Any]
) -> EventSource:
    """Return where to read: small replays keep what they read for the measures."""
    is_small = count_events(stretches, snapshot.bases) <= INLINE_EVENTS
    return OnceRead(snapshot, _columns(bound)) if is_small else snapshot


def _byte_counter(
    snapshot: Snapshot, stretches: np.ndarray[Any, Any], program: MatchProgram, indexed: IndexPhase
) -> Callable[[], int]:
    def count() -> int:
        ranges = [np.arange(first, last) for first, last in stretches.tolist()]
        blocks = np.concatenate(ranges) if ranges else np.empty(0, dtype=np.int64)
        return snapshot.block_bytes(blocks, list(program.columns)) + indexed.n_bytes_read

    return count


def _query_table(
    tables: Tables, parsed: Query, sql: str, params: Parameters, plan: str, started: float
) -> Result:
    if parsed.stream not in tables:
        raise StreamNotFoundError(parsed.stream, candidates=tables)
    if plan not in ("auto", "full"):
        raise PlanError(
            f"plan '{plan}' needs a store with tree and indexes; a table in memory is replayed in "
            "full (plan 'auto' or 'full')"
        )
    table = tables[parsed.stream]
    statement = _prepare(sql, table.schema, None, params)
    bound, program = statement.bound, statement.program
    source = TableSource(table, _columns(bound), time=bound.time, name=parsed.stream)
    planned = perf_counter()
    outcome = replay(source, program, all_blocks(source.n_blocks), limit=bound.limit)
    answer = _materialise(source, bound, program, outcome)
    actual = Actual(
        blocks_read=outcome.n_blocks,
        blocks_total=source.n_blocks,
        entries_read=0,
        rows_replayed=outcome.n_rows,
        rows_total=source.n_events,
        candidates=0,
        intervals=0,
        faults=outcome.n_faults + answer.n_faults,
        warnings=(),
        seconds=Seconds(
            plan=planned - started,
            index=0.0,
            read=outcome.seconds_read,
            match=outcome.seconds_match + answer.seconds,
            total=perf_counter() - started,
        ),
    )
    return Result(answer.table, None, actual)


def _columns(bound: BoundPatternQuery) -> list[str]:
    """Return every column a query reads, the time column among them."""
    expressions = [*bound.defines, *(measure.expression for measure in bound.measures)]
    named = {attribute.name for expression in expressions for attribute in attributes(expression)}
    return sorted({*named, *bound.partition_by, bound.time})


@dataclass(frozen=True, slots=True)
class _Answer:
    """The rows of an answer, and what evaluating its measures took."""

    table: pa.Table
    n_faults: int
    seconds: float


def _materialise(
    source: EventSource, bound: BoundPatternQuery, program: MatchProgram, outcome: ReplayOutcome
) -> _Answer:
    """Evaluate the measures of the matches that are wanted."""
    started = perf_counter()
    matches = outcome.matches
    if bound.limit is not None:
        matches = matches.head(bound.limit)

    def fetch(columns: list[str], seqs: np.ndarray[Any, Any]) -> pa.Table:
        return fetch_events(source, columns, seqs)

    faults = Faults()
    table = evaluate_measures(
        bound, program, matches, fetch, n_events=source.n_events, faults=faults
    )
    return _Answer(table, faults.count, perf_counter() - started)
