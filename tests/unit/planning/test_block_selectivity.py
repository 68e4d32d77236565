"""Shares: what extremes and moments of a block say of the events in a range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRange, KeyRanges
from replay.planning.block_selectivity import LEAST, RANGES_MEASURED_MAX, Spread
from replay.planning.extremes import TimeBounds, may_contain
from tests.unit.planning.streams import SmallBounds, moments_of


def bounds_of(minimum, maximum, *, n_values=None, known=None) -> SmallBounds:
    """Return bounds of blocks of whose moments nothing is known."""
    n = len(minimum)
    return SmallBounds(
        pa.array(minimum),
        pa.array(maximum),
        np.array(n_values or [100] * n),
        np.array([True] * n if known is None else known),
        np.full(n, np.nan),
        np.full(n, np.nan),
    )


def summary_of(blocks) -> SmallBounds:
    """Return what a tree knows of blocks of values."""
    return SmallBounds(
        pa.array([min(block) for block in blocks]),
        pa.array([max(block) for block in blocks]),
        np.array([len(block) for block in blocks]),
        np.ones(len(blocks), dtype=bool),
        *moments_of([list(block) for block in blocks]),
    )


def shares(r: KeyRange | KeyRanges, bounds, count=100) -> list[float]:
    ranges = r if isinstance(r, KeyRanges) else KeyRanges((r,))
    admitted = may_contain(ranges, bounds)
    return Spread.of(bounds).shares(ranges, admitted, np.full(len(admitted), count)).tolist()


def counted(low: float, high: float, blocks) -> np.ndarray:
    return np.array([np.mean((block >= low) & (block <= high)) for block in blocks])


def test_range_of_doubles_holds_its_part_of_each_span():
    bounds = bounds_of([0.0, 0.0, 2.0, 10.0], [1.0, 4.0, 6.0, 20.0])
    # [0, 2]: all of [0, 1], half of [0, 4], no length where only the rim is met.
    found = shares(KeyRange(0.0, 2.0), bounds)
    assert found == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_range_of_integers_counts_values():
    bounds = bounds_of([0, 0, 7], [9, 99, 7])
    assert shares(KeyRange(5, 9), bounds) == pytest.approx([0.5, 0.05, 1.0])
    assert shares(KeyRange(5, 9, low_closed=False), bounds) == pytest.approx([0.4, 0.04, 1.0])
    assert shares(KeyRange(None, 4), bounds) == pytest.approx([0.5, 0.05, 0.0])


def test_several_ranges_add_up():
    ranges = KeyRanges((KeyRange(0, 1), KeyRange(8, 9)))
    assert shares(ranges, bounds_of([0], [9])) == pytest.approx([0.4])


def test_missing_values_lie_in_no_range():
    bounds = bounds_of([0, None], [9, None], n_values=[50, 0])
    assert shares(KeyRange(5, 9), bounds) == pytest.approx([0.25, 0.0])


def test_block_nothing_is_known_of_has_the_mean_of_the_others():
    bounds = bounds_of([0, 0, None], [9, 9, None], known=[True, True, False])
    assert shares(KeyRange(5, 9), bounds) == pytest.approx([0.5, 0.5, 0.5])
    nothing = bounds_of([None], [None], known=[False])
    assert shares(KeyRange(5, 9), nothing) == [1.0]


def test_infinite_values_give_shares():
    bounds = bounds_of([-np.inf, 0.0], [np.inf, np.inf])
    for r in (KeyRange(1.0, 2.0), KeyRange(1.0, None), KeyRange(None, 1.0)):
        assert all(0.0 <= share <= 1.0 for share in shares(r, bounds))


def test_strings_lie_anywhere_in_a_block_that_may_hold_them():
    bounds = bounds_of(["a", "m"], ["c", "z"])
    assert shares(KeyRange("b", "b"), bounds) == [1.0, 0.0]


def test_times_lie_evenly_between_first_and_last():
    times = TimeBounds(np.array([0, 10]), np.array([9, 19]))
    assert shares(KeyRange(5, 9), times, count=10) == pytest.approx([0.5, 0.0])


def test_even_values_lie_as_without_moments():
    even = [np.linspace(0.0, 4.0, 4001), np.linspace(-3.0, 9.0, 4001)]
    known, unknown = summary_of(even), bounds_of([0.0, -3.0], [4.0, 9.0])
    for r in (KeyRange(1.0, 2.0), KeyRange(None, 0.5), KeyRange(3.5, None)):
        assert shares(r, known, 4001) == pytest.approx(shares(r, unknown), abs=2e-3)


def test_every_whole_number_as_often_as_any_other_lies_evenly():
    # Mean 4.5 and variance 8.25: each of the ten has a tenth, though they are points.
    numbers = summary_of([np.arange(10), np.repeat(np.arange(10), 10)])
    assert shares(KeyRange(5, 9), numbers, 10) == pytest.approx([0.5, 0.5])
    assert shares(KeyRange(3, 3), numbers, 10) == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("low", [-2.0, -0.5, 0.0, 1.0, 2.5])
def test_values_around_a_mean_that_drifts_lie_around_it(low):
    random = np.random.default_rng(7)
    blocks = [random.normal(mean, 0.5, 2048) for mean in np.linspace(-3, 3, 60)]
    truth = counted(low, low + 0.3, blocks)
    found = np.array(shares(KeyRange(low, low + 0.3), summary_of(blocks), 2048))
    extremes = [block.min() for block in blocks], [block.max() for block in blocks]
    even = np.array(shares(KeyRange(low, low + 0.3), bounds_of(*extremes)))
    assert np.abs(found - truth).sum() < 0.15 * truth.sum()
    assert np.abs(even - truth).sum() > 0.5 * truth.sum()


def test_values_that_crowd_at_one_end_lie_there():
    # One far value: extremes alone put a tenth of the others where there is none.
    block = np.append(np.random.default_rng(1).normal(5.0, 1.0, 2047), 100.0)
    found = shares(KeyRange(40.0, 50.0), summary_of([block]), 2048)
    assert found == pytest.approx([LEAST * 10.0 / (100.0 - block.min())], rel=1e-6)
    assert shares(KeyRange(4.0, 6.0), summary_of([block]), 2048)[0] > 0.15


def test_values_at_both_ends_leave_the_middle_empty():
    random = np.random.default_rng(2)
    block = np.concatenate([random.uniform(0.0, 0.1, 1024), random.uniform(0.9, 1.0, 1024)])
    bounds = summary_of([block])
    assert shares(KeyRange(0.4, 0.6), bounds, 2048)[0] == pytest.approx(0.2 * LEAST, rel=0.01)
    low, high = (shares(KeyRange(*r), bounds, 2048)[0] for r in ((0.0, 0.1), (0.9, 1.0)))
    assert low == pytest.approx(high, rel=0.1)
    assert low > 0.2


def test_blocks_of_one_value_hold_it_whole():
    bounds = summary_of([np.full(10, 3), np.full(10, 4)])
    assert shares(KeyRange(3, 3), bounds, 10) == [1.0, 0.0]
    assert shares(KeyRange(3.0, 3.5), summary_of([np.full(10, 3.0)]), 10) == [1.0]


def test_long_lists_of_ranges_are_not_measured():
    spread = Spread.of(bounds_of([0], [99]))
    ranges = [KeyRange(3 * i, 3 * i) for i in range(RANGES_MEASURED_MAX + 1)]
    assert spread.measures(KeyRanges(tuple(ranges[:-1])))
    assert not spread.measures(KeyRanges(tuple(ranges)))
    assert not Spread.of(bounds_of(["a"], ["b"])).measures(KeyRanges(tuple(ranges[:1])))


numbers = st.floats(-1e300, 1e300) | st.floats(-10, 10) | st.sampled_from([-np.inf, np.inf])


@given(
    st.lists(st.lists(numbers, min_size=1, max_size=6), min_size=1, max_size=5),
    st.tuples(numbers, numbers),
)
def test_shares_are_shares_whatever_the_values(blocks, border):
    with np.errstate(all="ignore"):
        bounds = summary_of([np.array(block) for block in blocks])
    r = KeyRange(min(border), max(border))
    admitted = may_contain(KeyRanges((r,)), bounds)
    found = shares(r, bounds, 6)
    assert all(0.0 <= share <= 1.0 for share in found)
    assert all(share == 0.0 for share, ok in zip(found, admitted, strict=True) if not ok)
