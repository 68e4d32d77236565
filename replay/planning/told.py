"""What a plan is told to read once more is asked than a query that waits could afford."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from chronicle.errors import StorageError
from costmodel.arrays import BoolArray, FloatArray
from costmodel.features import PlanFeatures
from costmodel.lookups import full_costs
from costmodel.plan_cost import Estimate, Estimates, estimate
from replay.language.bound import BoundPatternQuery
from replay.planning.block_ranges import bridge, count_blocks, mask_of, ranges_of
from replay.planning.correction import (
    RATE_MIN,
    Joined,
    bridged,
    corrected_rate,
    lower_share,
    observe,
    rate_of,
    repriced,
    runs,
    upper_share,
)
from replay.planning.intervals import BRIDGE_BLOCKS, covered_blocks, sweep
from replay.planning.narrowing import places_in, rows_of_intervals
from replay.planning.plan import Condition, Plan
from replay.planning.prices import Prices
from replay.planning.safety import LookupSource, find_stretches
from replay.planning.sampler import Sampler
from replay.planning.sampling import Sample, SampleEvents, fits_in_time
from replay.planning.stakes import EVALUATE_S, SAMPLE_S
from replay.planning.statistics import IntArray, StreamStatistics
from replay.planning.weighing import draw_coarse_map, matches_wanted, weigh

TELL_S: Final = 0.1
"""Seconds that telling may take by the weights: who asks for an explanation waits for no answer,
and what comes within a tenth of a second seems to come at once."""

LOOK_EVEN_SHARE: Final = 0.5
"""Share of the draws that is spread evenly: where an estimate is too low nobody expects the blocks
that it misses, and with so many draws none of them stands for more than twice the mean."""

LEAST_OTHERS: Final = 1e-6
"""Blocks that a judged block stands for at least, so that some weight is left."""

PRIOR_TOUCHED: Final = 1.0
"""Touched blocks that what is expected of each counts for, beside those that were found."""


class CountingSource(LookupSource, Protocol):
    """Indexes that count what is read of them."""

    @property
    def n_entries_read(self) -> int:
        """Index entries read so far."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """What a plan reads, as its lookups or a look at many blocks say."""

    estimated: Estimate
    """The estimate, corrected."""
    blocks_min: float
    """Blocks that are read at least, with 95 % confidence."""
    blocks_max: float
    """Blocks that are read at most, with 95 % confidence."""
    n_looked: int
    """Blocks looked at; none where lookups were asked."""
    n_remaining: int
    """Blocks that the coarse pattern map leaves."""
    is_certain: bool
    """Whether intervals were computed on all of these, so that the blocks are counted."""
    is_asked: bool = False
    """Whether the plan's lookups were asked."""
    switched: str | None = None
    """What a query does otherwise than planned, as its lookups say, and why; None: nothing."""


def tell(
    plan: Plan,
    query: BoundPatternQuery,
    statistics: StreamStatistics,
    lookups: CountingSource,
    *,
    is_adaptive: bool,
    tell_s: float = TELL_S,
) -> Told | None:
    """Tell what a chosen plan will read: by its lookups if they are quick, else by a look.

    The plan stays as it is.

    Parameters
    ----------
    plan
        Chosen for the query and the statistics.
    query, statistics
        What it was chosen for.
    lookups
        Answers its lookups.
    is_adaptive
        Whether the query may leave the plan where lookups find it wrong.
    tell_s
        Seconds it may take by the weights of the cost model.

    Returns
    -------
    Told or None
        None where nothing is to be told: plans without lookups read what remains, a LIMIT may end a
        replay anywhere, and what cannot be read is for the query to complain of. Plans whose
        lookups may take longer are told of as far as `look` can.
    """
    if not plan.conditions or plan.finds_nothing or matches_wanted(query) is not None:
        return None
    if max(plan.estimated.index_cost, _most_seconds(plan, statistics)) > tell_s:
        return look(plan, query, statistics, look_s=tell_s)
    try:
        return _ask(plan, query, statistics, lookups, is_adaptive=is_adaptive)
    except StorageError:
        return None


def _most_seconds(plan: Plan, statistics: StreamStatistics) -> float:
    """Return what a plan's lookups take if none leaves windows for the next, by the fences."""
    assert plan.features is not None, "a plan with lookups was weighed"
    share = {known.condition.lookup: known.at_most for known in plan.selectivities}
    asked = list(dict.fromkeys(condition.lookup for condition in plan.conditions))
    n_entries = statistics.n_events * np.array([share.get(lookup, 1.0) for lookup in asked])
    in_order = np.array([ranges.is_one_key for _, ranges in asked])
    costs = full_costs(n_entries, in_order, plan.weights, keyed=plan.features.is_keyed)
    return float(costs.sum())


def _ask(
    plan: Plan,
    query: BoundPatternQuery,
    statistics: StreamStatistics,
    lookups: CountingSource,
    *,
    is_adaptive: bool,
) -> Told:
    """Tell what a plan reads by carrying its lookups out, as the query will."""
    assert plan.features is not None, "a plan with lookups was weighed"
    settled = find_stretches(plan, query, statistics, lookups, is_adaptive=is_adaptive)
    found, before = settled.stretches, plan.estimated
    n_blocks = float(count_blocks(found.blocks))
    prices = Prices.of(plan.features, plan.weights)
    cost = before.index_cost + prices.cost(found.blocks, statistics.leaves.base)
    estimated = replace(
        before,
        cost=cost,
        blocks=n_blocks,
        entries=float(lookups.n_entries_read),
        # Events inside intervals are not counted, but those of the blocks read.
        alpha=found.n_events_covered / max(statistics.n_events, 1),
        candidates=float(found.n_candidates),
        stretches=float(len(found.blocks)),
    )
    # Where neighbours in partitions are looked at, more is read beside the stretches.
    has_beside = plan.features.beside_blocks > 0.0
    return Told(
        estimated,
        n_blocks,
        float(plan.n_blocks) if has_beside else n_blocks,
        0,
        count_blocks(plan.stretches),
        is_certain=not has_beside,
        is_asked=True,
        switched=settled.switched,
    )


def look(
    plan: Plan, query: BoundPatternQuery, statistics: StreamStatistics, *, look_s: float = TELL_S
) -> Told | None:
    """Tell what a chosen plan will read, from a sample larger than those plans are chosen by.

    The plan stays as it is.

    Parameters
    ----------
    plan
        Chosen for the query and the statistics.
    query, statistics
        What it was chosen for.
    look_s
        Seconds it may take by the weights of the cost model.

    Returns
    -------
    Told or None
        None where nothing is to be told: plans without lookups read what remains; a LIMIT may end
        a replay anywhere; a plan for a part of the stream is estimated part by part; and
        conditions on what is no column, such as ``delta(x)``, are not seen.

    Notes
    -----
    What is judged is known; for the other blocks stands what was judged, in proportion to the
    blocks each drawn one stands for besides itself, corrected as in `correct`. Where all blocks are
    looked at, that is the interval computation of the engine on the whole stream. Not in the
    thesis.
    """
    bounded = query.within is not None or plan.shape.row_window is not None
    on_positions = any(not condition.fills_gap for condition in plan.conditions)
    if plan.part is not None or not on_positions or len(plan.stretches) == 0 or not bounded:
        return None
    if matches_wanted(query) is not None:
        return None
    coarse = draw_coarse_map(query, plan.shape, statistics)
    weighed = weigh(query, plan.shape, statistics, coarse, asked=plan.conditions)
    sampler = Sampler(query, plan.shape, statistics, coarse, weighed, plan.weights)
    price = sampler.block_cost(plan.conditions) + EVALUATE_S
    sample = _drawn(sampler, plan.conditions, int((look_s - SAMPLE_S) / price))
    events = None if sample is None else sampler.read(sample, plan.conditions)
    if events is None or not events.tells(plan.conditions):
        return None
    features, row = weighed.as_features(plan.conditions)
    estimates = estimate(features, row[None, :], plan.weights)
    found = _Found.of(events, plan.conditions)
    return _Look(events.sample, found, estimates, features, plan, statistics.n_blocks).told()


def _drawn(sampler: Sampler, plan: tuple[Condition, ...], n_blocks: int) -> Sample | None:
    """Draw so many blocks; all that remain where these are no more."""
    everything = Sample.of_all(sampler.coarse.stretches)
    if everything.n_remaining > n_blocks:
        return sampler.draw(plan, n_blocks, even_share=LOOK_EVEN_SHARE)
    fits = fits_in_time(everything, sampler.statistics.leaves, sampler.query.within)
    return everything if fits else None


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What a plan's intervals come to in each judged block of a sample; shapes (n_judged,)."""

    touched: BoolArray
    candidates: FloatArray
    """Candidates that begin there."""
    covered: FloatArray
    """Events inside intervals."""
    place: IntArray

    @classmethod
    def of(cls, events: SampleEvents, conditions: tuple[Condition, ...]) -> _Found:
        """Compute the intervals as the engine would."""
        place = events.place[events.is_core]
        hits, fills = Joined(events).hits(conditions)
        intervals = sweep(hits, fills, events.shape, events.query, events)
        if intervals.n == 0:
            nothing = np.zeros(len(place))
            return cls(nothing.astype(np.bool_), nothing, nothing, place)
        touched = covered_blocks(intervals, events.leaves)
        # Blocks that share the time of a rim may be taken for each other: a candidate in hundreds.
        begins = np.searchsorted(events.leaves.t_max, intervals.t_seen[0], side="left")
        candidates = np.bincount(begins, minlength=events.n_blocks).astype(np.float64)
        seq = events.everything.seq
        inside = seq[places_in(seq, rows_of_intervals(intervals, events, [events.everything]))]
        block = np.searchsorted(events.leaves.base, inside, side="right") - 1
        covered = np.bincount(block, minlength=events.n_blocks).astype(np.float64)
        core = events.is_core
        return cls(touched[core], candidates[core], covered[core], place)


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """A sample of the blocks that remain, what was found, and what was expected of one plan."""

    sample: Sample
    found: _Found
    estimates: Estimates
    features: PlanFeatures
    plan: Plan
    n_blocks: int
    """Blocks of the stream."""

    def told(self) -> Told:
        """Return what was found together with what is expected of the blocks not judged."""
        if self.n_rest == 0:
            expected = least = most = self._as_found()
        else:
            expected, least, most = (self._with_share(share) for share in self._shares())
        # Entries are read whatever their events touch.
        told = replace(self._counted(expected).of(0), entries=self.plan.estimated.entries)
        return Told(
            told,
            float(np.minimum(least.blocks, told.blocks)[0]),
            float(np.maximum(most.blocks, told.blocks)[0]),
            len(self.sample.blocks),
            self.sample.n_remaining,
            is_certain=self.n_rest == 0,
        )

    @property
    def n_rest(self) -> int:
        """Blocks that remain and were not judged."""
        return self.sample.n_remaining - self.sample.n_judged

    @property
    def n_touched(self) -> int:
        """Judged blocks that intervals touch."""
        return int(self.found.touched.sum())

    @property
    def _before(self) -> FloatArray:
        return np.minimum(self.estimates.touched / self.sample.n_remaining, 1.0)

    @property
    def _others(self) -> FloatArray:
        """Blocks that each judged block stands for besides itself."""
        return np.maximum(self.sample.weight[self.found.place] - 1.0, LEAST_OTHERS)

    def _shares(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the share of blocks touched, of those not judged: expected, at least, at most."""
        estimates = self.estimates
        seen = observe(self.found.touched[None, :], self._others, self.found.place)
        span = np.maximum(estimates.touched, 1.0) / np.maximum(estimates.candidates, 1.0)
        expected = -np.expm1(-corrected_rate(rate_of(self._before), seen, span))
        return expected, lower_share(seen), upper_share(seen)

    def _searches(self, share: FloatArray) -> FloatArray:
        """Return the share of further steps, for another share of the remaining blocks touched."""
        if self._n_lookups == 1:
            return self.estimates.searches
        factor = rate_of(share) / np.maximum(rate_of(self._before), RATE_MIN)
        return np.minimum(self.estimates.searches * factor, 1.0)

    @property
    def _n_lookups(self) -> int:
        return len({condition.lookup for condition in self.plan.conditions})

    def _with_share(self, of_rest: FloatArray) -> Estimates:
        """Return the estimates where this share of the blocks not judged is touched."""
        share = (self.n_touched + self.n_rest * of_rest) / self.sample.n_remaining
        n, gap = self.sample.n_remaining, self.features.bridge_blocks
        behind = self._behind(share)
        return self._at(n * bridged(share, gap, behind), n * runs(share, gap, behind), n * share)

    def _behind(self, share: FloatArray) -> FloatArray:
        """Return the share of the touched blocks behind which the next one is touched as well."""
        touched, place = self.found.touched, self.found.place
        is_next = (place[1:] == place[:-1]) & touched[:-1]
        n_both = np.count_nonzero(is_next & touched[1:])
        n = np.count_nonzero(is_next)
        return np.asarray((n_both + PRIOR_TOUCHED * share) / (n + PRIOR_TOUCHED))

    def _as_found(self) -> Estimates:
        """Return the estimates where all blocks were judged."""
        judged = np.flatnonzero(mask_of(self.sample.core, self.n_blocks))
        touched = np.zeros(self.n_blocks, dtype=np.bool_)
        touched[judged[self.found.touched]] = True
        read = bridge(ranges_of(touched), BRIDGE_BLOCKS)
        return self._at(
            np.array([float(count_blocks(read))]),
            np.array([float(len(read))]),
            np.array([float(self.n_touched)]),
        )

    def _at(self, blocks: FloatArray, stretches: FloatArray, touched: FloatArray) -> Estimates:
        """Return the estimates where these are the blocks read, at what they cost."""
        n_remaining = self.sample.n_remaining
        searches = self._searches(touched / n_remaining)
        now = replace(
            self.estimates, blocks=blocks, stretches=stretches, touched=touched, searches=searches
        )
        return repriced(now, self.estimates, n_remaining, self.features, self.plan.weights)

    def _counted(self, now: Estimates) -> Estimates:
        """Return the estimates with the candidates, and the events in intervals, that follow.

        What one lookup finds is known from fences, whatever its events touch.
        """
        n_rest_touched = np.maximum(now.touched - self.n_touched, 0.0)
        n_events = self.features.n_events
        candidates = self._in_total(
            self.found.candidates, self.estimates.candidates, n_rest_touched
        )
        if self._n_lookups == 1 and self.n_rest:
            candidates = np.maximum(self.estimates.candidates, self.found.candidates.sum())
        events = self._in_total(self.found.covered, self.estimates.alpha * n_events, n_rest_touched)
        alpha = np.minimum(events / max(n_events, 1), 1.0)
        return replace(now, candidates=candidates, alpha=alpha)

    def _in_total(
        self, found: FloatArray, expected: FloatArray, n_rest_touched: FloatArray
    ) -> FloatArray:
        """Return what there is in all blocks, of which so much was found in each judged one.

        In those not judged as much for each block touched as in those that were.
        """
        weight = self._others * self.found.touched
        by_estimate = expected / np.maximum(self.estimates.touched, RATE_MIN)
        by_find = float(weight @ found) / max(float(weight.sum()), RATE_MIN)
        n = float(self.n_touched)
        each = (n * by_find + PRIOR_TOUCHED * by_estimate) / (n + PRIOR_TOUCHED)
        return np.asarray(found.sum() + n_rest_touched * each)
