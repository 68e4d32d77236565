"""What the thesis prints against simulation, and its strategies against exhaustive search."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import CostParameters, PlanFeatures, estimate
from costmodel.thesis.formulas import (
    printed_break_even,
    printed_index,
    printed_replay,
    thesis_alpha,
    thesis_coverage,
)
from costmodel.thesis.selection import Strategy, select
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


PARAMETERS = st.sampled_from(
    [
        CostParameters(),
        CostParameters(entry_s=1e-9),
        CostParameters(entry_s=1e-10, sort_s=0.0, seek_s=1e-6),
        CostParameters(entry_s=1e-7),
    ]
)


@st.composite
def queries(draw: st.DrawFn, least: int, most: int) -> PlanFeatures:
    """Return features as the thesis' queries have them, over one to three segments."""
    n = draw(st.integers(least, most))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_segments = draw(st.integers(1, 3))
    gaps = random.random(n - 1) < draw(st.sampled_from([0.0, 0.3, 0.6, 1.0]))
    density = random.uniform(0, 0.1, n) * 10 ** random.normal(0, 0.4, (n_segments, n))
    lookups = np.arange(n)
    if draw(st.booleans()):  # some conditions agree in what they look up
        again = random.integers(0, n, 2)
        lookups[again[0]] = lookups[again[1]]
        density[:, again[0]] = density[:, again[1]]
        lookups = np.unique(lookups, return_inverse=True)[1]
    return features(
        density=np.minimum(density, 1.0).tolist(),
        window=300,
        basic_block=np.concatenate(([0], np.cumsum(gaps))).astype(int).tolist(),
        lookup=lookups.tolist(),
        starts_exact=draw(st.booleans()),
        ends_exact=draw(st.booleans()),
        n_events=6_000_000,
        events_per_block=2000,
        bridge_blocks=2,
    )


def cost_of(given_features: PlanFeatures, chosen, parameters: CostParameters) -> float:
    return float(estimate(given_features, chosen[None], parameters).cost[0])


@settings(deadline=None, max_examples=60)
@given(queries(1, 10), PARAMETERS)
def test_optimal_equals_exhaustive_search_up_to_ten_lookups(query, parameters):
    optimal = select(query, parameters)
    exhaustive = select(query, parameters, Strategy.EXHAUSTIVE)
    assert optimal.cost == pytest.approx(exhaustive.cost, rel=1e-12)
    assert exhaustive.n_examined == 2 ** len(query.lookup_entries)
    assert cost_of(query, optimal.chosen, parameters) == pytest.approx(optimal.cost, rel=1e-9)


@settings(deadline=None, max_examples=10, derandomize=True)
@given(queries(12, 14), PARAMETERS)
def test_optimal_is_within_a_twentieth_of_exhaustive_search_above(query, parameters):
    # Always the same queries: it is a heuristic, and of thousands drawn one is 8 % dearer.
    optimal = select(query, parameters)
    exhaustive = select(query, parameters, Strategy.EXHAUSTIVE)
    assert exhaustive.cost * (1 - 1e-12) <= optimal.cost <= 1.05 * exhaustive.cost
    assert optimal.n_examined < exhaustive.n_examined / 4


@settings(deadline=None, max_examples=40)
@given(queries(1, 14), PARAMETERS, st.sampled_from(list(Strategy)))
def test_every_strategy_says_the_cost_of_what_it_selects(query, parameters, strategy):
    if strategy is Strategy.EXHAUSTIVE and len(query.lookup_entries) > 10:
        return
    selection = select(query, parameters, strategy)
    assert cost_of(query, selection.chosen, parameters) == pytest.approx(selection.cost, rel=1e-9)
    for lookup in range(len(query.lookup_entries)):
        assert len(set(selection.chosen[query.lookup == lookup].tolist())) == 1
    assert selection.cost >= select(query, parameters).cost * (1 - 1e-9) or len(query.lookup) > 10


def neighbours() -> PlanFeatures:
    """Return features of Z* A Z* C D in a pattern that begins with something unknown.

    As in the thesis' example (3.4.3, "Selection Strategy") A is the rarest, but occurs in nearly
    every window, whereas C and D next to each other are rare.
    """
    given_features = features(
        density=[0.0038, 0.004, 0.006],
        window=2000,
        basic_block=[1, 2, 2],
        n_events=10_000_000,
        events_per_block=100,
    )
    return dataclasses.replace(given_features, block_lengths=np.array([1, 1, 2]))


FREE_ENTRIES = CostParameters(entry_s=1e-10, sort_s=0.0)


def test_optimal_takes_the_neighbours_where_greedy_takes_the_rarest_too():
    optimal = select(neighbours(), CostParameters(entry_s=1e-7))
    assert optimal.chosen.tolist() == [False, True, True]
    greedy = select(neighbours(), CostParameters(entry_s=1e-7), Strategy.GREEDY)
    assert greedy.chosen.tolist() == [True, True, True]
    assert greedy.cost > optimal.cost
    assert greedy.n_examined == 3


def test_budget_stops_at_the_first_lookup_that_saves_nothing():
    # A saves nothing beside C, so D, which would, is never tried.
    query = features(
        density=[0.03, 0.02, 0.04],
        window=300,
        basic_block=[0, 1, 1],
        n_events=10_000_000,
        events_per_block=100,
    )
    budget = select(query, FREE_ENTRIES, Strategy.BUDGET)
    assert budget.chosen.tolist() == [False, True, False]
    assert budget.n_examined == 2
    assert select(query, FREE_ENTRIES).chosen[1:].tolist() == [True, True]


def test_pareto_never_beats_exhaustive_search_and_sometimes_loses():
    random = np.random.default_rng(8)
    ratios = []
    weights = CostParameters(value_s=8e-9, entry_s=8e-9)  # replays dear enough for many lookups
    for _ in range(60):
        rates = random.uniform(0, 0.1, (2, 8)) * 10 ** random.normal(0, 1, (2, 8))
        query = features(
            density=np.minimum(rates, 1.0).tolist(),
            window=300,
            basic_block=[0, 0, 1, 1, 2, 2, 3, 3],
            n_events=10_000_000,
            events_per_block=2000,
        )
        best = select(query, weights, Strategy.EXHAUSTIVE).cost
        ratios.append(select(query, weights, Strategy.PARETO).cost / best)
    assert min(ratios) >= 1 - 1e-12
    assert max(ratios) > 1.01


def test_exhaustive_search_has_a_limit():
    query = features(density=[0.01] * 21, window=9)
    with pytest.raises(ValueError, match="21 lookups have too many sets"):
        select(query, CostParameters(), Strategy.EXHAUSTIVE)


def test_blocks_that_are_rare_only_together_are_found():
    # Most of these blocks occur in every window, so few of them save nothing; all do, where what
    # is replayed is dear.
    percent = (
        0.84, 11.45, 6.26, 11.13, 11.25, 2.77, 18.85, 0.75, 1.13, 5.38, 5.51, 2.22, 2.02, 0.75,
    )  # fmt: skip
    query = features(
        density=(np.array(percent) / 100).tolist(),
        window=300,
        lookup=[0, 1, 2, 3, 4, 5, 6, 12, 7, 8, 9, 10, 11, 12],
        starts_exact=False,
        ends_exact=False,
        n_events=6_000_000,
        events_per_block=2000,
        bridge_blocks=2,
    )
    dear = CostParameters(match_s=1e-8)
    exhaustive = select(query, dear, Strategy.EXHAUSTIVE)
    assert exhaustive.chosen.sum() > 7
    assert select(query, dear).cost <= 1.05 * exhaustive.cost


def test_thirty_two_lookups_need_few_estimates():
    random = np.random.default_rng(2)
    query = features(
        density=random.uniform(0, 0.1, 32).tolist(),
        window=300,
        basic_block=np.repeat(np.arange(5), [4, 9, 7, 6, 6]).tolist(),
        n_events=10_000_000,
        events_per_block=2000,
    )
    selection = select(query, CostParameters())
    assert selection.n_examined < 1000
    assert selection.cost <= min(
        select(query, CostParameters(), s).cost for s in (Strategy.PARETO, Strategy.GREEDY)
    )


@pytest.mark.parametrize("strategy", list(Strategy))
def test_without_lookups_only_the_tree_plan_remains(strategy):
    query = dataclasses.replace(
        features(density=[0.5], window=9),
        basic_block=np.zeros(0, dtype=np.int64),
        lookup=np.zeros(0, dtype=np.int64),
        lookup_entries=np.zeros(0),
        density=np.ones((1, 0)),
    )
    selection = select(query, CostParameters(), strategy)
    assert selection.chosen.shape == (0,)
    assert selection.cost == cost_of(query, selection.chosen, CostParameters())
