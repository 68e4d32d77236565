"""Arithmetic by column, and the table of all scalar functions; a row at fault gives NULL.

Each such row is counted.
"""

# ruff: noqa: ARG001 - functions of a dispatch table share one signature

from __future__ import annotations

from typing import Any

import numpy as np

from replay.expressions.columns import Values
from replay.expressions.functions import casts, zones
from replay.expressions.functions.faults import Faults, Function
from replay.expressions.functions.faults import both_valid as _both
from replay.expressions.functions.numbers import NUMBERS, by_column, epoch
from replay.expressions.functions.texts import TEXTS
from replay.expressions.nodes import Call, DataType
from replay.expressions.types import SCALES

__all__ = ["SCALARS", "Faults"]

INT64_MIN = np.iinfo(np.int64).min
INT32 = np.iinfo(np.int32)
_TWO_62 = 2.0**62


def _is_float(value: Values) -> bool:
    return bool(value.data.dtype == np.float64)


def _in_type(call: Call, data: Any, exists: Any) -> Any:
    """Narrow to int32 where the result is a date, to 18 digits where it is a decimal."""
    if call.type in SCALES:
        return exists & (np.abs(data) < casts.DECIMAL_LIMIT)
    if call.type is not DataType.DATE:
        return exists
    return exists & (data >= INT32.min) & (data <= INT32.max)


def _add(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    data = a + b
    if _is_float(args[0]):
        return Values(data, _both(args))
    exists = ((a ^ data) & (b ^ data)) >= 0
    return faults.drop(Values(data, _both(args)), _in_type(call, data, exists))


def _subtract(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    data = a - b
    if _is_float(args[0]):
        return Values(data, _both(args))
    exists = ((a ^ b) & (a ^ data)) >= 0
    return faults.drop(Values(data, _both(args)), _in_type(call, data, exists))


def _multiply(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    data = a * b
    if _is_float(args[0]):
        return Values(data, _both(args))
    # The product of doubles is off by far less than a factor of two, so only rows near the end
    # of the range need the exact test.
    doubtful = np.abs(np.multiply(a, b, dtype=np.float64)) >= _TWO_62
    if not np.any(doubtful):
        within = _in_type(call, data, np.True_)
        return faults.drop(Values(data, _both(args)), within)
    exists = np.ones(np.shape(data), np.bool_)
    wide_a, wide_b = np.broadcast_to(a, exists.shape), np.broadcast_to(b, exists.shape)
    for row in zip(*np.nonzero(np.atleast_1d(doubtful)), strict=True):
        at = row if exists.shape else ()
        product = int(wide_a[at]) * int(wide_b[at])
        exists[at] = INT64_MIN <= product < 2**63
    return faults.drop(Values(data, _both(args)), _in_type(call, data, exists))


def _divide(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    exists = b != 0
    safe = np.where(exists, b, b.dtype.type(1))
    if _is_float(args[0]):
        return faults.drop(Values(a / safe, _both(args)), exists)
    exists = exists & ~((a == INT64_MIN) & (b == -1))
    safe = np.where(exists, b, np.int64(1))
    data = a // safe
    data = data + ((data < 0) & (data * safe != a))  # towards zero
    return faults.drop(Values(data, _both(args)), exists)


def _remainder(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    exists = b != 0
    if _is_float(args[0]):
        return faults.drop(Values(np.fmod(a, b), _both(args)), exists)
    safe = np.where((b == 0) | (b == -1), np.int64(1), b)  # INT64_MIN % -1 traps
    return faults.drop(Values(np.fmod(a, safe), _both(args)), exists)


def _negate(call: Call, args: list[Values], faults: Faults) -> Values:
    data, valid = args[0]
    exists = None if _is_float(args[0]) else data != INT64_MIN
    return faults.drop(Values(-data, valid), exists)


def _absolute(call: Call, args: list[Values], faults: Faults) -> Values:
    data, valid = args[0]
    exists = None if _is_float(args[0]) else data != INT64_MIN
    return faults.drop(Values(np.abs(data), valid), exists)


SCALARS: dict[str, Function] = {
    **dict.fromkeys(NUMBERS, by_column),
    **TEXTS,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "mod": _remainder,
    "neg": _negate,
    "abs": _absolute,
    "epoch": epoch,
    "local_time": zones.local_time,
    "instant": zones.instant,
    "cast": casts.cast,
    "saturated": casts.saturated,
}
"""What evaluates a call of each operator or function on the values of its arguments."""
