"""Costs: each term of the formula alone, of plans, lookups and windowed aggregation."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest

from costmodel import (
    CostParameters,
    PlanFeatures,
    estimate,
    estimate_full,
    plan_cost,
    replay_cost,
)
from costmodel.coverage import estimate_coverage
from costmodel.features import whole_stream
from costmodel.lookups import (
    CANDIDATE_ENTRIES,
    KEYED_ENTRIES,
    LOOKUP_JUMPS,
    WITHIN_SHARE,
    chain_cost,
    interval_cost,
    lookup_cost,
    within_cost,
)
from costmodel.parameters import DEFAULT_PARAMETERS
from costmodel.windows import (
    WindowFeatures,
    break_even_slide,
    estimate_naive,
    estimate_replay,
    estimate_tree,
    merges,
    with_slide,
)
from tests.unit.costmodel.cases import BLOCK, features

NOTHING = {
    "block_s": 0.0,
    "value_s": 0.0,
    "predicate_s": 0.0,
    "match_s": 0.0,
    "entry_s": 0.0,
    "sort_s": 0.0,
    "seek_s": 0.0,
}
PLANS = np.array([[0, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)


def weights(**given: float) -> CostParameters:
    return CostParameters(**(NOTHING | given))


def two_lookups() -> PlanFeatures:
    """Three conditions, two of which are answered by one lookup of 8 entries.

    Of 10,000 events in 100 blocks half remain, in two segments of 40 and 10 blocks, 4 stretches.
    """
    given = features(
        density=[[8 / 5_000, 8 / 5_000, 16 / 5_000]] * 2,
        window=np.inf,
        lookup=[0, 0, 1],
        n_events=10_000,
    )
    return dataclasses.replace(
        given,
        n_columns=3,
        n_predicates=7,
        lookup_entries=np.array([8.0, 16.0]),
        segment_events=np.array([4_000.0, 1_000.0]),
        segment_blocks=np.array([40.0, 10.0]),
        segment_stretches=np.array([3.0, 1.0]),
    )


def test_tree_plan_costs_what_remains():
    # 50 blocks, 5,000 events, 3 attributes, 7 predicates, 4 jumps, no entry.
    def tree(**given: float) -> float:
        return float(estimate(two_lookups(), PLANS, weights(**given)).cost[0])

    assert tree(block_s=2) == 100
    assert tree(value_s=1) == 15_000
    assert tree(predicate_s=1) == 35_000
    assert tree(match_s=1) == 5_000
    assert tree(seek_s=1) == 4
    assert tree(entry_s=1, sort_s=1) == 0
    assert estimate(two_lookups(), PLANS, weights()).alpha[0] == 0.5


def test_neighbours_in_partitions_take_blocks_beside_stretches(monkeypatch):
    # Plans by index: 1.5 blocks for each stretch, of 3 attributes and 100 events each. The tree
    # plan has 4 stretches of 1,250 events and as many keys, of which the last comes 1 + ln 1,250
    # times as far as one: its rows lie in 48.8 blocks. That takes as long as half a full replay,
    # so it is not looked for on trial: the keys of all 100 blocks count.
    monkeypatch.setattr(plan_cost, "GATHER_S", 0.0)
    given = dataclasses.replace(two_lookups(), beside_blocks=1.5)
    far = 4 * 1.5 * (1 + math.log(1250))
    for unit, of_key, of_row in (("block_s", 1, 1), ("value_s", 100, 3 * 100)):
        parameters = weights(**{unit: 1.0})
        plain, beside = (estimate(f, PLANS, parameters) for f in (two_lookups(), given))
        n_further = [100 * of_key + far * of_row, *(1.5 * of_row * plain.stretches[1:])]
        assert beside.cost - plain.cost == pytest.approx(n_further)
    # Where conditions make a full replay dear, the keys of as many blocks are looked at on trial.
    parameters = weights(block_s=1.0, predicate_s=1.0)
    plain, beside = (estimate(f, PLANS, parameters) for f in (two_lookups(), given))
    assert beside.cost[0] - plain.cost[0] == pytest.approx(2 * far)


def test_rows_are_brought_to_those_of_their_partition_where_neighbours_are_looked_at():
    given = dataclasses.replace(two_lookups(), beside_blocks=1.5)
    assert estimate_full(given, weights()).cost == pytest.approx(50e-9 * 10_000)
    assert estimate_full(two_lookups(), weights()).cost == 0


def test_segments_that_add_up_to_the_whole_stream_are_no_more_than_all_of_it():
    given = features(density=[[0.1]] * 3, window=np.inf, lookup=[0], n_events=85)
    parts = np.array([44.0, 22.0, 19.0])  # rounded, their shares add up to more than 1
    whole = dataclasses.replace(given, segment_events=parts, segment_blocks=parts)
    assert estimate(whole, np.zeros((1, 1), dtype=bool), weights()).alpha[0] == 1.0


def test_equal_lookups_are_charged_once():
    estimates = estimate(two_lookups(), PLANS, weights(entry_s=1))
    # Besides, a candidate takes as long as four entries until its interval is known.
    intervals = 4 * estimates.candidates
    np.testing.assert_allclose(estimates.cost - intervals, [0, 8, 24], atol=1e-9)
    np.testing.assert_allclose(estimates.index_cost - intervals, [0, 8, 24], atol=1e-9)
    assert estimates.entries.tolist() == [0, 8, 24]


def test_sorting_costs_n_log_n_for_each_lookup():
    estimates = estimate(two_lookups(), PLANS, weights(sort_s=1))
    assert estimates.cost.tolist() == [0, 24, 24 + 64]


def test_a_lookup_is_several_jumps_before_any_event_is_read():
    estimates = estimate(two_lookups(), PLANS, weights(seek_s=1))
    assert estimates.index_cost.tolist() == [0, 5, 10]
    np.testing.assert_allclose(estimates.cost, estimates.index_cost + estimates.stretches)


def test_behind_the_shortest_lookup_of_a_chain_long_ones_are_asked_in_the_rows_it_leaves():
    entries = np.array([400_000.0, 50.0, 200_000.0])
    used = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 0], [0, 0, 0]], dtype=bool)
    seconds = chain_cost(used, entries, np.ones(3, dtype=bool), weights(entry_s=1), keyed=False)
    # Six tenths of an entry in the rows that others leave.
    assert seconds.tolist() == [200_000 + 240_000, 50 + 360_000, 50, 0]
    assert (
        chain_cost(used[:, :0], entries[:0], used[0, :0], weights(), keyed=False).tolist()
        == [0] * 4
    )


def test_entries_of_one_key_need_no_sorting():
    given = dataclasses.replace(two_lookups(), in_order=np.array([True, False]))
    assert estimate(given, PLANS, weights(sort_s=1)).cost.tolist() == [0, 0, 64]


def test_searches_are_open_where_the_plan_finds_their_beginning():
    # A Z* B within 9, an event to a unit of time: 100 As. An event costs one step, one more if an
    # A is among the ten up to it, 10 if it is one, and 60 if a B is among the ten from it on.
    given = features(density=[0.001, 0.5], window=9, n_events=100_000)
    further = 100_000 * (1 * (1 - 0.999**10) + 0.001 * (10 + 60 * (1 - 0.5**10)))
    by_a = estimate(given, np.array([[True, False]]), weights(match_s=1))
    assert by_a.cost[0] == pytest.approx(by_a.blocks[0] * BLOCK + further, rel=2e-3)
    # Found from B, searches are where the intervals are; so are they without any lookup.
    others = estimate(given, np.array([[False, True], [False, False]]), weights(match_s=1))
    share = others.blocks / 1000
    np.testing.assert_allclose(others.cost, share * (100_000 + further), rtol=2e-3)


def test_only_rows_in_intervals_are_charged_for_matching_where_others_are_dropped():
    # Two lookups of a pattern that begins and ends with them: intervals of 10 events at most, so a
    # small part of the blocks they touch.
    given = features(density=[0.001, 0.001], window=9, n_events=100_000)
    cut = dataclasses.replace(given, cuts_rows=True)
    plans = np.array([[True, True], [True, False], [False, False]])
    for price in ("block_s", "value_s", "seek_s", "entry_s"):  # read all the same
        costs = [estimate(one, plans, weights(**{price: 1})).cost for one in (given, cut)]
        np.testing.assert_array_equal(*costs)
    whole, some = (estimate(one, plans, weights(predicate_s=1)) for one in (given, cut))
    np.testing.assert_allclose(whole.cost, 2 * BLOCK * whole.blocks)
    np.testing.assert_allclose(some.cost, 2 * 100_000 * some.alpha)
    assert some.cost[0] < 0.1 * whole.cost[0]
    assert some.cost[2] == whole.cost[2]  # without a lookup all that remains is matched
    # A's searches begin where it is found, so these steps are charged whatever is dropped.
    whole, some = (estimate(one, plans, weights(match_s=1)) for one in (given, cut))
    dropped = BLOCK * whole.blocks - 100_000 * some.alpha
    assert np.all(whole.cost - some.cost <= dropped * given.steps[0] * (1 + 1e-9))
    assert whole.cost[1] - some.cost[1] == pytest.approx(dropped[1])


def test_full_replay_costs_all_blocks_and_one_jump():
    given = whole_stream(10_000, 100, 3, 7)
    full = estimate_full(given, weights(block_s=1, value_s=2, predicate_s=3, match_s=4, seek_s=5))
    assert full.cost == 100 + 60_000 + 210_000 + 40_000 + 5
    assert (full.blocks, full.entries, full.alpha, full.stretches) == (100, 0, 1, 1)


def test_full_replay_takes_one_step_for_an_event_where_no_match_can_lie():
    # Half of the events remain: each costs a step, one if an A is among the nine up to it, and 10
    # if it is one, with 60 if a B is among the nine from it on.
    given = features(density=[0.1, 0.1], window=8, n_events=10_000)
    half = dataclasses.replace(given, segment_events=np.array([5_000.0]))
    within = 1 - 0.9**9
    steps = 1 + 1 * within + 0.1 * (10 + 60 * within)
    full = estimate_full(half, weights(match_s=1))
    assert full.cost == pytest.approx(5_000 * steps + 5_000, rel=1e-4)


def test_replay_cost_of_what_a_plan_reads_is_its_cost_less_its_lookups():
    given, parameters = two_lookups(), CostParameters()
    for plan in range(len(PLANS)):
        one = estimate(given, PLANS, parameters).of(plan)
        cost = replay_cost(one.blocks, 100 * one.blocks, one.stretches, given, parameters)
        assert cost == pytest.approx(one.cost - one.index_cost, rel=1e-12)


def test_more_blocks_are_read_than_touched_where_gaps_are_read_through():
    given = features(density=[0.004], window=0, bridge_blocks=2)
    apart = dataclasses.replace(given, bridge_blocks=0)
    chosen = np.array([[True]])
    bridged, plain = (estimate(f, chosen, CostParameters()) for f in (given, apart))
    touched = [estimate_coverage(f, chosen).touched[0, 0] for f in (given, apart)]
    assert touched == [plain.blocks[0]] * 2
    # A share u of blocks is untouched, (1 - u)^2 u + 2 (1 - u)^2 u^2 of all bridged.
    u = (1 - 0.004) ** 100
    between = (1 - u) ** 2 * (u + 2 * u * u)
    assert bridged.blocks[0] == pytest.approx(2000 * (1 - u + between), rel=2e-3)
    assert bridged.stretches[0] == pytest.approx(2000 * (1 - u) * u**3, rel=5e-3)


def test_estimate_of_one_plan_holds_plain_numbers():
    one = estimate(two_lookups(), PLANS, CostParameters()).of(1)
    assert all(type(getattr(one, name)) is float for name in one.__slots__)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_weights_that_are_no_times_are_refused(value):
    with pytest.raises(ValueError, match="cost parameter seek_s"):
        CostParameters(seek_s=value)


def test_weights_say_where_they_come_from():
    assert CostParameters().source == "defaults"


ENTRIES_ONLY = CostParameters(sort_s=0.0, seek_s=0.0)


def test_each_term_of_a_lookup_alone():
    n, in_order = np.array([0.0, 1024.0, 1024.0]), np.array([False, False, True])
    of = CostParameters(entry_s=1.0, sort_s=0.0, seek_s=0.0)
    assert lookup_cost(n, in_order, of, keyed=False).tolist() == [0.0, 1024.0, 1024.0]
    of = CostParameters(entry_s=0.0, sort_s=1.0, seek_s=0.0)
    assert lookup_cost(n, in_order, of, keyed=False).tolist() == [0.0, 10_240.0, 0.0]
    of = CostParameters(entry_s=0.0, sort_s=0.0, seek_s=1.0)
    assert lookup_cost(n, in_order, of, keyed=False).tolist() == [LOOKUP_JUMPS] * 3


def test_keys_make_an_entry_dearer():
    n, not_in_order = np.array([1e6]), np.array([False])
    plain, keyed = (lookup_cost(n, not_in_order, ENTRIES_ONLY, keyed=k)[0] for k in (False, True))
    assert keyed == pytest.approx(KEYED_ENTRIES * plain)
    assert within_cost(1e6, ENTRIES_ONLY, keyed=True) == pytest.approx(WITHIN_SHARE * keyed)


def test_intervals_take_as_long_as_so_many_entries():
    n = np.array([0.0, 1e3])
    expected = CANDIDATE_ENTRIES * ENTRIES_ONLY.entry_s * n
    assert interval_cost(n, ENTRIES_ONLY).tolist() == expected.tolist()


DAY_US = 86_400_000_000
WEEK_US = 7 * DAY_US


def hourly() -> WindowFeatures:
    """A week at 100 events a second in blocks of 2,048, windows of a day sliding by the hour."""
    return WindowFeatures(
        n_events=60_480_000,
        n_blocks=29_531,
        replay_events=60_480_000,
        replay_blocks=29_531,
        read_blocks=190,
        whole_blocks=29_341,
        n_windows=191,
        n_slices=191,
        n_columns=2,
        n_columns_cut=2,
        n_attributes=1,
        n_predicates=0,
        fan_out=32,
        n_levels=4,
    )


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        pytest.param(0.0, 0, id="none"),
        pytest.param(0.25, 0.25, id="less than a leaf, where the printed formula is negative"),
        pytest.param(1.0, 1, id="a leaf"),
        pytest.param(10.0, 10, id="leaves of one node"),  # ls = 1: ceil(10 / 32**0)
        pytest.param(32.0, 32, id="as many as a node has"),
        pytest.param(100.0, 36, id="two levels"),  # ls = 2: ceil(100 / 32) + 32
        pytest.param(2000.0, 66, id="three levels"),  # ls = 3: ceil(2000 / 1024) + 2 * 32
    ],
)
def test_merges_are_those_of_the_thesis_with_the_level_clamped(
    leaves: float, expected: float
) -> None:
    assert merges(leaves, 32, 4) == expected


def test_the_tree_reads_the_cut_blocks_and_replay_all() -> None:
    case = hourly()
    assert estimate_replay(case, DEFAULT_PARAMETERS).blocks == case.n_blocks
    assert estimate_tree(case, DEFAULT_PARAMETERS).blocks == 190
    # Each window asks for its own two borders.
    assert estimate_naive(case, DEFAULT_PARAMETERS).blocks == pytest.approx(2 * 190, rel=0.01)


def test_costs_are_ordered_as_thesis_3_5_2_finds_them() -> None:
    case = hourly()
    tree, naive, replayed = (
        way(case, DEFAULT_PARAMETERS).cost
        for way in (estimate_tree, estimate_naive, estimate_replay)
    )
    assert tree < naive < replayed
    assert replayed > 20 * tree


def test_break_even_is_where_both_cost_the_same() -> None:
    def at(slide: float) -> WindowFeatures:
        return with_slide(hourly(), slide, DAY_US, length=WEEK_US, divides=True)

    slide = break_even_slide(at, DAY_US, DEFAULT_PARAMETERS)
    assert slide is not None
    tree, replayed = (
        way(at(slide), DEFAULT_PARAMETERS) for way in (estimate_tree, estimate_replay)
    )
    assert tree.cost == pytest.approx(replayed.cost, rel=1e-6)
    longer = at(4 * slide)
    assert estimate_tree(longer, DEFAULT_PARAMETERS).cost < replayed.cost


def test_no_slide_breaks_even_where_every_block_must_be_read() -> None:
    case = replace(hourly(), read_blocks=29_531, whole_blocks=0, n_slices=1, n_windows=1)
    dear = replace(DEFAULT_PARAMETERS, pane_s=0.0)
    assert break_even_slide(lambda slide: case, DAY_US, dear) is None


def test_a_longer_slide_is_expected_to_read_fewer_blocks() -> None:
    reads = [
        with_slide(hourly(), slide, DAY_US, length=WEEK_US, divides=True).read_blocks
        for slide in (10**6, 10**8, 10**9, DAY_US)
    ]
    assert reads[0] == 29_531
    assert reads == sorted(reads, reverse=True)


def test_borders_are_twice_as_many_where_the_slide_does_not_divide_the_size() -> None:
    one, two = (
        with_slide(hourly(), 10**9, DAY_US, length=WEEK_US, divides=divides)
        for divides in (True, False)
    )
    assert two.n_slices == pytest.approx(2 * one.n_slices)
    assert two.n_windows == one.n_windows
