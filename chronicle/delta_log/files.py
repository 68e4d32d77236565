"""Delta tables as they lie on disk: where their logs are, and opening one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from chronicle.errors import StorageError, is_denied

APPLICATION_ID = "chronicle"
"""Delta transaction application id: of two commits that carry it and were prepared on the same
version, the second fails even if its writer retries."""

LOG_FOLDER = "_delta_log"

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
        which = "the latest version" if version is None else f"version {version}"
        if is_denied(error):
            raise StorageError(
                f"{which} of Delta table '{path}' may not be read ({first_line(error)}); check the "
                f"permissions of '{path / LOG_FOLDER}' and the files in it"
            ) from error
        raise StorageError(
            f"{which} of Delta table '{path}' cannot be read ({first_line(error)}); "
            f"{_remedy(path, version)}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return what an error says, without the trace and the inner state delta-rs puts behind it.

    That a file may not be used, which delta-rs says last of all, is said without its name.
    """
    if is_denied(error):
        return "Permission denied"
    said = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return _DEBUG_PRINT.split(said)[0]


def _remedy(path: Path, version: int | None) -> str:
    commits = (path / LOG_FOLDER).glob("[0-9]*.json")
    first = min((int(file.stem) for file in commits if file.stem.isdecimal()), default=0)
    if version is not None and first > 0:
        return (
            f"older commits than {first} are gone: name a later version ('chronicle history' lists "
            "them), or restore the commits from a copy"
        )
    if version is None or has_commit(path, version):
        return f"restore '{path / LOG_FOLDER}' from a copy"
    return "name a version from 0 to that of the latest commit"


def has_commit(path: Path | str, version: int) -> bool:
    """Return whether the commit of a version lies in the log; one ``stat``."""
    # Asked of every table by every query: a Path object would cost more than the call.
    return os.path.exists(f"{path}/{LOG_FOLDER}/{version:020d}.json")  # noqa: PTH110


def commit_path(path: Path, version: int) -> Path:
    """Return the file of a version's commit."""
    return path / LOG_FOLDER / f"{version:020d}.json"
