"""Whole numbers of several words against Python's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.aggregates.exact import from_ints, to_ints
from replay.patterns.summing.entry_kernels import add_times
from replay.patterns.summing.kernels import add

N_WORDS = 4
NUMBERS = st.integers(0, 64 * N_WORDS - 1).flatmap(lambda n: st.integers(-(2**n), 2**n - 1))


def wrapped(value: int) -> int:
    """Return what is left of a number in the words."""
    half = 2 ** (64 * N_WORDS - 1)
    return (value + half) % (2 * half) - half


@given(st.lists(NUMBERS))
def test_numbers_come_back_from_words(values: list[int]) -> None:
    assert to_ints(from_ints(values, N_WORDS)) == values


@given(NUMBERS, NUMBERS)
def test_sums_are_exact(one: int, other: int) -> None:
    numbers = from_ints([one, other], N_WORDS)
    with np.errstate(over="ignore"):
        add(numbers, 0, numbers, 1, 0, N_WORDS)
    assert to_ints(numbers)[0] == wrapped(one + other)


@given(NUMBERS, NUMBERS, NUMBERS, st.integers(1, N_WORDS))
def test_products_are_exact(total: int, one: int, other: int, n_words: int) -> None:
    factor = abs(other) % 2 ** (64 * n_words)
    numbers, factors = from_ints([total, one], N_WORDS), from_ints([factor], N_WORDS + 1)
    with np.errstate(over="ignore"):
        add_times(numbers, 0, numbers, 1, 0, N_WORDS, factors, 0, 0, n_words)
    assert to_ints(numbers) == [wrapped(total + one * factor), one]
