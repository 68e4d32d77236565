"""Queries over history: languages, planning, operators and engines."""

from replay.errors import (
    BindError,
    NotSupportedError,
    PatternSyntaxError,
    PlanError,
    QueryError,
    StepLimitError,
    UnknownNameError,
)
from replay.query import Explanation, explain, query
from replay.result import Result

__all__ = [
    "BindError",
    "Explanation",
    "NotSupportedError",
    "PatternSyntaxError",
    "PlanError",
    "QueryError",
    "Result",
    "StepLimitError",
    "UnknownNameError",
    "explain",
    "query",
]
