"""Hypoexponential distribution against 40-digit values, its laws, and its sums on the contour.

The values are made by ``scripts/make_hypoexponential_reference.py``, another method altogether.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.thesis import hypoexponential
from costmodel.thesis.hypoexponential import cdf, truncated_mean
from costmodel.waiting import POINTS, invert

REFERENCE = json.loads(
    (Path(__file__).parent / "hypoexponential_reference.json").read_text(encoding="utf-8")
)
CASES = [
    pytest.param(case, id=f"{case['regime']}-{len(case['rates'])}") for case in REFERENCE["cases"]
]
FUNCTIONS = [cdf, truncated_mean]

# What is promised is 1e-10; what rounding leaves is below 1e-13, and a test that allowed more
# would not see a digit lost.
ACCURACY = 1e-12


def rates_of(n_max: int) -> st.SearchStrategy[list[float]]:
    """Return sets of rates: spread over decades, some equal, some nearly so."""
    rate = st.floats(-5, 5).map(lambda e: 10.0**e)
    close = st.tuples(rate, st.lists(st.floats(-1e-9, 1e-9), min_size=1, max_size=n_max)).map(
        lambda pair: [pair[0] * (1 + part) for part in pair[1]]
    )
    few = st.lists(rate, min_size=1, max_size=3).flatmap(
        lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=n_max)
    )
    return st.lists(rate, min_size=1, max_size=n_max) | close | few


PARTS = st.floats(-6, 2).map(lambda e: 10.0**e)
"""Times as multiples of the mean: both tails and the middle."""


def mean(rates: list[float]) -> float:
    return truncated_mean(math.inf, rates)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_forty_digits_in_both_tails(case, function):
    expected = [point[function.__name__] for point in case["points"]]
    found = [function(point["x"], case["rates"]) for point in case["points"]]
    np.testing.assert_allclose(found, expected, rtol=ACCURACY, atol=0)


def test_reference_covers_sizes_regimes_and_tails():
    assert {len(case["rates"]) for case in REFERENCE["cases"]} == {1, 2, 3, 8, 32, 64}
    assert len({case["regime"] for case in REFERENCE["cases"]}) == 6
    for case in REFERENCE["cases"]:
        assert min(point["cdf"] for point in case["points"]) < 1e-200
        assert min(point["sf"] for point in case["points"]) < 1e-200


@given(rates_of(12), PARTS, st.randoms(use_true_random=False))
def test_order_of_rates_changes_no_bit(rates, part, random):
    x = part * mean(rates)
    for function in FUNCTIONS:
        assert function(x, random.sample(rates, len(rates))) == function(x, rates)


@given(rates_of(12), PARTS, st.floats(-100, 100))
def test_neither_a_stage_of_no_length_nor_the_unit_of_time_matters(rates, part, exponent):
    x, unit = part * mean(rates), 10.0**exponent
    instant = [*rates, 1e30 * max(rates) / min(part, 1.0)]
    scaled = [rate / unit for rate in rates]
    for function, scale in ((cdf, 1.0), (truncated_mean, unit)):
        expected = function(x, rates)
        assert function(x, instant) == pytest.approx(expected, rel=ACCURACY, abs=0)
        assert function(x * unit, scaled) / scale == pytest.approx(expected, rel=1e-11)


@given(st.floats(-290, 2.8).map(lambda e: 10.0**e), st.floats(-5, 5).map(lambda e: 10.0**e))
def test_one_stage_is_the_exponential(z, rate):
    x = z / rate
    assert cdf(x, [rate]) == pytest.approx(-math.expm1(-rate * x), rel=ACCURACY, abs=0)
    # The mean below x is 1/rate - x / (e**z - 1), which cancels for small z; there it is x / 2.
    z = rate * x
    exact = (1 - z / math.expm1(z)) / rate if z > 0.1 else x * (0.5 - z / 12 + z**3 / 720)
    assert truncated_mean(x, [rate]) == pytest.approx(exact, rel=1e-9, abs=0)


@given(
    st.lists(st.floats(-300, 300).map(lambda e: 10.0**e), min_size=1, max_size=64),
    st.floats(5e-324, 1.7e308) | st.floats(-323, 308).map(lambda e: 10.0**e),
    st.floats(1.0, 3.0),
)
def test_any_rates_and_times_give_probabilities_that_rise(rates, x, factor):
    low, high = cdf(x, rates), cdf(x * factor, rates)
    assert 0.0 <= low <= high * (1 + ACCURACY) <= 1.0 + ACCURACY


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        pytest.param(-1.0, (0.0, math.nan), id="negative"),
        pytest.param(-math.inf, (0.0, math.nan), id="minus-infinity"),
        pytest.param(0.0, (0.0, 0.0), id="zero"),
        pytest.param(math.inf, (1.0, 1.5), id="infinity"),
        pytest.param(math.nan, (math.nan, math.nan), id="nan"),
    ],
)
def test_ends_of_the_line(x, expected):
    np.testing.assert_equal([function(x, [1.0, 2.0]) for function in FUNCTIONS], expected)


def test_beyond_all_decay_everything_is_below():
    rates = [1e-3, 1.0, 1e9]
    for x in (2e6, 1e12, 1e300):
        assert cdf(x, rates) == pytest.approx(1.0, rel=ACCURACY)
        assert truncated_mean(x, rates) == pytest.approx(mean(rates), rel=ACCURACY)


def test_sum_of_nothing_is_zero():
    times = (-1.0, 0.0, 2.0, math.inf, math.nan)
    np.testing.assert_equal([cdf(x, []) for x in times], [0.0, 1.0, 1.0, 1.0, math.nan])
    means = [truncated_mean(x, []) for x in times]
    np.testing.assert_equal(means, [math.nan, 0.0, 0.0, 0.0, math.nan])


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        pytest.param([1.0, 0.0], r"rates\[1\] is 0\.0", id="zero"),
        pytest.param([-2.0], r"rates\[0\] is -2\.0", id="negative"),
        pytest.param([1.0, 2.0, math.inf], r"rates\[2\] is inf", id="infinite"),
        pytest.param([math.nan, 1.0], r"rates\[0\] is nan", id="nan"),
        pytest.param([1.0] * 65, "65 stages", id="too-many"),
        pytest.param([[1.0]], r"shape \(1, 1\)", id="matrix"),
    ],
)
def test_bad_rates_are_named(rates, message):
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match=message):
            function(1.0, rates)


@pytest.mark.parametrize(("n_stages", "accuracy"), [(1, 1e-4), (4, 1e-4), (8, 2e-3)])
def test_probability_that_all_fit_keeps_its_digits_in_both_tails(n_stages, accuracy):
    random = np.random.default_rng(n_stages)
    rates = 10 ** random.uniform(-4, 3, (200, n_stages))
    transform = (rates[..., None] / (rates[..., None] + POINTS)).prod(axis=1) / POINTS
    expected = [hypoexponential.cdf(1.0, each) for each in rates]
    np.testing.assert_allclose(invert(transform), expected, rtol=accuracy)


def test_means_of_the_stages_add_up_to_the_truncated_mean():
    rates = np.array([0.3, 2.0, 2.0, 15.0])
    terms = 1.0 / (rates[:, None] + POINTS)
    fits = np.prod(rates[:, None] * terms, axis=0) / POINTS
    means = invert(fits * terms) / invert(fits)
    assert means[1] == pytest.approx(means[2])
    assert means.sum() == pytest.approx(hypoexponential.truncated_mean(1.0, rates), rel=1e-4)
