"""``chronicle stats``: numbers of a range, and bars over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Commands, write


def test_stats_of_a_range_are_json_for_machines(command: Commands) -> None:
    shown = command.json("stats", "s", "--from", "10", "--to", "20")
    assert (shown["n_events"], shown["t_min"], shown["t_max"]) == (10, "10", "19")
    assert list(shown["attributes"]) == ["t", "a", "x", "k"]  # numbers alone
    assert shown["attributes"]["x"]["sum"] == sum(range(10, 20)) / 4


def test_bars_hold_all_events(command: Commands) -> None:
    bars = command.json("stats", "s", "--histogram")["histogram"]["bars"]
    assert sum(bar["n_events"] for bar in bars) == pytest.approx(40)
    assert all(bar["mean"] is None for bar in bars)


def test_a_named_column_is_drawn_by_its_means(command: Commands) -> None:
    shown = command.succeeds("stats", "s", "--histogram", "--attribute", "x").out
    assert "mean" in shown
    assert shown.count("█") > 24
    assert command("stats", "s", "--histogram", "--attribute", "s").out.count("events") == 2


def test_a_bar_of_less_than_half_an_event_is_empty(command: Commands, tmp_path: Path) -> None:
    file = write(tmp_path / "n.csv", "t\n0\n1000\n")
    command.succeeds("append", file, "--stream", "n", "--time", "t")
    done = command.succeeds("stats", "n", "--histogram", "--to", "1")
    assert done.out.startswith("1 event,")
    assert "█" not in done.out
