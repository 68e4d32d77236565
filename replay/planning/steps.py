"""Steps: lookups taken one at a time, each judged by what is really left behind those before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from costmodel.features import PlanFeatures
from costmodel.guard import in_words, is_bearable
from costmodel.lookups import (
    COVER_MAX,
    ENTRIES_MIN,
    interval_cost,
    lookup_cost,
    within_cost,
)
from costmodel.parameters import CostParameters
from costmodel.plan_cost import estimate_full, replay_cost
from indexing.config import FENCE_ENTRIES
from replay.planning.block_ranges import (
    all_blocks,
    bridge,
    count_blocks,
    count_events,
    mask_of,
    ranges_of,
    without,
)
from replay.planning.intervals import Stretches
from replay.planning.lookup_state import LookupSource, LookupState
from replay.planning.plan import Condition, Left, LookupOption, Plan, PlanKind, Step
from replay.planning.relevant_rows import find_rows_of_symbols
from replay.planning.requirements import AlikeBlocks, Requirements
from replay.planning.statistics import IntArray, Timeline

EXPLORE_SHARE: Final = 0.4
"""Share of what is left to replay that lookups may take which are not expected to save anything,
if the tree tells that the events of one do not lie everywhere: conditions are correlated in real
data. Those before them that saved less than they took count as well."""

TRIED_SHARE: Final = 0.5
"""Share of what may be spent for nothing that such lookups may take: weights err as well."""

DENSE: Final = 0.25
"""How often windows would cover the stream, were the events of a lookup even in it, above which
intervals around those in nearly every block are not computed: they would leave out few rows."""

SWEEP_S: Final = 1.5e-4
"""Seconds to compute intervals, however few events were found."""


@dataclass(frozen=True, slots=True, eq=False)
class CarriedOut:
    """What the lookups of a plan leave to be replayed."""

    plan: Plan
    """The plan with the lookups that were really asked, and the steps it took."""
    stretches: Stretches
    left_s: float = math.inf
    """Seconds to replay these, of a plan that `auto` chose."""
    spent_s: float = 0.0
    """Seconds charged for lookups, of a plan that took steps."""


@dataclass(frozen=True, slots=True)
class ReplayCosts:
    """What replaying takes by the cost model, whose matcher's steps are worked out once."""

    block_s: float
    event_s: float
    seek_s: float
    full_s: float
    """Of everything."""

    @classmethod
    def of(cls, features: PlanFeatures, weights: CostParameters) -> ReplayCosts:
        """Return the costs by what the cost model is told, and its weights."""
        event_s = replay_cost(0.0, 1.0, 0.0, features, weights)
        full_s = estimate_full(features, weights).cost
        return cls(weights.block_s, event_s, weights.seek_s, full_s)

    def cost(self, blocks: IntArray, base: IntArray, alike: AlikeBlocks | None = None) -> float:
        """Return the seconds to replay some blocks (`replay_cost`), but for those not read."""
        if alike is not None:
            blocks = without(blocks, alike.mask)
        per_event = self.event_s * count_events(blocks, base)
        return self.block_s * count_blocks(blocks) + per_event + self.seek_s * len(blocks)


def carry_out(
    plan: Plan,
    statistics: Timeline,
    source: LookupSource,
    clock: Callable[[], float],
    *,
    seconds_max: float = math.inf,
) -> CarriedOut:
    """Ask the lookups of a plan, and compute what is to be replayed.

    A plan asked for by name is carried out to the letter; ``auto`` takes steps, which the clock
    times; after ``seconds_max`` no further one. Every match lies within one of the stretches,
    whatever was left out: fewer conditions only prune less.

    Notes
    -----
    The cost of replay is that of the cost model with *actual* counts, so no error of an estimate
    makes more of it than of a full replay. Not in the thesis, which estimates whole plans.
    """
    if plan.is_of_symbols:
        return CarriedOut(
            *find_rows_of_symbols(plan, statistics, source, clock, seconds_max=seconds_max)
        )
    state = LookupState(plan, statistics, source)
    if plan.takes_steps and not plan.finds_nothing:
        return _Stepping(plan, state, statistics, clock, seconds_max).run()
    if plan.kind is PlanKind.FULL:
        return CarriedOut(plan, Stretches(plan.stretches, 0, 0, statistics.n_events))
    steps = []
    if not plan.finds_nothing:
        for option in in_order(plan.options, plan):
            began = clock()
            state.ask(option.lookup, option.conditions)
            step = Step(option.name, (option.least, option.most), None, None, True, "asked for")
            steps.append(replace(step, seconds=clock() - began))
    found = state.found() if steps else all_that_is_left(plan, statistics)
    return CarriedOut(replace(plan, steps=tuple(steps)), found)


def all_that_is_left(plan: Plan, statistics: Timeline) -> Stretches:
    """Return what a plan without lookups replays: all that the tree leaves."""
    blocks = bridge(plan.stretches, 0 if plan.features is None else plan.features.bridge_blocks)
    n_events = count_events(blocks, statistics.leaves.base)
    return Stretches(blocks, 0, len(plan.stretches), n_events)


def _blocks_of(options: Iterable[LookupOption], required: Requirements) -> set[int]:
    """Return the basic blocks whose events some lookups find."""
    conditions = (condition for option in options for condition in option.conditions)
    return {required.block_at[c.position] for c in conditions if not c.fills_gap}


def in_order(options: Sequence[LookupOption], plan: Plan) -> list[LookupOption]:
    """Return lookups in the order they are asked in: rarest first, but the first of all.

    That is the rarest of the rarest basic block, around whose occurrences all else is looked for.
    Conditions on gaps come last, as they bound nothing by themselves.
    """
    n_events = 1 if plan.features is None else max(plan.features.n_events, 1)
    rarity: dict[int, float] = {}
    for option in options:
        for block in _blocks_of([option], plan.required):
            rarity[block] = rarity.get(block, 1.0) * max(option.expected, 0.5) / n_events

    def rank(option: LookupOption) -> tuple[float, float]:
        blocks = _blocks_of([option], plan.required)
        return min((rarity[block] for block in blocks), default=math.inf), option.expected

    rest = sorted(options, key=lambda option: (option.fills_gap, option.expected))
    first = min(options, key=rank, default=None)
    return rest if first is None else [first, *(option for option in rest if option is not first)]


@dataclass(frozen=True, slots=True)
class _Judged:
    """What a lookup is expected to cost and to leave."""

    option: LookupOption
    cost_s: float
    after_s: float
    why: str


def _thinned(n_each: float, share: float) -> float:
    """Return the share of places that keep something, if of ``n_each`` in each a share stays."""
    return math.expm1(-share * n_each) / math.expm1(-n_each)


class _Stepping:
    """A plan while it chooses its lookups one after the other."""

    def __init__(
        self,
        plan: Plan,
        state: LookupState,
        statistics: Timeline,
        clock: Callable[[], float],
        seconds_max: float,
    ) -> None:
        assert plan.features is not None, "a plan that takes steps was weighed"
        self._plan, self._state, self._statistics = plan, state, statistics
        self._features: PlanFeatures = plan.features
        self._weights: CostParameters = plan.weights
        self._clock, self._until = clock, clock() + seconds_max
        self._base = statistics.leaves.base
        self._prices = ReplayCosts.of(self._features, self._weights)
        self._tree = bridge(plan.stretches, self._features.bridge_blocks)
        self._tree_s = self._prices.cost(self._tree, self._base, plan.required.alike)
        self._full_s = self._prices.full_s
        self._wanted = plan.wanted_share
        self.now_s = self._wanted * min(self._tree_s, self._full_s)
        """Seconds to replay what is left now, as far as it is known."""
        self._spent_s = 0.0
        self._settled_s = 0.0
        """What was spent up to the last look at what is left."""
        self._lost_s = 0.0
        """Seconds spent on lookups that saved less than they took, as far as that is known."""
        self._steps: list[Step] = []
        self._asked: list[LookupOption] = []
        self._is_late = False
        self._why_next = "as expected from the start"
        self._planned = in_order(
            [o for o in plan.options if set(o.conditions) <= set(plan.conditions)], plan
        )

    def run(self) -> CarriedOut:
        """Take steps as long as one is worth it."""
        while (judged := self._next()) is not None:
            if self._clock() > self._until:
                self._is_late = True
                break
            self._take(judged)
        return self._settled()

    # -----------------------------------------------------------------------------------------
    # Choosing the next step

    def _next(self) -> _Judged | None:
        """Return the step to take now; None: what is left is replayed."""
        options = [option for option in self._plan.options if self._may_ask(option)]
        if not options:
            return None
        if not self._asked or not self._state.is_found:
            judged = self._expected(options)
            if judged is not None and self._is_safe(judged.cost_s):
                return judged
        if self._asked:
            self._look()
        if not self._asked:
            return self._explored([o for o in self._plan.options if self._may_ask(o)])
        if not len(self._state.found().blocks):
            return None
        return self._best(options) or self._explored(options)

    def _expected(self, options: Sequence[LookupOption]) -> _Judged | None:
        """Return the next of the lookups that were expected to be worth it from the start.

        Behind the first, only where computing what is left takes longer than asking it, or would
        find nothing less.
        """
        ahead = [option for option in self._planned if option in options]
        if not ahead:
            return None
        is_swept_sooner = self._asked and self._sweep_s() <= self._lookup_s(ahead[0])
        if is_swept_sooner and not self._lies_everywhere():
            return None
        after_s = self._plan.estimated.cost - self._plan.estimated.index_cost
        first_why = "with those that are expected to follow it"
        why = self._why_next if self._asked else first_why
        # Behind another, what both leave is swept once.
        cost_s = self._lookup_s(ahead[0]) if self._asked else self._cost(ahead[0])
        return _Judged(ahead[0], cost_s, after_s, why)

    def _blocks_of(self, *options: LookupOption) -> set[int]:
        return _blocks_of(options, self._plan.required)

    def _expected_of(self, chain: Sequence[LookupOption]) -> float:
        """Return how many events satisfy all of some lookups, if chance joins them."""
        n_events = max(self._statistics.n_events, 1)
        return n_events * math.prod(option.expected / n_events for option in chain)

    def _may_ask(self, option: LookupOption) -> bool:
        """Return whether a lookup was not asked yet and could leave anything out."""
        if option in self._asked:
            return False
        block_at, asked = self._plan.required.block_at, self._blocks_of(*self._asked)
        return not option.fills_gap or any(
            {block_at[c.position] - 1, block_at[c.position]} <= asked for c in option.conditions
        )

    def _best(self, options: Sequence[LookupOption]) -> _Judged | None:
        """Return the step that saves most; None: none saves more than it takes."""
        best, least_s = None, self.now_s
        for option in options:
            after_s = self._after(self._densities(option))
            judged = self._judged(option, after_s, "")
            if judged.cost_s + after_s < least_s:
                best, least_s = judged, judged.cost_s + after_s
        return best if best is None or self._is_safe(best.cost_s) else None

    def _explored(self, options: Sequence[LookupOption]) -> _Judged | None:
        """Return a lookup that is cheap beside what is left, and may find that far less is.

        With as many others of its basic block as are cheap together, since an event must satisfy
        them all; of the block whose events are rarest, if chance joins them.
        """
        least, tried = math.inf, list[LookupOption]()
        options = sorted(options, key=lambda option: option.expected)
        blocks = range(len(self._plan.required.blocks))
        chains = [[o for o in options if block in self._blocks_of(o)] for block in blocks]
        for chain in (*chains, *([option] for option in options if option.fills_gap)):
            while chain and not self._may_try(chain):
                chain.pop()
            expected = self._expected_of(chain)
            if chain and expected < least:
                least, tried = expected, chain
        if not tried:
            return None
        self._planned, self._why_next = tried, "tried with those before it"
        return self._judged(tried[0], self.now_s, "cheap beside what is left, it is tried")

    def _may_try(self, chain: Sequence[LookupOption]) -> bool:
        """Return whether lookups of one basic block may be tried, if nothing is expected of them.

        Only where the tree tells of one of them that its events do not lie everywhere.
        """
        if not any(option.is_uneven for option in chain):
            return False
        expected = self._expected_of(chain)
        # What is dense and turns out to lie everywhere is set aside without a sweep.
        sweep_s = 0.0 if self._is_dense(expected) and not self._asked else self._sweep_of(expected)
        cost_s = self._lookup_s(chain[0]) + sweep_s
        cost_s += sum(self._lookup_s(option, is_beside=True) for option in chain[1:])
        is_cheap = self._lost_s + cost_s <= EXPLORE_SHARE * self.now_s
        return is_cheap and self._is_safe(cost_s, TRIED_SHARE)

    def _judged(self, option: LookupOption, after_s: float, why: str) -> _Judged:
        return _Judged(option, self._cost(option), after_s, why)

    def _is_safe(self, cost_s: float, share: float = 1.0) -> bool:
        full_s = self._wanted * self._full_s
        return is_bearable(self._spent_s, cost_s, self.now_s, full_s, share)

    def _cost(self, option: LookupOption) -> float:
        """Return the seconds a lookup takes, with the intervals of what it leaves."""
        n_candidates = option.expected
        if self._state.is_found:
            n_candidates = min(n_candidates, self._state.found().n_candidates)
        return self._lookup_s(option) + self._sweep_of(n_candidates)

    def _lookup_s(self, option: LookupOption, *, is_beside: bool = False) -> float:
        """Return the seconds a lookup takes, in the rows that those before it leave.

        ``is_beside`` says that one of its basic block is asked before it, which tells its rows.
        """
        weights, keyed = self._weights, self._features.is_keyed
        n, ranges = float(option.most), option.lookup[1]
        if self._state.is_found:
            found = self._state.found()
            is_narrow = found.n_events_covered <= COVER_MAX * self._statistics.n_events
            if ranges.is_of_keys and is_narrow:
                n = min(n, float(max(found.n_intervals, 1) * FENCE_ENTRIES))
        else:
            is_narrow = not self._blocks_of(option).isdisjoint(self._blocks_of(*self._asked))
        entries = np.array(n)
        if option.most >= ENTRIES_MIN and (is_narrow or is_beside):
            return float(within_cost(entries, weights, keyed=keyed))
        return float(lookup_cost(entries, np.array(ranges.is_one_key), weights, keyed=keyed))

    def _sweep_of(self, n_candidates: float) -> float:
        """Return the seconds to compute the intervals of so many candidates."""
        return float(interval_cost(np.array(n_candidates), self._weights))

    def _sweep_s(self) -> float:
        """Return the seconds it takes to compute what is left now."""
        return SWEEP_S + 2.0 * self._sweep_of(self._state.n_given)

    def _densities(self, option: LookupOption) -> dict[int, float]:
        """Return the share of events that satisfy a lookup's conditions, by basic block."""
        share = min(option.expected / max(self._features.remaining_events, 1.0), 1.0)
        return {self._plan.required.block_at[c.position]: share for c in option.conditions}

    def _after(self, densities: dict[int, float]) -> float:
        """Return the seconds to replay what further conditions leave of what is left.

        ``densities`` are the shares of events that satisfy those of each basic block. A candidate
        stays if the row in question of a block that was looked up before satisfies them; an
        interval if a candidate stays and, of a block that was not, any row of its window does.
        """
        found = self._state.found()
        n_blocks, n = max(count_blocks(found.blocks), 1), max(found.n_intervals, 1)
        in_window = max(min(found.n_events_covered / n, 2.0 * self._features.mean_window), 1.0)
        known = self._blocks_of(*self._asked)
        of_row = of_window = 1.0
        for block, share in densities.items():
            if block in known:
                of_row *= share
            else:
                of_window *= 1.0 - (1.0 - share) ** in_window
        kept = of_window * _thinned(max(found.n_candidates / n, 1.0), of_row)
        return self.now_s * _thinned(n / n_blocks, kept)

    # -----------------------------------------------------------------------------------------
    # Taking it

    def _take(self, judged: _Judged) -> None:
        """Carry a lookup out."""
        option, began = judged.option, self._clock()
        before_s = self.now_s
        self._spent_s += self._lookup_s(option)
        self._state.ask(option.lookup, option.conditions)
        self._asked.append(option)
        why = (
            f"takes {in_words(judged.cost_s)} and may leave {in_words(judged.after_s)} of "
            f"{in_words(before_s)} to replay"
        )
        self._steps.append(
            Step(
                option.name,
                (option.least, option.most),
                judged.after_s,
                None,
                True,
                f"{why}, {judged.why}" if judged.why else why,
                self._clock() - began,
            )
        )

    def _lies_everywhere(self) -> bool:
        """Return whether what was found lies in so many blocks that no look at it would pay.

        Each interval holds the event it is around, so no fewer blocks than hold one are left.
        """
        seq = self._state.only_found()
        if seq is None or not self._is_dense(len(seq)):
            return False
        holds = np.diff(np.searchsorted(seq, self._base)) > 0
        holds &= mask_of(self._plan.stretches, self._statistics.n_blocks)
        blocks = bridge(ranges_of(holds), self._features.bridge_blocks)
        least_s = self._wanted * self._replay_s(blocks)
        # More than the least is left, and a sweep takes up to twice its estimate.
        return least_s + 2.0 * self._sweep_of(len(seq)) >= self.now_s

    def _is_dense(self, n_found: float) -> bool:
        return self._features.times_covered(n_found) > DENSE

    def _set_aside(self) -> None:
        """Go on as if what lies everywhere had not been asked, but for what it took."""
        last = self._steps[-1]
        self._steps[-1] = replace(last, why=f"{last.why}; its events lie in nearly every block")
        self._lost_s += self._spent_s - self._settled_s
        self._settled_s = self._spent_s
        self._plan = replace(
            self._plan,
            options=tuple(
                replace(option, expected=float(self._state.counts[option.lookup]), is_uneven=False)
                if option in self._asked
                else option
                for option in self._plan.options
            ),
        )
        self._planned = [option for option in self._planned if option not in self._asked]
        self._asked = []
        self._state = self._state.begun_anew(self._plan)

    def _look(self) -> None:
        """Compute exactly what is left, and note it with the last step.

        Where that would show next to nothing left out, what was found is set aside instead.
        """
        last, began = self._steps[-1], self._clock()
        if last.left is not None:
            return
        if self._lies_everywhere():
            self._set_aside()
            return
        found = self._state.found()
        self._spent_s += self._sweep_of(found.n_candidates)
        left = Left(count_blocks(found.blocks), found.n_events_covered, found.n_intervals)
        self._steps[-1] = replace(last, left=left, seconds=last.seconds + self._clock() - began)
        wanted = self._wanted
        if self._plan.matches_wanted is not None:
            wanted = min(self._plan.matches_wanted / max(found.n_candidates, 1), 1.0)
        before_s = self.now_s
        self.now_s = min(before_s, wanted * self._replay_s(found.blocks))
        spent_s = self._spent_s - self._settled_s
        self._settled_s = self._spent_s
        self._lost_s = max(self._lost_s + spent_s - (before_s - self.now_s), 0.0)

    def _settled(self) -> CarriedOut:
        """Replay what the intervals cover, or what the tree leaves, or everything: the cheapest."""
        plan, base = self._plan, self._base
        tree = Stretches(self._tree, 0, len(plan.stretches), count_events(self._tree, base))
        whole = all_blocks(self._statistics.n_blocks)
        found, kind, cost_s = tree, PlanKind.TREE, self._tree_s
        if self._asked:
            self._look()
        if self._asked:
            found, kind = self._state.found(), PlanKind.INDEXES
            cost_s = self._replay_s(found.blocks)
            if self._tree_s < cost_s:
                found = replace(found, blocks=self._tree, n_events_covered=tree.n_events_covered)
                kind, cost_s = PlanKind.TREE, self._tree_s
        is_full = plan.kind is PlanKind.FULL and not self._asked
        left = self._tree
        if plan.required.alike is not None:
            left = without(left, plan.required.alike.mask)
        is_all = kind is PlanKind.TREE and count_blocks(left) == self._statistics.n_blocks
        if is_full or is_all or self._full_s < cost_s:
            found = replace(found, blocks=whole, n_events_covered=self._statistics.n_events)
            kind, cost_s = PlanKind.FULL, self._full_s
        conditions: list[Condition] = [c for o in self._asked for c in o.conditions]
        steps = (*self._steps, *self._refused(len(found.blocks) == 0))
        done = replace(
            plan,
            kind=kind,
            conditions=tuple(sorted(conditions, key=lambda c: c.order)),
            steps=tuple(steps),
        )
        done = replace(done, reason=self._reason(done, cost_s))
        return CarriedOut(done, found, self._wanted * cost_s, self._spent_s)

    def _replay_s(self, blocks: IntArray) -> float:
        """Return the seconds to replay some blocks."""
        return self._prices.cost(blocks, self._base, self._plan.required.alike)

    def _refused(self, is_empty: bool) -> list[Step]:
        """Return the lookups that were not asked, and why."""
        refused, taken = [], {step.lookup for step in self._steps}
        for option in self._plan.options:
            if option.name in taken:
                continue
            after_s = None
            if self._is_late:
                why = "not asked: the time is over"
            elif is_empty:
                why = "not asked: nothing is left"
            elif not self._may_ask(option):
                why = "not asked: it bounds a gap whose ends were not both looked up"
            else:
                cost_s = self._cost(option)
                why = f"not asked: it takes {in_words(cost_s)}, replaying {in_words(self.now_s)}"
                if not option.is_uneven:
                    why += ", and for all the tree tells its events lie everywhere"
                if self._asked:
                    after_s = self._after(self._densities(option))
                    why += f"; about {in_words(after_s)} of it would be left"
            refused.append(
                Step(option.name, (option.least, option.most), after_s, None, False, why)
            )
        return refused

    def _reason(self, plan: Plan, cost_s: float) -> str:
        """Return why this is replayed, in one sentence."""
        full = f"{in_words(self._full_s)} for a full replay"
        if plan.kind is PlanKind.FULL:
            return (
                f"full replay: nothing else is expected to take less than {in_words(self._full_s)}"
                if not self._asked
                else f"full replay: reading what the lookups leave takes no less than {full}"
            )
        if plan.kind is PlanKind.TREE:
            lookups = "no lookup is worth it" if not self._asked else "the lookups leave no less"
            return f"tree: what it leaves takes {in_words(cost_s)} to replay, and {lookups}; {full}"
        return (
            f"{plan.name}: {len(self._asked)} of {len(plan.options)} lookups leave "
            f"{in_words(cost_s)} to replay; {full}"
        )
