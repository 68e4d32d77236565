"""Queries over history: languages, planning, operators and engines."""

from replay.errors import (
    BindError,
    NotSupportedError,
    PatternSyntaxError,
    PlanError,
    QueryError,
    SkipError,
    StepLimitError,
    UnknownNameError,
)
from replay.online import OnlineQuery, online
from replay.query import Explanation, batches, clear_caches, explain, query
from replay.result import Result

__all__ = [
    "BindError",
    "Explanation",
    "NotSupportedError",
    "OnlineQuery",
    "PatternSyntaxError",
    "PlanError",
    "QueryError",
    "Result",
    "SkipError",
    "StepLimitError",
    "UnknownNameError",
    "batches",
    "clear_caches",
    "explain",
    "online",
    "query",
]
