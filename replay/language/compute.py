"""Operators and functions on constants, exactly as operators evaluate them on events.

Faults (overflow, division by zero, domain) give None. See ``bound.Call``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from replay.language.bound import DataType

Value = int | float | str | bool
Numbers = int | float

_RANGES = {
    DataType.INTEGER: (-(2**63), 2**63 - 1),
    DataType.TIMESTAMP: (-(2**63), 2**63 - 1),
    DataType.TIMESTAMP_UTC: (-(2**63), 2**63 - 1),
    DataType.INTERVAL: (-(2**63), 2**63 - 1),
    DataType.DATE: (-(2**31), 2**31 - 1),
}
DAY_US = 86_400_000_000


def compute(op: str, values: list[Value], data_type: DataType) -> Value | None:
    """Return the value of an operator or function over values that are not NULL.

    Parameters
    ----------
    op
        As in ``bound.Call``; not one that looks at NULL or UNKNOWN itself.
    values
        The arguments.
    data_type
        Type of the result.
    """
    return _in_range(_FUNCTIONS[op](*values), data_type)


def cast(value: Value, source: DataType, target: DataType) -> Value | None:
    """Return a constant in another type; ``(source, target)`` is one of ``types.CASTS``."""
    return _in_range(_CASTS[source, target](value), target)


def compare(op: str, left: Value, right: Value) -> bool | None:
    """Return a comparison, None (UNKNOWN) if a side is NaN."""
    if is_nan(left) or is_nan(right):
        return None
    return _COMPARISONS[op](left, right)


def is_nan(value: Value) -> bool:
    """Tell whether a constant is the DOUBLE that is no number."""
    return isinstance(value, float) and math.isnan(value)


def like_to_regex(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression that a whole text must match (with ``re.DOTALL``).

    Raises
    ------
    ValueError
        If the pattern ends with its escape character.
    """
    out = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == escape:
            if position == len(pattern):
                raise ValueError("the pattern ends with its escape character")
            out.append(re.escape(pattern[position]))
            position += 1
        else:
            out.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(out)


def _in_range(value: Value | None, data_type: DataType) -> Value | None:
    limits = _RANGES.get(data_type)
    if value is None or limits is None:
        return value
    assert isinstance(value, int)
    return value if limits[0] <= value <= limits[1] else None


def _divide(left: Numbers, right: Numbers) -> Numbers | None:
    if right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Numbers, right: Numbers) -> Numbers | None:
    if right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    remainder: int = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _floor(value: Numbers) -> Numbers:
    return float(math.floor(value)) if isinstance(value, float) and _finite(value) else value


def _ceil(value: Numbers) -> Numbers:
    # copysign keeps the zero of ceil(-0.5) negative, as IEEE 754 has it.
    if isinstance(value, float) and _finite(value):
        return math.copysign(float(math.ceil(value)), value)
    return value


def _finite(value: float) -> bool:
    return math.isfinite(value) and value != 0


def _round(value: Numbers, digits: int = 0) -> Numbers:
    """Round half away from zero; a value that is whole at that digit stays untouched."""
    if isinstance(value, int):
        if digits >= 0:
            return value
        unit = 10**-digits
        magnitude: int = (abs(value) + unit // 2) // unit * unit
        return magnitude if value >= 0 else -magnitude
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    if not math.isfinite(scaled) or scaled == math.floor(scaled):
        return value
    whole = math.copysign(float(half_away(scaled)), value)
    rounded = whole / power if digits >= 0 else whole * power
    return rounded if math.isfinite(rounded) else value


def half_away(value: float) -> int:
    """Return the nearest whole number, of two the one further from zero."""
    whole = math.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return whole


def _power(base: float, exponent: float) -> float | None:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        negative = base < 0 and exponent % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:  # 0 to a negative power, or a negative base to a fraction
        return None


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _like(value: str, pattern: str, escape: str | None = None) -> bool:
    return re.fullmatch(like_to_regex(pattern, escape), value, re.DOTALL) is not None


def _arrow(name: str) -> Callable[[str], str]:
    """Return a text function of Arrow, so that constants and columns agree on every letter."""

    def apply(value: str) -> str:
        import pyarrow.compute as pc

        return str(pc.call_function(name, [value]).as_py())

    return apply


_COMPARISONS: dict[str, Callable[..., bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}

_FUNCTIONS: dict[str, Callable[..., Value | None]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _remainder,
    "neg": lambda value: -value,
    "abs": abs,
    "floor": _floor,
    "ceil": _ceil,
    "round": _round,
    "sqrt": lambda value: None if value < 0 else math.sqrt(value),
    "ln": lambda value: None if value <= 0 else math.log(value),
    "exp": _exp,
    "power": _power,
    "lower": _arrow("utf8_lower"),
    "upper": _arrow("utf8_upper"),
    "length": len,
    "like": _like,
}

_CASTS: dict[tuple[DataType, DataType], Callable[..., Value | None]] = {
    (DataType.INTEGER, DataType.DOUBLE): float,
    (DataType.DOUBLE, DataType.INTEGER): lambda v: half_away(v) if math.isfinite(v) else None,
    (DataType.BOOLEAN, DataType.INTEGER): int,
    (DataType.INTEGER, DataType.STRING): str,
    (DataType.BOOLEAN, DataType.STRING): lambda value: "true" if value else "false",
    (DataType.DATE, DataType.TIMESTAMP): lambda value: value * DAY_US,
    (DataType.TIMESTAMP, DataType.DATE): lambda value: value // DAY_US,
}
