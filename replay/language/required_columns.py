"""What a query needs of the rows it reads: which columns, in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from replay.language.aggregation import to_aggregation
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Attribute,
    BoundPatternQuery,
    BoundQuery,
    BoundSelect,
    Expression,
    Outer,
    RowWindows,
    SessionWindows,
    SituationRelation,
    SubqueryRelation,
    WholeRange,
    WindowAggregation,
    attributes,
)
from replay.language.simplify import without_order
from replay.language.symbol_aggregates import with_arrays


def in_stream_order(outer: Outer, time: str | None) -> tuple[Outer, bool]:
    """Return the outer query over rows that come in the order it asks for, and if that is backward.

    Where ORDER BY asks for time alone, no row has to wait for others.
    """
    plain = outer if time is None else without_order(outer, (time,))
    if len(plain.order_by) != 1 or plain.group_by is not None:
        return plain, False
    key = plain.order_by[0]
    is_time = isinstance(key.expression, Attribute) and key.expression.name == time
    # Which of two rows alike DISTINCT shows depends on the order they come in.
    if not is_time or not key.descending or plain.distinct:
        return plain, False
    return replace(plain, order_by=()), True


def may_filter_first(what: WindowAggregation) -> bool:
    """Return whether rows that fail WHERE need not be seen: windows are not made of rows."""
    return not isinstance(what.windows, SessionWindows | RowWindows)


def columns_of_query(query: BoundQuery) -> tuple[str, ...]:
    """Return the columns a query reads of what stands after its FROM."""
    if isinstance(query, BoundPatternQuery):
        return tuple(columns_of_pattern(query))
    what = to_aggregation(query)
    return columns_of_outer(query.outer) if what is None else columns_of_windows(what)


def columns_of_pattern(query: BoundPatternQuery) -> list[str]:
    """Return every column of the stream that a pattern reads, the time column among them."""
    query = with_arrays(query)
    measures = {measure.name: measure.expression for measure in query.measures}
    named = _names([*query.defines, *measures.values()])
    shown = {source for source, _ in query.output if source not in measures}
    if query.windows is not None:
        shown -= {WINDOW_START, WINDOW_END}
    return sorted({*named, *shown, *query.partition_by, *query.order_by, query.time})


def columns_of_situations(relation: SituationRelation) -> tuple[str, ...]:
    """Return the columns of its source that a temporal pattern reads."""
    conditions = [situation.condition for situation in relation.situations]
    named = _names([*conditions, *(measure.expression for measure in relation.returns)])
    return tuple(sorted({*named, *relation.partition_by, relation.source_time.name}))


def columns_of_outer(outer: Outer) -> tuple[str, ...]:
    """Return the columns an outer query names."""
    return _names(outer.expressions)


def columns_of_windows(what: WindowAggregation) -> tuple[str, ...]:
    """Return the columns of its source that a window aggregation reads."""
    arguments = [part.argument for part in what.aggregates]
    names = set(_names([*what.keys, *arguments, what.where]))
    if isinstance(what.windows, SessionWindows | RowWindows):
        names.update(what.windows.partition_by)
    if not isinstance(what.windows, WholeRange):
        names.add(what.time)
    return tuple(sorted(names))


def pruned(relation: SubqueryRelation, needed: Iterable[str]) -> SubqueryRelation:
    """Return a subquery without the columns that nobody reads; its time stays.

    DISTINCT is left as it is: there, every column tells rows apart.
    """
    query = relation.query
    if not isinstance(query, BoundSelect) or query.outer.distinct:
        return relation
    kept = {*needed, relation.time}
    items = [item for item in query.outer.items if item[0] in kept] or query.outer.items[:1]
    outer = replace(query.outer, items=tuple(items))
    names = {name for name, _ in items}
    columns = tuple(column for column in relation.columns if column[0] in names)
    return replace(relation, query=replace(query, outer=outer), columns=columns)


def _names(expressions: Iterable[Expression | None]) -> tuple[str, ...]:
    return tuple(sorted({a.name for expression in expressions for a in attributes(expression)}))
