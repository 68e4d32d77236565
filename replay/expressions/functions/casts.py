"""Casts by column; those from and to texts value by value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.tree.double_double import divide
from replay.errors import NotSupportedError
from replay.expressions.columns import Values, literal
from replay.expressions.functions.faults import Faults
from replay.expressions.functions.numbers import by_column, compiled
from replay.expressions.functions.texts import by_row
from replay.expressions.literals import (
    EPOCH,
    INT64_MAX,
    INT64_MIN,
    TimeTextError,
    parse_date,
    parse_timestamp,
)
from replay.expressions.nodes import Call, DataType, Literal
from replay.expressions.types import CASTS, DECIMAL_DIGITS, SCALES

T = DataType

_TWO_63 = 2.0**63

DECIMAL_LIMIT = 10**DECIMAL_DIGITS
"""Units that a DECIMAL has fewer than."""


def cast(call: Call, args: list[Values], faults: Faults) -> Values:
    """Evaluate a cast."""
    source, target = call.args[0].type, call.type
    value = args[0]
    if source is T.NULL:
        return literal(None, target)
    if source is target or {source, target} == {T.TIMESTAMP, T.TIMESTAMP_UTC}:
        return value
    if (source, target) not in CASTS:
        raise NotSupportedError(f"CAST from {source.value} to {target.value} is not supported yet")
    if target is T.DOUBLE and source in (T.INTEGER, T.BOOLEAN):
        return Values(value.data.astype(np.float64), value.valid)
    if source in SCALES and target is T.DOUBLE:
        return Values(_quotients(value.data, 10 ** SCALES[source]), value.valid)
    if target in SCALES:
        return _scaled(value, SCALES[target] - SCALES.get(source, 0), faults)
    if source in SCALES and target is T.INTEGER:
        return Values(_whole(value.data, 10 ** SCALES[source]), value.valid)
    if target is T.INTEGER and source is T.DOUBLE:
        return _to_integer(value, faults)
    if target is T.STRING and source in (T.INTEGER, T.BOOLEAN):
        return _to_strings(value, pa.array(np.atleast_1d(value.data)).cast(pa.string()))
    if T.STRING in (source, target):
        return by_row(call, args, faults, _OF_TEXTS[source, target])
    assert compiled(call) is not None
    return by_column(call, args, faults)


def _to_integer(value: Values, faults: Faults) -> Values:
    """Round doubles half away from zero; NaN and what int64 cannot hold is a fault."""
    whole = np.trunc(value.data)
    whole = np.where(np.abs(value.data - whole) >= 0.5, whole + np.sign(value.data), whole)
    exists = (whole >= -_TWO_63) & (whole < _TWO_63)
    return faults.drop(Values(np.where(exists, whole, 0.0).astype(np.int64), value.valid), exists)


def _quotients(units: Any, by: int) -> Any:
    """Return integers divided by a power of ten, rounded once."""
    rounded = np.asarray(units, np.float64)
    rest = (units - rounded.astype(np.int64)).astype(np.float64)
    return divide((rounded, rest), np.float64(by))[0]


def _scaled(value: Values, digits: int, faults: Faults) -> Values:
    """Return units of a power of ten less; more than 18 digits is a fault."""
    limit = -(-DECIMAL_LIMIT // 10**digits)
    exists = (value.data < limit) & (value.data > -limit)
    return faults.drop(Values(np.where(exists, value.data, 0) * 10**digits, value.valid), exists)


def saturated(call: Call, args: list[Values], _: Faults) -> Values:
    """Return units to be compared: those beyond 18 digits lie beyond all DECIMALs there are."""
    power = 10 ** (SCALES[call.type] - SCALES.get(call.args[0].type, 0))
    limit = -(-DECIMAL_LIMIT // power)
    return Values(np.clip(args[0].data, -limit, limit) * power, args[0].valid)


def _whole(units: Any, by: int) -> Any:
    """Return whole numbers, rounded half away from zero."""
    magnitude = (np.abs(units) + by // 2) // by
    return np.where(units < 0, -magnitude, magnitude)


def _to_strings(value: Values, array: Any) -> Values:
    if value.valid is not None:
        mask = ~np.broadcast_to(value.valid, np.shape(value.data))
        array = pc.if_else(pa.array(np.atleast_1d(mask)), pa.scalar(None, pa.string()), array)
    return Values(array if np.ndim(value.data) else array[0], None)


# ---------------------------------------------------------------------------------------------
# From and to texts; what a text does not write, or no text writes, is None, a fault

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _integer_of_text(text: str) -> int | None:
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if INT64_MIN <= number <= INT64_MAX else None


def _double_of_text(text: str) -> float | None:
    """Return the nearest DOUBLE; ``NaN`` and ``Infinity`` are written so, and by no digits."""
    stripped = text.strip()
    if _NO_NUMBER.fullmatch(stripped) is not None:
        return float(stripped)
    number = float(stripped) if _DOUBLE.fullmatch(stripped) is not None else math.inf
    return None if math.isinf(number) else number


def _text_of_double(value: float) -> str:
    """Return the fewest digits that name a DOUBLE, in the form of PostgreSQL."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0"
    _, parts, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, parts))
    power = len(digits) + exponent - 1
    digits = digits.rstrip("0")
    if not -4 <= power < 15:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{sign}{whole}{'.' if fraction else ''}{fraction}"


def _text_of_timestamp(moment: int) -> str | None:
    """Return ``YYYY-MM-DD HH:MM:SS[.ffffff]``, the fraction as short as it can be."""
    try:
        text = (EPOCH + timedelta(microseconds=moment)).isoformat(" ")
    except OverflowError:  # not of the years 1 to 9999
        return None
    return text.rstrip("0") if "." in text else text


def _text_of_date(days: int) -> str | None:
    try:
        return (EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return None


def _text_of_instant(moment: int) -> str | None:
    text = _text_of_timestamp(moment)
    return None if text is None else f"{text}+00"


def _parsed(parse: Callable[[str], Literal], *types: DataType) -> Callable[[str], int | None]:
    """Return a function that gives the value of a text, None if it is not of these types."""

    def apply(text: str) -> int | None:
        try:
            literal = parse(text)
        except TimeTextError:
            return None
        assert isinstance(literal.value, int)
        return literal.value if literal.type in types else None

    return apply


def _text_of_decimal(scale: int) -> Callable[[int], str]:
    return lambda units: f"{Decimal(units).scaleb(-scale):f}"


_OF_TEXTS: dict[tuple[DataType, DataType], Callable[[Any], Any]] = {
    (T.STRING, T.INTEGER): _integer_of_text,
    (T.STRING, T.DOUBLE): _double_of_text,
    (T.STRING, T.BOOLEAN): lambda text: _TRUTHS.get(text.strip().lower()),
    (T.STRING, T.DATE): _parsed(parse_date, T.DATE),
    (T.STRING, T.TIMESTAMP): _parsed(parse_timestamp, T.TIMESTAMP),
    (T.STRING, T.TIMESTAMP_UTC): _parsed(parse_timestamp, T.TIMESTAMP, T.TIMESTAMP_UTC),
    (T.DOUBLE, T.STRING): _text_of_double,
    (T.DATE, T.STRING): _text_of_date,
    (T.TIMESTAMP, T.STRING): _text_of_timestamp,
    (T.TIMESTAMP_UTC, T.STRING): _text_of_instant,
    **{(kind, T.STRING): _text_of_decimal(scale) for kind, scale in SCALES.items()},
}
"""How each cast from or to a text is made of a value; instants are shown and taken in UTC."""
