"""`calibrate`: what it prints, stores, and leaves alone when it is stopped."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from unittest.mock import patch

import pytest

from chronicle import StreamSettings, open_store
from costmodel.calibration import WEIGHTS
from costmodel.parameters import DEFAULT_PARAMETERS
from replay.engines.weights import load_weights
from tests.cli.commands import Commands, assert_refused
from tests.strategies import SCHEMA

SHORT = ("--seconds", "2")


def stored(command: Commands) -> Path:
    return command.store / "calibration.json"


def test_weights_are_printed_stored_and_used(command: Commands) -> None:
    done = command("calibrate", *SHORT)
    assert done.code == 0, done.err
    assert "measuring on stream 's' for about 2 s" in done.err
    assert "measured 50 %" in done.err
    assert "its weights tell little of larger streams" in done.err
    assert "calibration.json" in done.err
    printed = {line.split()[0] for line in done.out.splitlines() if line.strip()}
    assert {name.removesuffix("_s") for name in WEIGHTS} <= printed
    assert "R²" in done.out
    loaded = load_weights(command.store)
    assert loaded.warning is None
    assert loaded.parameters.source.endswith("on stream 's'")
    assert load_weights(command.store).parameters != DEFAULT_PARAMETERS
    # What planning takes and explain names.
    shown = command("query", QUERY, "--explain", "--format", "json")
    assert "calibrated" in json.dumps(json.loads(shown.out)["weights"])


QUERY = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A Z* B) WITHIN 5 "
    "DEFINE A AS A.a = 1, B AS B.a = 2)"
)


def test_json_holds_weights_residuals_and_the_sample(command: Commands) -> None:
    done = command("calibrate", "s", *SHORT, "--json", "--report", "--dry-run")
    assert done.code == 0, done.err
    shown = json.loads(done.out)
    assert set(shown["weights"]) == set(WEIGHTS)
    assert set(shown["weights"]["block_s"]) == {"value", "unit", "default", "measured"}
    assert len(shown["residuals"]) == shown["fit"]["operations"]
    assert shown["fit"]["r2"] <= 1
    # Twelve patterns, then six windows by both of their ways.
    assert {one["query"] for one in shown["sample"]} == set(range(1, 19))
    assert sum(one["chosen"] for one in shown["sample"]) == 18
    ways = [one["plan"] for one in shown["sample"] if "TABLE(HOP(" in one["sql"]]
    assert (ways.count("tree"), ways.count("replay")) == (6, 6)
    assert "nothing was stored" in done.err
    assert not stored(command).exists()


def test_report_sets_estimates_beside_times(command: Commands) -> None:
    done = command("calibrate", *SHORT, "--report", "--dry-run")
    assert done.code == 0, done.err
    heads = next(line for line in done.out.splitlines() if line.split()[:1] == ["query"])
    assert heads.split()[:5] == ["query", "plan", "estimated", "measured", "error"]
    assert "* chosen; half of the" in done.out


@pytest.mark.parametrize("where", ["measure.time_operations", "sample.draw_query"])
def test_ctrl_c_leaves_the_weights_that_were_there(command: Commands, where: str) -> None:
    stored(command).write_text("before")
    with patch(f"replay.calibration.{where}", side_effect=KeyboardInterrupt):
        done = command("calibrate", *SHORT, "--report")
    assert done.code == 130
    assert done.err.endswith("interrupted; the weights are as they were\n")
    assert "history" not in done.err
    assert stored(command).read_text() == "before"
    assert sorted(path.name for path in command.store.iterdir()) == [
        "calibration.json",
        "chronicle-store.json",
        "s",
    ]


def test_what_cannot_be_measured_is_refused(command: Commands) -> None:
    assert_refused(command("calibrate", "nix", *SHORT), "no stream 'nix'")
    store = open_store(command.store)
    store.create_stream("empty", SCHEMA, StreamSettings(time="t"))
    assert_refused(command("calibrate", "empty", *SHORT, "--json"), "has no event")
    assert command("calibrate", "s", "--seconds", "0").code == 2
    assert not stored(command).exists()


def test_store_that_cannot_be_written_is_refused_before_measuring(command: Commands) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    with (
        patch("replay.calibration.measure.time_operations", side_effect=AssertionError),
        patch("pathlib.Path.touch", side_effect=denied),
    ):
        done = command("calibrate", "s", *SHORT)
    assert_refused(done, f"weights cannot be stored in '{command.store}' (Permission denied)")
    with patch("pathlib.Path.touch", side_effect=denied):
        measured = command("calibrate", "s", *SHORT, "--dry-run")
    assert measured.code == 0, measured.err


def test_store_without_a_stream_is_refused(command: Commands) -> None:
    command("drop", "s", "--yes")
    assert_refused(command("calibrate"), "no stream to measure on")


def test_damaged_weights_are_a_warning_of_queries(command: Commands) -> None:
    stored(command).write_text("{")
    done = command("query", QUERY, "--format", "json")
    assert done.code == 0
    assert "the weights in" in done.err
    assert "it is no JSON" in done.err
