"""Whole numbers of several words against Python's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.aggregates.exact import from_ints, to_ints, widened
from replay.aggregates.exact_kernels import add, add_product

NUMBERS = st.integers(0, 200).flatmap(lambda bits: st.integers(-(2**bits), 2**bits))


@given(NUMBERS, NUMBERS, st.sampled_from([1, 2, 4]))
def test_sums_are_exact_or_known_not_to_fit(one: int, other: int, n_words: int) -> None:
    most = 2 ** (64 * n_words - 2)
    if not all(-most <= n < most for n in (one, other)):
        return
    numbers = from_ints([one, other], n_words)
    with np.errstate(over="ignore"):
        fits = add(numbers, 0, numbers, 1)
    total = one + other
    assert to_ints(numbers)[0] == total  # a sum of two that fit is right for once, too
    assert fits == (-most <= total < most)


@given(st.lists(NUMBERS.map(abs), min_size=3, max_size=3), st.sampled_from([1, 2, 4, 8]))
def test_products_are_exact_or_known_not_to_fit(values: list[int], n_words: int) -> None:
    most = 2 ** (64 * n_words - 2)
    if any(n >= most for n in values):
        return
    numbers, scratch = from_ints(values, n_words), np.zeros((1, n_words), np.uint64)
    with np.errstate(over="ignore"):
        fits = add_product(numbers, 0, numbers, 1, numbers, 2, scratch)
    expected = values[0] + values[1] * values[2]
    if fits:
        assert to_ints(numbers)[0] == expected
    else:  # whole halves of words are looked at, so it may be told a word early
        assert expected >= 2 ** (64 * n_words - 64)


@given(st.lists(NUMBERS, min_size=1, max_size=4))
def test_numbers_stay_the_same_in_more_words(values: list[int]) -> None:
    wide = widened(from_ints(values, 4))
    assert wide.shape == (len(values), 8)
    assert to_ints(wide) == values
