"""Adaptive safety: what a plan does once it is seen what its lookups really found."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from costmodel.choice import in_words
from costmodel.features import PlanFeatures
from costmodel.lookups import full_costs, within_cost
from replay.language.bound import BoundPatternQuery
from replay.planning.block_ranges import all_blocks, bridge, count_blocks, count_events
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.lookup_order import expected_shares, lookups_in_order
from replay.planning.narrowing import (
    FURTHER_GAIN,
    Narrowed,
    Windows,
    expected_hits,
    may_ask_rows,
    may_narrow,
    meet,
    narrow,
    rows_of_neighbours,
    rows_of_places,
    windows_of_part,
)
from replay.planning.plan import Condition, Lookup, Occurrences, Plan, PlanKind, Selectivity, Slot
from replay.planning.prices import Prices
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

    def read(self, lookup: Lookup, windows: Windows | None = None) -> int:
        """Carry out a lookup and return how many events are in its ranges.

        Events outside the windows may be left out.
        """
        ...

    def rows(self, lookup: Lookup) -> IntArray:
        """Return the events found by a lookup, ascending; it has been read."""
        ...

    def occurrences(self, conditions: Collection[Condition]) -> Mapping[Slot, Occurrences]:
        """Return what was read for conditions, by their slots; their lookups have been read.

        Not for lookups read in windows whose events have times, unless they have keys as well.
        """
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
                return _besides(settled, stopped)
    further = [] if features is None else asking.ask_further(features)
    return _besides(settle(plan, asking.found(), statistics, features), *further)


def _besides(settled: Settled, *reasons: str) -> Settled:
    """Return what is replayed with what else was done otherwise than planned."""
    said = (*reasons, *([] if settled.switched is None else [settled.switched]))
    return replace(settled, switched="; ".join(said) or None)


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
    prices = Prices.of(features, plan.weights)
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


class _Asking:
    """A plan while its lookups are asked one after the other."""

    def __init__(
        self, plan: Plan, query: BoundPatternQuery, statistics: Timeline, source: LookupSource
    ) -> None:
        self.plan, self.query, self.statistics, self.source = plan, query, statistics, source
        self._n_asked = statistics.n_events if plan.part is None else plan.part.n_events
        self.expected = {
            lookup: share * self._n_asked for lookup, share in expected_shares(plan).items()
        }
        n_events = statistics.n_events
        self._at_most = {k.condition.lookup: k.at_most * n_events for k in plan.selectivities}
        self.counts: dict[Lookup, int] = {}
        self.spent_s = 0.0
        """Seconds that intervals were computed between lookups, by estimate."""
        self._given: dict[Slot, Occurrences] = {}
        """What was found, as far as later lookups left it."""
        self._anchors: list[Occurrences] = []
        """What was found by lookups asked without windows."""
        self._met: set[int] = set()
        """Basic blocks of which events were looked for beside others."""
        self._narrowed: Narrowed | None = None
        self._found: Stretches | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those asked so far, in the plan's order."""
        return tuple(c for c in self.plan.conditions if c.lookup in self.counts)

    def ask(self, lookup: Lookup) -> None:
        """Carry out the next lookup, in windows where those before leave little of the stream."""
        conditions = [c for c in self.plan.conditions if c.lookup == lookup]
        windows, known = self._windows(lookup, conditions)
        part = self.plan.part
        asked = windows
        if windows is None and part is not None:
            asked = windows_of_part(part, self.statistics.leaves.base)
        self.counts[lookup] = self.source.read(lookup, asked)
        if known is not None:
            self._keep(conditions, meet(known, self.source.rows(lookup)))
        elif self._has_keys:  # which are numbered anew for all that was found
            self._given.update(self.source.occurrences(self.conditions))
        else:
            found = self.source.occurrences(conditions)
            self._given.update(found)
            if windows is None:
                self._anchors.extend({id(given): given for given in found.values()}.values())
        self._narrowed = self._found = None

    def _windows(
        self, lookup: Lookup, conditions: Sequence[Condition]
    ) -> tuple[Windows | None, Mapping[int, Occurrences] | None]:
        """Return where to look for the events of a lookup, None for everywhere.

        And, where all of them are known by other attributes of their places, what is known.
        """
        places = {condition.place for condition in conditions}
        n_entries, n_events = self.expected[lookup], self.statistics.n_events
        beside = None
        if not self._has_keys:
            beside = rows_of_neighbours(self.plan, self._given, places, n_entries, n_events)
        # Of single keys row groups without a row in windows are left out: a sweep leaves most out.
        if beside is not None and not (lookup[1].is_of_keys and self._narrow(lookup)):
            self.expected[lookup] = n_entries * min(1.0, beside.n_rows / max(self._n_asked, 1))
            self._met.update(self.plan.shape.block_at[place] for place in places)
            return beside, None
        narrowed = self._narrow(lookup)
        if narrowed is not None:
            windows = narrowed.windows(conditions)
            if not windows.are_narrow(self._n_asked):
                return None, None
            is_known = windows.has_times and not self._has_keys
            return windows, {p: narrowed.found[p] for p in places} if is_known else None
        lists: dict[int, Occurrences] = {}
        for (place, _), given in self._given.items():
            if place in places and (place not in lists or len(given.seq) < len(lists[place].seq)):
                lists[place] = given
        if self._has_keys or len(lists) < len(places):
            return None, None
        windows = rows_of_places(lists)
        may_ask = may_ask_rows(windows.n_rows, self.expected[lookup])
        return (windows, lists) if may_ask else (None, None)

    def _keep(self, conditions: Sequence[Condition], left: Mapping[int, Occurrences]) -> None:
        """Take what is left of places for the occurrences of all their attributes."""
        for slot in (*self._given, *(condition.slot for condition in conditions)):
            if slot[0] in left:
                self._given[slot] = left[slot[0]]

    @property
    def _has_keys(self) -> bool:
        return any(given.keys is not None for given in self._given.values())

    def _narrow(self, lookup: Lookup) -> Narrowed | None:
        """Return what is left of the stream for a lookup; None: not worth finding out."""
        n_given = sum({id(given): len(given.seq) for given in self._given.values()}.values())
        n_hits = expected_hits(self._given, self.plan, self._n_asked, self._met)
        times_covered = 0.0
        part = self.plan.part
        features = self.plan.features if part is None else part.features
        # A sweep done before may be used whatever it would be worth now.
        if features is not None and self._narrowed is None:
            times_covered = features.times_covered(n_hits)
        if not may_narrow(n_hits, n_given, self.expected[lookup], times_covered):
            return None
        if self._narrowed is None:
            asked = self.conditions
            plan = replace(self.plan, conditions=asked)
            narrowed = narrow(plan, self._given, self.query, self.statistics, self._anchors)
            self._narrowed = narrowed
            if not self._has_keys:
                self._given.update(narrowed.given(asked))
        return self._narrowed

    def found(self) -> Stretches:
        """Return what the intervals cover by the lookups asked so far."""
        if self._found is None:
            so_far = replace(self.plan, conditions=self.conditions)
            self._found = replay_stretches(so_far, self._given, self.query, self.statistics)
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
        # Where estimates were too low they are taken to be so for what lies ahead as well, but for
        # what fences prove: how many entries a lookup reads at most is known before it is asked.
        surprise = max(1.0, n_found / max(n_expected, 1.0))
        n_ahead = np.array([self._at_worst(lookup, surprise) for lookup in ahead])
        in_order = np.array([ranges.is_one_key for _, ranges in ahead])
        lookup_s = float(full_costs(n_ahead, in_order, weights, keyed=features.is_keyed).sum())
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

    def _at_worst(self, lookup: Lookup, surprise: float) -> float:
        """Return how many entries a lookup finds if the estimate is so many times too low."""
        return min(surprise * self.expected[lookup], self._at_most.get(lookup, math.inf))

    def ask_further(self, features: PlanFeatures) -> list[str]:
        """Ask lookups that were not planned where so little is left that they are cheap now.

        Returns
        -------
        list of str
            A sentence on each of them.
        """
        said: list[str] = []
        while True:
            best = self._best_further(features)
            if best is None:
                return said
            lookup, why = best
            known = (k.condition for k in self.plan.selectivities)
            added = tuple(c for c in known if c.lookup == lookup and not c.fills_gap)
            self.plan = replace(self.plan, conditions=(*self.plan.conditions, *added))
            said.append(f"{self._names([lookup])} {why}")
            self.ask(lookup)

    def _best_further(self, features: PlanFeatures) -> tuple[Lookup, str] | None:
        """Return the lookup not planned that saves most, and why it is asked; None: none does."""
        unasked: dict[Lookup, list[Selectivity]] = {}
        for known in self.plan.selectivities:
            is_new = known.indexed and known.condition.lookup not in self.counts
            if is_new and not known.is_said and not known.condition.fills_gap:
                unasked.setdefault(known.condition.lookup, []).append(known)
        weights, base, part = self.plan.weights, self.statistics.leaves.base, self.plan.part
        prices = Prices.of(features, weights)
        # Whatever is found, this is read through.
        certain_s = 0.0 if part is None else prices.cost(part.through, base)
        best, why, least_s = None, "", math.inf
        for lookup, conditions in unasked.items():
            n_entries = conditions[0].fraction * self.statistics.n_events
            self.expected[lookup] = (
                n_entries if part is None else part.expected.get(lookup, n_entries)
            )
            narrowed = self._narrow(lookup)
            if narrowed is None or len(narrowed.spans[0]) == 0:
                continue
            n_read = narrowed.entries_within(lookup, n_entries)
            lookup_s = within_cost(n_read, weights, keyed=features.is_keyed)
            now_s = prices.cost(self.found().blocks, base)
            share = self.expected[lookup] / max(self._n_asked, 1)
            left = [narrowed.kept_share(known.condition, share) for known in conditions]
            thinned_s = max(now_s - certain_s, 0.0) * float(np.prod(left))
            after_s = lookup_s + min(certain_s, now_s) + thinned_s
            if after_s < min(least_s, FURTHER_GAIN * now_s):
                best, least_s = lookup, after_s
                why = (
                    f"asked as well: what is left takes {in_words(now_s)} to replay, asking "
                    f"{in_words(lookup_s)}"
                )
        return None if best is None else (best, why)

    def _cost_now(self, n_found: int, lookup_s: float, features: PlanFeatures) -> float:
        """Return the seconds of a replay after the lookups so far, by intervals if that pays."""
        plan, base = self.plan, self.statistics.leaves.base
        prices = Prices.of(features, plan.weights)
        now_s = min(prices.cost(plan.stretches, base), prices.full_s)
        if self._narrowed is not None:
            now_s = min(now_s, prices.cost(self.found().blocks, base))
        elif may_check(n_found, self.spent_s, lookup_s, plan.weights.entry_s):
            self.spent_s += check_cost(n_found, plan.weights.entry_s)
            now_s = min(now_s, prices.cost(self.found().blocks, base))
        return now_s

    def _names(self, lookups: Sequence[Lookup]) -> str:
        return ", ".join(dict.fromkeys(c.name for c in self.plan.conditions if c.lookup in lookups))
