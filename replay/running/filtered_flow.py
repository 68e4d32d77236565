"""A row pattern over a filter on its way: its replay intervals read, its rows that pass matched."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from chronicle import Snapshot
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import IndexResult, bytes_of, look_up
from replay.engines.scan import INLINE_EVENTS
from replay.engines.source import EventSource, OnceRead
from replay.engines.statistics import SnapshotStatistics
from replay.language.bound import attributes
from replay.language.required_columns import columns_of_pattern
from replay.patterns.answer import ResultBuilder
from replay.patterns.over_filter import PASSES, FilteredPattern, FilteredSource
from replay.patterns.program import compile_program
from replay.planning.block_ranges import count_events
from replay.planning.plan import Plan
from replay.running.pattern_flow import answered


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
