"""Open a version of a Delta table, and say what to do where that fails."""

from __future__ import annotations

import re
from pathlib import Path

import deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread
from chronicle.log.delta_log.files import LOG_FOLDER, has_commit, table_exists
from chronicle.log.delta_log.torn import torn_files, torn_remedy

_DEBUG_PRINT = re.compile(r":? [A-Z]\w+ \{")
"""Where delta-rs begins to print its own state, a page of it."""


def open_table(path: Path, version: int | None) -> deltalake.DeltaTable:
    """Open a version of a table, the latest if None."""
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
        torn = torn_files(path)
        if torn:
            return f"'{torn[0].name}' is cut; {torn_remedy(torn[0])}"
        return f"restore '{path / LOG_FOLDER}' from a copy"
    return "name a version from 0 to that of the latest commit"
