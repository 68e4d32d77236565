"""Which data file a late event belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronicle.tree.summary import Ints


@dataclass(frozen=True, slots=True)
class Placement:
    """Late events ``start:stop`` that go into one file."""

    file: int
    """Position of the file in stream order."""

    start: int
    stop: int


def place_late(times: Ints, t_min: Ints) -> list[Placement]:
    """Return which late events go into which file, ascending in both. Pure.

    An event goes into the last file that begins no later than it: behind all events of its own
    time, since they arrived before it, and where it falls between two files to the end of the
    first. Events older than all go to the front of the first file. So merging file by file gives
    the order (time, arrival) of the whole.

    ``times`` are those of the late events, ascending; ``t_min`` is the first time of every live
    file, in stream order, at least one.
    """
    if not len(times):
        return []
    file = np.maximum(np.searchsorted(t_min, times, "right") - 1, 0)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(file)) + 1))
    stops = np.concatenate((starts[1:], [len(times)]))
    return [
        Placement(int(file[start]), int(start), int(stop))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
