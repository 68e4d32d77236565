"""The one home of the Delta log: create tables, add files, list what lives in a version."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from chronicle.errors import CommitConflictError, StorageError

APPLICATION_ID = "chronicle"
"""Delta transaction application id: of two commits that carry it and were prepared on the same
version, the second fails even if its writer retries."""

_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a table's version."""

    name: str
    """Path relative to the table's folder."""

    size_bytes: int
    n_rows: int | None
    """None if the writer did not say."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to add to a table; it lies in the table's folder already."""

    name: str
    size_bytes: int
    statistics: Mapping[str, Any]
    """Delta's per-file statistics; ``numRecords`` at least."""


@dataclass(frozen=True, slots=True)
class TableState:
    """One version of a table."""

    version: int
    schema: pa.Schema
    properties: Mapping[str, str]
    files: tuple[LiveFile, ...]


def table_exists(path: Path | str) -> bool:
    """Return whether a Delta table lies at ``path``; reads nothing."""
    return _has_commit(path, 0) or any((Path(path) / _LOG).glob("*.json"))


def create_table(path: Path, schema: pa.Schema, properties: Mapping[str, str]) -> bool:
    """Create an empty table; leaves one that exists as it is.

    Returns
    -------
    bool
        Whether this call created it; of two processes one gets True.

    Raises
    ------
    StorageError
        If the table cannot be created.
    """
    if table_exists(path):
        return False
    try:
        path.mkdir(parents=True, exist_ok=True)
        deltalake.DeltaTable.create(
            str(path),
            deltalake.Schema.from_arrow(schema),
            mode="error",
            configuration=dict(properties),
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        if table_exists(path):
            return False
        raise StorageError(
            f"Delta table '{path}' cannot be created: {_first_line(error)}"
        ) from error
    _forget_location(path)
    return True


def _forget_location(path: Path) -> None:
    """Take the absolute path out of the first commit: a store can be moved."""
    commit = _commit_path(path, 0)
    lines = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line.get("commitInfo", {}).get("operationParameters", {}).pop("location", None)
    draft = commit.with_name(f".{uuid.uuid4().hex}.draft")
    draft.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    draft.replace(commit)


def load_table(path: Path, version: int | None = None) -> TableState:
    """Read one version of a table from its log, the latest if none is named.

    Raises
    ------
    StorageError
        If there is no such table or version, or the log is damaged.
    """
    table = _open(path, version)
    _check_commits(path)
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
    )


def _check_commits(path: Path) -> None:
    """Refuse commits of no content, as a crash of the machine can leave them.

    Delta takes such a commit for one that changed nothing, and its events would be gone unseen.
    """
    for commit in (path / _LOG).glob("*.json"):
        with suppress(FileNotFoundError):  # cleaned up meanwhile
            if commit.stat().st_size == 0 or not commit.is_file():
                raise StorageError(f"commit '{commit}' is empty; restore it from a copy")


def live_files(path: Path, version: int | None = None) -> tuple[LiveFile, ...]:
    """Return the files of one version, in no particular order; see ``load_table``."""
    return load_table(path, version).files


def latest_version(path: Path) -> int:
    """Return the newest version of a table; reads its log."""
    return _open(path, None).version()


def version_exists_after(path: Path | str, version: int) -> bool:
    """Return whether a version newer than ``version`` was committed; one ``stat``."""
    return _has_commit(path, version + 1)


def add_files(
    path: Path,
    files: Sequence[NewFile],
    *,
    read_version: int | None,
    metadata: Mapping[str, str],
) -> int:
    """Commit files that were written beforehand.

    Parameters
    ----------
    path
        Folder of the table.
    files
        Files to add; each lies below ``path``.
    read_version
        The version the files were prepared on: the commit fails if another one landed since.
        None for derived tables, where adding the same file twice is harmless.
    metadata
        Rides in the same commit, for the history.

    Returns
    -------
    int
        The version this commit made; for derived tables one that holds it.

    Raises
    ------
    CommitConflictError
        If another commit landed after ``read_version``.
    StorageError
        If the log cannot be read or written.

    Notes
    -----
    delta-rs lets an append that lost the race try again behind the winner, since appends commute
    for Delta; they do not for streams. Without retries the commit is version
    ``read_version + 1`` or fails; the application transaction makes writers that do retry fail.
    """
    table = _open(path, read_version)
    properties = deltalake.CommitProperties(custom_metadata=dict(metadata))
    if read_version is not None:
        properties = deltalake.CommitProperties(
            custom_metadata=dict(metadata),
            max_commit_retries=0,
            app_transactions=[deltalake.Transaction(APPLICATION_ID, read_version + 1)],
        )
    actions: list[Any] = [_to_action(path, file) for file in files]
    try:
        table.create_write_transaction(
            actions, mode="append", schema=table.schema(), commit_properties=properties
        )
    except (DeltaError, OSError) as error:
        lost = isinstance(error, CommitFailedError) and read_version is not None
        if lost and version_exists_after(path, table.version()):
            raise CommitConflictError(
                f"another process committed to '{path}' after version {read_version}; nothing of "
                "this commit is visible, run it again"
            ) from error
        raise StorageError(
            f"commit to Delta table '{path}' failed: {_first_line(error)}"
        ) from error
    return latest_version(path) if read_version is None else read_version + 1


def _to_action(path: Path, file: NewFile) -> AddAction:
    modified_ms = (path / file.name).stat().st_mtime_ns // 1_000_000
    statistics = json.dumps(dict(file.statistics))
    return AddAction(file.name, file.size_bytes, {}, modified_ms, True, statistics)


def history(path: Path) -> list[dict[str, Any]]:
    """Return what each commit says of itself, newest first, with its ``version``."""
    return _open(path, None).history()


def _open(path: Path, version: int | None) -> deltalake.DeltaTable:
    if version is not None and version < 0:
        raise StorageError(f"no version {version} of Delta table '{path}'; versions count from 0")
    try:
        return deltalake.DeltaTable(str(path), version=version)
    except TableNotFoundError as error:
        raise StorageError(f"no Delta table at '{path}'; restore the folder") from error
    except (DeltaError, OSError, ValueError) as error:
        which = "the latest version" if version is None else f"version {version}"
        raise StorageError(
            f"{which} of Delta table '{path}' cannot be read ({_first_line(error)}); "
            f"{_remedy(path, version)}"
        ) from error


def _first_line(error: BaseException) -> str:
    """Return what an error says, without the trace delta-rs puts below it."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _remedy(path: Path, version: int | None) -> str:
    if version is None or _has_commit(path, version):
        return f"restore '{path / _LOG}' from a copy"
    return "name a version from 0 to that of the latest commit"


def _has_commit(path: Path | str, version: int) -> bool:
    # Asked of every table by every query: a Path object would cost more than the call.
    return os.path.exists(f"{path}/{_LOG}/{version:020d}.json")  # noqa: PTH110


def _commit_path(path: Path, version: int) -> Path:
    return path / _LOG / f"{version:020d}.json"


def new_files(entries: Iterable[tuple[str, int, int]]) -> list[NewFile]:
    """Return files to add, from (name, size in bytes, number of rows)."""
    return [NewFile(name, size, {"numRecords": rows}) for name, size, rows in entries]
