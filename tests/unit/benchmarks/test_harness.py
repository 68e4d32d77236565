"""The measuring itself: rounds, ratios and spreads, and the plans a question is measured under."""

from itertools import pairwise

import numpy as np
import pytest

import replay
from benchmarks.harness import (
    Side,
    Timing,
    forget,
    interleave,
    print_comparison,
    quantiles,
    speedup,
)
from benchmarks.planned import Question, first_runs, relative_error
from benchmarks.stores import SYNTHETIC
from chronicle import Store, open_store
from tests.unit.benchmarks.conftest import BLOCK_EVENTS, N_EVENTS


@pytest.fixture
def store(stores) -> Store:
    return open_store(stores / f"store-synthetic-{N_EVENTS}")


def test_rounds_alternate_after_one_unmeasured_call_of_each_side():
    called: list[str] = []
    sides = [Side(name, lambda name=name: called.append(name)) for name in ("a", "b")]
    timings = interleave(sides, rounds=3, calls=2)
    assert "".join(called) == "ab" + 3 * "aabb"
    assert [timing.name for timing in timings] == ["a", "b"]
    assert all(len(timing.rounds_s) == 3 for timing in timings)


def test_what_comes_before_a_measurement_comes_once_for_each():
    called: list[str] = []
    sides = [Side(name, lambda name=name: called.append(name)) for name in ("a", "b")]
    interleave(sides, rounds=2, calls=2, before=lambda: called.append("-"), warm_up=False)
    assert "".join(called) == 2 * "-aa-bb"


def test_forgetting_makes_the_next_call_plan_anew(store):
    sql = (
        "SELECT * FROM synthetic MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS at "
        "PATTERN (A) DEFINE A AS A.A5 < 0.1)"
    )
    plans = [replay.query(store, sql).plan.required for _ in range(2)]
    forget()
    plans.append(replay.query(store, sql).plan.required)
    assert plans[0] is plans[1]
    assert plans[2] is not plans[1]


def test_quantiles_are_interpolated():
    assert quantiles([4.0, 1.0, 3.0, 2.0], (0.0, 0.5, 1.0)) == [1.0, 2.5, 4.0]


def test_median_spread_and_speedup():
    fast = Timing("fast", (0.001, 0.002, 0.004))
    slow = Timing("slow", (0.020, 0.020, 0.020))
    assert fast.median_s == 0.002
    assert fast.spread == pytest.approx(1.5)  # (4 - 1) / 2
    assert speedup(fast, slow) == pytest.approx(10)


def test_comparison_names_the_baseline_and_the_advantage(capsys):
    timings = [Timing("index", (0.001,), "warm"), Timing("full", (0.03,))]
    print_comparison("Title", timings, baseline="full")
    title, index, full = capsys.readouterr().out.strip().splitlines()
    assert title == "Title"
    assert "30.00x full" in index
    assert "(warm)" in index
    assert "1.00x full" in full


# ---------------------------------------------------------------------------------------------
# Plans of a question: all of them by name, and what they come to, against counting by hand

GAPPED = f"""
SELECT * FROM {SYNTHETIC} MATCH_RECOGNIZE (
  ORDER BY t MEASURES A.t AS a, B.t AS b
  PATTERN ( A Z* B ) WITHIN 300
  DEFINE A AS A.A5 < 0.002, B AS B.A5 >= 0.5 AND B.A5 < 0.502
)"""


def test_all_plans_are_the_sets_of_lookups_the_tree_first(store):
    plans = Question(store, GAPPED).all_plans()
    assert plans == ["tree", "indexes=B.A5", "indexes=A.A5", "indexes=A.A5,B.A5"]


def test_blocks_of_a_plan_are_what_counting_by_hand_gives(store):
    question = Question(store, GAPPED)
    table = question.snapshot.read_blocks(np.arange(question.snapshot.n_blocks), ["t", "A5"])
    t, x = table["t"].to_numpy(), table["A5"].to_numpy()
    at_a, at_b = t[x < 0.002], t[(x >= 0.5) & (x < 0.502)]
    touched: set[int] = set()
    for a in at_a:
        within = at_b[(at_b > a) & (at_b <= a + 300)]
        if len(within):
            touched |= set(range((a - 1) // BLOCK_EVENTS, (within.max() - 1) // BLOCK_EVENTS + 1))
    # Up to two blocks between touched ones are read through.
    gaps = [after - before - 1 for before, after in pairwise(sorted(touched))]
    n_blocks = len(touched) + sum(gap for gap in gaps if gap <= 2)
    assert any(gap > 2 for gap in gaps)
    assert any(0 < gap <= 2 for gap in gaps)
    assert question.actual_blocks("indexes=A.A5,B.A5") == n_blocks


def test_a_plan_with_another_answer_ends_the_benchmark(store, monkeypatch):
    question = Question(store, GAPPED, "broken")
    right, wrong = question.run("full"), question.run("full")
    wrong.table = wrong.table.slice(1)
    monkeypatch.setattr(question, "run", lambda plan: right if plan == "full" else wrong)
    with pytest.raises(SystemExit, match="broken: plan tree differs"):
        first_runs(question, ["tree"])


def test_relative_error_is_the_thesis_one_and_unknown_without_a_truth():
    assert relative_error(12.0, 10.0) == pytest.approx(0.2)
    assert relative_error(0.0, 10.0) == 1.0
    assert relative_error(3.0, 0.0) is None
