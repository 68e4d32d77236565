"""Adaptive safety: what a plan does once it is seen what its lookups really found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from costmodel.choice import in_words
from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters
from costmodel.plan_cost import entries_cost, estimate_full, replay_cost
from replay.language.bound import BoundPatternQuery
from replay.planning.block_ranges import all_blocks, bridge, count_blocks, count_events
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.plan import Condition, Lookup, Occurrences, Plan, PlanKind, Slot
from replay.planning.statistics import IntArray, Timeline

AS_EXPECTED: Final = 1.5
"""A number of events found by which the estimate is at most so many times off is as expected: the
plan was chosen knowing it, and looking at the intervals again would tell nothing new."""

CHECK_SHARE: Final = 0.05
"""Share of the time of the lookups still to be asked that all looks at the intervals between
lookups may take together: they may be for nothing."""

CHECK_S: Final = 3e-4
"""Seconds to compute intervals, however few events were found."""

CHECK_ENTRIES: Final = 8.0
"""Times as long as reading events that computing intervals with them takes, as long as nothing has
been ruled out by another lookup."""

SURPRISE_MIN: Final = 2.0
"""Times more entries than expected that are worth a word."""


class LookupSource(Protocol):
    """The indexes of one snapshot, asked one lookup at a time."""

    def read(self, lookup: Lookup) -> int:
        """Carry out a lookup and return how many events are in its ranges."""
        ...

    def occurrences(self, conditions: Collection[Condition]) -> Mapping[Slot, Occurrences]:
        """Return what was read for conditions, by their slots; their lookups have been read."""
        ...


@dataclass(frozen=True, slots=True)
class Settled:
    """What is replayed after all."""

    stretches: Stretches
    switched: str | None
    """In one sentence what was done otherwise than planned, and why; None: nothing."""


def find_stretches(
    plan: Plan,
    query: BoundPatternQuery,
    statistics: Timeline,
    source: LookupSource,
    *,
    is_adaptive: bool = True,
) -> Settled:
    """Ask a plan's lookups, as far as they are worth it, and compute what is to be replayed.

    Parameters
    ----------
    plan
        Chosen plan.
    query, statistics
        What it was made for.
    source
        Answers the lookups.
    is_adaptive
        False carries out the plan to the letter, as one asks for by naming it.

    Returns
    -------
    Settled
        Every match of the query lies within one of the stretches, whatever was left out: fewer
        conditions only prune less.

    Notes
    -----
    Not in the thesis. The cost of replay is that of the cost model with *actual* counts, so no
    error of the estimates makes more of it than of a full replay.
    """
    if plan.kind is PlanKind.FULL:
        return Settled(Stretches(plan.stretches, 0, 0, statistics.n_events), None)
    features = plan.features if is_adaptive else None
    asking = _Asking(plan, query, statistics, source)
    order = lookups_in_order(plan) if not plan.finds_nothing else []
    for place, lookup in enumerate(order):
        asking.ask(lookup)
        if features is not None and place + 1 < len(order):
            stopped = asking.why_stop(order[place + 1 :], features)
            if stopped is not None:
                settled = settle(plan, asking.found(), statistics, features)
                reasons = [stopped, settled.switched]
                return replace(settled, switched="; ".join(r for r in reasons if r))
    return settle(plan, asking.found(), statistics, features)


def settle(
    plan: Plan, found: Stretches, statistics: Timeline, features: PlanFeatures | None
) -> Settled:
    """Replay what the intervals cover, or the tree's stretches, or everything: what is cheapest.

    Pure. Lookups are paid for; only what is read from here on counts.

    Parameters
    ----------
    plan
        The plan carried out, with the weights of the cost model.
    found
        What its intervals cover.
    statistics
        Of the stream.
    features
        What the plan was chosen by; None leaves everything as it is.
    """
    if features is None or plan.kind is PlanKind.FULL or plan.finds_nothing:
        return Settled(found, None)
    base = statistics.leaves.base
    prices = _Prices.of(features, plan.weights)
    cost = prices.cost(found.blocks, base)
    tree = bridge(plan.stretches, features.bridge_blocks)
    whole = all_blocks(statistics.n_blocks)
    tree_cost, full_cost = prices.cost(tree, base), prices.full_s
    if cost <= min(tree_cost, full_cost):
        return Settled(found, None)
    if full_cost < tree_cost:
        blocks, instead = whole, f"all in one go takes {in_words(full_cost)}"
    else:
        blocks = tree
        instead = (
            f"the {count_blocks(tree):,} blocks that the tree leaves takes {in_words(tree_cost)}"
        )
    why = (
        f"the intervals cover {count_blocks(found.blocks):,} of {statistics.n_blocks:,} blocks in "
        f"{len(found.blocks):,} stretches, {in_words(cost)} to read; reading {instead}"
    )
    return Settled(replace(found, blocks=blocks, n_events_covered=count_events(blocks, base)), why)


def worth_asking(now_s: float, after_s: float, lookup_s: float) -> bool:
    """Return whether further lookups save more than they cost.

    Parameters
    ----------
    now_s
        Seconds to replay what is left now, by actual counts.
    after_s
        Seconds to replay what will be left with their results, by estimate.
    lookup_s
        Seconds they take.
    """
    return lookup_s + min(after_s, now_s) < now_s


def is_as_expected(n_found: int, n_expected: float) -> bool:
    """Return whether a lookup found about what planning expected, and so tells nothing new.

    Examples
    --------
    >>> is_as_expected(1400, 1000.0), is_as_expected(600, 1000.0), is_as_expected(0, 0.3)
    (True, False, True)
    """
    found, expected = max(float(n_found), 1.0), max(n_expected, 1.0)
    return expected / AS_EXPECTED <= found <= expected * AS_EXPECTED


def may_check(n_found: int, spent_s: float, lookup_s: float, entry_s: float) -> bool:
    """Return whether the intervals may be computed once more before the lookups go on.

    Parameters
    ----------
    n_found
        Events found so far, by all lookups.
    spent_s
        Seconds that was done for already.
    lookup_s
        Seconds that the lookups still to be asked take.
    entry_s
        Seconds to read one index entry.

    Notes
    -----
    Whatever is found, all looks between lookups together take at most `CHECK_SHARE` of what is
    still to be asked when the last of them is taken.
    """
    return spent_s + check_cost(n_found, entry_s) <= CHECK_SHARE * lookup_s


def check_cost(n_found: int, entry_s: float) -> float:
    """Return the seconds it takes to compute intervals with so many events."""
    return CHECK_S + CHECK_ENTRIES * entry_s * n_found


def lookups_in_order(plan: Plan) -> list[Lookup]:
    """Return the plan's lookups in the order they are asked: rarest basic block first.

    Within a block rarest first too, so that what is found is few, early; conditions on gaps come
    last, as they bound nothing by themselves.
    """
    share = _shares(plan)
    block_at = plan.shape.block_at
    rarity = [1.0] * len(plan.shape.blocks)
    for condition in plan.conditions:
        if not condition.fills_gap:
            rarity[block_at[condition.position]] *= share[condition.lookup]

    def rank(condition: Condition) -> tuple[bool, float, float]:
        if condition.fills_gap:
            return True, 0.0, share[condition.lookup]
        return False, rarity[block_at[condition.position]], share[condition.lookup]

    return list(dict.fromkeys(c.lookup for c in sorted(plan.conditions, key=rank)))


class _Asking:
    """A plan while its lookups are asked one after the other."""

    def __init__(
        self, plan: Plan, query: BoundPatternQuery, statistics: Timeline, source: LookupSource
    ) -> None:
        self.plan, self.query, self.statistics, self.source = plan, query, statistics, source
        n = statistics.n_events
        self.expected = {lookup: share * n for lookup, share in _shares(plan).items()}
        self.counts: dict[Lookup, int] = {}
        self.spent_s = 0.0
        """Seconds that intervals were computed between lookups, by estimate."""
        self._found: Stretches | None = None

    def ask(self, lookup: Lookup) -> None:
        """Carry out the next lookup."""
        self.counts[lookup] = self.source.read(lookup)
        self._found = None

    def found(self) -> Stretches:
        """Return what the intervals cover by the lookups asked so far."""
        if self._found is None:
            conditions = tuple(c for c in self.plan.conditions if c.lookup in self.counts)
            so_far = replace(self.plan, conditions=conditions)
            given = self.source.occurrences(conditions)
            self._found = replay_stretches(so_far, given, self.query, self.statistics)
        return self._found

    def why_stop(self, ahead: Sequence[Lookup], features: PlanFeatures) -> str | None:
        """Return why the lookups ahead are not asked any more; None: they are."""
        last, n_last = next(reversed(self.counts.items()))
        if n_last == 0 and not all(c.fills_gap for c in self.plan.conditions if c.lookup == last):
            return f"{self._names(ahead)} not asked: no candidate is left"
        if is_as_expected(n_last, self.expected[last]):
            return None
        n_found = sum(self.counts.values())
        n_expected = sum(self.expected[lookup] for lookup in self.counts)
        weights = self.plan.weights
        # Where estimates were too low they are taken to be so for what lies ahead as well.
        surprise = max(1.0, n_found / max(n_expected, 1.0))
        n_ahead = np.array([self.expected[lookup] for lookup in ahead])
        lookup_s = surprise * float(entries_cost(n_ahead, weights).sum())
        after_s = surprise * (self.plan.estimated.cost - self.plan.estimated.index_cost)
        now_s = self._cost_now(n_found, lookup_s, features)
        if worth_asking(now_s, after_s, lookup_s):
            return None
        wrong = ""
        if surprise > SURPRISE_MIN:
            wrong = f"{n_found:,} events were found where {n_expected:,.0f} were expected; "
        return (
            f"{self._names(ahead)} not asked: {wrong}what is left takes {in_words(now_s)} to "
            f"replay, asking {in_words(lookup_s)}"
        )

    def _cost_now(self, n_found: int, lookup_s: float, features: PlanFeatures) -> float:
        """Return the seconds of a replay after the lookups so far, by intervals if that pays."""
        plan, base = self.plan, self.statistics.leaves.base
        prices = _Prices.of(features, plan.weights)
        now_s = min(prices.cost(plan.stretches, base), prices.full_s)
        if may_check(n_found, self.spent_s, lookup_s, plan.weights.entry_s):
            self.spent_s += check_cost(n_found, plan.weights.entry_s)
            now_s = min(now_s, prices.cost(self.found().blocks, base))
        return now_s

    def _names(self, lookups: Sequence[Lookup]) -> str:
        return ", ".join(dict.fromkeys(c.name for c in self.plan.conditions if c.lookup in lookups))


def _shares(plan: Plan) -> dict[Lookup, float]:
    """Return the share of events that planning expected in each lookup; all where it knew none."""
    known = {known.condition.lookup: known.fraction for known in plan.selectivities}
    return {c.lookup: known.get(c.lookup, 1.0) for c in plan.conditions}


@dataclass(frozen=True, slots=True)
class _Prices:
    """What replaying takes by the cost model, whose matcher's steps are worked out once."""

    block_s: float
    event_s: float
    seek_s: float
    full_s: float
    """Of everything."""

    @classmethod
    def of(cls, features: PlanFeatures, weights: CostParameters) -> _Prices:
        event_s = replay_cost(0.0, 1.0, 0.0, features, weights)
        full_s = estimate_full(features, weights).cost
        return cls(weights.block_s, event_s, weights.seek_s, full_s)

    def cost(self, blocks: IntArray, base: IntArray) -> float:
        """Return the seconds to replay some blocks (`replay_cost`)."""
        per_event = self.event_s * count_events(blocks, base)
        return self.block_s * count_blocks(blocks) + per_event + self.seek_s * len(blocks)
