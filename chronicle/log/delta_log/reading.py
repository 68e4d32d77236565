"""What the log of a Delta table says: files of a version, commits, and whether it is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread
from chronicle.foreign_text import actions_of, parse_json, split_lines
from chronicle.log.delta_log.files import (
    APPLICATION_ID,
    LOG_FOLDER,
    Stamp,
    check_place,
    commit_path,
    commit_stamp,
    has_commit,
    list_log,
    table_exists,
    torn_files,
    torn_remedy,
    version_exists_after,
)

_COMMIT_INFO = frozenset({"timestamp", "operation", "engineInfo", "clientVersion", "version"})


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a table's version."""

    name: str
    """Path relative to the table's folder."""

    size_bytes: int
    n_rows: int | None
    """None if the writer did not say."""

    modified_ms: int
    """When it was last changed before it was committed, in milliseconds since 1970."""


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
    transactions: Mapping[str, int]
    """The numbers it gives to applications, by their ids."""


@dataclass(frozen=True, slots=True)
class TableState:
    """One version of a table."""

    version: int
    schema: pa.Schema
    properties: Mapping[str, str]
    files: tuple[LiveFile, ...]
    statistics: pa.Table
    """What the commits say of the files: ``path``, and structs ``min`` and ``max`` by column."""

    identity: str
    """Delta's id of the table: a table made again at the same place has another one."""

    stamp: Stamp | None
    """Of the commit file of this version, see ``commit_stamp``."""


def load_table(path: Path, version: int | None = None) -> TableState:
    """Read one version of a table from its log, the latest if none is named."""
    return _open(path, version)[1]


class FollowedTable:
    """The newest version of a table, kept open: only commits made since are read again.

    A table that was dropped and made again is followed too; its ``state.identity`` differs.
    Not thread-safe. Raises StorageError as ``load_table`` does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table, self.state = _open(path, None)

    def refresh(self) -> bool:
        """Take in what was committed since; return whether anything was. Two ``stat`` if not."""
        stamp, after = self.state.stamp, self.state.version
        is_same = stamp is not None and stamp == commit_stamp(self._path, after)
        if is_same and not version_exists_after(self._path, after):
            return False
        if is_same:
            try:
                self._table.update_incremental()
                # Still the same after reading: no commit of another table was taken for one of it.
                is_same = stamp == commit_stamp(self._path, after)
            except (DeltaError, OSError, ValueError):
                is_same = False
        try:
            if is_same:
                self.state = _checked_state(self._path, self._table, after=after)
            else:
                self._table, self.state = _open(self._path, None)
        except StorageError:
            # What was read of a damaged commit must not stay once the commit is restored.
            self.state = replace(self.state, stamp=None)
            raise
        return True


def _open(path: Path, version: int | None) -> tuple[deltalake.DeltaTable, TableState]:
    table = open_table(path, version)
    try:
        return table, _checked_state(path, table, after=-1)
    except StorageError:
        again = open_table(path, version)
        if again.metadata().id == table.metadata().id:
            raise
        # It was dropped and made again in between, and the commits read were those of the new one.
        return again, _checked_state(path, again, after=-1)


def _checked_state(path: Path, table: deltalake.DeltaTable, *, after: int) -> TableState:
    """Return the state of a table whose commits after a version say what they must."""
    state = _to_state(table)
    marks = check_commits(path, state.version, identity=state.identity, after=after)
    counts = [file.n_rows for file in state.files]
    if marks.n_rows is not None and None not in counts:
        found = sum(count for count in counts if count is not None)
        if found != marks.n_rows:
            raise StorageError(
                f"commit '{commit_path(path, state.version)}' says that its table has "
                f"{marks.n_rows:,} rows, and the log lists files of {found:,}: the text of a "
                "commit was overwritten; restore the log from a copy"
            )
    return replace(state, stamp=marks.stamp)


def _to_state(table: deltalake.DeltaTable) -> TableState:
    actions = pa.table(table.get_add_actions())
    names = actions.column("path").to_pylist()
    sizes = actions.column("size_bytes").to_pylist()
    times = actions.column("modification_time").to_pylist()
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
            LiveFile(*of_file) for of_file in zip(names, sizes, counts, times, strict=True)
        ),
        statistics=actions,
        identity=str(table.metadata().id),
        stamp=None,
    )


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
                if isinstance(value, str) and name not in _COMMIT_INFO and name not in MARKS
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
        if not entries:
            raise StorageError(f"the log of Delta table '{path}' has no commit; was it dropped?")
        if entries[0]["version"] == version and not version_exists_after(path, version):
            return entries


def changes_since(path: Path, version: int) -> list[LoggedChange]:
    """Return what the commits after ``version`` did, oldest first.

    Commits that Delta cleaned up are missing in the middle.
    """
    found = []
    while version_exists_after(path, version):
        version += 1
        commit = commit_path(path, version)
        try:
            lines = actions_of(commit.read_text(encoding="utf-8"))
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
        {
            line["txn"]["appId"]: int(line["txn"]["version"])
            for line in lines
            if "txn" in line and line["txn"]["appId"] != APPLICATION_ID
        },
    )


# ---------------------------------------------------------------------------------------------
# Opening a table, and what to do where that fails


_DEBUG_PRINT = re.compile(r":? [A-Z]\w+ \{")
"""Where delta-rs begins to print its own state, a page of it."""


_ODD_PARTITION = re.compile(r"Failed to parse value '(.*?)' as '(.*?)'")


def open_table(path: Path, version: int | None) -> deltalake.DeltaTable:
    """Open a version of a table, the latest if None."""
    if version is not None and version < 0:
        raise StorageError(f"no version {version} of Delta table '{path}'; versions count from 0")
    check_place(path)
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
        odd = _ODD_PARTITION.search(str(error))
        if odd is not None:
            raise StorageError(
                f"Delta table '{path}' has the partition value '{odd[1]}' of type {odd[2]}, which "
                "the Delta library does not read as it is spelled (a DECIMAL needs all digits of "
                "its scale); have the program that wrote these partitions write them again"
            ) from error
        which = "the latest version" if version is None else f"version {version}"
        raise StorageError(
            f"{which} of Delta table '{path}' cannot be read ({first_line(error)}); "
            f"{_remedy(path, version)}"
        ) from error
    except BaseException as error:  # a panic of delta-rs is no Exception
        if "Forked process" not in str(error):
            raise
        raise StorageError(
            f"Delta table '{path}' cannot be opened in a process that was forked from one that had "
            "opened one; start it anew: multiprocessing.get_context('spawn')"
        ) from error


def first_line(error: BaseException) -> str:
    """Return what an error says, without the trace and the inner state delta-rs puts behind it.

    What the system says, which delta-rs puts last of all, is said without the file's name.
    """
    return _DEBUG_PRINT.split(reason_of(error).strip())[0]


def _remedy(path: Path, version: int | None) -> str:
    first = min(list_log(path).commits, default=0)
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


# ---------------------------------------------------------------------------------------------
# Marks: what a commit says of itself, so that one overwritten by another's text is noticed


TABLE, ROWS, COMMIT = "chronicle.table", "chronicle.rows", "chronicle.commit"
"""Names in a commit's metadata: Delta's id of the table it was made for, the rows that the table
has with it, and a name that no other commit has."""

MARKS = frozenset({TABLE, ROWS, COMMIT})


@dataclass(frozen=True, slots=True)
class CommitMarks:
    """What a commit says of itself; None where it does not."""

    version: int | None = None
    """The version it was made to be: the number of Chronicle's own transaction."""

    identity: str | None = None
    """Delta's id of the table it belongs to."""

    n_rows: int | None = None
    """Rows of the table with it."""

    name: str | None = None
    """Which no other commit has."""

    stamp: Stamp | None = None
    """Of the file it was read from."""


def to_marks(text: str) -> CommitMarks:
    """Return what the text of a commit says of itself; what is no JSON says nothing. Pure."""
    version, info, identity = None, dict[str, Any](), None
    for line in split_lines(text):
        if not line.startswith(('{"txn"', '{"commitInfo"', '{"metaData"')):
            continue
        try:
            action = parse_json(line)
        except ValueError:
            continue
        txn = action.get("txn")
        if txn is not None and txn.get("appId") == APPLICATION_ID:
            version = int(txn["version"])
        info = action.get("commitInfo") or info
        identity = (action.get("metaData") or {}).get("id", identity)
    n_rows = info.get(ROWS)
    return CommitMarks(
        version,
        info.get(TABLE, identity),
        None if n_rows is None else int(n_rows),
        info.get(COMMIT),
    )


def why_foreign(marks: CommitMarks, *, version: int, identity: str | None) -> str | None:
    """Return why a commit cannot be that of a version of a table; None if it can. Pure.

    Commits of other programs and of older Chronicles say less, and are taken as they are.
    """
    if marks.version not in (None, version):
        return f"it holds the text of version {marks.version}"
    if None not in (marks.identity, identity) and marks.identity != identity:
        return "it holds the text of a commit to another table"
    return None


def read_marks(path: Path) -> CommitMarks | None:
    """Return what a commit file says of itself; None if it is gone.

    Refuses one that is empty, as a crash of the machine can leave it.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text, found = file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unread(path, error) or StorageError(
            f"commit '{path}' cannot be read ({reason_of(error)}); restore it from a copy"
        ) from error
    if not text:
        raise StorageError(f"commit '{path}' is empty; {torn_remedy(path)}")
    marks = to_marks(text)
    stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
    return CommitMarks(marks.version, marks.identity, marks.n_rows, marks.name, stamp)


def check_commits(path: Path, version: int, *, identity: str | None, after: int) -> CommitMarks:
    """Check the commits that a version of a table is made of; return what the last says of itself.

    Why: Delta takes an empty commit for one that changed nothing, and any text for that of the
    version its file is called like: events would be gone, or come twice, unseen. Only commits
    after ``after`` and after the checkpoint are read. Without ``identity``, of tables of other
    owners, whose id may change, it is not compared.
    """
    try:
        commits, checkpoints = list_log(path)
    except OSError as error:
        raise unread(path / LOG_FOLDER, error) or _gone(path) from error
    if not commits:
        raise _gone(path)
    begin = max((found for found in checkpoints if found <= version), default=-1)
    last = CommitMarks()
    # The newest is read in any case, for its rows and its stamp.
    for number in range(min(max(begin, after) + 1, version), version + 1):
        last = read_marks(commit_path(path, number)) or CommitMarks()  # cleaned up meanwhile
        reason = why_foreign(last, version=number, identity=identity)
        if reason is not None:
            raise StorageError(
                f"commit '{commit_path(path, number)}' was overwritten: {reason}; restore it from "
                "a copy"
            )
    return last


def _gone(path: Path) -> StorageError:
    return StorageError(f"no Delta table at '{path}' any more; was it dropped?")


def own_marks(identity: str, counts: Sequence[int | None], n_added: int | None) -> dict[str, str]:
    """Return what a commit is to say of its table.

    ``counts`` are the rows of the live files that stay, None where their writer did not say;
    ``n_added`` those of the files that come.
    """
    known = [count for count in counts if count is not None]
    if n_added is None or len(known) < len(counts):
        return {TABLE: identity}
    return {TABLE: identity, ROWS: str(sum(known) + n_added)}
