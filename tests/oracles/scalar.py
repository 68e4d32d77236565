"""Naive oracle of bound expressions: one event at a time, three-valued logic, faults are None.

The semantics, in one place (they are what ``replay.language.bound.Call`` promises):

* None is NULL and UNKNOWN. NaN is a value of DOUBLE, but in a comparison (``= <> < <= > >= in``,
  also inside ``nullif``) it makes the result UNKNOWN. ``is_null(NaN)`` is False.
* A NULL argument gives NULL, but for ``and or is_null case coalesce nullif``.
* INTEGER (and times, intervals, dates): a result outside int64 (date: int32) is NULL.
  ``/`` truncates towards zero, ``%`` has the sign of the dividend, by zero both are NULL.
* DOUBLE: ``+ - *`` as IEEE 754 has them (inf on overflow); ``/`` and ``%`` by zero are NULL.
* ``sqrt`` below 0, ``ln`` at or below 0, ``power(0, negative)`` and ``power(negative, fraction)``
  are NULL; ``exp`` and ``power`` overflow to inf. NaN in gives NaN out.
* ``round`` is half away from zero, ``round(x, n)`` scales by ``10 ** n`` first and gives ``x``
  back where the scaled value is whole or not finite.
* ``cast`` DOUBLE to INTEGER rounds half away from zero, NULL for NaN and outside int64;
  TIMESTAMP to DATE takes the floor; BOOLEAN to STRING gives ``true`` and ``false``.
* ``is_distinct`` is never UNKNOWN: NULL is like NULL, NaN like NaN.
* ``sqrt cbrt ln log* exp sin … atan2 power distance`` are those of the C library, to the last bit.
* ``lower`` and ``upper`` map code point to code point, ``length`` counts code points.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from replay.language.bound import (
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
    MatchNumber,
)
from tests.oracles.scalar_functions import apply_function, cast_text

Value = Any
Lookup = Callable[[Attribute | Classifier | MatchNumber], Value]

INT64 = (-(2**63), 2**63 - 1)
INT32 = (-(2**31), 2**31 - 1)
DAY_US = 86_400_000_000


def evaluate(expression: Expression, lookup: Lookup) -> Value:
    """Return the value of a bound expression.

    Parameters
    ----------
    expression
        As the binder gives it.
    lookup
        Gives the value of an attribute (also of ``Classifier()`` and ``MatchNumber()`` where the
        expression holds them) as int for times, intervals and dates; None for NULL.
    """
    if isinstance(expression, Literal):
        return expression.value
    if not isinstance(expression, Call):
        return lookup(expression)
    arguments = expression.args
    match expression.op:
        case "and":
            return _and([_truth(evaluate(argument, lookup)) for argument in arguments])
        case "or":
            negated = [_not(_truth(evaluate(argument, lookup))) for argument in arguments]
            return _not(_and(negated))
        case "not":
            return _not(_truth(evaluate(arguments[0], lookup)))
        case "is_null":
            return evaluate(arguments[0], lookup) is None
        case "case":
            for condition, value in zip(arguments[:-1:2], arguments[1::2], strict=True):
                if evaluate(condition, lookup) is True:
                    return evaluate(value, lookup)
            return evaluate(arguments[-1], lookup)
        case "coalesce":
            for argument in arguments:
                value = evaluate(argument, lookup)
                if value is not None:
                    return value
            return None
        case "nullif":
            left, right = (evaluate(argument, lookup) for argument in arguments)
            return None if _compare("=", left, right) is True else left
        case "is_distinct":
            left, right = (evaluate(argument, lookup) for argument in arguments)
            if left is None or right is None:
                return (left is None) != (right is None)
            both = [side != side for side in (left, right)]
            return both[0] != both[1] or (not both[0] and left != right)
        case "concat_ws":
            between, *texts = [evaluate(argument, lookup) for argument in arguments]
            if between is None:
                return None
            return between.join(text for text in texts if text is not None)
        case "in":
            value = evaluate(arguments[0], lookup)
            equal = [_compare("=", value, evaluate(option, lookup)) for option in arguments[1:]]
            return _not(_and([_not(one) for one in equal]))
    values = [evaluate(argument, lookup) for argument in arguments]
    if any(value is None for value in values):
        return None
    if expression.op in ("=", "<>", "<", "<=", ">", ">="):
        return _compare(expression.op, values[0], values[1])
    if expression.op == "cast":
        return _cast(values[0], arguments[0].type, expression.type)
    return _in_range(_apply(expression.op, values, expression.type), expression.type)


def _truth(value: Value) -> bool | None:
    assert value is None or isinstance(value, bool)
    return value


def _and(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _compare(op: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None or left != left or right != right:
        return None
    assert type(left) is type(right), (left, right)
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


def _in_range(value: Value, data_type: DataType) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    low, high = INT32 if data_type is DataType.DATE else INT64
    return value if low <= value <= high else None


def _apply(op: str, values: list, data_type: DataType) -> Value:
    match op, values:
        case "+", [left, right]:
            return left + right
        case "-", [left, right]:
            return left - right
        case "*", [left, right]:
            return left * right
        case (("/" | "%" | "mod"), [_, 0]):
            return None
        case "/", [int(left), int(right)]:
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case "/", [left, right]:
            return left / right
        case (("%" | "mod"), [int(left), int(right)]):
            remainder = abs(left) % abs(right)
            return -remainder if left < 0 else remainder
        case (("%" | "mod"), [left, right]):
            return math.nan if math.isinf(left) else math.fmod(left, right)
        case "neg", [value]:
            return -value
        case "abs", [value]:
            return abs(value)
        case "floor", [value]:
            return _whole(value, math.floor)
        case "ceil", [value]:
            return _whole(value, math.ceil)
        case "round", [value, *digits]:
            return _round(value, digits[0] if digits else 0)
        case "sqrt", [value]:
            return None if value < 0 else math.sqrt(value)
        case "ln", [value]:
            return None if value <= 0 else math.log(value)
        case "exp", [value]:
            return _or_infinite(lambda: math.exp(value), 1.0)
        case "power", [base, exponent]:
            return _power(base, exponent)
        case "lower", [value]:
            return "".join(_one_to_one(character, str.lower) for character in value)
        case "upper", [value]:
            return "".join(_one_to_one(character, str.upper) for character in value)
        case "length", [value]:
            return len(value)
        case "like", [value, pattern, *escape]:
            return re.fullmatch(like_regex(pattern, *escape), value, re.DOTALL) is not None
    return apply_function(op, values)


def _whole(value: int | float, rounding: Callable[[float], int]) -> int | float:
    if isinstance(value, int) or not math.isfinite(value):
        return value
    return math.copysign(float(rounding(value)), value)


def _round(value: int | float, digits: int) -> int | float:
    if isinstance(value, int):
        if digits >= 0:
            return value
        unit = 10**-digits
        magnitude = (abs(value) + unit // 2) // unit * unit
        return magnitude if value >= 0 else -magnitude
    if not math.isfinite(value):
        return value
    power = 10.0 ** abs(digits)
    scaled = value * power if digits >= 0 else value / power
    if not math.isfinite(scaled) or scaled == math.floor(scaled):
        return value
    whole = math.copysign(_half_away(scaled), value)
    result = whole / power if digits >= 0 else whole * power
    return result if math.isfinite(result) else value


def _half_away(value: float) -> int:
    magnitude = math.floor(abs(value))
    if abs(value) - magnitude >= 0.5:
        magnitude += 1
    return magnitude if value >= 0 else -magnitude


def _or_infinite(function: Callable[[], float], sign: float) -> float:
    try:
        return function()
    except OverflowError:
        return math.copysign(math.inf, sign)


def _power(base: float, exponent: float) -> float | None:
    if base == 0 and exponent < 0:
        return None
    if base < 0 and math.isfinite(base) and math.isfinite(exponent) and exponent != int(exponent):
        return None
    odd = math.isfinite(exponent) and exponent % 2 == 1
    return _or_infinite(lambda: math.pow(base, exponent), -1.0 if base < 0 and odd else 1.0)


def _one_to_one(character: str, mapping: Callable[[str], str]) -> str:
    """Map one code point to one code point; those that would become several stay."""
    mapped = "ẞ" if (character, mapping) == ("ß", str.upper) else mapping(character)
    return mapped if len(mapped) == 1 else character


def like_regex(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression of a LIKE pattern, to be matched in full."""
    out, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            out.append(re.escape(next(characters)))
        else:
            out.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return "".join(out)


def _cast(value: Value, source: DataType, target: DataType) -> Value:
    match source, target:
        case DataType.INTEGER, DataType.DOUBLE:
            return float(value)
        case DataType.DOUBLE, DataType.INTEGER:
            return _in_range(_half_away(value), target) if math.isfinite(value) else None
        case DataType.BOOLEAN, DataType.INTEGER:
            return int(value)
        case DataType.DATE, DataType.TIMESTAMP:
            return _in_range(value * DAY_US, target)
        case DataType.TIMESTAMP, DataType.DATE:
            return _in_range(value // DAY_US, target)
        case DataType.DATE, DataType.TIMESTAMP_UTC:
            return _in_range(value * DAY_US, target)
        case DataType.TIMESTAMP_UTC, DataType.DATE:
            return _in_range(value // DAY_US, target)
        case _ if source is target or {source, target} == {
            DataType.TIMESTAMP,
            DataType.TIMESTAMP_UTC,
        }:
            return value
        case DataType.INTEGER, DataType.BOOLEAN:
            return value != 0
        case DataType.BOOLEAN, DataType.DOUBLE:
            return 1.0 if value else 0.0
    return _in_range(cast_text(value, source, target), target)
