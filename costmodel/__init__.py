"""Cost model: numbers in, numbers out; knows no store, no file and no clock."""

from costmodel.features import PlanFeatures
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate, Estimates, estimate, estimate_full, replay_cost

__all__ = [
    "DEFAULT_PARAMETERS",
    "CostParameters",
    "Estimate",
    "Estimates",
    "PlanFeatures",
    "estimate",
    "estimate_full",
    "replay_cost",
]
