"""Parts: where the segments that lookups cannot thin out are read through, not looked up."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
from costmodel.coverage import estimate_coverage
from costmodel.features import PlanFeatures
from costmodel.lookups import CANDIDATE_ENTRIES, LOOKUP_JUMPS
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate, event_cost, replay_cost

TOO_MANY: Final = 5.0
"""Times fewer candidates than estimated that there may be, and reading through is worth it still:
what a lookup would have left out is lost, while it saves no more than its entries. As far as the
thesis finds estimates to err."""


def worth_reading(
    features: PlanFeatures, selected: BoolArray, parameters: CostParameters
) -> tuple[BoolArray, FloatArray]:
    """Return which segments are cheaper to read through than to look up, under each plan.

    Parameters
    ----------
    features
        The query and the stream, whose events have no keys to agree on.
    selected
        Conditions each plan uses, shape (n_plans, n_conditions).
    parameters
        Weights.

    Returns
    -------
    read : ndarray of bool, shape (n_plans, n_segments)
        Where the entries that lie in the segment, asked in full, cost more than the blocks that
        they let be left out, even if `TOO_MANY` times fewer candidates lie there.
    about_s : ndarray of float64, shape (n_plans,)
        About how many seconds each plan takes that reads these through, every segment by itself.
    """
    coverage = estimate_coverage(features, selected)
    n_blocks = np.maximum(features.segment_blocks, 1.0)
    covered = np.minimum(coverage.blocks / n_blocks, 1.0)
    whole_s = features.segment_blocks * parameters.block_s
    whole_s = whole_s + features.segment_events * event_cost(features, parameters, features.steps)
    left_out = (1.0 - covered) ** (1.0 / TOO_MANY)
    saved_s = left_out * whole_s
    saved_s += (features.segment_stretches - coverage.stretches) * parameters.seek_s
    uses = np.zeros((len(selected), len(features.lookup_entries)))
    for condition, lookup in enumerate(features.lookup.tolist()):
        uses[:, lookup] = np.maximum(uses[:, lookup], selected[:, condition])
    entries = uses @ _entries(features).T
    asked_s = parameters.entry_s * (entries + CANDIDATE_ENTRIES * coverage.candidates)
    read = np.asarray(asked_s > saved_s)
    thinned_s = covered * whole_s + coverage.stretches * parameters.seek_s + asked_s
    about_s = np.where(read, whole_s, thinned_s).sum(axis=1)
    about_s += LOOKUP_JUMPS * parameters.seek_s * uses.sum(axis=1)
    return read, np.asarray(about_s)


def in_part(
    features: PlanFeatures,
    events: FloatArray,
    blocks: FloatArray,
    stretches: FloatArray,
    decoded: FloatArray,
) -> PlanFeatures:
    """Return the features of a part of what remains, in which alone lookups are asked.

    Parameters
    ----------
    features
        Of all that remains.
    events, blocks, stretches
        What the part has of each segment, shape (S,); some events at least.
    decoded
        The most entries each lookup has in the runs that the part touches, shape (L,).

    Notes
    -----
    Entries of the part are charged as any. Those of the same runs outside are decoded as well and
    left out by their rows; of one key only the row groups at the rims of the part are.
    """
    kept = events > 0
    whole = _entries(features)
    share = (events[:, None] / np.maximum(features.segment_events, 1.0)[:, None] * whole).sum(
        axis=0
    ) / np.maximum(whole.sum(axis=0), 1e-9)
    inside = np.minimum(features.lookup_entries * np.minimum(share, 1.0), decoded)
    outside = np.minimum(decoded, features.lookup_entries) - inside
    rims = stretches.sum() * features.group_entries
    outside = np.where(features.is_in_order, np.minimum(outside, rims), outside)
    return replace(
        features,
        lookup_entries=inside,
        outside_entries=np.maximum(outside, 0.0),
        segment_events=events[kept],
        segment_blocks=blocks[kept],
        segment_stretches=stretches[kept],
        window_events=features.window_events[kept],
        density=features.density[kept],
        block_density=features.block_density[kept],
        cuts_rows=False,  # those read through have no intervals
    )


def expected_entries(features: PlanFeatures, events: FloatArray) -> FloatArray:
    """Return how many events each lookup finds in a part, shape (L,); `in_part` has parameters."""
    return np.asarray(events @ _density(features))


def estimate_through(
    features: PlanFeatures,
    events: FloatArray,
    blocks: FloatArray,
    n_stretches: float,
    parameters: CostParameters,
) -> Estimate:
    """Return the estimate of reading blocks through, whatever lookups find elsewhere.

    Parameters
    ----------
    features
        Of all that remains.
    events, blocks
        What is read of each segment, shape (S,).
    n_stretches
        Runs of neighbouring blocks among them.
    parameters
        Weights.
    """
    n_blocks = float(blocks.sum())
    cost = (
        parameters.block_s * n_blocks
        + float(event_cost(features, parameters, features.steps) @ events)
        + parameters.seek_s * n_stretches
    )
    alpha = float(events.sum()) / max(features.n_events, 1)
    return Estimate(cost, n_blocks, 0.0, alpha, 0.0, 0.0, n_stretches)


def with_blocks(
    asked: Estimate, n_further: float, features: PlanFeatures, parameters: CostParameters
) -> Estimate:
    """Return the estimate of a part with further blocks to replay, as far as it has any.

    Parameters
    ----------
    asked, features
        Estimate of a plan in the part, and what it was made of.
    n_further
        Blocks that are read besides.
    parameters
        Weights.
    """
    n_further = min(n_further, max(features.remaining_blocks - asked.blocks, 0.0))
    per_block = features.remaining_events / max(features.remaining_blocks, 1.0)
    further_s = replay_cost(n_further, n_further * per_block, 0.0, features, parameters)
    return replace(asked, cost=asked.cost + further_s, blocks=asked.blocks + n_further)


def both(asked: Estimate, through: Estimate) -> Estimate:
    """Return the estimate of a plan that asks lookups in one part and reads the other through."""
    return Estimate(
        asked.cost + through.cost,
        asked.blocks + through.blocks,
        asked.entries,
        min(asked.alpha + through.alpha, 1.0),
        asked.candidates,
        asked.index_cost,
        asked.stretches + through.stretches,
    )


def _density(features: PlanFeatures) -> FloatArray:
    """Return the share of each segment's events that each lookup finds, shape (S, L)."""
    first = np.zeros(len(features.lookup_entries), dtype=np.int64)
    first[features.lookup[::-1]] = np.arange(len(features.lookup))[::-1]
    return np.asarray(features.density[:, first])


def _entries(features: PlanFeatures) -> FloatArray:
    """Return how many events each lookup finds in each segment, shape (S, L)."""
    return np.asarray(_density(features) * features.segment_events[:, None])
