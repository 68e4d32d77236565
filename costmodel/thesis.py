"""Coverage as the thesis prints it, (3.5)-(3.7): for its figures, and to see where it errs.

Planning uses `costmodel.coverage`. The two differ in what ``docs/planning.md`` ("Estimates") names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from costmodel import hypoexponential


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

    Parameters
    ----------
    density
        Share of events at which each *selected* basic block occurs, in pattern order, shape (k,).
    window
        Events of the window; time is counted in events, as (A2) takes them as evenly spaced.
    n_events
        Events of the stream.
    starts, ends
        Whether the first (last) selected symbol is the pattern's first (last).

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
