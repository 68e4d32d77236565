"""Time zones of ``AT TIME ZONE``: between instants and the local times of an area, by Arrow."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.language.calendar import moment_of

FIRST_US = moment_of(1, 1, 1)
END_US = moment_of(2038, 1, 1)
"""Arrow reads the changes of clocks that zone files list, and they end with 2037."""

IntArray = npt.NDArray[np.int64]


@cache
def is_zone(name: str) -> bool:
    """Tell whether the time zone database has an area of that name."""
    import pyarrow as pa

    if not name[:1].isalpha():
        return False
    try:
        _local(pa.array([0], pa.timestamp("us", name)))
    except pa.ArrowInvalid:
        return False
    return True


def to_local(instants: IntArray, zone: str) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return what clocks of a zone show at instants.

    Parameters
    ----------
    instants
        Microseconds since the epoch, shape (n,).
    zone
        Name of an area, such as ``Europe/Berlin``.

    Returns
    -------
    tuple
        Local times, and whether they are known: those of the years 1 to 2037 are.
    """
    import pyarrow as pa

    known = (instants >= FIRST_US) & (instants < END_US)
    return _local(pa.array(np.where(known, instants, 0), pa.timestamp("us", zone))), known


def to_instants(times: IntArray, zone: str) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return when clocks of a zone showed local times.

    A time that clocks showed twice (they were put back) is the earlier instant. One that they
    skipped (they were put forward) is taken as if they had not been: 02:30 is then what became
    03:30. Java, Trino and Python's zoneinfo have it so; PostgreSQL takes the later of two instants.

    Parameters
    ----------
    times
        Microseconds of the local clock, shape (n,).
    zone
        As for ``to_local``.

    Returns
    -------
    tuple
        Instants, and whether they are known: those of local times of the years 1 to 2037 are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    known = (times >= FIRST_US) & (times < END_US)
    safe = np.where(known, times, 0)
    local = pa.array(safe, pa.timestamp("us"))
    # Of a time that was skipped, this gives the last instant before the gap.
    earliest = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    instants = earliest.view(pa.int64()).to_numpy()
    return safe - (_local(earliest) - instants), known


def _local(instants: Any) -> IntArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    local: IntArray = pc.local_timestamp(instants).view(pa.int64()).to_numpy()
    return local
