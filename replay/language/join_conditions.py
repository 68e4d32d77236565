"""What the conditions of a join ask of each side, and sides taken for the streams beneath them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from replay.language.bound import (
    Attribute,
    BoundSelect,
    Call,
    Expression,
    JoinKind,
    JoinRelation,
    JoinWindow,
    Relation,
    StreamRelation,
    SubqueryRelation,
    attributes,
    rewritten,
    walk,
)
from replay.language.fold import conjuncts, joined

_PLAIN = frozenset(
    {"and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "in", "like", "is_null", "is_distinct"}
)
"""Operators that cannot tell -0.0 from 0.0, and so not two values that are equal."""


@dataclass(frozen=True, slots=True)
class JoinConditions:
    """Conditions of a join by what they read; None where nothing is asked.

    Those of a side are over its own names. They are implied by ON and WHERE, and leaving out what
    fails them changes no answer once WHERE is applied.
    """

    left_rows: Expression | None
    """Which rows of the left count at all; others come not even alone."""
    left_partners: Expression | None
    """Which rows of the left can have a partner, besides."""
    right_partners: Expression | None
    """Which rows of the right can be one."""
    pairs: Expression | None
    """What else must hold of a pair, over the columns of the join."""


@dataclass(frozen=True, slots=True)
class JoinNames:
    """Where the columns of a join come from."""

    left: Mapping[str, str]
    """The left's own name of each column of the left."""
    right: Mapping[str, str]

    @classmethod
    def of(cls, join: JoinRelation) -> JoinNames:
        """Return the names of a join's columns."""
        names = [name for name, _ in join.columns]
        n_left = len(join.left_names)
        return cls(
            dict(zip(names[:n_left], join.left_names, strict=True)),
            dict(zip(names[n_left:], join.right_names, strict=False)),
        )


def split_conditions(
    join: JoinRelation,
    where: Expression | None = None,
    *,
    left: Expression | None = None,
    right: Expression | None = None,
) -> JoinConditions:
    """Tell what a join and the WHERE around it ask of each side. Pure.

    Equality hands conditions on: what a key of one side must fulfil, its partner's must too.

    ``where`` is applied to what the join gives; its terms that read one side alone are used as far
    as they leave out nothing that others could be matched with: of the right of LEFT and ASOF
    joins, none. ``left`` and ``right`` say which rows of a side are joined at all, over its own
    names.
    """
    names = JoinNames.of(join)
    on_left, on_right, pairs = _by_side(join.condition, names)
    asked_left, asked_right, _ = _by_side(where, names)
    asked_left = [*conjuncts(left), *asked_left]
    on_right = [*conjuncts(right), *on_right]
    is_outer = join.kind in (JoinKind.LEFT, JoinKind.ASOF_LEFT)
    to_right = dict(join.equal)
    to_left = {other: one for one, other in join.equal}
    of_left, of_right = [*on_left, *asked_left], on_right
    if not is_outer:
        of_left += _handed_on([*on_right, *asked_right], to_left)
        of_right = on_right if join.kind is JoinKind.ASOF else [*on_right, *asked_right]
    return JoinConditions(
        left_rows=joined(asked_left if is_outer else of_left),
        left_partners=joined(on_left) if is_outer else None,
        right_partners=joined([*of_right, *_handed_on(of_left, to_right)]),
        pairs=joined(pairs),
    )


def _by_side(
    condition: Expression | None, names: JoinNames
) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """Return the terms of the left and of the right, in their own names, and the rest as it is.

    Constants are taken for terms of the right: where one is not true, no row of it is a partner.
    """
    left, right, rest = [], [], []
    for term in conjuncts(condition):
        read = {attribute.name for attribute in attributes(term)}
        if read and read <= names.left.keys():
            left.append(renamed(term, names.left))
        elif read <= names.right.keys():
            right.append(renamed(term, names.right))
        else:
            rest.append(term)
    return left, right, rest


def _handed_on(terms: Iterable[Expression], names: Mapping[str, str]) -> list[Expression]:
    """Return the terms about equal columns alone, in the other side's names."""
    return [
        renamed(term, names)
        for term in terms
        if all(attribute.name in names for attribute in attributes(term))
        and all(part.op in _PLAIN for part in walk(term) if isinstance(part, Call))
    ]


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return the expression with its attributes named otherwise; others stay as they are."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Attribute):
            return None
        return replace(part, name=names.get(part.name, part.name))

    return rewritten(expression, change)


# ---------------------------------------------------------------------------------------------
# Sides that only filter and rename a stream, taken for the stream itself


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
    if not isinstance(query, BoundSelect) or not query.is_plain:
        return _Beneath(relation)
    if not all(isinstance(expression, Attribute) for _, expression in query.outer.items):
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
    return _Beneath(inner.relation, names, joined((inner.condition, where)))
