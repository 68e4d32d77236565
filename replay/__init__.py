"""Queries over history: languages, planning, operators and engines."""

from typing import TYPE_CHECKING

from chronicle.door import offer
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

if TYPE_CHECKING:
    from replay.dataflow import Dataflow, Windowed, stream
    from replay.online import OnlineFlow, online
    from replay.pacing.events import PacedReplay, events
    from replay.query import Explanation, batches, clear_caches, explain, query, query_many
    from replay.result import Result
    from replay.running.online_query import OnlineQuery

offer(
    __name__,
    {
        "replay.dataflow": ("Dataflow", "Windowed", "stream"),
        "replay.online": ("OnlineFlow", "online"),
        "replay.pacing.events": ("PacedReplay", "events"),
        "replay.query": (
            "Explanation",
            "batches",
            "clear_caches",
            "explain",
            "query",
            "query_many",
        ),
        "replay.result": ("Result",),
        "replay.running.online_query": ("OnlineQuery",),
    },
)

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
    "query_many",
    "stream",
]
