"""Derived attributes from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from chronicle import open_store
from tests.cli.commands import Commands


def test_append_makes_a_stream_that_derives(command: Commands, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("t,speed\n1,2\n2,5\n3,4\n", encoding="utf-8")
    done = command("append", path, "--stream", "n", "--time", "t", "--derive", "delta(speed)")
    assert done.code == 0
    bounds = open_store(command.store).stream("n").snapshot().bounds("delta(speed)")
    assert bounds.known.tolist() == [False]
    shown = command("describe", "n", "--json")
    assert json.loads(shown.out)["settings"]["derived"] == ["delta(speed)"]


def test_append_to_a_stream_that_does_not_derive_names_the_way(
    command: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "new.csv"
    path.write_text("t,a,x,s,f,k\n41,1,,,,\n", encoding="utf-8")
    done = command("append", path, "--stream", "s", "--derive", "delta(x)")
    assert done.code == 1
    assert "stream 's' does not derive 'delta(x)'; index it with" in done.err
    assert open_store(command.store).stream("s").snapshot().n_events == 40


def test_what_is_no_derived_attribute_is_refused(command: Commands, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("t,speed\n1,2\n", encoding="utf-8")
    done = command("append", path, "--stream", "n", "--time", "t", "--derive", "speed")
    assert done.code == 1
    assert "'speed' is no derived attribute; write delta(COLUMN)" in done.err
    assert open_store(command.store).stream_names() == ("s",)


def test_index_on_a_derived_attribute_is_created_listed_and_dropped(command: Commands) -> None:
    done = command("index", "create", "s", "delta(x)")
    assert done.code == 0
    assert "index 'delta(x)' created" in done.err
    listed = json.loads(command("index", "list", "s", "--json").out)
    assert [index["attribute"] for index in listed] == ["a", "delta(x)"]
    assert command("index", "drop", "s", "delta(x)").code == 0
