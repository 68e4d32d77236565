"""Read times written after a pattern, Java's (``dd/MM/yyyy HH:mm``) or C's (``%d/%m/%Y``)."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.errors import SourceError

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_DAYS = "(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ZONE = r"Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?|[A-Za-z_]+(?:/[A-Za-z_+-]+)+"

_OF_C = {
    "Y": "yyyy", "y": "yy", "m": "M", "d": "d", "H": "H", "I": "h", "M": "m", "S": "s",
    "f": "SSSSSS", "p": "a", "b": "MMM", "B": "MMMM", "a": "E", "A": "EEEE", "z": "XXX", "Z": "VV",
    "j": "D", "F": "yyyy-MM-dd", "T": "HH:mm:ss", "D": "MM/dd/yy", "R": "HH:mm",
}  # fmt: skip
"""The letters of C in those of Java."""

_LETTERS = {
    "year": "yyyy or %Y", "month": "MM or %m", "day": "dd or %d", "hour": "HH or %H",
    "hour_to_24": "kk", "hour12": "hh or %I", "hour_to_11": "KK", "half": "a or %p",
    "minute": "mm or %M", "second": "ss or %S", "fraction": "SSS or %f", "weekday": "EEE or %a",
    "day_of_year": "DD or %j", "month_name": "MMM or %b",
}  # fmt: skip
"""How fields are written, for messages."""

_HOURS = ("hour", "hour12", "hour_to_24", "hour_to_11")
_HOURS_OF_12 = ("hour12", "hour_to_11")

_ONE_OF = (_HOURS, ("month", "month_name"), ("day_of_year", "month"), ("day_of_year", "month_name"),
           ("day_of_year", "day"))  # fmt: skip
"""Fields that could contradict each other."""

_PARTNERS = {
    "day": ("month", "month_name"), "weekday": ("day", "day_of_year"), "minute": _HOURS,
    "second": ("minute",), "fraction": ("second",), "half": _HOURS_OF_12,
    "hour12": ("half",), "hour_to_11": ("half",),
}  # fmt: skip
"""What must stand beside a field, one of several, for it to mean anything."""


@dataclass(frozen=True, slots=True)
class ReadPattern:
    """Times read after a pattern."""

    us: Ints
    """Microseconds that the clock shows since 1970; 0 where it is none."""

    bad: Mask
    """Which are no time of the pattern."""

    too_fine: Mask
    """Which are finer than a microsecond."""

    wrong_weekday: Mask
    """Which have a weekday that is not that of their date."""

    zones: pa.Array | None
    """Offsets and zones as they are written, empty where there is none, if the pattern has any."""


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
            raise _no_pattern(pattern, f"it reads the {name.replace('_', ' ')} twice")
        seen.add(name)
        found.append(f"(?P<{name}>{regex})")
    _check_fields(seen, pattern)
    regex = "^(?i:" + "".join(found) + ")$"
    try:
        re.compile(regex)
    except re.error as error:
        raise _no_pattern(pattern, "its brackets do not match") from error
    return regex


def _check_fields(names: AbstractSet[str], pattern: str) -> None:
    """Refuse fields that can contradict each other, or mean nothing without one that is missing."""
    if "year" not in names:
        raise _no_pattern(pattern, "it reads no year")
    for group in _ONE_OF:
        several = [name for name in group if name in names]
        if len(several) > 1:
            both = " and ".join(map(_named, several))
            raise _no_pattern(pattern, f"it reads {both}, which can contradict each other")
    for name, partners in _PARTNERS.items():
        if name in names and names.isdisjoint(partners):
            missing = " or ".join(map(_named, partners[:2]))
            raise _no_pattern(pattern, f"it reads {_named(name)} without {missing}")


def _named(name: str) -> str:
    """Return a field in words, with its letters."""
    words = {"half": "AM or PM", "hour12": "the hour from 1 to 12", "hour": "the hour",
             "hour_to_24": "the hour from 1 to 24", "hour_to_11": "the hour from 0 to 11",
             "day_of_year": "the day of the year"}  # fmt: skip
    return f"{words.get(name, 'the ' + name.replace('_', ' '))} ({_LETTERS[name]})"


def _no_pattern(pattern: str, why: str) -> SourceError:
    return SourceError(
        f"time format '{pattern}' is no pattern of times: {why}; write it like "
        "yyyy-MM-dd HH:mm:ss or %Y-%m-%d %H:%M:%S"
    )


_PADDED_DAY = "d "
"""C's %e: a day of one digit has a blank before it."""


def _parts_of_c(pattern: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for letter, sign in re.findall(r"%-?(.)|(.)", pattern):
        if sign or letter == "%":
            parts.append(("text", sign or letter))
        elif letter == "e":
            parts.append(("field", _PADDED_DAY))
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
    if letters == _PADDED_DAY:
        return "day", " ?[0-9]{1,2}"
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
    name = {"M": "month", "L": "month", "d": "day", "H": "hour", "k": "hour_to_24",
            "h": "hour12", "K": "hour_to_11", "m": "minute", "s": "second"}.get(letter)  # fmt: skip
    if name is None or n > 2:
        raise _no_pattern(pattern, f"'{letters}' is unknown")
    return name, number


def read_pattern(texts: pa.Array, pattern: str) -> ReadPattern:
    """Read texts after a pattern; fields that are not in it are the least there are."""
    found = pc.extract_regex(texts, to_regex(pattern))
    fields = _Fields(found, frozenset(field.name for field in found.type), len(texts))
    bad = _mask(found.is_null())
    if _has_options(pattern):
        bad |= ~fields.is_there("year") | fields.lack_partner()
    year = fields.ints("year", 1970)
    if _has_short_year(pattern):
        # Java's two digits are those of 2000 to 2099, C's 69 to 99 those of the century before.
        year = year + np.where(("%" in pattern) & (year > 68), 1900, 2000)
    days, no_date = _days(fields, year)
    hour, no_hour = _hours(fields)
    minute, second = fields.ints("minute", 0), fields.ints("second", 0)
    bad |= no_date | no_hour | (minute > 59) | (second > 59)
    us = ((days * 24 + hour) * 60 + minute) * 60 + second
    fraction, too_fine = _fraction(fields)
    us = us * 1_000_000 + fraction
    zones = pc.struct_field(found, "zone") if "zone" in fields.names else None
    wrong_weekday = _wrong_weekday(fields, days) & ~bad
    return ReadPattern(np.where(bad, 0, us), bad, too_fine & ~bad, wrong_weekday, zones)


def _has_options(pattern: str) -> bool:
    """Return whether some of a pattern may be missing; C has no way to say so."""
    return "%" not in pattern and any(kind == "option" for kind, _ in _parts_of_java(pattern))


def _has_short_year(pattern: str) -> bool:
    return "(?P<year>[0-9]{2})" in to_regex(pattern)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of texts, as a pattern found them."""

    found: pa.StructArray
    names: frozenset[str]
    """Fields that the pattern has."""

    n: int

    def texts(self, name: str) -> pa.Array:
        """Return the texts of a field; empty where what may be missing is."""
        return pc.fill_null(pc.struct_field(self.found, name), "")

    def is_there(self, name: str) -> Mask:
        """Return where a text has the field."""
        if name not in self.names:
            return np.zeros(self.n, np.bool_)
        return _mask(pc.not_equal(self.texts(name), ""))

    def ints(self, name: str, least: int) -> Ints:
        """Return a field as numbers; the least there is where it is missing."""
        if name not in self.names:
            return np.full(self.n, least, np.int64)
        cells = pc.utf8_ltrim(self.texts(name), " ")
        filled = pc.if_else(pc.equal(cells, ""), str(least), cells)
        numbers: Ints = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return numbers

    def lack_partner(self) -> Mask:
        """Return which texts have a field without its partner, as where brackets let it out."""
        lacking = np.zeros(self.n, np.bool_)
        for name, partners in _PARTNERS.items():
            if name in self.names:
                has_one = np.logical_or.reduce([self.is_there(one) for one in partners])
                lacking |= self.is_there(name) & ~has_one
        return lacking


def _days(fields: _Fields, year: Ints) -> tuple[Ints, Mask]:
    """Return the days since 1970, and which are none."""
    if "day_of_year" in fields.names:
        number = fields.ints("day_of_year", 1)
        days = _first_days((year - 1970) * 12) + number - 1
        return days, (number < 1) | (days >= _first_days((year - 1969) * 12))
    month = _month_of_name(fields) if "month_name" in fields.names else fields.ints("month", 1)
    day = fields.ints("day", 1)
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    days = _first_days(months) + day - 1
    no_month = (month < 1) | (month > 12)
    return days, no_month | (day < 1) | (days >= _first_days(months + 1))


def _first_days(months: Ints) -> Ints:
    """Return the first day of months since 1970."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _month_of_name(fields: _Fields) -> Ints:
    names = pc.utf8_slice_codeunits(pc.utf8_lower(fields.texts("month_name")), 0, 3)
    at = pc.index_in(names, pa.array([month[:3] for month in _MONTHS]))
    numbers: Ints = pc.fill_null(at, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers + 1


def _wrong_weekday(fields: _Fields, days: Ints) -> Mask:
    """Return which weekdays are not those of their days; 1970 began with a Thursday."""
    if "weekday" not in fields.names:
        return np.zeros(fields.n, np.bool_)
    names = pc.utf8_slice_codeunits(pc.utf8_lower(fields.texts("weekday")), 0, 3)
    at = pc.fill_null(pc.index_in(names, pa.array(_WEEKDAYS)), -1)
    is_other: Mask = at.to_numpy(zero_copy_only=False) != (days + 3) % 7
    return fields.is_there("weekday") & is_other


def _hours(fields: _Fields) -> tuple[Ints, Mask]:
    """Return the hours, and which are none."""
    name = next((name for name in _HOURS if name in fields.names), "hour")
    if name == "hour":
        hour = fields.ints("hour", 0)
        return hour, hour > 23
    if name == "hour_to_24":
        hour = fields.ints(name, 24)
        return hour % 24, (hour < 1) | (hour > 24)
    afternoon = _mask(pc.equal(pc.utf8_upper(fields.texts("half")), "PM"))
    first = 1 if name == "hour12" else 0
    hour = fields.ints(name, 12 * first)
    return hour % 12 + 12 * afternoon, (hour < first) | (hour > 11 + first)


def _fraction(fields: _Fields) -> tuple[Ints, Mask]:
    """Return the microseconds of the fraction, and which are finer."""
    if "fraction" not in fields.names:
        return np.zeros(fields.n, np.int64), np.zeros(fields.n, np.bool_)
    padded = pc.utf8_rpad(fields.texts("fraction"), 9, "0")
    us: Ints = pc.utf8_slice_codeunits(padded, 0, 6).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return us, _mask(pc.not_equal(pc.utf8_slice_codeunits(padded, 6, 9), "000"))


def _mask(values: pa.Array) -> Mask:
    return np.array(values.to_numpy(zero_copy_only=False), np.bool_)
