"""The matcher's work: how many steps an event costs, from how many searches are open."""

from __future__ import annotations

from typing import Final

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.waiting import POINTS, invert

AWAKE_STEPS: Final = 1.0
"""Steps more that an event takes within the window of a search that waits behind a gap: measured
1 to 3 ns beside the 0.6 to 2 ns of passing an event at which nothing begins."""

BEGIN_STEPS: Final = 10.0
"""Steps that it takes to see whether the window of an event at which a search may begin has what
any match must have: measured 6 to 13 ns, whatever the window, as each event is looked at once."""

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
    """Return the matcher's steps per event in each segment, at least 1, shape (n_segments,).

    One step for the event itself. Where a window bounds matches, further steps:

    - `AWAKE_STEPS` for each gap between two basic blocks, if any search waits there when the event
      comes, that is, has found all blocks up to the gap, in order and within the last window.
    - `BEGIN_STEPS` where the first block occurs.
    - `VISIT_STEPS` for each search whose window has all other blocks in order, at each gap for each
      occurrence of the block before it that is tried: at the first gap the one the search begins
      with, at further ones those that come before the next block is found.

    Parameters are fields of `costmodel.features.PlanFeatures`. Occurrences are independent, as in
    `costmodel.coverage`; looking back from an event, the waits for the blocks in reverse order add
    up as they do looking forward. With ``closes_early`` no search begins within a match, which is
    as long as the blocks are waited for.
    """
    if block_density.shape[1] < 2:
        return np.ones(len(block_density))
    density = np.clip(block_density, _DENSITY_MIN, _DENSITY_MAX)
    found = np.where(block_density >= 1.0, UNKNOWN_DENSITY, density)
    window = np.minimum(window_events, np.maximum(segment_events, 1.0))
    window = window[:, None] / n_keys  # an event is tried on the searches of its own key
    waiting = np.minimum(window, 1.0 / density[:, 1:])
    complete = _come_in_order(density[:, 1:], window)[:, -1:]
    searches = found[:, :1] * complete
    if closes_early:
        length = np.minimum(waiting.sum(axis=1, keepdims=True), window)
        searches = searches / (1.0 + searches * length)
    tried = np.maximum(found[:, :-1] * waiting, 1.0)
    tried[:, :1] = 1.0
    steps = AWAKE_STEPS * _come_in_order(density[:, :-1], window) + VISIT_STEPS * searches * tried
    further = BEGIN_STEPS * found[:, 0] + steps.sum(axis=1)
    return np.asarray(1.0 + np.where(np.isfinite(window_events), further, 0.0))


def _come_in_order(density: FloatArray, window: FloatArray) -> FloatArray:
    """Return how likely a window holds the first, the first two, … of blocks, in their order.

    Shapes (n_segments, n_blocks) and (n_segments, 1); shape (n_segments, n_blocks).
    """
    x = (-np.log1p(-density) * window)[..., None]
    product = np.multiply.accumulate(x / (x + POINTS), axis=1)
    return np.clip(invert(product / POINTS), 0.0, 1.0)
