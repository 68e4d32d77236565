"""``chronicle stats``: numbers of a range, and bars over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store
from tests.cli.commands import Commands


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    i = np.arange(1000)
    table = pa.table(
        {
            "at": pa.array(i * 60_000_000).cast(pa.timestamp("us", "UTC")),
            "x": pa.array(i / 2),
            "s": pa.array(["a"] * 1000),
        }
    )
    settings = StreamSettings("at", block_events=50)
    path = tmp_path / "store"
    create_store(path).create_stream("s", table.schema, settings).append(table)
    return Commands(path, monkeypatch, capsys)


def test_stats_of_a_range_are_json_for_machines(command: Commands) -> None:
    shown = command.json("stats", "s", "--from", "1970-01-01T01:00", "--to", "1970-01-01T02:00")
    assert (shown["n_events"], shown["t_min"]) == (60, "1970-01-01T01:00:00Z")
    # Events 60 to 119: x from 30 to 59.5.
    assert list(shown["attributes"]) == ["x"]
    assert (shown["attributes"]["x"]["min"], shown["attributes"]["x"]["max"]) == (30.0, 59.5)
    assert shown["attributes"]["x"]["sum"] == (60 + 119) * 60 / 2 / 2


def test_bars_hold_all_events(command: Commands) -> None:
    shown = command.json("stats", "s", "--histogram")
    assert sum(bar["n_events"] for bar in shown["histogram"]["bars"]) == pytest.approx(1000)
    assert all(bar["mean"] is None for bar in shown["histogram"]["bars"])


def test_a_named_column_is_drawn_by_its_means(command: Commands) -> None:
    done = command("stats", "s", "--histogram", "--attribute", "x")
    assert "mean" in done.out
    assert done.out.count("█") > 24
    assert command("stats", "s", "--histogram", "--attribute", "s").out.count("events") == 2


def test_a_bar_of_less_than_half_an_event_is_empty(command: Commands) -> None:
    done = command("stats", "s", "--histogram", "--to", "1970-01-01T00:00:00.000001")
    assert done.out.startswith("1 event,")
    assert "█" not in done.out
