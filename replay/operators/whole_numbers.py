"""Counts and sums of integers and decimals of groups, of any size, in what an outer query does.

One that fits its type, 64 bits of INTEGER or the digits of a DECIMAL, is of it as any other. Where
one of a column does not, the column is a DECIMAL of 76 digits, and what can be told exactly is: its
digits, its logarithm, how it compares to a constant, its place in ORDER BY. Other computations are
refused by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.aggregates.exact import listed
from replay.errors import QueryError
from replay.expressions.columns import from_arrow, to_arrow
from replay.expressions.scalars import Faults
from replay.expressions.types import DECIMAL_DIGITS, SCALES
from replay.language.bound import (
    Aggregate,
    Call,
    DataType,
    Expression,
    Literal,
    Outer,
    SortKey,
)

Numbers = Sequence[int | None] | npt.NDArray[np.int64]
"""Of groups, None for NULL; an array where there is none, and all fit 64 bits. Of decimals in units
of the last digit."""

Exact = Sequence[int | Fraction | None]
"""Numbers as they are."""

DIGITS_MAX = 76
"""Digits of Arrow's widest decimal."""

WHOLE = frozenset({DataType.INTEGER, *SCALES})
"""Types whose sums are exact."""

_INT64 = np.iinfo(np.int64)
_EXACT = Context(prec=100_000)
"""For more digits than a number has."""


class WholeNumbers:
    """Puts counts and sums of integers and decimals of groups into what reads them.

    Parameters
    ----------
    numbers
        By aggregate: its value in every group, in one order; None for NULL.
    group_of
        How messages call a group, by its place in that order.
    """

    def __init__(
        self,
        numbers: dict[Aggregate, Numbers],
        group_of: Callable[[int], str],
        faults: Faults,
    ) -> None:
        self._numbers = numbers
        self._group_of = group_of
        self._faults = faults
        self._large = {part for part, values in numbers.items() if _is_large(part, values)}
        self.columns: dict[Expression, pa.Array] = {}
        """What has been computed of them: columns with a row for each group."""

    def put_in(self, outer: Outer) -> None:
        """Compute what an outer query over groups reads of the numbers, into `columns`.

        HAVING is its ``where``.
        """
        if outer.where is not None:
            self._put_in(outer.where, "HAVING")
        for name, expression in outer.items:
            if expression in self._large:
                assert isinstance(expression, Aggregate)
                self.columns[expression] = self._decimals(expression, f"'{name}'")
            else:
                self._put_in(expression, f"'{name}'")
        for key in outer.order_by:
            self._put_in_order(key)

    def _put_in_order(self, key: SortKey) -> None:
        part = key.expression
        if part in self._large and part not in self.columns:
            assert isinstance(part, Aggregate)
            self.columns[part] = self._ranks(part)
        elif part not in self.columns:
            self._put_in(part, "ORDER BY")

    def _put_in(self, expression: Expression, where: str) -> None:
        """Compute the parts of an expression that read numbers; ``where`` is for errors."""
        if expression in self.columns and expression not in self._large:
            return
        computed = self._computed(expression, where)
        if computed is not None:
            self.columns[expression] = computed
        elif isinstance(expression, Call):
            for argument in expression.args:
                self._put_in(argument, where)

    def _computed(self, part: Expression, where: str) -> pa.Array | None:
        """Return the values of an expression that is told of numbers exactly; None: it is not."""
        if isinstance(part, Aggregate) and part in self._numbers:
            if part in self._large:
                raise self._too_large(part, where)
            return to_arrow(from_arrow(pa.array(self._numbers[part], pa.int64())), part.type)
        if not isinstance(part, Call):
            return None
        number = self._number(part.args[0]) if len(part.args) == 1 else None
        if part.op == "cast" and part.type is DataType.DECIMAL_76 and number is not None:
            assert isinstance(part.args[0], Aggregate)
            return self._decimals(part.args[0], where)
        if part.op == "cast" and part.type is DataType.STRING and part.args[0] in self._numbers:
            assert isinstance(part.args[0], Aggregate)
            decimals = _scaled(part.args[0], self._numbers[part.args[0]])
            return pa.array([None if n is None else f"{n:f}" for n in decimals], pa.string())
        if part.op == "is_null" and part.args[0] in self._numbers:
            assert number is not None
            return pa.array([n is None for n in number])
        if part.op in _LOGARITHMS and number is not None:
            return self._logarithms(number, _LOGARITHMS[part.op])
        return self._compared(part)

    def _number(self, part: Expression) -> Exact | None:
        """Return the numbers an expression is, converted to another type of number or not."""
        while isinstance(part, Call) and part.op in ("cast", "saturated") and part.type in _NUMBERS:
            part = part.args[0]
        if not isinstance(part, Aggregate) or part not in self._numbers:
            return None
        numbers = listed(self._numbers[part])
        if part.type is DataType.INTEGER:
            return numbers
        unit = 10 ** SCALES[part.type]
        return [None if n is None else Fraction(n, unit) for n in numbers]

    def _compared(self, part: Call) -> pa.Array | None:
        """Return what a comparison with constants, or of two numbers, says; exact."""
        if not any(map(self._is_exact_only, part.args)):
            return None
        sides = [self._number(side) for side in part.args]
        constants = [_constant(side) for side in part.args]
        if any(s is None and c is None for s, c in zip(sides, constants, strict=True)):
            return None
        if part.op == "in":
            first = sides[0]
            assert first is not None
            options = set(constants[1:])
            return pa.array([None if n is None else n in options for n in first], pa.bool_())
        compare = _COMPARISONS.get(part.op)
        if compare is None:
            return None
        n_groups = len(next(side for side in sides if side is not None))
        left, right = (
            [constant] * n_groups if side is None else side
            for side, constant in zip(sides, constants, strict=True)
        )
        told = [
            None if a is None or b is None else compare(a, b)
            for a, b in zip(left, right, strict=True)
        ]
        return pa.array(told, pa.bool_())

    def _is_exact_only(self, part: Expression) -> bool:
        """Tell whether a comparison of it as a number of its type, or a DOUBLE, may be wrong."""
        is_other = part not in self._numbers or part in self._large
        return is_other and self._number(part) is not None

    def _decimals(self, part: Aggregate, what: str) -> pa.Array:
        values = listed(self._numbers[part])
        for group, number in enumerate(values):
            if number is not None and abs(number) >= 10**DIGITS_MAX:
                raise self._too_long(number, group, what)
        type_ = pa.decimal256(DIGITS_MAX, SCALES.get(part.type, 0))
        return pa.array(_scaled(part, values), type_)

    def _ranks(self, part: Aggregate) -> pa.Array:
        """Return numbers of 64 bits in the order of the numbers."""
        values = self._numbers[part]
        places = {n: place for place, n in enumerate(sorted({n for n in values if n is not None}))}
        return pa.array([None if n is None else places[n] for n in values], pa.int64())

    def _logarithms(self, numbers: Exact, log: Callable[[Any], float]) -> pa.Array:
        exists = np.array([n is None or n > 0 for n in numbers], np.bool_)
        self._faults.add(~exists)
        told = [None if n is None or n <= 0 else _logarithm(n, log) for n in numbers]
        return pa.array(told, pa.float64())

    def _too_large(self, part: Aggregate, where: str) -> QueryError:
        values = self._numbers[part]
        group = next(i for i, n in enumerate(values) if n is not None and not _fits(part, n))
        is_integer = part.type is DataType.INTEGER
        return QueryError(
            f"{where} computes with a number of {_digits(values[group] or 0):,} digits"
            f"{self._group_of(group)}, which {part.type.value} cannot hold; such a number can be "
            "selected alone, compared with a constant, ordered by, and read by CAST(… AS VARCHAR), "
            f"{'CAST(… AS DECIMAL(76, 0)), ' if is_integer else ''}LOG10, LOG2 and LN"
        )

    def _too_long(self, number: int, group: int, what: str) -> QueryError:
        return QueryError(
            f"{what} is a number of {_digits(number):,} digits{self._group_of(group)}, more than "
            f"the {DIGITS_MAX} of a DECIMAL; write CAST(… AS VARCHAR) for all of them, LOG10(…) "
            "for how many they are, or take a smaller window"
        )


_NUMBERS = frozenset({DataType.DOUBLE, DataType.DECIMAL_76, *SCALES})
_LOGARITHMS: dict[str, Callable[[Any], float]] = {
    "ln": math.log,
    "log10": math.log10,
    "log2": math.log2,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _constant(part: Expression) -> int | float | Fraction | None:
    """Return a constant number, exactly; None for what is none."""
    if not isinstance(part, Literal) or isinstance(part.value, bool | str) or part.value is None:
        return None
    if part.type in SCALES:
        assert isinstance(part.value, int)
        return Fraction(part.value, 10 ** SCALES[part.type])
    return part.value


def _scaled(part: Aggregate, values: Numbers) -> list[Decimal | None]:
    """Return numbers as decimals, those in units of a last digit as what they stand for."""
    scale = SCALES.get(part.type, 0)
    return [
        None if number is None else Decimal(number).scaleb(-scale, _EXACT)
        for number in listed(values)
    ]


def _logarithm(number: int | Fraction, log: Callable[[Any], float]) -> float:
    try:
        return log(number)
    except OverflowError:  # of a fraction beyond a DOUBLE
        return log(number.numerator) - log(number.denominator)


def _fits(part: Aggregate, number: int) -> bool:
    if part.type in SCALES:
        return abs(number) < int(10**DECIMAL_DIGITS)
    return int(_INT64.min) <= number <= int(_INT64.max)


def _is_large(part: Aggregate, values: Numbers) -> bool:
    if isinstance(values, np.ndarray) and part.type is DataType.INTEGER:
        return False
    known = [number for number in listed(values) if number is not None]
    return bool(known) and not (_fits(part, min(known)) and _fits(part, max(known)))


def _digits(number: int) -> int:
    """Return how many digits a number has; of one of thousands about how many."""
    if abs(number) < 10**1000:
        return len(str(abs(number)))
    return math.floor(math.log10(abs(number))) + 1
