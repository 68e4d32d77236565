"""Words for people: what steers a terminal is shown, whoever says it; data stay as they are."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chronicle.words import on_one_line, visible
from tests.cli.commands import Commands

STEERING = "\x1b[31m\x07\x7f\x9b\u202e\u2066"
SHOWN = r"\x1b[31m\x07\x7f\x9b\u202e\u2066"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("text", "shown"), [(STEERING, SHOWN), ("ä→\u200f", "ä→\u200f")])
def test_signs_that_steer_a_terminal_are_shown(text: str, shown: str) -> None:
    assert visible(text) == on_one_line(text) == shown


def test_words_keep_their_lines_and_cells_do_not() -> None:
    assert (visible("a\n\tb"), on_one_line("a\n\tb")) == ("a\n\tb", r"a\n\tb")


def test_every_command_shows_signs_of_the_data(command: Commands, tmp_path: Path) -> None:
    name = f"c{STEERING}"
    rows = [["t", name], ["2024-05-01T00:00:00Z", f"a{STEERING}"], ["no time", STEERING]]
    source = tmp_path / "steering.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    asked = [
        ("append", source, "--stream", "odd", "--time", "t"),
        ("append", source, "--stream", "odd"),
        ("append", tmp_path / f"none{STEERING}.csv", "--stream", "odd"),
        ("describe", "odd"),
        ("streams",),
        ("history", "odd"),
        ("quarantine", "odd"),
        ("check",),
        ("stats", "odd"),
        ("index", "create", "odd", f"none{STEERING}"),
        ("query", "SELECT * FROM odd"),
        ("query", "SELECT * FROM odd", "-x"),
        ("query", "SELECT * FROM odd", "--explain"),
        ("query", f"SELECT none{STEERING} FROM odd"),
        ("query", f"SELECT * FROM none{STEERING}"),
        ("query", "SELECT * FROM odd", "--format", STEERING),
        ("describe", STEERING),
        (STEERING,),
    ]
    n_shown = 0
    for arguments in asked:
        done = command(*arguments)
        said = done.out + done.err
        assert set(STEERING) & set(said) <= set("[31m"), arguments
        n_shown += r"\x1b[31m" in said
    assert n_shown >= 10


def test_data_for_programs_stay_as_they_are(command: Commands, tmp_path: Path) -> None:
    answer = tmp_path / "answer.csv"
    sql = f"SELECT t, '{STEERING}' AS c FROM s LIMIT 1"
    command.succeeds("query", sql, "--out", answer)
    with answer.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["t", "c"], ["0", STEERING]]


def test_sigterm_leaves_no_folder_and_ends_as_it_does_other_programs(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["append", "-", "--format", "csv", "--stream", "s", "--time", "t", "--store", "store"]
    process = subprocess.Popen(
        [sys.executable, ROOT / "cli.py", *words],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    try:
        while not any(scratch.iterdir()):  # what comes from standard input is written there
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    # A shell tells it as 128 + 15.
    assert (process.returncode, said) == (-signal.SIGTERM, b"")
    assert list(scratch.iterdir()) == []
