"""The outer query over the rows of MATCH_RECOGNIZE: filter, group, project, order, cut."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import QueryError
from replay.expressions.columns import Columns, Values, to_arrow
from replay.expressions.evaluate import evaluate, truths
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Attribute,
    DataType,
    Expression,
    Outer,
    SortKey,
    attributes,
    walk,
)
from replay.limits import check_limits
from replay.operators.grouping import aggregate_groups, encode_strings, group_rows, string_ranks

IntArray = npt.NDArray[np.int64]

_INT64_MAX = np.iinfo(np.int64).max

_DIGITS_MAX = 76
"""Digits of Arrow's widest decimal."""


def apply_outer(table: pa.Table, outer: Outer, faults: Faults) -> pa.Table:
    """Return the answer of the outer query.

    ``table`` is what MATCH_RECOGNIZE gives, in canonical order; its number of rows counts also
    where it has no column. A plain column keeps its type. Groups come in the order of their first
    rows, and rows that DISTINCT or ORDER BY find alike in canonical order. NULL groups with NULL,
    NaN with NaN and -0.0 with 0.0; the first row of a group says which of them is shown.
    """
    if not table.num_columns:  # take would forget how many rows there are
        table = pa.table({"": pa.nulls(table.num_rows)})
    table = _where(table, outer.where, faults)
    if outer.group_by is not None:
        return apply_outer(*_grouped(table, outer, outer.group_by, faults), faults)
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


def counts_only(outer: Outer | None) -> bool:
    """Tell whether the number of rows of MATCH_RECOGNIZE is all the outer query asks for."""
    if outer is None or outer.group_by != () or outer.where is not None:
        return False
    return all(
        not attributes(expression) and all(map(_is_row_count, _aggregates(expression)))
        for expression in _of_groups(outer)
    )


def answer_count(outer: Outer, count: int, faults: Faults) -> pa.Table:
    """Return the answer of an outer query that ``counts_only``.

    ``count`` is of any size: one that INTEGER cannot hold is a DECIMAL of up to 76 digits. Longer
    than that, or too large for the expression it stands in, is a QueryError.
    """
    data_type = pa.int64() if count <= _INT64_MAX else pa.decimal256(_DIGITS_MAX)
    if data_type != pa.int64():
        _check_large(outer, count)
        outer = replace(outer, order_by=(), distinct=False)  # there is one row
    table = pa.table({"count": pa.array([count], data_type)})
    column = Attribute("count", DataType.INTEGER)
    counts: dict[Expression, Attribute] = {
        part: column for whole in _of_groups(outer) for part in _aggregates(whole)
    }
    return apply_outer(table, outer.over_groups(counts.get), faults)


def _check_large(outer: Outer, count: int) -> None:
    """Refuse a count beyond INTEGER where it cannot be told exactly."""
    n_digits = math.floor(math.log10(count)) + 1
    if n_digits > _DIGITS_MAX:
        raise QueryError(
            f"there are so many matches that their number has about {n_digits:,} digits, more than "
            f"the {_DIGITS_MAX} of a DECIMAL; narrow the conditions, or add WITHIN"
        )
    if outer.having is not None or any(not _is_row_count_alone(e) for _, e in outer.items):
        raise QueryError(
            f"COUNT(*) is {count:,}, which INTEGER cannot hold; select it alone, without "
            "arithmetic or HAVING"
        )


def _is_row_count_alone(expression: Expression) -> bool:
    return isinstance(expression, Aggregate) and _is_row_count(expression)


def _is_row_count(part: Aggregate) -> bool:
    return part.function == "count" and part.argument is None


class _Rows:
    """Rows whose expressions are computed once each."""

    def __init__(self, table: pa.Table, faults: Faults) -> None:
        self.table = table
        self._columns = Columns(table)
        self._faults = faults
        self._known: dict[Expression, Values] = {}

    def values(self, expression: Expression) -> Values:
        """Return the value of an expression for every row."""
        if expression not in self._known:
            self._known[expression] = evaluate(expression, self._columns, self._faults)
        return self._known[expression]

    def column(self, expression: Expression) -> Any:
        """Return a column of the answer."""
        if isinstance(expression, Attribute):
            return self.table.column(expression.name)
        return to_arrow(self.values(expression), expression.type)


def _select(rows: _Rows, outer: Outer) -> pa.Table:
    names = [name for name, _ in outer.items]
    return pa.table([rows.column(expression) for _, expression in outer.items], names=names)


# ---------------------------------------------------------------------------------------------
# Grouping: a table with one row per group, and an outer query over it that knows no aggregate


def _grouped(
    table: pa.Table, outer: Outer, keys: tuple[Expression, ...], faults: Faults
) -> tuple[pa.Table, Outer]:
    """Return one row per group, and what is left of the query to be done with these rows.

    What is neither key nor aggregate is computed on the first row of the group: the binder lets
    pass only what is the same on every row.
    """
    rows = _Rows(table, faults)
    groups = group_rows([rows.values(key) for key in keys], table.num_rows)
    first_rows = pa.array(groups.first_rows)
    columns: dict[Expression, Any] = {key: rows.column(key).take(first_rows) for key in keys}
    for part in dict.fromkeys(p for whole in _of_groups(outer) for p in _aggregates(whole)):
        check_limits()
        argument = None if part.argument is None else rows.values(part.argument)
        columns[part] = to_arrow(aggregate_groups(part, argument, groups, faults), part.type)
    names = _fresh_names(table.column_names, len(columns))
    replaced = {
        whole: Attribute(name, whole.type) for whole, name in zip(columns, names, strict=True)
    }
    plain = table.take(first_rows) if keys else _one_row()
    for name, column in zip(names, columns.values(), strict=True):
        plain = plain.append_column(name, column)
    return plain, outer.over_groups(replaced.get)


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
        ranks, missing = _ranks(rows.values(key.expression))
        ranks, missing = ranks[chosen], missing[chosen]
        if key.descending:
            # ~x is -1 - x, which the least INTEGER has too.
            ranks = -ranks if ranks.dtype.kind == "f" else ~ranks
        columns += [ranks, ~missing if key.nulls_first else missing]
    return np.lexsort(columns)


def _ranks(values: Values) -> tuple[Any, Any]:
    """Return numbers that order as the values do, and which values are missing."""
    data, valid = values
    if not isinstance(data, np.ndarray):
        codes, dictionary = encode_strings(data)
        ranks = string_ranks(dictionary)
        missing = codes == len(dictionary)
        return np.append(ranks, 0)[codes], missing
    missing = np.zeros(len(data), np.bool_) if valid is None else ~valid
    if data.dtype.kind == "f":
        missing = missing | np.isnan(data)
    elif data.dtype.kind == "b":
        data = data.astype(np.int64)
    return np.where(missing, data.dtype.type(0), data), missing
