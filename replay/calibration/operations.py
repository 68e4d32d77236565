"""What calibration times: replays over stretches of blocks, and lookups with their sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from chronicle import Snapshot
from chronicle.compile_time import clock
from costmodel.calibration import expected_seconds, units_of_work
from costmodel.features import PlanFeatures
from costmodel.lookups import interval_cost, lookup_cost
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import replay_cost
from indexing import clear_answers
from replay.calibration.facts import Facts
from replay.calibration.probes import Probe, lookup_probes, replay_probes
from replay.calibration.timing import SEED, Operation
from replay.engines.index_phase import Lookups
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.patterns.local import Replay, kept_if_small
from replay.patterns.plan import plan_pattern
from replay.planning.block_ranges import count_blocks, count_events
from replay.planning.statistics import IntArray
from replay.planning.steps import carry_out
from replay.running.statement import Statement, prepare

STEP: Final = 4
"""Sizes go up by this factor."""

EVENTS_MAX: Final = 1 << 22
"""Events of the largest replay timed: far beyond what threads need to get going."""

SCATTERED_LENGTHS: Final = (1, 4)
"""Blocks of each stretch of scattered replays."""

EVENT_S: Final = 5e-8
"""Seconds an event of the probes takes about, to size them before anything is known."""

RUNS: Final = 8
"""Times that a round must fit into the time there is, by the default weights."""


def operations_on(snapshot: Snapshot, facts: Facts, *, seconds: float) -> Iterator[Operation]:
    """Yield what can be timed on a stream with events; the less time, the smaller."""
    statistics = statistics_of(snapshot)
    probes = replay_probes(facts)
    probe_s = seconds / (len(probes) * RUNS)
    layouts = list(_layouts(snapshot, probe_s))
    for probe in probes:
        statement = prepare(probe.sql, snapshot.schema, snapshot.settings.time, {})
        features = plan_pattern(statement.bound, statistics, requested="tree").features
        if features is None:  # proven to have no match: nothing would be replayed
            continue
        for name, stretches in layouts:
            found = _replay(snapshot, probe, statement, features, name, stretches)
            # Where many searches begin, few blocks may take more than the time there is.
            if expected_seconds(found.units) <= probe_s:
                yield found
    names = set()
    for probe, plan in lookup_probes(facts, snapshot.n_events):
        asked = _lookup(snapshot, statistics, probe, plan)
        # Small ranges decode the same row groups: one of them is enough.
        if asked is not None and asked.name not in names:
            names.add(asked.name)
            yield asked


def _layouts(snapshot: Snapshot, seconds: float) -> Iterator[tuple[str, IntArray]]:
    """Yield sets of blocks to replay: in sequence and scattered, of sizes over decades."""
    n_blocks = snapshot.n_blocks
    per_block = snapshot.n_events / n_blocks
    random = np.random.default_rng(SEED)
    # All sizes together are 4/3 of the largest, and there are three kinds of layouts.
    defaults = DEFAULT_PARAMETERS
    block_s = defaults.block_s + defaults.seek_s + per_block * EVENT_S
    largest = min(seconds / (4 * block_s), EVENTS_MAX / per_block)
    size = 1
    while size <= n_blocks and size <= max(largest, 1):
        first = int(random.integers(n_blocks - size + 1))
        yield f"{size} blocks in sequence", np.array([[first, first + size]], dtype=np.int64)
        for length in SCATTERED_LENGTHS:
            n_stretches = size // length
            room = n_blocks // n_stretches if n_stretches else 0
            if n_stretches >= STEP and room >= length + 2:
                shift = random.integers(room - length - 1, size=n_stretches)
                starts = np.arange(n_stretches) * room + shift
                name = f"{n_stretches} x {length} blocks scattered"
                yield name, np.stack((starts, starts + length), axis=1).astype(np.int64)
        size *= STEP


def _replay(
    snapshot: Snapshot,
    probe: Probe,
    statement: Statement,
    features: PlanFeatures,
    name: str,
    stretches: IntArray,
) -> Operation:
    n_blocks, n_events = count_blocks(stretches), count_events(stretches, snapshot.bases)

    def run() -> None:
        source = kept_if_small(snapshot, statement.bound, statement.program, n_events)
        for _ in Replay(source, statement.program, stretches).matches():
            continue

    units = units_of_work(
        lambda weights: replay_cost(n_blocks, n_events, len(stretches), features, weights)
    )
    kind = "scattered" if len(stretches) > 1 else "in sequence"
    return Operation(f"{probe.kind}: {name}", f"replay {kind}, {probe.kind}", units, run)


def _lookup(
    snapshot: Snapshot, statistics: SnapshotStatistics, probe: Probe, requested: str
) -> Operation | None:
    """Return a plan's index phase as an operation; None if it is known to find nothing."""
    statement = prepare(probe.sql, snapshot.schema, snapshot.settings.time, {})
    plan = plan_pattern(statement.bound, statistics, requested=requested)
    features = plan.features
    if plan.finds_nothing or features is None:
        return None

    def run() -> tuple[int, int]:
        source = Lookups(plan, statistics)
        found = carry_out(plan, statistics, source, clock)
        return source.n_entries_read, found.stretches.n_candidates

    clear_answers()
    n_read, n_candidates = run()
    lookups = {condition.lookup for condition in plan.conditions}
    in_order = np.array([ranges.is_one_key for _, ranges in lookups])
    entries = np.full(len(lookups), n_read / len(lookups))

    def cost(weights: CostParameters) -> float:
        asking_s = lookup_cost(entries, in_order, weights, keyed=features.is_keyed)
        return float(asking_s.sum()) + float(interval_cost(np.array(n_candidates), weights))

    name = f"{probe.kind}: {n_read:,} entries of {plan.conditions[0].attribute}"
    return Operation(
        name, f"{probe.kind} and sweep", units_of_work(cost), run, before=clear_answers
    )
