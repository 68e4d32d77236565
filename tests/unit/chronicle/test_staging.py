"""Staging folders are removed once their ingest is over, however it ended."""

from __future__ import annotations

import os
import time as clock
from pathlib import Path

from chronicle.stream_folder import STAGING_PREFIX, open_staging, remove_abandoned


def leave(store: Path, name: str, *, lock: bool, seconds_ago: float) -> Path:
    """Make what a killed ingest leaves behind."""
    folder = store / f"{STAGING_PREFIX}{name}"
    folder.mkdir()
    if lock:
        (folder / "lock").touch()
    made = clock.time() - seconds_ago
    os.utime(folder, (made, made))
    return folder


def test_folder_is_gone_after_its_block(tmp_path: Path) -> None:
    with open_staging(tmp_path) as folder:
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_folder_at_work_stays_and_an_abandoned_one_goes(tmp_path: Path) -> None:
    abandoned = leave(tmp_path, f"{1:032x}", lock=True, seconds_ago=0)
    with open_staging(tmp_path) as first:
        assert not abandoned.exists()
        with open_staging(tmp_path):
            assert first.exists()


def test_folder_without_a_lock_goes_once_it_is_old(tmp_path: Path) -> None:
    young = leave(tmp_path, f"{1:032x}", lock=False, seconds_ago=0)
    old = leave(tmp_path, f"{2:032x}", lock=False, seconds_ago=3600)
    assert remove_abandoned(tmp_path, dry_run=True) == [old]
    assert old.exists()
    assert remove_abandoned(tmp_path) == [old]
    assert (young.exists(), old.exists()) == (True, False)
