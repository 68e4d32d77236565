"""The hypoexponential distribution against mpmath on ten thousand random sets of rates.

The method it is held to is that of ``scripts/make_hypoexponential_reference.py``: residues of the
Laplace transform in as many digits as it takes, at least 120.
"""

from __future__ import annotations

import math
import os
import random
import sys

import pytest

from costmodel.thesis.hypoexponential import N_STAGES_MAX, cdf
from scripts.make_hypoexponential_reference import Reference

N_SETS = int(os.environ.get("HYPOEXPONENTIAL_SETS", "10000"))
ACCURACY = 1e-10
LEAST = 1e-300


def draw_rates(rng: random.Random) -> list[float]:
    """Return up to 64 rates: spread, equal, nearly equal, over ten decades, or some of each."""
    n = min(N_STAGES_MAX, int(2 ** rng.uniform(0, 6.05)))
    regime = rng.randrange(5)
    if regime == 0:
        return [rng.uniform(0.5, 5.0) for _ in range(n)]
    if regime == 1:
        return [10 ** rng.uniform(-5, 5)] * n
    if regime == 2:
        near = 10 ** rng.uniform(-12, -3)
        return [2.5 * (1 + near * rng.uniform(-1, 1)) for _ in range(n)]
    if regime == 3:
        return [10 ** rng.uniform(-5, 5) for _ in range(n)]
    some = [10 ** rng.uniform(-5, 5) for _ in range(3)]
    return [rng.choice(some) * (1 + rng.choice((0.0, 1e-9, 1e-15))) for _ in range(n)]


def draw_time(rng: random.Random, rates: list[float]) -> float:
    """Return a time in the left tail, the middle, or the right tail, down to 1e-300."""
    n, mean = len(rates), math.fsum(1 / rate for rate in rates)
    where = rng.randrange(3)
    if where == 0:  # early on, cdf is x**n / n! times the product of the rates
        log_rates = math.fsum(math.log(rate) for rate in rates)
        log_cdf = math.log(10) * rng.uniform(-299, -3)
        return math.exp((log_cdf + math.lgamma(n + 1) - log_rates) / n)
    return mean * 10 ** rng.uniform(-1, 0.5) if where == 1 else rng.uniform(3, 680) / min(rates)


@pytest.mark.slow
def test_ten_thousand_random_sets_of_rates_agree_with_mpmath():
    mpmath = pytest.importorskip("mpmath")
    rng = random.Random(2021)
    n_compared = 0
    for number in range(N_SETS):
        rates = draw_rates(rng)
        x = draw_time(rng, rates)
        value, exact = cdf(x, rates), Reference(mpmath.mp, rates).values(x)["cdf"]
        assert 0.0 <= value <= 1.0, (number, x, rates)
        if exact >= LEAST:
            n_compared += 1
            assert abs(value - exact) <= ACCURACY * exact, (number, x, rates)
    sys.stdout.write(f"{N_SETS} sets of rates, {n_compared} values compared\n")
    assert n_compared > N_SETS / 2
