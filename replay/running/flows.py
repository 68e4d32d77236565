"""Queries on their way: what gives tables, what they pass through, and what that took."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.time import to_int64
from replay.engines.block_truth import NONE_PASS, classify_blocks
from replay.engines.evidence import BlocksRead, FoundSpans
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import IndexResult, bytes_of, look_up
from replay.engines.key_filter import KeyFilter
from replay.engines.partition_rows import RowsBefore
from replay.engines.scan import INLINE_EVENTS, Reading, Scan, decoded
from replay.engines.source import EventSource, KeptBlocks, OnceRead, TableSource, fetch_events
from replay.engines.statistics import SnapshotStatistics
from replay.language.bound import Aggregate, BoundPatternQuery, ScalarQuery
from replay.language.required_columns import columns_of_pattern
from replay.operators.outer_pieces import Alike, CountingOperator, Gap, Operator, run_through
from replay.patterns.answer import ResultBuilder, aggregation_of
from replay.patterns.known_rows import known_rows
from replay.patterns.local import kept_if_small
from replay.patterns.ordered import OrderedSource
from replay.patterns.over_filter import ComputedSource, FilteredPattern, columns_read
from replay.patterns.partition_neighbours import Looks, find_beside
from replay.patterns.program import compile_program, summed_as_pushed
from replay.planning.block_ranges import (
    all_blocks,
    count_events,
    no_blocks,
    parts_of,
    ranges_of,
    with_rows_before,
    without,
)
from replay.planning.plan import Plan, PlanKind
from replay.planning.requirements import Aggregation, AlikeBlocks, Details, Requirements
from replay.planning.statistics import IntArray
from replay.query_plan import AnyPlan, FlowPlan, OwnPlan
from replay.running.scalars import Given, decide_matches, given_by, nothing_of, with_values
from replay.running.statement import Statement
from replay.running.steps import Chain

if TYPE_CHECKING:
    from replay.patterns.together import AskedTogether, Together

KEPT_EVENTS: Final = 1 << 18
"""Events at most that are kept for aggregates over ranges of rows."""


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

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows that pass."""
        self._scan = Scan(self.source, all_blocks(self.source.n_blocks), self.reading)
        return self._scan.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        scans = () if self._scan is None else (self._scan,)
        return _scanned(_all_there_is(self.source), scans, None)


def _all_there_is(source: EventSource) -> ExecutionStats:
    return ExecutionStats(n_blocks_total=source.n_blocks, n_rows_total=source.n_events)


def _scanned(
    work: ExecutionStats, scans: Iterable[Scan], snapshot: Snapshot | None
) -> ExecutionStats:
    """Return the work with that of scans, of a stream's snapshot or a table in memory (None)."""
    for scan in scans:
        work += ExecutionStats(
            n_blocks=scan.n_blocks,
            n_rows=scan.n_rows,
            n_faults=scan.n_faults,
            read_s=scan.seconds_read,
            reads=()
            if snapshot is None
            else (BlocksRead(snapshot, scan.stretches, scan.n_blocks, scan.backward),),
        )
    return work


@dataclass(slots=True, eq=False)
class PlannedFlow:
    """What flows over a version of a stream have in common: a plan by which its events are found.

    The plan is the one that was carried out as soon as it was.
    """

    snapshot: Snapshot
    source: EventSource
    """Where its events are read."""
    statistics: SnapshotStatistics
    plan: Plan
    _found: ExecutionStats = field(default_factory=ExecutionStats, init=False)
    """What the lookups took."""

    def look(self, seconds_max: float = math.inf) -> IndexResult:
        """Carry out the plan's lookups, see `look_up`."""
        found = look_up(self.plan, self.statistics, seconds_max=seconds_max)
        self.plan = found.plan
        return found

    def explain(self, seconds_max: float) -> None:
        """Find out more of the plan than a query waits for."""
        self.look(seconds_max)

    def _work(self) -> ExecutionStats:
        """Return the lookups done so far, and how much there is to read."""
        warnings = ExecutionStats(warnings=self.statistics.faults)
        return _all_there_is(self.snapshot) + self._found + warnings


@dataclass(slots=True, eq=False)
class StreamFlow(PlannedFlow):
    """A version of a stream, filtered by a plan."""

    reading: Reading
    """What is handed on."""
    _scans: list[Scan] = field(default_factory=list, init=False)

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows that pass."""
        yield from self._scan(self._look_up(), self.reading).tables()

    def _look_up(self) -> IntArray:
        """Return the stretches of blocks that the lookups leave."""
        found = self.look()
        blocks = found.stretches.blocks
        self._found = found.work + bytes_of(self.snapshot, blocks, self.reading.all_columns)
        return blocks

    def _scan(self, blocks: IntArray, reading: Reading) -> Scan:
        self._scans.append(Scan(self.source, blocks, reading))
        return self._scans[-1]

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        return _scanned(self._work(), self._scans, self.snapshot)


@dataclass(slots=True, eq=False)
class ClassFlow(StreamFlow):
    """A version of a stream replayed through the operator of a class of query."""

    operator: Chain
    """What its rows pass through; it is told of the gaps between those that are read."""
    _before: RowsBefore | None = field(default=None, init=False)
    is_adaptive: bool = False
    """Whether everything may be read where that turns out to be quicker."""
    details: Callable[[Snapshot], Details] | None = None
    """What explain tells besides; None: what the plan has."""
    of_known: Callable[[Requirements, IndexResult], tuple[pa.Table, Chain]] | None = None
    """Gives rows that are known by entries alone, and what they pass through; None of a class that
    has no plan `index-only`."""
    _beside: dict[int, IntArray] = field(default_factory=dict, init=False)
    """The rows looked at before stretches, by the first block of each."""
    _kept: KeptBlocks | None = field(default=None, init=False)
    """Blocks at whose rows aggregates over ranges of rows begin or end."""

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield what the operator makes of it."""
        found = self.look()
        is_known = self.plan.kind is PlanKind.INDEX_ONLY
        yield from self._of_entries(found) if is_known else self._of_blocks(found)

    def _of_entries(self, found: IndexResult) -> Iterator[pa.Table]:
        """Yield what is made of rows of which lookups tell everything."""
        assert self.of_known is not None
        rows, self.operator = self.of_known(self.plan.required, found)
        self._found = found.work + ExecutionStats(n_rows=rows.num_rows)
        return run_through(self.operator, (rows,))

    def _of_blocks(self, found: IndexResult) -> Iterator[pa.Table]:
        """Yield what the operator makes of the blocks that lookups leave."""
        snapshot = self.snapshot
        required, columns = self.plan.required, self.reading.all_columns
        blocks = self._with_rows_beside(found.stretches.blocks)
        alike = None if self.plan.kind is PlanKind.FULL else required.alike
        read = blocks if alike is None else without(blocks, alike.mask)
        self._found += found.work + bytes_of(snapshot, read, columns)
        if required.row_before_by is not None:
            where = self.reading.where
            self._before = RowsBefore(snapshot, self.statistics, self.plan, columns, where)
        if alike is not None and self.reading.where is None:
            self._kept = KeptBlocks(self.source, columns, KEPT_EVENTS)
        yield from self.operator.push(self._scan(no_blocks(), self.reading).empty())
        at = 0
        for first, stop in [*blocks.tolist(), (snapshot.n_blocks,) * 2]:
            if first > at:
                yield from self.operator.skip(self._gap(at, first))
            stretch = max(at, first), stop
            yield from self._pushed(*stretch) if alike is None else self._told(alike, *stretch)
            if self.operator.is_done:
                break
            at = stop
        yield from self.operator.finish()

    def explain(self, seconds_max: float) -> None:
        """Find out more of the plan than a query waits for."""
        self.look(seconds_max)
        if self.details is not None:
            required = replace(self.plan.required, details=self.details(self.snapshot))
            self.plan = replace(self.plan, required=required)

    def _with_rows_beside(self, blocks: IntArray) -> IntArray:
        """Return the blocks to replay, with the rows that are looked at before each stretch.

        Where these are of its partitions, or pass a filter, they are found by themselves.
        """
        snapshot, required, where = self.snapshot, self.plan.required, self.reading.where
        n_before, everything = required.rows_beside[0], all_blocks(snapshot.n_blocks)
        if required.network is None or not (required.agreeing or where):
            return with_rows_before(blocks, n_before, snapshot.bases)
        if not n_before or not len(blocks) or np.array_equal(blocks, everything):
            return blocks
        (key,) = required.agreeing or (None,)
        looks = Looks(key, (n_before, 0), self.reading.all_columns, where)
        beside, self._found = find_beside(
            snapshot, self.source, looks, self.plan, self.statistics, blocks, None,
            is_adaptive=self.is_adaptive,
        )  # fmt: skip
        if beside is None:
            return everything
        rows = [beside.rows(i, i + 1) for i in range(len(blocks))]
        self._beside = dict(zip(blocks[:, 0].tolist(), rows, strict=True))
        return blocks

    def _pushed(self, first: int, stop: int) -> Iterator[pa.Table]:
        """Read blocks, and yield what the operator makes of their rows."""
        for _, table in self._scan(np.array([[first, stop]]), self.reading).units():
            yield from self.operator.push(table)
            if self.operator.is_done:
                break

    def _told(self, alike: AlikeBlocks, first: int, stop: int) -> Iterator[pa.Table]:
        """Read some of the blocks, and yield what the operator makes of all.

        LIMIT may have enough soon, so few are read at first.
        """
        bases, leaves = self.snapshot.bases, self.snapshot.leaves
        own = slice(first, stop)
        begins, ends = (first + parts_of(alike.mask[own], alike.goes_on[own])).T
        times = leaves.t_min[begins], leaves.t_max[ends - 1]
        parts = bases[begins], bases[ends], *times, alike.says[begins]
        read = first + ranges_of(~alike.mask[own])
        scan = self._scan(read, replace(self.reading, few=True, numbered=True))
        at = 0
        for blocks, events in chain(scan.units(), [(np.array([stop]), scan.empty())]):
            if self._kept is not None and events.num_rows:
                self._kept.keep(blocks, events)
            to = int(np.searchsorted(begins, blocks[-1]))
            if events.num_rows or to > at:
                told = Alike(self._aggregate, *(of[at:to] for of in parts))
                yield from self.operator.tell(events, told)
            at = to
            if self.operator.is_done:
                break

    def _aggregate(
        self, parts: tuple[Aggregate, ...], first: IntArray, stop: IntArray, until: IntArray
    ) -> pa.Table:
        """Return aggregates over rows, see `AggregateRanges`."""
        from replay.windows.tree.row_ranges import aggregate_rows, rows_until  # no other needs it

        assert self._kept is not None
        stop = np.minimum(stop, rows_until(self.snapshot, until, self._kept))
        names = [f"aggregate {i}" for i in range(len(parts))]
        return aggregate_rows(self.snapshot, parts, names, first, stop, self._kept)

    def _gap(self, first: int, stop: int) -> Gap:
        """Return what the operator is told of blocks that are not read."""
        bases, leaves = self.snapshot.bases, self.snapshot.leaves
        times = int(leaves.t_min[first]), int(leaves.t_max[stop - 1])
        asks = None if self._before is None else partial(self._before.before, stop)
        beside = None
        if stop in self._beside:
            columns = list(self.reading.columns)
            beside = decoded(fetch_events(self.snapshot, columns, self._beside[stop]))
        last = None if self.reading.where is None else partial(self._last_time, first)
        return Gap(int(bases[first]), int(bases[stop]), *times, asks, beside, last)

    def _last_time(self, first: int) -> int | None:
        """Return the time of the last event from a block on that passes; None if there is none."""
        reading, snapshot = self.reading, self.snapshot
        assert reading.time is not None
        assert reading.where is not None
        leaves = snapshot.leaves
        classes = classify_blocks((reading.where,), leaves.count, self.statistics.bounds)
        assert classes is not None, "of one condition"
        may = classes != NONE_PASS
        may[:first] = False
        last = Reading((reading.time,), reading.where, reading.time, backward=True, few=True)
        for _, table in self._scan(ranges_of(may), last).units():
            return int(to_int64(table.column(reading.time), name=reading.time)[-1].as_py())
        return None

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        done = ExecutionStats(n_faults=self.operator.n_faults, counts=self.operator.counts)
        work = StreamFlow.work(self) + done
        if self._kept is not None:
            blocks = np.array(self._kept.read, np.int64)
            once = np.unique(blocks)
            ranges = np.stack((once, once + 1), axis=1)
            n_rows = int(self.snapshot.leaves.count[blocks].sum())
            reads = (BlocksRead(self.snapshot, ranges, len(blocks)),)
            work += ExecutionStats(n_blocks=len(blocks), n_rows=n_rows, reads=reads)
            work += bytes_of(self.snapshot, ranges, self.reading.all_columns)
        return work if self._before is None else work + self._before.work


@dataclass(slots=True, eq=False)
class OperatorFlow:
    """Rows that pass through an operator."""

    inner: Flow
    operator: Operator
    name: str | None = None
    """What the operator does, in a few words; None: as the plan of the rows says."""
    chosen: OwnPlan | None = None
    """How it does it, where that was chosen."""
    pattern: BoundPatternQuery | None = None
    """The row pattern that it looks for, if it is one."""

    @property
    def plan(self) -> AnyPlan | None:
        """The plan, as it was carried out as soon as it was."""
        below = self.inner.plan
        if self.name is None or below is None:
            return below
        return FlowPlan(self.name, (below,), self.chosen, aggregation=self.aggregation)

    @property
    def aggregation(self) -> Aggregation | None:
        """How aggregates over every match of the pattern are found."""
        if self.pattern is None:
            return None
        return aggregation_of(self.pattern, summed_as_pushed(self.pattern))

    def tables(self) -> Iterator[pa.Table]:
        """Yield what the operator makes of the inner rows, asking for no more than it needs."""
        return run_through(self.operator, self.inner.tables())

    def work(self) -> ExecutionStats:
        """Return what was done so far, the operator's faults among it."""
        counts = self.operator.counts if isinstance(self.operator, CountingOperator) else {}
        done = ExecutionStats(n_faults=self.operator.n_faults, counts=counts)
        return self.inner.work().below() + done


@dataclass(slots=True, eq=False)
class ScalarFlow:
    """A row pattern whose measures or conditions read the values of other queries.

    The queries are asked once: for the rows, or where the plan depends on a value, for the plan.
    """

    query: BoundPatternQuery
    flows: Mapping[ScalarQuery, Flow]
    """Of each of these queries."""
    opened: Callable[[BoundPatternQuery], Flow]
    """Gives the flow of the pattern once they are known."""
    _planned: Flow | None = field(default=None, init=False)
    """The pattern's flow as far as its plan goes."""
    _values: Mapping[ScalarQuery, Given] | None = field(default=None, init=False)

    @property
    def plan(self) -> AnyPlan | None:
        """The plans of the pattern and of the queries."""
        plans = [flow.plan for flow in (self._pattern(), *self.flows.values())]
        known = tuple(plan for plan in plans if plan is not None)
        return FlowPlan("MATCH_RECOGNIZE with values of subqueries", known) if known else None

    def tables(self) -> Iterator[pa.Table]:
        """Ask the queries, and yield the rows of the pattern's answer."""
        self._planned = self.opened(with_values(self.query, self._asked()))
        yield from self._planned.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        done = ExecutionStats() if self._planned is None else self._planned.work()
        return sum((flow.work() for flow in self.flows.values()), done)

    def _pattern(self) -> Flow:
        """Return the pattern's flow, of which the plan is wanted."""
        if self._planned is None:
            if decide_matches(self.query):
                values = self._asked()
            else:
                values = {scalar: nothing_of(scalar) for scalar in self.flows}
            self._planned = self.opened(with_values(self.query, values))
        return self._planned

    def _asked(self) -> Mapping[ScalarQuery, Given]:
        """Return what the queries give."""
        if self._values is None:
            self._values = {
                scalar: given_by(flow.tables(), scalar) for scalar, flow in self.flows.items()
            }
        return self._values


@dataclass(slots=True, eq=False)
class PatternFlow(PlannedFlow):
    """A row pattern over a version of a stream."""

    statement: Statement
    is_adaptive: bool
    """Whether everything may be read where that turns out to be quicker."""
    together: Together | None = None
    """The queries that are asked at once; None: there are no others."""
    _asked: AskedTogether | None = field(default=None, init=False)
    _builder: ResultBuilder | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.together is not None and self.plan.kind is PlanKind.FULL:
            self._asked = self.together.enter(self.snapshot, self.statement.program)

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows of the answer as they are found."""
        found = self.look()
        is_known = self.plan.kind is PlanKind.INDEX_ONLY
        yield from self._of_entries(found) if is_known else self._of_blocks(found)

    def _of_entries(self, found: IndexResult) -> Iterator[pa.Table]:
        """Yield the answer, of which lookups tell everything."""
        bound = self.statement.bound
        rows, query = known_rows(bound, self.plan.required, found, self.snapshot.schema)
        # They stand in their order, whether they have times or not.
        source = TableSource(rows, rows.column_names, time=None, name=query.stream)
        blocks = all_blocks(source.n_blocks)
        self._found = found.work
        self._builder = ResultBuilder(source, query, compile_program(query), blocks)
        return self._builder.tables()

    def _of_blocks(self, found: IndexResult) -> Iterator[pa.Table]:
        """Yield the answer, from the blocks that lookups leave."""
        bound, program = self.statement.bound, self.statement.program
        blocks = found.stretches.blocks
        source, keys = self._source_of(blocks), self._key_filter(found)
        self._found, beside = found.work, None
        everything = all_blocks(self.snapshot.n_blocks)
        if any(program.beside) and not (keys is None and np.array_equal(blocks, everything)):
            (column,) = program.partition_by
            beside, work = find_beside(
                self.snapshot,
                source,
                Looks(column, program.beside, program.columns),
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
        goes_on = self.plan.is_of_symbols
        self._builder = ResultBuilder(
            source, bound, program, blocks, keys, beside, spans, goes_on=goes_on
        )
        if self._asked is not None:
            asked = partial(self._asked, lambda _: self._ordered())
            self._builder.replayed.asked_together = asked
        return self._builder.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        work = _matched(self._work(), self._builder, self.snapshot, self.statement.bound)
        if self.plan.kind is PlanKind.INDEX_ONLY:  # the rows are those of no block
            work = replace(work, n_blocks=0, reads=())
        return work

    def _source_of(self, stretches: IntArray) -> EventSource:
        """Return where to read: small replays keep what they read for the measures."""
        n_events = count_events(stretches, self.snapshot.bases)
        bound, program = self.statement.bound, self.statement.program
        return kept_if_small(self._ordered(), bound, program, n_events)

    def _ordered(self) -> EventSource:
        """Return the events in the order that the query asks for."""
        bound, leaves = self.statement.bound, self.snapshot.leaves
        if not bound.order_by:
            return self.source
        times = leaves.t_min, leaves.t_max
        return OrderedSource(self.source, times, time=bound.time, order_by=bound.order_by)

    def _key_filter(self, found: IndexResult) -> KeyFilter | None:
        """Return what tells the rows of candidates' keys from others, where candidates have one."""
        spans = found.stretches.keys
        if spans is None:
            return None
        column, values = found.lookups.keys_at(spans.examples)
        return KeyFilter(column, values, spans, self.statement.bound.time)


@dataclass(slots=True, eq=False)
class TablePatternFlow:
    """A row pattern over a table in memory."""

    table: pa.Table
    name: str
    """What the table is called in messages."""
    statement: Statement
    together: Together | None = None
    """The queries that are asked at once; None: there are no others."""
    new_source: Callable[..., TableSource] = TableSource
    plan: None = None
    _asked: AskedTogether | None = field(default=None, init=False)
    _source: TableSource | None = field(default=None, init=False)
    _builder: ResultBuilder | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.together is not None:
            self._asked = self.together.enter(self.name, self.statement.program)

    @property
    def aggregation(self) -> Aggregation | None:
        """How aggregates over every match of the pattern are found."""
        return aggregation_of(self.statement.plain, self.statement.program)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer as they are found."""
        bound = self.statement.bound
        self._source = source = self._with_columns(columns_of_pattern(bound))
        blocks = all_blocks(source.n_blocks)
        self._builder = ResultBuilder(source, bound, self.statement.program, blocks)
        if self._asked is not None:
            self._builder.replayed.asked_together = partial(self._asked, self._with_columns)
        yield from self._builder.tables()

    def _with_columns(self, columns: list[str]) -> TableSource:
        bound = self.statement.bound
        return self.new_source(
            self.table, columns, time=bound.time, name=self.name, order_by=bound.order_by
        )

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        total = ExecutionStats() if self._source is None else _all_there_is(self._source)
        return _matched(total, self._builder, self._source, self.statement.bound)


def _matched(
    work: ExecutionStats,
    builder: ResultBuilder | None,
    source: Snapshot | TableSource | None,
    query: BoundPatternQuery,
) -> ExecutionStats:
    """Return the work with that of reading and matching; no builder: they have not begun."""
    if builder is None or source is None:
        return work
    replayed, outer = builder.replayed, query.outer
    tells = outer is None or (outer.is_row_by_row and outer.where is None)
    reads: tuple[BlocksRead, ...] = ()
    if isinstance(source, Snapshot):
        reads = (BlocksRead(source, builder.stretches, replayed.n_blocks),)
    offset = (0 if outer is None else outer.offset) if tells else None
    return work + ExecutionStats(
        n_blocks=replayed.n_blocks,
        n_rows=replayed.n_rows,
        n_faults=builder.n_faults,
        read_s=replayed.seconds_read,
        reads=reads,
        found=(FoundSpans(source, query.time, builder.sample, offset),),
    )


@dataclass(slots=True, eq=False)
class FilteredPatternFlow(PlannedFlow):
    """A row pattern over the events of a version of a stream, with columns that are computed."""

    pattern: FilteredPattern
    """The pattern, and whether events pass."""
    _builder: ResultBuilder | None = field(default=None, init=False)
    _filtered: ComputedSource | None = field(default=None, init=False)

    def tables(self) -> Iterator[pa.Table]:
        """Look up what the plan says, and yield the rows of the answer."""
        found = self.look()
        blocks = found.stretches.blocks
        query = self.pattern.carried_out
        program = compile_program(query)
        computed = self.pattern.computed
        self._filtered = ComputedSource(self.source, computed)
        source: EventSource = self._filtered
        if count_events(blocks, self.snapshot.bases) <= INLINE_EVENTS:
            source = OnceRead(source, columns_of_pattern(query))
        columns = columns_read(program.columns, computed)
        self._found = found.work + bytes_of(self.snapshot, blocks, columns)
        goes_on = self.plan.is_of_symbols
        self._builder = ResultBuilder(source, query, program, blocks, goes_on=goes_on)
        yield from self._builder.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        n_faults = 0 if self._filtered is None else self._filtered.n_faults
        work = self._work() + ExecutionStats(n_faults=n_faults)
        return _matched(work, self._builder, self.snapshot, self.pattern.carried_out)
