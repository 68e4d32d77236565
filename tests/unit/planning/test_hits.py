"""Runs of rows that may fill a gap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.planning.hits import run_ends


def ints(values) -> np.ndarray:
    return np.array(sorted(values), dtype=np.int64)


@pytest.mark.parametrize(
    ("members", "wanted", "expected"),
    [
        pytest.param([3, 4, 5], [2, 3, 5, 6], [2, 6, 6, 6], id="one-run"),
        pytest.param([1, 3, 4], [1, 2, 3], [2, 2, 5], id="runs-with-one-row-between"),
        pytest.param([], [0, 7], [0, 7], id="no-member"),
        pytest.param([0], [], [], id="nothing-wanted"),
    ],
)
def test_run_ends_with_the_first_row_that_is_no_member(members, wanted, expected):
    assert run_ends(ints(members), ints(wanted)).tolist() == expected


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 32)))
def test_run_ends_equal_a_walk_row_by_row(members, wanted):
    def walk(row: int) -> int:
        return walk(row + 1) if row in members else row

    assert run_ends(ints(members), ints(wanted)).tolist() == [walk(row) for row in sorted(wanted)]
