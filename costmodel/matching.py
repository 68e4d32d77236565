"""The matcher's work: how many steps an event costs, from how many searches are open."""

from __future__ import annotations

from typing import Final

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.waiting import POINTS, invert

AWAKE_STEPS: Final = 1.0
"""Steps more that an event takes within the window of a search that waits behind a gap: measured
1 to 3 ns beside the 0.6 to 2 ns of passing an event at which nothing begins."""

VISIT_STEPS: Final = 60.0
"""Steps that it takes to try what stands before a gap for one search: measured 75 to 110 ns,
whatever the window, as rows at which a gap may end are found once for all searches."""

UNKNOWN_DENSITY: Final = 0.1
"""Taken for how often a basic block occurs where nothing is known of it."""

_DENSITY_MIN: Final = 1e-15
_DENSITY_MAX: Final = 1.0 - 1e-12


def match_steps(
    block_density: FloatArray,
    window_events: FloatArray,
    segment_events: FloatArray,
    *,
    closes_early: bool,
    n_keys: float,
) -> FloatArray:
    """Return the matcher's steps per event in each segment, shape (n_segments,).

    One step for the event itself. Where a window bounds matches, further steps for each gap between
    two basic blocks: `AWAKE_STEPS` if any search waits there when the event comes, that is, has
    found all blocks up to the gap, in order and within the last window; and `VISIT_STEPS` for each
    search that tries what stands before the gap at the event: at the first gap the one that begins
    there, at further ones all that have come so far within the last window.

    Parameters
    ----------
    block_density, window_events, segment_events, closes_early, n_keys
        As in `costmodel.features.PlanFeatures`.

    Returns
    -------
    ndarray of float64, shape (n_segments,)
        At least 1.

    Notes
    -----
    Occurrences are independent, as in `costmodel.coverage`; looking back from an event, the waits
    for the blocks in reverse order add up as they do looking forward. A search closes when its
    window ends or, with ``closes_early``, when the next block comes.
    """
    density = np.clip(block_density, _DENSITY_MIN, _DENSITY_MAX)
    found = np.where(block_density >= 1.0, UNKNOWN_DENSITY, density)[:, :-1]
    window = np.minimum(window_events, np.maximum(segment_events, 1.0))
    window = window[:, None] / n_keys  # an event is tried on the searches of its own key
    x = (-np.log1p(-density[:, :-1]) * window)[..., None]
    product = np.multiply.accumulate(x / (x + POINTS), axis=1)
    reached = np.clip(invert(product / POINTS), 0.0, 1.0)
    before = np.concatenate((np.ones((len(reached), 1)), reached), axis=1)[:, :-1]
    waiting = np.minimum(window, 1.0 / density[:, 1:]) if closes_early else window
    searches = np.maximum(found[:, :1] * waiting, np.ones_like(found))
    searches[:, :1] = 1.0
    steps = AWAKE_STEPS * reached + VISIT_STEPS * found * before * searches
    bounded = np.isfinite(window_events)
    return np.asarray(1.0 + np.where(bounded, steps.sum(axis=1), 0.0))
