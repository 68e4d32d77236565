"""Calibration on small streams: what it times, what it says of what it cannot time."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chronicle import StreamSettings, create_store, open_store
from chronicle.store import Stream
from costmodel.calibration import WEIGHTS, expected_seconds
from costmodel.parameters import DEFAULT_PARAMETERS
from replay.calibration.facts import look_at
from replay.calibration.flow_operations import flow_operations
from replay.calibration.measure import CalibrationError, calibrate, choose_stream
from replay.calibration.operations import operations_on
from replay.calibration.sample import check_estimates
from tests.helpers import fill_stream
from tests.strategies import SCHEMA, SmallStream

LOOKUP_WEIGHTS = {"entry_s", "sort_s"}


def rows(n: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    return [
        {"t": t, "a": int(random.integers(50)), "x": float(random.uniform()), "s": "q", "f": None,
         "k": None}
        for t in range(n)
    ]  # fmt: skip


def filled(path: Path, n: int, index: tuple[str, ...] = (), block_events: int = 100) -> Stream:
    small = SmallStream(rows(n), block_events=block_events, file_events=100_000, fan_out=8, cuts=())
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
    seconds = 0.056
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


def test_without_indexes_lookups_keep_their_defaults(tmp_path: Path) -> None:
    done = calibrate(filled(tmp_path / "store", 10_000), seconds=2)
    assert set(WEIGHTS) - set(done.fit.fitted) == LOOKUP_WEIGHTS
    assert done.fit.parameters.entry_s == DEFAULT_PARAMETERS.entry_s
    assert ["has no index" in note for note in done.notes] == [True]
    assert done.to_dict()["weights"]["sort_s"]["measured"] is False


@pytest.mark.parametrize("n", [2, 40])
def test_tiny_stream_is_measured_and_said_to_be_tiny(tmp_path: Path, n: int) -> None:
    done = calibrate(filled(tmp_path / "store", n, ("x",), block_events=20), seconds=2)
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
        small = SmallStream(rows(n), block_events=10, file_events=100, fan_out=4, cuts=())
        fill_stream(store, name, small)
    assert choose_stream(store, None).name == "many"
    assert choose_stream(store, "few").name == "few"


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
