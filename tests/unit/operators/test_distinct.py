"""Numbers each once are those of a set, in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.operators.distinct import distinct

NUMBERS = st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1))


@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_numbers_are_those_of_a_set_in_order(parts: list[list[int]]) -> None:
    found = distinct(*(np.array(part, np.int64) for part in parts))
    assert found.dtype == np.int64
    assert found.tolist() == sorted({number for part in parts for number in part})
