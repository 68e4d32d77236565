"""Weights from measured operations: exact systems, noise, outliers, and what was not measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.calibration import (
    UNITS,
    WEIGHTS,
    fit_weights,
    units_of_work,
)
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters

TRUE = CostParameters(
    block_s=40e-6,
    value_s=5e-9,
    predicate_s=2e-9,
    match_s=4e-9,
    entry_s=20e-9,
    sort_s=5e-10,
    seek_s=90e-6,
)

NEAR = CostParameters(
    block_s=15e-6,
    value_s=8e-9,
    predicate_s=1e-9,
    match_s=3e-9,
    entry_s=8e-9,
    sort_s=2e-10,
    seek_s=30e-6,
)
"""Defaults a few times off the truth, whatever those are that planning has."""

MEASURED_HERE = (
    "block_s", "value_s", "predicate_s", "match_s", "entry_s", "sort_s", "seek_s",
)  # fmt: skip


def weights_of(parameters: CostParameters) -> np.ndarray:
    return np.array([getattr(parameters, name) for name in WEIGHTS])


def some_operations(n: int, seed: int = 1) -> np.ndarray:
    """Work of replays and lookups, sizes spread evenly over three decades."""
    random = np.random.default_rng(seed)
    rows = []
    places = [WEIGHTS.index(name) for name in MEASURED_HERE]
    for index in range(n):
        size = 10 ** random.uniform(0.5, 3.5)
        if index % 3:
            events = size * random.choice([200, 2000])
            columns, predicates, steps = random.integers(1, 6), random.integers(1, 6), None
            steps = events * (1 + random.choice([0.0, 3.0, 20.0]))
            jumps = random.choice([1, size / 2])
            rows.append([size, events * columns, events * predicates, steps, 0, 0, jumps])
        else:
            entries = size * 300
            rows.append([0, 0, 0, 0, entries, entries * np.log2(entries), random.integers(1, 4)])
    units = np.zeros((n, len(WEIGHTS)))
    units[:, places] = rows
    return units


def test_no_weight_that_noise_makes_negative_stays_below_its_least_share() -> None:
    # Twice the blocks take half the time: freely, a block would give time back.
    units = np.zeros((4, len(WEIGHTS)))
    units[:, 0] = [1e5, 2e5, 4e5, 8e5]
    fit = fit_weights(units, np.array([12.0, 6.0, 3.0, 1.5]))
    assert fit.parameters.block_s == pytest.approx(0.3 * DEFAULT_PARAMETERS.block_s)


def test_units_are_the_factors_of_the_weights() -> None:
    def cost(weights: CostParameters) -> float:
        return 3 * weights.block_s + 5 * weights.sort_s + 7 * (weights.seek_s + weights.block_s)

    units = dict(zip(WEIGHTS, units_of_work(cost).tolist(), strict=True))
    assert units.pop("block_s") == 10
    assert units.pop("sort_s") == 5
    assert units.pop("seek_s") == 7
    assert set(units.values()) == {0}
    assert set(UNITS) == set(WEIGHTS)


def test_exact_times_give_the_weights_they_were_made_of() -> None:
    units = some_operations(2000)  # so many that the defaults hardly count
    fit = fit_weights(units, units @ weights_of(TRUE) + 0.0004, defaults=NEAR)
    found, wanted = fit.parameters, TRUE
    for name in ("block_s", "value_s", "predicate_s", "match_s", "seek_s"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=0.1), name
    # n and n log n are nearly alike: what they cost together is what is known.
    for n in (1e4, 1e5, 1e6):
        costs = [w.entry_s * n + w.sort_s * n * np.log2(n) for w in (found, wanted)]
        assert costs[0] == pytest.approx(costs[1], rel=0.1)
    assert fit.overhead_s == pytest.approx(0.0004, rel=0.05)
    assert fit.r2 > 0.999
    assert fit.median_error < 0.01
    assert fit.fitted == MEASURED_HERE


def test_two_noisy_runs_give_nearly_the_same_costs() -> None:
    units = some_operations(120)
    seconds = units @ weights_of(TRUE)
    costs = []
    for seed in (1, 2):
        noise = np.random.default_rng(seed).lognormal(0, 0.1, len(seconds))
        costs.append(units @ weights_of(fit_weights(units, seconds * noise).parameters))
    assert np.abs(costs[0] / costs[1] - 1).max() < 0.15
    assert np.abs(costs[0] / seconds - 1).max() < 0.15


@pytest.mark.parametrize(
    ("every", "factor"),
    [
        pytest.param(4, 5.0, id="disturbed"),
        pytest.param(10, 0.2, id="they did less than they said"),
    ],
)
def test_operations_that_are_far_off_hardly_count(every: int, factor: float) -> None:
    units = some_operations(120)
    seconds = units @ weights_of(TRUE)
    off = seconds.copy()
    off[::every] *= factor
    calm, rough = fit_weights(units, seconds), fit_weights(units, off)
    changed = units @ weights_of(rough.parameters) / (units @ weights_of(calm.parameters))
    assert np.median(np.abs(changed - 1)) < 0.05


def test_work_that_was_not_measured_keeps_its_default() -> None:
    units = some_operations(900)
    replays = units[units[:, 0] > 0]
    fit = fit_weights(replays, replays @ weights_of(TRUE), defaults=NEAR)
    assert fit.parameters.entry_s == NEAR.entry_s
    assert fit.parameters.sort_s == NEAR.sort_s
    assert set(MEASURED_HERE) - set(fit.fitted) == {"entry_s", "sort_s"}
    assert fit.parameters.value_s == pytest.approx(TRUE.value_s, rel=0.1)


def test_what_measurements_leave_open_is_drawn_to_the_defaults() -> None:
    # Blocks and values always come together: only their sum is known, 2 s a block.
    units = np.zeros((6, len(WEIGHTS)))
    units[:, 0] = units[:, 1] = [1, 2, 4, 8, 16, 32]
    defaults = replace(DEFAULT_PARAMETERS, block_s=1.5, value_s=0.5)
    fit = fit_weights(units, 2 * units[:, 0], defaults=defaults)
    assert fit.parameters.block_s == pytest.approx(1.5, rel=1e-6)
    assert fit.parameters.value_s == pytest.approx(0.5, rel=1e-6)


def test_work_that_seems_free_keeps_three_tenths_of_its_default() -> None:
    units = some_operations(2000)
    fit = fit_weights(units, units @ weights_of(replace(TRUE, seek_s=0.0, predicate_s=0.0)))
    assert fit.parameters.seek_s == pytest.approx(0.3 * DEFAULT_PARAMETERS.seek_s, rel=0.2)
    assert (weights_of(fit.parameters) >= 0.2999 * weights_of(DEFAULT_PARAMETERS)).all()


def test_one_operation_is_enough_and_is_met() -> None:
    units = np.zeros((1, len(WEIGHTS)))
    units[0, 0] = 100
    fit = fit_weights(units, np.array([0.01]))
    assert fit.estimated[0] == pytest.approx(0.01, rel=0.1)
    assert fit.parameters.value_s == DEFAULT_PARAMETERS.value_s


@pytest.mark.parametrize(
    ("units", "seconds", "said"),
    [
        pytest.param(np.zeros((0, len(WEIGHTS))), np.zeros(0), "no operation", id="nothing"),
        pytest.param(np.ones((2, 3)), np.ones(2), "shape", id="columns"),
        pytest.param(np.ones((1, len(WEIGHTS))), np.zeros(1), "positive", id="no time"),
        pytest.param(np.ones((1, len(WEIGHTS))), np.array([np.nan]), "positive", id="NaN"),
        pytest.param(-np.ones((1, len(WEIGHTS))), np.ones(1), "negative", id="negative work"),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    units: np.ndarray, seconds: np.ndarray, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        fit_weights(units, seconds)
