"""Times survive their scale."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from indexing.run_format import TimeScale

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def restored(scale: TimeScale, steps: np.ndarray) -> list[int]:
    """Undo a scale with Python's numbers, which know no overflow but the one made here."""
    times = [scale.first + scale.divisor * step for step in steps.tolist()]
    return [(t + (1 << 63)) % (1 << 64) - (1 << 63) for t in times]


@given(st.lists(INT64))
@example([-(1 << 63), (1 << 63) - 1])
@example([5] * 3)
@example([0, 1, *(1_000 * i for i in range(2, 600))])  # the 1 is in no sample
def test_any_times_are_restored_from_their_steps(times: list[int]) -> None:
    array = np.array(times, dtype=np.int64)
    scale = TimeScale.of(array)
    assert restored(scale, scale.to_steps(array)) == times


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=900), st.integers(1, 10_000), INT64)
def test_divisor_is_the_greatest_that_divides_all_times_less_the_first(
    steps: list[int], unit: int, first: int
) -> None:
    times = [min(max(first, -(1 << 62)), 1 << 62) + unit * step for step in steps]
    scale = TimeScale.of(np.array(times, dtype=np.int64))
    greatest = math.gcd(*(t - min(times) for t in times))
    assert scale == TimeScale(min(times), max(times), greatest)


def test_one_time_that_no_sample_holds_makes_the_divisor_smaller() -> None:
    times = np.arange(600) * 1_000
    times[1] = 400
    assert TimeScale.of(times) == TimeScale(0, 599_000, 200)


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=9), min_size=1, max_size=4))
def test_merged_scale_is_that_of_all_times(parts: list[list[int]]) -> None:
    arrays = [np.array(part) * 10 for part in parts]
    merged = TimeScale.merged([TimeScale.of(array) for array in arrays])
    assert merged == TimeScale.of(np.concatenate(arrays))
