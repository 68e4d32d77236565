"""Naive windowed aggregation: every window by itself, over all rows, in plain Python.

What is to come out, in one place:

* HOP and TUMBLE: windows ``[origin + k slide, origin + k slide + size)`` for every whole k, of
  those that overlap [first, last]; CUMULATE: ``[origin + k size, origin + k size + i step)``
  likewise, i from 1 to ``size / step``. First and last are the stream's events, whatever WHERE;
  with keys those of the key's events that pass it. The origin is the stream's first event unless
  it is given. With a calendar these are numbers of its months or days, each of which begins when
  ``datetime`` and ``zoneinfo`` say that clocks show its first moment.
* SESSION: events of a partition less than ``gap`` apart, ending ``gap`` after the last; only those
  (with a key: of which an event of the key) of which an event passes WHERE.
* ROWS: ``size`` rows of a partition from every ``slide``-th on, only full ones; with keys beyond
  the partition's those that overlap the rows from first to last of the key's events that pass
  WHERE.
* Order: start, end, keys (ascending, NaN, NULL), then the number of the window.
* SUM of DOUBLE is a ``Fraction`` here, and ``Spread`` the exact variance; NaN and infinities as
  IEEE has them. ``TOO_LARGE`` is a sum that is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from replay.language.bound import (
    Aggregate,
    Attribute,
    Calendar,
    Call,
    CumulateWindows,
    DataType,
    Expression,
    RowWindows,
    SessionWindows,
    TimeWindows,
    WholeRange,
    WindowAggregation,
)
from tests.oracles.row_aggregates import distinct, is_nan
from tests.oracles.scalar import INT64, evaluate

Row = dict[str, Any]
TOO_LARGE = "too large"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OVERFLOW = Fraction(2) ** 1023


@dataclass(frozen=True)
class Sum:
    """An exact sum of DOUBLE divided by ``over``."""

    exact: Fraction
    magnitude: Fraction
    """Sum of absolute values."""
    n: int
    over: int


@dataclass(frozen=True)
class Spread:
    """An exact variance, or one whose root is meant."""

    exact: Fraction
    magnitude: Fraction
    """Mean of the absolute values."""
    n: int
    root: bool


@dataclass(frozen=True)
class Between:
    """An exact value between two others, of which ``scale`` is the larger magnitude."""

    exact: Fraction
    scale: float


def naive_windows(
    what: WindowAggregation, rows: Sequence[Row], span: tuple[int, int] | None = None
) -> list[tuple[Any, ...]]:
    """Return rows of the answer: start, end, keys, aggregates; no start and end for WholeRange.

    ``rows`` hold times, dates and intervals as int, NULL as None; ``span`` is the aggregator's.
    """
    passing = [row for row in rows if what.where is None or _of(what.where, row) is True]
    found = list(_windows(what, rows, passing, span))
    found.sort(key=lambda entry: entry[0])
    whole = isinstance(what.windows, WholeRange)
    return [
        (*(() if whole else (start, end)), *key, *(_aggregate(a, inside) for a in what.aggregates))
        for _, start, end, key, inside in found
    ]


def _of(expression: Expression, row: Row) -> Any:
    return evaluate(expression, lambda attribute: row[attribute.name])  # type: ignore[union-attr]


def _key(what: WindowAggregation, row: Row) -> tuple[Any, ...]:
    return tuple(_of(key, row) for key in what.keys)


def _same(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """NaN as a value that equals itself."""
    return tuple("NaN" if is_nan(value) else value for value in key)


def _place(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        (2, 0) if value is None else (1, 0) if is_nan(value) else (0, value) for value in key
    )


def _grouped(
    keyed: Sequence[tuple[tuple[Any, ...], Any]],
) -> list[tuple[tuple[Any, ...], list[Any]]]:
    """Group by key; the key shown is that of the first."""
    found: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[Any]]] = {}
    for key, item in keyed:
        found.setdefault(_same(key), (key, []))[1].append(item)
    return list(found.values())


Found = tuple[tuple[Any, ...], int, int, tuple[Any, ...], list[Row]]


def _windows(
    what: WindowAggregation,
    rows: Sequence[Row],
    passing: Sequence[Row],
    span: tuple[int, int] | None,
) -> Iterator[Found]:
    windows = what.windows
    by_key = _grouped([(_key(what, row), row) for row in passing])
    if isinstance(windows, WholeRange):
        for key, inside in by_key if what.keys else [((), list(passing))]:
            yield (0, 0, _place(key), 0), 0, 0, key, inside
    elif isinstance(windows, SessionWindows):
        yield from _sessions(what, windows, rows)
    elif isinstance(windows, RowWindows):
        yield from _row_windows(what, windows, rows)
    elif rows or span:
        times = [row[what.time] for row in rows]
        first, last = (min(times), max(times)) if span is None else span
        origin = first if windows.origin is None else windows.origin
        for key, inside in by_key if what.keys else [((), list(passing))]:
            low, high = first, last
            if what.keys:
                low, high = (pick(row[what.time] for row in inside) for pick in (min, max))
            for start, end, length in time_windows(windows, origin, low, high):
                chosen = [row for row in inside if start <= row[what.time] < end]
                yield (start, end, length, _place(key)), start, end, key, chosen


def time_windows(
    windows: TimeWindows | CumulateWindows, origin: int, first: int, last: int
) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and length of the windows that overlap [first, last].

    Where a zone leaves out a day, windows of two lengths can begin and end together.
    """
    slide = windows.slide if isinstance(windows, TimeWindows) else windows.size
    lengths = [windows.size]
    if isinstance(windows, CumulateWindows):
        lengths = list(range(windows.step, windows.size + 1, windows.step))
    begin_of, before = _ruler(windows.calendar, first)
    k = (before - windows.size - origin) // slide - 1
    while begin_of(origin + k * slide) <= last:
        start = origin + k * slide
        for length in lengths:
            if begin_of(start + length) > first:
                yield begin_of(start), begin_of(start + length), length
        k += 1


def _ruler(calendar: Calendar | None, first: int) -> tuple[Callable[[int], int], int]:
    """Return what gives the time at which a unit begins, and a unit at or before a time."""
    if calendar is None:
        return lambda unit: unit, first

    def begin_of(unit: int) -> int:
        shown = datetime(1970, 1, 1) + timedelta(days=unit)
        if calendar.of_months:
            shown = datetime(1970 + unit // 12, unit % 12 + 1, 1)
        shown += timedelta(microseconds=calendar.phase)
        zone = UTC if calendar.zone is None else ZoneInfo(calendar.zone)
        return (shown.replace(tzinfo=zone) - _EPOCH) // timedelta(microseconds=1)

    day = _EPOCH + timedelta(microseconds=first) - timedelta(days=32)
    months = (day.year - 1970) * 12 + day.month - 1
    return begin_of, months if calendar.of_months else (day - _EPOCH).days


def _partition(windows: SessionWindows | RowWindows, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in windows.partition_by)


def _passes(what: WindowAggregation, row: Row) -> bool:
    return what.where is None or _of(what.where, row) is True


def _sessions(
    what: WindowAggregation, windows: SessionWindows, rows: Sequence[Row]
) -> Iterator[Found]:
    for _, members in _grouped([(_partition(windows, row), row) for row in rows]):
        sessions: list[list[Row]] = []
        for row in members:
            if not sessions or row[what.time] - sessions[-1][-1][what.time] >= windows.gap:
                sessions.append([])
            sessions[-1].append(row)
        for session in sessions:
            start, end = session[0][what.time], session[-1][what.time] + windows.gap
            keyed = [(_key(what, row), row) for row in session if _passes(what, row)]
            for key, inside in _grouped(keyed):
                yield (start, end, _place(key), 0), start, end, key, inside


def _row_windows(
    what: WindowAggregation, windows: RowWindows, rows: Sequence[Row]
) -> Iterator[Found]:
    others = [
        key
        for key in what.keys
        if not (isinstance(key, Attribute) and key.name in windows.partition_by)
    ]
    for _, members in _grouped([(_partition(windows, row), row) for row in rows]):
        numbered = [(n, row) for n, row in enumerate(members) if _passes(what, row)]
        by_key = _grouped([(_key(what, row), (n, row)) for n, row in numbered])
        if not others:
            by_key = [(_key(what, members[0]), numbered)]
        number = 0
        while number * windows.slide + windows.size <= len(members):
            begin = number * windows.slide
            stop = begin + windows.size
            start, end = members[begin][what.time], members[stop - 1][what.time]
            for key, inside in by_key:
                if others and not (inside[0][0] < stop and inside[-1][0] >= begin):
                    continue
                chosen = [row for n, row in inside if begin <= n < stop]
                yield (start, end, _place(key), number), start, end, key, chosen
            number += 1


# ---------------------------------------------------------------------------------------------
# Aggregates


def _aggregate(part: Aggregate, rows: Sequence[Row]) -> Any:
    if part.argument is None:
        return len(rows)
    values = [_of(_exact_argument(part), row) for row in rows]
    if part.function in ("first", "last"):
        return values[0 if part.function == "first" else -1] if values else None
    present = [value for value in values if value is not None]
    if part.distinct:
        present = distinct(present)
    if part.function == "count":
        return len(present)
    if part.function in ("min", "max", "percentile"):
        ordered = sorted(value for value in present if not is_nan(value))
        if not ordered or part.function == "percentile":
            return percentile(ordered, part.fraction or 0.0) if ordered else None
        return ordered[0 if part.function == "min" else -1]
    if not present:
        return None
    if part.function in ("sum", "avg"):
        return _total(part, present)
    return _spread(part, present)


def _exact_argument(part: Aggregate) -> Expression:
    """Return what is aggregated: of integers their variance is that of no rounded doubles."""
    argument = part.argument
    assert argument is not None
    is_spread = part.function.startswith(("var", "stddev"))
    if is_spread and isinstance(argument, Call) and argument.op == "cast":
        return argument.args[0]
    return argument


def percentile(ordered: Sequence[Any], fraction: float) -> float | Between:
    """Return the value at place ``fraction * (n - 1)``, between two of them in proportion."""
    place = (len(ordered) - 1) * fraction
    below = math.floor(place)
    way = place - below
    least, most = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    if way == 0.0 or least == most:
        return least
    if math.isinf(least) or math.isinf(most):
        return least * (1.0 - way) + most * way
    exact = Fraction(least) + (Fraction(most) - Fraction(least)) * Fraction(way)
    return Between(exact, max(abs(least), abs(most)))


def _total(part: Aggregate, present: Sequence[Any]) -> Any:
    if isinstance(present[0], float):
        return _float_total(part, present)
    total = sum(present)
    if part.type is DataType.DOUBLE:
        return float(Fraction(total, len(present)))
    if not INT64[0] <= total <= INT64[1]:
        return TOO_LARGE
    if part.function == "sum":
        return total
    quotient = abs(total) // len(present)
    return quotient if total >= 0 else -quotient


def _float_total(part: Aggregate, present: Sequence[float]) -> Any:
    special = _special(present)
    if special is not None:
        return special
    exact = [Fraction(value) for value in present]
    if max(map(abs, exact)) * len(exact) >= _OVERFLOW:
        return TOO_LARGE
    over = len(exact) if part.function == "avg" else 1
    return Sum(sum(exact, Fraction()), sum(map(abs, exact), Fraction()), len(exact), over)


def _special(present: Sequence[float]) -> float | None:
    """Return the sum that NaN and infinities make."""
    infinite = {value for value in present if math.isinf(value)}
    if any(map(is_nan, present)) or len(infinite) == 2:
        return math.nan
    return infinite.pop() if infinite else None


def _spread(part: Aggregate, present: Sequence[float | int]) -> Any:
    n = len(present) - part.function.endswith("_samp")
    if n == 0:
        return None
    if any(is_nan(value) or math.isinf(value) for value in present):
        return math.nan
    exact = [Fraction(value) for value in present]
    if (max(exact) - min(exact)) ** 2 * len(exact) >= _OVERFLOW:
        return TOO_LARGE
    mean = sum(exact, Fraction()) / len(exact)
    squares = sum(((value - mean) ** 2 for value in exact), Fraction())
    magnitude = sum(map(abs, exact), Fraction()) / len(exact)
    return Spread(squares / n, magnitude, len(exact), part.function.startswith("stddev"))


# ---------------------------------------------------------------------------------------------
# Comparison


def agrees(got: Any, expected: Any) -> bool:
    """Tell whether a value is what the oracle says, within the bounds that are stated."""
    if isinstance(expected, Sum):
        bound = expected.n * expected.magnitude / 2**100
        bound += Fraction(math.ulp(float(expected.exact))) / 2
        quotient = Fraction(math.ulp(got)) / 2 if expected.over > 1 else 0
        return (
            abs(Fraction(got) - expected.exact / expected.over) <= bound / expected.over + quotient
        )
    if isinstance(expected, Spread):
        variance = Fraction(got) ** 2 if expected.root else Fraction(got)
        root = Fraction(math.isqrt(int(expected.exact * 2**200) + 1) + 1) / 2**100
        bound = Fraction(expected.n) / 2**95 * (expected.exact + expected.magnitude * root)
        # Rounded once; of a root, which is rounded again, the square has twice the error.
        bound += expected.exact * Fraction(4 if expected.root else 1, 2**53) * Fraction(1 + 2**-20)
        return abs(variance - expected.exact) <= bound + Fraction(1, 2**850)
    if isinstance(expected, Between):
        return abs(Fraction(got) - expected.exact) <= 4 * Fraction(math.ulp(expected.scale))
    if isinstance(expected, float):
        return isinstance(got, float) and (
            (is_nan(got) and is_nan(expected))
            or got == expected
            or math.isclose(got, expected, rel_tol=4e-16)
        )
    return type(got) is type(expected) and bool(got == expected)
