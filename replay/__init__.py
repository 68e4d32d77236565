"""Queries over history: languages, planning, operators and engines."""

from replay.dataflow import Dataflow, Windowed, stream
from replay.errors import (
    BindError,
    LimitExceededError,
    NotSupportedError,
    PatternSyntaxError,
    PlanError,
    QueryError,
    SkipError,
    StepLimitError,
    UnknownNameError,
)
from replay.online import OnlineFlow, online
from replay.pacing.events import PacedReplay, events
from replay.query import Explanation, batches, clear_caches, explain, query
from replay.result import Result
from replay.running.online_query import OnlineQuery

__all__ = [
    "BindError",
    "Dataflow",
    "Explanation",
    "LimitExceededError",
    "NotSupportedError",
    "OnlineFlow",
    "OnlineQuery",
    "PacedReplay",
    "PatternSyntaxError",
    "PlanError",
    "QueryError",
    "Result",
    "SkipError",
    "StepLimitError",
    "UnknownNameError",
    "Windowed",
    "batches",
    "clear_caches",
    "events",
    "explain",
    "online",
    "query",
    "stream",
]
