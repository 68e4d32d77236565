"""From a bound query to the flow that answers it: which plan each part has, what follows what."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import pyarrow as pa

from chronicle import Snapshot
from costmodel.parameters import CostParameters
from replay.engines.index_phase import IndexResult
from replay.engines.scan import Reading
from replay.engines.source import TableSource
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.filters.requirements import FilteredEvents
from replay.language.aggregation import to_aggregation
from replay.language.answers import in_full
from replay.language.bound import (
    ROW_NUMBER,
    Attribute,
    BoundPatternQuery,
    BoundQuery,
    BoundSelect,
    DataType,
    Expression,
    JoinRelation,
    Literal,
    OneRow,
    Outer,
    Relation,
    SituationRelation,
    SortKey,
    StreamRelation,
    SubqueryRelation,
    WindowAggregation,
    Windows,
)
from replay.language.required_columns import (
    columns_of_outer,
    columns_of_query,
    columns_of_situations,
    columns_of_windows,
    in_stream_order,
    may_filter_first,
    pruned,
)
from replay.language.simplify import simplified
from replay.operators.outer_pieces import Operator, OuterOperator
from replay.patterns.known_rows import known_rows
from replay.patterns.over_filter import to_filtered_pattern
from replay.patterns.plan import plan_pattern
from replay.planning.named_plans import PREFIX
from replay.planning.plan import Plan, PlanKind
from replay.planning.requirements import Requirements
from replay.running.arguments import check_replayed
from replay.running.catalog import Catalog, TableCatalog
from replay.running.classes import ClassQuery, class_of, of_table, planned
from replay.running.flows import (
    ClassFlow,
    FilteredPatternFlow,
    Flow,
    OperatorFlow,
    PatternFlow,
    ScalarFlow,
    StreamFlow,
    TableFlow,
    TablePatternFlow,
)
from replay.running.scalars import scalar_queries
from replay.running.statement import STATEMENTS_CACHED, Statement, to_statement
from replay.running.steps import (
    BELOW,
    Chain,
    Enter,
    NumberCheck,
    aggregating,
    allowed_to_tell,
    finishing,
    matching,
    operators_of,
    situating,
)

TABLE_PLANS = ("auto", "full", "replay")
"""Plans of a table in memory, which is always replayed in full."""


_ONE_ROW = pa.table({"(row)": [0]})
"""What a SELECT without FROM reads; no name reaches its column, which says that there is a row."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Makes flows of the parts of one query; what only some kinds need is imported for these."""

    catalog: Catalog
    requested: str
    told_max: int | None = None
    """How many windows an aggregation may have to tell; None: any number."""

    def open_query(self, query: BoundQuery) -> Flow:
        """Return the flow of a query's answer."""
        if isinstance(query, BoundPatternQuery):
            return self._open_pattern(query)
        known = of_table(query)
        if known is not None:
            return self._open_class(known)
        if isinstance(query.source, StreamRelation):
            what = to_aggregation(query)
            if what is not None:
                return self._open_aggregation(query.source, what)
            return self._open_filter(query.source, query.outer)
        below = self  # windows over rows are aggregated by replay, whatever is asked
        if self.requested == "replay" and query.outer.group_by is not None:
            below = replace(self, requested="auto")
        # Windows are formed by all rows, those that fail WHERE among them.
        where = query.outer.where if query.windows is None else None
        inner = below._open_relation(query.source, columns_of_query(query), where)
        return _over(_words_of(query), inner, operators_of(query, told_max=self.told_max))

    def open_below(self, query: BoundQuery) -> Flow:
        """Return the flow of a query's answer that others compute with."""
        flow = self.open_query(query)
        if not isinstance(query, BoundPatternQuery) or query.outer is None:
            return flow
        return OperatorFlow(flow, NumberCheck(query, BELOW))

    def _open_pattern(self, query: BoundPatternQuery) -> Flow:
        """Return the matches of a row pattern over a stream, a filter, or any subquery."""
        scalars = scalar_queries(query)
        if scalars:
            below = replace(self, requested="full" if self.requested == "full" else "auto")
            flows = {scalar: below.open_below(simplified(scalar.query)) for scalar in scalars}
            return ScalarFlow(query, flows, self._open_pattern)
        if query.windows is not None:
            return self._open_windowed(query)
        if query.source is None or isinstance(query.source, StreamRelation):
            return self.open_statement(to_statement(query))
        filtered = to_filtered_pattern(query) if self.requested != "full" else None
        if filtered is not None:
            snapshot = self.catalog.snapshot(filtered.planned.stream)
            if snapshot is not None:
                statistics = statistics_of(snapshot)
                plan = _planned_pattern(
                    filtered.planned, statistics, self.requested, statistics.parameters
                )
                if plan.kind is not PlanKind.FULL:
                    return FilteredPatternFlow(
                        snapshot, self.catalog.source(snapshot), statistics, plan, filtered
                    )
        inner = self._open_relation(query.source, columns_of_query(query), None)
        return _over("MATCH_RECOGNIZE over a subquery", inner, operators_of(query), query)

    def open_statement(self, statement: Statement) -> Flow:
        """Return the matches of a row pattern over a stream."""
        if statement.plain.windows is not None:
            return self._open_windowed(statement.plain)
        name, shared = statement.bound.stream, self.catalog.shared
        together = None if shared is None else shared.together
        snapshot = self.catalog.snapshot(name)
        if snapshot is None:
            check_replayed(self.requested, ("auto", "full"))
            table = self.catalog.table(name)
            return TablePatternFlow(table, name, statement, together, self._new_source)
        statistics = statistics_of(snapshot)
        plan = _planned_pattern(statement, statistics, self.requested, statistics.parameters)
        is_adaptive = self.requested == "auto"
        source = self.catalog.source(snapshot)
        return PatternFlow(snapshot, source, statistics, plan, statement, is_adaptive, together)

    def _open_windowed(self, query: BoundPatternQuery) -> Flow:
        """Return the matches of a row pattern in windows, which are matched one after the other."""
        if query.source is not None and not isinstance(query.source, StreamRelation):
            inner = self._open_relation(query.source, columns_of_query(query), None)
            words = "MATCH_RECOGNIZE in windows of a subquery"
            return _over(words, inner, operators_of(query), query)
        columns = columns_of_query(query)
        snapshot = self.catalog.snapshot(query.stream)
        if snapshot is None:
            stream = StreamRelation(query.stream, (), query.time)
            inner = self._read_table(stream, Reading(columns, time=query.time))
            operators = matching(query, enter=self._enter(query.stream))
            return _over("MATCH_RECOGNIZE in windows", inner, operators, query)
        statistics = statistics_of(snapshot)
        plan = _planned_pattern(query, statistics, self.requested, statistics.parameters)
        enter = self._enter(snapshot) if plan.kind is PlanKind.FULL else None
        operators = matching(query, first=snapshot.t_min, enter=enter)
        reading = Reading(columns, time=query.time)
        source = self.catalog.source(snapshot)
        return ClassFlow(
            snapshot, source, statistics, plan, reading, Chain(operators),
            of_known=partial(_windows_of_known, query, snapshot),
        )  # fmt: skip

    def _enter(self, of: Hashable) -> Enter | None:
        shared = self.catalog.shared
        return None if shared is None else partial(shared.together.enter_windows, of)

    def _open_filter(self, stream: StreamRelation, outer: Outer) -> Flow:
        """Return the events of a stream that pass a WHERE, projected, ordered and cut."""
        outer, backward = in_stream_order(outer, stream.time)
        wanted = None
        if outer.is_row_by_row and outer.limit is not None:
            wanted = outer.offset + outer.limit
        columns = columns_of_outer(replace(outer, where=None))
        reading = Reading(
            columns=_at_least_one(columns, stream, with_time=backward),
            where=outer.where,
            time=stream.time,
            backward=backward,
            few=wanted is not None,
        )
        inner = self._read(stream, reading, limit=wanted)
        return OperatorFlow(inner, OuterOperator(replace(outer, where=None)))

    def _open_aggregation(self, source: StreamRelation, what: WindowAggregation) -> Flow:
        """Return windows of a stream's events, aggregated from its tree or by replay."""
        snapshot = self.catalog.snapshot(source.name)
        if snapshot is None:
            inner = self._open_aggregated(source, what, self.requested)
            steps = aggregating(
                _unfiltered(what), span=_span_of_table(inner), told_max=self.told_max
            )
            words = f"window aggregation by replay{_counted_from(what.windows, source)}"
            return _over(words, inner, steps)
        from replay.running.tree_flow import TreeFlow
        from replay.windows.plan import Way
        from replay.windows.tree.planning import window_plan

        statistics = statistics_of(snapshot)
        by_blocks = self.requested in ("full", "all") or self.requested.startswith(PREFIX)
        asked = "replay" if by_blocks else self.requested
        chosen = window_plan(what, snapshot, asked, parameters=statistics.parameters)
        if chosen.way is not Way.REPLAY:
            told_max = allowed_to_tell(what, self.told_max)
            flow = TreeFlow(snapshot, what, chosen, statistics.faults, told_max)
            return OperatorFlow(flow, Chain(finishing(what)))
        inner = self._open_aggregated(source, what, self.requested if by_blocks else "auto")
        steps = aggregating(_unfiltered(what), span=_span(snapshot), told_max=self.told_max)
        return OperatorFlow(inner, Chain(steps), "window aggregation by replay", chosen)

    def _open_aggregated(
        self, source: StreamRelation, what: WindowAggregation, requested: str
    ) -> Flow:
        """Return the events that are aggregated; where it may be, those that pass WHERE."""
        rest = _unfiltered(what)
        where = what.where if rest is not what else None
        reading = Reading(
            _at_least_one(columns_of_windows(rest), source),
            where,
            time=source.time,
            encoded=True,
        )
        return replace(self, requested=requested)._read(source, reading)

    def _open_relation(
        self, relation: Relation, columns: tuple[str, ...], where: Expression | None
    ) -> Flow:
        """Return the rows of a relation, with at least some columns.

        ``where`` is what is asked of its rows afterwards: a relation may leave out others.
        """
        if isinstance(relation, OneRow):
            source = TableSource(_ONE_ROW, _ONE_ROW.column_names, time=None, name="one row")
            return TableFlow(source, Reading(tuple(_ONE_ROW.column_names)))
        if isinstance(relation, StreamRelation):
            return self._read(relation, Reading(_at_least_one(columns, relation), where))
        if isinstance(relation, SubqueryRelation):
            below = pruned(relation, columns)
            return _in_order(self.open_below(below.query), below)
        if isinstance(relation, SituationRelation):
            return self._open_situations(relation, where)
        return self._open_join(relation, columns, where)

    def _open_situations(self, relation: SituationRelation, where: Expression | None) -> Flow:
        """Return the matches of a temporal pattern over a stream, a filter, or any subquery.

        Those that fail ``where`` may be left out.
        """
        from replay.situations.network import why_never
        from replay.situations.sources import to_situation_query

        never = why_never(relation)
        if never is not None:
            nothing = Literal(False, DataType.BOOLEAN)
            below = replace(self, requested="auto")
            inner = below._open_relation(relation.source, columns_of_situations(relation), nothing)
            return _over(f"nothing to match: {never}", inner, situating(relation))
        query = to_situation_query(relation, where)
        if query is not None and (query.where is None or self._is_planned(query)):
            return self._open_class(query)
        inner = self._open_relation(relation.source, columns_of_situations(relation), None)
        return _over("situations of a subquery's rows", inner, situating(relation))

    def _is_planned(self, query: ClassQuery) -> bool:
        """Return whether less than everything may do for a pattern over a filter.

        Else only the events that pass are read.
        """
        snapshot = self.catalog.snapshot(query.stream.name)
        if snapshot is None:
            return False
        statistics = statistics_of(snapshot)
        return class_of(query).requirements(query, statistics).only_full is None

    def _open_join(
        self, join: JoinRelation, columns: tuple[str, ...], where: Expression | None
    ) -> Flow:
        """Return the pairs of a join; sides that are no streams of a store are read in full."""
        from replay.joins.run import JoinRun, JoinSide
        from replay.running.join_flow import JoinFlow

        flows: list[Flow] = []
        below = replace(self, requested="full" if self.requested == "full" else "auto")

        def open_side(relation: Relation, names: tuple[str, ...]) -> JoinSide:
            snapshot = None
            if isinstance(relation, StreamRelation):
                snapshot = self.catalog.snapshot(relation.name)
            flows.append(below._open_relation(relation, names, None))
            if snapshot is None:
                return JoinSide(flows[-1].tables, None, None)
            source = self.catalog.source(snapshot)
            return JoinSide(flows[-1].tables, snapshot, statistics_of(snapshot), source)

        if isinstance(self.catalog, TableCatalog):
            check_replayed(self.requested, TABLE_PLANS)
        run = JoinRun(join, open_side, where=where, columns=columns, requested=self.requested)
        return JoinFlow(run, tuple(flows))

    def _read(self, stream: StreamRelation, reading: Reading, limit: int | None = None) -> Flow:
        """Return the events of a stream that pass a condition, by the plan asked for."""
        return self._open_class(FilteredEvents(stream, reading, limit))

    def _open_class(self, query: ClassQuery) -> Flow:
        """Return the flow of a query of the table of classes."""
        stream, kind = query.stream, class_of(query)
        reading, operators = kind.reading(query), kind.operators(query)
        snapshot = self.catalog.snapshot(stream.name)
        if snapshot is None:
            inner = self._read_table(stream, reading)
            return OperatorFlow(inner, Chain(operators)) if operators else inner
        statistics = statistics_of(snapshot)
        plan = planned(query, statistics, self.requested, statistics.parameters)
        source = self.catalog.source(snapshot)
        if not operators:
            return StreamFlow(snapshot, source, statistics, plan, reading)
        chain, is_adaptive = Chain(operators), self.requested == "auto"
        details = partial(kind.details, query)
        return ClassFlow(snapshot, source, statistics, plan, reading, chain, is_adaptive, details)

    def _read_table(self, stream: StreamRelation, reading: Reading) -> Flow:
        check_replayed(self.requested, TABLE_PLANS)
        table = self.catalog.table(stream.name)
        named = {stream.time} - {None} | set(reading.first_columns) | set(reading.columns)
        columns = [name for name in table.column_names if name in named]
        source = self._new_source(table, columns, time=stream.time, name=stream.name)
        return TableFlow(source, reading)

    @property
    def _new_source(self) -> Callable[..., TableSource]:
        shared = self.catalog.shared
        return TableSource if shared is None else shared.table_source


def _in_order(flow: Flow, relation: SubqueryRelation) -> Flow:
    """Return rows of a subquery by the time that is asked of them, if nothing orders them yet.

    They are those of a table in memory, which is at hand whole.
    """
    query, time = relation.query, relation.time
    is_ordered = not isinstance(query, BoundSelect) or query.time is not None
    if time is None or time == ROW_NUMBER or is_ordered:
        return flow
    types = dict(relation.columns)
    key = SortKey(Attribute(time, types[time] or DataType.NULL))
    return OperatorFlow(flow, OuterOperator(in_full(relation.columns, (key,))))


def _unfiltered(what: WindowAggregation) -> WindowAggregation:
    """Return the aggregation of rows that pass WHERE already, where those are all it needs."""
    return replace(what, where=None) if may_filter_first(what) and what.where else what


def _words_of(query: BoundSelect) -> str:
    kinds = {JoinRelation: "a join", SituationRelation: "situations"}
    below = kinds.get(type(query.source), "a subquery")
    if query.outer.group_by is None:
        return f"SELECT over {below}"
    if query.windows is None:
        return f"aggregates over {below}"
    return f"windows over {below}{_counted_from(query.windows, query.source)}"


def _counted_from(windows: Windows, source: Relation) -> str:
    """Return where windows of time are counted from, as it stands at the end of a plan's words."""
    from replay.windows.plan import origin_in_words

    in_timestamps = (source.time, DataType.INTEGER) not in source.columns
    origin = origin_in_words(windows, in_timestamps=in_timestamps)
    return "" if origin is None else f", counted from {origin}"


def _over(
    operator: str,
    inner: Flow,
    operators: Sequence[Operator],
    pattern: BoundPatternQuery | None = None,
) -> Flow:
    """Return rows that pass through operators, and the plan that says so."""
    return OperatorFlow(inner, Chain(operators), operator, pattern=pattern)


@lru_cache(STATEMENTS_CACHED)
def _planned_pattern(
    pattern: Statement | BoundPatternQuery,
    statistics: SnapshotStatistics,
    requested: str,
    parameters: CostParameters,
) -> Plan:
    query = pattern.plain if isinstance(pattern, Statement) else pattern
    program = pattern.program if isinstance(pattern, Statement) else None
    return plan_pattern(query, statistics, program, requested=requested, parameters=parameters)


def clear_planned() -> None:
    """Forget plans of patterns, of filters, and of patterns over them."""
    planned.cache_clear()
    _planned_pattern.cache_clear()


def _windows_of_known(
    query: BoundPatternQuery, snapshot: Snapshot, required: Requirements, found: IndexResult
) -> tuple[pa.Table, Chain]:
    """Return the rows that entries tell, and what they pass through to be summed in windows."""
    rows, query = known_rows(query, required, found, snapshot.schema)
    return rows, Chain(matching(query, first=snapshot.t_min))


def _at_least_one(
    columns: tuple[str, ...], stream: StreamRelation, *, with_time: bool = False
) -> tuple[str, ...]:
    """Return the columns to read: one at least, since they carry how many rows there are."""
    if with_time or not columns:
        time = stream.time or next((name for name, _ in stream.columns), None)
        if time is not None:
            return tuple(sorted({*columns, time}))
    return columns


def _span(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return first and last time of a stream; None without events."""
    if snapshot.t_min is None or snapshot.t_max is None:
        return None
    return snapshot.t_min, snapshot.t_max


def _span_of_table(flow: Flow) -> tuple[int, int] | None:
    return flow.source.span if isinstance(flow, TableFlow) else None
