"""Turn what clocks show into instants: a zone's clocks show some times twice, and never others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from chronicle.time import DAY_US, TIME_LIMIT, to_instant

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Ambiguous = Literal["earlier", "later", "infer"]
"""Which instant is meant by a local time that clocks show twice; ``infer`` goes by the order of the
file, as in pandas."""

AMBIGUOUS: tuple[Ambiguous, ...] = ("earlier", "later", "infer")

Folds = npt.NDArray[np.int8]
"""Which of its two instants a local time is: 0 the earlier, 1 the later, `UNKNOWN`. Python calls it
``fold``."""

UNKNOWN = -1

_UNITS = (DAY_US, DAY_US // 24, 1_000_000)
"""Days, hours and seconds, in microseconds."""


@dataclass(frozen=True, slots=True)
class Instants:
    """The two instants that local times can be, by the offsets before and behind a change.

    They are one where clocks show a time once. ``first`` is the earlier one where they show it
    twice, and the later one where they never do (PEP 495).
    """

    first: Ints
    second: Ints

    @property
    def is_twice(self) -> Mask:
        """Which times clocks show twice."""
        return np.asarray(self.first < self.second)

    @property
    def is_never(self) -> Mask:
        """Which times clocks skip."""
        return np.asarray(self.first > self.second)


def is_too_far(us: Ints) -> Mask:
    """Return which times lie beyond what a stream holds."""
    return np.asarray((us <= -TIME_LIMIT) | (us >= TIME_LIMIT))


def to_instants(local: Ints, zone: tzinfo) -> Instants:
    """Return the instants of local times, in microseconds, that lie within `TIME_LIMIT`.

    Why: offsets of the time zone database change at most every few days, and by whole seconds. So
    the offset is the same throughout a day, or an hour, if it is the same at its begin and, before
    and behind a change, at its end; and always throughout a second.
    """
    if zone is UTC or not len(local):
        return Instants(local, local)
    first, second = _offsets(local, zone, _UNITS)
    return Instants(local - first, local - second)


def _offsets(local: Ints, zone: tzinfo, units: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the offsets of local times before and behind a change of clocks."""
    unit, *finer = units
    parts, places = np.unique(local // unit, return_inverse=True)
    begins = (parts * unit).tolist()
    first = np.array([_offset(at, zone, fold=0) for at in begins], np.int64)
    if not finer:
        second = np.array([_offset(at, zone, fold=1) for at in begins], np.int64)
        return first[places], second[places]
    changes = np.array(
        [
            not offset
            == _offset(at + unit - 1, zone, fold=0)
            == _offset(at + unit - 1, zone, fold=1)
            for at, offset in zip(begins, first.tolist(), strict=True)
        ],
        np.bool_,
    )
    earlier, later = first[places], first[places]
    if changes.any():
        here = changes[places]
        earlier[here], later[here] = _offsets(local[here], zone, finer)
    return earlier, later


def _offset(local: int, zone: tzinfo, *, fold: int) -> int:
    instant = to_instant(local, zone, fold=fold)
    assert instant is not None, "times within TIME_LIMIT have instants"
    return local - instant


@dataclass(frozen=True, slots=True)
class Clocks:
    """What was read of a time column: instants, or what clocks show."""

    us: Ints
    """Microseconds since 1970; those of local times as if they were UTC."""

    zone: npt.NDArray[np.int32]
    """Number of the zone whose clock shows the time; -1 for an instant, or a time of no zone."""

    zones: tuple[tzinfo, ...]

    def instants(self) -> Instants:
        """Return which instants the times can be; 0 for those that are too far."""
        us = np.where(is_too_far(self.us), 0, self.us)
        first, second = us.copy(), us.copy()
        for number, zone in enumerate(self.zones):
            here = self.zone == number
            if here.any():
                found = to_instants(us[here], zone)
                first[here], second[here] = found.first, found.second
        return Instants(first, second)


# ---------------------------------------------------------------------------------------------
# Which of two instants is meant, by the order of the file.

Batch = TypeVar("Batch")


@dataclass(slots=True)
class _Stretch:
    """Local times shown twice that follow one another in a file, as far as it was read."""

    before: int | None = None
    """The last time before them."""

    last: int | None = None
    """The last time that was read."""

    times: list[Ints] = field(default_factory=list)
    places: list[tuple[Folds, npt.NDArray[np.intp]]] = field(default_factory=list)
    """Where they stand: the folds of their batch, and the rows."""

    def add(self, times: Ints, folds: Folds, rows: npt.NDArray[np.intp], *, twice: bool) -> None:
        """Take in the next times of the file, all of which are shown twice, or none."""
        is_far = self.last is not None and abs(int(times[0]) - self.last) > DAY_US
        if not twice or is_far:  # a stretch of another day is another change of clocks
            self.settle(int(times[0]))
        if twice:
            if not self.times:
                self.before = self.last
            self.times.append(times)
            self.places.append((folds, rows))
        self.last = int(times[-1])

    def settle(self, after: int | None) -> None:
        """Write down which instants are meant, once the time after them is known."""
        if not self.times:
            return
        found = order_folds(np.concatenate(self.times), self.before, after)
        ends = np.cumsum([len(times) for times in self.times])
        for (folds, rows), part in zip(self.places, np.split(found, ends[:-1]), strict=True):
            folds[rows] = part
        self.times, self.places = [], []


def infer_folds(
    batches: Iterable[Batch], look: Callable[[Batch], tuple[Ints, Mask, Mask]]
) -> Iterator[tuple[Batch, Folds]]:
    """Yield the batches of a file, each with which instants its local times are.

    ``look`` tells the local times of a batch, which of them are there, and which clocks show twice.
    Batches wait until a stretch of times shown twice is over, so at most its rows are held.
    """
    held: list[tuple[Batch, Folds]] = []
    stretch = _Stretch()
    for batch in batches:
        times, there, twice = look(batch)
        folds = np.full(len(times), UNKNOWN, np.int8)
        held.append((batch, folds))
        rows = np.flatnonzero(there)
        is_far = np.abs(np.diff(times[rows])) > DAY_US
        cuts = np.flatnonzero((twice[rows][1:] != twice[rows][:-1]) | is_far) + 1
        for part in np.split(rows, cuts):
            if len(part):
                stretch.add(times[part], folds, part, twice=bool(twice[part[0]]))
        if not stretch.times:
            yield from held
            held = []
    stretch.settle(None)
    yield from held


def order_folds(times: Ints, before: int | None, after: int | None) -> Folds:
    """Return which instants local times are that follow one another, all shown twice. Pure.

    They are told apart where clocks go back once. Two equal ones are both instants if they stand in
    equal steps between those before and after, as in a file with a record for each hour. Otherwise
    nobody knows.

    Examples
    --------
    >>> order_folds(np.array([10, 40, 5, 30]), 0, 60).tolist()
    [0, 0, 1, 1]
    >>> order_folds(np.array([10, 40]), 0, 60).tolist()
    [-1, -1]
    """
    folds = np.full(len(times), UNKNOWN, np.int8)
    back = np.flatnonzero(np.diff(times) < 0)
    if len(times) == 2 and times[0] == times[1] and before is not None and after is not None:
        back = np.array([0] if 0 < times[0] - before == after - times[0] else [], np.intp)
    if len(back) == 1:
        folds[: back[0] + 1], folds[back[0] + 1 :] = 0, 1
    return folds
