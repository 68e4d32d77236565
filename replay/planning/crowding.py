"""Crowding: how much fuller windows are that begin at an event, where events come in bursts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.planning.ascending import lower_bounds
from replay.planning.coarse_map import saturating_add
from replay.planning.statistics import IntArray


def crowding(times: Sequence[IntArray], within: int) -> float:
    """Return how many times as many events windows hold that begin at events, as told by blocks.

    Pure. Candidates begin at events, so it is these windows that others must fit into. Where events
    come one by one there is no difference; where a third of them comes together with the one
    before, there is.

    Parameters
    ----------
    times
        Of the events of some blocks, ascending.
    within
        Length of the window, not negative, in the unit of the times.

    Returns
    -------
    float
        At least 1, the value for events that come evenly or at random; and where all blocks are
        shorter than two windows: how rates differ between blocks, the tree tells.

    Notes
    -----
    Both are means over the same part of each block, from its first event to one window before its
    last, so that a rate that changes from block to block is none of it. A window that begins at any
    time is counted with one event besides, that at its begin. The ratio of the two is the
    integral of the pair correlation function up to the window (Ripley's K). Not in the thesis.
    """
    from_events = from_anywhere = 0.0
    for given in times:
        if len(given) < 2 or int(given[-1]) - int(given[0]) < max(2 * within, 1):
            continue
        last = int(given[-1]) - within
        starts = given[: np.searchsorted(given, last, side="right")]
        ends = lower_bounds(given, saturating_add(starts, within + 1))
        # Such windows end with the last event, behind which there need be no number.
        ends[starts == last] = len(given)
        from_events += float((ends - np.arange(len(starts))).mean())
        # An event is inside for as long as windows reach it.
        held = np.minimum(given, last) - np.maximum(saturating_add(given, -within), given[0])
        from_anywhere += 1.0 + float(np.maximum(held, 0).sum(dtype=np.float64)) / (
            last - int(given[0])
        )
    return max(from_events / from_anywhere, 1.0) if from_anywhere else 1.0
