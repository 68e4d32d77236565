"""Delta tables as they lie on disk: which of their logs, commits and tables are there."""

from __future__ import annotations

import os
from pathlib import Path

from chronicle.errors import unread

APPLICATION_ID = "chronicle"
"""Delta transaction application id: of two commits that carry it and were prepared on the same
version, the second fails even if its writer retries."""

LOG_FOLDER = "_delta_log"

Stamp = tuple[int, int, int]
"""Inode, size and time of change of a commit file."""


def table_exists(path: Path | str) -> bool:
    """Return whether a Delta table lies at ``path``; reads nothing."""
    return has_commit(path, 0) or any((Path(path) / LOG_FOLDER).glob("*.json"))


def version_exists_after(path: Path | str, version: int) -> bool:
    """Return whether a version newer than ``version`` was committed; one ``stat``."""
    return has_commit(path, version + 1)


def has_commit(path: Path | str, version: int) -> bool:
    """Return whether the commit of a version lies in the log; one ``stat``.

    Raises if the system does not tell: to take it for missing would hide what was committed.
    """
    # Asked of every table by every query: a Path object would cost more than the call.
    commit = f"{path}/{LOG_FOLDER}/{version:020d}.json"
    try:
        os.stat(commit)  # noqa: PTH116
    except OSError as error:
        missed = unread(commit, error)
        if missed is not None:
            raise missed from error
        return False
    return True


def commit_stamp(path: Path | str, version: int) -> Stamp | None:
    """Return what tells the commit file of a version from any other; None if it is gone.

    Why: a table that was dropped and made again can have the same number of versions. One
    ``stat``.
    """
    commit = f"{path}/{LOG_FOLDER}/{version:020d}.json"
    try:
        found = os.stat(commit)  # noqa: PTH116 - hot path
    except OSError as error:
        missed = unread(commit, error)
        if missed is not None:
            raise missed from error
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def commit_path(path: Path, version: int) -> Path:
    """Return the file of a version's commit."""
    return path / LOG_FOLDER / f"{version:020d}.json"
