"""A row pattern over a filter on its way: its replay intervals read, its rows that pass matched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from chronicle import Snapshot
from replay.engines.answer import Answering
from replay.engines.found import bytes_of, look_up
from replay.engines.local import INLINE_EVENTS
from replay.engines.marked import MarkedSource
from replay.engines.source import EventSource, OnceRead
from replay.engines.statistics import SnapshotStatistics
from replay.engines.work import Work
from replay.language.bound import attributes
from replay.operators.program import compile_program
from replay.planning.block_ranges import count_events
from replay.planning.filtered_pattern import PASSES, FilteredPattern
from replay.planning.plan import Plan
from replay.planning.reads import columns_of_pattern
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
    is_adaptive
        Whether the plan may be left where lookups find it wrong.
    """

    snapshot: Snapshot
    statistics: SnapshotStatistics
    pattern: FilteredPattern
    plan: Plan
    is_adaptive: bool
    _answering: Answering | None = field(default=None, init=False)
    _marked: MarkedSource | None = field(default=None, init=False)
    _found: Work = field(default_factory=Work, init=False)

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows of the answer."""
        found = look_up(
            self.plan, self.pattern.planned, self.statistics, is_adaptive=self.is_adaptive
        )
        blocks = found.stretches.blocks
        query = self.pattern.carried_out
        program = compile_program(query)
        self._marked = MarkedSource(self.snapshot, self.pattern.where, PASSES)
        source: EventSource = self._marked
        if count_events(blocks, self.snapshot.bases) <= INLINE_EVENTS:
            source = OnceRead(source, columns_of_pattern(query))
        named = {attribute.name for attribute in attributes(self.pattern.where)}
        columns = sorted({*program.columns, *named} - {PASSES})
        self._found = found.work + bytes_of(self.snapshot, blocks, columns)
        self._answering = Answering(source, query, program, blocks)
        yield from self._answering.tables()

    def work(self) -> Work:
        """Return what was done so far."""
        n_faults = 0 if self._marked is None else self._marked.n_faults
        total = Work(n_faults=n_faults, warnings=self.statistics.faults)
        return total + self._found + answered(self.snapshot, self._answering)
