"""Choosing the plan of a row pattern."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replay.language.bound import BoundPatternQuery
from replay.patterns.answer import aggregation_of
from replay.patterns.known_rows import to_known
from replay.patterns.program import MatchProgram
from replay.patterns.requirements import requirements
from replay.planning.plan import Plan
from replay.planning.planner import choose_plan
from replay.planning.statistics import StreamStatistics


def plan_pattern(
    query: BoundPatternQuery,
    statistics: StreamStatistics,
    program: MatchProgram | None = None,
    **options: Any,
) -> Plan:
    """Return the plan of a row pattern over a stream; ``options`` and errors: `choose_plan`.

    ``program`` as in `aggregation_of`.
    """
    told, required = aggregation_of(query, program), requirements(query, statistics)
    if told is not None:
        required = to_known(query, program, replace(required, aggregation=told), statistics.key)
    return choose_plan(required, statistics, **options)
