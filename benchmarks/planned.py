"""Plans of one question: which there are, what they are estimated at, what they turn out to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import replay
from benchmarks.harness import Side, Timing, fail, forget, interleave
from chronicle import Snapshot, Store
from costmodel.features import PlanFeatures
from costmodel.plan_cost import Estimate, estimate
from costmodel.thesis.formulas import thesis_alpha
from costmodel.thesis.selection import Selection, Strategy, select
from replay.engines.index_phase import Lookups
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.language.syntax import streams_of
from replay.patterns.plan import plan_pattern
from replay.planning.block_ranges import count_blocks
from replay.planning.intervals import replay_stretches
from replay.planning.named_plans import PREFIX, index_conditions
from replay.planning.plan import Condition, Plan, PlanKind, plan_name
from replay.running.statement import parse, prepare


class Question:
    """A query over a store, planned and looked into, but not run."""

    def __init__(self, store: Store, sql: str, name: str = "") -> None:
        self.store = store
        self.sql = sql
        self.name = name

    def run(self, plan: str = "auto") -> replay.Result:
        """Answer it."""
        return replay.query(self.store, self.sql, plan=plan)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The stream as it is now."""
        (name,) = streams_of(parse(self.sql))
        return self.store.stream(name).snapshot()

    @cached_property
    def _statement(self) -> Any:
        return prepare(self.sql, self.snapshot.schema, self.snapshot.settings.time, {})

    @cached_property
    def statistics(self) -> SnapshotStatistics:
        """What planning may know."""
        return statistics_of(self.snapshot)

    def plan(self, requested: str = "auto", **options: Any) -> Plan:
        """Plan anew; ``options`` go to `plan_pattern`."""
        return plan_pattern(self._statement.bound, self.statistics, requested=requested, **options)

    @cached_property
    def chosen(self) -> Plan:
        """What ``auto`` expects before its first step."""
        return self.plan()

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Every range that an index can look up, in the order the cost model knows them by."""
        known = self.statistics
        return index_conditions(self.chosen.required, known.indexed, known.composites)

    @property
    def n_lookups(self) -> int:
        """How many different lookups the conditions need."""
        return len({condition.lookup for condition in self.conditions})

    def name_of(self, chosen: Iterable[bool]) -> str:
        """Return the name of the plan that uses some of the conditions; ``tree`` uses none."""
        used = tuple(c for c, is_used in zip(self.conditions, chosen, strict=True) if is_used)
        return plan_name(PlanKind.INDEXES if used else PlanKind.TREE, used)

    def all_plans(self, *, by_lookup: bool = True) -> list[str]:
        """Return the names of all plans, ``tree`` first and without ``full``.

        With ``by_lookup`` conditions that share a lookup are used together or not at all, as the
        planner does; else every set of conditions is a plan, as in the thesis.
        """
        n = len(self.conditions)
        lookups = list(dict.fromkeys(condition.lookup for condition in self.conditions))
        unit = [lookups.index(c.lookup) for c in self.conditions] if by_lookup else list(range(n))
        sets = product((False, True), repeat=len(set(unit)))
        return list(dict.fromkeys(self.name_of([used[u] for u in unit]) for used in sets))

    @cached_property
    def features(self) -> PlanFeatures | None:
        """What the cost model is told, by the coarse pattern map; None if nothing is weighed."""
        return self.chosen.features

    @cached_property
    def uniform_features(self) -> PlanFeatures | None:
        """The same without a coarse pattern map: one segment, rates even over the whole stream."""
        known = self.features
        if known is None:
            return None
        lookups = list(dict.fromkeys(condition.lookup for condition in self.conditions))
        counts = [self.statistics.estimate_count(*lookup) for lookup in lookups]
        expected = np.array([(least + most) / 2 for least, most in counts])
        density = expected[known.lookup] / max(known.n_events, 1)
        by_block = np.ones(len(known.block_lengths))
        np.multiply.at(by_block, known.basic_block, np.minimum(density, 1.0))
        return replace(
            known,
            lookup_entries=np.array([float(most) for _, most in counts]),
            segment_events=np.array([float(known.n_events)]),
            segment_blocks=np.array([float(known.n_blocks)]),
            segment_stretches=np.ones(1),
            window_events=np.array([self._even_window()]),
            density=density[None, :],
            block_density=by_block[None, :],
        )

    def _even_window(self) -> float:
        """Return the events of a window if they were even over the whole stream."""
        rows = self.chosen.required.row_window
        window = np.inf if rows is None else float(rows)
        within = self._statement.bound.within
        leaves = self.statistics.leaves
        if within is None or not len(leaves.t_min):
            return window
        span = float(leaves.t_max[-1]) - float(leaves.t_min[0]) + 1.0
        return min(window, within * self.statistics.n_events / span + 1.0)

    def select(self, strategy: Strategy, features: PlanFeatures) -> tuple[str, Selection]:
        """Return the plan a strategy picks from features, by name, and how it came to it."""
        selection = select(features, self.chosen.weights, strategy)
        return self.name_of(selection.chosen.tolist()), selection

    def estimate_by(self, features: PlanFeatures, plan: str) -> Estimate:
        """Return what a plan of index lookups, or ``tree``, is estimated at from some features."""
        selected = self._conditions_of(plan)[None, :]
        return estimate(features, selected, self.chosen.weights).of(0)

    def printed_blocks(self, plan: str) -> float | None:
        """Return the blocks the thesis' printed formulas estimate: their alpha of all blocks.

        Even data is assumed, as without a map. None for a plan without index lookups.
        """
        even = self.uniform_features
        used = self._conditions_of(plan)
        if even is None or not used.any():
            return None
        block_of = even.basic_block[used]
        chosen = np.unique(block_of)
        density = [float(np.prod(even.density[0, used][block_of == b])) for b in chosen]
        positions = [
            c.position for c, is_used in zip(self.conditions, used, strict=True) if is_used
        ]
        share = thesis_alpha(
            np.maximum(density, 1.0 / even.n_events),
            min(float(even.window_events[0]), float(even.n_events)) - 1.0,
            even.n_events,
            starts=even.starts_exact and min(positions) == 0,
            ends=even.ends_exact and max(positions) == len(self.chosen.required.positions) - 1,
        )
        return share * even.n_blocks

    def _conditions_of(self, plan: str) -> npt.NDArray[np.bool_]:
        """Return which of the conditions a plan uses, shape (n_conditions,)."""
        names = plan.removeprefix(PREFIX).split(",")
        return np.array([condition.name in names for condition in self.conditions], dtype=np.bool_)

    def estimate(self, plan: str) -> Estimate:
        """Return what a plan is estimated at without a look at any event."""
        return self.plan(plan).estimated

    def actual_blocks(self, plan: str) -> int:
        """Return the blocks that a plan's replay intervals come to, whatever the engine then does.

        Blocks between two stretches that are not worth skipping count; no event is read.
        """
        planned = self.plan(plan)
        lookups = Lookups(planned, self.statistics)
        for lookup in dict.fromkeys(condition.lookup for condition in planned.conditions):
            lookups.read(lookup)
        occurrences = lookups.occurrences(planned.conditions)
        return count_blocks(replay_stretches(planned, occurrences, self.statistics).blocks)


def first_runs(question: Question, plans: Sequence[str]) -> dict[str, tuple[replay.Result, float]]:
    """Run each plan once, caches of answers empty, and end the benchmark unless answers agree."""
    runs: dict[str, tuple[replay.Result, float]] = {}
    answer: pa.Table | None = None
    for plan in ("full", *plans):
        forget()
        started = perf_counter()
        result = question.run(plan)
        runs[plan] = (result, perf_counter() - started)
        answer = result.table if answer is None else answer
        if not result.table.equals(answer):
            fail(f"{question.name}: plan {plan} differs from the full replay\n{question.sql}")
    return runs


AGAIN = " again"
"""Behind a plan's name: asked directly after it, its plan and answers of lookups being kept."""


def race(question: Question, plans: Sequence[str], rounds: int) -> dict[str, Timing]:
    """Time plans in turn, each call with empty caches of answers and plans, but ``AGAIN``."""

    def side(plan: str) -> Side:
        requested = plan.removesuffix(AGAIN)
        return Side(plan, lambda: question.run(requested), keeps=plan != requested)

    timings = interleave(
        [side(plan) for plan in plans], rounds=rounds, before=forget, warm_up=False
    )
    return {timing.name: timing for timing in timings}


def planning_time(question: Question, rounds: int) -> float:
    """Return the median seconds from the text of a question to its plan, nothing kept of it."""
    seconds = []
    for _ in range(rounds):
        forget()
        seconds.append(question.run().actual.seconds.plan)
    return median(seconds)


def relative_error(estimated: float, actual: float) -> float | None:
    """Return |estimated - actual| / actual (the thesis' ErrPIO); None where actual is nothing."""
    return abs(estimated - actual) / actual if actual else None
