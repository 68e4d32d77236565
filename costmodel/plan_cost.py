"""Cost of plans: seconds of work from features and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
from costmodel.coverage import estimate_coverage
from costmodel.features import PlanFeatures
from costmodel.guard import bearable
from costmodel.lookups import interval_cost, lookup_cost
from costmodel.parameters import CostParameters

GATHER_S: Final = 50e-9
"""Seconds to bring one row to the others of its partition, where neighbours there are looked at."""


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
    """Occurrences of the first selected basic block that begin a candidate."""
    index_cost: float = 0.0
    """Seconds of ``cost`` that are spent before any event is read."""
    stretches: float = 0.0
    """Runs of neighbouring blocks among those read."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Estimates of a batch of plans, arrays of shape (n_plans,); fields as in `Estimate`."""

    cost: FloatArray
    blocks: FloatArray
    entries: FloatArray
    alpha: FloatArray
    candidates: FloatArray
    index_cost: FloatArray
    stretches: FloatArray

    def of(self, plan: int) -> Estimate:
        """Return the estimate of one plan."""
        return Estimate(
            float(self.cost[plan]),
            float(self.blocks[plan]),
            float(self.entries[plan]),
            float(self.alpha[plan]),
            float(self.candidates[plan]),
            float(self.index_cost[plan]),
            float(self.stretches[plan]),
        )


def estimate(features: PlanFeatures, selected: BoolArray, parameters: CostParameters) -> Estimates:
    """Estimate every plan of a batch.

    Parameters
    ----------
    features
        The query and the stream.
    selected
        Conditions each plan uses, shape (n_plans, n_conditions); none at all is the tree plan.
    parameters
        Weights.

    Returns
    -------
    Estimates
        ``cost = block * blocks + value * attributes * events + predicate * predicates * matched +
        match * steps + entry * entries + sort * n log2 n + seek * jumps``, where a jump is a
        stretch of blocks, or several of them a lookup (`costmodel.lookups`).

    Notes
    -----
    Thesis (3.1), with the terms of ``docs/planning.md`` ("Cost"). Matched are the events
    read, or those of them in intervals; steps are one for each of them, and the further ones of the
    searches that are replayed.
    """
    coverage = estimate_coverage(features, selected)
    n_stretches = coverage.stretches.sum(axis=1)
    candidates = coverage.candidates.sum(axis=1)
    used = lookups_used(features, selected)
    each = lookup_cost(
        features.lookup_entries, features.is_in_order, parameters, keyed=features.is_keyed
    )
    index_cost = used @ each + interval_cost(candidates, parameters)
    n_blocks = np.maximum(features.segment_blocks, 1.0)
    event_s = parameters.value_s * features.n_columns
    further = features.further_steps
    matched = coverage.blocks / n_blocks
    if features.cuts_rows:
        matched = np.minimum(coverage.share, matched)
    # A search is open where it begins: most are, in the rows that such a beginning picks.
    within = np.maximum(coverage.searches, np.minimum(matched, 1.0))
    cost = (
        index_cost
        + coverage.blocks @ (parameters.block_s + event_s * features.segment_events / n_blocks)
        + matching_cost(features, parameters) * (matched @ features.segment_events)
        + parameters.match_s * (within @ further)
        + parameters.seek_s * n_stretches
        + _beside_cost(
            features,
            parameters,
            np.asarray(selected.any(axis=1)),
            n_stretches,
            coverage.blocks.sum(axis=1),
        )
    )
    return Estimates(
        cost,
        coverage.blocks.sum(axis=1),
        used @ features.lookup_entries,
        # Rounded, the parts of the whole stream may add up to a little more than all of it.
        np.minimum(coverage.share @ (features.segment_events / max(features.n_events, 1)), 1.0),
        candidates,
        index_cost,
        n_stretches,
    )


def lookups_used(features: PlanFeatures, selected: BoolArray) -> BoolArray:
    """Return which lookups answer the conditions of each plan, shape (n_plans, n_lookups)."""
    used = np.zeros((len(selected), len(features.lookup_entries)), dtype=np.bool_)
    for condition, lookup in enumerate(features.lookup.tolist()):
        used[:, lookup] |= selected[:, condition]
    return used


def estimate_full(features: PlanFeatures, parameters: CostParameters) -> Estimate:
    """Return the estimate of a full replay: all blocks in one stretch, no entry.

    Where the coarse pattern map leaves blocks out, the matcher takes one step for each event.
    """
    left_out = max(features.n_events - features.remaining_events, 0.0)
    steps = float(features.segment_events @ features.steps) + left_out
    cost = (
        parameters.block_s * features.n_blocks
        + float(event_cost(features, parameters, np.zeros(1))[0]) * features.n_events
        + parameters.match_s * steps
        + parameters.seek_s
    )
    if features.beside_blocks > 0.0:
        cost += GATHER_S * features.n_events
    return Estimate(cost, float(features.n_blocks), 0.0, 1.0, 0.0, 0.0, 1.0)


def replay_cost(
    n_blocks: float,
    n_events: float,
    n_stretches: float,
    features: PlanFeatures,
    parameters: CostParameters,
) -> float:
    """Return the seconds it takes to replay some of the remaining blocks, lookups not included.

    Parameters
    ----------
    n_blocks, n_events, n_stretches
        What is really read. The matcher's steps per event are the mean of all segments.
    features, parameters
        As in `estimate`.
    """
    weight = features.segment_events / max(features.remaining_events, 1.0)
    steps = float(weight @ features.steps)
    per_event = float(event_cost(features, parameters, np.array([steps]))[0])
    return parameters.block_s * n_blocks + per_event * n_events + parameters.seek_s * n_stretches


def event_cost(features: PlanFeatures, parameters: CostParameters, steps: FloatArray) -> FloatArray:
    """Return the seconds one event takes where the matcher does so many steps for it.

    ``steps`` and what is returned have one shape.
    """
    without = parameters.value_s * features.n_columns + matching_cost(features, parameters)
    return np.asarray(without + parameters.match_s * (steps - 1.0))


def matching_cost(features: PlanFeatures, parameters: CostParameters) -> float:
    """Return the seconds to match one event that no search goes on at: predicates and one step."""
    return parameters.predicate_s * features.n_predicates + parameters.match_s


def _beside_cost(
    features: PlanFeatures,
    parameters: CostParameters,
    is_keyed: BoolArray,
    stretches: FloatArray,
    blocks: FloatArray,
) -> FloatArray:
    """Return the seconds that rows beside the stretches take, for neighbours in partitions.

    Where lookups tell of which keys, some blocks near each stretch; else the blocks that the last
    of all keys of a stretch takes to come again: of K keys that come at random ln K times as many
    as one. Where these are too many to be looked at on trial, it counts as if the keys of all
    blocks were. All rows are brought to those of their key, in the stretches as well.
    """
    if features.beside_blocks == 0.0:
        return np.zeros(len(stretches))
    n_blocks = float(features.n_blocks)
    per_block = features.n_events / max(n_blocks, 1.0)
    values_s = parameters.value_s * per_block
    gather_s = GATHER_S * per_block
    row_block_s = parameters.block_s + features.n_columns * values_s + gather_s
    key_block_s = parameters.block_s + values_s + gather_s
    near = stretches * features.beside_blocks
    n_keys = per_block * blocks / np.maximum(stretches, 1.0)
    if features.is_keyed:
        n_keys = np.minimum(n_keys, features.n_keys)
    far = np.minimum(near * (1.0 + np.log(np.maximum(n_keys, 1.0))), n_blocks)
    is_trial = far * key_block_s <= bearable(estimate_full(features, parameters).cost)
    walked = np.where(is_trial, far, n_blocks)
    found_s = np.where(is_keyed, near * row_block_s, walked * key_block_s + far * row_block_s)
    return np.asarray(found_s + blocks * gather_s)
