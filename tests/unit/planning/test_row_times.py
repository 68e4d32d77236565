"""Times of rows that were not looked up: bounds from the tree, never beyond the truth."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.planning.intervals import earliest_times, latest_times
from tests.unit.planning.streams import SmallStatistics


def leaves_of(times: list[int], block_events: int):
    made = [{"t": t, "a": 0, "b": 0, "k": 0} for t in times]
    return SmallStatistics(made, block_events).leaves


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


# Blocks 0..3 with gaps of 10, a burst in 4..7, and 8..11 with gaps of 5.
TIMES = [0, 10, 20, 30, 31, 31, 31, 31, 40, 45, 50, 55]


def test_neighbours_in_a_block_are_its_own_least_gap_apart():
    leaves = leaves_of(TIMES, 4)
    # Two rows before 3 (30) and before 10 (50): 20 and 10 earlier, in spite of the ties between.
    assert latest_times(ints(3, 10), ints(30, 50), 2, leaves).tolist() == [10, 40]
    assert earliest_times(ints(0, 9), ints(0, 45), 2, leaves).tolist() == [20, 55]


def test_rows_of_another_block_are_bounded_by_its_extremes():
    leaves = leaves_of(TIMES, 4)
    # Three rows before 9 is row 6 of the burst, at most 31; two rows before 5 is row 3, at 30.
    assert latest_times(ints(9), ints(45), 3, leaves).tolist() == [31]
    assert latest_times(ints(5), ints(31), 2, leaves).tolist() == [30]
    # Three rows behind 7 is row 10: two gaps of 5 after 40.
    assert earliest_times(ints(7), ints(31), 3, leaves).tolist() == [50]


def test_no_row_between_leaves_times_as_they_are():
    leaves = leaves_of(TIMES, 4)
    assert latest_times(ints(3), ints(30), 0, leaves).tolist() == [30]
    assert earliest_times(ints(3), ints(30), 0, leaves).tolist() == [30]
    assert earliest_times(ints(), ints(), 2, leaves).tolist() == []


def test_blocks_of_one_event_tell_times_exactly():
    leaves = leaves_of(TIMES, 1)
    assert latest_times(ints(8), ints(40), 4, leaves).tolist() == [31]
    assert earliest_times(ints(3), ints(30), 5, leaves).tolist() == [40]


def test_gaps_that_fill_the_whole_range_of_times_do_not_wrap():
    end = 2**63 - 1
    leaves = leaves_of([-end, 0, end], 3)
    assert earliest_times(ints(0), ints(-end), 2, leaves)[0] <= end
    assert latest_times(ints(2), ints(end), 2, leaves)[0] >= -end
    half = 2**62
    leaves = leaves_of([-half, 0, half - 1], 3)
    assert earliest_times(ints(0), ints(-half), 2, leaves).tolist() == [half - 2]
    assert latest_times(ints(2), ints(half - 1), 2, leaves).tolist() == [1 - half]


@given(
    st.lists(st.sampled_from((0, 0, 1, 2, 7)), min_size=1, max_size=20),
    st.integers(1, 6),
    st.integers(0, 5),
    st.data(),
)
def test_bounds_ascend_and_hold_for_the_true_times(gaps, block_events, n, data):
    times = np.cumsum(gaps).astype(np.int64)
    leaves = leaves_of(times.tolist(), block_events)
    known = data.draw(st.lists(st.integers(0, len(times) - 1), unique=True).map(sorted))
    before = ints(*(seq for seq in known if seq >= n))
    bound = latest_times(before, times[before], n, leaves)
    assert np.all(bound >= times[before - n])
    assert np.all(bound <= times[before])
    assert np.all(np.diff(bound) >= 0)
    behind = ints(*(seq for seq in known if seq + n < len(times)))
    bound = earliest_times(behind, times[behind], n, leaves)
    assert np.all(bound <= times[behind + n])
    assert np.all(bound >= times[behind])
    assert np.all(np.diff(bound) >= 0)
