"""Coverage estimates against simulation: independent symbols spread evenly over a stream."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.coverage import estimate_coverage
from costmodel.features import PlanFeatures

N, BLOCK = 200_000, 100


def features(
    *,
    density: list[float],
    window: float,
    selected: list[list[bool]],
    lengths: tuple[int, ...] = (1, 1),
    starts_exact: bool = True,
    ends_exact: bool = True,
    remaining: int = N,
) -> PlanFeatures:
    n = len(density)
    return PlanFeatures(
        n_events=N,
        n_blocks=N // BLOCK,
        n_columns=1,
        remaining_events=remaining,
        remaining_blocks=remaining // BLOCK,
        remaining_stretches=1,
        window_events=window,
        block_lengths=np.array(lengths),
        starts_exact=starts_exact,
        ends_exact=ends_exact,
        basic_block=np.arange(n),
        density=np.array(density),
        lookup=np.arange(n),
        lookup_entries=np.array(density) * N,
        selected=np.array(selected, dtype=bool),
    )


def simulate(density: list[float], window: int, *, seed: int) -> tuple[float, float]:
    """Return the share of events and of blocks covered by ``A Z* B`` with both looked up."""
    random = np.random.default_rng(seed)
    a = np.flatnonzero(random.random(N) < density[0])
    b = np.flatnonzero(random.random(N) < density[1])
    steps = np.zeros(N + 1, dtype=np.int64)
    latest = np.searchsorted(b, a + window, side="right") - 1
    has_end = (latest >= 0) & (b[np.maximum(latest, 0)] > a)
    np.add.at(steps, a[has_end], 1)
    np.add.at(steps, b[latest[has_end]] + 1, -1)
    covered = np.cumsum(steps[:-1]) > 0
    return float(covered.mean()), float(covered.reshape(-1, BLOCK).any(axis=1).mean())


@pytest.mark.parametrize(
    ("density", "window"),
    [
        pytest.param([0.001, 0.05], 300, id="rare-first"),
        pytest.param([0.05, 0.001], 300, id="rare-last"),
        pytest.param([0.0005, 0.0005], 300, id="both-rare"),
        pytest.param([0.0001, 0.01], 50, id="short-window"),
    ],
)
def test_coverage_of_two_blocks_agrees_with_simulation(density, window):
    estimated = estimate_coverage(features(density=density, window=window, selected=[[True, True]]))
    share, blocks = np.mean([simulate(density, window, seed=seed) for seed in range(5)], axis=0)
    assert estimated.share[0] == pytest.approx(share, rel=0.25)
    assert estimated.blocks[0] / (N // BLOCK) == pytest.approx(blocks, rel=0.25)


def test_rarest_first_finds_the_coverage_the_printed_formula_misses():
    # docs/planning.md: starting from the first symbol gives alpha 0.02 for a true 0.24.
    estimated = estimate_coverage(
        features(density=[0.05, 0.001], window=300, selected=[[True, True]])
    )
    assert 0.2 < estimated.share[0] < 0.3


def test_single_block_is_covered_for_two_windows_where_no_end_is_fixed():
    open_both = features(
        density=[1e-5],
        window=300,
        selected=[[True]],
        lengths=(1,),
        starts_exact=False,
        ends_exact=False,
    )
    open_end = features(
        density=[1e-5], window=300, selected=[[True]], lengths=(1,), ends_exact=False
    )
    fixed = features(density=[1e-5], window=300, selected=[[True]], lengths=(4,))
    assert estimate_coverage(open_both).length[0] == pytest.approx(601)
    assert estimate_coverage(open_end).length[0] == pytest.approx(301)
    assert estimate_coverage(fixed).length[0] == pytest.approx(4)


def test_two_far_candidates_touch_two_blocks_each():
    # An interval of one block's length lies across two blocks, on average.
    one = features(density=[2 / N], window=0, selected=[[True]], lengths=(BLOCK,))
    assert estimate_coverage(one).blocks[0] == pytest.approx(4, rel=0.01)


def test_plan_that_selects_nothing_covers_all_that_remains():
    none = features(density=[0.1, 0.1], window=9, selected=[[False, False]], remaining=N // 2)
    coverage = estimate_coverage(none)
    assert coverage.share[0] == 1
    assert coverage.blocks[0] == N // BLOCK // 2
    assert coverage.stretches[0] == 1


@pytest.mark.parametrize("window", [0.0, 1.0, 1e9, np.inf])
@pytest.mark.parametrize("density", [0.0, 1e-12, 1e-6, 0.5, 1.0])
def test_estimates_are_finite_and_in_range(density, window):
    both = [[False, False], [True, False], [False, True], [True, True]]
    coverage = estimate_coverage(features(density=[density, 0.3], window=window, selected=both))
    assert np.all((coverage.share >= 0) & (coverage.share <= 1))
    assert np.all((coverage.blocks >= 0) & (coverage.blocks <= N // BLOCK))
    assert np.all((coverage.candidates >= 0) & np.isfinite(coverage.length))
    assert np.all(coverage.stretches >= 0)


def test_more_conditions_never_add_candidates():
    plans = [[True, False], [False, True], [True, True]]
    coverage = estimate_coverage(features(density=[0.01, 0.2], window=40, selected=plans))
    assert coverage.candidates[2] <= coverage.candidates[:2].min()
