"""The measuring itself: rounds alternate, ratios and spreads are what they say."""

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
from chronicle import open_store
from tests.unit.benchmarks.conftest import N_EVENTS


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


def test_forgetting_makes_the_next_call_plan_anew(stores):
    store = open_store(stores / f"store-synthetic-{N_EVENTS}")
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
