"""Explaining looks closer, and tells what the plan reads; it chooses what the query chooses."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.engines.lookups import Lookups
from replay.engines.statistics import statistics_of
from replay.errors import SkipError
from replay.planning.block_ranges import count_blocks
from replay.planning.intervals import replay_stretches
from replay.planning.plan import Plan
from replay.running.statement import prepare
from tests.helpers import fill_stream
from tests.pattern_cases import pattern_case
from tests.strategies import SmallStream

BLOCK = 8
PATTERNS = ("A Z* B", "A B Z* C", "Z* A B", "A B* C", "(A | B) Z* C", "A+ B", "A? B Z*", "A B{2}")
CONDITIONS = ("a = 3", "a = 7 AND s = 'b'", "s IN ('c', 'd')", "a BETWEEN 4 AND 5", "s > 'g'")
SKIPS = ("AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW")


def check_look(stream: SmallStream, sql: str, index: tuple[str, ...], requested: str) -> None:
    """Hold an explanation to the query, and what it tells to lookups and their intervals."""
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
        snapshot = store.stream("s").snapshot()
        bound = prepare(sql, snapshot.schema, snapshot.settings.time, {}).bound
        lookups = Lookups(plan, statistics_of(snapshot))
        for lookup in dict.fromkeys(condition.lookup for condition in plan.conditions):
            lookups.read(lookup)
        found = lookups.occurrences(plan.conditions)
        truth = replay_stretches(plan, found, bound, statistics_of(snapshot))
        assert told.is_certain
        # At the rims of stretches rows that lie outside may count or not: no match can cross them.
        if len(plan.stretches) == 1 and count_blocks(plan.stretches) == plan.n_blocks:
            event(f"blocks of a whole stream: {count_blocks(truth.blocks) > 0}")
            assert told.estimated.blocks == count_blocks(truth.blocks)
            assert told.estimated.candidates == truth.n_candidates
            assert told.estimated.alpha * truth_events(plan) <= truth.n_events_covered + 1e-6


def truth_events(plan: Plan) -> int:
    assert plan.features is not None
    return plan.features.n_events


@given(seed=st.integers(0, 2**32 - 1), requested=st.sampled_from(["auto", "all"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_looks_change_no_plan_whatever_the_constructs(seed: int, requested: str) -> None:
    case = pattern_case(seed)
    check_look(case.stream, case.sql, case.indexes, requested)


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
def test_a_look_at_all_blocks_tells_what_lookups_find(
    case: tuple[SmallStream, str], requested: str
) -> None:
    stream, sql = case
    check_look(stream, sql, ("a", "s"), requested)
