"""Evaluation of bound expressions by column: SQL's three-valued logic over NumPy and Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import NotSupportedError
from replay.expressions.columns import (
    Columns,
    DictionaryColumns,
    Values,
    and_valid,
    from_arrow,
    literal,
)
from replay.expressions.nodes import (
    Aggregate,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
    MatchNumber,
    ScalarQuery,
    TimedOut,
    attributes,
    walk,
)
from replay.expressions.scalars import SCALARS, Faults
from replay.limits import check_asked

MatchValue = Classifier | MatchNumber | TimedOut | Aggregate
"""What the rows of a match tell beside their attributes."""

COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
"""What NumPy and Arrow alike call each."""


class Source(Protocol):
    """Where the values of attributes come from."""

    n_rows: int

    def at(self, attribute: Attribute) -> Values:
        """Return the attribute's value for every row."""
        ...


def evaluate(
    expression: Expression,
    source: Source,
    faults: Faults,
    *,
    match_values: Callable[[MatchValue], Values] | None = None,
) -> Values:
    """Evaluate an expression for every row.

    Anchors are the source's affair. ``match_values`` gives CLASSIFIER(), MATCH_NUMBER(), aggregates
    and the like, where they may stand. The arrays have one entry per row, never a single value for
    all; ``valid`` may be None.
    """
    with np.errstate(all="ignore"):
        return _spread(_Evaluation(source, faults, match_values).run(expression), source.n_rows)


class _OneRow:
    """A row without attributes, over which calls of constants are evaluated."""

    n_rows = 1

    def at(self, attribute: Attribute) -> Values:
        raise AssertionError(f"{attribute.name} is no constant")


def constant(call: Call) -> Literal:
    """Return the value of a call of constants; NULL where it is a fault."""
    with np.errstate(all="ignore"):
        data, valid = _Evaluation(_OneRow(), Faults(), None).run(call)
    if isinstance(data, pa.Array | pa.Scalar):
        return Literal((data[0] if isinstance(data, pa.Array) else data).as_py(), call.type)
    return Literal(data.item() if valid is None or np.all(valid) else None, call.type)


def truths(expression: Expression, source: Source, faults: Faults) -> npt.NDArray[np.bool_]:
    """Return for every row whether a condition is true; UNKNOWN is not."""
    data, valid = evaluate(_typed(expression, DataType.BOOLEAN), source, faults)
    return np.ascontiguousarray(data if valid is None else data & valid)


def _spread(values: Values, n_rows: int) -> Values:
    data, valid = values
    if isinstance(data, pa.Scalar):
        if isinstance(data, pa.StringScalar) and data.is_valid:
            n_bytes = data.as_buffer().size
            check_asked(n_bytes * n_rows, f"a text of {n_bytes:,} bytes in {n_rows:,} rows")
        data = pa.nulls(n_rows, data.type) if not data.is_valid else pa.repeat(data, n_rows)
    elif isinstance(data, np.ndarray | np.generic) and np.ndim(data) == 0:
        data = np.full(n_rows, data)
    if valid is not None and np.ndim(valid) == 0:
        valid = None if valid else np.zeros(n_rows, np.bool_)
    return Values(data, valid)


class _Evaluation:
    """One walk over an expression."""

    def __init__(
        self,
        source: Source,
        faults: Faults,
        match_values: Callable[[MatchValue], Values] | None,
    ) -> None:
        self._source = source
        self._faults = faults
        self._match_values = match_values

    def run(self, expression: Expression) -> Values:
        """Return the expression's values."""
        if isinstance(expression, Literal):
            return literal(expression.value, expression.type)
        if isinstance(expression, Attribute):
            return self._source.at(expression)
        if isinstance(expression, Call):
            return self._by_dictionary(expression) or self._call(expression)
        if self._match_values is None:
            raise NotSupportedError("CLASSIFIER and MATCH_NUMBER in DEFINE are not supported yet")
        assert not isinstance(expression, ScalarQuery), "its value has its place"
        return self._match_values(expression)

    def _by_dictionary(self, call: Call) -> Values | None:
        """Evaluate on a dictionary's entries what reads nothing but that one string column."""
        if not isinstance(self._source, Columns):
            return None
        if all(argument.type is not DataType.STRING for argument in call.args):
            return None
        if any(isinstance(part, MatchValue) for part in walk(call)):
            return None
        read = attributes(call)
        if len(read) != 1 or next(iter(read)).type is not DataType.STRING:
            return None
        codes, dictionary = self._source.encoded(next(iter(read)))
        entries = DictionaryColumns(dictionary)
        faults = Faults(codes)
        values = _spread(_Evaluation(entries, faults, None).run(call), entries.n_rows)
        self._faults.count += faults.count
        return values.take(codes)

    def _call(self, call: Call) -> Values:
        op, args = call.op, call.args
        if op in COMPARISONS:
            return _compare(op, self.run(args[0]), self.run(args[1]))
        if op in ("and", "or"):
            return _connect([self._condition(argument) for argument in args], decisive=op == "or")
        if op == "not":
            data, valid = self._condition(args[0])
            return Values(~data, valid)
        if op == "is_distinct":
            return _distinct(self.run(args[0]), self.run(args[1]), self._source.n_rows)
        if op == "is_null":
            return Values(~_valid(self.run(args[0]), self._source.n_rows), None)
        if op == "in":
            value = self.run(args[0])
            equal = [_compare("=", value, self.run(option)) for option in args[1:]]
            return _connect(equal, decisive=True)
        if op == "case":
            return self._case(call)
        if op == "coalesce":
            chosen = self.run(_typed(args[-1], call.type))
            for argument in reversed(args[:-1]):
                value = self.run(_typed(argument, call.type))
                chosen = self._choose(_valid(value, self._source.n_rows), value, chosen)
            return chosen
        if op == "nullif":
            value = self.run(_typed(args[0], call.type))
            same, known = _compare("=", value, self.run(args[1]))
            same = same if known is None else same & known
            return self._choose(same, literal(None, call.type), value)
        function = SCALARS.get(op)
        if function is None:
            raise NotSupportedError(f"the operator or function '{op}' is not supported yet")
        return function(call, [self.run(argument) for argument in args], self._faults)

    def _condition(self, expression: Expression) -> Values:
        return self.run(_typed(expression, DataType.BOOLEAN))

    def _case(self, call: Call) -> Values:
        *branches, otherwise = call.args
        chosen = self.run(_typed(otherwise, call.type))
        for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            holds, known = self._condition(condition)
            holds = holds if known is None else holds & known
            chosen = self._choose(holds, self.run(_typed(value, call.type)), chosen)
        return chosen

    def _choose(self, where: Any, one: Values, other: Values) -> Values:
        """Return ``one`` where the mask holds, ``other`` elsewhere."""
        n = self._source.n_rows
        where = np.broadcast_to(where, n)
        if isinstance(one.data, pa.Scalar | pa.Array):
            return Values(pc.if_else(pa.array(where), one.data, other.data), None)
        valid = None
        if one.valid is not None or other.valid is not None:
            one_valid, other_valid = (True if v is None else v for v in (one.valid, other.valid))
            valid = np.where(where, one_valid, other_valid)
        return Values(np.where(where, one.data, other.data), valid)


def _typed(expression: Expression, data_type: DataType) -> Expression:
    """Return the expression, a literal NULL with the type its place asks for."""
    if isinstance(expression, Literal) and expression.type is DataType.NULL:
        return Literal(None, data_type)
    return expression


def _valid(values: Values, n_rows: int) -> Any:
    """Return a mask of the rows that are not NULL."""
    data, valid = values
    if isinstance(data, pa.Scalar):
        return np.full(n_rows, data.is_valid)
    if isinstance(data, pa.Array):
        return data.is_valid().to_numpy(zero_copy_only=False)
    if valid is None:
        return np.ones(n_rows, np.bool_)
    return np.broadcast_to(valid, n_rows)


def _compare(op: str, left: Values, right: Values) -> Values:
    """Compare two values of one type; NULL and NaN make it UNKNOWN."""
    strings = [isinstance(side.data, pa.Scalar | pa.Array) for side in (left, right)]
    if any(strings):
        if not all(strings):  # the other is a literal NULL without a type
            return Values(np.False_, np.False_)
        return from_arrow(pc.call_function(COMPARISONS[op], [left.data, right.data]))
    valid = and_valid(left.valid, right.valid)
    for side in (left.data, right.data):
        if side.dtype == np.float64:
            valid = and_valid(valid, ~np.isnan(side))
    return Values(getattr(np, COMPARISONS[op])(left.data, right.data), valid)


def _distinct(left: Values, right: Values, n_rows: int) -> Values:
    """Tell two values of one type apart; NULL is like NULL and NaN like NaN."""
    one, other = _valid(left, n_rows), _valid(right, n_rows)
    differ, known = _compare("<>", left, right)
    differ = differ if known is None else differ & known
    if getattr(left.data, "dtype", None) == np.float64:
        differ = differ | (np.isnan(left.data) ^ np.isnan(right.data))
    return Values((one ^ other) | (one & other & differ), None)


def _connect(values: list[Values], *, decisive: bool) -> Values:
    """Return three-valued AND (``decisive`` False) or OR (True) of conditions."""
    decided: Any = np.False_
    unknown: Any = np.False_
    for data, valid in values:
        hit = data if decisive else ~data
        decided = decided | (hit if valid is None else hit & valid)
        if valid is not None:
            unknown = unknown | ~valid
    data = decided if decisive else ~decided
    if unknown is np.False_:
        return Values(data, None)
    return Values(data, decided | ~unknown)
