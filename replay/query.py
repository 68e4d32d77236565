"""The entry points: a query over a store or over tables in memory, and its explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from chronicle import Snapshot, Store, Stream
from chronicle.errors import CorruptBlockError, StreamNotFoundError
from chronicle.lost import check_not_vacuumed, lost_file
from costmodel.parameters import CostParameters
from indexing import clear_answers
from replay.engines.answer import Answering
from replay.engines.found import Found, bytes_of, look_up
from replay.engines.key_filter import KeyFilter
from replay.engines.local import kept_if_small
from replay.engines.ordered import OrderedSource
from replay.engines.source import EventSource, TableSource, columns_read
from replay.engines.statistics import (
    SnapshotStatistics,
    clear_statistics,
    statistics_of,
)
from replay.engines.work import Work
from replay.errors import NotSupportedError, PlanError, QueryError
from replay.language.bound import BoundPatternQuery
from replay.language.bound_select import BoundCreate
from replay.language.select_syntax import streams_of
from replay.language.syntax import Identifier, PatternQuery
from replay.operators.program import compile_program
from replay.planning.block_ranges import all_blocks, count_events
from replay.planning.plan import Plan
from replay.planning.planner import choose_plan
from replay.planning.telling import AnyPlan, to_json, to_text
from replay.result import Result
from replay.running.arguments import AsOf, Tables, check_arguments, check_engine, check_unversioned
from replay.running.binding import bind_over, clear_bound
from replay.running.catalog import Catalog, StoreCatalog, TableCatalog, catalog_of_store
from replay.running.creation import create_stream, lineage_of
from replay.running.flows import Flow, FlowRun, StartedFlow, to_result
from replay.running.select import Opener, clear_planned
from replay.running.statement import (
    STATEMENTS_CACHED,
    Parameters,
    Statement,
    clear_statements,
    parse,
    prepare,
)


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
        ``auto``, ``full``, ``tree``, ``all``, or ``indexes=A.price,C``; of windows ``replay`` and
        ``tree-naive``, too.
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
    check_arguments(source, sql)
    asked = _Asked(sql, params or {}, plan, perf_counter())
    check_engine(engine)
    stream = _matched_stream(sql)
    if stream is None:
        return _query_flow(source, asked, as_of, skip_damaged)
    if isinstance(source, Store):
        return _query_stream(source.stream(stream), asked, as_of, skip_damaged)
    check_unversioned(as_of)
    return _run_on_table(source, stream, asked).result()


def batches(
    source: Store | Tables,
    sql: str,
    *,
    params: Parameters | None = None,
    plan: str = "auto",
    engine: str = "local",
    as_of: AsOf | None = None,
) -> pa.RecordBatchReader:
    """Answer a query piece by piece, for answers larger than memory.

    Rows come as they are found, and only as far as they are asked for. Parameters and errors are
    those of :func:`query`; errors of matching are raised where the reader meets them.

    Returns
    -------
    pyarrow.RecordBatchReader
        The rows in canonical order.
    """
    check_arguments(source, sql)
    asked = _Asked(sql, params or {}, plan, perf_counter())
    check_engine(engine)
    run: _Run | FlowRun
    stream = _matched_stream(sql)
    if stream is None:
        run = _run_flow(_catalog(source, sql, as_of), asked)
        if run.create is not None:
            raise NotSupportedError("CREATE STREAM gives no rows to read; run it by replay.query")
    elif isinstance(source, Store):
        run = _run_on_snapshot(source.stream(stream).snapshot(as_of), asked, ())
    else:
        check_unversioned(as_of)
        run = _run_on_table(source, stream, asked)
    tables = run.tables()
    first = next(tables)
    pieces = (batch for table in chain([first], tables) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, pieces)


def _matched_stream(sql: str) -> str | None:
    """Return the stream of a row pattern over a stream; None for a query of any other kind."""
    parsed = parse(sql)
    if isinstance(parsed, PatternQuery) and isinstance(parsed.source, Identifier):
        return parsed.source.name
    return None


class Explanation:
    """A plan and its rivals, without having run it.

    Attributes
    ----------
    plan
        The plan that would be carried out.
    """

    def __init__(self, plan: AnyPlan) -> None:
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
    """Return the plan a query would take and its rivals, without running it.

    Parameters, plans and errors are those of :func:`query`.
    """
    stream = _matched_stream(sql)
    if stream is None:
        asked = _Asked(sql, params or {}, plan, perf_counter())
        return Explanation(_run_flow(_catalog(store, sql, as_of), asked).plan_of_store)
    snapshot = store.stream(stream).snapshot(as_of)
    statement = prepare(sql, snapshot.schema, snapshot.settings.time, params or {})
    return Explanation(_plan(statement, statistics_of(snapshot), plan))


def _plan(statement: Statement, statistics: SnapshotStatistics, requested: str) -> Plan:
    """Plan, or take the plan made before for this statement on this snapshot."""
    return _cached_plan(statement, statistics, requested, statistics.parameters)


@lru_cache(STATEMENTS_CACHED)
def _cached_plan(
    statement: Statement,
    statistics: SnapshotStatistics,
    requested: str,
    parameters: CostParameters,
) -> Plan:
    return choose_plan(statement.bound, statistics, requested=requested, parameters=parameters)


def clear_caches() -> None:
    """Forget queries bound before, their plans, and the answers of lookups.

    What was read of a store's trees and runs is kept: a query asked again is planned and looked
    up anew, as another query on the same store would be.
    """
    clear_statements()
    clear_bound()
    clear_planned()
    _cached_plan.cache_clear()
    clear_statistics()
    clear_answers()


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
            return _run_on_snapshot(snapshot, asked, tuple(lost.values())).result()
        except CorruptBlockError as error:
            check_not_vacuumed(stream, version, error)
            name = Path(error.path).name
            if not skip_damaged or name in lost:
                raise
            lost[name] = str(lost_file(stream, version, error))


@dataclass(frozen=True, slots=True)
class _Run:
    """A query that is ready to be replayed, and what it took to get there."""

    answering: Answering
    source: EventSource
    plan: Plan | None
    looked_up: Work
    warnings: tuple[str, ...]
    started: float
    planned: float

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer as they are found, at least one table."""
        return self.answering.tables()

    def work(self) -> Work:
        """Return what was read so far, as a part of a larger query."""
        replayed = self.answering.replayed
        return self.looked_up + Work(
            n_blocks=replayed.n_blocks,
            n_blocks_total=self.source.n_blocks,
            n_rows=replayed.n_rows,
            n_rows_total=self.source.n_events,
            n_faults=self.answering.n_faults,
            warnings=self.warnings,
            read_s=replayed.seconds_read,
        )

    def result(self) -> Result:
        """Replay, and return all rows with what happened."""
        table = pa.concat_tables(self.answering.tables())
        return to_result(table, self.plan, self.work(), started=self.started, planned=self.planned)


def _run_on_snapshot(snapshot: Snapshot, asked: _Asked, lost: tuple[str, ...]) -> _Run:
    statement = prepare(asked.sql, snapshot.schema, snapshot.settings.time, asked.params)
    return _run_statement(snapshot, statement, asked, lost)


def _run_statement(
    snapshot: Snapshot, statement: Statement, asked: _Asked, lost: tuple[str, ...]
) -> _Run:
    bound, program = statement.bound, statement.program
    statistics = statistics_of(snapshot)
    chosen = _plan(statement, statistics, asked.plan)
    planned = perf_counter()
    found = look_up(chosen, bound, statistics, is_adaptive=asked.plan == "auto")
    blocks = found.stretches.blocks
    source = _source_of(snapshot, statement, blocks)
    return _Run(
        Answering(source, bound, program, blocks, _key_filter(found, bound)),
        source,
        chosen,
        looked_up=found.work + bytes_of(snapshot, blocks, program.columns),
        warnings=(*lost, *statistics.faults),
        started=asked.started,
        planned=planned,
    )


def _key_filter(found: Found, bound: BoundPatternQuery) -> KeyFilter | None:
    """Return what tells the rows of candidates' keys from others, where candidates have one."""
    spans = found.stretches.spans
    if spans is None:
        return None
    column, values = found.lookups.keys_at(spans.examples)
    return KeyFilter(column, values, spans, bound.time)


def _source_of(
    snapshot: Snapshot, statement: Statement, stretches: np.ndarray[Any, Any]
) -> EventSource:
    """Return where to read: small replays keep what they read for the measures."""
    bound = statement.bound
    source: EventSource = snapshot
    if bound.order_by:
        leaves = snapshot.leaves
        source = OrderedSource(snapshot, leaves, time=bound.time, order_by=bound.order_by)
    n_events = count_events(stretches, snapshot.bases)
    return kept_if_small(source, bound, statement.program, n_events)


def _run_on_table(tables: Tables, name: str, asked: _Asked) -> _Run:
    if name not in tables:
        raise StreamNotFoundError(name, candidates=tables)
    if asked.plan not in ("auto", "full"):
        raise PlanError(
            f"plan '{asked.plan}' needs a store with tree and indexes; a table in memory is "
            "replayed in full (plan 'auto' or 'full')"
        )
    table = tables[name]
    statement = prepare(asked.sql, table.schema, None, asked.params)
    return _run_statement_on_table(table, name, statement, asked)


def _run_statement_on_table(
    table: pa.Table, name: str, statement: Statement, asked: _Asked
) -> _Run:
    bound = statement.bound
    source = TableSource(
        table, columns_read(bound), time=bound.time, name=name, order_by=bound.order_by
    )
    planned = perf_counter()
    return _Run(
        Answering(source, bound, statement.program, all_blocks(source.n_blocks)),
        source,
        None,
        looked_up=Work(),
        warnings=(),
        started=asked.started,
        planned=planned,
    )


# ---------------------------------------------------------------------------------------------
# Queries of other kinds: filters, windows, joins, and what is composed of them


def _catalog(source: Store | Tables, sql: str, as_of: AsOf | None) -> Catalog:
    if isinstance(source, Store):
        return catalog_of_store(source, streams_of(parse(sql)), as_of)
    check_unversioned(as_of)
    return TableCatalog(source)


def _query_flow(
    source: Store | Tables, asked: _Asked, as_of: AsOf | None, skip_damaged: bool
) -> Result:
    """Answer on one version of each stream, without files found unreadable if so asked."""
    catalog = _catalog(source, asked.sql, as_of)
    while True:
        run = _run_flow(catalog, asked)
        try:
            if run.create is not None:
                return _create(catalog, run, run.create, asked)
            return run.result()
        except CorruptBlockError as error:
            assert isinstance(catalog, StoreCatalog), "a table in memory has no files"
            catalog.leave_out(error, may_skip=skip_damaged)


def _run_flow(catalog: Catalog, asked: _Asked) -> FlowRun:
    bound = bind_over(asked.sql, catalog.describe, asked.params)

    def pattern(query: BoundPatternQuery) -> Flow:
        return _pattern_flow(catalog, query, asked)

    query = bound.query if isinstance(bound, BoundCreate) else bound
    flow = Opener(catalog, asked.plan, pattern).open_query(query)
    create = bound if isinstance(bound, BoundCreate) else None
    return FlowRun(flow, catalog.warnings, asked.started, perf_counter(), create)


def _create(catalog: Catalog, run: FlowRun, create: BoundCreate, asked: _Asked) -> Result:
    """Keep an answer as a stream; the result says so in a row."""
    if not isinstance(catalog, StoreCatalog):
        raise QueryError(
            "CREATE STREAM makes a stream of a store, and these are tables in memory; open or "
            "create a store and append them to it"
        )
    lineage = lineage_of(asked.sql, catalog, asked.params)
    made = create_stream(catalog, run, create.name, create.time, lineage)
    return run.to_result(made)


def _pattern_flow(catalog: Catalog, bound: BoundPatternQuery, asked: _Asked) -> StartedFlow:
    """Return a row pattern over a stream as a part of a larger query."""
    statement = Statement(bound, compile_program(bound))
    snapshot = catalog.snapshot(bound.stream)
    if snapshot is None:
        table = catalog.table(bound.stream)
        return StartedFlow(
            lambda: _run_statement_on_table(table, bound.stream, statement, asked), None
        )
    plan = _plan(statement, statistics_of(snapshot), asked.plan)
    return StartedFlow(lambda: _run_statement(snapshot, statement, asked, ()), plan)
