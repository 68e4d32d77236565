"""Conditions the cost model is told of for one plan alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features import PlanFeatures
from replay.planning.composed import is_said
from replay.planning.plan import Condition, Lookup


@dataclass(frozen=True, slots=True, eq=False)
class Aside:
    """Conditions of positions that only plans have that are asked for by name."""

    density: dict[Condition, FloatArray]
    """Share of each segment's events that satisfy each, shape (s,)."""
    block_at: dict[int, int]
    """Basic block of each position of the pattern."""
    read: dict[Lookup, float]
    """Entries each lookup reads."""

    def append(
        self, features: PlanFeatures, lookups: Sequence[Lookup], plan: Sequence[Condition]
    ) -> tuple[PlanFeatures, tuple[Lookup, ...]]:
        """Return features and lookups of the cost model with those conditions of a plan."""
        said = [condition for condition in plan if condition not in self.density]
        added = sorted((c for c in plan if c in self.density), key=lambda c: -len(c.parts))
        columns = []
        for condition in added:
            density = self.density[condition]
            columns.append(np.ones(len(density)) if is_said(condition, said) else density)
            said.append(condition)
        blocks = [self.block_at[condition.position] for condition in added]
        return append_conditions(features, lookups, added, blocks, np.array(columns).T, self.read)


def append_conditions(
    features: PlanFeatures,
    lookups: Sequence[Lookup],
    conditions: Sequence[Condition],
    basic_blocks: Sequence[int],
    density: FloatArray,
    read: Mapping[Lookup, float],
) -> tuple[PlanFeatures, tuple[Lookup, ...]]:
    """Return features with further conditions behind those they have, and all their lookups.

    Pure.

    Parameters
    ----------
    features, lookups
        What the cost model is told so far, and its lookups in their order.
    conditions
        The n further ones, at least one.
    basic_blocks
        Basic block of each.
    density
        Share of each segment's events that each leaves, shape (S, n); 1 restricts nothing by
        itself, and is there for what its lookup costs.
    read
        Entries each lookup reads.
    """
    known = {lookup: i for i, lookup in enumerate(lookups)}
    for condition in conditions:
        known.setdefault(condition.lookup, len(known))
    added = list(known)[len(lookups) :]
    in_order = np.array([ranges.is_one_key for _, ranges in added], dtype=np.bool_)
    appended = replace(
        features,
        basic_block=np.append(features.basic_block, basic_blocks).astype(np.int64),
        lookup=np.append(features.lookup, [known[c.lookup] for c in conditions]).astype(np.int64),
        lookup_entries=np.append(features.lookup_entries, [read[lookup] for lookup in added]),
        in_order=np.append(features.is_in_order, in_order),
        density=np.hstack((features.density, density)),
        lifts=(),
    )
    return appended, tuple(known)
