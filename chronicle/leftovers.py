"""Finds what killed operations left behind: files no table knows, folders nobody works in."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK_FILE = "lock"


def unknown_files(table: Path, known: Collection[str]) -> list[Path]:
    """Return the files in a table's folder that none of its versions names, sorted.

    Parameters
    ----------
    table
        Folder of the Delta table.
    known
        Names, relative to the folder, of all files that any version names.
    """
    return sorted(
        path
        for path in (table.iterdir() if table.is_dir() else ())
        if path.name not in known and path.name != "_delta_log" and path.is_file()
    )


def staging_folders(root: Path) -> list[Path]:
    """Return the folders at the root of a store in which operations work unseen, sorted."""
    return sorted(path for path in root.glob(".*") if path.is_dir())


def is_abandoned(folder: Path) -> bool:
    """Return whether the operation that made a staging folder is no longer running.

    It holds a lock, which the system releases when its process dies. A folder without a lock file
    is just being made or removed.
    """
    with _lock(folder) as locked:
        return locked


def remove_abandoned(folder: Path) -> bool:
    """Remove a staging folder if its operation is no longer running; return whether it was."""
    with _lock(folder) as locked:
        if locked:
            shutil.rmtree(folder, ignore_errors=True)
        return locked


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Take a folder's lock for the length of the block if it is free; say whether it was."""
    try:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
