"""Formulas as the thesis prints them: for its figures, and to see where they err.

Coverage, (3.5)-(3.7): planning uses `costmodel.coverage`, and the two differ in what
``docs/planning.md`` ("Estimates") names. Windows, 3.3.2: planning uses `costmodel.windows`, which
counts seconds where the thesis counts merges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from costmodel.thesis import hypoexponential
from costmodel.windows import BREAK_EVEN_STEPS


@dataclass(frozen=True, slots=True)
class PrintedCoverage:
    """The thesis' estimate of what replay intervals cover."""

    alpha: float
    """(3.5): share of the stream inside replay intervals, from 0 to 1."""
    n_intervals: float
    """(3.6): candidates that fit into the window, counted from the first selected block."""
    mean_length: float
    """(3.7): their mean length, in events."""
    interval_length: float
    """``extend`` of the mean length, in events."""


def thesis_coverage(
    density: ArrayLike, window: float, n_events: float, *, starts: bool, ends: bool
) -> PrintedCoverage:
    """Estimate coverage by the printed formulas.

    ``density`` is the share of events at which each *selected* basic block occurs, in pattern
    order; ``window`` counts events, as (A2) takes them as evenly spaced; ``starts`` and ``ends``
    say whether the first (last) selected symbol is the pattern's first (last).

    Raises
    ------
    ValueError
        If no block is selected, or a density is not above 0.

    Notes
    -----
    ``extend`` is ``2 (w - mu)`` in the base case as printed, and by (S1) and (S3) of
    ``Interval(c, w)`` the window, by (S2) the candidate itself.

    Examples
    --------
    >>> round(thesis_coverage([0.001, 0.05], 300, 1e6, starts=True, ends=True).alpha, 2)
    0.02
    """
    rates = np.asarray(density, dtype=np.float64)
    if rates.size == 0:
        raise ValueError("no basic block is selected; give the density of at least one")
    fits = hypoexponential.cdf(float(window), rates[1:])
    mean = hypoexponential.truncated_mean(float(window), rates[1:])
    if starts and ends:
        length = mean
    elif starts or ends:
        length = float(window)
    else:
        length = 2.0 * (window - mean)
    n_intervals = n_events * float(rates[0]) * fits
    part = min(length / n_events, 1.0 - 1e-15)
    alpha = -np.expm1(n_intervals * np.log1p(-part))
    return PrintedCoverage(float(alpha), n_intervals, mean, length)


def thesis_alpha(
    density: ArrayLike, window: float, n_events: float, *, starts: bool, ends: bool
) -> float:
    """Return (3.5) alone; parameters and errors are those of `thesis_coverage`."""
    return thesis_coverage(density, window, n_events, starts=starts, ends=ends).alpha


def printed_replay(slide: float, rate: float) -> float:
    """Return the merges of a replay for one slide: thesis 3.3.2, C_replay."""
    return slide * rate


def printed_index(slide: float, rate: float, *, per_leaf: int, fan_out: int, height: int) -> float:
    """Return the merges of the tree for one slide: thesis 3.3.2, C_index, its level clamped.

    ``slide`` is in units of time, ``rate`` in events per unit; the rest are B, D and h of Table
    3.1.

    Examples
    --------
    >>> printed_index(5.0, 100.0, per_leaf=458, fan_out=152, height=4)
    462.0
    """
    leaves = slide * rate / per_leaf
    split = max(0, math.ceil(math.log(leaves, fan_out))) if leaves > 0 else 0
    above = height - 1 - split
    at_split: int = math.ceil(leaves / float(fan_out) ** (split - 1)) if split else 0
    on_leaves: float = min(1.0, leaves) * per_leaf
    return above + at_split + max(0, split - 1) * fan_out + on_leaves


def printed_break_even(rate: float, *, per_leaf: int, fan_out: int, height: int) -> float:
    """Return the slide at which C_index falls below C_replay for good.

    Parameters are those of `printed_index`; the slide is in its units of time.
    """
    low, high = 0.0, per_leaf / rate * float(fan_out) ** height

    def wins(slide: float) -> bool:
        index = printed_index(slide, rate, per_leaf=per_leaf, fan_out=fan_out, height=height)
        return index < printed_replay(slide, rate)

    for _ in range(BREAK_EVEN_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if wins(middle) else (middle, high)
    return high
