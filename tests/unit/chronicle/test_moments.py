"""Sums and second moments of blocks against exact rationals, on data that loses digits easily."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from chronicle.tree.summarise import summarise
from chronicle.tree.summary import AttributeSummary
from tests.window_cases import seeds

FAMILIES: dict[str, Callable[[Random], float]] = {
    "normal": lambda random: random.gauss(0, 1),
    "cents": lambda random: random.randint(0, 9999) / 100,
    "far": lambda random: 1e9 + random.gauss(0, 1e-3),
    "next to each other": lambda random: 1e9 + random.randint(0, 2) * 2.0**-23,
    "of all sizes": lambda random: random.gauss(0, 1) * 10.0 ** random.randint(-12, 12),
    "one outlier": lambda random: random.choice((*[random.random()] * 50, 1e15)),
    "large": lambda random: random.gauss(0, 1e150),
    "small": lambda random: random.gauss(0, 1e-100),
    "whole": lambda random: random.randint(-(10**6), 10**6),
    "wide": lambda random: random.randint(-(2**40), 2**40),
    "whole of all sizes": lambda random: (
        random.randint(-(2**63), 2**63 - 1) >> random.randint(0, 62)
    ),
}


def root(x: Fraction) -> Fraction:
    """Return a square root from above."""
    scale = 2**2000 if x < 1 else 1
    return Fraction(math.isqrt(math.ceil(x * scale * 2**200)) + 1) / math.isqrt(scale) / 2**100


def assert_close(found: AttributeSummary, values: list[float | None]) -> None:
    """Hold one entry against the bounds stated of `moment_rows`."""
    exact = [Fraction(value) for value in values if value is not None]
    n, total = len(exact), sum(exact, Fraction())
    magnitude = sum(map(abs, exact), Fraction())
    mean = total / max(n, 1)
    squares = sum(((value - mean) ** 2 for value in exact), Fraction())
    high, low = found.sum_pair()
    got = Fraction(float(high[0])) + Fraction(float(low[0]))
    assert abs(got - total) <= n * magnitude / 2**100
    got = Fraction(float(found.m2[0])) + Fraction(float(found.m2_low[0]))
    bound = n * (squares + magnitude / max(n, 1) * root(n * squares))
    assert abs(got - squares) <= bound / 2**100


@pytest.mark.parametrize("family", FAMILIES)
@given(random=seeds)
def test_moments_of_blocks_and_of_nodes_are_within_the_stated_bound(
    family: str, random: Random
) -> None:
    n = random.choice((1, 2, 3, 50, 300))
    missing = random.choice((0.0, 0.0, 0.3))
    values = [None if random.random() < missing else FAMILIES[family](random) for _ in range(n)]
    counts = []
    while sum(counts) < n:
        counts.append(random.randint(1, n - sum(counts)))
    column = pa.array(values, pa.int64() if "wh" in family or family == "wide" else pa.float64())

    found = summarise(column, counts)

    ends = np.cumsum(counts)
    for entry, (begin, end) in enumerate(zip(ends - counts, ends, strict=True)):
        assert_close(found.slice(entry, entry + 1), values[begin:end])
    assert_close(found.merge(np.zeros(1, np.int64)), values)


@pytest.mark.parametrize("value", [0.1, -1e290, 3e-310, 1e9, 2**63 - 1, -7])
def test_equal_values_have_no_second_moment(value: float) -> None:
    found = summarise(pa.array([value] * 7), [3, 4])
    whole = found.merge(np.zeros(1, np.int64))
    assert [*found.m2, *found.m2_low, *whole.m2, *whole.m2_low] == [0.0] * 6


def test_integers_at_both_ends_of_64_bits_are_exact() -> None:
    # The mean is -1/2, each value 2**63 - 1/2 from it: m2 = 2 (2**63 - 1/2)**2.
    found = summarise(pa.array([-(2**63), 2**63 - 1]), [2])
    exact = 2 * (Fraction(2**63) - Fraction(1, 2)) ** 2
    assert found.m2[0] == float(exact)
    assert found.m2_low[0] == float(exact - Fraction(float(exact)))


def test_infinite_and_overflowing_values_leave_no_garbage_behind() -> None:
    found = summarise(pa.array([math.inf, 1.0, 1e300, -1e300, 3.0, 5.0]), [2, 2, 2])
    assert math.isnan(found.m2[0])
    assert found.m2[1:].tolist() == [math.inf, 2.0]
    assert found.sum_high.tolist() == [math.inf, 0.0, 8.0]
    assert found.m2_low.tolist() == [0.0, 0.0, 0.0]
