"""Streams held as arrays, large enough to be sampled, with what a plan really touches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from costmodel.features import PlanFeatures, whole_stream
from costmodel.plan_cost import Estimate, Estimates
from indexing.key_range import KeyRanges
from replay.language.bound import BoundPatternQuery, Symbol
from replay.planning.block_ranges import all_blocks, count_blocks
from replay.planning.correction import bridged
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.plan import Condition, Occurrences, Plan, PlanKind
from replay.planning.requests import index_conditions
from replay.planning.shape import PatternShape, to_shape
from tests.unit.planning.streams import SmallLeaves, compare, query_of, seq, star

BLOCK = 64
"""Events of a block."""

BRIDGE = 2


class ArrayStream:
    """Events one time unit apart in blocks of equal size; attributes are 0 or 1."""

    def __init__(self, columns: Mapping[str, np.ndarray], block_events: int = BLOCK) -> None:
        n = len(next(iter(columns.values())))
        self.columns = {"t": np.arange(n, dtype=np.int64), **columns}
        self.base = np.append(np.arange(0, n, block_events), n).astype(np.int64)
        self.n_events, self.n_blocks = n, len(self.base) - 1
        self.leaves = SmallLeaves(
            np.diff(self.base),
            self.base,
            self.base[:-1],
            self.base[1:] - 1,
            np.ones(self.n_blocks, dtype=np.int64),
        )
        self.blocks_asked: list[int] = []

    def sample_columns(
        self, blocks: np.ndarray, attributes: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        self.blocks_asked += blocks.tolist()
        rows = np.concatenate([np.arange(*self.base[b : b + 2]) for b in blocks])
        return {name: pa.array(self.columns[name][rows]) for name in attributes}

    def occurrences(self, attribute: str, ranges: KeyRanges) -> Occurrences:
        value = ranges.ranges[0].low
        seqs = np.flatnonzero(self.columns[attribute] == value).astype(np.int64)
        return Occurrences(seqs, seqs)


def gapped(names: str, within: int) -> BoundPatternQuery:
    """Return the query ``A Z* B Z* …`` with ``A.a = 1``, ``B.b = 1``, … and Z free."""
    free = Symbol(len(names))
    parts = [part for i in range(len(names)) for part in (star(free), Symbol(i))][1:]
    defines = [compare("=", name, 1) for name in names]
    return query_of(seq(*parts), [*defines, None], within=within)


def conditions_of(query: BoundPatternQuery) -> tuple[PatternShape, tuple[Condition, ...]]:
    shape = to_shape(query)
    return shape, index_conditions(shape, frozenset("abcd"))


def plan_of(
    shape: PatternShape, conditions: Collection[Condition], n_blocks: int, estimated: Estimate
) -> Plan:
    blocks = all_blocks(n_blocks)
    return Plan(
        PlanKind.INDEXES, tuple(conditions), shape, blocks, estimated, (), "", n_blocks=n_blocks
    )


def truth_of(
    stream: ArrayStream,
    query: BoundPatternQuery,
    conditions: Collection[Condition],
    bridge_blocks: int = BRIDGE,
) -> Stretches:
    """Return what the plan with these conditions really replays."""
    plan = plan_of(to_shape(query), conditions, stream.n_blocks, Estimate(0, 0, 0, 0, 0))
    found = {c.slot: stream.occurrences(c.attribute, c.ranges) for c in conditions}
    return replay_stretches(plan, found, query, stream, bridge_blocks=bridge_blocks)


def features_of(stream: ArrayStream) -> PlanFeatures:
    """Return the features of a stream whose plans are estimated by hand."""
    return replace(whole_stream(stream.n_events, stream.n_blocks, 2, 2), bridge_blocks=BRIDGE)


def guess(*touched: float, n_blocks: int) -> Estimates:
    """Return estimates of so many blocks touched by plans that each have a candidate to a block."""
    array = np.minimum(np.array(touched), n_blocks)
    blocks = bridged(array / n_blocks, BRIDGE) * n_blocks
    return Estimates(
        cost=blocks * 1e-4,
        blocks=blocks,
        entries=np.zeros(len(array)),
        alpha=array / n_blocks,
        candidates=array,
        index_cost=np.zeros(len(array)),
        stretches=array,
        touched=array,
        searches=np.zeros(len(array)),
    )


def count_touched(
    stream: ArrayStream, query: BoundPatternQuery, conditions: Collection[Condition]
) -> tuple[int, int]:
    """Return the blocks that the plan's intervals touch and those that are read."""
    read = count_blocks(truth_of(stream, query, conditions).blocks)
    return count_blocks(truth_of(stream, query, conditions, bridge_blocks=0).blocks), read
