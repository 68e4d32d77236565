"""Naive outer query over the rows of an answer: WHERE, GROUP BY, HAVING, DISTINCT, ORDER BY."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from replay.language.bound import Aggregate, Attribute, DataType, Expression, Outer, SortKey
from tests.oracles.answer import MATCH
from tests.oracles.row_aggregates import aggregate, distinct, is_nan
from tests.oracles.scalar import evaluate

Row = dict[str, Any]
Group = Sequence[Row]
"""Rows of the inner answer behind one row of the result: one of them if nothing is grouped."""


def outer_rows(rows: Sequence[Row], outer: Outer) -> list[Row]:
    """Return the rows of the result, in its order."""
    groups = groups_of(rows, outer)
    if outer.groups_ascend:
        for place in reversed(range(len(outer.group_by or ()))):
            key = SortKey((outer.group_by or ())[place])
            groups.sort(key=cmp_to_key(lambda a, b, key=key: _compare(key, a, b)))
    if outer.having is not None:
        groups = [group for group in groups if value_of(outer.having, group) is True]
    results = [({name: value_of(e, group) for name, e in outer.items}, group) for group in groups]
    if outer.distinct:
        first: dict[Any, tuple[Row, Group]] = {}
        for result in results:
            first.setdefault(tuple(_key(value) for value in result[0].values()), result)
        results = list(first.values())
    for key in reversed(outer.order_by):
        results.sort(key=cmp_to_key(lambda a, b, key=key: _compare(key, a[1], b[1])))
    until = None if outer.limit is None else outer.offset + outer.limit
    return [row for row, _ in results][outer.offset : until]


def is_row_by_row(outer: Outer) -> bool:
    """Return whether every row of the result comes from one row of the answer alone."""
    return outer.group_by is None and not outer.order_by and not outer.distinct


def may_end_early(outer: Outer) -> bool:
    """Return whether LIMIT may be reached by the first rows of the answer, whatever follows."""
    return outer.limit is not None and outer.group_by is None and not outer.order_by


def groups_of(rows: Sequence[Row], outer: Outer) -> list[Group]:
    """Return the groups of the rows that WHERE lets pass, by their first rows."""
    rows = [row for row in rows if outer.where is None or value_of(outer.where, [row]) is True]
    if outer.group_by is None:
        return [[row] for row in rows]
    if not outer.group_by:
        return [rows]
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_key(value_of(e, [row])) for e in outer.group_by), []).append(row)
    return list(groups.values())


def _key(value: Any) -> Any:
    """Equal for values of one group: NULL equals NULL, NaN equals NaN."""
    return "NaN" if is_nan(value) else (value,)


def value_of(expression: Expression, group: Group) -> Any:
    """Return the value over a group; attributes are those of its first row."""

    def lookup(part: Any) -> Any:
        if isinstance(part, Attribute):
            return group[0][part.name]
        assert isinstance(part, Aggregate)
        rows = group if part.symbols is None else _mapped(part, group)
        if part.argument is None:
            return len(rows)
        values = [value_of(part.argument, [row]) for row in rows]
        if part.function in ("sum", "avg"):
            return _exact(part, values)
        found = aggregate(part, values)
        return found + 0.0 if isinstance(found, float) else found  # no least of 0.0 and -0.0

    return evaluate(expression, lookup)


def _mapped(part: Aggregate, group: Group) -> Group:
    """Return every row mapped to the symbols, a row once for each match that has it."""
    assert part.symbols is not None
    matches = (row[MATCH] for row in group)
    return [m.rows[x.at] for m in matches for x in m.mapping if x.symbol in part.symbols]


def _exact(part: Aggregate, values: Sequence[Any]) -> Any:
    """Return SUM or AVG of the exact numbers, rounded once where it is a DOUBLE."""
    present = [value for value in values if value is not None]
    present = distinct(present) if part.distinct else present
    if not present or part.type is DataType.INTERVAL:  # of which fractions of a unit are dropped
        is_mean = bool(present) and part.function == "avg"
        return int(Fraction(sum(present), len(present))) if is_mean else aggregate(part, present)
    odd = [value for value in present if not math.isfinite(value)]
    if odd:
        return sum(odd)
    if part.function == "sum" and isinstance(present[0], Decimal):
        with localcontext(prec=200):
            return sum(present)
    total = sum(Fraction(value) for value in present)
    if part.function == "avg":
        return float(total / len(present))
    return int(total) if part.type is DataType.INTEGER else float(total)


def _compare(key: SortKey, a: Group, b: Group) -> int:
    left, right = value_of(key.expression, a), value_of(key.expression, b)
    left_gone, right_gone = (v is None or is_nan(v) for v in (left, right))
    if left_gone or right_gone:
        return (left_gone - right_gone) * (-1 if key.nulls_first else 1)
    order = (left > right) - (left < right)
    return -order if key.descending else order
