"""Choosing a plan: a bound query and statistics in, a plan with its reasons out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.choice import Choice, choose
from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate, Estimates, estimate, estimate_full
from costmodel.selection import Strategy, select, shortlist
from replay.errors import PlanError
from replay.language.bound import BoundPatternQuery
from replay.planning.block_ranges import all_blocks, count_blocks, no_blocks
from replay.planning.coarse_map import coarsest_level
from replay.planning.correction import Correction, correct
from replay.planning.deltas import usable_deltas
from replay.planning.parts import Parting
from replay.planning.plan import Condition, Plan, PlanKind, Rival, plan_name
from replay.planning.requests import check_request, requested_conditions, why_only_full
from replay.planning.sampler import Sampler
from replay.planning.shape import PatternShape, to_shape
from replay.planning.stakes import Stakes, blocks_worth_sampling, promising
from replay.planning.statistics import StreamStatistics
from replay.planning.weighing import (
    CoarseMap,
    Weighed,
    draw_coarse_map,
    matches_wanted,
    weigh,
    weigh_full,
)

SHORTLIST: Final = 16
"""Plans that are looked at closely, of all that the search for the best one estimates."""

FILLED_PLANS: Final = 4
"""Of these, the cheapest so many are tried with lookups of what fills their gaps."""

SAMPLED_PLANS: Final = 5
"""Plans whose intervals are computed on a sample, the tree plan among them."""

RIVALS_MAX: Final = 12
"""Rivals kept for ``explain``; full and tree are kept besides."""


def choose_plan(
    query: BoundPatternQuery,
    statistics: StreamStatistics,
    *,
    requested: str = "auto",
    parameters: CostParameters | None = None,
    strategy: Strategy = Strategy.OPTIMAL,
    sample: bool = True,
) -> Plan:
    """Choose the blocks and indexes that answer a query at least cost.

    Pure but for what it asks of ``statistics``. Every plan gives the answer of a full replay.

    Parameters
    ----------
    query
        A bound query.
    statistics
        The snapshot it will run on.
    requested
        ``auto``, ``full``, ``tree``, ``all`` (every index that can be asked) or
        ``indexes=A.price,C`` (these; a bare symbol means all its indexed attributes).
    parameters
        Weights of the cost model; those of ``statistics`` by default.
    strategy
        How ``auto`` searches the sets of conditions.
    sample
        Whether ``auto`` may have a few blocks read, to correct its estimates.

    Raises
    ------
    PlanError
        If a plan is named that cannot answer the query; ``auto`` and ``full`` always can.
    """
    check_request(requested)
    parameters = statistics.parameters if parameters is None else parameters
    shape = to_shape(query, deltas=usable_deltas(query, statistics))
    only_full = why_only_full(query, shape, key=statistics.key)
    if requested == "full" or only_full is not None:
        if requested not in ("auto", "full"):
            raise PlanError(
                f"plan '{requested}' cannot apply: {only_full}; use plan 'full' or 'auto'"
            )
        features = _features_of_full(query, shape, statistics, can_skip=only_full is None)
        reason = "it was asked for" if only_full is None else only_full
        return _full_plan(shape, features, parameters, reason)
    conditions: tuple[Condition, ...] = ()
    if requested not in ("auto", "tree"):
        conditions = requested_conditions(
            requested, query, shape, statistics.indexed, statistics.composites
        )
    coarse = draw_coarse_map(query, shape, statistics)
    if len(coarse.stretches) == 0:
        return _empty_plan(shape, statistics, conditions, _why_nothing_remains(shape, statistics))
    weighed = weigh(query, shape, statistics, coarse, asked=conditions)
    if weighed.never is not None:
        why = f"no event lies in the range of {weighed.never.name}, as the index tells"
        return _empty_plan(shape, statistics, conditions, why)
    search = _Search(query, shape, statistics, coarse, weighed, parameters, strategy)
    return search.best(sample=sample) if requested == "auto" else search.named(conditions)


def _features_of_full(
    query: BoundPatternQuery, shape: PatternShape, statistics: StreamStatistics, *, can_skip: bool
) -> PlanFeatures:
    """Return what the cost model is told of a full replay, as far as the tree knows of it."""
    if can_skip:
        coarse = draw_coarse_map(query, shape, statistics)
        if len(coarse.stretches):
            return weigh(query, shape, statistics, coarse, with_indexes=False).features
    return weigh_full(query, statistics)


def _full_plan(
    shape: PatternShape, features: PlanFeatures, parameters: CostParameters, reason: str
) -> Plan:
    full = estimate_full(features, parameters)
    return Plan(
        PlanKind.FULL,
        (),
        shape,
        all_blocks(features.n_blocks),
        full,
        (),
        f"full replay: {reason}",
        n_blocks=features.n_blocks,
        full_estimate=full,
        weights=parameters,
        features=features,
    )


def _why_nothing_remains(shape: PatternShape, statistics: StreamStatistics) -> str:
    never = [position.symbol for position in shape.positions if position.is_impossible]
    if never:
        return f"no event can satisfy the condition of {never[0]}"
    if shape.rows_min > statistics.n_events:
        return f"a match has at least {shape.rows_min} rows, the stream has {statistics.n_events}"
    return "the tree's minima and maxima leave no block in which a match could lie"


def _empty_plan(
    shape: PatternShape,
    statistics: StreamStatistics,
    conditions: tuple[Condition, ...],
    why: str,
) -> Plan:
    """Return the plan that reads nothing, since no match can exist."""
    return Plan(
        PlanKind.INDEXES if conditions else PlanKind.TREE,
        conditions,
        shape,
        no_blocks(),
        Estimate(0.0, 0.0, 0.0, 0.0, 0.0),
        (),
        f"no match can exist: {why}",
        n_blocks=statistics.n_blocks,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """Plans with their estimates, and behind them the full replay."""

    plans: tuple[tuple[Condition, ...], ...]
    estimates: Estimates
    full: Estimate
    weighed: Weighed
    correction: Correction | None = None
    """What a sample says of the estimates, which are corrected by it."""

    def until(self, limit: int | None) -> _Compared:
        """Return the comparison of plans that stop as soon as they have found so many matches.

        There are no more matches than candidates of the plan with fewest, and they are taken to
        lie evenly; lookups are carried out before the first match is looked for.
        """
        fewest = self.estimates.candidates[[len(plan) > 0 for plan in self.plans]]
        if limit is None or len(fewest) == 0 or limit >= fewest.min():
            return self
        share = limit / float(fewest.min())
        estimates, full = self.estimates, self.full
        return replace(
            self,
            estimates=replace(
                estimates,
                cost=estimates.index_cost + share * (estimates.cost - estimates.index_cost),
                blocks=share * estimates.blocks,
                alpha=share * estimates.alpha,
                candidates=share * estimates.candidates,
            ),
            full=replace(
                full, cost=share * full.cost, blocks=share * full.blocks, alpha=share * full.alpha
            ),
        )

    def name(self, index: int) -> str:
        """Return the name of a plan; the full replay is behind the last."""
        if index == len(self.plans):
            return PlanKind.FULL.value
        return plan_name(_kind_of(self.plans[index]), self.plans[index])

    def estimate_of(self, index: int) -> Estimate:
        """Return the estimate of a plan."""
        return self.full if index == len(self.plans) else self.estimates.of(index)

    def cost(self) -> FloatArray:
        """Return the seconds of each plan, the full replay last."""
        return np.append(self.estimates.cost, self.full.cost)

    @property
    def tree_cost(self) -> float:
        """Seconds of the tree plan."""
        return float(self.estimates.cost[self.plans.index(())])

    @property
    def unexpected_blocks(self) -> float:
        """How many blocks more a plan touches by the sample than by its estimate, at most."""
        if self.correction is None:
            return 0.0
        return float((self.estimates.blocks - self.correction.blocks_before).max(initial=0.0))

    def index_cost(self) -> FloatArray:
        """Return the seconds of each plan that are spent before any event is read."""
        return np.append(self.estimates.index_cost, 0.0)

    def pessimistic_cost(self) -> FloatArray:
        """Return the seconds of each plan if its intervals cover as much as may well be.

        Without a sample, all that remains: what a plan falls back to once it has looked.
        """
        estimates = self.estimates
        most = estimates.index_cost + min(self.tree_cost, self.full.cost)
        if self.correction is not None:
            most = np.minimum(most, self.correction.pessimistic_cost)
        return np.append(most, self.full.cost)

    def choose(self, margin: float, *, may_try: bool = False) -> Choice:
        """Return the cheapest plan that is no risk, or the full replay; see `choose`."""
        full = len(self.plans)
        return choose(
            self.name,
            self.cost(),
            self.index_cost(),
            self.pessimistic_cost(),
            full=full,
            margin=margin,
            may_try=may_try,
        )

    def best_with_indexes(self) -> int | None:
        """Return the cheapest plan that looks anything up."""
        cost = np.where([len(plan) > 0 for plan in self.plans], self.estimates.cost, np.inf)
        best = int(np.argmin(cost))
        return best if np.isfinite(cost[best]) else None

    def best_plan(self) -> tuple[Condition, ...]:
        """Return the conditions of the cheapest plan that looks anything up; none without one."""
        best = self.best_with_indexes()
        return () if best is None else self.plans[best]

    def most_promising(self, n: int) -> _Compared:
        """Return the comparison cut down to at most ``n`` plans that may turn out to be the best.

        The tree plan is among them.
        """
        sizes = [len({condition.lookup for condition in plan}) for plan in self.plans]
        kept = promising(self.estimates.cost, sizes, n)
        plans = tuple(self.plans[i] for i in kept)
        return replace(self, plans=plans, estimates=self.estimates.take(kept))

    def sampled(self, index: int) -> str | None:
        """Return what the sample says of a plan; of the full replay, of its best rival."""
        told = self.best_with_indexes() if index == len(self.plans) else index
        if self.correction is None or told is None:
            return None
        said = self.correction.sentence(told)
        return said if said is None or told == index else f"of {self.name(told)}, {said}"

    def rivals_of(self, chosen: int | None) -> tuple[Rival, ...]:
        """Return the cheapest other plans; full and tree are always among them.

        None: that none of them is chosen.
        """
        order = [int(i) for i in np.argsort(self.cost(), kind="stable") if i != chosen]
        always = {len(self.plans), self.plans.index(())}
        kept = [i for rank, i in enumerate(order) if rank < RIVALS_MAX or i in always]
        return tuple(Rival(self.name(i), self.estimate_of(i)) for i in kept)


def _kind_of(conditions: tuple[Condition, ...]) -> PlanKind:
    return PlanKind.INDEXES if conditions else PlanKind.TREE


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """One query, weighed, and the search for its best plan."""

    query: BoundPatternQuery
    shape: PatternShape
    statistics: StreamStatistics
    coarse: CoarseMap
    weighed: Weighed
    parameters: CostParameters
    strategy: Strategy

    def best(self, *, sample: bool) -> Plan:
        """Return the cheapest plan, or the full replay if none is clearly and safely cheaper."""
        compared = self._compare(())
        choice = compared.choose(self.parameters.full_margin)
        if sample and matches_wanted(self.query) is None:
            compared = self._corrected(compared, choice)
        # A sample has told what a try would.
        may_try = self.strategy is Strategy.OPTIMAL and compared.correction is None
        sure = compared.choose(self.parameters.full_margin)
        choice = compared.choose(self.parameters.full_margin, may_try=may_try)
        plan = self._plan(compared, choice.index, choice.reason)
        return self._in_part(compared, plan, to_beat=float(compared.cost()[sure.index]))

    def _in_part(self, compared: _Compared, plan: Plan, *, to_beat: float) -> Plan:
        """Return the plan that asks lookups in a part of the stream, if it is clearly better."""
        if self.strategy is not Strategy.OPTIMAL:
            return plan
        weighed = compared.weighed
        asking = Parting(
            self.query, self.shape, self.statistics, self.coarse.stretches, weighed, self.parameters
        )
        rows = [row for row in (weighed.usable, compared.best_plan()) if row]
        parted = asking.best(
            [row for row in rows if set(row) <= set(weighed.usable)],
            to_beat=to_beat,
            tree_s=compared.tree_cost,
            full_s=compared.full.cost,
            unexpected_blocks=compared.unexpected_blocks,
        )
        if parted is None:
            return plan
        return replace(
            plan,
            kind=PlanKind.INDEXES,
            conditions=parted.conditions,
            stretches=self.coarse.stretches,
            estimated=parted.estimated,
            rivals=compared.rivals_of(None),
            reason=parted.reason(compared.full.cost),
            part=parted.part,
            level=coarsest_level(self.statistics.n_blocks),
        )

    def named(self, conditions: tuple[Condition, ...]) -> Plan:
        """Return the plan with exactly these conditions."""
        compared = self._compare(conditions)
        return self._plan(compared, compared.plans.index(conditions), "it was asked for")

    def _compare(self, asked: tuple[Condition, ...]) -> _Compared:
        """Estimate the plans worth a thought, and the one asked for, if any."""
        weighed, features = self.weighed, self.weighed.features
        if self.strategy is Strategy.OPTIMAL:
            selected, estimates = shortlist(features, self.parameters, SHORTLIST)
        else:
            chosen = select(features, self.parameters, self.strategy).chosen
            selected = np.vstack((np.zeros_like(chosen), chosen))
            estimates = estimate(features, selected, self.parameters)
        plans = [weighed.plan_of(row) for row in selected]
        parts = [estimates]
        with_fills = [asked] if asked else []
        if weighed.fills.conditions:
            cheapest = np.argsort(parts[0].cost, kind="stable")[:FILLED_PLANS].tolist()
            with_fills += [filled for i in cheapest if (filled := weighed.fill(plans[i]))]
        for plan in with_fills:
            merged, row = weighed.as_features(plan)
            plans.append(plan)
            parts.append(estimate(merged, row[None, :], self.parameters))
        compared = _Compared(
            tuple(plans),
            Estimates.concat(parts),
            estimate_full(features, self.parameters),
            weighed,
        )
        return compared.until(matches_wanted(self.query))

    def _corrected(self, compared: _Compared, choice: Choice) -> _Compared:
        """Correct the most promising estimates on a sample of the events, where it can pay."""
        best = compared.best_with_indexes()
        if best is None:
            return compared
        wanted = tuple(dict.fromkeys((*self.weighed.usable, *self.weighed.fills.conditions)))
        stakes = Stakes(
            compared.estimates,
            [frozenset(condition.lookup for condition in plan) for plan in compared.plans],
            compared.full.cost,
            self.parameters.full_margin,
            choice.index,
            count_blocks(self.coarse.stretches),
        )
        sampler = Sampler(
            self.query, self.shape, self.statistics, self.coarse, self.weighed, self.parameters
        )
        block_s = sampler.block_cost(wanted)
        n_blocks = blocks_worth_sampling(stakes, block_s, sampler.place_blocks)
        if n_blocks == 0:
            return compared
        sample = sampler.draw(compared.plans[best], n_blocks)
        events = None if sample is None else sampler.read(sample, wanted)
        if events is None:
            return compared
        weighed = self.weighed.seen_together(self.shape.blocks, events)
        if weighed is not self.weighed:
            compared = replace(self, weighed=weighed)._compare(())
        few = compared.most_promising(SAMPLED_PLANS)
        correction = correct(events, few.plans, few.estimates, weighed.features, self.parameters)
        return replace(few, estimates=correction.estimates, correction=correction)

    def _plan(self, compared: _Compared, index: int, reason: str) -> Plan:
        is_full = index == len(compared.plans)
        conditions = () if is_full else compared.plans[index]
        n = self.statistics.n_blocks
        return Plan(
            PlanKind.FULL if is_full else _kind_of(conditions),
            conditions,
            self.shape,
            all_blocks(n) if is_full else self.coarse.stretches,
            compared.estimate_of(index),
            compared.rivals_of(index),
            f"{compared.name(index)}: {reason}",
            self.weighed.selectivities,
            n,
            full_estimate=compared.full,
            weights=self.parameters,
            strategy=self.strategy.value,
            features=self.weighed.features,
            sampled=compared.sampled(index),
            level=0 if is_full else coarsest_level(n),
        )
