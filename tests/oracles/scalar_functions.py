"""Naive oracle of the functions: Python's own calendar, zones, texts and numbers.

``replay.language.functions`` states the semantics. Dates outside the years 1 to 9999 are moved by
multiples of 400 years, after which the Gregorian calendar repeats.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from replay.language.bound import DataType

Value = Any

DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1)
CYCLE_DAYS = 146_097
TEXT_MAX = 2**20


def apply_function(op: str, values: list) -> Value:
    """Return the value of a function over values that are not NULL; None for a fault."""
    for functions in (_double, _text, _time):
        result = functions(op, values)
        if result is not NotImplemented:
            return result
    raise NotImplementedError(f"{op} over {values}")


def _double(op: str, values: list) -> Value:
    match op, values:
        case "cbrt", [value]:
            root = math.cbrt(value)  # and a step of Newton's where it can be cubed again
            exact = 1e-290 < abs(value) < 1e308
            return root - (root * root * root - value) / (3.0 * root * root) if exact else root
        case (("log10" | "log2"), [value]):
            return None if value <= 0 else getattr(math, op)(value)
        case "log", [base, value]:
            if base <= 0 or value <= 0 or base == 1:
                return None
            return math.log(value) / math.log(base)
        case "sign", [value]:
            return value if value == 0 or value != value else type(value)(math.copysign(1, value))
        case "trunc", [value]:
            if isinstance(value, int) or not math.isfinite(value):
                return value
            return math.copysign(float(int(value)), value)
        case (("sin" | "cos" | "tan"), [value]):
            return None if value in (math.inf, -math.inf) else getattr(math, op)(value)
        case (("asin" | "acos"), [value]):
            return None if value > 1 or value < -1 else getattr(math, op)(value)
        case "atan", [value]:
            return math.atan(value)
        case "atan2", [y, x]:
            return math.atan2(y, x)
        case "degrees", [value]:
            return value * (180.0 / math.pi)
        case "radians", [value]:
            return value * (math.pi / 180.0)
        case "distance", [*places]:
            return _distance(*places)
        case "epoch", [value]:
            return float(value) / 1e6
    return NotImplemented


def _distance(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float | None:
    if any(latitude > 90 or latitude < -90 for latitude in (lat_a, lat_b)):
        return None
    if any(longitude in (math.inf, -math.inf) for longitude in (lon_a, lon_b)):
        return None
    degree = math.pi / 180.0
    a = math.sin((lat_b - lat_a) * degree / 2.0)
    b = math.sin((lon_b - lon_a) * degree / 2.0)
    h = a * a + math.cos(lat_a * degree) * math.cos(lat_b * degree) * (b * b)
    h = h if h != h else min(1.0, h)
    return 2.0 * 6_371_008.8 * math.asin(math.sqrt(h))


# ---------------------------------------------------------------------------------------------
# Texts


def _text(op: str, values: list) -> Value:
    match op, values:
        case "reverse", [text]:
            return "".join(reversed(text))
        case "concat", [*texts]:
            return "".join(texts)
        case "substring", [text, start]:
            return "".join(c for i, c in enumerate(text, 1) if i >= start)
        case "substring", [text, start, length]:
            if length < 0:
                return None
            return "".join(c for i, c in enumerate(text, 1) if start <= i < start + length)
        case "left", [text, count]:
            kept = count if count >= 0 else len(text) + count
            return "".join(c for i, c in enumerate(text) if i < kept)
        case "right", [text, count]:
            kept = count if count >= 0 else len(text) + count
            return "".join(c for i, c in enumerate(text) if i >= len(text) - kept)
        case (("trim" | "ltrim" | "rtrim"), [text, *characters]):
            return _trim(op, text, *characters)
        case "replace", [text, old, new]:
            replaced = text if not old else new.join(text.split(old))
            return None if len(replaced) > max(TEXT_MAX, len(text)) else replaced
        case "strpos", [text, part]:
            found = [i for i in range(len(text) + 1) if text[i : i + len(part)] == part]
            return found[0] + 1 if found else 0
        case "starts_with", [text, start]:
            return text[: len(start)] == start
        case "ends_with", [text, end]:
            return text[::-1][: len(end)] == end[::-1]
        case (("lpad" | "rpad"), [text, length, *fill]):
            return _pad(op, text, length, *fill)
        case "repeat", [text, count]:
            if count > 0 and count * len(text) > TEXT_MAX:
                return None
            return "".join(text for _ in range(count if text else 0))
        case "split_part", [text, delimiter, number]:
            return _split_part(text, delimiter, number)
        case "regexp_like", [text, pattern]:
            return re.search(pattern, text) is not None
    return NotImplemented


def _trim(op: str, text: str, characters: str = " ") -> str:
    kept = list(text)
    while op != "rtrim" and kept and kept[0] in characters:
        del kept[0]
    while op != "ltrim" and kept and kept[-1] in characters:
        del kept[-1]
    return "".join(kept)


def _pad(op: str, text: str, length: int, fill: str = " ") -> str | None:
    if length > TEXT_MAX:
        return None
    missing = length - len(text)
    if missing <= 0 or not fill:
        return text[: max(length, 0)]
    filling = "".join(fill[i % len(fill)] for i in range(missing))
    return filling + text if op == "lpad" else text + filling


def _split_part(text: str, delimiter: str, number: int) -> str | None:
    parts = re.split(re.escape(delimiter), text) if delimiter else [text]
    if number == 0:
        return None
    numbered = dict(enumerate(parts, 1)) | dict(
        zip(range(-1, -1 - len(parts), -1), parts[::-1], strict=True)
    )
    return numbered.get(number, "")


# ---------------------------------------------------------------------------------------------
# Times


def _date(moment: int) -> tuple[date, int]:
    """Return the date, and how many times 400 years it was moved into Python's range by."""
    days = moment // DAY_US
    cycles, days = divmod(days, CYCLE_DAYS)
    return EPOCH.date() + timedelta(days=days), cycles


def _moment(day: date, cycles: int) -> int:
    return ((day - EPOCH.date()).days + cycles * CYCLE_DAYS) * DAY_US


def _time(op: str, values: list) -> Value:
    match op, values:
        case "time_part", [moment, cycle, unit]:
            return (moment - moment // cycle * cycle) // unit
        case "time_floor", [moment, width, origin]:
            return (moment - origin) // width * width + origin
        case "month_floor", [moment, months]:
            day, cycles = _date(moment)
            first = (day.month - 1) // months * months + 1
            return _moment(day.replace(month=first, day=1), cycles)
        case "add_months", [moment, months]:
            return _add_months(moment, months)
        case "months_between", [start, end]:
            if end < start:
                return -_time(op, [end, start])
            count = 12 * (_part("year", end) - _part("year", start)) + 12
            while _add_months(start, count) > end:
                count -= 1
            return count
        case "local_time", [moment, zone]:
            if not 1 <= _date(moment)[0].year + 400 * _date(moment)[1] <= 2037:
                return None
            known = (EPOCH + timedelta(microseconds=moment)).replace(tzinfo=UTC)
            local = known.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
            return (local - EPOCH) // timedelta(microseconds=1)
        case "instant", [moment, zone]:
            if not 1 <= _date(moment)[0].year + 400 * _date(moment)[1] <= 2037:
                return None
            local = (EPOCH + timedelta(microseconds=moment)).replace(tzinfo=ZoneInfo(zone))
            return (local - EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)
        case _, [moment]:
            return _part(op, moment)
    return NotImplemented


def _add_months(moment: int, months: int) -> int:
    day, cycles = _date(moment)
    years, month = divmod(day.month - 1 + months, 12)
    more, year = divmod(day.year + years - 2000, 400)  # 2000 to 2399
    for last in range(day.day, 27, -1):
        try:
            moved = date(year + 2000, month + 1, last)
        except ValueError:
            continue
        return _moment(moved, cycles + more) + moment % DAY_US
    return _moment(date(year + 2000, month + 1, day.day), cycles + more) + moment % DAY_US


def _part(op: str, moment: int) -> int:
    day, cycles = _date(moment)
    week_year, week, week_day = day.isocalendar()
    return {
        "year": day.year + 400 * cycles,
        "quarter": (day.month + 2) // 3,
        "month": day.month,
        "day": day.day,
        "day_of_week": week_day,
        "day_of_year": int(day.strftime("%j")),
        "week": week,
        "year_of_week": week_year + 400 * cycles,
    }.get(op, NotImplemented)


# ---------------------------------------------------------------------------------------------
# Casts from and to texts


def cast_text(value: Value, source: DataType, target: DataType) -> Value:
    """Return a cast from or to a text."""
    if target is DataType.STRING:
        return _written(value, source)
    text = value.strip()
    match target:
        case DataType.INTEGER:
            return int(text) if re.fullmatch("[+-]?[0-9]{1,4000}", text) else None
        case DataType.DOUBLE:
            if re.fullmatch("[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
                return float(text)
            form = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
            number = float(text) if re.fullmatch(form, text) else math.inf
            return None if math.isinf(number) else number
        case DataType.BOOLEAN:
            word = text.lower()
            return word in ("t", "true", "1") if re.fullmatch("t|true|1|f|false|0", word) else None
        case DataType.DATE:
            return _date_read(text)
    return _moment_read(text, target)


def _written(value: Value, source: DataType) -> str | None:
    if isinstance(value, Decimal):
        return f"{value:f}"
    match source:
        case DataType.INTEGER:
            return str(value)
        case DataType.BOOLEAN:
            return "true" if value else "false"
        case DataType.DOUBLE:
            return _double_written(value)
        case DataType.DATE:
            return _date_written(value * DAY_US)
    time = timedelta(microseconds=value % DAY_US)
    clock = str(EPOCH + time)[11:].rstrip("0") if value % 1_000_000 else str(EPOCH + time)[11:]
    day = _date_written(value)
    zone = "+00" if source is DataType.TIMESTAMP_UTC else ""
    return None if day is None else f"{day} {clock}{zone}"


def _date_written(moment: int) -> str | None:
    day, cycles = _date(moment)
    year = day.year + 400 * cycles
    return f"{year:04}-{day:%m-%d}" if 1 <= year <= 9999 else None


def _double_written(value: float) -> str:
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    digits = len(re.sub("e.*|[.-]", "", repr(value)).strip("0")) or 1
    shortest = Decimal(repr(value))  # its digits, not those of the exact value
    scientific = f"{float(0):.0e}" if not value else f"{shortest:.{digits - 1}e}"
    exponent = int(scientific.partition("e")[2])
    if value and not -4 <= exponent < 15:
        return re.sub(r"e([+-])(\d)$", r"e\g<1>0\2", scientific)
    return f"{shortest:.{max(digits - 1 - exponent, 0)}f}"


def _date_read(text: str) -> int | None:
    try:
        day = date(*map(int, re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text).groups()))
    except (ValueError, AttributeError):
        return None
    return (day - EPOCH.date()).days


def _moment_read(text: str, target: DataType) -> int | None:
    form = r"(\d{4}-\d\d-\d\d)([ Tt]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(\s*([Zz]|[+-]\d\d(:?\d\d)?))?"
    match = re.fullmatch(form, text)
    if match is None or (match[5] and (not match[2] or target is DataType.TIMESTAMP)):
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"\s(?=[Zz+-])", "", text))
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH.replace(tzinfo=UTC)) // timedelta(
        microseconds=1
    )
