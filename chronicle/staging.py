"""A folder inside the store where an operation writes what nobody may see yet."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time as clock
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chronicle.disk import discard, writing
from chronicle.folder_lock import make_table_folder

STAGING_PREFIX = ".ingest-"
"""Folders of this prefix at the root of a store hold unfinished work and are no streams."""

_LOCK_FILE = "lock"

_MADE_SECONDS_MAX = 600
"""A folder without a lock this long after it was made belongs to an ingest that was killed."""


_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)


@contextmanager
def open_staging(store_path: Path) -> Iterator[Path]:
    """Make a folder that is removed with all it still holds when the block ends.

    It lies in the store, so that what is finished can be renamed to its place at once. A lock
    that the system releases when a process dies tells work under way from what a killed ingest
    left behind; the latter is removed here.
    """
    remove_abandoned(store_path)
    folder, descriptor = _make(store_path)
    try:
        yield folder
    finally:
        # Tasks of an interrupted job may write for a moment longer.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def own_folders(parent: Path, prefix: str) -> list[Path]:
    """Return the folders, no links, that Chronicle named with a prefix and a random number."""
    return sorted(
        path
        for path in parent.glob(f"{prefix}*")
        if _HEX.fullmatch(path.name.removeprefix(prefix))
        and not path.is_symlink()
        and path.is_dir()
    )


def _make(store_path: Path) -> tuple[Path, int]:
    """Make a folder and lock it; returns the lock's descriptor too."""
    while True:
        folder = store_path / f"{STAGING_PREFIX}{uuid.uuid4().hex}"
        lock = folder / _LOCK_FILE
        with writing(folder, "made"):
            folder.mkdir()
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if lock.exists():
            return folder, descriptor
        os.close(descriptor)  # another process took it for abandoned before it was locked


def remove_abandoned(store_path: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the folders of ingests that are no longer running; return which."""
    abandoned = []
    for folder in own_folders(store_path, STAGING_PREFIX):
        try:
            descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR)
        except FileNotFoundError:
            if not _is_old(folder):
                continue  # just being made or removed by its own ingest
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
            abandoned.append(folder)
            continue
        except OSError:
            continue  # not ours to touch
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
            abandoned.append(folder)
        except BlockingIOError:
            continue  # at work
        finally:
            os.close(descriptor)
    return abandoned


def _is_old(folder: Path) -> bool:
    """Return whether a folder was made long ago, by the clock of the file system's writers."""
    try:
        return clock.time() - folder.stat().st_mtime > _MADE_SECONDS_MAX
    except FileNotFoundError:
        return False


def move_files(staged: Path, target: Path) -> list[Path]:
    """Move every file below ``staged`` to the same place below ``target``.

    Returns where the files are now. If one cannot be moved, none is.
    """
    moved: list[Path] = []
    try:
        for path in sorted(staged.rglob("*")):
            if path.is_file():
                place = target / path.relative_to(staged)
                with writing(place):
                    make_table_folder(target, place.parent.relative_to(target).as_posix())
                    path.rename(place)
                moved.append(place)
    except BaseException:
        discard(moved)
        raise
    return moved
