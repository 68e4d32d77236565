"""`calibrate`: what it prints, stores, and leaves alone when it is stopped."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from unittest.mock import patch

import pytest

from costmodel.calibration import WEIGHTS
from costmodel.parameters import DEFAULT_PARAMETERS
from replay.engines.weights import load_weights
from tests.cli.commands import Commands, assert_refused

SHORT = ("--seconds", "0.5")
DENIED = patch("pathlib.Path.touch", side_effect=PermissionError(errno.EACCES, "Permission denied"))
QUERY = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A Z* B) WITHIN 5 "
    "DEFINE A AS A.a = 1, B AS B.a = 2)"
)


def stored(command: Commands) -> Path:
    return command.store / "calibration.json"


@pytest.mark.usefixtures("made_up_time")
def test_weights_are_printed_reported_stored_and_used(command: Commands) -> None:
    done = command.succeeds("calibrate", *SHORT, "--report")
    assert "measuring on stream 's' for about 0.5 s" in done.err
    assert "measured 50 %" in done.err
    assert "its weights tell little of larger streams" in done.err
    assert "calibration.json" in done.err
    printed = {line.split()[0] for line in done.out.splitlines() if line.strip()}
    assert {name.removesuffix("_s") for name in WEIGHTS} <= printed
    assert "R²" in done.out
    heads = next(line for line in done.out.splitlines() if line.split()[:1] == ["query"])
    assert heads.split()[:5] == ["query", "plan", "estimated", "measured", "error"]
    assert "* chosen; half of the" in done.out
    loaded = load_weights(command.store)
    assert loaded.warning is None
    assert loaded.parameters.source.endswith("on stream 's'")
    assert loaded.parameters != DEFAULT_PARAMETERS
    # What planning takes and explain names.
    assert "calibrated" in json.dumps(command.rows(QUERY, "--explain")["weights"])


@pytest.mark.usefixtures("made_up_time")
def test_json_of_a_dry_run_holds_weights_residuals_and_the_sample(command: Commands) -> None:
    with DENIED:  # it writes nothing
        done = command.succeeds("calibrate", "s", *SHORT, "--json", "--report", "--dry-run")
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


@pytest.mark.usefixtures("made_up_time")
@pytest.mark.parametrize("where", ["measure.time_operations", "sample.draw_query"])
def test_ctrl_c_leaves_the_weights_that_were_there(command: Commands, where: str) -> None:
    stored(command).write_text("before")
    with patch(f"replay.calibration.{where}", side_effect=KeyboardInterrupt):
        done = command("calibrate", *SHORT, "--report")
    assert done.code == 130
    assert done.err.endswith("interrupted; the weights are as they were\n")
    assert "history" not in done.err
    assert stored(command).read_text() == "before"
    files = {path.name for path in command.store.iterdir()}
    assert files == {"calibration.json", "chronicle-store.json", "s"}


def test_what_cannot_be_measured_is_refused(command: Commands) -> None:
    assert_refused(command("calibrate", "nix", *SHORT), "no stream 'nix'")
    command("drop", "s", "--yes")
    assert_refused(command("calibrate"), "no stream to measure on")
    assert not stored(command).exists()


def test_store_that_cannot_be_written_is_refused_before_measuring(command: Commands) -> None:
    with DENIED, patch("replay.calibration.measure.time_operations", side_effect=AssertionError):
        done = command("calibrate", "s", *SHORT)
    assert_refused(done, f"weights cannot be stored in '{command.store}' (Permission denied)")


def test_damaged_weights_are_a_warning_of_queries(command: Commands) -> None:
    stored(command).write_text("{")
    done = command.succeeds("query", QUERY, "--format", "json")
    assert "the weights in" in done.err
    assert "it is no JSON" in done.err
