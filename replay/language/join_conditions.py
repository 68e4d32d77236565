"""What the conditions of a join ask of each side alone, and what they ask of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from replay.language.bound import (
    Attribute,
    Call,
    Expression,
    JoinKind,
    JoinRelation,
    attributes,
    walk,
)
from replay.language.fold import all_of

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


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """Yield the terms of a condition that must all be true."""
    if isinstance(condition, Call) and condition.op == "and":
        for argument in condition.args:
            yield from conjuncts(argument)
    elif condition is not None:
        yield condition


def split_conditions(
    join: JoinRelation,
    where: Expression | None = None,
    *,
    left: Expression | None = None,
    right: Expression | None = None,
) -> JoinConditions:
    """Tell what a join and the WHERE around it ask of each side. Pure.

    Equality hands conditions on: what a key of one side must fulfil, its partner's must too.

    Parameters
    ----------
    join
        Relation with ON split into equal columns and the rest.
    where
        Condition over its columns that is applied to what it gives; its terms that read one side
        alone are used as far as they leave out nothing that others could be matched with: of the
        right of LEFT and ASOF joins, none.
    left, right
        Which rows of a side are joined at all, over its own names; None: all.
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
        left_rows=_joined(asked_left if is_outer else of_left),
        left_partners=_joined(on_left) if is_outer else None,
        right_partners=_joined([*of_right, *_handed_on(of_left, to_right)]),
        pairs=_joined(pairs),
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


def _joined(terms: list[Expression]) -> Expression | None:
    terms = list(dict.fromkeys(terms))
    return all_of(terms) if terms else None


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return the expression with its attributes named otherwise; others stay as they are."""
    if isinstance(expression, Attribute):
        return replace(expression, name=names.get(expression.name, expression.name))
    if isinstance(expression, Call):
        return replace(expression, args=tuple(renamed(arg, names) for arg in expression.args))
    return expression
