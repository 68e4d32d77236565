"""The benchmark of windows: what it compares, and where ways break even."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import windows


def row(slide_s: float, ratio: float) -> dict[str, Any]:
    return {"slide_s": slide_s, "tree_over_replay": ratio}


def test_the_break_even_slide_lies_between_the_last_lost_and_the_first_won() -> None:
    # Halfway by the logarithms: 0.5x at 1 s and 2x at 100 s cross at 10 s.
    rows = [row(0.1, 2.0), row(1.0, 0.5), row(100.0, 2.0), row(1000.0, 9.0)]
    assert windows.break_even(rows) == pytest.approx(10.0)
    assert windows.break_even([row(1.0, 1.5), row(2.0, 2.0)]) == 1.0
    assert windows.break_even([row(1.0, 0.5), row(2.0, 0.9)]) is None


def test_digests_tell_rows_counts_and_sums_apart() -> None:
    def of(total: list[float | None], n: list[int]) -> windows.Digest:
        numbers = {"n": pa.array(n), "total": pa.array(total, pa.float64())}
        return windows.digest(iter([pa.record_batch(numbers | {"mean": numbers["total"]})]))

    one = of([1.0, 2.0, None], [1, 2, 0])
    assert one == (3, 1 * 1 + 2 * 2, 1.0 * 1 + 2.0 * 2, 1.0 * 1 + 2.0 * 2)
    assert windows.alike(one, of([1.0, 2.0 + 1e-12, None], [1, 2, 0]))
    assert not windows.alike(one, of([2.0, 1.0, None], [1, 2, 0]))
    assert not windows.alike(one, of([1.0, 2.0, None], [2, 1, 0]))
    assert not windows.alike(one, one._replace(means=4.0))


def test_a_small_run_compares_all_ways_and_writes_what_it_saw(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    asked = [
        "--events",
        "30000",
        "--doubles",
        "1",
        "--slides",
        "0.5",
        "60",
        "--rounds",
        "1",
        "--no-figures",
    ]
    windows.main([*asked, "--stores", str(tmp_path), "--results", str(tmp_path / "out")])
    written = json.loads((tmp_path / "out" / "windows.json").read_text())
    (week,) = written["weeks"]
    assert [slide["n_windows"] for slide in week["slides"]] == [173_399, 1_444]
    names = [{timing["name"] for timing in slide["timings"]} for slide in week["slides"]]
    assert names == [
        {"replay", "tree", "auto", "duckdb"},
        {"replay", "tree", "auto", "tree-naive", "duckdb"},
    ]
    assert set(week["break_even"]) == {"predicted_s", "printed_s", "measured_s"}
    assert week["break_even"]["printed_s"] > 0
