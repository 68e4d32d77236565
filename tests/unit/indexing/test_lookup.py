"""Lists of entries put in stream order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.lookup import in_order


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 400), unique=True),
    st.lists(st.integers(0, 400), max_size=3),
    st.sampled_from([1, 30, 1000]),
    st.integers(0, 1 << 40),
)
def test_ascending_pieces_become_one_ascending_list(
    numbers: list[int], cuts: list[int], spread: int, first: int
) -> None:
    # Spread 1000 is so thin that entries are sorted and not scattered.
    seq = np.array(numbers, dtype=np.int64) * spread + first
    pieces = [np.sort(p) for p in np.split(seq, sorted(min(c, len(seq)) for c in cuts))]
    found, t, _ = in_order([(piece, piece // 3) for piece in pieces])
    expected = sorted(seq.tolist())
    assert found.tolist() == expected
    assert t.tolist() == [s // 3 for s in expected]


@pytest.mark.parametrize("parts", [[], [(np.array([7]), np.array([1]))]], ids=["none", "one"])
def test_little_is_returned_as_it_is(parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
    seq, t, _ = in_order(parts)
    assert seq.tolist() == [p for part in parts for p in part[0].tolist()]
    assert t.tolist() == [p for part in parts for p in part[1].tolist()]


def test_a_hundred_thousand_entries_are_scattered_into_order() -> None:
    numbers = np.arange(100_000, dtype=np.int64) * 3 + 7
    pieces = [(numbers[i::5], numbers[i::5] // 10) for i in (3, 1, 0, 4, 2)]
    seq, t, _ = in_order(pieces)
    assert np.array_equal(seq, numbers)
    assert np.array_equal(t, numbers // 10)
