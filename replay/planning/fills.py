"""Plans that look up what fills a gap, such as the rows of B in ``A B* C``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
from costmodel.features import PlanFeatures
from replay.planning.appended import append_conditions
from replay.planning.plan import Condition, Lookup


@dataclass(frozen=True, slots=True, eq=False)
class Fills:
    """Conditions that all rows of a gap satisfy, and what is known of them."""

    conditions: tuple[Condition, ...]
    block_at: dict[int, int]
    """Basic block of each position of the pattern."""
    density: FloatArray
    """Share of each segment's events that satisfy each condition, shape (S, n_fills)."""
    read: dict[Lookup, float]
    """Entries each lookup reads."""

    def gap(self, fill: Condition) -> int:
        """Return the basic block behind a condition's gap."""
        return self.block_at[fill.position]

    def beside(self, plan: Sequence[Condition]) -> tuple[Condition, ...]:
        """Return the conditions that can rule out candidates of a plan.

        Those of gaps between two basic blocks that are both looked up: an occurrence of one must
        be followed by rows that fill the gap, up to one of the other.
        """
        chosen = {self.block_at[c.position] for c in plan if not c.fills_gap}
        return tuple(c for c in self.conditions if {self.gap(c) - 1, self.gap(c)} <= chosen)

    def merge(
        self,
        features: PlanFeatures,
        lookups: Sequence[Lookup],
        row: BoolArray,
        plan: Sequence[Condition],
    ) -> tuple[PlanFeatures, BoolArray]:
        """Return features and row of one plan as the cost model can take them.

        Rows that fill a gap come in runs of ``1 / (1 - density)``. So the basic blocks on both
        sides of it count as one that has as many chances to occur as such a run has rows.

        Parameters
        ----------
        features, lookups
            What the cost model is told of all plans, and its lookups in their order.
        row
            The plan's conditions of positions, shape (C,).
        plan
            All its conditions, some of which fill gaps.
        """
        useful = set(self.beside(plan)) & set(plan)
        gaps = sorted({self.gap(fill) for fill in useful})
        density = features.density.copy()
        for gap in gaps:
            inside = [
                i for i, c in enumerate(self.conditions) if c in useful and self.gap(c) == gap
            ]
            run = 1.0 / np.maximum(1.0 - self.density[:, inside].prod(axis=1), 1e-6)
            behind = np.flatnonzero(row & (features.basic_block == gap))
            most = behind[density[:, behind].mean(axis=0).argmax()]
            density[:, most] = np.minimum(density[:, most] * run, 1.0)
        n_blocks = len(features.block_lengths)
        is_first = ~np.isin(np.arange(n_blocks), gaps)
        number = np.cumsum(is_first) - 1
        firsts = np.flatnonzero(is_first)
        merged = replace(
            features,
            block_lengths=np.add.reduceat(features.block_lengths, firsts),
            basic_block=number[features.basic_block],
            density=density,
            block_density=np.multiply.reduceat(features.block_density, firsts, axis=1),
        )
        asked = [fill for fill in plan if fill.fills_gap]
        # They restrict nothing by themselves.
        ones = np.ones((len(features.density), len(asked)))
        blocks = [int(number[self.gap(fill)]) for fill in asked]
        appended, _ = append_conditions(merged, lookups, asked, blocks, ones, self.read)
        return appended, np.append(row, [True] * len(asked))
