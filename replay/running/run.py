"""A query opened where its streams are, ready to run; what it gives, and what that took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import pyarrow as pa

from chronicle import Store, StreamSettings
from chronicle.compile_time import clock
from chronicle.errors import StorageError
from chronicle.frames import to_table
from chronicle.schema import normalise_schema
from chronicle.settings import Lineage
from replay.engines.execution_stats import ExecutionStats
from replay.errors import QueryError
from replay.language.bound import BoundCreate
from replay.language.syntax import PatternQuery, streams_of
from replay.limits import TOLD_MAX, check_limits
from replay.query_plan import AnyPlan, FlowPlan
from replay.result import Actual, Result, Seconds
from replay.running.arguments import (
    AsOf,
    Tables,
    check_params,
    check_plan,
    check_query,
    check_source,
    check_threads,
    check_unversioned,
)
from replay.running.catalog import (
    Catalog,
    StoreCatalog,
    TableCatalog,
    WithoutEvents,
    catalog_of_store,
)
from replay.running.flows import Flow, OperatorFlow, PlannedFlow, TablePatternFlow
from replay.running.select import Opener
from replay.running.statement import Parameters, alone, bind_over, parse, prepare

EXPLAIN_SECONDS = 1.0
"""Seconds that lookups may take where only an explanation is wanted."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query as it was asked, and when."""

    sql: str
    params: Parameters
    plan: str
    started: float
    told_max: int | None = TOLD_MAX
    """How many windows an aggregation may have to tell; None: any number."""
    threads: int = 1
    """How many threads DuckDB may use, where it runs a part."""
    is_analyzed: bool = False
    """Whether DuckDB is to tell afterwards what its part took, for which it runs it again."""

    def __post_init__(self) -> None:
        check_plan(self.plan)
        check_params(self.params)
        check_threads(self.threads)


class Question(Protocol):
    """A query as it was asked, in the engine that answers it."""

    def catalog(self, source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Catalog:
        """Return the streams it reads."""
        ...

    def run(self, catalog: Catalog) -> Run:
        """Return it opened, ready to run."""
        ...

    def explained(self, catalog: Catalog, seconds: float) -> AnyPlan:
        """Return how it would run; lookups are carried out for so many seconds."""
        ...

    def schema(self, catalog: Catalog) -> pa.Schema:
        """Return the columns of its answer."""
        ...


@dataclass(frozen=True, slots=True)
class OurQuestion:
    """A query in our language."""

    asked: QueryRequest

    def catalog(self, source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Catalog:
        """Return the streams it reads."""
        return open_catalog(source, self.asked.sql, as_of, tables)

    def run(self, catalog: Catalog) -> Run:
        """Return it bound and planned."""
        return open_run(catalog, self.asked)

    def entered(self, catalog: Catalog) -> Run | None:
        """Return it as `run` does, so that it takes part in what is done for several queries.

        See `Shared`; None: it is of no class of which that would be.
        """
        if not isinstance(parse(self.asked.sql), PatternQuery):
            return None
        return open_run(catalog, replace(self.asked, started=clock()))

    def explained(self, catalog: Catalog, seconds: float) -> AnyPlan:
        """Return its plan, with the steps that lead to it."""
        return self.run(catalog).explained(seconds)

    def schema(self, catalog: Catalog) -> pa.Schema:
        """Return the columns of its answer, by answering it over streams without events."""
        empty = WithoutEvents.of(catalog, streams_of(parse(self.asked.sql)))
        return next(open_run(empty, replace(self.asked, plan="auto")).flow.tables()).schema


def open_catalog(
    source: Store | Tables, sql: str, as_of: AsOf | None, tables: Tables | None = None
) -> Catalog:
    """Return the streams of a query, of a store each at one version, and ``tables`` beside them.

    Raises a PlanError for a version of tables in memory, and for one number of more than one
    stream.
    """
    check_query(sql)
    check_source(source)
    names = streams_of(parse(sql)) if isinstance(source, Store) else ()
    return catalog_of(source, names, as_of, tables)


def catalog_of(
    source: Store | Tables,
    names: Sequence[str],
    as_of: AsOf | None,
    tables: Tables | None = None,
) -> Catalog:
    """Return the streams of these names, and tables beside them; see `open_catalog`."""
    beside = _to_tables(tables or {})
    if isinstance(source, Store):
        return catalog_of_store(source, names, as_of, beside)
    check_unversioned(as_of)
    return TableCatalog({**_to_tables(source), **beside})


def _to_tables(tables: Tables) -> dict[str, pa.Table]:
    return {name: to_table(table, what=f"table '{name}'") for name, table in tables.items()}


def open_run(catalog: Catalog, asked: QueryRequest) -> Run:
    """Bind and plan a query."""
    parsed = parse(asked.sql)
    described = alone(parsed, catalog.describe)
    if described is not None:
        statement = prepare(asked.sql, *described, asked.params)
        flow = Opener(catalog, asked.plan).open_statement(statement)
        return Run(flow, catalog.warnings, asked.started, clock(), None, asked.sql)
    bound = bind_over(asked.sql, catalog.describe, asked.params)
    create = bound if isinstance(bound, BoundCreate) else None
    query = bound.query if isinstance(bound, BoundCreate) else bound
    opener = Opener(catalog, asked.plan, asked.told_max)
    flow = opener.open_query(query) if create is None else opener.open_below(query)
    return Run(flow, catalog.warnings, asked.started, clock(), create, asked.sql)


@dataclass(frozen=True, slots=True)
class Run:
    """A query that is ready to run."""

    flow: Flow
    warnings: tuple[str, ...]
    """What was left out of its streams."""
    started: float
    """The instant at which it came."""
    planned: float
    """The instant at which it was planned."""
    create: BoundCreate | None
    """The stream its answer is to become; None: it is given back."""
    sql: str | None = None
    """Its text."""

    def begun(self) -> Run:
        """Return it as if it had been planned just now."""
        now = clock()
        return replace(self, started=now - (self.planned - self.started), planned=now)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer as they are found, at least one table.

        Raises a LimitExceededError if the query is beyond a limit it was given.
        """
        n_rows = 0
        for table in self.flow.tables():
            n_rows += table.num_rows
            check_limits(n_rows)
            yield table

    def explained(self, seconds_max: float) -> AnyPlan:
        """Return the plan with the steps that it takes within some seconds.

        Steps of a join's sides are not taken: which sides are looked up is told by what is found.
        """
        flow, told = self.flow, None
        while isinstance(flow, OperatorFlow):
            told = told or flow.aggregation
            flow = flow.inner
        if isinstance(flow, PlannedFlow):
            with suppress(StorageError):  # what cannot be read is for the query to complain of
                flow.explain(seconds_max)
        if isinstance(flow, TablePatternFlow):
            told = flow.aggregation
        in_memory = FlowPlan("full replay of a table in memory", (), aggregation=told)
        return self.flow.plan or in_memory

    def share(self) -> tuple[int, int]:
        """Return how many blocks were read so far, and of how many, as far as it is known."""
        reads = self.flow.work().reads
        return sum(read.n_read for read in reads), sum(read.n_planned for read in reads)

    def result(self) -> Result:
        """Run, and return all rows with what happened."""
        return self.to_result(pa.concat_tables(self.tables()))

    def to_result(self, table: pa.Table) -> Result:
        """Return a result that says what was done until now."""
        work = ExecutionStats(warnings=self.warnings) + self.flow.work()
        ended = clock()
        actual = Actual(
            blocks_read=work.n_blocks,
            blocks_total=work.n_blocks_total,
            entries_read=work.n_entries,
            rows_replayed=work.n_rows,
            rows_total=work.n_rows_total,
            candidates=work.n_candidates,
            intervals=work.n_intervals,
            faults=work.n_faults,
            counts=work.counts,
            warnings=work.warnings,
            switched=work.switched,
            seconds=Seconds(
                plan=self.planned - self.started,
                index=work.index_s,
                read=work.read_s,
                match=max(0.0, ended - self.planned - work.index_s - work.read_s),
                total=ended - self.started,
            ),
            count_bytes=lambda: sum(count() for count in work.byte_counters),
            reads=work.reads,
            found=work.found,
        )
        return Result(table, self.flow.plan, actual, sql=self.sql)


def create_stream(catalog: Catalog, run: Run, create: BoundCreate, asked: QueryRequest) -> Result:
    """Run a query and keep its answer as a new stream; nothing is left behind where it fails.

    ``asked`` is the query as it was asked, for the stream's lineage. The result has one row: the
    stream, how many events it has, and its version.
    """
    if not isinstance(catalog, StoreCatalog):
        raise QueryError(
            "CREATE STREAM makes a stream of a store, and these are tables in memory; open or "
            "create a store and append them to it"
        )
    from chronicle.write.materialise import materialise  # no other query writes

    tables = run.tables()
    first = next(tables)
    batches = (batch for table in chain([first], tables) for batch in table.to_batches())
    stream = materialise(
        catalog.store,
        create.name,
        batches,
        schema=normalise_schema(first.schema),
        settings=StreamSettings(time=create.time),
        lineage=_lineage_of(asked, catalog),
    )
    snapshot = stream.snapshot()
    row = {"stream": create.name, "events": snapshot.n_events, "version": snapshot.version}
    return run.to_result(pa.Table.from_pylist([row]))


def _lineage_of(asked: QueryRequest, catalog: StoreCatalog) -> Lineage:
    """Return what an answer is made from: the text, the versions read, the parameters."""
    texts = {name: str(value) for name, value in asked.params.items()}
    return Lineage(asked.sql.strip().rstrip(";"), dict(catalog.versions), texts)
