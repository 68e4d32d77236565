"""Constants of a query: texts of times and durations, and parameters, as bound literals."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sized
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TypeGuard

from replay.expressions.nodes import DataType, Literal
from replay.expressions.types import DECIMAL_DIGITS, DECIMAL_OF_SCALE

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

UNIT_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}

_SPANNING = ("DAY", "HOUR", "MINUTE", "SECOND")
UNIT_SPANS = {
    f"{_SPANNING[i]} TO {_SPANNING[j]}": _SPANNING[i : j + 1]
    for i in range(len(_SPANNING))
    for j in range(i + 1, len(_SPANNING))
}
"""Units of durations that have several, largest first."""
_CYCLES = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}
"""How many of a unit make one of the next."""

EPOCH = datetime.fromisoformat("1970-01-01")  # of a local clock
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}"
    r"(?:[ Tt]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?P<zone>\s*(?:[Zz]|[+-]\d{2}(?::?\d{2})?))?)?"
)

DATE_FORM = "'YYYY-MM-DD'"
TIMESTAMP_FORM = "'YYYY-MM-DD HH:MM:SS[.ffffff]', the time of day optional"
TIMESTAMP_UTC_FORM = "'YYYY-MM-DD HH:MM:SS[.ffffff][+HH:MM]', UTC if no zone is given"


class TimeTextError(ValueError):
    """A text is not the time it has to be.

    Attributes
    ----------
    text
        The text.
    """

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        super().__init__(f"'{text}' {reason}")


def parse_timestamp(text: str) -> Literal:
    """Return the TIMESTAMP of a text, or the TIMESTAMP WITH TIME ZONE if it names a zone."""
    stripped = text.strip()
    match = _TIMESTAMP.fullmatch(stripped)
    form = TIMESTAMP_FORM if match is None or not match["zone"] else TIMESTAMP_UTC_FORM
    if match is None:
        raise TimeTextError(text, f"is not a timestamp; expected {form}")
    try:
        moment = datetime.fromisoformat(stripped.replace(" ", "T", 1).replace(" ", ""))
    except ValueError as error:
        raise TimeTextError(text, f"is not a timestamp ({error}); expected {form}") from None
    return from_datetime(moment)


def from_datetime(moment: datetime) -> Literal:
    """Return the literal of a datetime: with a zone it is an instant, without a local time."""
    if moment.tzinfo is None:
        return Literal((moment - EPOCH) // _MICROSECOND, DataType.TIMESTAMP)
    return Literal((moment - _EPOCH_UTC) // _MICROSECOND, DataType.TIMESTAMP_UTC)


def parse_date(text: str) -> Literal:
    """Return the DATE of a text."""
    stripped = text.strip()
    if _DATE.fullmatch(stripped) is None:
        raise TimeTextError(text, f"is not a date; expected {DATE_FORM}")
    try:
        day = date.fromisoformat(stripped)
    except ValueError as error:
        raise TimeTextError(text, f"is not a date ({error}); expected {DATE_FORM}") from None
    return from_date(day)


def from_date(day: date) -> Literal:
    """Return the literal of a date, in days since the epoch."""
    return Literal(day.toordinal() - EPOCH.toordinal(), DataType.DATE)


def parse_duration(amount: str, unit: str) -> Literal:
    """Return the INTERVAL of ``amount`` units."""
    if unit in UNIT_SPANS:
        return _parse_span(amount, unit)
    try:
        microseconds = Decimal(amount.strip()) * UNIT_US[unit]
    except InvalidOperation:
        raise ValueError(
            f"'{amount}' is not a number of {unit}S; expected a form such as "
            f"INTERVAL '30' {unit} or 30 {unit}S"
        ) from None
    if not microseconds.is_finite() or not INT64_MIN <= microseconds <= INT64_MAX:
        raise ValueError(f"a duration of {amount} {unit}S is longer than 64 bits can count")
    whole = int(microseconds)
    if whole != microseconds:
        raise ValueError(
            f"a duration of {amount} {unit}S is no whole number of microseconds, the finest "
            "unit of time here"
        )
    return Literal(whole, DataType.INTERVAL)


def _parse_span(amount: str, unit: str) -> Literal:
    """Return the INTERVAL of a text such as ``1 02:03:04`` (DAY TO SECOND)."""
    units = UNIT_SPANS[unit]
    seconds = r"\d+(?:\.\d{1,6})?"
    numbers = [seconds if name == "SECOND" else r"\d+" for name in units]
    separators = [" +" if name == "DAY" else ":" for name in units[:-1]] + [""]
    form = "".join(f"({n}){s}" for n, s in zip(numbers, separators, strict=True))
    match = re.fullmatch(f"([+-]?){form}", amount.strip())
    if match is None:
        shape = "".join(f"{name.lower()}s{' ' if name == 'DAY' else ':'}" for name in units).rstrip(
            ":"
        )
        raise ValueError(f"'{amount}' is no duration {unit}; expected the form '{shape}'")
    values = [Decimal(number) for number in match.groups()[1:]]
    for name, value in list(zip(units, values, strict=True))[1:]:
        if value >= _CYCLES[name]:
            raise ValueError(f"'{amount}' has {value} {name}S, and they go to {_CYCLES[name] - 1}")
    total = sum(value * UNIT_US[name] for name, value in zip(units, values, strict=True))
    signed = -int(total) if match[1] == "-" else int(total)
    if not INT64_MIN <= signed <= INT64_MAX:
        raise ValueError(f"a duration of '{amount}' {unit} is longer than 64 bits can count")
    return Literal(signed, DataType.INTERVAL)


def from_parameter(value: object) -> Literal:
    """Return the literal of a parameter's value."""
    if value is None or is_not_a_time(value):
        return Literal(None, DataType.NULL)
    if isinstance(value, bool):
        return Literal(value, DataType.BOOLEAN)
    if isinstance(value, float):
        return Literal(float(value), DataType.DOUBLE)
    if isinstance(value, str):
        return Literal(checked_text(value), DataType.STRING)
    if isinstance(value, Decimal):
        return from_decimal(value)
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, date):
        return from_date(value)
    if isinstance(value, timedelta):
        return Literal(microseconds_of(value), DataType.INTERVAL)
    try:
        return Literal(_checked(operator.index(value)), DataType.INTEGER)  # type: ignore[arg-type]
    except TypeError:
        if is_list(value):
            raise TypeError("is a list, which only stands behind IN, without ( )") from None
        raise TypeError(
            f"has the type {type(value).__name__}; pass an int, float, Decimal, str, bool, None, "
            "datetime, date or timedelta"
        ) from None


def is_list(value: object) -> TypeGuard[Collection[object]]:
    """Return whether a parameter's value is several: a list, a tuple, a set, an array."""
    is_one = isinstance(value, str | bytes | bytearray | Mapping)
    return isinstance(value, Iterable) and isinstance(value, Sized) and not is_one


def from_list(value: object) -> tuple[Literal, ...]:
    """Return the literals of a parameter's values."""
    return tuple(map(from_parameter, values_of(value)))


def values_of(value: object) -> list[object]:
    """Return the values of a parameter that is a list. Raises a TypeError if it is none."""
    if not is_list(value):
        what = type(value).__name__
        raise TypeError(f"has the type {what}; IN takes a list, or one value in parentheses")
    if any(map(is_list, value)):
        raise TypeError("is a list of lists; pass a list of values")
    return elements(value)


def elements(values: Collection[object]) -> list[object]:
    """Return what a list holds; values of Arrow as Python has them."""
    return [one.as_py() if hasattr(one, "as_py") else one for one in values]


def is_not_a_time(value: object) -> bool:
    """Return whether it is the missing time of pandas, a `datetime` that is not equal to itself."""
    return isinstance(value, datetime) and value != value  # noqa: PLR0124


def half_a_pair(text: str) -> int | None:
    """Return where half a surrogate pair stands, which no text in UTF-8 holds; None: nowhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def checked_text(value: str) -> str:
    """Return a parameter's text. Raises a ValueError with half a surrogate pair in it."""
    at = half_a_pair(value)
    if at is not None:
        raise ValueError(f"holds {value[at]!a}, half a surrogate pair, which no text does")
    return str(value)


def microseconds_of(value: timedelta) -> int:
    """Return a parameter's duration. Raises a ValueError if it has more than 64 bits."""
    whole = value // _MICROSECOND
    if not INT64_MIN <= whole <= INT64_MAX:
        raise ValueError("is longer than 64 bits of microseconds can count")
    return whole


def from_decimal(value: Decimal) -> Literal:
    """Return the literal of a decimal number, with the digits behind the point that it has."""
    digits, exponent = value.normalize().as_tuple()[1:]
    scale = max(0, -exponent) if isinstance(exponent, int) else DECIMAL_DIGITS + 1
    if scale > DECIMAL_DIGITS or len(digits) + max(0, int(exponent)) > DECIMAL_DIGITS:
        raise ValueError(f"is {value}, not a number of at most {DECIMAL_DIGITS} digits")
    return Literal(int(value.scaleb(scale)), DECIMAL_OF_SCALE[scale])


def _checked(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"is {value}, outside the range of INTEGER (64 bits)")
    return value
