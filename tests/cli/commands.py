"""Run commands in this process, as the entry point does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chronicle import open_store
from replay.console.app import main
from tests.ingest_files import read_rows

HEADER = "t,a,x,s,f,k\n"
"""First line of a CSV file that fits stream ``s``."""


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it says on stderr without the box and the line breaks of a usage error."""
        return " ".join(self.err.replace("│", " ").split())


class Commands:
    """Runs commands on one store."""

    def __init__(
        self, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.store = store
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str | Path, store: bool = True) -> Done:
        words = [
            "chronicle",
            *map(str, arguments),
            *(["--store", str(self.store)] if store else []),
        ]
        self._monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        shown = self._capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int | None)
        return Done(code or 0, shown.out, shown.err)

    def succeeds(self, *arguments: str | Path) -> Done:
        """Run a command that must end well."""
        done = self(*arguments)
        assert done.code == 0, done.err
        return done

    def rows(self, sql: str, *options: str) -> Any:
        """Return the answer to a query."""
        return json.loads(self.succeeds("query", sql, "--format", "json", *options).out)

    def json(self, *arguments: str | Path) -> Any:
        """Return what a command says for machines."""
        return json.loads(self.succeeds(*arguments, "--json").out)


def assert_refused(done: Done, said: str) -> None:
    """One sentence on stderr, exit code 1."""
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert said in done.err
    assert done.err.count("\n") == 1


def times(command: Commands, name: str = "s") -> list[int]:
    """Return the times of a stream's events."""
    return [row["t"] for row in read_rows(open_store(command.store), name, ["t"])]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
