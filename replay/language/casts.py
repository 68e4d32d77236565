"""Casts of constants and of single rows; None where the value does not exist (a fault)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from replay.language.bound import DataType, Literal
from replay.language.calendar import DAY_US, date_of
from replay.language.literals import TimeTextError, parse_date, parse_timestamp
from replay.language.types import SCALES

T = DataType
Value = int | float | str | bool

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBERS = {"nan": math.nan, "infinity": math.inf, "inf": math.inf}
_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_DIGITS_MAX = 30
"""More digits than any INTEGER has, leading zeros aside."""


def half_away(value: float) -> int:
    """Return the nearest whole number, of two the one further from zero."""
    whole = math.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return whole


def integer_of_text(text: str) -> int | None:
    """Return the whole number a text writes."""
    stripped = text.strip()
    if _INTEGER.fullmatch(stripped) is None:
        return None
    digits = stripped.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX:
        return None
    return -int(digits) if stripped[0] == "-" else int(digits)


def double_of_text(text: str) -> float | None:
    """Return the DOUBLE nearest to the number a text writes; also ``NaN`` and ``Infinity``."""
    stripped = text.strip()
    if _DOUBLE.fullmatch(stripped) is not None:
        number = float(stripped)
        return None if math.isinf(number) else number
    sign = -1.0 if stripped[:1] == "-" else 1.0
    named = _NO_NUMBERS.get(stripped.removeprefix("-").removeprefix("+").lower())
    return None if named is None or stripped[:2] in ("-+", "+-") else sign * named


def boolean_of_text(text: str) -> bool | None:
    """Return the BOOLEAN a text writes."""
    return _TRUTHS.get(text.strip().lower())


def text_of_double(value: float) -> str:
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


def text_of_date(days: int) -> str | None:
    """Return ``YYYY-MM-DD``; None outside the years 1 to 9999."""
    year, month, day = date_of(days * DAY_US)
    return f"{year:04d}-{month:02d}-{day:02d}" if 1 <= year <= 9999 else None


def text_of_timestamp(moment: int) -> str | None:
    """Return ``YYYY-MM-DD HH:MM:SS[.ffffff]``, the fraction as short as it can be."""
    days, time = divmod(moment, DAY_US)
    date = text_of_date(days)
    if date is None:
        return None
    seconds, fraction = divmod(time, 1_000_000)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{date} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{tail}"


def _text_of_instant(moment: int) -> str | None:
    text = text_of_timestamp(moment)
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


def _same(value: Value) -> Value:
    return value


def _scaled(digits: int) -> Callable[[int], int]:
    power: int = 10**digits
    return lambda value: value * power


def _whole(scale: int) -> Callable[[int], int]:
    """Return what rounds units to whole numbers, half away from zero."""
    by: int = 10**scale

    def apply(units: int) -> int:
        magnitude = (abs(units) + by // 2) // by
        return magnitude if units >= 0 else -magnitude

    return apply


def _fraction(scale: int) -> Callable[[int], float]:
    return lambda units: units / 10**scale


def _written(scale: int) -> Callable[[int], str]:
    return lambda units: f"{Decimal(units).scaleb(-scale):f}"


CASTS: dict[tuple[DataType, DataType], Callable[..., Value | None]] = {
    (T.INTEGER, T.DOUBLE): float,
    (T.INTEGER, T.BOOLEAN): bool,
    (T.INTEGER, T.STRING): str,
    (T.DOUBLE, T.INTEGER): lambda value: half_away(value) if math.isfinite(value) else None,
    (T.DOUBLE, T.STRING): text_of_double,
    (T.BOOLEAN, T.INTEGER): int,
    (T.BOOLEAN, T.DOUBLE): float,
    (T.BOOLEAN, T.STRING): lambda value: "true" if value else "false",
    (T.STRING, T.INTEGER): integer_of_text,
    (T.STRING, T.DOUBLE): double_of_text,
    (T.STRING, T.BOOLEAN): boolean_of_text,
    (T.STRING, T.DATE): _parsed(parse_date, T.DATE),
    (T.STRING, T.TIMESTAMP): _parsed(parse_timestamp, T.TIMESTAMP),
    (T.STRING, T.TIMESTAMP_UTC): _parsed(parse_timestamp, T.TIMESTAMP, T.TIMESTAMP_UTC),
    (T.DATE, T.TIMESTAMP): lambda value: value * DAY_US,
    (T.DATE, T.TIMESTAMP_UTC): lambda value: value * DAY_US,
    (T.DATE, T.STRING): text_of_date,
    (T.TIMESTAMP, T.DATE): lambda value: value // DAY_US,
    (T.TIMESTAMP, T.TIMESTAMP_UTC): _same,
    (T.TIMESTAMP, T.STRING): text_of_timestamp,
    (T.TIMESTAMP_UTC, T.DATE): lambda value: value // DAY_US,
    (T.TIMESTAMP_UTC, T.TIMESTAMP): _same,
    (T.TIMESTAMP_UTC, T.STRING): _text_of_instant,
    **{(T.INTEGER, kind): _scaled(scale) for kind, scale in SCALES.items()},
    **{(kind, T.INTEGER): _whole(scale) for kind, scale in SCALES.items()},
    **{(kind, T.DOUBLE): _fraction(scale) for kind, scale in SCALES.items()},
    **{(kind, T.STRING): _written(scale) for kind, scale in SCALES.items()},
    **{
        (one, other): _scaled(SCALES[other] - SCALES[one])
        for one in SCALES
        for other in SCALES
        if SCALES[one] < SCALES[other]
    },
}
"""How each cast of ``types.CASTS`` is made of a value; instants are shown and taken in UTC."""
