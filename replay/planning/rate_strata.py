"""Rate strata: groups of blocks in which the cost model may take rates as constant."""

from __future__ import annotations

from typing import Final

import numpy as np

from chronicle.tree.summary import Leaves
from costmodel.arrays import FloatArray
from replay.planning.statistics import IntArray

STRATA_MAX: Final = 16
"""Strata of a stream. Each costs as much as a stream of its own when plans are estimated."""

EVEN_TIMES: Final = 1.4
"""Times of the least rate that the greatest is at most, where both are taken as one."""

RATE_MIN: Final = 2.0**-24
"""Rates below this are all one, with nothing at all."""


def window_rates(leaves: Leaves, within: int | None, rows: int | None) -> FloatArray:
    """Return the events a window holds at the rate of each block, shape (n_blocks,).

    ``within`` is the window in time, ``rows`` that in rows; where neither bounds a match it is
    infinite. Events are taken to come evenly between the starts of blocks.
    """
    n = len(leaves.t_min)
    window = np.full(n, np.inf if rows is None else float(rows))
    if within is None or n == 0:
        return window
    # The stream's last block begins where it begins and ends with its last event.
    times = np.append(leaves.t_min, leaves.t_max[-1]).astype(np.float64)
    lasts = np.maximum(np.diff(times), 1.0)
    return np.asarray(np.minimum(window, leaves.count * (max(within, 1) / lasts) + 1.0))


def to_strata(rates: FloatArray) -> tuple[IntArray, IntArray]:
    """Return n blocks in order of stratum, and where in it each stratum begins.

    ``rates`` are k of each block, at least one, such as the share of its events that satisfy a
    condition; shape (k, n). Even data is one stratum, other data `STRATA_MAX` of equal size, by how
    often all that is wanted comes together. Not in the thesis, which takes rates as constant over
    the stream.

    Examples
    --------
    >>> order, starts = to_strata(np.array([[0.1, 0.4, 0.1, 0.2]]))
    >>> order.tolist(), starts.tolist()
    ([0, 2, 3, 1], [0, 1, 2, 3])
    """
    n, rates = rates.shape[1], np.clip(rates, RATE_MIN, 1.0 / RATE_MIN)
    uneven = rates[rates.max(axis=1) > EVEN_TIMES * rates.min(axis=1)]
    if not len(uneven):
        return np.arange(n), np.zeros(1, dtype=np.int64)
    n_strata = min(n, STRATA_MAX)
    order = uneven.prod(axis=0).argsort(kind="stable")
    return order, np.arange(n_strata) * n // n_strata
