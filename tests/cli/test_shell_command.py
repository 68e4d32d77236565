"""The shell: statements one after the other, by a pipe and at a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from replay.console import shell
from tests.cli.commands import Commands, Done

ROOT = Path(__file__).resolve().parents[2]
FIRST = "SELECT t FROM s LIMIT 1"


def piped(command: Commands, monkeypatch: pytest.MonkeyPatch, text: str) -> Done:
    """Run the shell with a text on standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return command("shell")


def test_statements_of_a_pipe_are_answered_in_order(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f".format jsonl\n{FIRST};SELECT t\nFROM s -- ;\nWHERE t = 7; {FIRST}"
    done = piped(command, monkeypatch, text)
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line)["t"] for line in done.out.splitlines()] == [0, 7, 0]


def test_a_statement_that_fails_is_told_with_its_place_and_the_next_one_runs(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = piped(command, monkeypatch, f".format csv\nSELECT nix FROM s;\n.fly\n{FIRST};")

    assert done.code == 1
    assert "error in the statement at line 2: line 1, column 8: no " in done.err
    assert "\n         ^" in done.err
    assert "error in the statement at line 3: no command '.fly'" in done.err
    assert done.out.splitlines() == ['"t"', "0"]


def test_a_statement_that_fails_is_told_with_the_line_it_begins_in(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT t\nFROM s LIMIT 1;\nSELECT a\nFROM s LIMIT 0; SELECT one;\n\nSELECT\n\n  two"
    for ending in ("", "\n", "\n\n", ";"):
        done = piped(command, monkeypatch, text + ending)
        told = re.findall(r"at line (\d+): ", done.err)
        assert told == ["4", "6"], ending


def test_parameters_last_and_are_listed(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        ".format jsonl\n.param low 37\n.param who quiet\n.param\n"
        "SELECT t FROM s WHERE t > :low AND s = :who;\n"
        ".param low 38\nSELECT t FROM s WHERE t > :low;"
    )
    done = piped(command, monkeypatch, text)

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        ":low = 37", ':who = "quiet"', '{"t": 38}', '{"t": 39}', '{"t": 39}',
    ]  # fmt: skip


def test_a_shell_explains_times_lists_and_describes(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f".streams\n.describe s\n.explain on\n.timing on\n{FIRST};\n.quit\nSELECT nix;"
    done = piped(command, monkeypatch, text)
    assert done.code == 0
    assert "40 events" not in done.out  # no answer to count
    assert "time column   t (integer)" in done.out
    assert "plan" in done.out
    assert done.err.strip().endswith(" s")


def test_a_timeout_of_the_shell_ends_a_query_and_no_more(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f".format csv\n.timeout 0.000001s\n{FIRST};\n.timeout off\n{FIRST};"
    done = piped(command, monkeypatch, text)
    assert done.code == 1
    assert done.out == '"t"\n0\n'
    assert "limit --timeout" in done.err


def test_ctrl_c_ends_the_query_and_not_the_shell(
    command: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["SELECT t", KeyboardInterrupt, "SELECT t FROM s LIMIT 1;", FIRST, ";", EOFError])

    def type_next(_: str) -> str:
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    answered = shell.write_to
    failures = iter([KeyboardInterrupt])

    def write_to(*arguments: object) -> None:
        for failure in failures:
            raise failure
        answered(*arguments)

    monkeypatch.setattr("builtins.input", type_next)
    monkeypatch.setattr(shell, "write_to", write_to)
    shell.Session(shell.store_of(command.store)).run_interactively()

    shown = capsys.readouterr()
    assert shown.err == "interrupted\n"
    assert "1 row" in shown.out


def test_the_history_is_private_and_recalled(command: Commands, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    main, terminal = pty.openpty()
    arguments = [sys.executable, "cli.py", "shell", "--store", str(command.store)]
    with subprocess.Popen(
        arguments, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, cwd=ROOT
    ) as process:
        os.close(terminal)
        os.write(main, f"{FIRST};\n.quit\n".encode())
        shown = b""
        with suppress(OSError):  # Linux says so of a terminal whose other end is closed
            while piece := os.read(main, 1 << 16):
                shown += piece
    os.close(main)

    assert process.returncode == 0, shown
    assert b"1 row" in shown
    history = tmp_path / "chronicle" / "shell-history"
    assert FIRST in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
