"""Months, and days of a zone: when they begin, and which of them a time is in."""

from __future__ import annotations

from typing import Final

import numpy as np

from chronicle.tree.summary import Ints
from replay.errors import QueryError
from replay.expressions.functions.zones import Converted, to_instants, to_local
from replay.language.bound import Calendar

DAY_US: Final = 86_400_000_000

_AROUND: Final = 2
"""Units by which the unit a clock shows can miss the one a time is in: clocks are put by up to a
day, and the phase is less than a unit."""


def local_starts(calendar: Calendar, units: Ints) -> Ints:
    """Return what clocks show, in microseconds since 1970-01-01, where units begin."""
    if calendar.of_months:
        starts = units.astype("M8[M]").astype("M8[us]").astype(np.int64)
    else:
        starts = units * DAY_US
    return np.asarray(starts + calendar.phase)


def unit_starts(calendar: Calendar, units: Ints) -> Ints:
    """Return the times at which units begin; they never descend.

    A local time that clocks show twice is the earlier one, and one that they skip is taken as if
    they did not (`zones.to_instants`). Raises a QueryError beyond the years in which it is known
    what clocks of a zone show.
    """
    starts = local_starts(calendar, units)
    return starts if calendar.zone is None else _known(to_instants(starts, calendar.zone), calendar)


def units_at(calendar: Calendar, times: Ints) -> Ints:
    """Return of each time the last unit that begins at or before it."""
    if not len(times):
        return times
    ends = np.array([times.min(), times.max()])
    shown = ends if calendar.zone is None else _known(to_local(ends, calendar.zone), calendar)
    if calendar.of_months:
        first, last = shown.astype("M8[us]").astype("M8[M]").astype(np.int64).tolist()
    else:
        first, last = (shown // DAY_US).tolist()
    units = np.arange(first - _AROUND, last + _AROUND + 1)
    places = np.searchsorted(unit_starts(calendar, units), times, side="right")
    return np.asarray(units[0] + places - 1)


def _known(converted: Converted, by: Calendar) -> Ints:
    moments, known = converted
    if not known.all():
        raise QueryError(
            f"what clocks of {by.zone} show is known from the year 1 to 2037, and these windows "
            "reach beyond; leave TIMEZONE out, or events far from the others"
        )
    return moments
