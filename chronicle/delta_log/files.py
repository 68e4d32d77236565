"""Delta tables as they lie on disk: where their logs are, and opening one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread

APPLICATION_ID = "chronicle"
"""Delta transaction application id: of two commits that carry it and were prepared on the same
version, the second fails even if its writer retries."""

LOG_FOLDER = "_delta_log"

Stamp = tuple[int, int, int]
"""Inode, size and time of change of a commit file."""

_DEBUG_PRINT = re.compile(r":? [A-Z]\w+ \{")
"""Where delta-rs begins to print its own state, a page of it."""


def table_exists(path: Path | str) -> bool:
    """Return whether a Delta table lies at ``path``; reads nothing."""
    return has_commit(path, 0) or any((Path(path) / LOG_FOLDER).glob("*.json"))


def version_exists_after(path: Path | str, version: int) -> bool:
    """Return whether a version newer than ``version`` was committed; one ``stat``."""
    return has_commit(path, version + 1)


def open_table(path: Path, version: int | None) -> deltalake.DeltaTable:
    """Open a version of a table, the latest if None.

    Raises
    ------
    StorageError
        If there is no such table or version, or its log is damaged.
    """
    if version is not None and version < 0:
        raise StorageError(f"no version {version} of Delta table '{path}'; versions count from 0")
    try:
        return deltalake.DeltaTable(str(path), version=version)
    except TableNotFoundError as error:
        if version is None or not table_exists(path):
            raise StorageError(f"no Delta table at '{path}'; restore the folder") from error
        raise StorageError(
            f"version {version} of Delta table '{path}' is in its log no more; "
            f"{_remedy(path, version)}"
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        missed = unread(path / LOG_FOLDER, error)
        if missed is not None:
            raise missed from error
        which = "the latest version" if version is None else f"version {version}"
        raise StorageError(
            f"{which} of Delta table '{path}' cannot be read ({first_line(error)}); "
            f"{_remedy(path, version)}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return what an error says, without the trace and the inner state delta-rs puts behind it.

    What the system says, which delta-rs puts last of all, is said without the file's name.
    """
    return _DEBUG_PRINT.split(reason_of(error).strip())[0]


def _remedy(path: Path, version: int | None) -> str:
    commits = (path / LOG_FOLDER).glob("[0-9]*.json")
    first = min((int(file.stem) for file in commits if file.stem.isdecimal()), default=0)
    if version is not None and first > 0:
        return (
            f"older commits than {first} are gone: name a later version ('chronicle history' lists "
            "them), or restore the commits from a copy"
        )
    if version is None or has_commit(path, version):
        from chronicle.delta_log.torn import torn_files, torn_remedy

        torn = torn_files(path)
        if torn:
            return f"'{torn[0].name}' is cut; {torn_remedy(torn[0])}"
        return f"restore '{path / LOG_FOLDER}' from a copy"
    return "name a version from 0 to that of the latest commit"


def has_commit(path: Path | str, version: int) -> bool:
    """Return whether the commit of a version lies in the log; one ``stat``.

    Raises
    ------
    UnreadFileError
        If the system does not tell: to take it for missing would hide what was committed.
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
