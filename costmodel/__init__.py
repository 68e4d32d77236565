"""Cost model: numbers in, numbers out; knows no store, no file and no clock."""

from costmodel import hypoexponential
from costmodel.choice import Choice, choose
from costmodel.features import PlanFeatures
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate, Estimates, estimate, estimate_full, replay_cost
from costmodel.selection import Selection, Strategy, select, shortlist
from costmodel.thesis import PrintedCoverage, thesis_alpha, thesis_coverage

__all__ = [
    "DEFAULT_PARAMETERS",
    "Choice",
    "CostParameters",
    "Estimate",
    "Estimates",
    "PlanFeatures",
    "PrintedCoverage",
    "Selection",
    "Strategy",
    "choose",
    "estimate",
    "estimate_full",
    "hypoexponential",
    "replay_cost",
    "select",
    "shortlist",
    "thesis_alpha",
    "thesis_coverage",
]
