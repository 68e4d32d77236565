"""Calibration on small streams: what it times, what it asks them, what it cannot time.

Seconds are made up wherever what follows from them is looked at.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle import Snapshot, StreamSettings, create_store, open_store
from chronicle.store import Stream
from costmodel.calibration import WEIGHTS, expected_seconds
from costmodel.parameters import DEFAULT_PARAMETERS
from replay import query
from replay.calibration.facts import Facts, look_at, typical_time
from replay.calibration.flow_operations import flow_operations
from replay.calibration.measure import CalibrationError, calibrate, choose_stream
from replay.calibration.operations import operations_on
from replay.calibration.probes import draw_query, lookup_probes, replay_probes
from replay.calibration.sample import check_estimates
from replay.language.tokens import quoted
from replay.running.statement import prepare
from tests.helpers import fill_stream
from tests.memory_stream import memory_store
from tests.strategies import SCHEMA, SmallStream, streams

LOOKUP_WEIGHTS = {"entry_s", "sort_s"}


def random_rows(n: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    return [
        {"t": t, "a": int(random.integers(50)), "x": float(random.uniform()), "s": "q", "f": None,
         "k": None}
        for t in range(n)
    ]  # fmt: skip


def filled(
    path: Path,
    rows: int | list[dict[str, Any]],
    index: tuple[str, ...] = (),
    block_events: int = 100,
) -> Stream:
    """Make a stream of given rows, or of so many random ones."""
    made = random_rows(rows) if isinstance(rows, int) else rows
    small = SmallStream(made, block_events=block_events, file_events=100_000, fan_out=8, cuts=())
    return fill_stream(create_store(path), "s", small, index=index)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """Lend 20,000 events in 200 blocks with indexes on a and x."""
    return filled(tmp_path_factory.mktemp("calibration") / "store", 20_000, ("a", "x"))


def units(operation: Any) -> dict[str, float]:
    return dict(zip(WEIGHTS, operation.units.tolist(), strict=True))


def test_operations_do_the_work_they_say(indexed: Stream) -> None:
    snapshot = indexed.snapshot()
    facts = look_at(snapshot, frozenset({"a", "x"}))
    operations = list(operations_on(snapshot, facts, seconds=1))
    by_name = {operation.name: units(operation) for operation in operations}
    one = by_name["one symbol: 16 blocks in sequence"]
    # 16 blocks of 100 events, one column, the two bounds of BETWEEN, one stretch.
    assert (one["block_s"], one["value_s"], one["seek_s"]) == (16, 1600, 1)
    assert one["predicate_s"] == 3200
    assert one["entry_s"] == one["sort_s"] == 0
    scattered = by_name["one symbol: 16 x 1 blocks scattered"]
    assert scattered == one | {"seek_s": 16.0}
    wide = by_name["four symbols, 1 more column: 16 blocks in sequence"]
    assert wide["value_s"] == 2 * one["value_s"]
    gap = by_name["a gap: 16 blocks in sequence"]
    assert gap["value_s"] == 2 * one["value_s"]  # the time, for WITHIN
    assert gap["match_s"] > one["match_s"]
    lookups = [of for name, of in by_name.items() if "lookup" in name]
    assert lookups
    assert all(of["block_s"] == of["value_s"] == 0 for of in lookups)
    assert all(of["entry_s"] >= 1 for of in lookups)
    assert {of["seek_s"] for of in lookups} == {5, 10}  # a lookup is five jumps


def test_no_replay_is_expected_to_take_all_the_time_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sizes are told by what an event takes about; where searches begin it takes more.
    monkeypatch.setattr("replay.calibration.operations.EVENT_S", 1e-9)
    snapshot = filled(tmp_path / "store", 100_000, block_events=20_000).snapshot()
    facts = look_at(snapshot, frozenset())
    seconds = 0.03
    found = list(operations_on(snapshot, facts, seconds=seconds))
    assert max(expected_seconds(one.units) for one in found) < seconds / 40
    names = [one.name for one in found]
    assert "one symbol: 4 blocks in sequence" in names
    assert "two open gaps: 4 blocks in sequence" not in names


def test_operations_on_windows_and_joins_do_the_work_they_say(indexed: Stream) -> None:
    snapshot = indexed.snapshot()
    facts = look_at(snapshot, frozenset({"a", "x"}))
    operations = list(flow_operations(snapshot, facts, seconds=100))
    by_name = {operation.name: units(operation) for operation in operations}
    # All 200 blocks of 100 events, the time and one column. A slide is a sixteenth of a block,
    # 6 of the 20,000 times: 3,334 borders, and 7 windows that begin before the first event.
    replayed = by_name["windows by replay, 1 column: 200 blocks, 3,341 windows"]
    assert (replayed["block_s"], replayed["value_s"]) == (200, 40_000)
    assert replayed["fold_s"] == replayed["pane_s"] == 20_000
    assert replayed["merge_s"] == 3_334 + 3_341
    tree = by_name["windows by the tree, 1 column: 200 blocks, 3,341 windows"]
    assert (tree["block_s"], tree["fold_s"], tree["pane_s"]) == (200, 20_000, 0)
    assert (tree["cut_s"], tree["node_s"]) == (3_334, 0)
    # Slides of 16 blocks, 1,666 times: 12 borders inside cut a block each.
    coarse = by_name["windows by the tree, 1 column: 200 blocks, 20 windows"]
    assert coarse["block_s"] == 12
    assert coarse["node_s"] > 12
    naive = by_name["windows one by one, 1 column: 200 blocks, 15 windows"]
    assert naive["ask_s"] == 15
    joined = by_name["join of 4,096 events"]
    assert joined.pop("join_s") == 8_192
    assert set(joined.values()) == {0}


def test_operations_can_be_run_again_and_again(indexed: Stream) -> None:
    snapshot = indexed.snapshot()
    facts = look_at(snapshot, frozenset({"a", "x"}))
    found = [
        *operations_on(snapshot, facts, seconds=0.1),
        *flow_operations(snapshot, facts, seconds=0.1),
    ]
    for operation, _ in itertools.product(found, range(2)):
        if operation.before is not None:
            operation.before()
        operation.run()


@pytest.mark.usefixtures("made_up_time")
def test_calibration_measures_every_weight_where_there_are_indexes(indexed: Stream) -> None:
    shares: list[float] = []
    done = calibrate(indexed, seconds=1, progress=shares.append)
    assert done.fit.fitted == WEIGHTS
    assert done.notes == ()
    assert len(done.operations) == len(done.seconds) == len(done.fit.estimated)
    assert shares == sorted(shares)
    assert indexed.path.parent.joinpath("calibration.json").exists() is False
    shown = done.to_dict()
    assert set(shown["weights"]) == set(WEIGHTS)
    assert sum(kind["operations"] for kind in shown["kinds"]) == len(done.operations)
    assert all(weight["value"] > 0 and weight["measured"] for weight in shown["weights"].values())


@pytest.mark.usefixtures("made_up_time")
def test_without_indexes_lookups_keep_their_defaults(tmp_path: Path) -> None:
    done = calibrate(filled(tmp_path / "store", 10_000), seconds=0.5)
    assert set(WEIGHTS) - set(done.fit.fitted) == LOOKUP_WEIGHTS
    assert done.fit.parameters.entry_s == DEFAULT_PARAMETERS.entry_s
    assert ["has no index" in note for note in done.notes] == [True]
    assert done.to_dict()["weights"]["sort_s"]["measured"] is False


@pytest.mark.usefixtures("made_up_time")
@pytest.mark.parametrize("n", [2, 40])
def test_tiny_stream_is_measured_and_said_to_be_tiny(tmp_path: Path, n: int) -> None:
    done = calibrate(filled(tmp_path / "store", n, ("x",), block_events=20), seconds=0.5)
    assert any("blocks: its weights tell little" in note for note in done.notes)
    assert np.isfinite(done.fit.estimated).all()


def test_empty_stream_is_refused(tmp_path: Path) -> None:
    stream = create_store(tmp_path / "store").create_stream("s", SCHEMA, StreamSettings(time="t"))
    with pytest.raises(CalibrationError, match="stream 's' has no event"):
        calibrate(stream, seconds=0.5)


def test_stream_without_values_that_differ_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="no column of numbers or texts"):
        calibrate(filled(tmp_path / "store", 1), seconds=0.5)


def test_largest_stream_is_taken_if_none_is_named(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    with pytest.raises(CalibrationError, match="has no stream"):
        choose_stream(store, None)
    for name, n in (("few", 10), ("many", 30), ("none", 0)):
        small = SmallStream(random_rows(n), block_events=10, file_events=100, fan_out=4, cuts=())
        fill_stream(store, name, small)
    assert choose_stream(store, None).name == "many"
    assert choose_stream(store, "few").name == "few"


@pytest.mark.usefixtures("made_up_time")
def test_sample_carries_out_the_chosen_plan_and_the_full_replay(indexed: Stream) -> None:
    store = open_store(indexed.path.parent)
    # Where events are dear, small streams are worth a plan as well.
    dear = replace(DEFAULT_PARAMETERS, value_s=1e-5)
    checked = list(check_estimates(store, store.stream("s"), dear, n_queries=5, n_windows=0))
    by_query = {number: list(group) for number, group in itertools.groupby(checked, _number)}
    assert list(by_query) == [1, 2, 3, 4, 5]
    for group in by_query.values():
        assert sum(one.chosen for one in group) == 1
        full = next(one for one in group if one.plan == "full")
        assert full.read_blocks == full.estimated_blocks == 200
        assert len(group) == (1 if full.chosen else 2)
    assert len(checked) > 5
    assert all(one.measured_s > 0 and one.estimated_s >= 0 for one in checked)


@pytest.mark.usefixtures("made_up_time")
def test_sample_carries_out_windows_by_tree_and_by_replay(indexed: Stream) -> None:
    store = open_store(indexed.path.parent)
    checked = list(check_estimates(store, store.stream("s"), DEFAULT_PARAMETERS, n_queries=0))
    by_query = {number: list(group) for number, group in itertools.groupby(checked, _number)}
    assert list(by_query) == [1, 2, 3, 4, 5, 6]
    for group in by_query.values():
        assert {one.plan for one in group} == {"tree", "replay"}
        assert [one.chosen for one in group] == [True, False]
        # Borders are known without events, so the blocks to read are, too.
        assert all(one.read_blocks == one.estimated_blocks for one in group)
        assert all(one.measured_s > 0 and one.estimated_s > 0 for one in group)


def _number(one: Any) -> int:
    return int(one.number)


# ---------------------------------------------------------------------------------------------
# Queries made of a stream's own values: they bind on any stream and select about what they say

N = 4_000


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


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("asked")
    return filled(folder / "store", some_rows(), ("x",), block_events=250).snapshot()


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
    stream = filled(tmp_path / "store", paused, block_events=250)
    assert look_at(stream.snapshot(), frozenset()).window(100) == "200"


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
    with memory_store() as store:
        stream = fill_stream(store, "a-b", small, index=("a",))
        snapshot = stream.snapshot()
        facts = look_at(snapshot, frozenset({"a"}))
        if not facts.columns:
            return
        texts = [probe.sql for probe in replay_probes(facts)]
        texts += [probe.sql for probe, _ in lookup_probes(facts, snapshot.n_events)]
        texts.append(draw_query(facts, np.random.default_rng(seed)))
        for text in texts:
            prepare(text, snapshot.schema, snapshot.settings.time, {})
