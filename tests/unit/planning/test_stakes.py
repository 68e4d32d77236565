"""Whether a sample is worth it: only where knowing better is expected to save more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.plan_cost import Estimates
from indexing.key_range import KeyRange, KeyRanges
from replay.planning.plan import Lookup
from replay.planning.stakes import (
    EVALUATE_S,
    SAMPLE_S,
    SAMPLE_S_MAX,
    Stakes,
    blocks_worth_sampling,
    expected_gain,
    promising,
)

BLOCK_S = 70e-6
"""With 30 us to evaluate it a block takes 0.1 ms; 2 ms are taken whatever its size."""

N_REMAINING = 1000


def lookup(name: str) -> Lookup:
    return name, KeyRanges((KeyRange(0, 1),))


def stakes_of(
    plans: dict[str, tuple[float, float, float]], taken: str, full_cost: float = 1.0
) -> Stakes:
    """Return plans by the letters they look up: seconds of lookups, of replay, blocks touched.

    The tree plan, which saves nothing, is the first; ``full`` the last.
    """
    rows = [(0.0, full_cost, float(N_REMAINING)), *plans.values()]
    index_cost, replay_s, touched = np.array(rows).T
    zeros = np.zeros(len(rows))
    return Stakes(
        Estimates(
            index_cost + replay_s, touched, zeros, zeros, zeros, index_cost, zeros, touched, zeros
        ),
        [frozenset(), *(frozenset(map(lookup, name)) for name in plans)],
        full_cost,
        0.8,
        ["", *plans, "full"].index(taken),
        N_REMAINING,
    )


def test_a_plan_that_is_best_whatever_it_covers_needs_no_sample() -> None:
    """Five times the blocks: 30 + 5 * 20 = 130 ms, still far below all others."""
    stakes = stakes_of({"ab": (0.03, 0.02, 20), "c": (0.01, 0.5, 500)}, "ab")
    assert expected_gain(stakes, 20) == 0.0
    assert blocks_worth_sampling(stakes, BLOCK_S, 4) == 0


def test_a_plan_that_would_lose_if_it_errs_is_worth_a_sample() -> None:
    """By hand: 10 ms and 100 ms of replay of 100 blocks, against 150 ms that cannot err.

    Where the 10 % of blocks are five times as many hits, ``1 - 0.9**5 = 0.41`` of the blocks are
    touched: 10 + 409.5 ms. The rival shares no lookup and keeps its 150 ms: 269.5 ms are lost, with
    probability 0.1, and 16 blocks tell with ``1 - exp(-16 * 0.31)``. Where there are a fifth as
    many hits nothing is lost, nor where the estimate is right.
    """
    stakes = stakes_of({"ab": (0.01, 0.1, 100), "c": (0.01, 0.14, 140)}, "ab")
    more = 1 - 0.9**5
    lost = 0.01 + more * 1.0 - 0.15
    told = 1 - math.exp(-16 * (more - 0.1))
    assert expected_gain(stakes, 16) == pytest.approx(0.1 * told * lost)
    assert blocks_worth_sampling(stakes, BLOCK_S, 4) > 0


def test_plans_with_the_same_lookups_err_alike() -> None:
    """The two plans share one of their three lookups: the rival errs by the cube root of five."""
    apart = stakes_of({"ab": (0.01, 0.1, 100), "cd": (0.01, 0.14, 140)}, "ab")
    alike = stakes_of({"ab": (0.01, 0.1, 100), "bc": (0.01, 0.14, 140)}, "ab")
    rival = 0.01 + 1 - 0.86 ** (5 ** (1 / 3))
    told = 1 - math.exp(-16 * ((1 - 0.9**5) - 0.1))
    assert expected_gain(alike, 16) == pytest.approx(0.1 * told * (0.01 + (1 - 0.9**5) - rival))
    assert expected_gain(alike, 16) < expected_gain(apart, 16)


def test_a_second_lookup_that_may_leave_little_is_worth_a_sample() -> None:
    """By hand: `a` takes 1 + 99 ms; `ab` is expected to leave as many blocks, and takes 21 + 99.

    Two doubts. Where `a` covers five times as much it takes 1 + 405 ms, and `ab`, which errs half
    as far, 21 + 208 ms. Where both hold together a fifth as often as expected, `a` takes what it
    takes, and `ab` touches ``1 - 0.9**0.2 = 2.1 %`` of the blocks: 21 + 20.6 ms; where hardly ever,
    21 + 0.1 ms.
    """
    stakes = stakes_of({"a": (0.001, 0.099, 100), "ab": (0.021, 0.099, 100)}, "a")
    single = stakes_of({"a": (0.001, 0.099, 100)}, "a")
    together = 0.0
    for error, weight in ((0.2, 0.1), (1e-3, 0.05)):
        share = 1 - 0.9**error
        told = 1 - math.exp(-16 * (0.1 - share))
        together += weight * told * (0.1 - 0.021 - 0.99 * share)
    half = 0.021 + 0.99 * (1 - 0.9 ** (5**0.5))
    told = 1 - math.exp(-16 * ((1 - 0.9**5) - 0.1))
    alone = 0.1 * told * (0.001 + 0.99 * (1 - 0.9**5) - half)
    assert expected_gain(single, 16) == 0.0
    assert expected_gain(stakes, 16) == pytest.approx(alone + together)


def test_a_third_lookup_that_may_leave_little_is_worth_a_sample_as_well() -> None:
    """By hand: `ab` takes 10 + 400 ms of 40 % of the blocks, `abc` 50 + 400. Where all three hold
    together a fifth as often as expected, it touches ``1 - 0.6**0.2 = 9.7 %``: 50 + 97 ms; where
    hardly ever, 50 + 0.5. Where `ab` errs by five times too little it takes 10 + 922, and `abc`,
    which errs by the power of two thirds, 50 + 775: not clearly less than a full replay.
    """
    stakes = stakes_of({"ab": (0.01, 0.4, 400), "abc": (0.05, 0.4, 400)}, "ab")
    gain = 0.0
    for error, weight in ((0.2, 0.1), (1e-3, 0.05)):
        share = 1 - 0.6**error
        gain += weight * (1 - math.exp(-16 * (0.4 - share))) * (0.41 - 0.05 - share)
    assert expected_gain(stakes, 16) == pytest.approx(gain)
    assert blocks_worth_sampling(stakes, BLOCK_S, 4) > 0


def test_a_plan_of_several_lookups_is_not_doubted_twice() -> None:
    """The best has two: that it errs is one doubt, whatever of the single ones is."""
    plans = {"ab": (0.01, 0.1, 100), "a": (0.01, 0.14, 140)}
    alone = 0.1 * (1 - math.exp(-16 * ((1 - 0.9**5) - 0.1)))
    half = 0.01 + 1 - 0.86 ** (5**0.5)
    assert expected_gain(stakes_of(plans, "ab"), 16) == pytest.approx(
        alone * (0.01 + 1 - 0.9**5 - half), abs=1e-12
    )


def test_what_would_not_be_seen_is_not_looked_for() -> None:
    """The same loss, but 1 of 1,000 blocks touched: 16 blocks would not tell 1 from 5."""
    stakes = stakes_of({"ab": (0.01, 0.1, 1), "c": (0.01, 0.14, 1)}, "ab")
    assert expected_gain(stakes, 16) < 0.1 * (16 * 0.004) * 0.4
    assert blocks_worth_sampling(stakes, BLOCK_S, 4) == 0


def test_a_plan_barred_as_a_risk_is_worth_what_it_saves() -> None:
    """Lookups of 200 ms before a replay of 10 ms: barred, as all 1,000 ms might follow. Eight
    blocks without a hit bound the rest by ``1 - exp(-3/2)`` = 78 %: 977 ms < 1.1 * 1,000 + 10.
    The gain pays for all that the budget allows: (8 - 2) / 0.1."""
    plans = {"ab": (0.2, 0.01, 0.1), "c": (0.01, 0.5, 500)}
    barred = stakes_of(plans, "c")
    assert expected_gain(barred, 8) >= 0.75 * (0.51 - 0.21)
    assert blocks_worth_sampling(barred, BLOCK_S, 4) == 60
    assert blocks_worth_sampling(stakes_of(plans, "ab"), BLOCK_S, 4) == 0


def test_a_plan_no_sample_can_clear_is_not_sampled() -> None:
    """Lookups of 700 ms: with a bound of 78 % or, of 16 blocks, 53 %, more than 1,110 ms. Where
    a block takes 0.375 ms the budget of 6 ms holds no more than these 16."""
    stakes = stakes_of({"ab": (0.7, 0.01, 1), "c": (0.01, 0.75, 750)}, "c")
    assert expected_gain(stakes, 16) < 1e-3
    assert blocks_worth_sampling(stakes, 345e-6, 4) == 0


def test_where_nothing_is_looked_up_there_is_nothing_to_sample() -> None:
    assert blocks_worth_sampling(stakes_of({}, "full"), BLOCK_S, 4) == 0


@given(
    rows=st.lists(
        st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
        min_size=1,
        max_size=5,
    ),
    names=st.permutations(["a", "ab", "abc", "c", "bcd"]),
    full_cost=st.floats(1e-3, 5.0),
    block_s=st.floats(1e-6, 1e-3),
    data=st.data(),
)
def test_a_sample_is_in_proportion_to_what_is_at_stake(
    rows: list[tuple[float, float, float]],
    names: list[str],
    full_cost: float,
    block_s: float,
    data: st.DataObject,
) -> None:
    """It costs at most a tenth of the best plan, and less than it is expected to save."""
    plans = {
        name: (index_s, share * full_cost * more, share * N_REMAINING)
        for name, (index_s, share, more) in zip(names, rows, strict=False)
    }
    stakes = stakes_of(plans, data.draw(st.sampled_from(["", *plans, "full"])), full_cost)
    n = blocks_worth_sampling(stakes, block_s, 4)
    assert n == 0 or n >= 8
    if n:
        price = SAMPLE_S + n * (block_s + EVALUATE_S)
        best = min(index_s + replay_s for index_s, replay_s, _ in plans.values())
        assert price <= min(SAMPLE_S_MAX, 0.1 * best) * (1 + 1e-9)
        assert price < expected_gain(stakes, n)
    gains = [expected_gain(stakes, size) for size in (8, 12, 16, 64)]
    assert gains == sorted(gains)
    assert gains[0] >= 0.0


def test_more_than_one_error_is_weighed() -> None:
    """A plan at 900 ms of 1,000 is not taken; if it covers a fifth, or a thousandth, it takes far
    less: with probabilities of 0.1 and 0.05."""
    stakes = stakes_of({"ab": (0.05, 0.85, 850)}, "full")
    gain = 0.0
    for weight, error in ((0.1, 0.2), (0.05, 1e-3)):
        less = 1 - 0.15**error
        told = 1 - math.exp(-12 * (0.85 - less))
        gain += weight * told * (1.0 - 0.05 - less)
    assert expected_gain(stakes, 12) == pytest.approx(gain)


def test_a_plan_of_each_number_of_lookups_is_tried_before_others_of_the_cheapest_number() -> None:
    # The tree plan is the cheapest, and of one lookup there are more than there is room for.
    cost = np.array([1.0, 2.0, 2.1, 2.2, 3.0, 4.0])
    assert promising(cost, [0, 1, 1, 1, 2, 3], 5) == [0, 1, 2, 4, 5]
    assert promising(cost, [0, 1, 1, 1, 2, 3], 2) == [0, 1]


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 4)), max_size=12), st.integers(1, 8))
def test_as_many_plans_as_there_is_room_for_are_tried(
    plans: list[tuple[float, int]], n: int
) -> None:
    cost = np.array([5.0, *(s for s, _ in plans)])
    sizes = [0, *(k for _, k in plans)]
    kept = promising(cost, sizes, n)
    assert len(kept) == min(n, len(cost)) == len(set(kept))
    assert 0 in kept
    assert cost[kept].tolist() == sorted(cost[kept])
    if n >= 3 + len(set(sizes)):
        assert {sizes[i] for i in kept} == set(sizes)


def test_a_sample_has_six_places_where_the_budget_has_room() -> None:
    """By hand: `ab` may take 10 + 409.5 ms, as above, and `c` takes 370: 49.5 ms are lost, or 5 on
    the mean. A third of that does not even pay for drawing, but 24 blocks take 4.4 ms in all."""
    stakes = stakes_of({"ab": (0.01, 0.1, 100), "c": (0.01, 0.36, 360)}, "ab")
    assert blocks_worth_sampling(stakes, BLOCK_S, 4) == 6 * 4


def test_a_sample_has_fewer_places_where_the_budget_has_no_room() -> None:
    """Blocks of 0.5 ms: (8 - 2) / 0.5 of them are read, for 8 ms, where 21 are lost on the mean."""
    stakes = stakes_of({"ab": (0.01, 0.1, 100), "c": (0.01, 0.2, 200)}, "ab")
    assert blocks_worth_sampling(stakes, 470e-6, 4) == 12
