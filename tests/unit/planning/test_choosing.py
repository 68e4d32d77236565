"""What `auto` expects before its first step: weights, gaps, LIMIT; and strategies of the thesis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel import CostParameters
from costmodel.thesis.selection import Strategy
from replay.language.bound import Symbol
from replay.patterns.plan import plan_pattern
from replay.planning.plan import PlanKind
from tests.unit.planning.rare_and_common import RARE_AND_COMMON, statistics_of
from tests.unit.planning.streams import SmallStatistics, compare, query_of, seq, star

A, B, C = (Symbol(i) for i in range(3))


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_gives_a_plan_that_is_carried_out_to_the_letter(strategy):
    plan = plan_pattern(RARE_AND_COMMON, statistics_of(), strategy=strategy)
    assert not plan.takes_steps
    assert f"selected by {strategy.value}" in plan.reason
    # Everything is looked up by ALL, whatever it costs; the others keep to the rare symbol.
    wanted = {"full", "indexes=A.a,B.b"} if strategy is Strategy.ALL else {"indexes=A.a"}
    assert plan.name in wanted


def test_weights_are_those_of_the_stream_unless_others_are_given():
    statistics = statistics_of()
    dear = CostParameters(entry_s=1.0, source="measured")
    statistics.parameters = dear
    plan = plan_pattern(RARE_AND_COMMON, statistics)
    assert (plan.kind, plan.weights) == (PlanKind.FULL, dear)
    cheap = plan_pattern(RARE_AND_COMMON, statistics, parameters=CostParameters())
    assert (cheap.kind, cheap.weights.source) == (PlanKind.INDEXES, "defaults")


def test_what_fills_a_gap_is_an_option_of_steps():
    # Every A has a C a hundred rows behind it, but hardly ever nothing but B in between.
    made = [
        {"t": i, "a": {10: 1, 110: 2}.get(i % 200, 3 * (i % 2)), "b": int(i % 500 != 1), "k": 0}
        for i in range(40_000)
    ]
    defines = [compare("=", "a", 1), compare("=", "b", 0), compare("=", "a", 2)]
    query = query_of(seq(A, star(B), C), defines, within=150)
    statistics = SmallStatistics(made, 100, ["a", "b"])
    plan = plan_pattern(query, statistics)
    assert [option.name for option in plan.options] == ["A.a", "C.a", "B.b"]


ENTRIES_COUNT = CostParameters(entry_s=1e-6)
"""A machine with slow indexes, though they still save more than they cost."""

SLOW = CostParameters(block_s=1e-3, seek_s=1e-4)
"""A machine on which even a small stream takes long enough to look before."""


def test_full_replay_that_is_asked_for_is_estimated_as_beside_auto():
    asked = plan_pattern(RARE_AND_COMMON, statistics_of(), requested="full")
    beside = plan_pattern(RARE_AND_COMMON, statistics_of()).full_estimate
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
    every = plan_pattern(query, statistics, parameters=ENTRIES_COUNT)
    few = plan_pattern(replace(query, limit=10), statistics, parameters=ENTRIES_COUNT)
    enough = plan_pattern(replace(query, limit=10**6), statistics, parameters=ENTRIES_COUNT)
    assert every.full_estimate is not None
    assert few.estimated.cost < every.full_estimate.cost / 100
    assert (every.wanted_share, enough.wanted_share) == (1.0, 1.0)
    assert few.kind is not PlanKind.INDEXES


@pytest.mark.parametrize("requested", ["auto", "full", "tree", "all", "indexes=A.a"])
def test_what_a_plan_was_chosen_by_is_kept_in_it(requested):
    plan = plan_pattern(RARE_AND_COMMON, statistics_of(), requested=requested)
    assert plan.features is not None
    assert plan.features.n_events == 40_000
    assert plan.full_estimate is not None
    assert plan.full_estimate.blocks == 400


def test_dear_entries_turn_the_choice():
    cheap = plan_pattern(RARE_AND_COMMON, statistics_of())
    dear = plan_pattern(RARE_AND_COMMON, statistics_of(), parameters=CostParameters(entry_s=1.0))
    assert (cheap.kind, dear.kind) == (PlanKind.INDEXES, PlanKind.FULL)
