"""Cost of windowed aggregation: what each takes, and where the ways break even."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
