"""Queries on their way: what gives tables, what they pass through, and what that took."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from costmodel.parameters import CostParameters
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import IndexResult, bytes_of, look_up
from replay.engines.scan import INLINE_EVENTS, Reading, Scan
from replay.engines.source import EventSource, OnceRead, TableSource
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.joins.run import JoinRun
from replay.language.bound import WindowAggregation, attributes
from replay.language.required_columns import columns_of_pattern
from replay.operators.outer_pieces import Gap, Operator, run_through
from replay.patterns.answer import ResultBuilder
from replay.patterns.key_filter import KeyFilter
from replay.patterns.local import kept_if_small
from replay.patterns.ordered import OrderedSource
from replay.patterns.over_filter import PASSES, FilteredPattern, FilteredSource
from replay.patterns.partition_neighbours import find_beside
from replay.patterns.plan import plan_pattern
from replay.patterns.program import compile_program
from replay.planning.block_ranges import all_blocks, count_events
from replay.planning.plan import Plan
from replay.planning.statistics import IntArray
from replay.query_plan import AnyPlan, FlowPlan
from replay.running.arguments import check_replayed
from replay.running.catalog import Catalog
from replay.running.statement import STATEMENTS_CACHED, Statement
from replay.running.steps import Chain
from replay.windows.plan import WindowPlan
from replay.windows.tree.run import TreeRun


class Flow(Protocol):
    """Rows that come as tables, in order, when they are asked for."""

    @property
    def plan(self) -> AnyPlan | None:
        """How they are found; None for a table in memory."""
        ...

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows, at least one table; may be asked once."""
        ...

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        ...


@dataclass(slots=True, eq=False)
class TableFlow:
    """A table in memory, filtered."""

    source: TableSource
    reading: Reading
    plan: None = None
    _scan: Scan | None = field(default=None, init=False)

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last time; None without rows, or where no column is known to be the time."""
        return self.source.span

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows that pass."""
        self._scan = Scan(self.source, all_blocks(self.source.n_blocks), self.reading)
        return self._scan.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        return _scanned(self.source, self._scan)


@dataclass(slots=True, eq=False)
class StreamFlow:
    """A version of a stream, filtered by a plan.

    Attributes
    ----------
    snapshot, statistics
        What is read, and what planning knows of it.
    plan
        How its events are found.
    reading
        What is handed on.
    """

    snapshot: Snapshot
    statistics: SnapshotStatistics
    plan: Plan
    reading: Reading
    _scan: Scan | None = field(default=None, init=False)
    _found: ExecutionStats = field(default_factory=ExecutionStats, init=False)

    def look(self, seconds_max: float = math.inf) -> IndexResult:
        """Carry out the plan's lookups, see `look_up`."""
        found = look_up(self.plan, self.statistics, seconds_max=seconds_max)
        self.plan = found.plan
        return found

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows that pass."""
        found = self.look()
        blocks = found.stretches.blocks
        self._found = found.work + bytes_of(self.snapshot, blocks, self.reading.all_columns)
        self._scan = Scan(self.snapshot, blocks, self.reading)
        yield from self._scan.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        warnings = ExecutionStats(warnings=self.statistics.faults)
        return _scanned(self.snapshot, self._scan) + self._found + warnings


def _scanned(source: EventSource, scan: Scan | None) -> ExecutionStats:
    total = ExecutionStats(n_blocks_total=source.n_blocks, n_rows_total=source.n_events)
    return total if scan is None else total + _done(scan)


def _done(scan: Scan) -> ExecutionStats:
    return ExecutionStats(
        n_blocks=scan.n_blocks,
        n_rows=scan.n_rows,
        n_faults=scan.n_faults,
        read_s=scan.seconds_read,
    )


@dataclass(slots=True, eq=False)
class ClassFlow:
    """A version of a stream replayed through the operator of a class of query.

    Attributes
    ----------
    stream
        What is replayed, without a condition.
    operator
        What its rows pass through; it is told of the gaps between those that are read.
    """

    stream: StreamFlow
    operator: Chain
    _scans: list[Scan] = field(default_factory=list, init=False)
    _found: ExecutionStats = field(default_factory=ExecutionStats, init=False)

    @property
    def plan(self) -> Plan:
        """The plan, as it was carried out as soon as it was."""
        return self.stream.plan

    def look(self, seconds_max: float = math.inf) -> IndexResult:
        """Carry out the plan's lookups, see `look_up`."""
        return self.stream.look(seconds_max)

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield what the operator makes of it."""
        snapshot, reading = self.stream.snapshot, self.stream.reading
        found = self.look()
        blocks = found.stretches.blocks
        self._found = found.work + bytes_of(snapshot, blocks, reading.all_columns)
        nothing = np.empty((0, 2), np.int64)
        yield from self.operator.push(next(Scan(snapshot, nothing, reading).tables()))
        at = 0
        for first, stop in [*blocks.tolist(), (snapshot.n_blocks,) * 2]:
            if first > at:
                bases, t_max = snapshot.bases, snapshot.leaves.t_max
                gap = Gap(int(bases[at]), int(bases[first]), int(t_max[first - 1]))
                yield from self.operator.skip(gap)
            self._scans.append(Scan(snapshot, np.array([[first, stop]]), reading))
            for table in self._scans[-1].tables():
                yield from self.operator.push(table)
                if self.operator.is_done:
                    break
            at = stop
        yield from self.operator.finish()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        snapshot, statistics = self.stream.snapshot, self.stream.statistics
        done = (
            ExecutionStats(warnings=statistics.faults, n_faults=self.operator.n_faults)
            + self._found
        )
        for scan in self._scans:
            done += _done(scan)
        return done + _scanned(snapshot, None)


@dataclass(slots=True, eq=False)
class OperatorFlow:
    """Rows that pass through an operator.

    Attributes
    ----------
    inner
        Where they come from.
    operator
        What they pass through.
    name
        What the operator does, in a few words; None: as the plan of the rows says.
    chosen
        How it does it, where that was chosen.
    """

    inner: Flow
    operator: Operator
    name: str | None = None
    chosen: WindowPlan | None = None

    @property
    def plan(self) -> AnyPlan | None:
        """The plan, as it was carried out as soon as it was."""
        below = self.inner.plan
        if self.name is None or below is None:
            return below
        return FlowPlan(self.name, (below,), self.chosen)

    def tables(self) -> Iterator[pa.Table]:
        """Yield what the operator makes of the inner rows, asking for no more than it needs."""
        return run_through(self.operator, self.inner.tables())

    def work(self) -> ExecutionStats:
        """Return what was done so far, the operator's faults among it."""
        return self.inner.work() + ExecutionStats(n_faults=self.operator.n_faults)


@dataclass(slots=True, eq=False)
class TreeFlow:
    """Windows of a version of a stream, aggregated from its tree."""

    snapshot: Snapshot
    what: WindowAggregation
    plan: WindowPlan
    faults: tuple[str, ...]
    told_max: int | None = None
    """How many windows there may be to tell; None: any number."""
    _run: TreeRun | None = field(default=None, init=False)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer."""
        self._run = TreeRun(self.snapshot, self.what, self.plan, told_max=self.told_max)
        return self._run.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        total = ExecutionStats(
            n_blocks_total=self.snapshot.n_blocks,
            n_rows_total=self.snapshot.n_events,
            warnings=self.faults,
        )
        if self._run is None:
            return total
        done = self._run.work
        return total + ExecutionStats(
            n_blocks=done.n_blocks,
            n_rows=done.n_rows,
            n_faults=done.n_faults,
            read_s=done.seconds_read,
            byte_counters=(self._run.count_bytes,),
        )


@dataclass(slots=True, eq=False)
class JoinInput:
    """One side of a join; see ``engines.joins.JoinSide``."""

    flow: Flow
    snapshot: Snapshot | None
    statistics: SnapshotStatistics | None
    _tables: Iterator[pa.Table] | None = field(default=None, init=False)
    _first: pa.Table | None = field(default=None, init=False)

    @property
    def schema(self) -> pa.Schema:
        """Columns of its rows."""
        if self._first is None:
            self._tables = self.flow.tables()
            self._first = next(self._tables)
        return self._first.schema

    def tables(self) -> Iterator[pa.Table]:
        """Yield its rows."""
        return chain([self._first], self._tables) if self._tables else self.flow.tables()


@dataclass(slots=True, eq=False)
class JoinFlow:
    """A join of two sides."""

    run: JoinRun
    sides: tuple[JoinInput, ...]

    @property
    def plan(self) -> AnyPlan | None:
        """The plan of the join with those below it; None where all is in memory."""
        below = [side.flow.plan for side in self.sides if side.snapshot is None]
        plans = tuple(plan for plan in below if plan is not None)
        if plans:
            return FlowPlan("join", plans, self.run.plan)
        is_stored = any(side.snapshot is not None for side in self.sides)
        return self.run.plan if is_stored else None

    def tables(self) -> Iterator[pa.Table]:
        """Yield the pairs."""
        return self.run.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far, by the join and below it."""
        own = self.run.work()
        for side in self.sides:
            if side.snapshot is None:
                own += side.flow.work()
            elif side.statistics is not None:
                own += ExecutionStats(warnings=side.statistics.faults)
        return own


def open_pattern(catalog: Catalog, statement: Statement, requested: str) -> AnyPatternFlow:
    """Return the flow of a row pattern over a stream of a catalog.

    Parameters
    ----------
    catalog
        Where the stream comes from.
    statement
        The pattern.
    requested
        The plan asked for.

    Raises
    ------
    PlanError
        If the plan cannot apply to it.
    """
    name = statement.bound.stream
    snapshot = catalog.snapshot(name)
    if snapshot is None:
        check_replayed(requested, ("auto", "full"))
        return TablePatternFlow(catalog.table(name), name, statement)
    statistics = statistics_of(snapshot)
    plan = _planned(statement, statistics, requested, statistics.parameters)
    return PatternFlow(snapshot, statistics, statement, plan, is_adaptive=requested == "auto")


@lru_cache(STATEMENTS_CACHED)
def _planned(
    statement: Statement,
    statistics: SnapshotStatistics,
    requested: str,
    parameters: CostParameters,
) -> Plan:
    return plan_pattern(statement.bound, statistics, requested=requested, parameters=parameters)


def clear_planned_patterns() -> None:
    """Forget plans of patterns over streams."""
    _planned.cache_clear()


@dataclass(slots=True, eq=False)
class PatternFlow:
    """A row pattern over a version of a stream.

    Attributes
    ----------
    snapshot, statistics
        What is read, and what planning knows of it.
    statement
        The pattern.
    plan
        How its candidates are found.
    is_adaptive
        Whether everything may be read where that turns out to be quicker.
    """

    snapshot: Snapshot
    statistics: SnapshotStatistics
    statement: Statement
    plan: Plan
    is_adaptive: bool
    _builder: ResultBuilder | None = field(default=None, init=False)
    _found: ExecutionStats = field(default_factory=ExecutionStats, init=False)

    def look(self, seconds_max: float = math.inf) -> IndexResult:
        """Carry out the plan's lookups, see `look_up`."""
        found = look_up(self.plan, self.statistics, seconds_max=seconds_max)
        self.plan = found.plan
        return found

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows of the answer as they are found."""
        bound, program = self.statement.bound, self.statement.program
        found = self.look()
        blocks = found.stretches.blocks
        source, keys = self._source_of(blocks), self._key_filter(found)
        self._found, beside = found.work, None
        everything = all_blocks(self.snapshot.n_blocks)
        if any(program.beside) and not (keys is None and np.array_equal(blocks, everything)):
            beside, work = find_beside(
                self.snapshot,
                source,
                program,
                self.plan,
                self.statistics,
                blocks,
                keys,
                is_adaptive=self.is_adaptive,
            )
            self._found += work
            if beside is None:
                blocks, keys = everything, None
                source = self._source_of(blocks)
        self._found += bytes_of(self.snapshot, blocks, program.columns)
        spans = found.stretches.rows
        self._builder = ResultBuilder(source, bound, program, blocks, keys, beside, spans)
        yield from self._builder.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        total = ExecutionStats(warnings=self.statistics.faults)
        return total + self._found + answered(self.snapshot, self._builder)

    def _source_of(self, stretches: IntArray) -> EventSource:
        """Return where to read: small replays keep what they read for the measures."""
        snapshot, bound = self.snapshot, self.statement.bound
        source: EventSource = snapshot
        if bound.order_by:
            times = snapshot.leaves.t_min, snapshot.leaves.t_max
            source = OrderedSource(snapshot, times, time=bound.time, order_by=bound.order_by)
        n_events = count_events(stretches, snapshot.bases)
        return kept_if_small(source, bound, self.statement.program, n_events)

    def _key_filter(self, found: IndexResult) -> KeyFilter | None:
        """Return what tells the rows of candidates' keys from others, where candidates have one."""
        spans = found.stretches.keys
        if spans is None:
            return None
        column, values = found.lookups.keys_at(spans.examples)
        return KeyFilter(column, values, spans, self.statement.bound.time)


@dataclass(slots=True, eq=False)
class TablePatternFlow:
    """A row pattern over a table in memory.

    Attributes
    ----------
    table, name
        What is matched, and what it is called in messages.
    statement
        The pattern.
    """

    table: pa.Table
    name: str
    statement: Statement
    plan: None = None
    _source: TableSource | None = field(default=None, init=False)
    _builder: ResultBuilder | None = field(default=None, init=False)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer as they are found."""
        bound = self.statement.bound
        self._source = source = TableSource(
            self.table,
            columns_of_pattern(bound),
            time=bound.time,
            name=self.name,
            order_by=bound.order_by,
        )
        blocks = all_blocks(source.n_blocks)
        self._builder = ResultBuilder(source, bound, self.statement.program, blocks)
        yield from self._builder.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        return ExecutionStats() if self._source is None else answered(self._source, self._builder)


AnyPatternFlow = PatternFlow | TablePatternFlow


def answered(source: EventSource, builder: ResultBuilder | None) -> ExecutionStats:
    """Return what reading and matching took so far, of all there is; None: they have not begun."""
    total = ExecutionStats(n_blocks_total=source.n_blocks, n_rows_total=source.n_events)
    if builder is None:
        return total
    replayed = builder.replayed
    return total + ExecutionStats(
        n_blocks=replayed.n_blocks,
        n_rows=replayed.n_rows,
        n_faults=builder.n_faults,
        read_s=replayed.seconds_read,
    )


@dataclass(slots=True, eq=False)
class FilteredPatternFlow:
    """A row pattern over the events of a version of a stream that pass a condition.

    Attributes
    ----------
    snapshot, statistics
        What is read, and what planning knows of it.
    pattern
        The pattern and the condition.
    plan
        How its candidates are found.
    """

    snapshot: Snapshot
    statistics: SnapshotStatistics
    pattern: FilteredPattern
    plan: Plan
    _builder: ResultBuilder | None = field(default=None, init=False)
    _filtered: FilteredSource | None = field(default=None, init=False)
    _found: ExecutionStats = field(default_factory=ExecutionStats, init=False)

    def look(self, seconds_max: float = math.inf) -> IndexResult:
        """Carry out the plan's lookups, see `look_up`."""
        found = look_up(self.plan, self.statistics, seconds_max=seconds_max)
        self.plan = found.plan
        return found

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows of the answer."""
        found = self.look()
        blocks = found.stretches.blocks
        query = self.pattern.carried_out
        program = compile_program(query)
        self._filtered = FilteredSource(self.snapshot, self.pattern.where)
        source: EventSource = self._filtered
        if count_events(blocks, self.snapshot.bases) <= INLINE_EVENTS:
            source = OnceRead(source, columns_of_pattern(query))
        named = {attribute.name for attribute in attributes(self.pattern.where)}
        columns = sorted({*program.columns, *named} - {PASSES})
        self._found = found.work + bytes_of(self.snapshot, blocks, columns)
        self._builder = ResultBuilder(source, query, program, blocks)
        yield from self._builder.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        n_faults = 0 if self._filtered is None else self._filtered.n_faults
        total = ExecutionStats(n_faults=n_faults, warnings=self.statistics.faults)
        return total + self._found + answered(self.snapshot, self._builder)
