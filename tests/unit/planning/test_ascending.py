"""Joins of ascending arrays against NumPy's bisection, on both routes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.planning import ascending
from replay.planning.kernels import find_members as membership_by_bits
from replay.planning.kernels import sweep_lower_bounds

ASCENDING = st.lists(st.integers(-20, 20), max_size=40).map(
    lambda values: np.array(sorted(values), dtype=np.int64)
)


@given(values=ASCENDING, wanted=ASCENDING)
def test_sweep_gives_what_bisection_gives(values: np.ndarray, wanted: np.ndarray) -> None:
    assert sweep_lower_bounds(values, wanted).tolist() == np.searchsorted(values, wanted).tolist()
    assert ascending.lower_bounds(values, wanted).tolist() == [
        sum(v < w for v in values.tolist()) for w in wanted.tolist()
    ]


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
def test_sweep_leaps_over_many_values(seed: int, n_values: int, n_wanted: int) -> None:
    random = np.random.default_rng(seed)
    values = np.sort(random.integers(0, 5000, n_values))
    wanted = np.sort(random.integers(-10, 5010, n_wanted))
    places = sweep_lower_bounds(values, wanted)
    assert places.tolist() == [int((values < w).sum()) for w in wanted]
