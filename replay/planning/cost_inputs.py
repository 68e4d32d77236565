"""What the cost model is told: how rare conditions are, and where in the stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features import TEXT_COLUMNS, PlanFeatures, whole_stream
from replay.planning.block_ranges import count_blocks, mask_of
from replay.planning.block_selectivity import TOLD_TIMES_MAX, BlockShares, are_even
from replay.planning.coarse_map import CoarseMap
from replay.planning.composite_lookup import is_said, said_once
from replay.planning.intervals import BRIDGE_BLOCKS
from replay.planning.named_plans import (
    all_conditions,
    gap_conditions,
    index_conditions,
)
from replay.planning.plan import Condition, IndexLookup, LookupOption, Selectivity
from replay.planning.rate_strata import to_strata, window_rates
from replay.planning.requirements import Requirements
from replay.planning.statistics import IntArray, StreamStatistics

FROM_FENCES = "index fences"
FROM_TREE = "even between the tree's minima and maxima"


@dataclass(frozen=True, slots=True, eq=False)
class CostInputs:
    """A query's conditions and what the cost model is told of them."""

    conditions: tuple[Condition, ...]
    """Conditions of positions with an index, by position: those of ``features``."""
    features: PlanFeatures
    options: tuple[LookupOption, ...]
    """Lookups that there are, of positions and of gaps."""
    selectivities: tuple[Selectivity, ...]
    """What is known of each range of the pattern, by position."""
    never: Condition | None
    """A condition every match needs and no event satisfies, as fences prove; None: there may be
    matches."""


def gather(
    required: Requirements,
    statistics: StreamStatistics,
    coarse: CoarseMap,
    *,
    named: Sequence[Condition] | None = None,
) -> CostInputs:
    """Gather what the cost model needs to estimate lookups of a query's conditions.

    The coarse pattern map has at least one stretch; ``named`` are the conditions of a plan asked
    for by name, None: those worth looking up.
    """
    singles = all_conditions(required)
    worth = index_conditions(required, statistics.indexed, statistics.composites)
    asked = worth if named is None else tuple(c for c in named if not c.fills_gap)
    gaps = gap_conditions(required, statistics.indexed, statistics.composites)
    if named is not None:
        gaps = (*gaps, *(c for c in named if c.fills_gap and c not in gaps))
    composed = tuple(c for c in dict.fromkeys((*worth, *asked)) if c.together)
    said = {part for condition in (*composed, *gaps) for part in condition.together}
    parts = (c for c in singles if c.lookup in said and c.attribute in statistics.indexed)
    fences = _Fences.of((*worth, *asked, *gaps, *parts), statistics, coarse.stretches)
    known = dict.fromkeys((*singles, *composed, *gaps))
    strata = _Strata.of(required, statistics, coarse, known, fences.between)
    features = _features(required, statistics, asked, singles, fences, strata)
    n_events = max(statistics.n_events, 1)
    selectivities = tuple(
        Selectivity(
            condition,
            min(strata.expected[condition.lookup] / n_events, 1.0),
            fences.source(condition.lookup) or FROM_TREE,
            condition.lookup in fences.between
            or (is_said(condition, worth) and condition.attribute in statistics.indexed),
        )
        for condition in known
    )
    by_lookup: dict[IndexLookup, list[Condition]] = {}
    for condition in (*asked, *gaps):
        by_lookup.setdefault(condition.lookup, []).append(condition)
    options = tuple(
        LookupOption(
            lookup,
            tuple(conditions),
            *fences.inside[lookup],
            min(strata.expected[lookup], float(fences.inside[lookup][1])),
            lookup in strata.uneven,
        )
        for lookup, conditions in by_lookup.items()
    )
    never = next((c for c in (*worth, *asked) if fences.inside[c.lookup][1] == 0), None)
    return CostInputs(tuple(asked), features, options, selectivities, never)


def _features(
    required: Requirements,
    statistics: StreamStatistics,
    asked: Sequence[Condition],
    singles: Sequence[Condition],
    fences: _Fences,
    strata: _Strata,
) -> PlanFeatures:
    """Return what the cost model is told of some conditions with an index."""
    lookups = list(dict.fromkeys(condition.lookup for condition in asked))
    number = {lookup: at for at, lookup in enumerate(lookups)}
    block_at = required.block_at
    independent = said_once(singles, [c for c in asked if c.together])
    return PlanFeatures(
        n_events=statistics.n_events,
        n_blocks=statistics.n_blocks,
        n_columns=_columns_decoded(required, statistics),
        n_predicates=required.n_predicates,
        bridge_blocks=BRIDGE_BLOCKS,
        block_lengths=np.array([stop - first for first, stop in required.blocks], dtype=np.int64),
        starts_exact=not required.leading_gap,
        ends_exact=not required.trailing_gap,
        basic_block=np.array([block_at[c.position] for c in asked], dtype=np.int64),
        lookup=np.array([number[c.lookup] for c in asked], dtype=np.int64),
        lookup_entries=np.array([fences.inside[wanted][1] for wanted in lookups], dtype=np.float64),
        in_order=np.array([ranges.is_one_key for _, ranges in lookups], dtype=np.bool_),
        segment_events=strata.events,
        segment_blocks=strata.n_blocks,
        segment_stretches=strata.n_stretches,
        window_events=strata.window,
        density=strata.columns([c.lookup for c in asked]),
        block_density=strata.by_basic_block(independent, block_at, len(required.blocks)),
        closes_early=required.closes_early,
        n_keys=statistics.n_keys if statistics.key in required.agreeing else 1.0,
        beside_blocks=_beside_blocks(required, statistics),
        cuts_rows=not required.agreeing and required.rows_beside == (0, 0),
    )


@dataclass(frozen=True, slots=True)
class _Fences:
    """How many events fences tell to be in the ranges of each lookup, at least and at most."""

    between: dict[IndexLookup, tuple[int, int]]
    """In the whole stream."""
    inside: dict[IndexLookup, tuple[int, int]]
    """In what the coarse pattern map leaves, as far as whole runs lie outside; what is read, as
    rims are decoded whole."""

    @classmethod
    def of(
        cls, conditions: Sequence[Condition], statistics: StreamStatistics, stretches: IntArray
    ) -> _Fences:
        wanted = dict.fromkeys(condition.lookup for condition in conditions)
        counts = {lookup: statistics.estimate_count(*lookup) for lookup in wanted}
        inside = counts
        if count_blocks(stretches) < statistics.n_blocks:
            within = statistics.leaves.base[stretches]
            inside = {
                lookup: statistics.estimate_count(*lookup, within=within) for lookup in wanted
            }
        return cls(counts, inside)

    def source(self, lookup: IndexLookup) -> str | None:
        """Return in words what fences say; None without an index."""
        if lookup not in self.between:
            return None
        least, most = self.between[lookup]
        said = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        return f"{FROM_FENCES} ({said} events)"


def weigh_full(required: Requirements, statistics: StreamStatistics) -> PlanFeatures:
    """Return what the cost model is told of a query that can only be replayed in full."""
    return whole_stream(
        statistics.n_events,
        statistics.n_blocks,
        _columns_decoded(required, statistics),
        required.n_predicates,
    )


def _columns_decoded(required: Requirements, statistics: StreamStatistics) -> float:
    """Return how many columns of numbers take as long to decode as those a query reads."""
    n_texts = len(statistics.texts.intersection(required.columns))
    return len(required.columns) + (TEXT_COLUMNS - 1.0) * n_texts


def _beside_blocks(required: Requirements, statistics: StreamStatistics) -> float:
    """Return about how many blocks beside a stretch neighbours in partitions lie in.

    On each side that is looked at one, and as many more as it takes for keys to come again, if all
    that take turns are equally frequent.
    """
    if not required.agreeing:
        return 0.0
    per_block = statistics.n_events / max(statistics.n_blocks, 1)
    looks = [n for n in required.rows_beside if n]
    return sum((1.0 + n * statistics.n_keys / per_block for n in looks), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Strata:
    """How often each range occurs in each of s rate strata."""

    events: FloatArray
    """Shape (s,)."""
    n_blocks: FloatArray
    n_stretches: FloatArray
    window: FloatArray
    """Events a window holds, shape (s,)."""
    density: dict[IndexLookup, FloatArray]
    """For each range the share of a stratum's events inside it, shape (s,)."""
    expected: dict[IndexLookup, float]
    """For each range the events inside it, in the whole stream."""
    uneven: frozenset[IndexLookup]
    """Those of which summaries of blocks show that not about as many events lie in each block that
    remains."""

    @classmethod
    def of(
        cls,
        required: Requirements,
        statistics: StreamStatistics,
        coarse: CoarseMap,
        conditions: Iterable[Condition],
        between: Mapping[IndexLookup, tuple[int, int]],
    ) -> _Strata:
        """Spread the entries of lookups over the blocks, and group these to strata.

        ``between`` are the least and most events in each range that has an index: inside these the
        tree tells how many there are, if it can.
        """
        leaves = statistics.leaves
        count = leaves.count.astype(np.float64)
        n_events = float(max(statistics.n_events, 1))
        left = np.flatnonzero(mask_of(coarse.stretches, statistics.n_blocks))
        parts = {condition.lookup: condition.parts for condition in conditions}
        names = dict.fromkeys(name for said in parts.values() for name, _ in said)
        tree = BlockShares(
            leaves.count,
            {name: coarse.bounds.get(name) or statistics.bounds(name) for name in names},
            coarse.admitted,
        )
        told = [tree.blocks_with(said) for said in parts.values()]
        admitted, shares = np.array([mask for mask, _ in told]), np.array([one for _, one in told])
        everywhere = are_even(shares[:, left]).tolist()
        expected: dict[IndexLookup, float] = {}
        uneven = set[IndexLookup]()
        for (lookup, said), n, is_even in zip(
            parts.items(), (shares @ count).tolist(), everywhere, strict=True
        ):
            expected[lookup] = n
            if lookup not in between:
                continue
            (least, most), is_measured = between[lookup], tree.measures(said)
            if len(said) > 1:  # what is known of each says most, as if they were independent
                each = (expected.get(part, n_events) / n_events for part in said)
                expected[lookup] = min(max(n_events * math.prod(each), least), most)
            elif is_measured:
                expected[lookup] = min(max(n, least), most)
            else:
                expected[lookup] = (least + most) / 2
            is_known = max(n, expected[lookup]) <= TOLD_TIMES_MAX * min(n, expected[lookup])
            if is_measured and not (is_even and is_known):
                uneven.add(lookup)
        # Where there are entries, a block that admits them may have one.
        is_indexed = np.array([lookup in between for lookup in parts])[:, None]
        shares = np.where(is_indexed & admitted, np.maximum(shares, 1.0 / count), shares)
        found = np.array(list(expected.values()))
        shares *= (found / np.maximum(shares @ count, 1e-9))[:, None]
        window = window_rates(leaves, required.within, required.row_window)
        table = np.vstack((window, np.minimum(shares, 1.0)))[:, left]
        order, starts = to_strata(table)
        weight = count[left][order]
        events = np.add.reduceat(weight, starts)
        means = np.add.reduceat(table[:, order] * weight, starts, axis=1) / events
        begins = np.zeros(statistics.n_blocks)
        begins[coarse.stretches[:, 0]] = 1.0
        return cls(
            events,
            np.add.reduceat(np.ones(len(left)), starts),
            np.add.reduceat(begins[left][order], starts),
            means[0],
            dict(zip(parts, means[1:], strict=True)),
            expected,
            frozenset(uneven),
        )

    def columns(self, wanted: Sequence[IndexLookup]) -> FloatArray:
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
