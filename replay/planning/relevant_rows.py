"""Plan `relevant`: only blocks that may hold a row of some symbol; those between change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from costmodel.features import PlanFeatures
from costmodel.guard import in_words, is_bearable
from costmodel.lookups import lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate, replay_cost
from replay.errors import PlanError
from replay.planning.block_ranges import (
    all_blocks,
    bridge,
    count_blocks,
    count_events,
    mask_of,
    no_blocks,
    ranges_of,
)
from replay.planning.coarse_map import bounds_by_block
from replay.planning.extremes import may_contain
from replay.planning.intervals import BRIDGE_BLOCKS, Stretches
from replay.planning.lookup_state import LookupSource
from replay.planning.named_plans import RELEVANT, conditions_of
from replay.planning.plan import Left, LookupOption, Plan, PlanKind, Step
from replay.planning.requirements import Position, Requirements
from replay.planning.statistics import BoolArray, FloatArray, StreamStatistics, Timeline

HIT_MAX: Final = 0.9
"""Share of a symbol's blocks up to which its lookup is worth a thought, if that many are hit."""

SAVING_MIN: Final = 4.0
"""Times of what lookups take that they must be expected to save, as for those of other plans."""


def relevant_by_name(
    required: Requirements,
    statistics: StreamStatistics,
    features: PlanFeatures,
    full: Estimate,
    parameters: CostParameters,
) -> Plan:
    """Return the plan as it is asked for by name, with every lookup that may leave blocks out.

    Raises
    ------
    PlanError
        If rows outside the ranges of all symbols may change the answer.
    """
    if required.why_not_relevant is not None:
        raise PlanError(
            f"plan '{RELEVANT}' cannot apply: {required.why_not_relevant}; use plan 'auto'"
        )
    weighed = _Weighed(required, statistics, features, full, parameters)
    return weighed.plan(weighed.options(), "it was asked for")


def cheapest_with_relevant(
    plan: Plan, statistics: StreamStatistics, parameters: CostParameters
) -> Plan:
    """Return the plan chosen before, or that of relevant rows where it is expected to be cheaper.

    Else that is the rival of one that takes steps, whose estimates may err. With LIMIT a full
    replay may end at once, so that nothing can be said of what takes less.
    """
    required, full, features = plan.required, plan.full_estimate, plan.features
    if required.why_not_relevant is not None or required.matches_wanted is not None:
        return plan
    if full is None or features is None or plan.finds_nothing:
        return plan
    weighed = _Weighed(required, statistics, features, full, parameters)
    rivals = [weighed.plan(chosen, "") for chosen in dict.fromkeys(((), weighed.options()))]
    best = min(rivals, key=lambda rival: rival.estimated.cost)
    expected = best.estimated.cost
    reason = (
        f"{RELEVANT}: rows outside the ranges of all symbols change nothing, and reading the "
        f"others is expected to take {in_words(expected)}, {in_words(full.cost)} for a full replay"
    )
    best = replace(best, reason=reason, takes_steps=True)
    if expected < plan.estimated.cost and pays(best, 0.0, full.cost):
        return best
    return replace(plan, rival=best) if plan.takes_steps else plan


def pays(plan: Plan, spent_s: float, left_s: float) -> bool:
    """Return whether the plan is worth its lookups where ``left_s`` remain to be replayed.

    They are asked one after the other, and only if they could not make the whole take longer than
    the guard allows, were they to leave all of that. ``spent_s`` went to others before.
    """
    assert plan.full_estimate is not None
    index_s, full_s = plan.estimated.index_cost, plan.full_estimate.cost
    expected = plan.estimated.cost + (SAVING_MIN - 1.0) * index_s
    is_cheaper = expected < plan.weights.full_margin * left_s
    return is_cheaper and is_bearable(spent_s, index_s, left_s, full_s)


class _Weighed:
    """The symbols of a pattern, and the blocks in which the tree says that rows of each may lie."""

    def __init__(
        self,
        required: Requirements,
        statistics: StreamStatistics,
        features: PlanFeatures,
        full: Estimate,
        parameters: CostParameters,
    ) -> None:
        self._required, self._statistics = required, statistics
        self._features, self._full, self._parameters = features, full, parameters
        self._masks = [_admitted(one, required, statistics) for one in required.relevant]
        every = self._united(range(len(self._masks)))
        self._stretches = ranges_of(every)

    def _united(self, places: range | list[int]) -> BoolArray:
        none = np.zeros(self._statistics.n_blocks, np.bool_)
        found: BoolArray = np.logical_or.reduce([none, *(self._masks[place] for place in places)])
        return found

    def options(self) -> tuple[LookupOption, ...]:
        """Return the lookup of each symbol that may leave out some of the symbol's blocks."""
        statistics, found = self._statistics, dict[tuple[str, object], LookupOption]()
        within = statistics.leaves.base[self._stretches]
        for place, symbol in enumerate(self._required.relevant):
            weighed = [
                (*statistics.estimate_count(*condition.lookup, within=within)[::-1], condition)
                for condition in conditions_of(
                    place, symbol, statistics.indexed, statistics.composites
                )
            ]
            if not weighed:
                continue
            most, least, condition = min(weighed, key=lambda one: one[0])
            expected = min(statistics.expect_count(*condition.lookup), float(most))
            if _share_hit(expected, self._masks[place]) > HIT_MAX:
                continue
            known = found.get(condition.lookup)
            asked = (condition,) if known is None else (*known.conditions, condition)
            found[condition.lookup] = LookupOption(
                condition.lookup, asked, least, most, expected, is_even=None
            )
        return tuple(found.values())

    def index_s(self, options: tuple[LookupOption, ...]) -> float:
        """Return the seconds that lookups take."""
        n_entries = np.array([float(option.most) for option in options])
        in_order = np.array([option.lookup[1].is_one_key for option in options], np.bool_)
        return float(lookup_cost(n_entries, in_order, self._parameters, keyed=False).sum())

    def plan(self, options: tuple[LookupOption, ...], why: str) -> Plan:
        """Return the plan with some lookups, and what it is expected to take."""
        asked = tuple(condition for option in options for condition in option.conditions)
        places = {condition.position for condition in asked}
        others = [place for place in range(len(self._masks)) if place not in places]
        statistics, features = self._statistics, self._features
        kept = self._expected(options)
        n_blocks = float(kept.sum())
        n_events = float(kept @ statistics.leaves.count)
        n_stretches = float(kept[:1].sum() + (kept[1:] * (1.0 - kept[:-1])).sum())
        index_s = self.index_s(options)
        replay_s = replay_cost(n_blocks, n_events, n_stretches, features, self._parameters)
        estimated = Estimate(
            cost=index_s + replay_s,
            blocks=n_blocks,
            entries=float(sum(option.most for option in options)),
            alpha=n_events / max(statistics.n_events, 1),
            candidates=0.0,
            index_cost=index_s,
            stretches=n_stretches,
        )
        return Plan(
            PlanKind.RELEVANT,
            tuple(sorted(asked, key=lambda condition: condition.order)),
            self._required,
            self._stretches,
            estimated,
            f"{RELEVANT}: {why}",
            n_blocks=statistics.n_blocks,
            full_estimate=self._full,
            weights=self._parameters,
            features=features,
            options=options,
            not_asked=ranges_of(self._united(others)) if others else no_blocks(),
        )

    def _expected(self, options: tuple[LookupOption, ...]) -> FloatArray:
        """Return how likely each block is read, if the events of lookups lie where chance has them.

        Those of one symbol are as likely in each block that the tree admits.
        """
        shares = {
            condition.position: _share_hit(option.expected, self._masks[condition.position])
            for option in options
            for condition in option.conditions
        }
        missed = np.ones(self._statistics.n_blocks)
        for place, mask in enumerate(self._masks):
            missed *= 1.0 - shares.get(place, 1.0) * mask
        return np.asarray(1.0 - missed)


def _admitted(symbol: Position, required: Requirements, statistics: StreamStatistics) -> BoolArray:
    """Return the blocks that may hold a row of a symbol, by the tree's minima and maxima."""
    masks = [
        may_contain(ranges, bounds_by_block(name, required, statistics))
        for name, ranges in symbol.ranges.items()
    ]
    found: BoolArray = np.logical_and.reduce(masks)
    return found


def _share_hit(n_events: float, mask: BoolArray) -> float:
    """Return the share of a symbol's blocks that so many events hit, by chance."""
    return float(-np.expm1(-n_events / max(int(mask.sum()), 1)))


def find_relevant(
    plan: Plan,
    statistics: Timeline,
    source: LookupSource,
    clock: Callable[[], float],
    *,
    seconds_max: float,
) -> tuple[Plan, Stretches, float]:
    """Ask the plan's lookups; return it with its steps, what is left, and the seconds to replay it.

    After ``seconds_max`` no further lookup is asked; then all that the tree leaves is left. Where
    ``auto`` chose it, everything is read in one go if that takes no longer.
    """
    until, base = clock() + seconds_max, statistics.leaves.base
    mask = mask_of(plan.not_asked, statistics.n_blocks)
    steps: list[Step] = []
    for option in sorted(plan.options, key=lambda one: one.expected):
        counted, began = (option.least, option.most), clock()
        if began > until:
            why = "not asked: the time is over"
            steps.append(Step(option.name, counted, None, None, False, why))
            mask |= mask_of(plan.stretches, statistics.n_blocks)
            continue
        source.read(option.lookup)
        at = np.searchsorted(source.rows(option.lookup), base)
        mask |= at[1:] > at[:-1]
        why = "the blocks of these rows are read"
        steps.append(Step(option.name, counted, None, None, True, why, clock() - began))
    blocks = bridge(ranges_of(mask), BRIDGE_BLOCKS)
    n_events = count_events(blocks, base)
    if steps:
        left = Left(count_blocks(blocks), n_events, len(blocks))
        steps[-1] = replace(steps[-1], left=left)
    assert plan.features is not None
    left_s = replay_cost(count_blocks(blocks), n_events, len(blocks), plan.features, plan.weights)
    done, full = replace(plan, steps=tuple(steps)), plan.full_estimate
    if plan.takes_steps and full is not None and left_s >= full.cost:
        why = f"full replay: reading what is relevant takes no less than {in_words(full.cost)}"
        done = replace(done, kind=PlanKind.FULL, conditions=(), reason=why)
        blocks, n_events, left_s = all_blocks(statistics.n_blocks), statistics.n_events, full.cost
    return done, Stretches(blocks, 0, len(blocks), n_events), left_s
