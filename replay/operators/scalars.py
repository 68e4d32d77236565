"""Arithmetic, casts and scalar functions by column; a row at fault gives NULL and is counted."""

# ruff: noqa: ARG001 - functions of a dispatch table share one signature

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import NotSupportedError
from replay.language.bound import Call, DataType, Literal
from replay.operators.columns import Values, from_arrow

INT64_MIN = np.iinfo(np.int64).min
INT32 = np.iinfo(np.int32)
DAY_US = 86_400_000_000
_TWO_62 = 2.0**62
_TWO_63 = 2.0**63


class Faults:
    """Counts rows that gave NULL because of a fault.

    Parameters
    ----------
    codes
        Where the rows evaluated are entries of a dictionary: the entry of each real row.
    """

    def __init__(self, codes: npt.NDArray[np.int32] | None = None) -> None:
        self.count = 0
        self._codes = codes

    def drop(self, values: Values, exists: Any) -> Values:
        """Return the values, NULL where they do not exist; count the rows where that is new."""
        if exists is None or np.all(exists):
            return values
        data, valid = values
        fault = ~exists if valid is None else valid & ~exists
        if self._codes is not None and np.ndim(fault):
            fault = fault[self._codes]
        self.count += int(np.count_nonzero(fault))
        return Values(data, exists if valid is None else valid & exists)


Function = Callable[[Call, list[Values], Faults], Values]


def _both(values: list[Values]) -> Any:
    """Return where all arguments are known."""
    valid = None
    for value in values:
        if value.valid is not None:
            valid = value.valid if valid is None else valid & value.valid
    return valid


def _is_float(value: Values) -> bool:
    return bool(value.data.dtype == np.float64)


def _in_date(call: Call, data: Any, exists: Any) -> Any:
    """Narrow to int32 where the result is a date."""
    if call.type is not DataType.DATE:
        return exists
    return exists & (data >= INT32.min) & (data <= INT32.max)


def _add(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    data = a + b
    if _is_float(args[0]):
        return Values(data, _both(args))
    exists = ((a ^ data) & (b ^ data)) >= 0
    return faults.drop(Values(data, _both(args)), _in_date(call, data, exists))


def _subtract(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    data = a - b
    if _is_float(args[0]):
        return Values(data, _both(args))
    exists = ((a ^ b) & (a ^ data)) >= 0
    return faults.drop(Values(data, _both(args)), _in_date(call, data, exists))


def _multiply(call: Call, args: list[Values], faults: Faults) -> Values:
    a, b = args[0].data, args[1].data
    data = a * b
    if _is_float(args[0]):
        return Values(data, _both(args))
    # The product of doubles is off by far less than a factor of two, so only rows near the end
    # of the range need the exact test.
    doubtful = np.abs(np.multiply(a, b, dtype=np.float64)) >= _TWO_62
    if not np.any(doubtful):
        return Values(data, _both(args))
    exists = np.ones(np.shape(data), np.bool_)
    wide_a, wide_b = np.broadcast_to(a, exists.shape), np.broadcast_to(b, exists.shape)
    for row in zip(*np.nonzero(np.atleast_1d(doubtful)), strict=True):
        at = row if exists.shape else ()
        product = int(wide_a[at]) * int(wide_b[at])
        exists[at] = INT64_MIN <= product < 2**63
    return faults.drop(Values(data, _both(args)), exists)


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


def _floor(call: Call, args: list[Values], faults: Faults) -> Values:
    return _whole(np.floor, call, args[0], faults)


def _ceil(call: Call, args: list[Values], faults: Faults) -> Values:
    return _whole(np.ceil, call, args[0], faults)


def _whole(rounding: Any, call: Call, value: Values, faults: Faults) -> Values:
    if not _is_float(value):
        return value
    rounded = Values(rounding(value.data), value.valid)
    return _to_integer(rounded, faults) if call.type is DataType.INTEGER else rounded


def _half_away(data: Any) -> Any:
    """Round half away from zero."""
    whole = np.trunc(data)
    return np.where(np.abs(data - whole) >= 0.5, whole + np.sign(data), whole)


def _round(call: Call, args: list[Values], faults: Faults) -> Values:
    value = args[0]
    digits: Any = args[1].data if len(args) > 1 else np.int64(0)
    valid = _both(args)
    if not _is_float(value):
        return _round_integer(value.data, digits, valid, faults)
    power = np.power(10.0, np.abs(digits))
    up = digits >= 0
    scaled = np.where(up, value.data * power, value.data / power)
    whole = np.copysign(_half_away(scaled), value.data)
    data = np.where(up, whole / power, whole * power)
    keep = ~np.isfinite(scaled) | (scaled == np.floor(scaled)) | ~np.isfinite(data)
    rounded = Values(np.where(keep, value.data, data), valid)
    return _to_integer(rounded, faults) if call.type is DataType.INTEGER else rounded


def _round_integer(data: Any, digits: Any, valid: Any, faults: Faults) -> Values:
    if np.all(digits >= 0):
        return Values(data, valid)
    shape = np.broadcast_shapes(np.shape(data), np.shape(digits))
    rounded = np.empty(shape, np.int64)
    exists = np.ones(shape, np.bool_)
    wide, places = np.broadcast_to(data, shape), np.broadcast_to(digits, shape)
    for at in np.ndindex(shape):
        unit = 10 ** min(max(-int(places[at]), 0), 20)
        magnitude = (abs(int(wide[at])) + unit // 2) // unit * unit
        signed = magnitude if wide[at] >= 0 else -magnitude
        exists[at] = INT64_MIN <= signed < 2**63
        rounded[at] = signed if exists[at] else 0
    return faults.drop(Values(rounded, valid), exists)


def _sqrt(call: Call, args: list[Values], faults: Faults) -> Values:
    data, valid = args[0]
    return faults.drop(Values(np.sqrt(data), valid), ~(data < 0))


def _ln(call: Call, args: list[Values], faults: Faults) -> Values:
    data, valid = args[0]
    return faults.drop(Values(np.log(data), valid), ~(data <= 0))


def _exp(call: Call, args: list[Values], faults: Faults) -> Values:
    return Values(np.exp(args[0].data), args[0].valid)


def _power(call: Call, args: list[Values], faults: Faults) -> Values:
    base, exponent = args[0].data, args[1].data
    fraction = np.isfinite(base) & np.isfinite(exponent) & (exponent != np.trunc(exponent))
    exists = ~((base == 0) & (exponent < 0)) & ~((base < 0) & fraction)
    return faults.drop(Values(np.power(base, exponent), _both(args)), exists)


def _lower(call: Call, args: list[Values], faults: Faults) -> Values:
    return Values(pc.utf8_lower(args[0].data), None)


def _upper(call: Call, args: list[Values], faults: Faults) -> Values:
    return Values(pc.utf8_upper(args[0].data), None)


def _length(call: Call, args: list[Values], faults: Faults) -> Values:
    return from_arrow(pc.utf8_length(args[0].data))


def _like(call: Call, args: list[Values], faults: Faults) -> Values:
    constants = [argument.value for argument in call.args[1:] if isinstance(argument, Literal)]
    texts = [constant for constant in constants if isinstance(constant, str)]
    if len(texts) < len(call.args) - 1:  # NULL as the pattern or the escape
        return Values(np.False_, np.False_)
    pattern = like_regex(*texts)
    return from_arrow(pc.match_substring_regex(args[0].data, pattern=pattern))


def like_regex(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression (RE2) of a LIKE pattern, anchored at both ends."""
    parts = []
    escaped = False
    for character in pattern:
        if not escaped and character == escape:
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(character) if not escaped else None
        parts.append(wild or re.escape(character))
        escaped = False
    return rf"\A(?s:{''.join(parts)})\z"


def _to_integer(value: Values, faults: Faults) -> Values:
    """Round doubles half away from zero; NaN and what int64 cannot hold is a fault."""
    whole = _half_away(value.data)
    exists = (whole >= -_TWO_63) & (whole < _TWO_63)
    return faults.drop(Values(np.where(exists, whole, 0.0).astype(np.int64), value.valid), exists)


def _to_strings(value: Values, array: Any) -> Values:
    if value.valid is not None:
        mask = ~np.broadcast_to(value.valid, np.shape(value.data))
        array = pc.if_else(pa.array(np.atleast_1d(mask)), pa.scalar(None, pa.string()), array)
    return Values(array if np.ndim(value.data) else array[0], None)


def _cast(call: Call, args: list[Values], faults: Faults) -> Values:
    source, target = call.args[0].type, call.type
    value = args[0]
    times = (DataType.TIMESTAMP, DataType.TIMESTAMP_UTC)
    if source is target or (source in times and target in times):
        return value
    if source is DataType.NULL:
        if target is DataType.STRING:
            return Values(pa.scalar(None, pa.string()), None)
        dtype: Any = {DataType.DOUBLE: np.float64, DataType.BOOLEAN: np.bool_}.get(target, np.int64)
        return Values(dtype(0), np.False_)
    if target is DataType.DOUBLE and source in (DataType.INTEGER, DataType.BOOLEAN):
        return Values(value.data.astype(np.float64), value.valid)
    if target is DataType.INTEGER and source is DataType.DOUBLE:
        return _to_integer(value, faults)
    if target is DataType.INTEGER and source is DataType.BOOLEAN:
        return Values(value.data.astype(np.int64), value.valid)
    if target is DataType.STRING and source in (DataType.INTEGER, DataType.BOOLEAN):
        return _to_strings(value, pa.array(np.atleast_1d(value.data)).cast(pa.string()))
    if target in times and source is DataType.DATE:
        data = value.data * DAY_US
        limit = (2**63 - 1) // DAY_US
        return faults.drop(Values(data, value.valid), np.abs(value.data) <= limit)
    if target is DataType.DATE and source in times:
        data = value.data // DAY_US
        return faults.drop(Values(data, value.valid), _in_date(call, data, np.True_))
    raise NotSupportedError(f"CAST from {source.value} to {target.value} is not supported yet")


SCALARS: dict[str, Function] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "mod": _remainder,
    "neg": _negate,
    "abs": _absolute,
    "floor": _floor,
    "ceil": _ceil,
    "round": _round,
    "sqrt": _sqrt,
    "ln": _ln,
    "exp": _exp,
    "power": _power,
    "lower": _lower,
    "upper": _upper,
    "length": _length,
    "like": _like,
    "cast": _cast,
}
