"""The outer query over the rows of MATCH_RECOGNIZE: filter, group, project, order, cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.aggregates.exact import taken
from replay.expressions.columns import Columns, Values, to_arrow
from replay.expressions.evaluate import evaluate, truths
from replay.expressions.scalars import Faults
from replay.formats import values_as_texts
from replay.language.bound import (
    Aggregate,
    Attribute,
    Call,
    DataType,
    Expression,
    Outer,
    SortKey,
    walk,
)
from replay.language.symbol_aggregates import ELEMENTS
from replay.limits import check_limits
from replay.operators.grouping import (
    Groups,
    aggregate_groups,
    group_rows,
    whole_numbers,
)
from replay.operators.ordering import key_columns
from replay.operators.whole_numbers import WHOLE, Numbers, WholeNumbers

IntArray = npt.NDArray[np.int64]


Told = Callable[[Aggregate, pa.Table, Groups], "Numbers | pa.Array"]
"""Gives an aggregate of all groups of the rows of a table, as `GroupRows` has it."""


def apply_outer(
    table: pa.Table, outer: Outer, faults: Faults, told: Told | None = None
) -> pa.Table:
    """Return the answer of the outer query.

    ``table`` is what MATCH_RECOGNIZE gives, in canonical order; its number of rows counts also
    where it has no column. A plain column keeps its type. Groups come in the order of their first
    rows, and rows that DISTINCT or ORDER BY find alike in canonical order. NULL groups with NULL,
    NaN with NaN and -0.0 with 0.0; the first row of a group says which of them is shown. Where
    aggregates are known without the rows, they are ``told``.
    """
    if not table.num_columns:  # take would forget how many rows there are
        table = pa.table({"": pa.nulls(table.num_rows)})
    table = _where(table, outer.where, faults)
    if outer.group_by is not None:
        groups = _grouped(table, outer, outer.group_by, faults, told)
        return answer_groups(groups, outer, faults)
    if not outer.distinct and not outer.order_by:
        begin, end = _bounds(outer, table.num_rows)
        return _select(_Rows(table.slice(begin, end - begin), faults), outer)
    rows = _Rows(table, faults)
    answer = _select(rows, outer)
    chosen = np.arange(table.num_rows)
    if outer.distinct:
        values = [rows.values(expression) for _, expression in outer.items]
        chosen = group_rows(values, table.num_rows).first_rows
    if outer.order_by:
        chosen = chosen[_order(outer.order_by, rows, chosen)]
    check_limits()
    begin, end = _bounds(outer, len(chosen))
    return answer.take(pa.array(chosen[begin:end]))


def _where(table: pa.Table, condition: Expression | None, faults: Faults) -> pa.Table:
    if condition is None:
        return table
    return table.take(pa.array(np.flatnonzero(truths(condition, Columns(table), faults))))


def _bounds(outer: Outer, n_rows: int) -> tuple[int, int]:
    """Return the first row of the answer and the one after its last."""
    begin = min(outer.offset, n_rows)
    return begin, n_rows if outer.limit is None else min(begin + outer.limit, n_rows)


class _Rows:
    """Rows whose expressions are computed once each."""

    def __init__(self, table: pa.Table, faults: Faults) -> None:
        self.table = table
        self._columns = Columns(table)
        self.faults = faults
        self._known: dict[Expression, Values] = {}

    def values(self, expression: Expression) -> Values:
        """Return the value of an expression for every row."""
        if expression not in self._known and self._is_decimal(expression):
            assert isinstance(expression, Attribute)
            self._known[expression] = _places(self.table.column(expression.name))
        if expression not in self._known:
            self._known[expression] = evaluate(expression, self._columns, self.faults)
        return self._known[expression]

    def _is_decimal(self, expression: Expression) -> bool:
        """Tell whether it is a column of numbers beyond 64 bits."""
        if not isinstance(expression, Attribute):
            return False
        return bool(pa.types.is_decimal256(self.table.schema.field(expression.name).type))

    def column(self, expression: Expression) -> Any:
        """Return a column of the answer."""
        if isinstance(expression, Attribute):
            return self.table.column(expression.name)
        return to_arrow(self.values(expression), expression.type)


def _places(decimals: pa.ChunkedArray) -> Values:
    """Return numbers of 64 bits that are equal and in order as the decimals are."""
    values = decimals.to_pylist()
    places = {n: place for place, n in enumerate(sorted({n for n in values if n is not None}))}
    ranks = np.array([places.get(n, 0) for n in values], np.int64)
    return Values(ranks, np.array([n is not None for n in values], np.bool_))


def _select(rows: _Rows, outer: Outer) -> pa.Table:
    names = [name for name, _ in outer.items]
    return pa.table([rows.column(expression) for _, expression in outer.items], names=names)


# ---------------------------------------------------------------------------------------------
# Grouping: a table with one row per group, and an outer query over it that knows no aggregate


@dataclass(frozen=True, slots=True)
class GroupRows:
    """What is known of each group: a row of all, in the order of the groups."""

    rows: pa.Table
    """The first row of each group: the binder lets pass only what is the same on every row."""
    columns: dict[Expression, Any]
    """Keys of GROUP BY and aggregates, but for those in ``numbers``."""
    numbers: dict[Aggregate, Numbers]
    """Counts and sums of integers and decimals, of any size; None for NULL. Of decimals in units of
    the last digit."""
    keys: tuple[Expression, ...]

    def take(self, chosen: IntArray) -> GroupRows:
        """Return some of the groups."""
        places = pa.array(chosen)
        return GroupRows(
            self.rows.take(places),
            {part: column.take(places) for part, column in self.columns.items()},
            {part: taken(values, chosen) for part, values in self.numbers.items()},
            self.keys,
        )

    def in_order(self) -> GroupRows:
        """Return the groups by their keys, ascending, missing ones last."""
        names = [str(place) for place in range(len(self.keys))]
        table = pa.table([self.columns[key] for key in self.keys], names=names)
        keys = [Attribute(n, key.type) for n, key in zip(names, self.keys, strict=True)]
        order = tuple(SortKey(key) for key in keys)
        every = np.arange(table.num_rows)
        chosen = _order(order, _Rows(table, Faults()), every)
        return self if np.array_equal(chosen, every) else self.take(chosen)

    def called(self, group: int) -> str:
        """Return which group it is, for messages: nothing where there is one of all rows."""
        named = []
        for key in self.keys:
            column = pa.table([self.columns[key]], names=["key"]).column(0).slice(group, 1)
            (text,) = values_as_texts(column)
            is_text = key.type is DataType.STRING and text is not None
            shown = repr(text) if is_text else "NULL" if text is None else text
            named.append(f"{_key_name(key)} {shown}")
        return f" in the group of {', '.join(named)}" if named else ""


def answer_groups(groups: GroupRows, outer: Outer, faults: Faults) -> pa.Table:
    """Return the answer of an outer query over groups: HAVING, SELECT, DISTINCT, ORDER BY, LIMIT.

    A count or a sum of integers or decimals that one of the groups HAVING lets pass has beyond its
    type makes a column of DECIMAL of 76 digits. QueryError if it has more, or something is computed
    with it.
    """
    if outer.having is not None:
        table, having = _with_numbers(groups, Outer((), where=outer.having), faults)
        assert having.where is not None
        groups = groups.take(np.flatnonzero(truths(having.where, Columns(table), faults)))
    if outer.groups_ascend:
        groups = groups.in_order()
    rest = replace(outer, where=None, group_by=None, having=None)
    return apply_outer(*_with_numbers(groups, rest, faults), faults)


def _with_numbers(groups: GroupRows, outer: Outer, faults: Faults) -> tuple[pa.Table, Outer]:
    """Return the groups with columns for all that an outer query reads of them, and it over these.

    There is a row even where no group has a column.
    """
    numbers = WholeNumbers(groups.numbers, groups.called, faults)
    numbers.put_in(outer)
    columns = {**groups.columns, **numbers.columns}
    names = _fresh_names(groups.rows.column_names, len(columns))
    replaced = {
        whole: Attribute(name, whole.type) for whole, name in zip(columns, names, strict=True)
    }
    table = groups.rows
    for name, column in zip(names, columns.values(), strict=True):
        table = table.append_column(name, column)
    return table, outer.rewritten(replaced.get)


def _grouped(
    table: pa.Table,
    outer: Outer,
    keys: tuple[Expression, ...],
    faults: Faults,
    told: Told | None,
) -> GroupRows:
    """Return what is known of each group of rows."""
    rows = _Rows(table, faults)
    groups = group_rows([rows.values(key) for key in keys], table.num_rows)
    first_rows = pa.array(groups.first_rows)
    columns: dict[Expression, Any] = {key: rows.column(key).take(first_rows) for key in keys}
    numbers: dict[Aggregate, Numbers] = {}
    for part in dict.fromkeys(p for whole in _of_groups(outer) for p in _aggregates(whole)):
        check_limits()
        known = _aggregated(part, rows, groups) if told is None else told(part, table, groups)
        if isinstance(known, list | np.ndarray):
            numbers[part] = known
        else:
            columns[part] = known
    return GroupRows(table.take(first_rows) if keys else _one_row(), columns, numbers, keys)


def _aggregated(part: Aggregate, rows: _Rows, groups: Groups) -> Numbers | pa.Array:
    """Return an aggregate of the rows of every group."""
    argument, among = _argument(part, rows, groups)
    if part.function == "count" or (part.function == "sum" and part.type in WHOLE):
        return list(whole_numbers(part, argument, among))
    return to_arrow(aggregate_groups(part, argument, among, rows.faults), part.type)


def _argument(part: Aggregate, rows: _Rows, groups: Groups) -> tuple[Values | None, Groups]:
    """Return the values an aggregate is over, and which group each belongs to."""
    argument = part.argument
    if argument is None:
        return None, groups
    if not isinstance(argument, Call) or argument.op != ELEMENTS:
        return rows.values(argument), groups
    (array,) = argument.args
    assert isinstance(array, Attribute)
    column = rows.table.column(array.name)
    lengths = column.combine_chunks().value_lengths().fill_null(0).to_numpy()
    elements = pa.table({array.name: column.combine_chunks().flatten()})
    values = Columns(elements).at(array)
    of_row = np.repeat(groups.of_row, lengths)
    return values, Groups(of_row, groups.first_rows, groups.n_groups)


def _key_name(key: Expression) -> str:
    return key.name if isinstance(key, Attribute) else "key"


def _one_row() -> pa.Table:
    """Return a row for the one group there is without keys, even of no rows at all."""
    return pa.table({"": pa.nulls(1)})


def _fresh_names(taken: list[str], count: int) -> list[str]:
    """Return names that no column has."""
    longest = max(map(len, taken), default=0)
    return [f"{number}".rjust(longest + 1, "#") + "#" for number in range(count)]


def _of_groups(outer: Outer) -> list[Expression]:
    """Return the expressions over groups."""
    return replace(outer, where=None, group_by=None).expressions


def _aggregates(expression: Expression) -> list[Aggregate]:
    return [part for part in walk(expression) if isinstance(part, Aggregate)]


# ---------------------------------------------------------------------------------------------
# Order


def _order(keys: tuple[SortKey, ...], rows: _Rows, chosen: IntArray) -> IntArray:
    """Return the places of the chosen rows in the order of the keys; ties stay as they are."""
    columns: list[Any] = []
    for key in reversed(keys):
        check_limits()
        ranks, missing = key_columns(key, rows.values(key.expression))
        columns += [ranks[chosen], missing[chosen]]
    return np.lexsort(columns)
