"""Planning: a bound query and summaries in, a plan out; reads no file."""

from replay.planning.explain import to_json, to_text
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.plan import Condition, Occurrences, Plan, PlanKind
from replay.planning.planner import choose_plan
from replay.planning.ranges import implied_ranges
from replay.planning.shape import PatternShape, Position, to_shape
from replay.planning.statistics import StreamStatistics

__all__ = [
    "Condition",
    "Occurrences",
    "PatternShape",
    "Plan",
    "PlanKind",
    "Position",
    "StreamStatistics",
    "Stretches",
    "choose_plan",
    "implied_ranges",
    "replay_stretches",
    "to_json",
    "to_shape",
    "to_text",
]
