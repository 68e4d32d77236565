"""Hypoexponential distribution against 40-digit values, its laws, and simulation.

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
from costmodel.thesis.hypoexponential import cdf, mean, sf, truncated_mean, variance

REFERENCE = json.loads(
    (Path(__file__).parent / "hypoexponential_reference.json").read_text(encoding="utf-8")
)
CASES = [
    pytest.param(case, id=f"{case['regime']}-{len(case['rates'])}") for case in REFERENCE["cases"]
]
FUNCTIONS = [cdf, sf, truncated_mean]

# What is promised is 1e-10; what rounding leaves is below 1e-13, and a test that allowed more
# would not see a digit lost.
ACCURACY = 1e-12


def rates_of(n_max: int, *, decades: float = 5.0) -> st.SearchStrategy[list[float]]:
    """Return sets of rates: spread over decades, some equal, some nearly so."""
    rate = st.floats(-decades, decades).map(lambda e: 10.0**e)
    close = st.tuples(rate, st.lists(st.floats(-1e-9, 1e-9), min_size=1, max_size=n_max)).map(
        lambda pair: [pair[0] * (1 + part) for part in pair[1]]
    )
    few = st.lists(rate, min_size=1, max_size=3).flatmap(
        lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=n_max)
    )
    return st.lists(rate, min_size=1, max_size=n_max) | close | few


PARTS = st.floats(-6, 2).map(lambda e: 10.0**e)
"""Times as multiples of the mean: both tails and the middle."""


def erlang_sf(n: int, z: float) -> float:
    """Return the probability that n stages of one rate are not over: fewer than n arrivals."""
    return math.exp(-z) * math.fsum(z**k / math.factorial(k) for k in range(n))


# --- against reference values ---------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_forty_digits_in_both_tails(case, function):
    x = np.array([point["x"] for point in case["points"]])
    expected = np.array([point[function.__name__] for point in case["points"]])
    np.testing.assert_allclose(function(x, case["rates"]), expected, rtol=ACCURACY, atol=0)
    one_by_one = [function(time, case["rates"]) for time in x.tolist()]
    np.testing.assert_allclose(one_by_one, expected, rtol=ACCURACY, atol=0)


def test_reference_covers_sizes_regimes_and_tails():
    sizes = {len(case["rates"]) for case in REFERENCE["cases"]}
    regimes = {case["regime"] for case in REFERENCE["cases"]}
    assert sizes == {1, 2, 3, 8, 32, 64}
    assert len(regimes) == 6
    for case in REFERENCE["cases"]:
        assert min(point["cdf"] for point in case["points"]) < 1e-200
        assert min(point["sf"] for point in case["points"]) < 1e-200


# --- laws -----------------------------------------------------------------------------------------


@given(rates_of(64), PARTS)
def test_cdf_and_sf_add_up_to_one(rates, part):
    x = part * mean(rates)
    assert cdf(x, rates) + sf(x, rates) == pytest.approx(1.0, rel=0, abs=1e-12)


@given(rates_of(12), PARTS, st.floats(1.0, 3.0))
def test_monotone_in_x(rates, part, factor):
    x = np.array([1.0, factor]) * part * mean(rates)
    low, high = cdf(x, rates)
    assert low <= high * (1 + ACCURACY)
    early, late = sf(x, rates)
    assert late <= early * (1 + ACCURACY)
    short, long = truncated_mean(x, rates)
    assert short <= long * (1 + ACCURACY)


@given(rates_of(12), PARTS, st.randoms(use_true_random=False))
def test_order_of_rates_changes_no_bit(rates, part, random):
    x = part * mean(rates)
    shuffled = random.sample(rates, len(rates))
    for function in FUNCTIONS:
        assert function(x, shuffled) == function(x, rates)


@given(rates_of(12), st.floats(-5, 5), PARTS)
def test_one_stage_more_lasts_longer(rates, exponent, part):
    x = part * mean(rates)
    longer = [*rates, 10.0**exponent]
    assert cdf(x, longer) <= cdf(x, rates) * (1 + ACCURACY)
    assert sf(x, longer) >= sf(x, rates) * (1 - ACCURACY)


@given(rates_of(12), PARTS)
def test_stage_of_no_length_changes_nothing(rates, part):
    x = part * mean(rates)
    instant = [*rates, 1e30 * max(rates) / min(part, 1.0)]
    for function in FUNCTIONS:
        assert function(x, instant) == pytest.approx(function(x, rates), rel=ACCURACY, abs=0)


@given(rates_of(12), PARTS, st.floats(-100, 100))
def test_unit_of_time_does_not_matter(rates, part, exponent):
    unit = 10.0**exponent
    x = part * mean(rates)
    scaled = [rate / unit for rate in rates]
    # Tails of the scaled rates differ by what rounding the rates does: up to 700 roundings.
    assert cdf(x * unit, scaled) == pytest.approx(cdf(x, rates), rel=1e-11, abs=1e-300)
    assert sf(x * unit, scaled) == pytest.approx(sf(x, rates), rel=1e-11, abs=1e-300)
    assert truncated_mean(x * unit, scaled) / unit == pytest.approx(
        truncated_mean(x, rates), rel=1e-11
    )


@given(st.integers(1, 64), st.floats(0.01, 3.0), st.randoms(use_true_random=False))
def test_nearly_equal_rates_tend_to_erlang(n, part, random):
    z = part * n
    close = [2.0 * (1 + 1e-9 * random.uniform(-1, 1)) for _ in range(n)]
    # Each rate moves log sf by at most z / n, and log cdf by at most 1, times 1e-9.
    assert sf(z / 2.0, close) == pytest.approx(erlang_sf(n, z), rel=(z + n) * 1e-9)
    assert cdf(z / 2.0, close) == pytest.approx(cdf(z / 2.0, [2.0] * n), rel=n * 1e-9, abs=0)


@given(st.floats(-290, 2.8).map(lambda e: 10.0**e), st.floats(-5, 5).map(lambda e: 10.0**e))
def test_one_stage_is_the_exponential(z, rate):
    x = z / rate
    assert cdf(x, [rate]) == pytest.approx(-math.expm1(-rate * x), rel=ACCURACY, abs=0)
    assert sf(x, [rate]) == pytest.approx(math.exp(-rate * x), rel=ACCURACY, abs=0)
    # The mean below x is 1/rate - x / (e**z - 1), which cancels for small z; there it is x / 2.
    z = rate * x
    exact = (1 - z / math.expm1(z)) / rate if z > 0.1 else x * (0.5 - z / 12 + z**3 / 720)
    assert truncated_mean(x, [rate]) == pytest.approx(exact, rel=1e-9, abs=0)


@given(
    st.lists(st.floats(-300, 300).map(lambda e: 10.0**e), min_size=1, max_size=64),
    st.floats(5e-324, 1.7e308) | st.floats(-323, 308).map(lambda e: 10.0**e),
)
def test_any_rates_and_times_give_probabilities(rates, x):
    low, high = cdf(x, rates), sf(x, rates)
    assert 0.0 <= low <= 1.0
    assert 0.0 <= high <= 1.0
    assert low + high == pytest.approx(1.0, rel=0, abs=1e-12)


def test_rounding_passes_one_nowhere():
    random = np.random.default_rng(3)
    parts = np.geomspace(1e-17, 1e3, 60)
    for _ in range(100):
        rates = 10 ** random.uniform(-2, 2, random.integers(1, 9))
        for function in (cdf, sf):
            assert function(parts * mean(rates), rates).max() <= 1.0


# --- simulation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param([3.0], id="one"),
        pytest.param([1.0, 1.0, 1.0], id="equal"),
        pytest.param([0.01, 0.5, 2.0, 40.0], id="spread"),
        pytest.param([0.7 + 0.01 * i for i in range(20)], id="twenty"),
    ],
)
def test_agrees_with_simulation(rates):
    n = 200_000
    random = np.random.default_rng(7)
    sums = sum(random.exponential(1.0 / rate, n) for rate in rates)
    for part in (0.3, 0.8, 1.0, 1.5, 3.0, 6.0):
        x = part * mean(rates)
        below = sums[sums <= x]
        expected = cdf(x, rates)
        sigma = math.sqrt(expected * (1 - expected) / n)
        assert len(below) / n == pytest.approx(expected, rel=0, abs=4 * sigma)
        if len(below) > 1000:
            sigma = below.std() / math.sqrt(len(below))
            assert below.mean() == pytest.approx(truncated_mean(x, rates), rel=0, abs=4 * sigma)
    assert sums.mean() == pytest.approx(mean(rates), rel=0, abs=4 * sums.std() / math.sqrt(n))
    # The variance of a sample variance is (fourth central moment - variance**2) / n.
    fourth = np.mean((sums - sums.mean()) ** 4)
    sigma = math.sqrt((fourth - sums.var() ** 2) / n)
    assert sums.var() == pytest.approx(variance(rates), rel=0, abs=4 * sigma)


# --- borders and shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        pytest.param(-1.0, (0.0, 1.0, math.nan), id="negative"),
        pytest.param(-math.inf, (0.0, 1.0, math.nan), id="minus-infinity"),
        pytest.param(0.0, (0.0, 1.0, 0.0), id="zero"),
        pytest.param(-0.0, (0.0, 1.0, 0.0), id="minus-zero"),
        pytest.param(math.inf, (1.0, 0.0, 1.5), id="infinity"),
        pytest.param(math.nan, (math.nan,) * 3, id="nan"),
    ],
)
def test_ends_of_the_line(x, expected):
    for function, value in zip(FUNCTIONS, expected, strict=True):
        np.testing.assert_equal(function(x, [1.0, 2.0]), value)
        np.testing.assert_equal(function(np.array([x, 0.5]), [1.0, 2.0])[0], value)


def test_beyond_all_decay_everything_is_below():
    rates = [1e-3, 1.0, 1e9]
    times = np.array([2e6, 1e12, 1e300])
    for x in (times, *times.tolist()):
        assert np.all(sf(x, rates) == 0.0)
        assert cdf(x, rates) == pytest.approx(1.0 + 0 * x, rel=ACCURACY)
        assert truncated_mean(x, rates) == pytest.approx(mean(rates) + 0 * x, rel=ACCURACY)


def test_sum_of_nothing_is_zero():
    x = np.array([-1.0, 0.0, 2.0, math.inf, math.nan])
    np.testing.assert_equal(cdf(x, []), [0.0, 1.0, 1.0, 1.0, math.nan])
    np.testing.assert_equal(sf(x, []), [1.0, 0.0, 0.0, 0.0, math.nan])
    np.testing.assert_equal(truncated_mean(x, []), [math.nan, 0.0, 0.0, 0.0, math.nan])
    np.testing.assert_equal([cdf(time, []) for time in x.tolist()], cdf(x, []))
    np.testing.assert_equal([sf(time, []) for time in x.tolist()], sf(x, []))
    assert mean([]) == variance([]) == 0.0


@pytest.mark.parametrize("function", FUNCTIONS)
def test_result_has_the_shape_of_x(function):
    x = np.linspace(0.1, 9.0, 24).reshape(2, 3, 4)
    result = function(x, [1.0, 2.0])
    assert result.shape == x.shape
    # One common number of squarings for all of x, so rounding may differ from one x alone.
    assert result[1, 2, 0] == pytest.approx(function(float(x[1, 2, 0]), [1.0, 2.0]), rel=1e-14)
    assert function(np.zeros((0, 3)), [1.0]).shape == (0, 3)
    assert type(function(2, np.array([1, 2]))) is float
    assert type(function(np.float64(2), (1.0,))) is float
    assert type(function(np.array(2.0), [1.0])) is float


def test_array_larger_than_what_is_held_at_once():
    rates = [0.1 * (i + 1) for i in range(64)]
    x = np.linspace(0.0, 3 * mean(rates), 101)
    assert len(x) * len(rates) ** 2 > 2 * hypoexponential._MATRIX_ELEMENTS_MAX
    for function in FUNCTIONS:
        expected = [function(time, rates) for time in x.tolist()]
        np.testing.assert_allclose(function(x, rates), expected, rtol=ACCURACY, atol=0)


def test_arguments_stay_as_they_were():
    x, rates = np.array([2.0, math.nan, 1e9]), np.array([3.0, 1.0])
    for function in FUNCTIONS:
        function(x, rates)
    np.testing.assert_equal(x, [2.0, math.nan, 1e9])
    np.testing.assert_equal(rates, [3.0, 1.0])


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        pytest.param([1.0, 0.0], r"rates\[1\] is 0\.0", id="zero"),
        pytest.param([-2.0], r"rates\[0\] is -2\.0", id="negative"),
        pytest.param([1.0, 2.0, math.inf], r"rates\[2\] is inf", id="infinite"),
        pytest.param([math.nan, 1.0], r"rates\[0\] is nan", id="nan"),
        pytest.param([1.0] * 65, "65 stages", id="too-many"),
        pytest.param([[1.0]], r"shape \(1, 1\)", id="matrix"),
        pytest.param(1.0, r"shape \(\)", id="scalar"),
    ],
)
def test_bad_rates_are_named(rates, message):
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match=message):
            function(1.0, rates)
    for moment in (mean, variance):
        with pytest.raises(ValueError, match=message):
            moment(rates)


def test_mean_and_variance_add_up_over_stages():
    assert mean([0.5, 4.0]) == 2.25
    assert variance([0.5, 4.0]) == 4.0625
