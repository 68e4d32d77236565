"""Parts of a stream: which segments are read through, and what asking in the others takes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import CostParameters, Estimate, estimate
from costmodel.lookups import WITHIN_SHARE, estimate_lookups
from costmodel.parts import (
    TOO_MANY,
    both,
    estimate_through,
    expected_entries,
    in_part,
    with_blocks,
    worth_reading,
)
from costmodel.selection import Strategy, select
from tests.unit.costmodel.cases import features

BLOCK = 100
BLOCKS_COUNT = CostParameters(
    block_s=1.0, value_s=0.0, predicate_s=0.0, match_s=0.0, entry_s=0.0, sort_s=0.0, seek_s=0.0
)
"""A block takes a second, and all else nothing."""


def test_what_lookups_would_cover_anyway_is_read_through():
    # Two halves of 1,000 blocks: 30 events of each kind in a block of the first, one in 100 blocks
    # of the second.
    of = features(density=[[0.3, 0.3], [1e-4, 1e-4]], window=10)
    both_lookups = np.array([[True, True]])
    assert worth_reading(of, both_lookups, CostParameters())[0].tolist() == [[True, False]]


def test_what_a_part_takes_is_told_at_once():
    # Of the first 1,000 blocks all are read. In the second a single event in 100 is looked up, or
    # one in 10,000: that is 1,000 or 10 entries and as many candidates, which count as four.
    of = features(density=[[0.3, 0.3], [1e-2, 1e-4]], window=0, basic_block=[0, 0], lengths=(1,))
    plans = np.array([[True, False], [False, True]])
    dear = dataclasses.replace(BLOCKS_COUNT, entry_s=1e-1)
    read, about_s = worth_reading(of, plans, dear)
    assert read.tolist() == [[True, False], [True, False]]
    few, fewer = 1_000 * (1 - 0.99**100), 1_000 * (1 - 0.9999**100)
    assert about_s.tolist() == pytest.approx(
        [1_000 + few + 0.1 * 5 * 1_000, 1_000 + fewer + 0.1 * 5 * 10], rel=1e-3
    )


def test_it_must_be_worth_it_with_five_times_fewer_candidates():
    # One symbol on one event in 50: of blocks of 100 events 0.98**100 = 13 % have none. With a
    # fifth of its events 0.98**20 = 67 % would have none, and so many blocks are what is lost.
    of = features(density=[[0.02], [0.0]], window=0, lengths=(1,))
    lost_s = 1_000 * 0.98**20
    # An entry and a candidate, which counts as four, for each of 2,000 events.
    for factor, is_worth in ((0.99, False), (1.01, True)):
        dear = dataclasses.replace(BLOCKS_COUNT, entry_s=factor * lost_s / (5 * 2_000))
        assert worth_reading(of, np.array([[True]]), dear)[0][0, 0] == is_worth
    assert TOO_MANY == 5.0


def test_a_lookup_of_several_places_is_paid_for_once():
    of = features(density=[[0.02, 0.02]], window=0, basic_block=[0, 0], lookup=[0, 0])
    # 4,000 entries, and 0.02 * 0.02 * 200,000 = 80 candidates in 2,000 blocks of which, with a
    # fifth of them, 0.9996**20 are left out.
    lost_s = 2_000 * (1 - 0.0004) ** ((BLOCK + 1) / TOO_MANY)
    for factor, is_worth in ((0.98, False), (1.02, True)):
        dear = dataclasses.replace(BLOCKS_COUNT, entry_s=factor * lost_s / (4_000 + 4 * 80))
        assert worth_reading(of, np.array([[True, True]]), dear)[0][0, 0] == is_worth


def test_a_part_has_its_share_of_the_entries():
    # Of 40,000 + 20,000 As the second half has 20,000; of the Bs, 1,000 in each half, 1,000.
    of = features(density=[[0.4, 0.01], [0.2, 0.01]], window=10)
    none, half = np.array([0.0, 100_000.0]), np.array([0.0, 1_000.0])
    starts = np.array([0.0, 2.0])
    told = in_part(of, none, half, starts, np.array([60_000.0, 1_500.0]))
    assert told.lookup_entries.tolist() == pytest.approx([20_000, 1_000])
    assert told.outside_entries.tolist() == pytest.approx([40_000, 500])
    assert told.segment_events.tolist() == [100_000]
    assert told.segment_blocks.tolist() == [1_000]
    assert told.segment_stretches.tolist() == [2]
    assert told.density.tolist() == [[0.2, 0.01]]
    assert told.n_events == of.n_events
    assert expected_entries(of, none).tolist() == pytest.approx([20_000, 1_000])


def test_of_one_key_only_row_groups_at_the_rims_are_decoded_besides():
    of = features(density=[[0.4, 0.01], [0.2, 0.01]], window=10)
    of = dataclasses.replace(of, in_order=np.array([True, False]), group_entries=4096.0)
    events, blocks = np.array([0.0, 100_000.0]), np.array([0.0, 1_000.0])
    told = in_part(of, events, blocks, np.array([0.0, 2.0]), np.array([60_000.0, 2_000.0]))
    assert told.outside_entries.tolist() == pytest.approx([2 * 4096, 1_000])


def test_entries_outside_are_left_out_by_their_rows():
    of = features(density=[[0.2, 0.01]], window=10, n_events=100_000)
    with_outside = dataclasses.replace(of, outside_entries=np.array([5_000.0, 700.0]))
    plans = np.array([[True, False], [False, True], [True, True], [False, False]])
    plain, more = estimate_lookups(of, plans), estimate_lookups(with_outside, plans)
    outside = np.array([5_000, 700, 5_700, 0])
    assert (more.decoded - plain.decoded).tolist() == pytest.approx(outside.tolist())
    assert (more.entries - plain.entries).tolist() == pytest.approx(
        (WITHIN_SHARE * outside).tolist()
    )


def test_blocks_read_through_cost_as_much_as_in_any_plan():
    of = features(density=[[0.3, 0.3], [1e-4, 1e-4]], window=10)
    weights = CostParameters()
    through = estimate_through(of, of.segment_events, of.segment_blocks, 1, weights)
    tree = estimate(of, np.zeros((1, 2), dtype=np.bool_), weights).of(0)
    assert through.cost == pytest.approx(tree.cost)
    assert (through.blocks, through.alpha, through.stretches) == (2_000, 1.0, 1)
    half = estimate_through(of, np.array([50_000.0, 0.0]), np.array([500.0, 0.0]), 3, BLOCKS_COUNT)
    assert (half.cost, half.blocks, half.alpha, half.entries) == (500, 500, 0.25, 0)


def test_both_parts_add_up():
    asked = Estimate(2.0, 10.0, 50.0, 0.6, 7.0, 0.5, 3.0)
    through = Estimate(1.0, 4.0, 0.0, 0.5, 0.0, 0.0, 1.0)
    assert both(asked, through) == Estimate(3.0, 14.0, 50.0, 1.0, 7.0, 0.5, 4.0)


def test_further_blocks_are_at_most_those_of_the_part():
    of = features(density=[[0.3]], window=10)
    asked = Estimate(5.0, 1_999.0, 0.0, 0.5, 0.0)
    assert with_blocks(asked, 0.0, of, BLOCKS_COUNT) == asked
    more = with_blocks(asked, 100.0, of, BLOCKS_COUNT)
    assert (more.cost, more.blocks) == (6.0, 2_000.0)


@given(
    density=st.lists(
        st.lists(st.floats(1e-6, 0.5), min_size=7, max_size=7), min_size=2, max_size=3
    ),
    outside=st.lists(st.floats(0, 1e6), min_size=7, max_size=7),
)
@settings(max_examples=20)
def test_the_best_plan_of_a_part_is_found(density: list[list[float]], outside: list[float]):
    of = dataclasses.replace(
        features(density=density, window=30, n_events=2_000_000), outside_entries=np.array(outside)
    )
    best = select(of, CostParameters()).cost
    assert best == pytest.approx(select(of, CostParameters(), Strategy.EXHAUSTIVE).cost)
