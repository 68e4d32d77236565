"""Subqueries that only filter and project, made one with the query around them. Pure.

What is left reads a stream itself, so that its tree and its indexes can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from replay.language.bound import (
    Attribute,
    BoundPatternQuery,
    BoundQuery,
    BoundSelect,
    Expression,
    JoinRelation,
    Outer,
    Relation,
    RowWindows,
    SessionWindows,
    SituationRelation,
    StreamRelation,
    SubqueryRelation,
    attributes,
)
from replay.language.fold import joined

Columns = Mapping[str, Expression]
"""What stands for each column of a subquery."""


def simplified(query: BoundQuery) -> BoundQuery:
    """Return a query with the same answer and with fewer subqueries.

    A subquery goes where each of its rows is a row of its own source: it has no DISTINCT, ORDER
    BY, LIMIT or aggregate. Under windows and patterns it must keep every row, too, since they
    depend on which rows there are.
    """
    if isinstance(query, BoundPatternQuery):
        return query if query.source is None else _pattern(query, query.source)
    relation = _relation(query.source)
    query = replace(query, source=relation)
    matches = _matches_below(query)
    if matches is not None:
        return _over_matches(query.outer, matches)
    below = _plain_below(query.source)
    if below is None:
        return query
    if query.windows is not None:
        return _windowed(query, below, dict(below.outer.items))
    return replace(query, source=below.source, outer=_over_filter(query.outer, below.outer))


def without_order(outer: Outer, canonical: Sequence[str]) -> Outer:
    """Return the outer query without an ORDER BY that asks for the order the rows have anyway.

    ``canonical`` are the columns by which the rows ascend, missing values last.
    """
    if len(outer.order_by) > len(canonical) or outer.group_by is not None:
        return outer
    for key, name in zip(outer.order_by, canonical, strict=False):
        is_it = isinstance(key.expression, Attribute) and key.expression.name == name
        if not is_it or key.descending or key.nulls_first:
            return outer
    return replace(outer, order_by=())


def _relation(relation: Relation) -> Relation:
    match relation:
        case SubqueryRelation(inner):
            return replace(relation, query=simplified(inner))
        case JoinRelation(_, left, right):
            return replace(relation, left=_relation(left), right=_relation(right))
        case SituationRelation(source):
            return replace(relation, source=_relation(source))
    return relation


def _plain_below(relation: Relation) -> BoundSelect | None:
    """Return the subquery a relation is, if it filters and projects row by row."""
    if not isinstance(relation, SubqueryRelation) or not isinstance(relation.query, BoundSelect):
        return None
    below = relation.query
    if below.source.time is not None:
        below = replace(below, outer=without_order(below.outer, (below.source.time,)))
    return below if below.is_plain else None


def _matches_below(query: BoundSelect) -> BoundPatternQuery | None:
    """Return the pattern whose matches a query filters and projects, if it does nothing else.

    Groups are left apart: sums over matches are those of exact numbers, over rows they add in turn.
    """
    relation, outer = query.source, query.outer
    if not isinstance(relation, SubqueryRelation) or query.windows is not None:
        return None
    below = relation.query
    if not isinstance(below, BoundPatternQuery) or below.windows is not None:
        return None
    is_whole = below.limit is None and (below.outer is None or below.outer.is_plain)
    is_grouped = outer.group_by is not None or outer.having is not None
    return below if is_whole and not is_grouped else None


def _over_matches(outer: Outer, below: BoundPatternQuery) -> BoundPatternQuery:
    """Return a pattern with the clauses of a query around it."""
    if below.outer is not None:
        outer = _over_filter(outer, below.outer)
    read = {part.name for one in outer.expressions for part in attributes(one)}
    output = tuple(pair for pair in below.output if pair[1] in read) or below.output[:1]
    return replace(below, outer=outer, output=output, limit=outer.rows_enough)


def _windowed(query: BoundSelect, below: BoundSelect, columns: Columns) -> BoundSelect:
    """Return windows over the source of a projection, where it keeps every row and the time."""
    windows = query.windows
    named = [query.source.time]
    if isinstance(windows, SessionWindows | RowWindows):
        named += windows.partition_by
    renamed = [None if name is None else _column(columns.get(name)) for name in named]
    is_kept = below.outer.where is None and None not in renamed
    if not is_kept or renamed[0] != below.source.time:
        return query
    if isinstance(windows, SessionWindows | RowWindows):
        partition_by = tuple(name for name in renamed[1:] if name is not None)
        windows = replace(windows, partition_by=partition_by)
    outer = _over(query.outer, columns)
    return replace(query, source=below.source, outer=outer, windows=windows)


def _column(expression: Expression | None) -> str | None:
    return expression.name if isinstance(expression, Attribute) else None


def _pattern(query: BoundPatternQuery, source: Relation) -> BoundPatternQuery:
    """Return a pattern over the stream itself, where the subquery only selects columns of it."""
    relation = _relation(source)
    query = replace(query, source=relation)
    below = _plain_below(relation)
    if below is None or below.outer.where is not None:
        return query
    keeps_names = all(_column(expression) == name for name, expression in below.outer.items)
    if not keeps_names or not isinstance(below.source, StreamRelation):
        return query
    if below.source.time != query.time:
        return query
    return replace(query, source=None, stream=below.source.name)


# ---------------------------------------------------------------------------------------------
# Expressions of the subquery in the place of its columns


def _over(outer: Outer, columns: Columns) -> Outer:
    """Return an outer query over the rows below."""
    return outer.rewritten(partial(_put, columns))


def _over_filter(outer: Outer, below: Outer) -> Outer:
    """Return an outer query over the rows below those that a subquery filters and projects."""
    over = _over(outer, dict(below.items))
    return replace(over, where=joined((below.where, over.where)))


def _put(columns: Columns, part: Expression) -> Expression | None:
    return columns.get(part.name) if isinstance(part, Attribute) else None
