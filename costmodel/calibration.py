"""The weights of the cost model from measured operations, by non-negative least squares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters

WEIGHTS: Final = tuple(field.name for field in fields(CostParameters) if field.name.endswith("_s"))
"""Names of the weights that are fitted, each in seconds per unit of one kind of work."""

UNITS: Final = {
    "block_s": "s per block read",
    "value_s": "s per value (event x column)",
    "predicate_s": "s per predicate evaluated on an event",
    "match_s": "s per step of the matcher",
    "entry_s": "s per index entry",
    "sort_s": "s per comparison of sorting entries",
    "seek_s": "s per jump (stretch or lookup)",
    "fold_s": "s per value added to an aggregate",
    "pane_s": "s per event brought to its windows",
    "cut_s": "s per border of windows in the tree",
    "merge_s": "s per slice or window (x attribute)",
    "node_s": "s per entry of the tree (x attribute)",
    "ask_s": "s per window asked for by itself",
    "join_s": "s per event joined",
}
"""What a unit of each weight is."""

FLOOR_S: Final = 1e-3
"""Errors are taken relative to the seconds measured plus this: what takes tens of microseconds is
full of costs of a call that no term stands for, and no plan is chosen for their sake."""

PRIOR_STRENGTH: Final = 0.3
"""Error that a weight far from its default counts as. Small beside that of some dozen operations,
so it decides only what they leave open, such as how ``n`` and ``n log2 n`` share their time."""

LEAST_SHARE: Final = 0.3
"""Of its default that a weight has at least: what measurements show as free is hidden by noise, or
by replays of data that no formula tells well, and a planner to whom something is free asks for any
amount of it."""

OUTLIER: Final = 2.0
"""Errors above so many times the typical one pull with the force of that many."""

ROUNDS: Final = 20
"""Rounds of taming outliers; weights settle within about five."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Weights, and how well they tell the time of the n operations they come from."""

    parameters: CostParameters
    fitted: tuple[str, ...]
    """Weights whose work was measured; the others keep their default."""
    overhead_s: float
    """Seconds every operation takes besides; the same for all plans, so it decides none."""
    estimated: FloatArray
    """Seconds the weights give, the overhead included, shape (n,)."""
    errors: FloatArray
    """``estimated / measured - 1``, shape (n,)."""
    r2: float
    """Share of the variance of the seconds that the weights explain; 1 is all of it."""

    @property
    def median_error(self) -> float:
        """Half of the operations are estimated with a smaller relative error."""
        return float(np.median(np.abs(self.errors)))


def units_of_work(cost: Callable[[CostParameters], float]) -> FloatArray:
    """Return how often each weight counts in a cost, shape (n_weights,) in order of `WEIGHTS`.

    A cost is linear in the weights, so its value with one weight at 1 and all others at 0 is the
    units of that kind of work: a regression on them has exactly the terms of the formula.
    """
    alone = np.eye(len(WEIGHTS))
    return np.array([cost(_with_weights(DEFAULT_PARAMETERS, one)) for one in alone], np.float64)


def expected_seconds(units: FloatArray) -> float:
    """Return what units of work (as `units_of_work` gives them) take by the default weights."""
    return float(units @ _of(DEFAULT_PARAMETERS))


def _of(parameters: CostParameters) -> FloatArray:
    """Return the weights as an array, in order of `WEIGHTS`."""
    return np.array([getattr(parameters, name) for name in WEIGHTS], dtype=np.float64)


def _with_weights(parameters: CostParameters, weights: FloatArray) -> CostParameters:
    given: dict[str, Any] = dict(zip(WEIGHTS, weights.tolist(), strict=True))
    return replace(parameters, **given)


def fit_weights(
    units: FloatArray, seconds: FloatArray, *, defaults: CostParameters = DEFAULT_PARAMETERS
) -> Fit:
    """Fit the weights to measured operations.

    Parameters
    ----------
    units
        Work of each operation, shape (n, n_weights), columns in order of `WEIGHTS`.
    seconds
        What each took, shape (n,), all positive.
    defaults
        Weights of work that was not measured, and where the others are drawn to as far as the
        measurements leave them open.

    Returns
    -------
    Fit
        No weight is below `LEAST_SHARE` of its default.

    Raises
    ------
    ValueError
        If nothing was measured, or a number is negative or not finite.

    Notes
    -----
    Least squares of errors relative to the time measured, since operations take from microseconds
    to seconds and plans are compared by ratios; errors far above the typical one are tamed
    (Huber's weights) and weights are drawn to their defaults by a ridge whose force is bounded.
    """
    _check(units, seconds)
    known = _of(defaults)
    measured = np.asarray(units.any(axis=0), dtype=np.bool_)
    scale = seconds + FLOOR_S
    # The overhead is the last unknown; it has no default to be drawn to.
    terms = np.column_stack((units[:, measured], np.ones(len(seconds)))) / scale[:, None]
    target = seconds / scale
    drawn_to = known[measured]
    least = np.append(LEAST_SHARE * drawn_to, 0.0)
    found = np.append(drawn_to, 0.0)
    trust = np.ones(len(seconds))
    for _ in range(ROUNDS):
        reach = np.maximum(np.maximum(found[:-1], drawn_to), np.finfo(np.float64).tiny)
        ridge = np.column_stack((np.diag(PRIOR_STRENGTH / reach), np.zeros(len(reach))))
        rows = np.vstack((terms * trust[:, None], ridge))
        wanted = np.concatenate((target * trust, PRIOR_STRENGTH * drawn_to / reach))
        found = least + _non_negative_least_squares(rows, wanted - rows @ least)
        off = np.abs(terms @ found - target)
        allowed = OUTLIER * max(float(np.median(off)), 1e-12)
        trust = np.sqrt(np.minimum(1.0, allowed / np.maximum(off, allowed)))
    weights = known.copy()
    weights[measured] = found[:-1]
    estimated = units @ weights + found[-1]
    return Fit(
        _with_weights(defaults, weights),
        tuple(WEIGHTS[index] for index in np.flatnonzero(measured).tolist()),
        float(found[-1]),
        estimated,
        estimated / seconds - 1,
        _explained(seconds, estimated),
    )


def _check(units: FloatArray, seconds: FloatArray) -> None:
    if units.ndim != 2 or units.shape != (len(seconds), len(WEIGHTS)):
        raise ValueError(
            f"units of work have shape {units.shape}; {len(seconds)} operations and "
            f"{len(WEIGHTS)} weights need {(len(seconds), len(WEIGHTS))}"
        )
    if len(seconds) == 0:
        raise ValueError("no operation was measured, so there is nothing to fit")
    if not (np.isfinite(units).all() and (units >= 0).all()):
        raise ValueError("units of work must be finite and not negative")
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise ValueError("seconds measured must be finite and positive")


def _explained(seconds: FloatArray, estimated: FloatArray) -> float:
    """Return R^2; of operations that all take the same time, 1 only if they are met exactly."""
    left = float(((seconds - estimated) ** 2).sum())
    spread = float(((seconds - seconds.mean()) ** 2).sum())
    if spread == 0:
        return 1.0 if left == 0 else 0.0
    return 1 - left / spread


def _non_negative_least_squares(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Return the x >= 0 that makes ``|matrix x - target|`` least.

    Columns are scaled to length 1, since units of work differ by ten decades.
    """
    # Loaded here, as every query takes the weights' names from this module and few fit them.
    from scipy.optimize import nnls

    lengths = np.sqrt((matrix**2).sum(axis=0))
    lengths[lengths == 0] = 1.0
    found, _ = nnls(matrix / lengths, target)
    return np.asarray(found / lengths, dtype=np.float64)
