"""Correction of estimates by a sample: what the interval computation finds on a few blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimates, matching_cost
from replay.planning.hits import BlockHits, by_place, join_block
from replay.planning.intervals import fills_of, touched_by
from replay.planning.plan import Condition
from replay.planning.sampling import Sample, SampleEvents

PRIOR_SHAPES: Final = (64.0, 4.0, 0.5, 0.5)
"""Hits that each prior counts for: the estimate is right; it is about right; it errs by a large
factor; it says nothing."""

PRIOR_WEIGHTS: Final = (0.65, 0.15, 0.15, 0.05)
"""How likely each is before the sample is looked at."""

IGNORANT_BLOCKS: Final = 1.0
"""Blocks among which the last prior has its half hit, whatever the estimate."""

CONFIDENCE_Z: Final = 1.6448536
"""Normal quantile of 95 %, one-sided."""

RATE_MIN: Final = 1e-12
"""Hits per block below which an estimate is as good as none."""


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Estimates after a look at the sample; arrays of shape (n_plans,)."""

    sample: Sample
    estimates: Estimates
    """``cost``, ``blocks``, ``alpha``, ``candidates`` and ``stretches`` corrected."""
    pessimistic_cost: FloatArray
    """Seconds with as many blocks as ``blocks_max``."""
    blocks_before: FloatArray
    """Blocks as estimated without the sample."""
    blocks_max: FloatArray
    """Blocks that are not exceeded with 95 % confidence; all that remain where the sample does not
    tell a plan's conditions."""
    expected: FloatArray
    """Of the sampled blocks, those that were expected to be touched by an interval."""
    found: FloatArray
    """Of the sampled blocks, those that were, weighted as they were drawn."""
    is_told: BoolArray
    """Whether the sample tells the plan's conditions."""

    def sentence(self, plan: int) -> str | None:
        """Return what the sample says of a plan; None where it says nothing."""
        if not self.is_told[plan]:
            return None
        judged = int((self.sample.core[:, 1] - self.sample.core[:, 0]).sum())
        return (
            f"from {len(self.sample.blocks)} of {self.sample.n_remaining:,} blocks: of {judged} "
            f"judged, {self.expected[plan]:.1f} expected in intervals, {self.found[plan]:.1f} "
            f"found; {self.blocks_before[plan]:,.0f} blocks corrected to "
            f"{self.estimates.blocks[plan]:,.0f}, at most {self.blocks_max[plan]:,.0f} (95 %)"
        )


def correct(
    events: SampleEvents,
    plans: Sequence[tuple[Condition, ...]],
    estimates: Estimates,
    features: PlanFeatures,
    parameters: CostParameters,
) -> Correction:
    """Compute the plans' intervals on the sample and correct their estimates by what it shows.

    Pure.

    Parameters
    ----------
    events
        The sample as `evaluate` found it.
    plans
        Conditions of each plan; none at all (the tree plan) has nothing to correct.
    estimates
        Of the same plans, in that order.
    features, parameters
        What the estimates were made of.

    Notes
    -----
    Hits, intervals per block, are what is corrected, since blocks touched saturate: a share s of
    touched blocks has ``-log(1 - s)``. The posterior of their rate mixes four Gamma priors: three
    of the estimate's rate, with so many hits that little changes on data that is as the model
    takes it, with few, and with half a hit for data that is correlated; and one of no particular
    rate. Hits that come together are counted once: their number is divided by how much more
    places differ than independent blocks would. The upper bound does not rest on the estimate: it
    is that of a Poisson count, with each place as one observation. Not in the thesis, which takes
    symbols as independent and reports errors up to a factor 5.
    """
    touched, is_told = touched_blocks(events, plans)
    n_remaining = float(events.sample.n_remaining)
    before = np.minimum(estimates.touched / n_remaining, 1.0)
    place = events.place[events.is_core]
    seen = observe(touched, events.sample.weight[place], place)
    span = np.maximum(estimates.touched, 1.0) / np.maximum(estimates.candidates, 1.0)
    rate = np.where(is_told, corrected_rate(rate_of(before), seen, span), rate_of(before))
    after = np.where(is_told, -np.expm1(-rate), before)
    is_tree = np.array([len(plan) == 0 for plan in plans])
    most = np.where(is_told, np.maximum(upper_share(seen), after), np.where(is_tree, before, 1.0))
    n_lookups = np.array([len({condition.lookup for condition in plan}) for plan in plans])
    # What one lookup finds is known from fences, whatever its events touch.
    factor = np.where(n_lookups > 1, rate / np.maximum(rate_of(before), RATE_MIN), 1.0)
    searches = np.minimum(estimates.searches * factor, 1.0)
    corrected = _with_touched(estimates, before, after, searches, n_remaining, features, parameters)
    searches = np.maximum(searches, estimates.searches)
    # What is touched besides may be matched to the last row.
    whole = replace(features, cuts_rows=False)
    worst = _with_touched(estimates, before, most, searches, n_remaining, whole, parameters)
    return Correction(
        events.sample,
        _with_hits(corrected, rate / np.maximum(rate_of(before), RATE_MIN), n_lookups, features),
        np.maximum(worst.cost, corrected.cost),  # of more blocks there may be fewer stretches
        estimates.blocks,
        np.ceil(worst.blocks),
        before * len(place),
        seen.share * len(place),
        is_told,
    )


def touched_blocks(
    events: SampleEvents, plans: Sequence[tuple[Condition, ...]]
) -> tuple[BoolArray, BoolArray]:
    """Return which judged blocks each plan's intervals touch, and of which plans that is known.

    Returns
    -------
    tuple of ndarray of bool
        Shapes (n_plans, n_judged) and (n_plans,). Blocks between two stretches that would be read
        through do not count.
    """
    touched = np.zeros((len(plans), int(np.count_nonzero(events.is_core))), dtype=np.bool_)
    is_told = np.zeros(len(plans), dtype=np.bool_)
    joined = Joined(events)
    for row, conditions in enumerate(plans):
        if conditions and events.tells(conditions):
            is_told[row] = True
            touched[row] = joined.touched(conditions)[events.is_core]
    return touched, is_told


class Joined:
    """What basic blocks are joined to on the sample, once for all plans that share it."""

    def __init__(self, events: SampleEvents) -> None:
        self._events = events
        self._hits: dict[tuple[bool, tuple[Condition, ...]], BlockHits] = {}
        # The blocks between places hold no occurrence, so there is nothing to clip.
        self._everything = np.array([[0, events.n_events]])

    def touched(self, conditions: tuple[Condition, ...]) -> BoolArray:
        """Return the blocks that a plan's intervals touch, as `replay_stretches` has them."""
        events = self._events
        if all(condition.fills_gap for condition in conditions):
            return np.ones(events.n_blocks, dtype=np.bool_)
        return touched_by(*self.hits(conditions), events.shape, events.query, events)

    def hits(
        self, conditions: tuple[Condition, ...]
    ) -> tuple[list[BlockHits], dict[int, IntArray]]:
        """Return the hits of a plan's basic blocks and what its gaps hold, as `sweep` takes them.

        At least one of the conditions bounds an event of a position.
        """
        events, shape = self._events, self._events.shape
        on_positions = [condition for condition in conditions if not condition.fills_gap]
        given = events.found_by(conditions)
        with_keys = given[on_positions[0].slot].keys is not None
        hits = []
        for block in shape.blocks:
            chosen = tuple(c for c in on_positions if block[0] <= c.position < block[1])
            if chosen and (with_keys, chosen) not in self._hits:
                found = by_place(chosen, given, self._everything)
                self._hits[with_keys, chosen] = join_block(
                    block, found, events.n_events, len(shape.positions)
                )
            if chosen:
                hits.append(self._hits[with_keys, chosen])
        gaps = [condition for condition in conditions if condition.fills_gap]
        filling = by_place(gaps, given, self._everything)
        return hits, fills_of(filling)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a sample shows of some plans."""

    share: FloatArray
    """Share of all blocks touched, as the sample estimates it, shape (n_plans,)."""
    exposure: FloatArray
    """Blocks drawn with equal weights that would tell as much of the share, shape (n_plans,): more
    than there are where those touched stand for few others, as draws follow expectation."""
    n_places: float
    """Places drawn with equal weights that would tell as much of all blocks."""
    n_together: float
    """Blocks of a place."""
    clumping: FloatArray
    """How many times more places differ than independent blocks would, at least 1 and at most the
    blocks of a place, shape (n_plans,)."""


def observe(touched: BoolArray, weight: FloatArray, place: IntArray) -> Seen:
    """Return the share of touched blocks and how much it can be relied on.

    Parameters
    ----------
    touched
        Shape (n_plans, n_judged).
    weight
        Of each judged block, positive, shape (n_judged,).
    place
        Of each judged block, ascending from 0, shape (n_judged,).
    """
    total = weight.sum()
    of_place = np.bincount(place, weights=weight)
    share = touched @ weight / total
    member = place[:, None] == np.arange(len(of_place))
    by_place = (touched * weight) @ member / of_place
    squares = touched @ weight**2
    evenly = np.full(len(share), total**2 / (weight**2).sum())
    exposure = np.divide(share * total**2, squares, out=evenly, where=squares > 0)
    n_places = float(total**2 / (of_place**2).sum())
    n_together = len(place) / len(of_place)
    # Variance of the share between places, against that of independent blocks.
    spread = ((by_place - share[:, None]) ** 2) @ (of_place / total) ** 2
    spread *= len(of_place) / max(len(of_place) - 1, 1)
    even = share * (1 - share) / exposure
    clumping = np.divide(spread, even, out=np.ones(len(share)), where=even > 0)
    # A variance told from few places is often too large by so much; only what exceeds it counts.
    clumping /= 1 + math.sqrt(2 / max(len(of_place) - 1, 1))
    return Seen(share, exposure, n_places, n_together, np.clip(clumping, 1.0, n_together))


def corrected_rate(expected: FloatArray, seen: Seen, span: FloatArray) -> FloatArray:
    """Return the posterior mean of the hits per block.

    Parameters
    ----------
    expected
        Hits per block by estimate, shape (n_plans,).
    seen
        What the sample shows.
    span
        Blocks that one candidate is expected to touch: those are hit together, shape (n_plans,).
    """
    exposure = seen.exposure / np.clip(span, seen.clumping, seen.n_together)
    cap = np.log(2 * (exposure + 1))
    prior = np.maximum(np.minimum(expected, cap), RATE_MIN)
    hits = exposure * np.minimum(rate_of(seen.share), cap)
    shapes = np.array(PRIOR_SHAPES)[:, None]
    prior_exposure = shapes / prior
    prior_exposure[-1] = IGNORANT_BLOCKS
    total = prior_exposure + exposure
    # Negative binomial likelihood of the hits under each prior, factors common to all left out.
    log_weight = (
        np.log(PRIOR_WEIGHTS)[:, None]
        + _log_gamma(shapes + hits)
        - _log_gamma(shapes)
        + shapes * np.log(prior_exposure / total)
        - hits * np.log(total / exposure)
    )
    weight = np.exp(log_weight - log_weight.max(axis=0))
    rate = (weight * (shapes + hits) / total).sum(axis=0) / weight.sum(axis=0)
    # A sample that is touched throughout does not say how many times over.
    is_full = (seen.share >= 1.0) | (expected > cap) & (rate >= prior)
    return np.asarray(np.where(is_full, np.maximum(rate, expected), rate))


def upper_share(seen: Seen) -> FloatArray:
    """Return the share of touched blocks that is not exceeded with 95 % confidence.

    Gamma posterior of a Poisson count under a flat prior (Garwood's upper limit), each place one
    observation. The Gamma quantile is Wilson and Hilferty's, within 1 % from shape 1 on.
    """
    upper = _share_at(_hit_places(seen) + 1.0, CONFIDENCE_Z, seen)
    return np.asarray(np.where(seen.share >= 1.0, 1.0, upper))


def lower_share(seen: Seen) -> FloatArray:
    """Return the share of touched blocks that is reached with 95 % confidence.

    Garwood's lower limit, as the upper one in `upper_share`.
    """
    places = _hit_places(seen)
    lower = _share_at(np.maximum(places, 1.0), -CONFIDENCE_Z, seen)
    # Of less than one hit: that of one, in proportion.
    return np.asarray(lower * np.minimum(places, 1.0))


def _hit_places(seen: Seen) -> FloatArray:
    cap = math.log(2 * (seen.n_places + 1))
    return np.asarray(seen.n_places * np.minimum(rate_of(seen.share), cap))


def _share_at(shape: FloatArray, z: float, seen: Seen) -> FloatArray:
    """Return the share of which a Gamma quantile of this shape is the number of places hit."""
    root = 1 - 1 / (9 * shape) + z / (3 * np.sqrt(shape))
    return np.asarray(-np.expm1(-shape * root**3 / seen.n_places))


def bridged(share: FloatArray, n_blocks_max: int, behind: FloatArray | None = None) -> FloatArray:
    """Return the share of blocks read where up to ``n_blocks_max`` between two are read too.

    Parameters
    ----------
    share
        Share of the blocks touched.
    n_blocks_max
        Blocks between two that are read through.
    behind
        Share of the touched blocks behind which the next one is touched; None: they lie at random,
        and it is ``share`` as well.

    Notes
    -----
    Blocks as a Markov chain: a gap of k has probability ``share (1 - behind) (1 - begun)**(k - 1)
    begun``, where a block that is not touched is followed by a touched one with ``begun``.
    """
    behind, begun = _chances(share, behind)
    one = share * (1.0 - behind) * begun
    gaps = sum(
        (k * (1.0 - begun) ** (k - 1) for k in range(1, n_blocks_max + 1)), np.zeros(len(share))
    )
    return np.asarray(np.minimum(share + one * gaps, 1.0))


def _chances(share: FloatArray, behind: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return how likely a touched block comes behind a touched one, and behind another."""
    if behind is None:
        return share, share
    begun = share * (1.0 - behind) / np.maximum(1.0 - share, RATE_MIN)
    return behind, np.minimum(begun, 1.0)


def rate_of(share: FloatArray) -> FloatArray:
    """Return the hits per block that touch this share of the blocks, where they lie at random."""
    return np.asarray(-np.log1p(-np.minimum(share, 1.0 - 1e-15)))


def _log_gamma(values: FloatArray) -> FloatArray:
    return np.array([math.lgamma(v) for v in values.ravel().tolist()]).reshape(values.shape)


def runs(share: FloatArray, n_blocks_max: int, behind: FloatArray | None = None) -> FloatArray:
    """Return the stretches per block: touched ones with too wide a gap behind; as in `bridged`."""
    behind, begun = _chances(share, behind)
    return np.asarray(share * (1 - behind) * (1 - begun) ** n_blocks_max)


def _with_touched(
    estimates: Estimates,
    before: FloatArray,
    after: FloatArray,
    searches: FloatArray,
    n_remaining: float,
    features: PlanFeatures,
    parameters: CostParameters,
) -> Estimates:
    """Return the estimates with another share of blocks touched and of searches, and what follows.

    Differences are added, so that where nothing is known better nothing changes.
    """
    gap = features.bridge_blocks
    touched = estimates.touched + n_remaining * (after - before)
    blocks = estimates.blocks + n_remaining * (bridged(after, gap) - bridged(before, gap))
    blocks = np.clip(blocks, touched, np.maximum(n_remaining, estimates.blocks))
    stretches = estimates.stretches + n_remaining * (runs(after, gap) - runs(before, gap))
    stretches = np.clip(stretches, np.minimum(blocks, 1.0), np.maximum(blocks, estimates.stretches))
    now = replace(estimates, blocks=blocks, stretches=stretches, touched=touched, searches=searches)
    return repriced(now, estimates, n_remaining, features, parameters)


def repriced(
    now: Estimates,
    was: Estimates,
    n_remaining: float,
    features: PlanFeatures,
    parameters: CostParameters,
) -> Estimates:
    """Return estimates at what their blocks, stretches and searches cost, told what others cost.

    Rows in intervals are taken to be as many for each block touched as they were.
    """
    further_s = parameters.match_s * float(features.further_steps.sum())
    per_block = features.remaining_events / max(features.remaining_blocks, 1.0)
    block_s = parameters.block_s + parameters.value_s * features.n_columns * per_block
    cost = was.cost + (now.blocks - was.blocks) * block_s
    cost = cost + (now.stretches - was.stretches) * parameters.seek_s
    matched_now, matched_then = now.blocks / n_remaining, was.blocks / n_remaining
    if features.cuts_rows:
        inside = was.alpha * features.n_events / max(features.remaining_events, 1.0)
        grown = now.touched / np.maximum(was.touched, RATE_MIN)
        matched_now = np.minimum(inside * grown, matched_now)
        matched_then = np.minimum(inside, matched_then)
    matched_s = matching_cost(features, parameters) * per_block * n_remaining
    cost = cost + (matched_now - matched_then) * matched_s
    open_now = np.maximum(now.searches, np.minimum(matched_now, 1.0))
    open_then = np.maximum(was.searches, np.minimum(matched_then, 1.0))
    cost = cost + (open_now - open_then) * further_s
    return replace(now, cost=np.maximum(cost, was.index_cost))


def _with_hits(
    estimates: Estimates, factor: FloatArray, n_lookups: IntArray, features: PlanFeatures
) -> Estimates:
    """Return the estimates with ``factor`` times the candidates, and the coverage they have.

    What one lookup finds is known from fences: if it covers less than expected, it is because its
    events come together.
    """
    scale = features.remaining_events / max(features.n_events, 1)
    inside = np.minimum(estimates.alpha / max(scale, RATE_MIN), 1.0)
    alpha = -np.expm1(-rate_of(inside) * factor) * scale
    return replace(
        estimates,
        alpha=np.where(factor == 1.0, estimates.alpha, alpha),
        candidates=estimates.candidates * np.where(n_lookups > 1, factor, 1.0),
    )
