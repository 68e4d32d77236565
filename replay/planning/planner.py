"""Choosing a plan: a bound query and statistics in, a plan with its reasons out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.choice import choose
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate, Estimates, estimate, estimate_full
from replay.errors import PlanError
from replay.language.bound import BoundPatternQuery
from replay.planning.block_ranges import all_blocks, no_blocks
from replay.planning.plan import Condition, Plan, PlanKind, Rival, Selectivity, plan_name
from replay.planning.requests import check_request, requested_conditions, why_only_full
from replay.planning.shape import PatternShape, to_shape
from replay.planning.statistics import IntArray, StreamStatistics
from replay.planning.weighing import columns_matched, draw_coarse_map, weigh_plans

RIVALS_MAX: Final = 12
"""Rivals kept for ``explain``; full and tree are kept besides."""


def choose_plan(
    query: BoundPatternQuery,
    statistics: StreamStatistics,
    *,
    requested: str = "auto",
    parameters: CostParameters = DEFAULT_PARAMETERS,
) -> Plan:
    """Choose the blocks and indexes that answer a query at least cost.

    Pure: reads no event. Every plan gives the answer of a full replay.

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
        Weights of the cost model.

    Raises
    ------
    PlanError
        If a plan is named that cannot answer the query; ``auto`` and ``full`` always can.
    """
    check_request(requested)
    shape = to_shape(query)
    only_full = why_only_full(query, shape)
    if requested == "full" or only_full is not None:
        if requested not in ("auto", "full"):
            raise PlanError(
                f"plan '{requested}' cannot apply: {only_full}; use plan 'full' or 'auto'"
            )
        reason = "it was asked for" if only_full is None else only_full
        return _full_plan(query, shape, statistics, parameters, reason)
    conditions: tuple[Condition, ...] = ()
    if requested not in ("auto", "tree"):
        conditions = requested_conditions(requested, query, shape, statistics.indexed)
    coarse = draw_coarse_map(query, shape, statistics)
    if len(coarse.stretches) == 0:
        return _empty_plan(shape, statistics, conditions)
    weighed = weigh_plans(query, shape, statistics, coarse, conditions)
    estimates = estimate(weighed.features, parameters)
    full = _estimate_full(query, statistics, parameters)
    compared = _Compared(
        shape, statistics, coarse.stretches, weighed.plans, estimates, full, weighed.selectivities
    )
    if requested == "auto":
        return compared.best(parameters)
    return compared.named(conditions)


def _estimate_full(
    query: BoundPatternQuery, statistics: StreamStatistics, parameters: CostParameters
) -> Estimate:
    n_columns = len(columns_matched(query))
    return estimate_full(statistics.n_events, statistics.n_blocks, n_columns, parameters)


def _full_plan(
    query: BoundPatternQuery,
    shape: PatternShape,
    statistics: StreamStatistics,
    parameters: CostParameters,
    reason: str,
) -> Plan:
    n = statistics.n_blocks
    full = _estimate_full(query, statistics, parameters)
    return Plan(
        PlanKind.FULL, (), shape, all_blocks(n), full, (), f"full replay: {reason}", n_blocks=n
    )


def _empty_plan(
    shape: PatternShape, statistics: StreamStatistics, conditions: tuple[Condition, ...]
) -> Plan:
    """Return the plan that reads nothing, since no match can exist."""
    never = [position.symbol for position in shape.positions if position.is_impossible]
    if never:
        why = f"no event can satisfy the condition of {never[0]}"
    elif shape.rows_min > statistics.n_events:
        why = f"a match has at least {shape.rows_min} rows, the stream has {statistics.n_events}"
    else:
        why = "the tree's minima and maxima leave no block in which a match could lie"
    kind = PlanKind.INDEXES if conditions else PlanKind.TREE
    return Plan(
        kind,
        conditions,
        shape,
        no_blocks(),
        Estimate(0.0, 0.0, 0.0, 0.0, 0.0),
        (),
        f"no match can exist: {why}",
        n_blocks=statistics.n_blocks,
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """The plans weighed, and behind them the full replay."""

    shape: PatternShape
    statistics: StreamStatistics
    stretches: IntArray
    plans: tuple[tuple[Condition, ...], ...]
    estimates: Estimates
    full: Estimate
    selectivities: tuple[Selectivity, ...]

    def _name(self, index: int) -> str:
        if index == len(self.plans):
            return PlanKind.FULL.value
        kind = PlanKind.INDEXES if self.plans[index] else PlanKind.TREE
        return plan_name(kind, self.plans[index])

    def best(self, parameters: CostParameters) -> Plan:
        """Return the cheapest plan, or the full replay if none is clearly cheaper."""
        names = [self._name(index) for index in range(len(self.plans) + 1)]
        cost = np.append(self.estimates.cost, self.full.cost)
        choice = choose(names, cost, full=len(self.plans), margin=parameters.full_margin)
        return self._plan(choice.index, choice.reason)

    def named(self, conditions: tuple[Condition, ...]) -> Plan:
        """Return the plan with exactly these conditions."""
        return self._plan(self.plans.index(conditions), "it was asked for")

    def _plan(self, index: int, reason: str) -> Plan:
        is_full = index == len(self.plans)
        conditions = () if is_full else self.plans[index]
        kind = PlanKind.FULL if is_full else PlanKind.INDEXES if conditions else PlanKind.TREE
        n = self.statistics.n_blocks
        return Plan(
            kind,
            conditions,
            self.shape,
            all_blocks(n) if is_full else self.stretches,
            self.full if is_full else self.estimates.of(index),
            self._rivals(index),
            f"{plan_name(kind, conditions)}: {reason}",
            self.selectivities,
            n,
        )

    def _rivals(self, chosen: int) -> tuple[Rival, ...]:
        """Return the cheapest other plans; full and tree are always among them."""
        cost = np.append(self.estimates.cost, self.full.cost)
        order = [int(i) for i in np.argsort(cost, kind="stable") if i != chosen]
        always = {len(self.plans), 0}
        kept = [i for rank, i in enumerate(order) if rank < RIVALS_MAX or i in always]
        return tuple(
            Rival(self._name(i), self.full if i == len(self.plans) else self.estimates.of(i))
            for i in kept
        )
