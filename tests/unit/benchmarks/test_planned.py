"""Plans of a question: all of them by name, and what they come to, against counting by hand."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.planned import Question, first_runs, relative_error
from benchmarks.stores import SYNTHETIC
from chronicle import open_store
from costmodel.selection import Strategy
from tests.unit.benchmarks.conftest import BLOCK_EVENTS, N_EVENTS

GAPPED = f"""
SELECT * FROM {SYNTHETIC} MATCH_RECOGNIZE (
  ORDER BY t MEASURES A.t AS a, B.t AS b
  PATTERN ( A Z* B ) WITHIN 300
  DEFINE A AS A.A5 < 0.002, B AS B.A5 >= 0.5 AND B.A5 < 0.502
)"""

SHARED = f"""
SELECT * FROM {SYNTHETIC} MATCH_RECOGNIZE (
  ORDER BY t MEASURES A.t AS a
  PATTERN ( A Z* B Z* C ) WITHIN 300
  DEFINE A AS A.A5 < 0.2, B AS B.A5 < 0.2, C AS C.A4 < 0.3
)"""


@pytest.fixture
def store(stores):
    return open_store(stores / f"store-synthetic-{N_EVENTS}")


def test_all_plans_are_the_sets_of_lookups_the_tree_first(store):
    plans = Question(store, GAPPED).all_plans()
    assert plans == ["tree", "indexes=B.A5", "indexes=A.A5", "indexes=A.A5,B.A5"]


def test_conditions_of_one_lookup_are_one_choice_unless_told_apart(store):
    question = Question(store, SHARED)
    assert len(question.all_plans()) == 4
    assert len(question.all_plans(by_lookup=False)) == 8


def test_work_is_what_counting_by_hand_gives(store):
    question = Question(store, GAPPED)
    table = question.snapshot.read_blocks(np.arange(question.snapshot.n_blocks), ["t", "A5"])
    t, x = table["t"].to_numpy(), table["A5"].to_numpy()
    at_a, at_b = t[x < 0.002], t[(x >= 0.5) & (x < 0.502)]
    covered, candidates = np.zeros(N_EVENTS + 2, dtype=bool), 0
    for a in at_a:
        within = at_b[(at_b > a) & (at_b <= a + 300)]
        candidates += len(within) > 0
        if len(within):
            covered[a : within.max() + 1] = True
    touched = sorted({(event - 1) // BLOCK_EVENTS for event in np.flatnonzero(covered)})
    # Up to two blocks between touched ones are read through.
    gaps = [after - before - 1 for before, after in pairwise(touched)]
    n_blocks = len(touched) + sum(gap for gap in gaps if gap <= 2)
    work = question.work("indexes=A.A5,B.A5", with_alpha=True)
    assert candidates > 5
    assert any(gap > 2 for gap in gaps)
    assert any(0 < gap <= 2 for gap in gaps)
    assert (work.blocks, work.candidates) == (n_blocks, candidates)
    assert work.alpha == pytest.approx(covered.sum() / N_EVENTS, rel=1e-12)


def test_without_the_map_rates_are_even_over_the_whole_stream(store):
    question = Question(store, SHARED)
    even, mapped = question.uniform_features, question.features
    assert even is not None
    assert mapped is not None
    assert even.segment_events.tolist() == [N_EVENTS]
    assert even.window_events == pytest.approx(301.0)
    # A4 follows time with a spread of 0.1, so the map leaves about the first half.
    assert mapped.remaining_events < 0.8 * N_EVENTS


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_names_a_plan_that_gives_the_full_answer(store, strategy):
    question = Question(store, GAPPED, strategy.value)
    assert question.features is not None
    plan, _ = question.select(strategy, question.features)
    runs = first_runs(question, [plan])
    assert len(runs["full"][0]) > 0
    if strategy is Strategy.ALL:
        assert plan == "indexes=A.A5,B.A5"


def test_a_plan_with_another_answer_ends_the_benchmark(store, monkeypatch):
    question = Question(store, GAPPED, "broken")
    right, wrong = question.run("full"), question.run("full")
    wrong.table = wrong.table.slice(1)
    monkeypatch.setattr(question, "run", lambda plan: right if plan == "full" else wrong)
    with pytest.raises(SystemExit, match="broken: plan tree differs"):
        first_runs(question, ["tree"])


def test_printed_blocks_are_the_printed_share_of_all_blocks(store):
    # Both ends are chosen, so (S2): N = 20,000 phi (1 - exp(-300 phi)) candidates as long as the
    # mean of an exponential cut off at 300, and alpha = 1 - (1 - length / 20,000)^N.
    question = Question(store, GAPPED)
    assert question.uniform_features is not None
    phi_a, phi_b = question.uniform_features.density[0]
    fits = 1 - np.exp(-300 * phi_b)
    length = 1 / phi_b - 300 * np.exp(-300 * phi_b) / fits
    alpha = 1 - (1 - length / N_EVENTS) ** (N_EVENTS * phi_a * fits)
    printed = question.printed_blocks("indexes=A.A5,B.A5")
    assert printed == pytest.approx(alpha * question.statistics.n_blocks, rel=0.02)
    assert question.printed_blocks("tree") is None


def test_relative_error_is_the_thesis_one_and_unknown_without_a_truth():
    assert relative_error(12.0, 10.0) == pytest.approx(0.2)
    assert relative_error(0.0, 10.0) == 1.0
    assert relative_error(3.0, 0.0) is None
