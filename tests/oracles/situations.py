"""Temporal patterns answered by trying futures: slow, and nothing of the engine in it.

At an instant a match is certain if all durations and relations hold, whatever rows may follow.
That is tried: what goes on may end at once, a little later than something else, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

Row = Mapping[str, Any]
Truth = Callable[[Sequence[Row], int], bool | None]
"""Tells of a row, by its place among those of its partition, whether a condition holds."""

FINE = 1000
"""Instants between two units of time: time is dense."""
NEVER = 10**12


@dataclass(frozen=True)
class Name:
    """A condition and its durations."""

    truth: Truth
    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True)
class Question:
    """A temporal pattern."""

    names: tuple[Name, ...]
    pairs: tuple[tuple[int, int, frozenset[str]], ...]
    within: int | None
    is_final: bool
    valid_for: int | None


@dataclass(frozen=True)
class Period:
    """A situation as it is known at an instant; ``end`` is None while it goes on."""

    name: int
    first: int
    start: int
    end: int | None
    rows: tuple[int, ...]
    """Places of its rows in the whole history."""


Relation = Callable[[int, int, int, int], bool]
RELATIONS: dict[str, Relation] = {
    "before": lambda a, b, c, d: b < c,
    "meets": lambda a, b, c, d: b == c,
    "overlaps": lambda a, b, c, d: a < c < b < d,
    "finished by": lambda a, b, c, d: a < c and b == d,
    "contains": lambda a, b, c, d: a < c and d < b,
    "starts": lambda a, b, c, d: a == c and b < d,
    "equals": lambda a, b, c, d: a == c and b == d,
    "started by": lambda a, b, c, d: a == c and d < b,
    "during": lambda a, b, c, d: c < a and b < d,
    "finishes": lambda a, b, c, d: c < a and b == d,
    "overlapped by": lambda a, b, c, d: c < a < d < b,
    "met by": lambda a, b, c, d: d == a,
    "after": lambda a, b, c, d: d < a,
}


def naive_matches(question: Question, rows: Sequence[Row], key: Callable[[Row], Any]):
    """Return (detection, periods as known then) of every match, in the order of the answer."""
    if not rows:
        return []
    last = rows[-1]["t"]
    found = []
    for partition in {key(row) for row in rows}:
        own = [place for place, row in enumerate(rows) if key(row) == partition]
        found += _of_partition(question, rows, own, last)
    return sorted(found, key=lambda one: (one[0], [period.first for period in one[1]]))


def _of_partition(question: Question, rows: Sequence[Row], own: list[int], last: int):
    instants = {rows[place]["t"] for place in own}
    if question.valid_for is not None:
        instants |= {t + question.valid_for for t in instants}
    starts = {rows[place]["t"] for place in own}
    for name in question.names:
        if name.at_least is not None:
            instants |= {start + name.at_least for start in starts}
    seen: set[tuple[int, ...]] = set()
    within = NEVER if question.within is None else question.within
    for instant in sorted(t for t in instants if t <= last):
        known = []
        for number in range(len(question.names)):
            periods = _periods(question, rows, own, number, instant)
            # One that is too old now is too old ever after.
            known.append([period for period in periods if instant - period.start <= within])
        for periods in product(*known):
            match = tuple(period.first for period in periods)
            if match not in seen and _is_certain(question, periods, instant):
                seen.add(match)
                yield instant, periods


def _periods(
    question: Question, rows: Sequence[Row], own: list[int], number: int, instant: int
) -> list[Period]:
    """Return the situations of a name by the rows up to an instant."""
    known = [place for place in own if rows[place]["t"] <= instant]
    partition = [rows[place] for place in known]
    truth, valid_for = question.names[number].truth, question.valid_for
    periods: list[Period] = []
    run: list[int] = []

    def end(at: int | None) -> None:
        if run and at != partition[run[0]]["t"]:
            places = tuple(known[i] for i in run)
            periods.append(Period(number, places[0], partition[run[0]]["t"], at, places))
        run.clear()

    for i, row in enumerate(partition):
        if run and valid_for is not None and row["t"] - partition[i - 1]["t"] > valid_for:
            end(partition[i - 1]["t"] + valid_for)
        if truth(partition, i) is True:
            run.append(i)
        else:
            end(row["t"])
    if run and valid_for is not None and partition[-1]["t"] + valid_for <= instant:
        end(partition[-1]["t"] + valid_for)
    end(None)
    return periods


def _is_certain(question: Question, periods: Sequence[Period], instant: int) -> bool:
    going_on = [i for i, period in enumerate(periods) if period.end is None]
    if question.is_final and going_on:
        return False
    soon = [instant * FINE + 1 + step for step in range(len(going_on))]
    for ends in product([*soon, NEVER], repeat=len(going_on)):
        future = [
            (period.start * FINE, 0 if period.end is None else period.end * FINE)
            for period in periods
        ]
        for i, end in zip(going_on, ends, strict=True):
            future[i] = (future[i][0], end)
        if not _holds(question, future):
            return False
    return True


def _holds(question: Question, periods: Sequence[tuple[int, int]]) -> bool:
    for name, (start, end) in zip(question.names, periods, strict=True):
        if name.at_least is not None and end - start < name.at_least * FINE:
            return False
        if name.at_most is not None and end - start > name.at_most * FINE:
            return False
    return all(
        any(RELATIONS[relation](*periods[left], *periods[right]) for relation in relations)
        for left, right, relations in question.pairs
    )
