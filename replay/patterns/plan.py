"""Choosing the plan of a row pattern."""

from __future__ import annotations

from typing import Any

from replay.language.bound import BoundPatternQuery
from replay.patterns.requirements import requirements
from replay.planning.plan import Plan
from replay.planning.planner import choose_plan
from replay.planning.statistics import StreamStatistics


def plan_pattern(query: BoundPatternQuery, statistics: StreamStatistics, **options: Any) -> Plan:
    """Return the plan of a row pattern over a stream; ``options`` and errors: `choose_plan`."""
    return choose_plan(requirements(query, statistics), statistics, **options)
