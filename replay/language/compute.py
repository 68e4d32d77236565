"""Operators and functions on constants, exactly as operators evaluate them on events.

Faults (overflow, division by zero, domain) give None. See ``bound.Call``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from replay.language import calendar, texts, zones
from replay.language.bound import DataType, Literal
from replay.language.calendar import DAY_US, date_of
from replay.language.literals import TimeTextError, parse_date, parse_timestamp
from replay.language.texts import like_to_regex
from replay.language.types import DECIMAL_DIGITS, SCALES

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


__all__ = ["DAY_US", "Value", "cast", "compare", "compute", "half_away", "is_nan", "like_to_regex"]

Numbers = int | float

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), that of the sphere ``distance`` is measured on."""

_RANGES = {
    DataType.INTEGER: (-(2**63), 2**63 - 1),
    DataType.TIMESTAMP: (-(2**63), 2**63 - 1),
    DataType.TIMESTAMP_UTC: (-(2**63), 2**63 - 1),
    DataType.INTERVAL: (-(2**63), 2**63 - 1),
    DataType.DATE: (-(2**31), 2**31 - 1),
    **dict.fromkeys(SCALES, (1 - 10**DECIMAL_DIGITS, 10**DECIMAL_DIGITS - 1)),
}


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
    return _in_range(CASTS[source, target](value), target)


def compare(op: str, left: Value, right: Value) -> bool | None:
    """Return a comparison, None (UNKNOWN) if a side is NaN."""
    if is_nan(left) or is_nan(right):
        return None
    return _COMPARISONS[op](left, right)


def is_nan(value: Value) -> bool:
    """Tell whether a constant is the DOUBLE that is no number."""
    return isinstance(value, float) and math.isnan(value)


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


def _power(base: float, exponent: float) -> float | None:
    if base == 0 and exponent < 0:  # Python takes -inf for an exponent there
        return None
    try:
        return math.pow(base, exponent)
    except OverflowError:
        negative = base < 0 and exponent % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:  # a negative base to a fraction
        return None


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _sign(value: Numbers) -> Numbers:
    """Return 1, -1 or the value itself: a zero, whatever its sign, or NaN."""
    if value > 0 or value < 0:
        return type(value)(1 if value > 0 else -1)
    return value


def _trunc(value: Numbers) -> Numbers:
    # copysign keeps the zero of trunc(-0.5) negative, as IEEE 754 has it.
    if isinstance(value, float) and _finite(value):
        return math.copysign(float(math.trunc(value)), value)
    return value


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda value: None if value <= 0 else function(value)


def _log(base: float, value: float) -> float | None:
    if base <= 0 or value <= 0 or base == 1:
        return None
    return math.log(value) / math.log(base)


def _cube_root(value: float) -> float:
    """Return that of the C library, which has some last bits wrong, after a step of Newton's."""
    root = math.cbrt(value)
    if not 1e-290 < abs(value) < 1e308:  # it could not be cubed again without loss
        return root
    return root - (root * root * root - value) / (3.0 * root * root)


def _periodic(function: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda value: None if math.isinf(value) else function(value)


def _inverse(function: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda value: None if abs(value) > 1 else function(value)


def _distance(
    latitude_a: float, longitude_a: float, latitude_b: float, longitude_b: float
) -> float | None:
    """Return the great-circle distance in metres by the haversine formula."""
    if abs(latitude_a) > 90 or abs(latitude_b) > 90:
        return None
    if math.isinf(longitude_a) or math.isinf(longitude_b):
        return None
    radian = math.pi / 180.0
    up = math.sin((latitude_b - latitude_a) * radian / 2.0)
    along = math.sin((longitude_b - longitude_a) * radian / 2.0)
    both = math.cos(latitude_a * radian) * math.cos(latitude_b * radian)
    haversine = up * up + both * (along * along)
    if haversine > 1.0:  # noqa: PLR1730 - by rounding, for two ends of a diameter; NaN stays
        haversine = 1.0
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(haversine))


def _in_zone(convert: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Callable[..., int | None]:
    """Return a conversion between instants and local times for a single one."""

    def apply(moment: int, zone: str) -> int | None:
        values, known = convert(np.array([moment], np.int64), zone)
        return int(values[0]) if known[0] else None

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
    "cbrt": _cube_root,
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "log": _log,
    "sign": _sign,
    "trunc": _trunc,
    "sin": _periodic(math.sin),
    "cos": _periodic(math.cos),
    "tan": _periodic(math.tan),
    "asin": _inverse(math.asin),
    "acos": _inverse(math.acos),
    "atan": math.atan,
    "atan2": math.atan2,
    "degrees": lambda value: value * (180.0 / math.pi),
    "radians": lambda value: value * (math.pi / 180.0),
    "distance": _distance,
    "year": calendar.year,
    "quarter": calendar.quarter,
    "month": calendar.month,
    "day": calendar.day,
    "day_of_week": calendar.day_of_week,
    "day_of_year": calendar.day_of_year,
    "week": calendar.week,
    "year_of_week": calendar.year_of_week,
    "epoch": lambda value: float(value) / 1e6,
    "time_part": calendar.time_part,
    "time_floor": calendar.time_floor,
    "month_floor": calendar.month_floor,
    "add_months": calendar.add_months,
    "months_between": calendar.months_between,
    "local_time": _in_zone(zones.to_local),
    "instant": _in_zone(zones.to_instants),
    "lower": texts.lower,
    "upper": texts.upper,
    "length": len,
    "like": texts.like,
    "concat": texts.concat,
    "substring": texts.substring,
    "left": texts.left,
    "right": texts.right,
    "trim": texts.trim,
    "ltrim": texts.ltrim,
    "rtrim": texts.rtrim,
    "replace": texts.replace,
    "strpos": texts.strpos,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "lpad": texts.lpad,
    "rpad": texts.rpad,
    "repeat": texts.repeat,
    "reverse": lambda text: text[::-1],
    "split_part": texts.split_part,
    "regexp_like": texts.regexp_like,
}
