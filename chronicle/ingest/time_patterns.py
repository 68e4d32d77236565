"""Read times written after a pattern, Java's (``dd/MM/yyyy HH:mm``) or C's (``%d/%m/%Y``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.errors import SourceError

Ints = npt.NDArray[np.int64]

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_DAYS = "(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_ZONE = r"Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?|[A-Za-z_]+(?:/[A-Za-z_+-]+)+"

_OF_C = {
    "Y": "yyyy", "y": "yy", "m": "M", "d": "d", "H": "H", "I": "h", "M": "m", "S": "s",
    "f": "SSSSSS", "p": "a", "b": "MMM", "B": "MMMM", "a": "E", "A": "EEEE", "z": "XXX", "Z": "VV",
    "e": "d", "j": "D", "F": "yyyy-MM-dd", "T": "HH:mm:ss", "D": "MM/dd/yy", "R": "HH:mm",
}  # fmt: skip
"""The letters of C in those of Java."""


@dataclass(frozen=True, slots=True)
class ReadPattern:
    """Times read after a pattern."""

    us: Ints
    """Microseconds that the clock shows since 1970; 0 where it is none."""

    bad: npt.NDArray[np.bool_]
    """Which are no time of the pattern."""

    too_fine: npt.NDArray[np.bool_]
    """Which are finer than a microsecond."""

    zones: pa.Array | None
    """Offsets and zones as they are written, if the pattern has any."""


def has_offset_field(pattern: str) -> bool:
    """Return whether a pattern reads a zone or an offset.

    Examples
    --------
    >>> has_offset_field("yyyy-MM-dd'T'HH:mm"), has_offset_field("%Y-%m-%d %H:%M %z")
    (False, True)
    """
    return "(?P<zone>" in to_regex(pattern)


@lru_cache(maxsize=16)
def to_regex(pattern: str) -> str:
    """Return the regular expression of the texts that a pattern describes."""
    parts = _parts_of_c(pattern) if "%" in pattern else _parts_of_java(pattern)
    found, seen = [], set[str]()
    for kind, text in parts:
        if kind != "field":
            found.append(re.escape(text) if kind == "text" else {"[": "(?:", "]": ")?"}[text])
            continue
        name, regex = _field(text, pattern)
        if name in seen:
            raise _no_pattern(pattern, f"it reads the {name} twice")
        seen.add(name)
        found.append(f"(?P<{name}>{regex})" if name != "weekday" else f"(?:{regex})")
    if "year" not in seen:
        raise _no_pattern(pattern, "it reads no year")
    if "half" in seen and "hour12" not in seen:
        raise _no_pattern(pattern, "it reads AM or PM and no hour from 1 to 12")
    regex = "^(?i:" + "".join(found) + ")$"
    try:
        re.compile(regex)
    except re.error as error:
        raise _no_pattern(pattern, "its brackets do not match") from error
    return regex


def _no_pattern(pattern: str, why: str) -> SourceError:
    return SourceError(
        f"time format '{pattern}' is no pattern of times: {why}; write it like "
        "yyyy-MM-dd HH:mm:ss or %Y-%m-%d %H:%M:%S"
    )


def _parts_of_c(pattern: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for letter, sign in re.findall(r"%-?(.)|(.)", pattern):
        if sign or letter == "%":
            parts.append(("text", sign or letter))
        elif letter in _OF_C:
            parts += _parts_of_java(_OF_C[letter])
        else:
            raise _no_pattern(pattern, f"%{letter} is unknown")
    return parts


def _parts_of_java(pattern: str) -> list[tuple[str, str]]:
    """Return the fields and texts of a pattern; what stands in brackets may be missing."""
    parts: list[tuple[str, str]] = []
    for found in re.finditer(r"('(?:[^']|'')*')|(([A-Za-z])\3*)|(.)", pattern):
        quoted, letters, _, sign = found.groups()
        if quoted:
            parts += [("text", one) for one in quoted[1:-1].replace("''", "'") or "'"]
        elif letters:
            parts.append(("field", letters))
        else:
            parts.append(("option" if sign in "[]" else "text", sign))
    return parts


def _field(letters: str, pattern: str) -> tuple[str, str]:
    """Return the name of a field and the regular expression of its texts."""
    letter, n = letters[0], len(letters)
    number = f"[0-9]{{{n}}}" if n > 1 else "[0-9]{1,2}"
    if letter in "yu":
        return "year", "[0-9]{2}" if n == 2 else "[0-9]{4}"
    if letter in "ML" and n > 2:
        return "month_name", "|".join(f"{m[:3]}(?:{m[3:]})?" for m in _MONTHS)
    if letter == "S":
        return "fraction", "[0-9]{1,9}"
    if letter == "E":
        return "weekday", _DAYS
    if letter == "a":
        return "half", "AM|PM"
    if letter == "D":
        return "day_of_year", "[0-9]{1,3}"
    if letter in "XxZOVz":
        return "zone", _ZONE
    name = {"M": "month", "L": "month", "d": "day", "H": "hour", "k": "hour", "h": "hour12",
            "K": "hour12", "m": "minute", "s": "second"}.get(letter)  # fmt: skip
    if name is None or n > 2:
        raise _no_pattern(pattern, f"'{letters}' is unknown")
    return name, number


def read_pattern(texts: pa.Array, pattern: str) -> ReadPattern:
    """Read texts after a pattern; fields that are not in it are the least there are."""
    found = pc.extract_regex(texts, to_regex(pattern))
    names = {field.name for field in found.type}
    bad = found.is_null().to_numpy(zero_copy_only=False).copy()

    def ints(name: str, least: int) -> Ints:
        if name not in names:
            return np.full(len(texts), least, np.int64)
        cells = pc.struct_field(found, name)
        filled = pc.if_else(pc.fill_null(pc.equal(cells, ""), True), str(least), cells)
        numbers: Ints = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return numbers

    year = ints("year", 1970)
    year = np.where(year < 100, year + 2000, year) if _has_short_year(pattern) else year
    month = _month_of_name(found, len(texts)) if "month_name" in names else ints("month", 1)
    day = ints("day", 1)
    hour, bad_hour = _hours(ints, found, names)
    minute, second = ints("minute", 0), ints("second", 0)
    bad |= (month < 1) | (month > 12) | bad_hour | (minute > 59) | (second > 59)
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    after = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    bad |= (day < 1) | (first + day - 1 >= after)
    days = first + day - 1
    if "day_of_year" in names:
        number = ints("day_of_year", 1)
        of_year = ((year - 1970) * 12).astype("M8[M]").astype("M8[D]").astype(np.int64)
        days = of_year + number - 1
        next_year = ((year - 1969) * 12).astype("M8[M]").astype("M8[D]").astype(np.int64)
        bad |= (number < 1) | (days >= next_year)
    us = ((days * 24 + hour) * 60 + minute) * 60 + second
    fraction, too_fine = _fraction(found, names, len(texts))
    us = us * 1_000_000 + fraction
    zones = pc.struct_field(found, "zone") if "zone" in names else None
    return ReadPattern(np.where(bad, 0, us), bad, too_fine & ~bad, zones)


def _has_short_year(pattern: str) -> bool:
    return "(?P<year>[0-9]{2})" in to_regex(pattern)


def _month_of_name(found: pa.StructArray, n: int) -> Ints:
    names = pc.utf8_slice_codeunits(pc.utf8_lower(pc.struct_field(found, "month_name")), 0, 3)
    at = pc.index_in(names, pa.array([month[:3] for month in _MONTHS]))
    numbers: Ints = pc.fill_null(at, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    assert len(numbers) == n
    return numbers + 1


def _hours(
    ints: Callable[[str, int], Ints], found: pa.StructArray, names: set[str]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the hours, and which are none."""
    if "hour12" not in names:
        hour = ints("hour", 0)
        return hour, hour > 23
    hour = ints("hour12", 12)
    afternoon = np.zeros(len(hour), bool)
    if "half" in names:
        half = pc.equal(pc.utf8_upper(pc.struct_field(found, "half")), "PM")
        afternoon = pc.fill_null(half, False).to_numpy(zero_copy_only=False)
    return hour % 12 + 12 * afternoon, (hour < 1) | (hour > 12)


def _fraction(found: pa.StructArray, names: set[str], n: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the microseconds of the fraction, and which are finer."""
    if "fraction" not in names:
        return np.zeros(n, np.int64), np.zeros(n, bool)
    digits = pc.fill_null(pc.struct_field(found, "fraction"), "")
    padded = pc.utf8_rpad(digits, 9, "0")
    us: Ints = pc.utf8_slice_codeunits(padded, 0, 6).cast(pa.int64()).to_numpy(zero_copy_only=False)
    rest = pc.not_equal(pc.utf8_slice_codeunits(padded, 6, 9), "000")
    return us, rest.to_numpy(zero_copy_only=False)
