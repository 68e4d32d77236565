"""What is at stake between plans: whether a sample of the events is worth what it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
from costmodel.choice import GUARD_SECONDS, GUARD_SHARE, LOSS_SECONDS, LOSS_SHARE
from costmodel.plan_cost import Estimates
from replay.planning.plan import Lookup
from replay.planning.sampling import BUCKETS_MIN, CORE_BLOCKS

ERRORS: Final = (1.0, 5.0, 0.2, 1e-3)
"""What estimates of coverage may be off by: the thesis reports errors of up to a factor of five,
where symbols are correlated; and conditions that hardly ever hold together leave next to nothing
where by chance they would leave everything."""

ERROR_WEIGHTS: Final = (0.75, 0.1, 0.1, 0.05)
"""How likely each is, as in the correction (`correction.PRIOR_WEIGHTS`)."""

SAMPLE_S_MAX: Final = 8e-3
"""Seconds a sample never exceeds, however much is at stake."""

SAMPLE_SHARE: Final = 0.1
"""Share of the best plan's estimated cost that a sample may take at most."""

SPENT_SHARE: Final = 0.3
"""Share of the expected gain that may be spent on the sample that is to bring it."""

SAMPLE_S: Final = 2e-3
"""Seconds to draw a sample and to compute intervals on it, however few blocks it has."""

EVALUATE_S: Final = 30e-6
"""Seconds to evaluate conditions on one block, apart from reading it."""

PLACES_FEW: Final = 6
"""Places that are not saved on where the budget has room for them. Blocks of one place are much
alike: two places tell little, and what tells little leaves the choice as it was. Over the ticks it
was up to four times dearer, by what was read, and 4 % in all."""

NO_HIT_RATE: Final = 3.0
"""Hits per place that are not excluded with 95 % confidence by one place that has none; by n of
them, an n-th of it (as in `correction.upper_share`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Stakes:
    """Plans with their estimates, and what would be done if nothing more were known."""

    estimates: Estimates
    lookups: Sequence[AbstractSet[Lookup]]
    """What each plan asks of indexes."""
    full_cost: float
    """Seconds of a full replay."""
    margin: float
    """Share of it below which a plan must stay."""
    taken: int
    """The cheapest plan that is no risk, as things stand; the full replay is behind the last."""
    n_remaining: float
    """Blocks that the coarse pattern map leaves."""

    @property
    def best(self) -> int | None:
        """The cheapest plan with lookups, the one a sample is drawn for."""
        cost = self.estimates.cost
        with_indexes = [at for at, asked in enumerate(self.lookups) if asked]
        return min(with_indexes, key=lambda at: float(cost[at]), default=None)


def blocks_worth_sampling(stakes: Stakes, block_s: float, place_blocks: int) -> int:
    """Return how many blocks should be read to correct the estimates; 0 if none.

    Pure. A sample is worth it where knowing better is expected to save more than it takes:

    - The estimates of what intervals cover may be right, or five times too low or too high
      (`ERRORS`); lookups cost what they cost. Plans err alike as far as they share lookups. The
      best plan of those with more lookups may err besides: fences tell how much each lookup finds,
      but nothing how often what it adds holds together with the others.
    - For each error, what the plan taken as things stand would take is compared with what the plan
      would take that is chosen where the error is known; this is lost without a sample. Where the
      estimates are right that is what caution costs: a plan is barred as a risk, and a sample
      without a hit would show that it is none.
    - An error is only seen if enough blocks differ from what was expected of them: with k blocks
      less or more among those read, with probability ``1 - exp(-k)``.

    So nothing is read where the best plan is no risk and others would hardly be better even if it
    were wrong, nor where the sample could not tell. Else as much is read as a part of the gain
    pays for and at least `PLACES_FEW` places, within the budget.

    Parameters
    ----------
    stakes
        What is to be decided.
    block_s
        Seconds to read one block of a sample.
    place_blocks
        Blocks of a place: those judged, and on each side as many as a window reaches.

    Notes
    -----
    Expected value of sample information (Raiffa and Schlaifer, Applied Statistical Decision Theory,
    1961), over three states. Not in the thesis.
    """
    best = stakes.best
    if best is None:
        return 0
    price = block_s + EVALUATE_S
    allowed_s = min(SAMPLE_S_MAX, SAMPLE_SHARE * float(stakes.estimates.cost[best]))
    n_max = int((allowed_s - SAMPLE_S) / price)
    n_min, judged = BUCKETS_MIN * place_blocks, CORE_BLOCKS / place_blocks
    if n_max < n_min:
        return 0
    n_few = min(PLACES_FEW * place_blocks, n_max)
    n_paid = int((SPENT_SHARE * expected_gain(stakes, n_few * judged) - SAMPLE_S) / price)
    for n in (min(max(n_paid, n_few), n_max), n_max):
        if expected_gain(stakes, n * judged) > SAMPLE_S + n * price:
            return n
    return 0


def promising(cost: FloatArray, n_lookups: Sequence[int], n: int) -> list[int]:
    """Return the plans, at most ``n``, that a sample may show to be the best, cheapest first.

    Parameters
    ----------
    cost
        Seconds of each plan, as things stand.
    n_lookups
        Lookups of each plan; one of them has none.
    n
        At least 1.

    Returns
    -------
    list of int
        The plan without lookups; the two cheapest; then of each number of lookups the cheapest, as
        those of one number tend to err alike; then others, all by cost.

    Examples
    --------
    >>> import numpy as np
    >>> promising(np.array([9.0, 1.0, 2.0, 3.0, 4.0]), [0, 1, 1, 1, 2], 4)
    [1, 2, 4, 0]
    """
    order = np.argsort(cost, kind="stable").tolist()
    cheapest = {n_lookups[i]: i for i in reversed(order)}
    of_size = sorted(cheapest.values(), key=order.index)
    kept = list(dict.fromkeys((cheapest[0], *order[:2], *of_size, *order)))[:n]
    return sorted(kept, key=order.index)


def expected_gain(stakes: Stakes, n_blocks: float) -> float:
    """Return the seconds a sample of so many judged blocks is expected to save, its price apart.

    It grows with the sample.
    """
    best = stakes.best
    if best is None:
        return 0.0
    lookups = stakes.lookups
    gain_s = _gain(stakes, best, _overlaps(lookups, best), n_blocks, ERRORS)
    n_best = len(lookups[best])
    longer = [at for at, asked in enumerate(lookups) if len(asked) > n_best]
    if not longer:
        return gain_s
    together = min(longer, key=lambda at: float(stakes.estimates.cost[at]))
    alike = _overlaps(lookups, together)
    alike[[len(asked) <= n_best for asked in lookups]] = 0.0
    return gain_s + _gain(stakes, together, alike, n_blocks, ERRORS[1:])


def _gain(
    stakes: Stakes, doubted: int, alike: FloatArray, n_blocks: float, errors: Sequence[float]
) -> float:
    """Return the seconds saved by knowing how far the estimate of one plan errs.

    Parameters
    ----------
    doubted
        The plan.
    alike
        How far each plan errs as it does, 0 to 1, shape (n_plans,).
    errors
        The last of `ERRORS`.
    """
    share = np.minimum(stakes.estimates.touched / max(stakes.n_remaining, 1.0), 1.0)
    is_safe = _safe(stakes, n_blocks)
    gain_s = 0.0
    for error, weight in zip(errors, ERROR_WEIGHTS[-len(errors) :], strict=True):
        cost = _costs(stakes, share, error**alike)
        ready = cost[:-1][is_safe & (cost[:-1] < stakes.margin * stakes.full_cost)]
        known = min(float(ready.min(initial=stakes.full_cost)), stakes.full_cost)
        differs = abs(float(_times(share[doubted : doubted + 1], error)[0] - share[doubted]))
        told = 1.0 if error == 1.0 else -math.expm1(-differs * n_blocks)
        gain_s += weight * told * max(float(cost[stakes.taken]) - known, 0.0)
    return gain_s


def _safe(stakes: Stakes, n_blocks: float) -> BoolArray:
    """Return which plans `choose` would not bar after a sample of so many blocks without a hit."""
    index_cost, full = stakes.estimates.index_cost, stakes.full_cost
    upper = -math.expm1(-NO_HIT_RATE * CORE_BLOCKS / n_blocks)
    bounded = index_cost + upper * full <= LOSS_SHARE * full + LOSS_SECONDS
    return np.asarray(bounded | (index_cost <= GUARD_SHARE * full + GUARD_SECONDS))


def _overlaps(lookups: Sequence[AbstractSet[Lookup]], best: int) -> FloatArray:
    """Return the share of lookups that each plan has in common with the best."""
    of_best = lookups[best]
    return np.array([len(asked & of_best) / max(len(asked | of_best), 1) for asked in lookups])


def _times(share: FloatArray, factor: FloatArray | float) -> FloatArray:
    """Return the shares of blocks touched with ``factor`` times the intervals, which may meet."""
    return np.asarray(-np.expm1(factor * np.log1p(-np.minimum(share, 1.0 - 1e-12))))


def _costs(stakes: Stakes, share: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the seconds of the plans with ``factor`` times the intervals, then the full replay.

    No replay exceeds that of all blocks: what a plan falls back to.
    """
    estimates = stakes.estimates
    scale = _times(share, factor) / np.maximum(share, 1e-12)
    replay = (estimates.cost - estimates.index_cost) * scale
    replay = np.minimum(replay, np.maximum(stakes.full_cost, estimates.cost - estimates.index_cost))
    return np.append(estimates.index_cost + replay, stakes.full_cost)
