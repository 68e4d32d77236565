"""What the cost model is told: how rare conditions are, and where in the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features import PlanFeatures, whole_stream
from indexing.config import FENCE_ENTRIES
from replay.language.bound import (
    BoundPatternQuery,
    Call,
    Expression,
    Semantics,
    SkipMode,
    attributes,
)
from replay.planning.appended import Aside
from replay.planning.block_ranges import count_blocks, mask_of, no_blocks
from replay.planning.coarse_map import position_masks, surviving_buckets
from replay.planning.composed import is_said, said_once
from replay.planning.expected import expected_in, expected_together
from replay.planning.extremes import TimeBounds, may_contain
from replay.planning.fills import Fills
from replay.planning.intervals import BRIDGE_BLOCKS
from replay.planning.joint import with_lifts
from replay.planning.pinned import cut_to_ends
from replay.planning.plan import Condition, Lookup, Selectivity
from replay.planning.requests import (
    all_conditions,
    gap_conditions,
    index_conditions,
    rows_beside,
)
from replay.planning.sampling import SampleEvents
from replay.planning.segments import Pool, to_segments, window_rates
from replay.planning.shape import PatternShape
from replay.planning.shares import BlockShares, Spread
from replay.planning.statistics import AttributeBounds, BoolArray, IntArray, StreamStatistics

FROM_FENCES = "index fences"
FROM_TREE = "even between the tree's minima and maxima"


@dataclass(frozen=True, slots=True)
class CoarseMap:
    """What the coarse pattern map says."""

    stretches: IntArray
    """Blocks outside which no match can lie, shape (n, 2)."""
    admitted: dict[Condition, BoolArray]
    """Blocks that may hold an event in a condition's range."""
    bounds: dict[str, AttributeBounds | TimeBounds]
    """Least and greatest values of each attribute the pattern bounds, by block."""


def draw_coarse_map(
    query: BoundPatternQuery, shape: PatternShape, statistics: StreamStatistics
) -> CoarseMap:
    """Match the pattern over the tree's leaves."""
    if shape.is_impossible or shape.rows_min > statistics.n_events:
        return CoarseMap(no_blocks(), {}, {})
    leaves = statistics.leaves
    conditions = all_conditions(shape)
    bounds: dict[str, AttributeBounds | TimeBounds] = {}
    for name in dict.fromkeys(condition.attribute for condition in conditions):
        is_time = name == query.time
        bounds[name] = (
            TimeBounds(leaves.t_min, leaves.t_max) if is_time else statistics.bounds(name)
        )
    admitted: dict[Condition, BoolArray] = {}
    by_lookup: dict[Lookup, BoolArray] = {}
    for condition in conditions:
        if condition.lookup not in by_lookup:
            mask = may_contain(condition.ranges, bounds[condition.attribute])
            by_lookup[condition.lookup] = mask
        admitted[condition] = by_lookup[condition.lookup]
    masks = position_masks(len(shape.positions), admitted)
    stretches = surviving_buckets(shape, masks, leaves, within=query.within)
    stretches = cut_to_ends(stretches, query, shape, leaves)
    return CoarseMap(stretches, admitted, bounds)


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """A query's conditions and what the cost model is told of them."""

    usable: tuple[Condition, ...]
    """Conditions of positions with an index, by position: those of ``features``."""
    features: PlanFeatures
    lookups: tuple[Lookup, ...]
    """The lookups of ``features``, in their order."""
    fills: Fills
    """Conditions of gaps with an index, which the cost model does not know."""
    aside: Aside
    """Conditions of positions asked for by name though others say more."""
    selectivities: tuple[Selectivity, ...]
    """What is known of each range of the pattern, by position."""
    segment: IntArray
    """Segment of each block of the stream, shape (n_blocks,); -1 where it does not remain."""
    never: Condition | None
    """A condition every match needs and no event satisfies, as fences prove; None: there may be
    matches."""

    def seen_together(self, blocks: Sequence[tuple[int, int]], events: SampleEvents) -> Weighed:
        """Return the same with what a sample shows of conditions that hold together."""
        lifted = with_lifts(self.features, self.usable, blocks, self.segment, events)
        return self if lifted is self.features else replace(self, features=lifted)

    def rows_of(self, plans: Sequence[Sequence[Condition]]) -> BoolArray:
        """Return plans as the cost model takes them, shape (n_plans, n_conditions)."""
        used = [frozenset(plan) for plan in plans]
        rows = [[condition in chosen for condition in self.usable] for chosen in used]
        return np.array(rows, dtype=np.bool_).reshape(len(plans), len(self.usable))

    def fill(self, plan: tuple[Condition, ...]) -> tuple[Condition, ...]:
        """Return a plan with lookups of what fills its gaps; none if there are no such."""
        added = self.fills.beside(plan)
        return tuple(sorted((*plan, *added), key=lambda c: c.order)) if added else ()

    def as_features(self, plan: tuple[Condition, ...]) -> tuple[PlanFeatures, BoolArray]:
        """Return any plan as the cost model takes it: features and one row of conditions."""
        features, lookups, row = self.features, self.lookups, self.rows_of([plan])[0]
        added = [condition for condition in plan if condition in self.aside.density]
        if added:
            features, lookups = self.aside.append(features, lookups, plan)
            row = np.append(row, [True] * len(added))
        if not any(condition.fills_gap for condition in plan):
            return features, row
        return self.fills.merge(features, lookups, row, plan)

    def plan_of(self, row: BoolArray) -> tuple[Condition, ...]:
        """Return the conditions of one such row."""
        return tuple(c for c, used in zip(self.usable, row.tolist(), strict=True) if used)


def weigh(
    query: BoundPatternQuery,
    shape: PatternShape,
    statistics: StreamStatistics,
    coarse: CoarseMap,
    *,
    with_indexes: bool = True,
    asked: Sequence[Condition] = (),
) -> Weighed:
    """Gather what the cost model needs to estimate any set of a query's conditions.

    Parameters
    ----------
    coarse
        The coarse pattern map, with at least one stretch.
    with_indexes
        False leaves indexes aside: what is known is what the tree tells.
    asked
        Conditions of a plan asked for by name, of which some may not be worth a thought else.
    """
    singles = all_conditions(shape)
    known = _Known.of(shape, statistics, asked, singles) if with_indexes else _Known((), (), (), ())
    usable, gaps = known.usable, known.gaps
    counted = _Counted.of(known.counted, statistics, coarse.stretches)
    crowding = 1.0
    if with_indexes and query.within is not None and len(shape.blocks) > 1:
        crowding = statistics.crowding(query.within)
    composed = tuple(c for c in (*usable, *known.aside) if c.together)
    rates = _Rates.of(
        query, shape, statistics, coarse, (*composed, *gaps), counted.between, crowding
    )
    lookups = list(dict.fromkeys(condition.lookup for condition in usable))
    number = {lookup: at for at, lookup in enumerate(lookups)}
    block_at = shape.block_at
    conditions = said_once(singles, [c for c in usable if c.together])
    features = PlanFeatures(
        n_events=statistics.n_events,
        n_blocks=statistics.n_blocks,
        n_columns=len(columns_matched(query)),
        n_predicates=count_predicates(query),
        bridge_blocks=BRIDGE_BLOCKS,
        block_lengths=np.array([stop - first for first, stop in shape.blocks], dtype=np.int64),
        starts_exact=not shape.leading_gap,
        ends_exact=not shape.trailing_gap,
        basic_block=np.array([block_at[c.position] for c in usable], dtype=np.int64),
        lookup=np.array([number[c.lookup] for c in usable], dtype=np.int64),
        lookup_entries=np.array([counted.read[wanted] for wanted in lookups], dtype=np.float64),
        in_order=np.array([ranges.is_one_key for _, ranges in lookups], dtype=np.bool_),
        group_entries=float(FENCE_ENTRIES),
        segment_events=rates.events,
        segment_blocks=rates.n_blocks,
        segment_stretches=rates.n_stretches,
        window_events=rates.window,
        density=rates.columns([c.lookup for c in usable]),
        block_density=rates.by_basic_block(conditions, block_at, len(shape.blocks)),
        closes_early=query.semantics is Semantics.SQL and query.skip is SkipMode.PAST_LAST_ROW,
        n_keys=statistics.n_keys if statistics.key in shape.agreeing else 1.0,
        beside_blocks=_beside_blocks(query, statistics),
        cuts_rows=not query.partition_by and rows_beside(query) == (0, 0),
    )
    if rates.left_out:
        left_out_steps = rates.left_out_steps(features, conditions, block_at)
        features = replace(features, left_out_steps=left_out_steps)
    selectivities = tuple(
        _selectivity(condition, counted.between.get(condition.lookup), rates, statistics, usable)
        for condition in (*singles, *composed, *gaps)
    )
    never = next((c for c in (*usable, *known.aside) if c.lookup in counted.absent), None)
    fills = Fills(gaps, block_at, rates.columns([c.lookup for c in gaps]), counted.read)
    aside = Aside({c: rates.density[c.lookup] for c in known.aside}, block_at, counted.read)
    return Weighed(
        usable, features, tuple(lookups), fills, aside, selectivities, rates.segment, never
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """Conditions with an index."""

    usable: tuple[Condition, ...]
    """Of positions, worth weighing."""
    gaps: tuple[Condition, ...]
    """Of gaps, worth weighing or asked for."""
    aside: tuple[Condition, ...]
    """Of positions, asked for though others say more."""
    parts: tuple[Condition, ...]
    """Of single attributes, which others say together."""

    @property
    def counted(self) -> tuple[Condition, ...]:
        """Those whose events are counted."""
        return (*self.usable, *self.aside, *self.gaps, *self.parts)

    @classmethod
    def of(
        cls,
        shape: PatternShape,
        statistics: StreamStatistics,
        asked: Sequence[Condition],
        singles: Sequence[Condition],
    ) -> _Known:
        usable = index_conditions(shape, statistics.indexed, statistics.composites)
        gaps = gap_conditions(shape, statistics.indexed, statistics.composites)
        further = [c for c in asked if c not in usable and c not in gaps]
        known = (*usable, *gaps, *further)
        said = {part for condition in known if condition.together for part in condition.parts}
        return cls(
            usable,
            (*gaps, *(c for c in further if c.fills_gap)),
            tuple(c for c in further if not c.fills_gap),
            tuple(c for c in singles if c.lookup in said and c.attribute in statistics.indexed),
        )


@dataclass(frozen=True, slots=True)
class _Counted:
    """What fences tell of each lookup."""

    between: dict[Lookup, tuple[int, int]]
    """The least and the most events that can be in its ranges."""
    read: dict[Lookup, float]
    """Entries it reads inside what remains: the most there can be, as rims are decoded whole."""
    absent: frozenset[Lookup]
    """Lookups that find nothing, as is certain."""

    @classmethod
    def of(
        cls, conditions: Sequence[Condition], statistics: StreamStatistics, stretches: IntArray
    ) -> _Counted:
        wanted = dict.fromkeys(condition.lookup for condition in conditions)
        counts = {lookup: statistics.estimate_count(*lookup) for lookup in wanted}
        inside = counts
        if count_blocks(stretches) < statistics.n_blocks:
            within = statistics.leaves.base[stretches]
            inside = {
                lookup: statistics.estimate_count(*lookup, within=within) for lookup in wanted
            }
        return cls(
            counts,
            {lookup: float(most) for lookup, (_, most) in inside.items()},
            frozenset(lookup for lookup, (_, most) in inside.items() if most == 0),
        )


def weigh_full(query: BoundPatternQuery, statistics: StreamStatistics) -> PlanFeatures:
    """Return what the cost model is told of a query that can only be replayed in full."""
    return whole_stream(
        statistics.n_events,
        statistics.n_blocks,
        len(columns_matched(query)),
        count_predicates(query),
    )


def _beside_blocks(query: BoundPatternQuery, statistics: StreamStatistics) -> float:
    """Return about how many blocks beside a stretch neighbours in partitions lie in.

    On each side that is looked at one, and as many more as it takes for keys to come again, if all
    that take turns are equally frequent.
    """
    if not query.partition_by:
        return 0.0
    per_block = statistics.n_events / max(statistics.n_blocks, 1)
    looks = [n for n in rows_beside(query) if n]
    return sum((1.0 + n * statistics.n_keys / per_block for n in looks), 0.0)


def columns_matched(query: BoundPatternQuery) -> frozenset[str]:
    """Return the attributes the matcher must see; measures are fetched for matches only."""
    names = {a.name for define in query.defines for a in attributes(define)}
    names.update(query.partition_by)
    return frozenset(names if query.within is None else names | {query.time})


def matches_wanted(query: BoundPatternQuery) -> int | None:
    """Return how many matches end a replay, as LIMIT says; None: all are looked for."""
    outer = query.outer
    if query.limit is not None or outer is None or outer.limit is None:
        return query.limit
    return outer.limit + outer.offset if outer.is_row_by_row else None


def count_predicates(query: BoundPatternQuery) -> int:
    """Return the number of different conditions that DEFINE puts together by AND, OR and NOT."""
    atoms: set[Expression] = set()
    waiting = [define for define in query.defines if define is not None]
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, Call) and expression.op in ("and", "or", "not"):
            waiting += expression.args
        else:
            atoms.add(expression)
    return len(atoms)


@dataclass(frozen=True, slots=True, eq=False)
class _Rates:
    """How often each range occurs in each of s segments."""

    segment: IntArray
    """Of each block of the stream; -1 where it does not remain."""
    events: FloatArray
    """Shape (s,)."""
    n_blocks: FloatArray
    n_stretches: FloatArray
    window: FloatArray
    """Events a window holds, shape (s,)."""
    density: dict[Lookup, FloatArray]
    """For each range the share of a segment's events inside it, shape (s,)."""
    expected: dict[Lookup, float]
    """For each range the events inside it, in the whole stream."""
    left_out: dict[Lookup, float]
    """For each range the share of the events inside it where the coarse pattern map leaves blocks
    out; none where it leaves out none."""
    left_out_window: float
    """Events a window holds there."""

    @classmethod
    def of(
        cls,
        query: BoundPatternQuery,
        shape: PatternShape,
        statistics: StreamStatistics,
        coarse: CoarseMap,
        further: Sequence[Condition],
        between: Mapping[Lookup, tuple[int, int]],
        crowding: float,
    ) -> _Rates:
        """Spread the entries of lookups over the blocks, and group these to segments.

        Parameters
        ----------
        further
            Conditions besides those of the coarse map: of gaps, and of several attributes.
        between
            Least and most events in each range that has an index.
        crowding
            How many times as full windows are that begin at events.
        """
        leaves = statistics.leaves
        pool = Pool.of(mask_of(coarse.stretches, statistics.n_blocks), leaves.count)
        windows = window_rates(leaves, query.within, shape.row_window, crowding)
        window = pool.mean(windows)
        density: dict[Lookup, FloatArray] = {}
        expected: dict[Lookup, float] = {}
        count = leaves.count.astype(np.float64)
        one_event = 1.0 / count
        outside = count.copy()
        outside[pool.blocks] = 0.0
        outside /= max(float(outside.sum()), 1.0)
        leaves_out = bool(outside.any())
        left_out: dict[Lookup, float] = {}
        conditions = (*coarse.admitted, *further)
        names = dict.fromkeys(name for condition in conditions for name, _ in condition.parts)
        tree = BlockShares(
            leaves.count,
            {name: Spread.of(coarse.bounds.get(name) or statistics.bounds(name)) for name in names},
            {condition.lookup: mask for condition, mask in coarse.admitted.items()},
        )
        for c in conditions:
            if c.lookup in density:
                continue
            admitted, shares = tree.blocks_with(c.parts)
            told = float(shares @ count)
            fences = between.get(c.lookup)
            if c.together and fences is not None:
                expected[c.lookup] = expected_together(c.parts, fences, expected, tree)
            else:
                is_told = fences is None or tree.measures(c.parts)
                expected[c.lookup] = expected_in(
                    c.lookup, fences, told if is_told else None, statistics
                )
            if fences is not None:
                # Where there are entries, a block that admits them may have one.
                shares = np.where(admitted, np.maximum(shares, one_event), 0.0)
                shares *= expected[c.lookup] / max(float(shares @ count), 1e-9)
            density[c.lookup] = np.minimum(pool.mean(shares), 1.0)
            if leaves_out:
                left_out[c.lookup] = float(shares @ outside)
        rows = np.array(list(density.values())).reshape(len(density), len(pool.events))
        labels = to_segments(rows, window, pool.events)
        segment = pool.spread(labels, statistics.n_blocks)
        n = int(labels.max()) + 1
        # Each segment's part in each run of blocks, by events.
        parts = (labels == np.arange(n)[:, None]) * pool.events
        events = parts.sum(axis=1)
        means = parts @ rows.T / events[:, None]
        return cls(
            segment,
            events,
            np.bincount(segment[segment >= 0], minlength=n).astype(np.float64),
            np.bincount(segment[coarse.stretches[:, 0]], minlength=n).astype(np.float64),
            _mean_window(parts, window),
            {wanted: means[:, i] for i, wanted in enumerate(density)},
            expected,
            left_out,
            float(windows @ outside) if np.isfinite(windows).all() else np.inf,
        )

    def columns(self, wanted: Sequence[Lookup]) -> FloatArray:
        """Return densities of some ranges, shape (s, n_wanted)."""
        columns = [self.density[lookup] for lookup in wanted]
        return np.array(columns).reshape(len(columns), len(self.events)).T

    def by_basic_block(
        self, conditions: Sequence[Condition], block_at: dict[int, int], n_blocks: int
    ) -> FloatArray:
        """Return the density of each basic block if all its ranges hold, shape (s, n_blocks)."""
        product = np.ones((len(self.events), n_blocks))
        for condition in conditions:
            product[:, block_at[condition.position]] *= self.density[condition.lookup]
        return product

    def left_out_steps(
        self, features: PlanFeatures, conditions: Sequence[Condition], block_at: dict[int, int]
    ) -> float:
        """Return the matcher's steps per event where the coarse pattern map leaves blocks out."""
        together = np.ones((1, len(features.block_lengths)))
        for condition in conditions:
            together[0, block_at[condition.position]] *= self.left_out[condition.lookup]
        there = replace(
            features,
            segment_events=np.array([features.n_events - features.remaining_events]),
            window_events=np.array([self.left_out_window]),
            block_density=np.minimum(together, 1.0),
        )
        return float(there.steps[0])


def _mean_window(parts: FloatArray, window: FloatArray) -> FloatArray:
    if not np.isfinite(window).all():  # nothing bounds a match, anywhere
        return np.full(len(parts), np.inf)
    return np.asarray(parts @ window / parts.sum(axis=1))


def _selectivity(
    condition: Condition,
    fences: tuple[int, int] | None,
    rates: _Rates,
    statistics: StreamStatistics,
    usable: Sequence[Condition],
) -> Selectivity:
    n_events = max(statistics.n_events, 1)
    fraction = min(rates.expected[condition.lookup] / n_events, 1.0)
    said = condition not in usable and is_said(condition, usable)
    if fences is None:
        has_index = said and condition.attribute in statistics.indexed
        return Selectivity(condition, fraction, FROM_TREE, has_index, said)
    least, most = fences
    source = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    source = f"{FROM_FENCES} ({source} events)"
    return Selectivity(condition, fraction, source, True, said, min(most / n_events, 1.0))
