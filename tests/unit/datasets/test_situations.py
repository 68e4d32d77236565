"""Streams that situations are asked of: what they promise of their phases."""

from __future__ import annotations

import numpy as np

import replay
from datasets import switching, traffic


def runs(states: np.ndarray) -> list[tuple[bool, int]]:
    """Return the runs of a column, but for the first and the last, which are cut."""
    changes = np.flatnonzero(np.diff(states.astype(np.int8))) + 1
    lengths = np.diff(changes)
    return [(bool(states[at]), int(n)) for at, n in zip(changes[:-1], lengths, strict=True)]


def test_columns_switch_within_the_bounds_of_the_thesis() -> None:
    table = switching.generate(20_000, 3)
    assert table.num_rows == 20_000
    assert table.schema.names == ["t", "c0", "c1", "c2"]
    found = [run for name in ("c0", "c1", "c2") for run in runs(table[name].to_numpy())]
    on, off = ([n for state, n in found if state is wanted] for wanted in (True, False))
    assert min(on) >= 10
    assert max(on) <= 100
    assert min(off) >= 10
    assert max(off) <= 50
    assert {10, 100} <= set(on)  # 200 runs and more: the borders are drawn, too
    assert table.equals(switching.generate(20_000, 3))
    assert not table.equals(switching.generate(20_000, 3, seed=1))


def test_cars_read_once_a_second_and_some_drive_aggressively() -> None:
    table = traffic.generate(20, 600)
    assert table.schema == traffic.SCHEMA
    assert table["t"].to_pylist() == [t for t in range(600) for _ in range(20)]
    assert table["car"].to_pylist() == list(range(20)) * 600
    assert table.equals(traffic.generate(20, 600))
    answer = replay.query({"cars": table}, traffic.AGGRESSIVE.format(source="cars", more=""))
    # A round takes 30 to 196 s, so a car drives 4 to 20 of them.
    assert 10 < answer.table.num_rows < 20 * 20
