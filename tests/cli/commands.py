"""Run commands in this process, as the entry point does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from replay.console.app import main


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


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


def assert_refused(done: Done, said: str) -> None:
    """One sentence on stderr, exit code 1."""
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert said in done.err
    assert done.err.count("\n") == 1
