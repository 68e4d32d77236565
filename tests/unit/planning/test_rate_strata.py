"""Segments: blocks in which rates are alike, and how full windows are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.planning.rate_strata import (
    POOLS_MAX,
    STRATA_MAX,
    Pool,
    to_strata,
    window_rates,
)
from tests.unit.planning.streams import SmallLeaves

EVERYWHERE = np.inf


def segments(densities, *, window=EVERYWHERE) -> list[int]:
    rows = np.atleast_2d(np.array(densities, dtype=np.float64))
    windows = np.broadcast_to(np.array(window, dtype=np.float64), (rows.shape[1],))
    return to_strata(rows, windows, np.full(rows.shape[1], 100.0)).tolist()


def test_even_data_is_one_segment():
    noise = 1 + 0.03 * np.random.default_rng(1).standard_normal((3, 500))
    assert set(segments(np.array([[0.1], [0.01], [0.5]]) * noise)) == {0}


def test_blocks_of_another_rate_are_a_segment_of_their_own():
    assert segments([0.1, 0.1, 0.1, 0.001, 0.001]) == [0, 0, 0, 1, 1]
    # Two conditions that change at different places make three mixtures.
    assert segments([[0.1] * 4 + [0.8] * 3, [0.2] * 5 + [0.01] * 2]) == [0] * 4 + [2] + [1] * 2


def test_fuller_windows_are_a_segment_of_their_own():
    assert segments([0.1] * 5, window=[300, 300, 300, 5, 5]) == [0, 0, 0, 1, 1]


def test_blocks_that_do_not_remain_have_no_segment():
    pool = Pool.of(np.array([True, False, True, True, False]), np.array([10, 10, 20, 10, 10]))
    assert pool.events.tolist() == [10.0, 20.0, 10.0]
    assert pool.mean(np.array([0.1, 0.2, 0.3, 0.4, 0.5])).tolist() == [0.1, 0.3, 0.4]
    assert pool.spread(np.array([7, 8, 9]), 5).tolist() == [7, -1, 8, 9, -1]


def test_neighbours_are_pooled_where_there_are_many_blocks():
    n = 3 * POOLS_MAX  # three blocks to a run, with 1, 2 and 3 events
    remaining = np.ones(n + 1, dtype=bool)
    remaining[5] = False
    pool = Pool.of(remaining, np.append(np.tile([1, 2, 3], POOLS_MAX), 9))
    values = np.append(np.tile([0.6, 0.3, 0.0], POOLS_MAX), 0.5)
    assert pool.events[0] == 6
    assert pool.mean(values)[0] == pytest.approx(0.2)
    # Without block 5 the second run is blocks 3, 4 and 6.
    assert pool.events[1] == 1 + 2 + 1
    assert pool.mean(values)[1] == pytest.approx((0.6 + 2 * 0.3 + 0.6) / 4)
    assert pool.spread(np.arange(POOLS_MAX), n + 1)[:8].tolist() == [0, 0, 0, 1, 1, -1, 1, 2]


def test_many_mixtures_become_few_segments_that_follow_the_drift():
    # The rate goes through ten decades: far more classes than segments.
    octaves = np.linspace(-23, 0, 2000)
    found = np.array(segments(2.0**octaves))
    assert set(found) == set(range(STRATA_MAX))
    widest = max(np.ptp(octaves[found == label]) for label in range(STRATA_MAX))
    assert widest < 23 / STRATA_MAX * 2


def test_rare_mixtures_share_the_last_segment():
    densities = np.full(1000, 0.1)
    densities[::50] = 2.0 ** -np.arange(4, 24)
    found = segments(densities)
    assert found.count(0) == 980
    assert set(found) == set(range(STRATA_MAX))


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), max_size=4),
            st.lists(st.floats(1, 1e6) | st.just(np.inf), min_size=n, max_size=n),
        )
    )
)
def test_every_run_has_a_segment_and_the_first_is_largest(case):
    densities, window = case
    rows = np.array(densities, dtype=np.float64).reshape(len(densities), len(window))
    labels = to_strata(rows, np.array(window), np.full(len(window), 7.0))
    assert labels.shape == (len(window),)
    sizes = np.bincount(labels)
    assert len(sizes) <= STRATA_MAX
    assert (sizes > 0).all()
    assert (np.diff(sizes[: STRATA_MAX - 1]) <= 0).all()


def leaves_of(t_min, t_max, count) -> SmallLeaves:
    return SmallLeaves(
        np.array(count),
        np.array([0, *np.cumsum(count)]),
        np.array(t_min),
        np.array(t_max),
        gap_min=np.zeros(len(count), dtype=np.int64),
    )


def test_window_holds_the_events_of_its_time_around_the_block():
    # One event a tick, then one in ten: a window of 100 ticks holds 100 and 10, and its end.
    leaves = leaves_of([0, 1000, 2000, 12000], [999, 1999, 11990, 21990], [1000, 1000, 1000, 1000])
    found = window_rates(leaves, 100, None)
    assert found == pytest.approx([101, 101, 11, 11], rel=0.01)


def test_window_in_rows_bounds_the_one_in_time():
    leaves = leaves_of([0, 1000], [999, 1999], [1000, 1000])
    assert window_rates(leaves, 100, 7).tolist() == [7.0, 7.0]
    assert window_rates(leaves, None, 7).tolist() == [7.0, 7.0]
    assert window_rates(leaves, None, None).tolist() == [np.inf, np.inf]


def test_window_longer_than_the_stream_keeps_the_rate():
    leaves = leaves_of([0, 1000], [999, 1999], [1000, 1000])
    assert window_rates(leaves, 10**18, None) == pytest.approx([1e18, 1e18], rel=0.01)


def test_events_of_one_time_and_no_events_at_all_have_rates():
    assert np.isfinite(window_rates(leaves_of([5, 5], [5, 5], [10, 10]), 0, None)).all()
    assert len(window_rates(leaves_of([], [], []), 5, None)) == 0
