"""Queries made of a stream's own values: they bind on any stream and select about what they say."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle import Snapshot, create_store
from replay import query
from replay.calibration.facts import Facts, look_at, typical_time
from replay.calibration.probes import draw_query, lookup_probes, replay_probes
from replay.language.printer import quoted
from replay.running.statement import prepare
from tests.helpers import fill_stream
from tests.strategies import SmallStream, streams

N = 4_000


def filled(path: Path, rows: list[dict[str, Any]], index: tuple[str, ...] = ()) -> Snapshot:
    small = SmallStream(rows, block_events=250, file_events=10_000, fan_out=4, cuts=())
    return fill_stream(create_store(path), "s", small, index=index).snapshot()


def some_rows() -> list[dict[str, Any]]:
    """``a`` and ``s`` have few values, ``x`` is even over its range, ``k`` drifts."""
    random = np.random.default_rng(3)
    return [
        {
            "t": 2 * t,
            "a": int(random.choice([0, 1, 2, 3], p=[0.6, 0.3, 0.09, 0.01])),
            "x": float(random.uniform(-1, 1)),
            "s": str(random.choice(["it's", "rare", "common"], p=[0.1, 0.01, 0.89])),
            "f": None,
            "k": t // 4,
        }
        for t in range(N)
    ]


def share_of(snapshot: Snapshot, condition: str) -> float:
    sql = (
        "SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES S1.t AS at "
        f"PATTERN (S1) DEFINE S1 AS {condition})"
    )
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), snapshot.schema.names)
    return query({"s": table}, sql).table.column("n")[0].as_py() / snapshot.n_events


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return filled(tmp_path / "store", some_rows(), index=("x",))


def column(facts: Facts, name: str) -> Any:
    return next(one for one in facts.columns if one.name == name)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("at", [0.0, 0.4, 0.99])
def test_range_holds_the_share_asked_for(snapshot: Snapshot, share: float, at: float) -> None:
    facts = look_at(snapshot, frozenset({"x"}))
    found = share_of(snapshot, column(facts, "x").condition("S1", share, at))
    assert found == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize(
    ("name", "share", "expected"),
    [
        pytest.param("s", 0.02, 0.01, id="text"),
        pytest.param("s", 0.12, 0.1, id="text with a quote"),
        pytest.param("a", 0.1, 0.09, id="whole numbers"),
    ],
)
def test_of_common_values_the_nearest_is_taken(
    snapshot: Snapshot, name: str, share: float, expected: float
) -> None:
    facts = look_at(snapshot, frozenset())
    found = share_of(snapshot, column(facts, name).condition("S1", share, 0.0))
    assert found == pytest.approx(expected, rel=0.5)


def test_mild_conditions_hold_nearly_always(snapshot: Snapshot) -> None:
    facts = look_at(snapshot, frozenset())
    for one in facts.columns:
        assert share_of(snapshot, one.mild_condition("S1")) >= 0.98, one.name


def test_indexed_columns_come_first_and_drifting_ones_late(snapshot: Snapshot) -> None:
    assert [one.name for one in look_at(snapshot, frozenset({"a"})).columns] == ["a", "x", "s", "k"]
    facts = look_at(snapshot, frozenset())
    assert [one.name for one in facts.columns] == ["x", "a", "s", "k"]
    assert [one.is_even for one in facts.columns] == [True, True, True, False]


def test_window_is_as_long_as_so_many_events(snapshot: Snapshot) -> None:
    assert look_at(snapshot, frozenset()).window(100) == "200"  # two units of time an event


def test_a_stream_that_pauses_has_the_pace_of_its_blocks(tmp_path: Path) -> None:
    paused = [{**row, "t": row["t"] + (10**9 if i >= N // 2 else 0)} for i, row in
              enumerate(some_rows())]  # fmt: skip
    snapshot = filled(tmp_path / "store", paused, index=())
    assert look_at(snapshot, frozenset()).window(100) == "200"


def test_a_stream_with_one_event_has_a_window() -> None:
    assert typical_time(np.array([7]), np.array([7]), np.array([1])) == 0.0


def test_names_are_quoted() -> None:
    assert quoted('a "b" c') == '"a ""b"" c"'


def test_lookups_ask_no_larger_share_than_a_plan_would(snapshot: Snapshot) -> None:
    facts = look_at(snapshot, frozenset({"x"}))
    probes = lookup_probes(facts, snapshot.n_events)
    # Of 4,000 events 100 and 1,000 are less than 0.3; each is asked by one and by two lookups.
    assert [plan for _, plan in probes] == ["indexes=S1", "indexes=S1,S2"] * 2
    assert lookup_probes(look_at(snapshot, frozenset()), snapshot.n_events) == []


def test_same_draws_give_the_same_query(snapshot: Snapshot) -> None:
    facts = look_at(snapshot, frozenset({"x"}))
    drawn = [draw_query(facts, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@settings(max_examples=40)
@given(small=streams(), seed=st.integers(0, 1000))
def test_queries_bind_on_any_stream(small: SmallStream, seed: int) -> None:
    if not small.rows:
        return
    with tempfile.TemporaryDirectory() as folder:
        stream = fill_stream(create_store(Path(folder) / "store"), "a-b", small, index=("a",))
        snapshot = stream.snapshot()
        facts = look_at(snapshot, frozenset({"a"}))
        if not facts.columns:
            return
        texts = [probe.sql for probe in replay_probes(facts)]
        texts += [probe.sql for probe, _ in lookup_probes(facts, snapshot.n_events)]
        texts.append(draw_query(facts, np.random.default_rng(seed)))
        for text in texts:
            prepare(text, snapshot.schema, snapshot.settings.time, {})
