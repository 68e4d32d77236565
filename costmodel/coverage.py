"""Coverage: how many candidates a set of conditions leaves, and how many blocks they touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.features import BoolArray, FloatArray, PlanFeatures


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is replayed of the remaining events, for each plan; arrays of shape (n_plans,)."""

    candidates: FloatArray
    length: FloatArray
    """Events of one replay interval."""
    share: FloatArray
    """Share of the remaining events inside intervals, from 0 to 1."""
    blocks: FloatArray
    """Blocks that an interval touches."""
    stretches: FloatArray
    """Runs of neighbouring blocks among these."""


def estimate_coverage(features: PlanFeatures) -> Coverage:
    """Estimate the coverage of each plan's replay intervals.

    Occurrences are taken as independent and evenly spread over the remaining events.

    Parameters
    ----------
    features
        Plans with p rows in ``selected``. A row that selects nothing covers all that remains.

    Returns
    -------
    Coverage

    Notes
    -----
    Thesis 3.4.3, corrected as ``docs/planning.md`` ("Estimates") says: candidates are counted
    from the *rarest* selected basic block, each other block must occur within the window, and the
    interval extends to the furthest occurrence on each side; blocks touched are
    ``M (1 - (1 - (length + block span) / T) ** N)``.
    """
    events = float(max(features.remaining_events, 1))
    blocks = float(features.remaining_blocks)
    density, has = _block_densities(features)
    window = min(features.window_events, events)
    uses_any = has.any(axis=1)
    rarest = np.where(has, density, np.inf).argmin(axis=1)
    rows = np.arange(len(has))
    others = has.copy()
    others[rows, rarest] = False
    occurs = np.where(others, -np.expm1(-density * window), 1.0).prod(axis=1)
    candidates = events * np.where(uses_any, density[rows, rarest], 0.0) * occurs
    length = features.block_lengths[rarest] + _extension(features, density, has, rarest, window)
    share = np.where(uses_any, _touched(length / events, candidates), 1.0)
    per_block = events / max(blocks, 1.0)
    touched = blocks * _touched((length + per_block) / events, candidates)
    touched = np.where(uses_any, touched, blocks)
    runs = np.minimum(candidates, 1 + touched * (1 - touched / max(blocks, 1.0)))
    runs = np.where(uses_any, runs, float(features.remaining_stretches))
    return Coverage(candidates, length, share, touched, runs)


def _block_densities(features: PlanFeatures) -> tuple[FloatArray, BoolArray]:
    """Return each basic block's density under each plan and whether the plan selects it.

    Both of shape (n_plans, n_basic_blocks); a block not selected has density 1.
    """
    n_blocks = len(features.block_lengths)
    member = features.basic_block[:, None] == np.arange(n_blocks)
    logs = np.log(np.clip(features.density, 1e-300, 1.0))
    chosen = features.selected.astype(np.float64)
    return np.exp(chosen @ (logs[:, None] * member)), (chosen @ member) > 0


def _touched(part: FloatArray, times: FloatArray) -> FloatArray:
    """Return the share of a line that ``times`` pieces of length ``part`` cover at random."""
    inside = np.minimum(part, 1.0 - 1e-12)
    return np.asarray(-np.expm1(times * np.log1p(-inside)), dtype=np.float64)


def _extension(
    features: PlanFeatures,
    density: FloatArray,
    has: BoolArray,
    rarest: np.ndarray[tuple[int, ...], np.dtype[np.intp]],
    window: float,
) -> FloatArray:
    """Return the events an interval has beyond the rarest block, both sides together.

    A side ends at the rarest block itself where that is the pattern's end; else at the furthest
    occurrence of the pattern's end block, if selected and fixed; else at the window's end.
    """
    last = len(features.block_lengths) - 1
    total = np.zeros(len(has))
    for end, exact in ((0, features.starts_exact), (last, features.ends_exact)):
        fixed = has[:, end] & exact
        side = np.where(fixed, _furthest(density[:, end], window), window)
        total += np.where(fixed & (rarest == end), 0.0, side)
    return total


def _furthest(density: FloatArray, window: float) -> FloatArray:
    """Return the expected distance of the furthest occurrence within the window, given one.

    The distance from the window's far end is an exponential cut off at the window:
    ``w - 1/d + w exp(-d w) / (1 - exp(-d w))``, which tends to w/2 for small ``d w``.
    """
    x = density * window
    safe = np.where(x < 1e-4, 1.0, x)
    exact = window * (1 - 1 / safe + np.exp(-safe) / -np.expm1(-safe))
    return np.where(x < 1e-4, window / 2, exact)
