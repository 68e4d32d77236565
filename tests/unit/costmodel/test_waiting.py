"""Sums of waiting times on the contour against the hypoexponential distribution."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.thesis import hypoexponential
from costmodel.waiting import POINTS, invert


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
