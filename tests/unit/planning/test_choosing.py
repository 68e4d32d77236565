"""What `auto` takes into account: strategies, weights, samples, gaps, and what lookups may cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronicle.errors import CorruptBlockError
from costmodel import CostParameters
from costmodel.selection import Strategy
from replay.language.bound import Symbol
from replay.planning import PlanKind, choose_plan
from tests.unit.planning.rare_and_common import RARE_AND_COMMON, mixed, statistics_of
from tests.unit.planning.streams import SmallStatistics, compare, query_of, seq, star

A, B, C = (Symbol(i) for i in range(3))


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_gives_a_plan_and_is_named_in_it(strategy):
    plan = choose_plan(RARE_AND_COMMON, statistics_of(), strategy=strategy)
    assert plan.strategy == strategy.value
    # Everything is looked up by ALL, whatever it costs; the others keep to the rare symbol.
    wanted = {"full", "indexes=A.a,B.b"} if strategy is Strategy.ALL else {"indexes=A.a"}
    assert plan.name in wanted


def test_weights_are_those_of_the_stream_unless_others_are_given():
    statistics = statistics_of()
    dear = CostParameters(entry_s=1.0, source="measured")
    statistics.parameters = dear
    plan = choose_plan(RARE_AND_COMMON, statistics)
    assert (plan.kind, plan.weights) == (PlanKind.FULL, dear)
    cheap = choose_plan(RARE_AND_COMMON, statistics, parameters=CostParameters())
    assert (cheap.kind, cheap.weights.source) == (PlanKind.INDEXES, "defaults")


def test_auto_looks_up_what_fills_a_gap_where_that_leaves_less():
    # Every A has a C a hundred rows behind it, but hardly ever nothing but B in between.
    made = [
        {"t": i, "a": {10: 1, 110: 2}.get(i % 200, 3 * (i % 2)), "b": int(i % 500 != 1), "k": 0}
        for i in range(40_000)
    ]
    defines = [compare("=", "a", 1), compare("=", "b", 0), compare("=", "a", 2)]
    query = query_of(seq(A, star(B), C), defines, within=150)
    statistics = SmallStatistics(made, 100, ["a", "b"])
    plan = choose_plan(query, statistics)
    assert plan.name == "indexes=A.a,B.b,C.a"
    assert "indexes=A.a,C.a" in {rival.name for rival in plan.rivals}


def together(n: int) -> SmallStatistics:
    """Two values that come together or not at all, each on a tenth of the events: 100 in 1,000."""
    made = [{"t": i, "a": int(i % 1000 < 100), "b": int(i % 1000 < 100), "k": 0} for i in range(n)]
    for i, row in enumerate(made):
        row["a"] += 2 * (i % 7 == 0 and not row["a"])
        row["b"] += 2 * (i % 5 == 0 and not row["b"])
    return SmallStatistics(made, 100, ["a", "b"])


class Watched(SmallStatistics):
    """Counts the blocks that planning has read."""

    n_sampled = 0

    def sample_columns(self, blocks, attributes):
        self.n_sampled += len(blocks)
        return super().sample_columns(blocks, attributes)


ENTRIES_COUNT = CostParameters(entry_s=1e-6)
"""A machine with slow indexes, though they still save more than they cost."""

SLOW = CostParameters(block_s=1e-3, seek_s=1e-4)
"""A machine on which even a small stream takes long enough to look before."""


def test_sample_corrects_what_independence_gets_wrong():
    # Taken as independent, an A has a B within five rows nearly half of the time, anywhere. They
    # come together: one block in ten has all of them.
    defines = [compare("=", "a", 1), compare("=", "b", 1), None]
    query = query_of(seq(A, star(C), B), defines, within=5)
    plain = together(40_000)
    statistics = Watched(plain.rows, 100, ["a", "b"])
    looked = choose_plan(query, statistics, parameters=SLOW)
    blind = choose_plan(query, plain, parameters=SLOW, sample=False)
    assert 0 < statistics.n_sampled <= 80
    assert blind.sampled is None
    assert looked.sampled is not None
    before = {rival.name: rival.estimated for rival in blind.rivals}
    before[blind.name] = blind.estimated
    after = {rival.name: rival.estimated for rival in looked.rivals}
    after[looked.name] = looked.estimated
    name = "indexes=A.a,B.b"
    assert after[name].blocks < before[name].blocks


class Damaged(Watched):
    """Blocks cannot be read, which a plan may never notice."""

    def sample_columns(self, blocks, attributes):
        super().sample_columns(blocks, attributes)
        raise CorruptBlockError("events-1.parquet", "its checksum is wrong")


def test_sample_that_cannot_be_read_is_no_error():
    defines = [compare("=", "a", 1), compare("=", "b", 1), None]
    query = query_of(seq(A, star(C), B), defines, within=5)
    statistics = Damaged(together(40_000).rows, 100, ["a", "b"])
    plan = choose_plan(query, statistics, parameters=SLOW)
    assert statistics.n_sampled > 0
    assert plan.sampled is None
    assert plan.name == choose_plan(query, statistics, parameters=SLOW, sample=False).name


@pytest.mark.parametrize("requested", ["full", "tree", "all", "indexes=A.a"])
def test_no_event_is_read_to_plan_what_is_named(requested):
    statistics = Watched(mixed(4_000, 1_000), 100, ["a", "b"])
    choose_plan(RARE_AND_COMMON, statistics, requested=requested, parameters=SLOW)
    assert statistics.n_sampled == 0


def test_no_event_is_read_to_plan_what_is_quick():
    statistics = Watched(mixed(4_000, 1_000), 100, ["a", "b"])
    choose_plan(RARE_AND_COMMON, statistics)
    assert statistics.n_sampled == 0


def test_full_replay_that_is_asked_for_is_estimated_as_beside_auto():
    asked = choose_plan(RARE_AND_COMMON, statistics_of(), requested="full")
    beside = choose_plan(RARE_AND_COMMON, statistics_of()).full_estimate
    assert beside is not None
    assert asked.estimated.cost == pytest.approx(beside.cost, rel=0.5)
    assert asked.features is not None
    assert asked.features.block_density.shape == (1, 2)
    assert (asked.features.block_density < 1).all()


def test_first_match_of_many_is_worth_no_lookup():
    # 4,000 candidates: the first ten of them are found in the first few blocks.
    query = query_of(
        seq(A, star(C), B), [compare("=", "a", 1), compare("=", "b", 1), None], within=20
    )
    statistics = statistics_of(40_000, 10)
    every = choose_plan(query, statistics, parameters=ENTRIES_COUNT)
    few = choose_plan(replace(query, limit=10), statistics, parameters=ENTRIES_COUNT)
    enough = choose_plan(replace(query, limit=10**6), statistics, parameters=ENTRIES_COUNT)
    assert every.full_estimate is not None
    assert few.full_estimate is not None
    assert few.full_estimate.cost < every.full_estimate.cost / 100
    assert enough.full_estimate == every.full_estimate
    assert few.kind is not PlanKind.INDEXES
    assert few.estimated.blocks < 10


def test_first_matches_are_not_looked_for_in_a_sample():
    defines = [compare("=", "a", 1), compare("=", "b", 1), None]
    query = query_of(seq(A, star(C), B), defines, within=5)
    statistics = Watched(together(40_000).rows, 100, ["a", "b"])
    for limit in (1, 10**9):  # nobody knows how soon so many are found
        choose_plan(replace(query, limit=limit), statistics, parameters=SLOW)
    assert statistics.n_sampled == 0
    choose_plan(query, statistics, parameters=SLOW)
    assert statistics.n_sampled > 0


def test_lookups_that_might_be_for_nothing_are_not_taken_without_a_bound():
    # The estimate is below the margin, but nearly all of it is spent before an event is read.
    statistics = statistics_of()
    dear = CostParameters(block_s=1e-3, entry_s=2.4e-3, full_margin=0.9)
    plan = choose_plan(RARE_AND_COMMON, statistics, parameters=dear, sample=False)
    rival = next(r for r in plan.rivals if r.name == "indexes=A.a")
    assert rival.estimated.cost < 0.9 * plan.full_estimate.cost
    assert plan.kind is PlanKind.FULL
    assert "spends" in plan.reason


@pytest.mark.parametrize("requested", ["auto", "full", "tree", "all", "indexes=A.a"])
def test_what_a_plan_was_chosen_by_is_kept_in_it(requested):
    plan = choose_plan(RARE_AND_COMMON, statistics_of(), requested=requested)
    assert plan.features is not None
    assert plan.features.n_events == 40_000
    assert plan.full_estimate is not None
    assert plan.full_estimate.blocks == 400


def test_quick_lookups_are_tried_where_their_events_may_lie_close_together():
    """Four A in each block by the count, 1,600 in all, and a window of 50 rows: all is expected to
    be read. They lie in 16 of 400 blocks, which neither fences nor the tree tell."""
    made = [
        {"t": i, "a": 1 if 20_000 <= i < 21_600 else 2 * (i % 2), "b": 2 * (i % 2), "k": 0}
        for i in range(40_000)
    ]
    query = query_of(seq(A, star(C), B), [compare("=", "a", 1), None, None], within=50)
    statistics = SmallStatistics(made, 100, ["a"])
    plan = choose_plan(query, statistics, parameters=SLOW, sample=False)
    assert plan.estimated.blocks > 300
    assert plan.estimated.cost > plan.full_estimate.cost
    assert plan.name == "indexes=A.a"
    assert "may find that far less is to be read" in plan.reason
    looked = choose_plan(query, statistics, parameters=SLOW)
    assert looked.sampled is not None
    assert "may find" not in looked.reason
    dear = replace(SLOW, entry_s=1e-5)
    assert choose_plan(query, statistics, parameters=dear, sample=False).kind is PlanKind.FULL
    greedy = choose_plan(query, statistics, parameters=SLOW, sample=False, strategy=Strategy.BUDGET)
    assert greedy.kind is not PlanKind.INDEXES


def test_dear_entries_turn_the_choice():
    cheap = choose_plan(RARE_AND_COMMON, statistics_of())
    dear = choose_plan(RARE_AND_COMMON, statistics_of(), parameters=CostParameters(entry_s=1.0))
    assert (cheap.kind, dear.kind) == (PlanKind.INDEXES, PlanKind.FULL)
