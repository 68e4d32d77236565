"""Pairs of a join on their way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from replay.engines.execution_stats import ExecutionStats
from replay.joins.run import JoinRun
from replay.query_plan import AnyPlan, FlowPlan
from replay.running.flows import Flow


@dataclass(slots=True, eq=False)
class JoinFlow:
    """A join of two sides."""

    run: JoinRun
    flows: tuple[Flow, ...]
    """Of the left and of the right."""

    @property
    def plan(self) -> AnyPlan | None:
        """The plan of the join with those below it; None where all is in memory."""
        plans = tuple(plan for plan in (flow.plan for flow in self._below) if plan is not None)
        if plans:
            return FlowPlan("join", plans, self.run.plan)
        is_stored = any(side.snapshot is not None for side in self.run.sides)
        return self.run.plan if is_stored else None

    @property
    def _below(self) -> Iterator[Flow]:
        """Flows of the sides that the join does not read itself."""
        for flow, side in zip(self.flows, self.run.sides, strict=True):
            if side.snapshot is None:
                yield flow

    def tables(self) -> Iterator[pa.Table]:
        """Yield the pairs."""
        return self.run.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far, by the join and below it."""
        own = self.run.work()
        for flow in self._below:
            own += flow.work().below()
        for side in self.run.sides:
            if side.statistics is not None:
                own += ExecutionStats(warnings=side.statistics.faults)
        return own
