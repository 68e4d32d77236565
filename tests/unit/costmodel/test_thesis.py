"""The thesis' printed formulas against simulation: where they hold, and where they err."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.thesis.formulas import (
    printed_break_even,
    printed_index,
    printed_replay,
    thesis_alpha,
    thesis_coverage,
)
from tests.unit.costmodel.cases import features, simulate

N = 1_000_000


def simulated_share(density: list[float], window: int, **ends: bool) -> float:
    case = features(density=density, window=window, n_events=N, **ends)
    chosen = [True] * len(density)
    return float(
        np.mean([simulate(case, chosen, np.random.default_rng(seed)).share for seed in range(4)])
    )


@pytest.mark.parametrize(
    "density", [[0.001, 0.05], [0.05, 0.001], [0.01, 0.002, 0.02], [0.004, 0.004, 0.004]]
)
def test_intervals_and_mean_length_agree_with_simulated_candidates(density):
    # (3.6), (3.7): candidates from each occurrence of the first block, next after next.
    window, random = 300, np.random.default_rng(5)
    starts = np.flatnonzero(random.random(N) < density[0])
    ends = starts
    for rate in density[1:]:
        hits = np.append(np.flatnonzero(random.random(N) < rate), (10 * N, 11 * N))
        ends = hits[np.searchsorted(hits, ends, side="right")]
    length = (ends - starts)[ends - starts < window]
    printed = thesis_coverage(density, window, N, starts=True, ends=True)
    assert printed.n_intervals == pytest.approx(len(length), rel=0.06)
    assert printed.mean_length == pytest.approx(length.mean(), rel=0.04)


def test_one_symbol_at_either_end_covers_a_window_each_as_simulated():
    for first in (True, False):
        ends = {"starts_exact": first, "ends_exact": not first}
        printed = thesis_alpha([0.0005], 300, N, starts=first, ends=not first)
        assert printed == pytest.approx(simulated_share([0.0005], 300, **ends), rel=0.05)
        assert printed == pytest.approx(1 - np.exp(-0.0005 * 300), rel=0.01)


def test_printed_formula_misses_the_furthest_end_of_a_common_last_block():
    # A Z* B, w = 300, A on 0.1 % and B on 5 % of events: most intervals run on to the last B.
    assert thesis_alpha([0.001, 0.05], 300, N, starts=True, ends=True) == pytest.approx(
        0.02, abs=0.002
    )
    assert simulated_share([0.001, 0.05], 300) == pytest.approx(0.24, abs=0.015)


def test_printed_formula_counts_candidates_that_share_their_end():
    # The same from the other side, A on 5 % and B on 0.1 %: many As before one B count each.
    assert thesis_alpha([0.05, 0.001], 300, N, starts=True, ends=True) > 0.8
    assert simulated_share([0.05, 0.001], 300) == pytest.approx(0.24, abs=0.015)


def test_printed_base_case_is_shorter_than_the_interval():
    # Interval(c, w) = [end - w, start + w] has 2 w - mu, (3.5) takes 2 (w - mu).
    density = [0.0003, 0.001]
    printed = thesis_coverage(density, 300, N, starts=False, ends=False)
    assert printed.interval_length == pytest.approx(2 * (300 - printed.mean_length))
    actual = simulated_share(density, 300, starts_exact=False, ends_exact=False)
    whole = 1 - np.exp(-printed.n_intervals / N * (600 - printed.mean_length))
    assert whole == pytest.approx(actual, rel=0.12)
    assert printed.alpha < 0.8 * actual


def test_intervals_as_long_as_the_stream_cover_it():
    assert thesis_alpha([0.5], 10 * N, N, starts=True, ends=False) == 1.0
    assert thesis_alpha([0.5, 0.0001], 0.0, N, starts=True, ends=True) == 0.0


def test_no_block_is_an_error():
    with pytest.raises(ValueError, match="no basic block is selected"):
        thesis_alpha([], 300, N, starts=True, ends=True)


def test_printed_costs_are_those_of_the_formula() -> None:
    # L = 5 * 100 / 458 = 1.09, ls = ceil(log_152 1.09) = 1: (4 - 1 - 1) + ceil(1.09) + 0 + 458.
    assert printed_index(5.0, 100.0, per_leaf=458, fan_out=152, height=4) == 2 + 2 + 458
    # L = 0.022: ls = 0 for -0.76, of which the ceiling is 0: 3 + 0 + 0 + L * B = 10 events.
    assert printed_index(0.1, 100.0, per_leaf=458, fan_out=152, height=4) == pytest.approx(3 + 10)
    assert printed_replay(5.0, 100.0) == 500


def test_printed_costs_break_even_at_about_a_leaf() -> None:
    # A slide of one leaf's events merges them all either way; a little more pays for the path.
    slide = printed_break_even(100.0, per_leaf=458, fan_out=152, height=4)
    assert 4.58 < slide < 4.7
