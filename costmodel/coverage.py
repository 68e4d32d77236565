"""Coverage: how many candidates a set of conditions leaves, and how many blocks they touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.features import PlanFeatures
from costmodel.waiting import POINTS, WEIGHTS


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """What is replayed of each segment under each plan; arrays of shape (n_plans, n_segments)."""

    candidates: FloatArray
    """Occurrences of the first selected basic block that begin a candidate."""
    length: FloatArray
    """Events of one replay interval."""
    share: FloatArray
    """Share of the segment's events inside intervals, from 0 to 1."""
    touched: FloatArray
    """Blocks that an interval touches."""
    blocks: FloatArray
    """Blocks read: those touched, and those read through between them."""
    stretches: FloatArray
    """Runs of neighbouring blocks among those read."""
    searches: FloatArray
    """Share of the occurrences of the pattern's first basic block that begin a candidate, from 0 to
    1; 0 where it is not looked up."""


def estimate_coverage(features: PlanFeatures, selected: BoolArray) -> Coverage:
    """Estimate the coverage of each plan's replay intervals, segment by segment.

    ``selected`` says which conditions each plan uses, shape (n_plans, n_conditions); a row that
    selects nothing covers all that remains. Occurrences are taken as independent and evenly spread
    over the events of a segment.

    Notes
    -----
    Thesis 3.4.3, (3.5)-(3.7), corrected as ``docs/planning.md`` ("Estimates") says: candidates are
    counted from the *rarest* selected basic block, once of those between the same two others;
    the interval extends to the furthest occurrence on each side; and an interval touches
    every block it has a part in. `costmodel.thesis` has the formulas as printed.
    """
    from costmodel.kernels import DENSITY_MAX, DENSITY_MIN, cover

    n_plans, n_basic, n_segments = len(selected), len(features.block_lengths), len(features.density)
    codes = condition_sets(features, selected)
    n_members = np.bincount(features.basic_block, minlength=n_basic)
    n_sets = np.int64(1) << np.minimum(n_members, 62)
    by_set = np.where(n_sets <= n_plans, n_sets, 0)
    offset = np.cumsum([0, *features.block_lengths.tolist()])
    events = np.maximum(features.segment_events, 1.0)
    window = np.clip(features.window_events - offset[-1], 0.0, events) + 1.0
    # A gap is a geometric number of events from 0 on, taken as an exponential time less half a
    # step; less where a window is but a few events.
    half = np.minimum(0.5 / window, 1.0 / 16.0)
    steps = np.multiply.outer(half, POINTS)
    # All is summed up to the window's end, 1 / z, which lies half a step further than whole
    # steps do; and one block is taken out, 1 + z / x, with its half step.
    lag = np.exp(-2.0 * steps)
    found = np.empty((7, n_plans, n_segments))
    cover(
        codes,
        by_set,
        features.basic_block,
        np.ascontiguousarray(np.log(np.clip(features.density, DENSITY_MIN, DENSITY_MAX))),
        features.block_lengths,
        offset,
        (features.starts_exact, features.ends_exact),
        features.n_keys,
        window,
        half,
        features.segment_events,
        features.segment_blocks,
        features.segment_stretches,
        features.bridge_blocks,
        POINTS,
        WEIGHTS,
        lag / POINTS,
        lag,
        np.exp(steps),
        np.empty((2, n_basic, n_plans)),
        np.empty((3, n_basic, n_plans, len(POINTS)), np.complex128),
        np.empty((5, len(POINTS)), np.complex128),
        found,
    )
    return Coverage(*found)


def condition_sets(features: PlanFeatures, selected: BoolArray) -> IntArray:
    """Return the set of conditions each plan uses of each basic block, shape (n_basic, n_plans).

    Bit j of a set stands for the j-th condition of the block. ``selected`` says which conditions
    each plan uses, shape (n_plans, n_conditions).
    """
    n_basic = len(features.block_lengths)
    codes = np.zeros((n_basic, len(selected)), np.int64)
    n_members = [0] * n_basic
    for c, b in enumerate(features.basic_block.tolist()):
        codes[b] |= selected[:, c].astype(np.int64) << n_members[b]
        n_members[b] += 1
    return codes
