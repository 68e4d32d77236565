"""Plans `relevant` and `index-only`: rows that some symbol can map; all others change nothing.

The first reads the blocks that may hold such rows, by lookups or by the tree. Where lookups tell
exactly which rows each symbol can map, and nothing else is asked of these, the second reads none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from costmodel.features import PlanFeatures
from costmodel.guard import SAVING_MIN, in_words, is_bearable
from costmodel.lookups import lookup_cost
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate, replay_cost
from replay.errors import PlanError
from replay.planning.ascending import are_in
from replay.planning.block_ranges import (
    all_blocks,
    bridge,
    count_blocks,
    count_events,
    mask_of,
    no_blocks,
    ranges_of,
)
from replay.planning.coarse_map import bounds_by_block, draw_coarse_map
from replay.planning.extremes import may_contain
from replay.planning.intervals import BRIDGE_BLOCKS, Stretches
from replay.planning.lookup_state import LookupSource
from replay.planning.named_plans import INDEX_ONLY, conditions_of
from replay.planning.plan import Condition, IndexLookup, Left, LookupOption, Plan, PlanKind, Step
from replay.planning.requirements import Position, Requirements
from replay.planning.row_filter import RowFilter, may_ask_rows
from replay.planning.statistics import BoolArray, FloatArray, IntArray, StreamStatistics, Timeline

HIT_MAX: Final = 0.9
"""Share of a symbol's blocks up to which further lookups are worth a thought, of those before."""


def of_symbols_by_name(
    requested: str,
    required: Requirements,
    statistics: StreamStatistics,
    features: PlanFeatures,
    full: Estimate,
    parameters: CostParameters,
) -> Plan:
    """Return one of the two plans as it is asked for by name: with all lookups that may be of use.

    Raises
    ------
    PlanError
        If it cannot apply, saying why.
    """
    why = required.why_not_relevant
    if why is None and requested == INDEX_ONLY:
        why = required.why_not_index_only
    weighed = None
    if why is None:
        blocks = all_blocks(statistics.n_blocks)
        if required.only_full is None:
            blocks = draw_coarse_map(required, statistics).stretches
        weighed = _Weighed(required, statistics, features, full, parameters, blocks)
        if requested == INDEX_ONLY:
            why = weighed.why_not_exact
    if weighed is None or why is not None:
        raise PlanError(f"plan '{requested}' cannot apply: {why}; use plan 'auto'")
    is_exact = requested == INDEX_ONLY
    kind = PlanKind.INDEX_ONLY if is_exact else PlanKind.RELEVANT
    options = weighed.exact_options() if is_exact else weighed.options()
    return weighed.plan(kind, options, f"{requested}: it was asked for")


def cheapest_of_symbols(
    plan: Plan, statistics: StreamStatistics, parameters: CostParameters
) -> Plan:
    """Return the plan chosen before, or one of these two where it is expected to be cheaper.

    Else the better one is the rival of a plan that takes steps, whose estimates may err. With LIMIT
    a full replay may end at once, so that nothing can be said of what takes less.
    """
    required, full, features = plan.required, plan.full_estimate, plan.features
    if required.why_not_relevant is not None or required.matches_wanted is not None:
        return plan
    if full is None or features is None or plan.finds_nothing:
        return plan
    weighed = _Weighed(required, statistics, features, full, parameters, plan.stretches)
    rivals = [
        weighed.plan(
            PlanKind.RELEVANT,
            options,
            "rows outside the ranges of all symbols change nothing, and reading the others",
        )
        for options in dict.fromkeys(((), weighed.options()))
    ]
    if required.why_not_index_only is None and weighed.why_not_exact is None:
        reason = "entries of indexes say all that is asked of rows, and reading them"
        rivals.append(weighed.plan(PlanKind.INDEX_ONLY, weighed.exact_options(), reason))
    best = min(rivals, key=lambda rival: rival.estimated.cost)
    expected = best.estimated.cost
    reason = (
        f"{best.name}: {best.reason} is expected to take {in_words(expected)}, "
        f"{in_words(full.cost)} for a full replay"
    )
    best = replace(best, reason=reason, takes_steps=True)
    if expected < plan.estimated.cost and pays(best, 0.0, full.cost):
        return best
    return replace(plan, rival=best) if plan.takes_steps else plan


def pays(plan: Plan, spent_s: float, left_s: float) -> bool:
    """Return whether the plan is worth its lookups where ``left_s`` remain to be replayed.

    Of plan `relevant` they must be expected to save several times what they take, and only go on
    if they could not make the whole take longer than the guard allows, were they to leave all of
    that. Behind those of `index-only` nothing remains. ``spent_s`` went to others before.
    """
    assert plan.full_estimate is not None
    expected, index_s = plan.estimated.cost, plan.estimated.index_cost
    if plan.kind is PlanKind.INDEX_ONLY:
        return expected < plan.weights.full_margin * left_s
    is_cheaper = expected + (SAVING_MIN - 1.0) * index_s < plan.weights.full_margin * left_s
    return is_cheaper and is_bearable(spent_s, index_s, left_s, plan.full_estimate.cost)


class _Weighed:
    """The symbols of a pattern, and the blocks in which the tree says that rows of each may lie.

    ``stretches`` are what the coarse pattern map leaves, where it may leave out anything.

    Why: with all rows of these that fit symbols at hand there is no match too many either. Its
    rows would be a candidate, so that they lie in one stretch, of which no row is missing.
    """

    def __init__(
        self,
        required: Requirements,
        statistics: StreamStatistics,
        features: PlanFeatures,
        full: Estimate,
        parameters: CostParameters,
        stretches: IntArray,
    ) -> None:
        self._required, self._statistics = required, statistics
        self._features, self._full, self._parameters = features, full, parameters
        self._takes_key = statistics.key in required.of_entries
        inside = mask_of(stretches, statistics.n_blocks)
        self._masks = [_admitted(one, required, statistics) & inside for one in required.relevant]
        self._stretches = ranges_of(self._united(range(len(self._masks))))
        self._counted: dict[IndexLookup, LookupOption] = {}
        self._conditions = [
            sorted(
                conditions_of(place, symbol, statistics.indexed, statistics.composites),
                key=lambda condition: self._count(condition).most,
            )
            for place, symbol in enumerate(required.relevant)
        ]

    def _united(self, places: Iterable[int]) -> BoolArray:
        none = np.zeros(self._statistics.n_blocks, np.bool_)
        found: BoolArray = np.logical_or.reduce([none, *(self._masks[place] for place in places)])
        return found

    def _count(self, condition: Condition) -> LookupOption:
        """Return what is known of a condition's lookup."""
        lookup, statistics = condition.lookup, self._statistics
        if lookup not in self._counted:
            within = statistics.leaves.base[self._stretches]
            least, most = statistics.estimate_count(*lookup, within=within)
            expected = (least + most) / 2
            self._counted[lookup] = LookupOption(lookup, (), least, most, expected, False)
        return self._counted[lookup]

    def _share_hit(self, place: int, conditions: Sequence[Condition]) -> float:
        """Return the share of a symbol's blocks with a row that satisfies conditions, by chance."""
        n_rows = self._n_rows(conditions)
        return float(-np.expm1(-n_rows / max(int(self._masks[place].sum()), 1)))

    def _n_rows(self, conditions: Sequence[Condition]) -> float:
        """Return how many rows are expected to satisfy some conditions, were they independent."""
        n_events = max(self._statistics.n_events, 1)
        shares = [self._count(condition).expected / n_events for condition in conditions]
        return n_events * float(np.prod(shares))

    def options(self) -> tuple[LookupOption, ...]:
        """Return the lookups that may leave out some of the blocks of their symbols.

        Of each symbol the rarest first, as many as leave out some that those before leave.
        """
        asked: list[Condition] = []
        for place, conditions in enumerate(self._conditions):
            share, n_asked = 1.0, 0
            for n in range(1, len(conditions) + 1):
                hit = self._share_hit(place, conditions[:n])
                if hit <= HIT_MAX * share:
                    share, n_asked = hit, n
            asked += conditions[:n_asked]
        return self._options(asked)

    @property
    def why_not_exact(self) -> str | None:
        """Why lookups do not tell exactly which rows each symbol can map; None: they do."""
        for place, symbol in enumerate(self._required.relevant):
            known = {name for condition in self._conditions[place] for name, _ in condition.parts}
            for name in symbol.ranges:
                if name not in known:
                    return f"no index holds '{name}', which the condition of {symbol.symbol} bounds"
        if self._takes_key:
            for option in self.exact_options():
                if not self._statistics.holds_key(option.lookup[0]):
                    lacks = "was written, in part, without the stream's key column"
                    return f"the index of '{option.lookup[0]}' {lacks}"
        return None

    def exact_options(self) -> tuple[LookupOption, ...]:
        """Return the lookups that tell of each symbol all that its ranges say."""
        asked: list[Condition] = []
        for conditions in self._conditions:
            said = set[str]()
            for condition in conditions:
                names = {name for name, _ in condition.parts}
                if not names <= said:
                    asked.append(condition)
                    said |= names
        return self._options(asked)

    def _options(self, asked: Iterable[Condition]) -> tuple[LookupOption, ...]:
        """Return the lookups of conditions, equal ones once."""
        by_lookup: dict[IndexLookup, list[Condition]] = {}
        for condition in asked:
            by_lookup.setdefault(condition.lookup, []).append(condition)
        return tuple(
            replace(self._counted[lookup], conditions=tuple(conditions))
            for lookup, conditions in by_lookup.items()
        )

    def plan(self, kind: PlanKind, options: tuple[LookupOption, ...], why: str) -> Plan:
        """Return the plan with some lookups, and what it is expected to take."""
        asked = tuple(condition for option in options for condition in option.conditions)
        by_place = [
            [condition for condition in asked if condition.position == place]
            for place in range(len(self._masks))
        ]
        others = [place for place, conditions in enumerate(by_place) if not conditions]
        return Plan(
            kind,
            tuple(sorted(asked, key=lambda condition: condition.order)),
            self._required,
            self._stretches,
            self._estimated(kind, options, by_place),
            why,
            n_blocks=self._statistics.n_blocks,
            full_estimate=self._full,
            weights=self._parameters,
            features=self._features,
            options=options,
            not_asked=ranges_of(self._united(others)) if others else no_blocks(),
        )

    def _estimated(
        self, kind: PlanKind, options: Sequence[LookupOption], by_place: list[list[Condition]]
    ) -> Estimate:
        n_entries = np.array([float(option.most) for option in options])
        in_order = np.array([option.lookup[1].is_one_key for option in options], np.bool_)
        keyed = kind is PlanKind.INDEX_ONLY and self._takes_key
        cost = lookup_cost(n_entries, in_order, self._parameters, keyed=keyed)
        index_s = float(cost.sum())
        n_blocks = n_stretches = 0.0
        if kind is PlanKind.INDEX_ONLY:
            n_events = sum(map(self._n_rows, by_place))
        else:
            kept = self._expected(by_place)
            n_blocks = float(kept.sum())
            n_events = float(kept @ self._statistics.leaves.count)
            n_stretches = float(kept[:1].sum() + (kept[1:] * (1.0 - kept[:-1])).sum())
        counts = n_blocks, n_events, n_stretches
        return Estimate(
            cost=index_s + replay_cost(*counts, self._features, self._parameters),
            blocks=n_blocks,
            entries=float(n_entries.sum()),
            alpha=min(n_events / max(self._statistics.n_events, 1), 1.0),
            candidates=0.0,
            index_cost=index_s,
            stretches=n_stretches,
        )

    def _expected(self, by_place: list[list[Condition]]) -> FloatArray:
        """Return how likely each block is read, if the events of lookups lie where chance has them.

        Those of one symbol are as likely in each block that the tree admits.
        """
        missed = np.ones(self._statistics.n_blocks)
        for place, mask in enumerate(self._masks):
            conditions = by_place[place]
            share = self._share_hit(place, conditions) if conditions else 1.0
            missed *= 1.0 - share * mask
        return np.asarray(1.0 - missed)


def _admitted(symbol: Position, required: Requirements, statistics: StreamStatistics) -> BoolArray:
    """Return the blocks that may hold a row of a symbol, by the tree's minima and maxima."""
    masks = [
        may_contain(ranges, bounds_by_block(name, required, statistics))
        for name, ranges in symbol.ranges.items()
    ]
    found: BoolArray = np.logical_and.reduce(masks)
    return found


def find_rows_of_symbols(
    plan: Plan,
    statistics: Timeline,
    source: LookupSource,
    clock: Callable[[], float],
    *,
    seconds_max: float,
) -> tuple[Plan, Stretches, float]:
    """Ask the plan's lookups; return it with its steps, what is left, and the seconds to replay it.

    After ``seconds_max`` no further lookup is asked; then all that the tree leaves is left. Where
    ``auto`` chose to read blocks, all are read in one go if that takes no longer.
    """
    until = clock() + seconds_max
    rows: dict[int, IntArray] = {}
    steps: list[Step] = []
    is_late = False
    for option in sorted(plan.options, key=lambda one: one.expected):
        counted, began = (option.least, option.most), clock()
        if began > until:
            why, is_late = "not asked: the time is over", True
            steps.append(Step(option.name, counted, None, None, False, why))
            continue
        places = dict.fromkeys(condition.position for condition in option.conditions)
        source.read(option.lookup, _rows_known(rows, places, option.expected))
        found = source.rows(option.lookup)
        for place in places:
            rows[place] = _in_both(rows[place], found) if place in rows else found
        why = "rows of its symbols are looked for"
        steps.append(Step(option.name, counted, None, None, True, why, clock() - began))
    if plan.kind is PlanKind.INDEX_ONLY and not is_late:
        stretches = Stretches(no_blocks(), 0, 0, 0, of_symbols=rows)
    else:
        wanted = plan.stretches if is_late else plan.not_asked
        mask = mask_of(wanted, statistics.n_blocks)
        for seq in rows.values():
            mask |= _blocks_hit(seq, statistics.leaves.base)
        mask &= mask_of(plan.stretches, statistics.n_blocks)
        blocks = bridge(ranges_of(mask), BRIDGE_BLOCKS)
        n_events = count_events(blocks, statistics.leaves.base)
        stretches = Stretches(blocks, 0, len(blocks), n_events)
    return _settled(plan, tuple(steps), stretches, statistics)


def _rows_known(
    rows: Mapping[int, IntArray], places: Iterable[int], n_entries: float
) -> RowFilter | None:
    """Return the rows of places that other lookups found, where asking in them alone is worth it.

    The times of these are known, so that none need be read again.
    """
    known = [rows.get(place) for place in places]
    found = [seq for seq in known if seq is not None]
    if len(found) < len(known) or not may_ask_rows(sum(map(len, found)), n_entries):
        return None
    return RowFilter(tuple(found), None, has_times=True)


def _settled(
    plan: Plan, steps: tuple[Step, ...], found: Stretches, statistics: Timeline
) -> tuple[Plan, Stretches, float]:
    """Return what is replayed in the end, see `find_rows_of_symbols`."""
    n_blocks, n_events = count_blocks(found.blocks), found.n_events_covered
    if steps:
        left = Left(n_blocks, n_events, found.n_intervals)
        steps = (*steps[:-1], replace(steps[-1], left=left))
    done, full = replace(plan, steps=steps), plan.full_estimate
    assert plan.features is not None
    left_s = replay_cost(n_blocks, n_events, len(found.blocks), plan.features, plan.weights)
    if plan.takes_steps and full is not None and left_s >= full.cost:
        why = f"full replay: reading what is relevant takes no less than {in_words(full.cost)}"
        done = replace(done, kind=PlanKind.FULL, conditions=(), reason=why)
        blocks = all_blocks(statistics.n_blocks)
        return done, Stretches(blocks, 0, len(blocks), statistics.n_events), full.cost
    return done, found, left_s


def _in_both(one: IntArray, other: IntArray) -> IntArray:
    """Return what ascends in both of two arrays, none of it twice."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    return few[are_in(few, many)]


def _blocks_hit(seq: IntArray, base: IntArray) -> BoolArray:
    """Return the blocks that hold one of some rows, which ascend."""
    at = np.searchsorted(seq, base)
    return np.asarray(at[1:] > at[:-1])
