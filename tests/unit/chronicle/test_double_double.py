"""Arithmetic of pairs of doubles is as exact as it says."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.tree.double_double import (
    SNAPPED_BITS,
    Pair,
    add,
    divide,
    multiply,
    snapped,
    times,
    two_product,
    two_sum,
)

numbers = st.integers(0, 2**64 - 1).map(
    lambda seed: Random(seed).uniform(-1, 1) * 2.0 ** Random(seed + 1).randint(-60, 60)
)
U = Fraction(1, 2**53)


def array(x: float) -> np.ndarray:
    return np.array([x])


def exact(pair: Pair) -> Fraction:
    return sum((Fraction(float(part[0])) for part in pair), Fraction())


def normal(high: float, way: float) -> Pair:
    return two_sum(array(high), array(high * way * 2.0**-54))


@given(numbers, numbers)
def test_sums_and_products_of_doubles_lose_nothing(a: float, b: float) -> None:
    assert exact(two_sum(array(a), array(b))) == Fraction(a) + Fraction(b)
    assert exact(two_product(array(a), array(b))) == Fraction(a) * Fraction(b)


@given(numbers, st.floats(-1, 1), numbers, st.floats(-1, 1))
def test_pairs_are_within_their_bounds(a: float, p: float, b: float, q: float) -> None:
    x, y = normal(a, p), normal(b, q)
    for found, expected, units in (
        (add(x, y), exact(x) + exact(y), 3),
        (multiply(x, y), exact(x) * exact(y), 7),
        (times(x, array(b)), exact(x) * Fraction(b), 3),
        (divide(x, array(b or 1.0)), exact(x) / Fraction(b or 1.0), 5),
    ):
        assert abs(exact(found) - expected) <= units * U * U * abs(expected)
        assert found[0][0] + found[1][0] == found[0][0]


@pytest.mark.parametrize("off", [0.0, 2.0**-104, -(2.0**-104)])
def test_a_number_between_two_doubles_is_snapped_whatever_it_is_off(off: float) -> None:
    # 1 + 2**-53 lies in the middle of two doubles, and is a number of 54 bits.
    high, low = snapped(array(1.0), array(2.0**-53 + off))
    assert (high[0], low[0]) == (1.0, 2.0**-53)


@given(numbers, st.floats(-1, 1))
def test_what_is_snapped_keeps_its_leading_bits(a: float, way: float) -> None:
    pair = normal(a, way)
    assert abs(exact(snapped(*pair)) - exact(pair)) <= abs(exact(pair)) / 2 ** (SNAPPED_BITS - 1)
