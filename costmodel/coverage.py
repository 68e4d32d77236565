"""Coverage: how many candidates a set of conditions leaves, and how many blocks they touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
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

    Occurrences are taken as independent and evenly spread over the events of a segment.

    Parameters
    ----------
    features
        The query and the stream.
    selected
        Conditions each plan uses, shape (n_plans, n_conditions). A row that selects nothing covers
        all that remains.

    Returns
    -------
    Coverage

    Notes
    -----
    Thesis 3.4.3, (3.5)-(3.7), corrected as ``docs/planning.md`` ("Estimates") says: candidates are
    counted from the *rarest* selected basic block, once of those between the same two others;
    the interval extends to the furthest occurrence on each side; and an interval touches
    every block it has a part in. `costmodel.thesis` has the formulas as printed.
    """
    from costmodel.kernels import DENSITY_MAX, DENSITY_MIN, cover

    n_basic = len(features.block_lengths)
    lifts = features.lifts or (np.empty(0),) * n_basic
    found = cover(
        selected,
        features.basic_block,
        np.log(np.clip(features.density, DENSITY_MIN, DENSITY_MAX)),
        np.concatenate((np.empty(0), *lifts)),
        np.cumsum([0, *map(len, lifts)]),
        features.block_lengths,
        (features.starts_exact, features.ends_exact),
        features.n_keys,
        features.window_events,
        features.segment_events,
        features.segment_blocks,
        features.segment_stretches,
        features.bridge_blocks,
        POINTS,
        WEIGHTS,
    )
    return Coverage(*found)
