"""Functions of numbers and times by column: which compiled function a call is, and its loop."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from replay.expressions.columns import Values
from replay.expressions.functions import kernels
from replay.expressions.functions.faults import Faults, both_valid
from replay.expressions.nodes import Call, DataType, Expression, Literal

T = DataType

_DOUBLES = {
    "sqrt": kernels.SQRT,
    "cbrt": kernels.CBRT,
    "ln": kernels.LN,
    "log10": kernels.LOG10,
    "log2": kernels.LOG2,
    "exp": kernels.EXP,
    "sin": kernels.SIN,
    "cos": kernels.COS,
    "tan": kernels.TAN,
    "asin": kernels.ASIN,
    "acos": kernels.ACOS,
    "atan": kernels.ATAN,
    "degrees": kernels.DEGREES,
    "radians": kernels.RADIANS,
    "floor": kernels.FLOOR_F,
    "ceil": kernels.CEIL_F,
    "trunc": kernels.TRUNC_F,
    "sign": kernels.SIGN_F,
    "round": kernels.ROUND_F,
    "power": kernels.POWER,
    "atan2": kernels.ATAN2,
    "log": kernels.LOG,
    "distance": kernels.DISTANCE,
}
_INTEGERS = {
    "sign": kernels.SIGN_I,
    "round": kernels.ROUND_I,
    **dict.fromkeys(("floor", "ceil", "trunc"), kernels.IDENTITY),
    "year": kernels.YEAR,
    "quarter": kernels.QUARTER,
    "month": kernels.MONTH,
    "day": kernels.DAY,
    "day_of_week": kernels.DAY_OF_WEEK,
    "day_of_year": kernels.DAY_OF_YEAR,
    "week": kernels.WEEK,
    "year_of_week": kernels.YEAR_OF_WEEK,
    "time_part": kernels.TIME_PART,
    "time_floor": kernels.TIME_FLOOR,
    "month_floor": kernels.MONTH_FLOOR,
    "add_months": kernels.ADD_MONTHS,
    "months_between": kernels.MONTHS_BETWEEN,
}
_CASTS = {
    (T.INTEGER, T.BOOLEAN): kernels.IS_NOT_ZERO,
    (T.BOOLEAN, T.INTEGER): kernels.IDENTITY,
    (T.DATE, T.TIMESTAMP): kernels.DAYS_TO_MOMENT,
    (T.DATE, T.TIMESTAMP_UTC): kernels.DAYS_TO_MOMENT,
    (T.TIMESTAMP, T.DATE): kernels.MOMENT_TO_DAYS,
    (T.TIMESTAMP_UTC, T.DATE): kernels.MOMENT_TO_DAYS,
    (T.TIMESTAMP, T.TIMESTAMP_UTC): kernels.IDENTITY,
    (T.TIMESTAMP_UTC, T.TIMESTAMP): kernels.IDENTITY,
}
_WIDTH = 4
"""Most arguments of a compiled function of doubles."""
_INTEGER_WIDTH = 3


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function of `kernels`."""

    number: int
    of_doubles: bool
    """Whether arguments and result are doubles (int64 otherwise, also for booleans)."""


def compiled(call: Call) -> Compiled | None:
    """Return the compiled function that a call is; None if it is none."""
    if call.op == "cast":
        source = call.args[0].type
        number = kernels.IDENTITY if source is call.type else _CASTS.get((source, call.type))
        return None if number is None or source is T.DOUBLE else Compiled(number, False)
    of_doubles = bool(call.args) and call.args[0].type is T.DOUBLE
    number = (_DOUBLES if of_doubles else _INTEGERS).get(call.op)
    if call.op == "is_distinct":
        number = kernels.IS_DISTINCT
    return None if number is None else Compiled(number, of_doubles)


def operands(call: Call) -> tuple[Expression, ...]:
    """Return the arguments of a compiled function, all of them of the type it works on."""
    if call.op == "round" and call.args[0].type is T.DOUBLE and len(call.args) > 1:
        value, digits = call.args
        assert isinstance(digits, Literal)
        number = None if digits.value is None else float(digits.value)
        return value, Literal(number, T.DOUBLE)
    if call.op == "round" and len(call.args) == 1:
        return call.args[0], Literal(0.0 if call.args[0].type is T.DOUBLE else 0, call.args[0].type)
    return call.args


def by_column(call: Call, args: list[Values], faults: Faults) -> Values:
    """Evaluate a call that is a compiled function."""
    function = compiled(call)
    assert function is not None
    sizes = [np.size(value.data) for value in args if np.ndim(value.data)]
    n_rows = sizes[0] if sizes else 1
    dtype: Any = np.float64 if function.of_doubles else np.int64
    width = _WIDTH if function.of_doubles else _INTEGER_WIDTH
    if not sizes:  # constants, for which compiled code is not worth loading
        kernel = kernels.double_function if function.of_doubles else kernels.integer_function
        constants = [dtype(value.data) for value in args] + [dtype(0)] * (width - len(args))
        with suppress(ArithmeticError):  # where the C library gives an infinity
            value, exists = kernel.plain(function.number, *constants)
            return faults.drop(Values(_result(call, dtype(value)), both_valid(args)), exists)
    datas = [_plain(value.data, dtype) for value in args]
    datas += [np.zeros(1, dtype)] * (width - len(datas))
    steps = np.array([0 if len(data) == 1 else 1 for data in datas], np.int64)
    out, exists = np.empty(n_rows, dtype), np.empty(n_rows, np.bool_)
    loop = kernels.double_column if function.of_doubles else kernels.integer_column
    loop(function.number, *datas, steps, out, exists)
    return faults.drop(Values(_result(call, out), both_valid(args)), exists)


def _result(call: Call, data: Any) -> Any:
    return data.astype(np.bool_) if call.type is T.BOOLEAN else data


def _plain(data: Any, dtype: Any) -> Any:
    """Return contiguous values of one type and one kind of array, so that one loop is compiled."""
    return np.require(np.atleast_1d(data), dtype, ["C_CONTIGUOUS", "WRITEABLE", "ALIGNED"])


def epoch(_: Call, args: list[Values], __: Faults) -> Values:
    """Return microseconds as seconds."""
    return Values(args[0].data.astype(np.float64) / 1e6, args[0].valid)


def spelling(call: Call) -> str:
    """Return how a query writes a call."""
    if call.op in ("cast", "saturated"):
        return f"CAST(… AS {call.type.value})"
    return {"local_time": "AT TIME ZONE", "instant": "AT TIME ZONE"}.get(call.op, call.op)


NUMBERS = frozenset({*_DOUBLES, *_INTEGERS})
"""Operators that `by_column` evaluates."""
