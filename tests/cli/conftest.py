"""A store with one stream, and commands on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronicle import create_store
from replay.console.startup import let_scipy_in
from tests.cli.commands import Commands
from tests.helpers import fill_stream
from tests.strategies import SmallStream


@pytest.fixture(autouse=True)
def _scipy_is_found_again() -> Iterator[None]:
    """Undo what a command does for a process that ends with it; this one goes on."""
    yield
    let_scipy_in()


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the store that commands are run on, to be copied."""
    rows = [{"t": t, "a": t % 5, "x": t / 4, "s": "quiet", "f": None, "k": None} for t in range(40)]
    small = SmallStream(rows, block_events=4, file_events=64, fan_out=4, cuts=(10, 20, 30))
    path = tmp_path_factory.mktemp("filled") / "store"
    fill_stream(create_store(path), "s", small, index=("a",))
    return path


@pytest.fixture
def command(
    filled_store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Commands:
    """Lend commands on a store whose stream ``s`` has 40 events in four commits, indexed by a."""
    path = shutil.copytree(filled_store, tmp_path / "store")
    return Commands(path, monkeypatch, capsys)
