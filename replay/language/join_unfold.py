"""Sides of a join that only filter and rename a stream, taken for the stream itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replay.language.bound import (
    Attribute,
    BoundSelect,
    Expression,
    JoinRelation,
    JoinWindow,
    Relation,
    StreamRelation,
    SubqueryRelation,
)
from replay.language.fold import all_of
from replay.language.join_conditions import renamed


@dataclass(frozen=True, slots=True)
class UnfoldedJoin:
    """A join over streams instead of subqueries, where it gives the same."""

    join: JoinRelation
    left_condition: Expression | None
    """Which events of the left stream its subquery has, over its own names; None: all."""
    right_condition: Expression | None


def unfold(join: JoinRelation) -> UnfoldedJoin:
    """Return the join with its sides read from the streams beneath, so that indexes reach them.

    A subquery stays one if it does more than filter and choose columns, or if windows over it count
    its rows or begin with its first event, which are not the stream's.
    """
    left = _beneath(join.left, join.left_window)
    right = _beneath(join.right, join.right_window)
    unfolded = replace(
        join,
        left=left.relation,
        right=right.relation,
        left_names=tuple(map(left.own, join.left_names)),
        right_names=tuple(map(right.own, join.right_names)),
        equal=tuple((left.own(one), right.own(other)) for one, other in join.equal),
        left_time=left.own(join.left_time),
        right_time=right.own(join.right_time),
    )
    return UnfoldedJoin(unfolded, left.condition, right.condition)


@dataclass(frozen=True, slots=True)
class _Beneath:
    """A relation, and what is done with it."""

    relation: Relation
    names: dict[str, str] | None = None
    """Its column by the name it is given; None: each has its own."""
    condition: Expression | None = None

    def own(self, name: str) -> str:
        return name if self.names is None else self.names[name]


def _beneath(relation: Relation, window: JoinWindow | None) -> _Beneath:
    """Return the stream under a subquery that filters and renames; else the relation itself."""
    if not isinstance(relation, SubqueryRelation):
        return _Beneath(relation)
    if window is not None and (window.in_rows or window.slide != 1):
        return _Beneath(relation)
    query = relation.query
    if not isinstance(query, BoundSelect) or not _is_plain(query):
        return _Beneath(relation)
    inner = _beneath(query.source, window)
    if not isinstance(inner.relation, StreamRelation):
        return _Beneath(relation)
    given = {name: e.name for name, e in query.outer.items if isinstance(e, Attribute)}
    if given.get(relation.time or "") != query.source.time:
        return _Beneath(relation)
    names = {name: inner.own(own) for name, own in given.items()}
    where = query.outer.where
    if where is not None and inner.names is not None:
        where = renamed(where, inner.names)
    terms = [term for term in (inner.condition, where) if term is not None]
    return _Beneath(inner.relation, names, all_of(terms) if terms else None)


def _is_plain(query: BoundSelect) -> bool:
    """Return whether rows are only filtered, in their order, and columns chosen."""
    outer = query.outer
    return (
        query.windows is None
        and outer.is_row_by_row
        and outer.limit is None
        and outer.offset == 0
        and all(isinstance(expression, Attribute) for _, expression in outer.items)
    )
