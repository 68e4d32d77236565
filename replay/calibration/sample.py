"""Estimated against measured: a sample of queries drawn from the data, carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

from chronicle import Snapshot, Store, Stream
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate
from indexing import clear_answers, open_indexes
from replay.calibration.facts import look_at
from replay.calibration.flow_operations import aggregation_of
from replay.calibration.probes import draw_query, draw_windows
from replay.calibration.timing import SEED, Meter, seconds_of
from replay.engines.read_ahead import thread_count
from replay.engines.statistics import statistics_of
from replay.patterns.plan import plan_pattern
from replay.query import query
from replay.running.statement import prepare
from replay.windows.plan import Way
from replay.windows.tree.planning import window_plan

QUERIES: Final = 12
"""Queries of a report."""

WINDOW_QUERIES: Final = 6
"""Windowed aggregations of a report."""

RUNS: Final = 3
"""Times each plan is carried out; the middle one counts."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One plan of one query, estimated and carried out."""

    number: int
    """Of the query, from 1."""
    sql: str
    plan: str
    chosen: bool
    """Whether it is the plan the query would take by itself."""
    estimated_s: float
    measured_s: float
    """Without planning, and without what other processes took of the cores."""
    estimated_blocks: float
    read_blocks: int

    @property
    def error(self) -> float:
        """``estimated / measured - 1``."""
        return self.estimated_s / self.measured_s - 1

    def to_dict(self) -> dict[str, Any]:
        """Return the line as JSON has it."""
        shown = {**asdict(self), "error": self.error}
        return {"query": shown.pop("number"), "blocks_read": shown.pop("read_blocks"), **shown}


def check_estimates(
    store: Store,
    stream: Stream,
    parameters: CostParameters,
    *,
    n_queries: int = QUERIES,
    n_windows: int = WINDOW_QUERIES,
    progress: Callable[[float], None] = lambda _: None,
) -> Iterator[Checked]:
    """Draw queries from a stream's data, and carry out the plan chosen and the full replay.

    Row patterns come first, then windows, of which tree and replay are carried out: one or two
    lines a query. They are the same each time as long as the stream is.
    """
    snapshot = stream.snapshot()
    facts = look_at(snapshot, frozenset(open_indexes(snapshot).attributes))
    random = np.random.default_rng(SEED)
    sample = _Sample(store, snapshot, parameters, Meter(n_cores=thread_count()))
    for number in range(1, n_queries + n_windows + 1):
        progress((number - 1) / (n_queries + n_windows))
        if number <= n_queries:
            yield from sample.check_pattern(number, draw_query(facts, random))
            continue
        windows = draw_windows(facts, snapshot.n_events, random)
        if windows is None:
            return
        yield from sample.check_windows(number, windows)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Plans and carries out queries that were drawn."""

    store: Store
    snapshot: Snapshot
    parameters: CostParameters
    meter: Meter

    def check_pattern(self, number: int, sql: str) -> Iterator[Checked]:
        """Carry out the plan chosen and the full replay."""
        snapshot, parameters = self.snapshot, self.parameters
        statistics = statistics_of(snapshot)
        bound = prepare(sql, snapshot.schema, snapshot.settings.time, {}).bound
        chosen = plan_pattern(bound, statistics, parameters=parameters)
        for name in dict.fromkeys((chosen.name, "full")):
            plan = plan_pattern(bound, statistics, requested=name, parameters=parameters)
            # A full replay asked for by name is not weighed: of its matches nothing is known.
            weighed = chosen.full_estimate if name == "full" else None
            yield self._checked(number, sql, name, weighed or plan.estimated, chosen.name)

    def check_windows(self, number: int, sql: str) -> Iterator[Checked]:
        """Carry out the plan chosen, and of tree and replay the other one."""
        what = aggregation_of(self.snapshot, sql)
        chosen = window_plan(what, self.snapshot, parameters=self.parameters)
        estimates = {rival.name: rival.estimated for rival in chosen.rivals}
        estimates[chosen.name] = chosen.estimated
        for name in dict.fromkeys((chosen.name, Way.TREE.value, Way.REPLAY.value)):
            yield self._checked(number, sql, name, estimates[name], chosen.name)

    def _checked(
        self, number: int, sql: str, name: str, estimated: Estimate, chosen: str
    ) -> Checked:
        # Plans and compiled queries are kept, so that from here on no time goes to planning.
        blocks = query(self.store, sql, plan=name).actual.blocks_read
        seconds = []
        for _ in range(RUNS):
            clear_answers()
            seconds.append(seconds_of(partial(query, self.store, sql, plan=name), self.meter))
        return Checked(
            number,
            sql,
            name,
            name == chosen,
            estimated.cost,
            median(seconds),
            estimated.blocks,
            blocks,
        )
