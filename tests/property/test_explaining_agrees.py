"""Explaining tells what the plan reads, and chooses what the query chooses."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.engines.lookups import Lookups
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.errors import SkipError
from replay.language.bound import BoundPatternQuery
from replay.planning.block_ranges import count_blocks
from replay.planning.intervals import replay_stretches
from replay.planning.plan import Plan
from replay.planning.told import Told, look
from replay.running.statement import prepare
from tests.helpers import fill_stream
from tests.pattern_cases import pattern_case
from tests.strategies import SmallStream

BLOCK = 8
PATTERNS = ("A Z* B", "A B Z* C", "Z* A B", "A B* C", "(A | B) Z* C", "A+ B", "A? B Z*", "A B{2}")
CONDITIONS = ("a = 3", "a = 7 AND s = 'b'", "s IN ('c', 'd')", "a BETWEEN 4 AND 5", "s > 'g'")
SKIPS = ("AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW")


def check_told(stream: SmallStream, sql: str, index: tuple[str, ...], requested: str) -> None:
    """Hold an explanation to the query, and a look at all blocks to lookups and their intervals."""
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=index)
        try:
            explained = replay.explain(store, sql, plan=requested)
        except replay.PlanError:
            return
        replay.clear_caches()
        try:
            stats = replay.query(store, sql, plan=requested).stats
        except SkipError:
            return
        assert {**explained.to_dict(), "told": None} == {**stats, "actual": None}
        told, plan = explained.told, explained.plan
        event("told" if told is not None else "nothing told")
        if told is None:
            return
        assert isinstance(plan, Plan)
        assert told.is_asked
        check_counts(told, stats["actual"])
        snapshot = store.stream("s").snapshot()
        bound = prepare(sql, snapshot.schema, snapshot.settings.time, {}).bound
        check_look(plan, bound, statistics_of(snapshot))


def check_counts(told: Told, actual: dict[str, Any]) -> None:
    """Lookups tell what is read, to the block; with neighbours in partitions, at least that."""
    event(f"told otherwise than planned: {told.switched is not None}")
    counted = (actual["blocks_read"], actual["candidates"], actual["entries_read"])
    if told.is_certain:
        estimated = told.estimated
        assert (estimated.blocks, estimated.candidates, estimated.entries) == counted
        assert told.switched == actual["switched"]
        # Of the rows of a block those of other keys may be left out.
        assert told.estimated.alpha >= actual["alpha"]
    assert told.blocks_min <= actual["blocks_read"] <= told.blocks_max


def check_look(plan: Plan, bound: BoundPatternQuery, statistics: SnapshotStatistics) -> None:
    """Hold a look at all blocks of a small stream to what the plan's lookups leave."""
    looked = look(plan, bound, statistics)
    event("looked" if looked is not None else "nothing to look at")
    if looked is None:
        return
    lookups = Lookups(plan, statistics)
    for lookup in dict.fromkeys(condition.lookup for condition in plan.conditions):
        lookups.read(lookup)
    truth = replay_stretches(plan, lookups.occurrences(plan.conditions), bound, statistics)
    assert looked.is_certain
    # At the rims of stretches rows that lie outside may count or not: no match can cross them.
    if len(plan.stretches) == 1 and count_blocks(plan.stretches) == plan.n_blocks:
        event(f"blocks of a whole stream: {count_blocks(truth.blocks) > 0}")
        assert looked.estimated.blocks == count_blocks(truth.blocks)
        assert looked.estimated.candidates == truth.n_candidates
        assert looked.estimated.alpha * truth_events(plan) <= truth.n_events_covered + 1e-6


def truth_events(plan: Plan) -> int:
    assert plan.features is not None
    return plan.features.n_events


@given(seed=st.integers(0, 2**32 - 1), requested=st.sampled_from(["auto", "all"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_explaining_changes_no_plan_and_tells_what_it_reads(seed: int, requested: str) -> None:
    case = pattern_case(seed)
    check_told(case.stream, case.sql, case.indexes, requested)


@st.composite
def rare_in_every_block(draw: st.DrawFn) -> tuple[SmallStream, str]:
    """Streams of which the extremes prune nothing, and patterns of rare symbols in a window."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    extremes = [(-9, "A"), (99, "zz")]
    rows, t = [], 0
    for i in range(BLOCK * random.randint(8, 40)):
        t += random.choice([0, 1, 1, 3])
        a, s = random.randint(0, 8), random.choice("abcdefgh")
        a, s = extremes[i % BLOCK] if i % BLOCK < len(extremes) else (a, s)
        rows.append({"t": t, "a": a, "x": float(i), "s": s, "f": True, "k": i % 3})
    pattern = draw(st.sampled_from(PATTERNS))
    names = [name for name in "ABC" if name in pattern]
    conditions = [f"{name} AS {random.choice(CONDITIONS)}" for name in names]
    sql = (
        f"SELECT * FROM s MATCH_RECOGNIZE ({random.choice(['', 'PARTITION BY k '])}ORDER BY t "
        f"MEASURES LAST(t) AS e {random.choice(SKIPS)} PATTERN ({pattern}) "
        f"WITHIN {random.choice([0, 2, 9, 40])} DEFINE {', '.join(conditions)})"
    )
    return SmallStream(rows, BLOCK, file_events=64, fan_out=4, cuts=()), sql


@given(
    case=rare_in_every_block(), requested=st.sampled_from(["auto", "all", "indexes=A", "indexes=B"])
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_lookups_tell_what_is_read_and_a_look_at_all_blocks_the_same(
    case: tuple[SmallStream, str], requested: str
) -> None:
    stream, sql = case
    check_told(stream, sql, ("a", "s"), requested)
