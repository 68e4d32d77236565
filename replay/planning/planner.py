"""Choosing a plan: requirements and statistics in, a plan with its reasons out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from costmodel.arrays import BoolArray
from costmodel.features import PlanFeatures
from costmodel.guard import SAVING_MIN, in_words
from costmodel.lookups import chain_cost, interval_cost, lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate, Estimates, estimate, estimate_full, lookups_used
from replay.errors import PlanError
from replay.planning.block_ranges import all_blocks, count_blocks, mask_of, no_blocks, without
from replay.planning.coarse_map import CoarseMap, coarsest_level, draw_coarse_map, touching
from replay.planning.cost_inputs import CostInputs, gather, weigh_full
from replay.planning.named_plans import (
    INDEX_ONLY,
    KINDS,
    PREFIX,
    RELEVANT,
    check_request,
    requested_conditions,
)
from replay.planning.plan import Condition, Plan, PlanKind, plan_name
from replay.planning.relevant_rows import cheapest_of_symbols, of_symbols_by_name
from replay.planning.requirements import Requirements
from replay.planning.statistics import StreamStatistics

if TYPE_CHECKING:
    from costmodel.thesis.selection import Strategy

CHAINS_MAX: Final = 64
"""Sets of lookups that are estimated before the first is carried out."""


def choose_plan(
    required: Requirements,
    statistics: StreamStatistics,
    *,
    requested: str = "auto",
    parameters: CostParameters | None = None,
    strategy: Strategy | None = None,
) -> Plan:
    """Choose the blocks and indexes that answer a query at least cost.

    Pure but for what it asks of ``statistics``. Every plan gives the answer of a full replay.

    Parameters
    ----------
    requested
        ``auto``, ``full``, ``tree``, ``all`` (every index that can be asked),
        ``indexes=A.price,C`` (these; a bare symbol means all its indexed attributes),
        ``relevant`` or ``index-only``.
    parameters
        Weights of the cost model; those of ``statistics`` by default.
    strategy
        None: ``auto`` takes steps while it is carried out (`steps.carry_out`). Else the set of
        lookups that a strategy of the thesis selects by estimates, carried out as it is.

    Raises
    ------
    PlanError
        If a plan is named that cannot answer the query; ``auto`` and ``full`` always can.
    """
    if required.of_events:
        requested = _with_symbol(requested, *required.symbols)
    check_request(requested)
    parameters = statistics.parameters if parameters is None else parameters
    if requested in (RELEVANT, INDEX_ONLY):
        features = weigh_full(required, statistics)
        full = estimate_full(features, parameters)
        return of_symbols_by_name(requested, required, statistics, features, full, parameters)
    plan = _without_relevant(required, statistics, requested, parameters, strategy)
    if requested != "auto" or strategy is not None:
        return plan
    return cheapest_of_symbols(plan, statistics, parameters)


def _without_relevant(
    required: Requirements,
    statistics: StreamStatistics,
    requested: str,
    parameters: CostParameters,
    strategy: Strategy | None,
) -> Plan:
    """Return the plan that is best, or asked for, of those that need a row of some symbol."""
    only_full = required.only_full
    if only_full is None and not required.is_restricted:
        only_full = (
            "nothing in WHERE bounds an attribute"
            if required.of_events
            else "no symbol that every match needs has a condition that bounds an attribute"
        )
    if requested == "full" or only_full is not None:
        if requested not in ("auto", "full"):
            raise PlanError(
                f"plan '{requested}' cannot apply: {only_full}; use plan 'full' or 'auto'"
            )
        features = _features_of_full(required, statistics, can_skip=only_full is None)
        reason = "it was asked for" if only_full is None else only_full
        return _full_plan(required, features, parameters, reason)
    named: tuple[Condition, ...] | None = None
    if requested != "auto":
        named = ()
        if requested != "tree":
            named = requested_conditions(
                requested, required, statistics.indexed, statistics.composites
            )
    coarse = draw_coarse_map(required, statistics)
    if len(coarse.stretches) == 0:
        why = _why_nothing_remains(required, statistics)
        return _empty_plan(required, statistics, named or (), why)
    inputs = gather(required, statistics, coarse, named=named)
    if inputs.never is not None:
        why = f"no event lies in the range of {inputs.never.name}, as the index tells"
        return _empty_plan(required, statistics, named or (), why)
    choosing = _Choosing(required, statistics, coarse, inputs, parameters)
    if named is not None:
        return choosing.named(named)
    return choosing.stepping() if strategy is None else choosing.selected(strategy)


def _with_symbol(requested: str, symbol: str) -> str:
    """Return a plan asked for with the symbol before each attribute: ``indexes=x`` is ``s.x``.

    Examples
    --------
    >>> _with_symbol("indexes=price,ticks.volume", "ticks"), _with_symbol("auto", "ticks")
    ('indexes=ticks.price,ticks.volume', 'auto')
    """
    if requested in KINDS or not requested.startswith(PREFIX):
        return requested
    items = [item.strip() for item in requested.removeprefix(PREFIX).split(",")]
    named = [i if i == symbol or i.startswith(f"{symbol}.") else f"{symbol}.{i}" for i in items]
    return PREFIX + ",".join(named)


def _features_of_full(
    required: Requirements, statistics: StreamStatistics, *, can_skip: bool
) -> PlanFeatures:
    """Return what the cost model is told of a full replay, as far as the tree knows of it."""
    if can_skip:
        coarse = draw_coarse_map(required, statistics)
        if len(coarse.stretches):
            return gather(required, statistics, coarse, named=()).features
    return weigh_full(required, statistics)


def _full_plan(
    required: Requirements, features: PlanFeatures, parameters: CostParameters, reason: str
) -> Plan:
    full = estimate_full(features, parameters)
    return Plan(
        PlanKind.FULL,
        (),
        required,
        all_blocks(features.n_blocks),
        full,
        f"full replay: {reason}",
        n_blocks=features.n_blocks,
        full_estimate=full,
        weights=parameters,
        features=features,
    )


def _why_nothing_remains(required: Requirements, statistics: StreamStatistics) -> str:
    never = [position.symbol for position in required.positions if position.is_impossible]
    if never:
        return f"no event can satisfy the condition of {never[0]}"
    if required.rows_min > statistics.n_events:
        return (
            f"a match has at least {required.rows_min} rows, the stream has {statistics.n_events}"
        )
    what = "an event could pass" if required.of_events else "a match could lie"
    return f"the tree's minima and maxima leave no block in which {what}"


def _empty_plan(
    required: Requirements,
    statistics: StreamStatistics,
    conditions: tuple[Condition, ...],
    why: str,
) -> Plan:
    """Return the plan that reads nothing, since no match can exist."""
    return Plan(
        PlanKind.INDEXES if conditions else PlanKind.TREE,
        conditions,
        required,
        no_blocks(),
        Estimate(0.0, 0.0, 0.0, 0.0, 0.0),
        f"no {'event can pass' if required.of_events else 'match can exist'}: {why}",
        n_blocks=statistics.n_blocks,
    )


class _Choosing:
    """One query, and what the cost model was told of it."""

    def __init__(
        self,
        required: Requirements,
        statistics: StreamStatistics,
        coarse: CoarseMap,
        inputs: CostInputs,
        parameters: CostParameters,
    ) -> None:
        self.inputs, self.parameters = inputs, parameters
        self._required, self._stretches = required, coarse.stretches
        self._leaves = statistics.leaves
        self.full = estimate_full(inputs.features, parameters)
        self._plan = partial(
            Plan,
            required=required,
            stretches=coarse.stretches,
            selectivities=inputs.selectivities,
            n_blocks=statistics.n_blocks,
            full_estimate=self.full,
            weights=parameters,
            features=inputs.features,
            level=coarsest_level(statistics.n_blocks),
            matches_wanted=required.matches_wanted,
        )

    def named(self, conditions: tuple[Condition, ...]) -> Plan:
        """Return the plan with exactly these conditions."""
        rows = np.ones((1, len(self.inputs.conditions)), dtype=np.bool_)
        estimated, wanted = self._estimates(rows).of(0), set(conditions)
        n_fill = [
            float(option.most)
            for option in self.inputs.options
            if option.fills_gap and not wanted.isdisjoint(option.conditions)
        ]
        if n_fill:  # They leave nothing out by themselves, but are read.
            n_entries, in_order = np.array(n_fill), np.zeros(len(n_fill), dtype=np.bool_)
            keyed = self.inputs.features.is_keyed
            fill_s = float(lookup_cost(n_entries, in_order, self.parameters, keyed=keyed).sum())
            estimated = replace(
                estimated,
                cost=estimated.cost + fill_s,
                index_cost=estimated.index_cost + fill_s,
                entries=estimated.entries + sum(n_fill),
            )
        return self._with(conditions, estimated, "it was asked for")

    def selected(self, strategy: Strategy) -> Plan:
        """Return the plan that a strategy of the thesis selects by estimates alone."""
        from costmodel.thesis.selection import select  # no query needs it

        chosen = select(self.inputs.features, self.parameters, strategy).chosen
        estimated = self._estimates(chosen[None, :]).of(0)
        plan = self._with(self._conditions(chosen), estimated, f"selected by {strategy.value}")
        if estimated.cost >= self.parameters.full_margin * self.full.cost:
            return _full_plan(
                plan.required,
                self.inputs.features,
                self.parameters,
                f"selected by {strategy.value}",
            )
        return plan

    def stepping(self) -> Plan:
        """Return the plan that chooses its lookups step by step, with those that are expected."""
        rows, features = _chains(self.inputs), self.inputs.features
        estimates = self._estimates(rows)
        index_s = interval_cost(estimates.candidates, self.parameters) + chain_cost(
            lookups_used(features, rows),
            features.lookup_entries,
            features.is_in_order,
            self.parameters,
            keyed=features.is_keyed,
        )
        wanted_share = self._wanted_share(estimates)
        replay = wanted_share * (estimates.cost - estimates.index_cost) * self._share_read()
        # Behind a lookup what lies elsewhere in time is left out; the tree's stretches are whole.
        replay[1:] *= self._share_of_times()
        cost = index_s + replay
        tree_s, full_s = float(cost[0]), wanted_share * self.full.cost
        best = int(np.argmin(cost))
        if SAVING_MIN * index_s[best] + replay[best] >= min(tree_s, full_s):
            best = 0
        conditions = self._conditions(rows[best])
        estimated, kind = estimates.of(best), PlanKind.INDEXES if conditions else PlanKind.TREE
        if not conditions and tree_s >= self.parameters.full_margin * full_s:
            estimated, kind = self.full, PlanKind.FULL
        if kind is PlanKind.FULL:
            estimated = replace(estimated, cost=full_s)
        else:
            seconds = float(cost[best]), float(index_s[best])
            estimated = replace(estimated, cost=seconds[0], index_cost=seconds[1])
        name = plan_name(kind, conditions)
        return self._plan(
            kind,
            conditions,
            estimated=estimated,
            reason=(
                f"{name}: expected to take {in_words(estimated.cost)}, "
                f"{in_words(full_s)} for a full replay"
            ),
            options=self.inputs.options,
            takes_steps=True,
            wanted_share=wanted_share,
        )

    def _wanted_share(self, estimates: Estimates) -> float:
        """Return the share of a replay that is over when it has found as many matches as wanted.

        There are no more matches than candidates of the plan with fewest, and they are taken to
        lie evenly.
        """
        limit, fewest = self._required.matches_wanted, estimates.candidates[1:]
        if limit is None or len(fewest) == 0:
            return 1.0
        return min(limit / max(float(fewest.min()), 1.0), 1.0)

    def _share_read(self) -> float:
        """Return the share of the blocks that the tree leaves which must be read."""
        blocks, alike = self._stretches, self._required.alike
        if alike is None:
            return 1.0
        return count_blocks(without(blocks, alike.mask)) / count_blocks(blocks)

    def _share_of_times(self) -> float:
        """Return the share of the events that lie where those do that a match must have one of."""
        times, leaves = self._required.times, self._leaves
        if not times:
            return 1.0
        blocks = np.flatnonzero(mask_of(self._stretches, len(leaves.count)))
        touched = touching(np.stack((blocks, blocks + 1), axis=1), times, leaves)[:, 0]
        return float(leaves.count[touched].sum() / leaves.count[blocks].sum())

    def _estimates(self, rows: BoolArray) -> Estimates:
        return estimate(self.inputs.features, rows, self.parameters)

    def _conditions(self, row: BoolArray) -> tuple[Condition, ...]:
        return tuple(c for c, used in zip(self.inputs.conditions, row, strict=True) if used)

    def _with(self, conditions: tuple[Condition, ...], estimated: Estimate, reason: str) -> Plan:
        kind = PlanKind.INDEXES if conditions else PlanKind.TREE
        wanted = set(conditions)
        answered = (
            replace(option, conditions=tuple(c for c in option.conditions if c in wanted))
            for option in self.inputs.options
        )
        options = tuple(option for option in answered if option.conditions)
        return self._plan(
            kind,
            conditions,
            estimated=estimated,
            reason=f"{plan_name(kind, conditions)}: {reason}",
            options=options,
        )


def _chains(inputs: CostInputs) -> BoolArray:
    """Return the sets of lookups estimated before the first is asked, as rows of conditions.

    None at all; the rarest, the two rarest, …; and of each basic block the same.
    """
    features = inputs.features
    lookups = features.lookup.tolist()
    blocks = [0] * len(features.lookup_entries)
    for lookup, block in zip(lookups, features.basic_block.tolist(), strict=True):
        blocks[lookup] |= 1 << block
    order = np.argsort(features.lookup_entries, kind="stable").tolist()
    sets = {0: None}  # as bits, one for each lookup
    for among in (-1, *(1 << block for block in range(len(features.block_lengths)))):
        chosen = 0
        for lookup in order:
            if blocks[lookup] & among and len(sets) < CHAINS_MAX:
                chosen |= 1 << lookup
                sets[chosen] = None
    rows = [[chosen >> lookup & 1 for lookup in lookups] for chosen in sets]
    return np.array(rows, dtype=np.bool_).reshape(len(sets), len(lookups))
