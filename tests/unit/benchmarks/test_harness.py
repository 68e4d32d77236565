"""The measuring itself: rounds alternate, ratios and spreads are what they say."""

import pytest

from benchmarks.harness import Side, Timing, interleave, print_comparison, speedup


def test_rounds_alternate_after_one_unmeasured_call_of_each_side():
    called: list[str] = []
    sides = [Side(name, lambda name=name: called.append(name)) for name in ("a", "b")]
    timings = interleave(sides, rounds=3, calls=2)
    assert "".join(called) == "ab" + 3 * "aabb"
    assert [timing.name for timing in timings] == ["a", "b"]
    assert all(len(timing.rounds_s) == 3 for timing in timings)


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
