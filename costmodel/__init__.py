"""Cost model: numbers in, numbers out; knows no store, no file and no clock."""

from costmodel import hypoexponential
from costmodel.choice import Choice, choose
from costmodel.features import PlanFeatures
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate, Estimates, estimate, estimate_full

__all__ = [
    "DEFAULT_PARAMETERS",
    "Choice",
    "CostParameters",
    "Estimate",
    "Estimates",
    "PlanFeatures",
    "choose",
    "estimate",
    "estimate_full",
    "hypoexponential",
]
