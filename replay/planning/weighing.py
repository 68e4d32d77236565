"""What the cost model is told: which plans to compare, how rare their conditions are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from costmodel.features import FloatArray, PlanFeatures
from replay.language.bound import BoundPatternQuery, attributes
from replay.planning.block_ranges import count_blocks, count_events, mask_of, no_blocks
from replay.planning.coarse_map import (
    TimeBounds,
    may_contain,
    position_masks,
    surviving_buckets,
)
from replay.planning.plan import Condition, Selectivity
from replay.planning.requests import all_conditions, index_conditions
from replay.planning.shape import PatternShape
from replay.planning.statistics import AttributeBounds, BoolArray, IntArray, StreamStatistics

SUBSETS_MAX = 6
"""Lookups up to which all subsets are weighed (64 plans); beyond, the most promising."""


@dataclass(frozen=True, slots=True)
class CoarseMap:
    """What the coarse pattern map says."""

    stretches: IntArray
    """Blocks outside which no match can lie, shape (n, 2)."""
    admitted: dict[Condition, BoolArray]
    """Blocks that may hold an event in a condition's range."""


def draw_coarse_map(
    query: BoundPatternQuery, shape: PatternShape, statistics: StreamStatistics
) -> CoarseMap:
    """Match the pattern over the tree's leaves."""
    if shape.is_impossible or shape.rows_min > statistics.n_events:
        return CoarseMap(no_blocks(), {})
    leaves = statistics.leaves
    conditions = all_conditions(shape)
    bounds: dict[str, AttributeBounds | TimeBounds] = {}
    for name in dict.fromkeys(condition.attribute for condition in conditions):
        is_time = name == query.time
        bounds[name] = (
            TimeBounds(leaves.t_min, leaves.t_max) if is_time else statistics.bounds(name)
        )
    admitted: dict[Condition, BoolArray] = {}
    by_lookup: dict[object, BoolArray] = {}
    for condition in conditions:
        if condition.lookup not in by_lookup:
            mask = may_contain(condition.ranges, bounds[condition.attribute])
            by_lookup[condition.lookup] = mask
        admitted[condition] = by_lookup[condition.lookup]
    masks = position_masks(len(shape.positions), admitted)
    return CoarseMap(surviving_buckets(shape, masks, leaves, within=query.within), admitted)


@dataclass(frozen=True, slots=True)
class WeighedPlans:
    """Plans to be compared, each a set of conditions, and what the cost model is told of them."""

    plans: tuple[tuple[Condition, ...], ...]
    """Conditions of each row of ``features.selected``; the first is none, the tree plan."""
    features: PlanFeatures
    selectivities: tuple[Selectivity, ...]


def weigh_plans(
    query: BoundPatternQuery,
    shape: PatternShape,
    statistics: StreamStatistics,
    coarse: CoarseMap,
    asked: tuple[Condition, ...],
) -> WeighedPlans:
    """Gather the features of the plans worth a thought, and of the one asked for.

    Parameters
    ----------
    coarse
        The coarse pattern map, with at least one stretch.
    asked
        Conditions of a plan asked for by name, or none.
    """
    usable = index_conditions(shape, statistics.indexed)
    lookups = list(dict.fromkeys(condition.lookup for condition in usable))
    lookup = np.array([lookups.index(c.lookup) for c in usable], dtype=np.int64)
    counts = [sum(statistics.estimate_count(*wanted)) / 2 for wanted in lookups]
    entries = np.array(counts, dtype=np.float64)
    block_at = {p: b for b, (a, z) in enumerate(shape.blocks) for p in range(a, z)}
    basic_block = np.array([block_at[c.position] for c in usable], dtype=np.int64)
    selected = _worth_weighing(lookup, entries, basic_block)
    if asked:
        selected = np.vstack((selected, [condition in asked for condition in usable]))
    events = count_events(coarse.stretches, statistics.leaves.base)
    features = PlanFeatures(
        n_events=statistics.n_events,
        n_blocks=statistics.n_blocks,
        n_columns=len(columns_matched(query)),
        remaining_events=events,
        remaining_blocks=count_blocks(coarse.stretches),
        remaining_stretches=len(coarse.stretches),
        window_events=_window_events(query, shape, statistics, coarse.stretches),
        block_lengths=np.array([stop - first for first, stop in shape.blocks], dtype=np.int64),
        starts_exact=not shape.leading_gap,
        ends_exact=not shape.trailing_gap,
        basic_block=basic_block,
        density=entries[lookup] * _shares(usable, coarse, statistics) / max(events, 1),
        lookup=lookup,
        lookup_entries=entries,
        selected=selected,
    )
    plans = tuple(
        tuple(condition for condition, used in zip(usable, row, strict=True) if used)
        for row in selected.tolist()
    )
    by_lookup = dict(zip(lookups, counts, strict=True))
    known = tuple(
        _selectivity(condition, by_lookup.get(condition.lookup), coarse, statistics)
        for condition in all_conditions(shape)
    )
    return WeighedPlans(plans, features, known)


def columns_matched(query: BoundPatternQuery) -> frozenset[str]:
    """Return the attributes the matcher must see; measures are fetched for matches only."""
    names = {a.name for define in query.defines for a in attributes(define)}
    names.update(query.partition_by)
    return frozenset(names if query.within is None else names | {query.time})


def _worth_weighing(lookup: IntArray, entries: FloatArray, basic_block: IntArray) -> BoolArray:
    """Return the plans to be estimated, shape (n_plans, n_conditions); the first uses nothing.

    All sets of lookups where they are few. Else the rarest k overall, the rarest k of each basic
    block, and the rarest of two blocks: within a block conditions multiply at no distance, so a
    good plan mostly completes one block before it begins another.
    """
    n = len(entries)
    if n <= SUBSETS_MAX:
        chosen = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return np.asarray(chosen[:, lookup], dtype=np.bool_)
    order = [int(i) for i in np.argsort(entries, kind="stable")]
    members = [set(lookup[basic_block == b].tolist()) for b in range(int(basic_block.max()) + 1)]
    ordered = [[i for i in order if i in member] for member in members if member]
    sets: list[frozenset[int]] = [frozenset()]
    for ranked in (order, *ordered):
        sets += [frozenset(ranked[:k]) for k in range(1, len(ranked) + 1)]
    sets += [frozenset((a[0], b[0])) for a, b in combinations(ordered, 2)]
    distinct = list(dict.fromkeys(sets))
    chosen = np.zeros((len(distinct), n), dtype=np.int64)
    for row, members_of_row in enumerate(distinct):
        chosen[row, list(members_of_row)] = 1
    return np.asarray(chosen[:, lookup], dtype=np.bool_)


def _window_events(
    query: BoundPatternQuery,
    shape: PatternShape,
    statistics: StreamStatistics,
    stretches: IntArray,
) -> float:
    """Return the events a window holds on average over the stretches that remain."""
    window = np.inf if shape.row_window is None else float(shape.row_window)
    if query.within is None:
        return window
    leaves = statistics.leaves
    spans = leaves.t_max[stretches[:, 1] - 1].astype(np.float64) - leaves.t_min[stretches[:, 0]]
    rate = count_events(stretches, leaves.base) / float((spans + 1).sum())
    return min(window, query.within * rate + 1)


def _shares(
    conditions: tuple[Condition, ...], coarse: CoarseMap, statistics: StreamStatistics
) -> FloatArray:
    """Return the share of each condition's entries that lies in the stretches that remain.

    Entries are taken to be spread evenly over the blocks that may hold them.
    """
    count = statistics.leaves.count
    remaining = np.where(mask_of(coarse.stretches, statistics.n_blocks), count, 0)
    shares = [
        float(remaining @ coarse.admitted[c]) / max(float(count @ coarse.admitted[c]), 1.0)
        for c in conditions
    ]
    return np.array(shares, dtype=np.float64)


def _selectivity(
    condition: Condition, entries: float | None, coarse: CoarseMap, statistics: StreamStatistics
) -> Selectivity:
    n = max(statistics.n_events, 1)
    if entries is not None:
        return Selectivity(condition, min(entries / n, 1.0), "index fences", True)
    events = float(statistics.leaves.count @ coarse.admitted[condition])
    return Selectivity(condition, events / n, "at most, from the tree's minima and maxima", False)
