"""What replaying blocks takes, by actual counts."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters
from costmodel.plan_cost import estimate_full, replay_cost
from replay.planning.block_ranges import count_blocks, count_events
from replay.planning.statistics import IntArray


@dataclass(frozen=True, slots=True)
class ReplayCosts:
    """What replaying takes by the cost model, whose matcher's steps are worked out once."""

    block_s: float
    event_s: float
    seek_s: float
    full_s: float
    """Of everything."""

    @classmethod
    def of(cls, features: PlanFeatures, weights: CostParameters) -> ReplayCosts:
        """Return the costs by what the cost model is told, and its weights."""
        event_s = replay_cost(0.0, 1.0, 0.0, features, weights)
        full_s = estimate_full(features, weights).cost
        return cls(weights.block_s, event_s, weights.seek_s, full_s)

    def cost(self, blocks: IntArray, base: IntArray) -> float:
        """Return the seconds to replay some blocks (`replay_cost`)."""
        per_event = self.event_s * count_events(blocks, base)
        return self.block_s * count_blocks(blocks) + per_event + self.seek_s * len(blocks)
