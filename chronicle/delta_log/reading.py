"""What the log of a Delta table says: files that live in a version, commits, transactions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError

from chronicle.delta_log.files import (
    APPLICATION_ID,
    LOG_FOLDER,
    commit_path,
    open_table,
    version_exists_after,
)
from chronicle.delta_log.torn import torn_remedy
from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread

_COMMIT_INFO = frozenset({"timestamp", "operation", "engineInfo", "clientVersion", "version"})


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a table's version."""

    name: str
    """Path relative to the table's folder."""

    size_bytes: int
    n_rows: int | None
    """None if the writer did not say."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit to a table says of itself."""

    version: int
    timestamp_ms: int
    """When it was made, by the clock of who made it, in milliseconds since 1970."""

    operation: str
    """Delta's name of the operation."""

    metadata: Mapping[str, str]
    """What its writer added."""


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """What one commit did to a table."""

    version: int
    metadata: Mapping[str, str]
    """What its writer said of it."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    transactions: frozenset[str]
    """Application ids it carries a number of."""


@dataclass(frozen=True, slots=True)
class TableState:
    """One version of a table."""

    version: int
    schema: pa.Schema
    properties: Mapping[str, str]
    files: tuple[LiveFile, ...]
    statistics: pa.Table
    """What the commits say of the files: ``path``, and structs ``min`` and ``max`` by column."""


def load_table(path: Path, version: int | None = None) -> TableState:
    """Read one version of a table from its log, the latest if none is named.

    Raises
    ------
    StorageError
        If there is no such table or version, or the log is damaged.
    """
    table = open_table(path, version)
    _check_commits(path, table.version())
    return _to_state(table)


class FollowedTable:
    """The newest version of a table, kept open: only commits made since are read again.

    Not thread-safe. Raises StorageError as ``load_table`` does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table = open_table(path, None)
        _check_commits(path, self._table.version())
        self.state = _to_state(self._table)

    def refresh(self) -> bool:
        """Take in what was committed since; return whether anything was. One ``stat`` if not."""
        if not version_exists_after(self._path, self.state.version):
            return False
        try:
            self._table.update_incremental()
        except (DeltaError, OSError, ValueError):
            self._table = open_table(self._path, None)
        try:
            _check_commits(self._path, self._table.version())
        except StorageError:
            # What was read of the empty commit must not stay once the commit is restored.
            self._table = open_table(self._path, self.state.version)
            raise
        self.state = _to_state(self._table)
        return True


def _to_state(table: deltalake.DeltaTable) -> TableState:
    actions = pa.table(table.get_add_actions())
    names = actions.column("path").to_pylist()
    sizes = actions.column("size_bytes").to_pylist()
    counts = (
        actions.column("num_records").to_pylist()
        if "num_records" in actions.column_names
        else [None] * len(names)
    )
    return TableState(
        version=table.version(),
        schema=pa.schema(table.schema().to_arrow()),
        properties=dict(table.metadata().configuration),
        files=tuple(
            LiveFile(name, size, count)
            for name, size, count in zip(names, sizes, counts, strict=True)
        ),
        statistics=actions,
    )


def _check_commits(path: Path, version: int) -> None:
    """Refuse commits of no content, as a crash of the machine can leave them.

    Delta takes such a commit for one that changed nothing, and its events would be gone unseen.
    Only the commits that ``version`` is made of are looked at: those after its checkpoint.
    """
    try:
        names = os.listdir(path / LOG_FOLDER)  # noqa: PTH208
    except OSError as error:
        raise unread(path / LOG_FOLDER, error) or StorageError(
            f"no Delta table at '{path}' any more; was it dropped?"
        ) from error
    stems = [name.split(".checkpoint.") for name in names]
    checkpoints = [int(stem[0]) for stem in stems if len(stem) == 2 and stem[0].isdigit()]
    first = max((found for found in checkpoints if found <= version), default=-1) + 1
    for commit in (commit_path(path, found) for found in range(first, version + 1)):
        try:
            is_empty = commit.stat().st_size == 0 or not commit.is_file()
        except FileNotFoundError:
            continue  # cleaned up meanwhile
        except OSError as error:
            raise unread(commit, error) or StorageError(
                f"commit '{commit}' cannot be read ({reason_of(error)}); restore it from a copy"
            ) from error
        if is_empty:
            raise StorageError(f"commit '{commit}' is empty; {torn_remedy(commit)}")


def live_files(path: Path, version: int | None = None) -> tuple[LiveFile, ...]:
    """Return the files of one version, in no particular order; see ``load_table``."""
    return load_table(path, version).files


def transaction_version(path: Path, application_id: str) -> int | None:
    """Return the number that the last commit carrying ``application_id`` gave it; None if none.

    Such numbers belong to the state of the table, not to its history: they last.
    """
    return transaction_versions(path, [application_id]).get(application_id)


def transaction_versions(path: Path, application_ids: Sequence[str]) -> dict[str, int]:
    """Return the numbers of those of several applications that the table knows, by id."""
    table = open_table(path, None)
    found = {name: table.transaction_version(name) for name in application_ids}
    return {name: int(number) for name, number in found.items() if number is not None}


def commits(path: Path) -> list[Commit]:
    """Return what each commit says of itself, newest first, as far back as the log reaches."""
    return [
        Commit(
            version=int(entry["version"]),
            timestamp_ms=int(entry["timestamp"]),
            operation=str(entry.get("operation", "")),
            metadata={
                name: value
                for name, value in entry.items()
                if isinstance(value, str) and name not in _COMMIT_INFO
            },
        )
        for entry in _history(path)
    ]


def _history(path: Path) -> list[dict[str, Any]]:
    # delta-rs numbers what it lists from the newest version down, and every number is off by one
    # if another process commits in between. So it is asked until nobody did.
    while True:
        table = open_table(path, None)
        entries, version = table.history(), table.version()
        if entries[0]["version"] == version and not version_exists_after(path, version):
            return entries


def changes_since(path: Path, version: int) -> list[LoggedChange]:
    """Return what the commits after ``version`` did, oldest first.

    Raises
    ------
    StorageError
        If one of them cannot be read; commits that Delta cleaned up are missing in the middle.
    """
    found = []
    while version_exists_after(path, version):
        version += 1
        commit = commit_path(path, version)
        try:
            lines = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise unread(commit, error) or StorageError(
                f"commit '{commit}' cannot be read ({reason_of(error)}); {torn_remedy(commit)}"
            ) from error
        found.append(_to_change(version, lines))
    return found


def _to_change(version: int, lines: list[dict[str, Any]]) -> LoggedChange:
    info: dict[str, Any] = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
    return LoggedChange(
        version,
        {name: value for name, value in info.items() if isinstance(value, str)},
        tuple(unquote(line["add"]["path"]) for line in lines if "add" in line),
        tuple(unquote(line["remove"]["path"]) for line in lines if "remove" in line),
        frozenset(line["txn"]["appId"] for line in lines if "txn" in line) - {APPLICATION_ID},
    )
