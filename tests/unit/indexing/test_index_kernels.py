"""Compiled loops of lookups against plain ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.kernels import admit, decode, order_by_seq

_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1)),
        max_size=5,
    ),
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from(["u4", "u8"]),
    st.integers(0, 7),
    _INT64,
)
def test_numbers_are_checked_scaled_and_kept_where_they_are_admitted(
    groups: list[tuple[bool, list[tuple[int, bool]]]],
    may_repeat: bool,
    most: int,
    dtype: str,
    scale: int,
    shift: int,
) -> None:
    numbers = [n for _, group in groups for n, _ in group]
    cuts = np.cumsum([0, *(len(group) for _, group in groups)])
    rim = np.array([is_rim for is_rim, _ in groups], dtype=bool)
    admitted = np.array([a for is_rim, group in groups if is_rim for _, a in group], dtype=bool)
    out, kept_cuts = np.empty(len(numbers), np.int64), np.empty_like(cuts)
    line = np.uint64(scale), np.uint64(shift & ((1 << 64) - 1))
    is_right = decode(
        np.array(numbers, dtype), cuts, (rim, admitted), (may_repeat, np.uint64(most)), line, out,
        kept_cuts,
    )  # fmt: skip
    rises = all(
        a < b or (may_repeat and a == b)
        for _, group in groups
        for (a, _), (b, _) in pairwise(group)
    )
    assert is_right == (rises and all(group[-1][0] <= most for _, group in groups))
    kept = [[n for n, is_in in group if is_in or not is_rim] for is_rim, group in groups]
    assert kept_cuts.tolist() == np.cumsum([0, *map(len, kept)]).tolist()
    wrapped = [(n * scale + shift + (1 << 63)) % (1 << 64) - (1 << 63) for g in kept for n in g]
    assert out[: kept_cuts[-1]].tolist() == wrapped


@pytest.mark.parametrize(("last", "is_right"), [(2, True), (3, False), (65_535, False)])
def test_a_code_without_a_word_is_found_before_it_is_followed(last: int, is_right: bool) -> None:
    codes = np.array([1, 0, 0, last], np.uint16)
    cuts, word_cuts = np.array([0, 2, 4]), np.array([0, 2, 5])
    admitted = np.zeros(4, bool)
    admits = np.array([True, False, False, True, True])
    assert admit(codes, cuts, word_cuts, admits, admitted) == is_right
    if is_right:
        assert admitted.tolist() == [False, True, False, True]


def test_a_number_that_comes_twice_is_counted_once() -> None:
    seq = np.array([70, 3, 70])
    marks, below = np.zeros(2, np.uint64), np.zeros(2, np.int32)
    into = np.full((2, 3), -1)
    assert order_by_seq(seq, seq, 0, marks, below, into[0], into[1]) == 2
    assert (into == -1).all()
