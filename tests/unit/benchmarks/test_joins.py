"""The benchmark of joins: all ways give one answer, and little of the other side is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import joins


def test_a_small_run_compares_all_ways_and_writes_what_it_saw(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    asked = ["--quotes", "600000", "--rounds", "1", "--stores", str(tmp_path)]
    joins.main([*asked, "--results", str(tmp_path / "out")])
    written = json.loads((tmp_path / "out" / "joins.json").read_text())
    assert list(written["joins"]) == list(joins.QUERIES)
    for name, found in written["joins"].items():
        assert found["blocks_read"] < joins.READ_GOAL * found["blocks_of_quotes"], name
        assert {t["name"] for t in found["timings"]} == {"full", "auto", "indexes=size", "duckdb"}
    # One large trade, in the middle: each of the 1,999 quotes about it may have its symbol.
    rows = {name: found["n_rows"] for name, found in written["joins"].items()}
    assert 400 < rows["join"] < 600
    assert [rows[name] for name in list(joins.QUERIES)[2:]] == [1, 1]


def test_digests_tell_pairs_apart() -> None:
    one = joins.pa.table({"t": [1, 2], "u": [3, None], "bid": [4.0, None]})
    assert joins.digest(one) == (2, 3, 3, 4.0)
    assert joins.digest(one.slice(0, 1)) != joins.digest(one)
