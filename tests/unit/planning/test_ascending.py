"""Joins of ascending arrays against NumPy's bisection, on both routes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.planning import ascending
from replay.planning.kernels import find_members as membership_by_bits
from replay.planning.kernels import rank_lower_bounds, sweep_lower_bounds

ASCENDING = st.lists(st.integers(-20, 20), max_size=40).map(
    lambda values: np.array(sorted(values), dtype=np.int64)
)


@given(wanted=ASCENDING, present=ASCENDING)
def test_are_in_is_membership(wanted: np.ndarray, present: np.ndarray) -> None:
    found = ascending.are_in(wanted, present)
    assert found.tolist() == [w in set(present.tolist()) for w in wanted.tolist()]


@given(wanted=ASCENDING, present=ASCENDING)
def test_bit_map_gives_what_bisection_gives(wanted: np.ndarray, present: np.ndarray) -> None:
    found = membership_by_bits(wanted, present, -20, 2)
    assert found.tolist() == [w in set(present.tolist()) for w in wanted.tolist()]


def test_long_arrays_take_the_sweep_and_agree() -> None:
    values = np.arange(0, 30_000, 3, dtype=np.int64)
    wanted = np.arange(0, 30_000, 2, dtype=np.int64)
    assert len(values) >= ascending.SWEEP_VALUES_MIN
    places = ascending.lower_bounds(values, wanted)
    assert places.tolist() == np.searchsorted(values, wanted).tolist()
    assert np.flatnonzero(ascending.are_in(wanted, values)).tolist() == list(range(0, 15_000, 3))


@given(seed=st.integers(0, 2**32 - 1), n_values=st.integers(0, 2000), n_wanted=st.integers(0, 9))
def test_lower_bounds_are_those_of_bisection(seed: int, n_values: int, n_wanted: int) -> None:
    random = np.random.default_rng(seed)
    values = np.sort(random.integers(0, 5000, n_values))
    wanted = np.sort(random.integers(-10, 5010, n_wanted))
    expected = [int((values < w).sum()) for w in wanted]
    assert sweep_lower_bounds(values, wanted).tolist() == expected
    assert ascending.lower_bounds(values, wanted).tolist() == expected


@given(values=st.sets(st.integers(-300, 300), min_size=1), wanted=st.lists(st.integers(-500, 500)))
def test_ranks_by_bit_map_are_what_bisection_gives(values: set[int], wanted: list[int]) -> None:
    rows = np.array(sorted(values), dtype=np.int64)
    n_words = ((int(rows[-1]) - int(rows[0])) >> 6) + 2
    places = rank_lower_bounds(rows, np.array(sorted(wanted), dtype=np.int64), rows[0], n_words)
    assert places.tolist() == [sum(row < w for row in values) for w in sorted(wanted)]


def test_dense_rows_take_the_bit_map_thin_ones_the_sweep_and_agree() -> None:
    wanted = np.arange(-50, 40_000, 7, dtype=np.int64)
    assert len(wanted) >= ascending.SWEEP_VALUES_MIN
    for step in (1, 5, 1000):
        rows = np.arange(0, 10_000 * step, step, dtype=np.int64)
        places = ascending.row_lower_bounds(rows, wanted)
        assert places.tolist() == np.searchsorted(rows, wanted).tolist()
    assert ascending.row_lower_bounds(rows[:0], wanted).tolist() == [0] * len(wanted)
