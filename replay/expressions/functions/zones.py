"""Time zones of ``AT TIME ZONE``: between instants and the local times of an area, by Arrow."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.expressions.columns import Values
from replay.expressions.functions.faults import Faults
from replay.expressions.nodes import Call, Literal

FIRST_US, END_US = np.array(["0001-01-01", "2038-01-01"], "M8[us]").astype(np.int64).tolist()
"""Arrow reads the changes of clocks that zone files list, and they end with 2037."""

IntArray = npt.NDArray[np.int64]
Converted = tuple[IntArray, npt.NDArray[np.bool_]]
"""Moments, and whether they are known: those of the years 1 to 2037 are."""


@cache
def is_zone(name: str) -> bool:
    """Tell whether the time zone database has an area of that name."""
    if not name[:1].isalpha():
        return False
    try:
        _local(pa.array([0], pa.timestamp("us", name)))
    except pa.ArrowInvalid:
        return False
    return True


def to_local(instants: IntArray, zone: str) -> Converted:
    """Return what clocks of a zone show at instants."""
    known = (instants >= FIRST_US) & (instants < END_US)
    return _local(pa.array(np.where(known, instants, 0), pa.timestamp("us", zone))), known


def to_instants(times: IntArray, zone: str) -> Converted:
    """Return when clocks of a zone showed local times.

    A time that clocks showed twice (they were put back) is the earlier instant. One that they
    skipped (they were put forward) is taken as if they had not been: 02:30 is then what became
    03:30. Java, Trino and Python's zoneinfo have it so; PostgreSQL takes the later of two instants.
    """
    known = (times >= FIRST_US) & (times < END_US)
    safe = np.where(known, times, 0)
    local = pa.array(safe, pa.timestamp("us"))
    # Of a time that was skipped, this gives the last instant before the gap.
    earliest = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    instants = earliest.view(pa.int64()).to_numpy()
    return safe - (_local(earliest) - instants), known


def _local(instants: Any) -> IntArray:
    local: IntArray = pc.local_timestamp(instants).view(pa.int64()).to_numpy()
    return local


def _in_zone(convert: Callable[[IntArray, str], Converted]) -> Callable[..., Values]:
    """Return a conversion between instants and local times of a constant zone."""

    def apply(call: Call, args: list[Values], faults: Faults) -> Values:
        zone = call.args[1]
        assert isinstance(zone, Literal)
        if zone.value is None:
            return Values(np.int64(0), np.False_)
        data, known = convert(np.atleast_1d(args[0].data), str(zone.value))
        if not np.ndim(args[0].data):
            data, known = data[0], known[0]
        return faults.drop(Values(data, args[0].valid), known)

    return apply


local_time = _in_zone(to_local)
instant = _in_zone(to_instants)
