"""Files that may not be read are not called damaged: nothing is to be restored or deleted."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from chronicle.errors import StorageError
from chronicle.log.delta_log import load_table
from chronicle.stream_folder import check_unclaimed
from indexing import clear_caches
from tests.cli.commands import Commands, assert_refused

PERMIT = "check the permissions of the file and its folders"


def deny(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Let one file be opened by nobody, as modes of files do not for root."""
    for owner, method in ((Path, "open"), (Path, "read_text"), (os, "open")):
        real = getattr(owner, method)

        def opened(path: Any, *args: Any, real: Any = real, **options: Any) -> Any:
            if os.path.realpath(path) == os.path.realpath(file):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *args, **options)

        monkeypatch.setattr(owner, method, opened)
    clear_caches()


def faults(command: Commands) -> list[str]:
    """Return what a check finds wrong."""
    done = command("check", "s")
    assert done.code == 1
    return [line for line in done.out.splitlines() if line.startswith("fault")]


def test_query_says_that_events_may_not_be_read(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = min((command.store / "s" / "events").glob("*.parquet"))
    deny(monkeypatch, file)
    for more in ((), ("--skip-damaged",)):
        done = command("query", "SELECT t FROM s WHERE a >= 0", "--format", "csv", *more)
        assert_refused(done, f"'{file}' could not be read (Permission denied); {PERMIT}")
        assert "copy" not in done.err


@pytest.mark.parametrize(
    "files",
    ["events/*.parquet", "tree/*.parquet", "index/a/*.parquet", "events/_delta_log/*.json"],
)
def test_check_says_to_look_at_permissions(
    command: Commands, monkeypatch: pytest.MonkeyPatch, files: str
) -> None:
    file = min((command.store / "s").glob(files))
    deny(monkeypatch, file)
    [fault] = faults(command)
    assert "Permission denied" in fault
    assert fault.endswith(f"({file.relative_to(command.store)}); {PERMIT}")


def test_log_that_may_not_be_read_is_not_to_be_restored(command: Commands) -> None:
    said = (
        "Kernel error -> Generic LocalFileSystem error\n  ↳ Unable to open file /a.json\n"
        "  ↳ Permission denied (os error 13)\n"
    )  # what delta-rs says of it
    with (
        patch("deltalake.DeltaTable", side_effect=OSError(said)),
        pytest.raises(StorageError, match=r"could not be read \(Permission denied\); check"),
    ):
        load_table(command.store / "s" / "events")


def test_hint_that_may_not_be_read_is_not_taken_for_stale(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = command.store / "s" / "events" / "_delta_log" / "_last_checkpoint"
    hint.write_text('{"version": 1}')
    deny(monkeypatch, hint)
    command("repair", "s")
    assert hint.exists()
    with patch("deltalake.DeltaTable", side_effect=OSError("… (os error 13)")):
        assert all(fault.endswith(PERMIT) for fault in faults(command))


def test_stream_whose_log_may_not_be_looked_into_has_not_lost_it(command: Commands) -> None:
    log = command.store / "s" / "events" / "_delta_log"
    shutil.rmtree(log)
    log.mkdir()  # nothing is seen in it
    with (
        patch("os.access", return_value=False),
        pytest.raises(StorageError, match="may not be read; check its permissions"),
    ):
        check_unclaimed(command.store / "s")
