"""Cost of plans: seconds of work from features and weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.coverage import estimate_coverage
from costmodel.features import FloatArray, PlanFeatures
from costmodel.parameters import CostParameters


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one plan is expected to take."""

    cost: float
    """Seconds."""
    blocks: float
    """Blocks read."""
    entries: float
    """Index entries read."""
    alpha: float
    """Share of the stream's events inside replay intervals, from 0 to 1."""
    candidates: float


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates of a batch of plans, arrays of shape (n_plans,)."""

    cost: FloatArray
    blocks: FloatArray
    entries: FloatArray
    alpha: FloatArray
    candidates: FloatArray

    def of(self, plan: int) -> Estimate:
        """Return the estimate of one plan."""
        return Estimate(
            float(self.cost[plan]),
            float(self.blocks[plan]),
            float(self.entries[plan]),
            float(self.alpha[plan]),
            float(self.candidates[plan]),
        )


def estimate(features: PlanFeatures, parameters: CostParameters) -> Estimates:
    """Estimate every plan of the batch.

    Returns
    -------
    Estimates
        ``cost = block * blocks + value * events * attributes + entry * entries
        + sort * n log2 n + seek * jumps``, where a jump is a stretch of blocks or a lookup.

    Notes
    -----
    Thesis (3.1), with the terms of ``docs/planning.md`` ("Cost and choice").
    """
    coverage = estimate_coverage(features)
    reads = _lookups_of_plans(features)
    entries = reads @ features.lookup_entries
    n = np.maximum(features.lookup_entries, 1.0)
    comparisons = reads @ (n * np.log2(n))
    jumps = coverage.stretches + reads.sum(axis=1)
    per_block = features.remaining_events / max(features.remaining_blocks, 1)
    cost = (
        (parameters.block_s + parameters.value_s * per_block * features.n_columns) * coverage.blocks
        + parameters.entry_s * entries
        + parameters.sort_s * comparisons
        + parameters.seek_s * jumps
    )
    alpha = coverage.share * (features.remaining_events / max(features.n_events, 1))
    return Estimates(cost, coverage.blocks, entries, alpha, coverage.candidates)


def estimate_full(
    n_events: int, n_blocks: int, n_columns: int, parameters: CostParameters
) -> Estimate:
    """Return the estimate of a full replay: all blocks in one stretch, no entry."""
    cost = (
        parameters.block_s * n_blocks
        + parameters.value_s * n_events * n_columns
        + parameters.seek_s
    )
    return Estimate(cost, float(n_blocks), 0.0, 1.0, 0.0)


def _lookups_of_plans(features: PlanFeatures) -> FloatArray:
    """Return 1.0 where a plan reads a lookup, shape (n_plans, n_lookups)."""
    n_lookups = len(features.lookup_entries)
    member = features.lookup[:, None] == np.arange(n_lookups)
    uses = features.selected.astype(np.float64) @ member.astype(np.float64)
    return np.asarray(uses > 0, dtype=np.float64)
