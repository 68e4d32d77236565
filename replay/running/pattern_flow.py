"""A row pattern over a stream on its way: its replay intervals looked up, read and matched."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from costmodel.parameters import CostParameters
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import IndexResult, bytes_of, look_up
from replay.engines.source import EventSource, TableSource
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.language.required_columns import columns_of_pattern
from replay.patterns.answer import ResultBuilder
from replay.patterns.key_filter import KeyFilter
from replay.patterns.local import kept_if_small
from replay.patterns.ordered import OrderedSource
from replay.patterns.partition_neighbours import find_beside
from replay.patterns.plan import plan_pattern
from replay.planning.block_ranges import all_blocks, count_events
from replay.planning.plan import Plan
from replay.planning.statistics import IntArray
from replay.running.arguments import check_replayed
from replay.running.catalog import Catalog
from replay.running.statement import STATEMENTS_CACHED, Statement


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
