"""Costs: each term of the formula alone, and the choice among plans."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel import CostParameters, PlanFeatures, choose, estimate, estimate_full

NOTHING = {
    "block_s": 0.0,
    "value_s": 0.0,
    "entry_s": 0.0,
    "sort_s": 0.0,
    "seek_s": 0.0,
}


def weights(**given: float) -> CostParameters:
    return CostParameters(**(NOTHING | given))


def two_lookups() -> PlanFeatures:
    """Three conditions, two of which are answered by one lookup of 8 entries."""
    return PlanFeatures(
        n_events=10_000,
        n_blocks=100,
        n_columns=3,
        remaining_events=5_000,
        remaining_blocks=50,
        remaining_stretches=4,
        window_events=10.0,
        block_lengths=np.array([1, 1, 1]),
        starts_exact=True,
        ends_exact=True,
        basic_block=np.array([0, 1, 2]),
        density=np.array([8, 8, 16]) / 5_000,
        lookup=np.array([0, 0, 1]),
        lookup_entries=np.array([8.0, 16.0]),
        selected=np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool),
    )


def test_tree_plan_costs_what_remains():
    # 50 blocks of 100 events, 3 attributes, 4 jumps, no entry.
    features = two_lookups()
    assert estimate(features, weights(block_s=2)).cost[0] == 100
    assert estimate(features, weights(value_s=1)).cost[0] == 15_000
    assert estimate(features, weights(seek_s=1)).cost[0] == 4
    assert estimate(features, weights(entry_s=1, sort_s=1)).cost[0] == 0
    assert estimate(features, weights()).alpha[0] == 0.5


def test_equal_lookups_are_charged_once():
    estimates = estimate(two_lookups(), weights(entry_s=1))
    assert estimates.cost.tolist() == [0, 8, 8, 24]
    assert estimates.entries.tolist() == [0, 8, 8, 24]


def test_sorting_costs_n_log_n_for_each_lookup():
    estimates = estimate(two_lookups(), weights(sort_s=1))
    assert estimates.cost.tolist() == [0, 24, 24, 24 + 64]


def test_full_replay_costs_all_blocks_and_one_jump():
    full = estimate_full(10_000, 100, 3, weights(block_s=1, value_s=2, seek_s=5))
    assert full.cost == 100 + 60_000 + 5
    assert (full.blocks, full.entries, full.alpha) == (100, 0, 1)


def test_estimate_of_one_plan_holds_plain_numbers():
    one = estimate(two_lookups(), CostParameters()).of(1)
    assert all(type(getattr(one, name)) is float for name in one.__slots__)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_weights_that_are_no_times_are_refused(value):
    with pytest.raises(ValueError, match="cost parameter seek_s"):
        CostParameters(seek_s=value)


def test_cheapest_plan_is_chosen_if_clearly_cheaper():
    names = ["tree", "indexes=A.x", "full"]
    choice = choose(names, np.array([3.0, 1.0, 4.0]), full=2, margin=0.8)
    assert choice.index == 1
    assert choice.reason == "estimated at 1 s, 4.0x less than 4 s of a full replay"


def test_full_replay_is_chosen_unless_clearly_beaten():
    choice = choose(["tree", "full"], np.array([0.0035, 0.004]), full=1, margin=0.8)
    assert choice.index == 1
    assert choice.reason == (
        "the best other plan, tree, is estimated at 3.5 ms, not clearly below 4 ms of a full replay"
    )


def test_full_replay_is_chosen_where_it_is_cheapest():
    choice = choose(["tree", "full"], np.array([0.005, 0.004]), full=1, margin=0.8)
    assert choice.index == 1
    assert choice.reason == "no other plan is estimated below 4 ms of a full replay"


def test_of_equal_plans_the_first_is_chosen():
    assert choose(["tree", "indexes=A.x", "full"], np.ones(3), full=2, margin=2).index == 0
