"""Commits to Delta tables: create one, add and remove files, add columns."""

from __future__ import annotations

import json
import time as clock
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from chronicle.disk import discard, flush, writing
from chronicle.disk_errors import unwritten_remedy
from chronicle.errors import CommitConflictError, StorageError, UnflushedCommitError
from chronicle.foreign_text import actions_of
from chronicle.log.delta_log.files import (
    APPLICATION_ID,
    LOG_FOLDER,
    check_place,
    commit_path,
    has_commit,
    table_exists,
    version_exists_after,
)
from chronicle.log.delta_log.reading import COMMIT, first_line, open_table, own_marks, read_marks

_CHECKPOINT_COMMITS = 20
"""Commits between two checkpoints of a log. To open a table takes a checkpoint and the commits
behind it; at Delta's 100 a small append into an old stream took three times as long as into a new
one, and writing a checkpoint costs no more than an opening."""

_NOTHING_AFTERWARDS = deltalake.PostCommitHookProperties(
    create_checkpoint=False, cleanup_expired_logs=False
)
"""A commit is one file that appears: what follows it must not make it look failed, and old commits
may go only once the disk holds the checkpoint that stands for them."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to add to a table; it lies in the table's folder already."""

    name: str
    size_bytes: int
    statistics: Mapping[str, Any]
    """Delta's per-file statistics; ``numRecords`` at least."""


def new_files(entries: Iterable[tuple[str, int, int]]) -> list[NewFile]:
    """Return files to add, from (name, size in bytes, number of rows)."""
    return [NewFile(name, size, {"numRecords": rows}) for name, size, rows in entries]


def create_table(path: Path, schema: pa.Schema, properties: Mapping[str, str]) -> bool:
    """Create an empty table; leaves one that exists as it is.

    Returns whether this call created it: of two processes one gets True.
    """
    if table_exists(path):
        return False
    check_place(path, is_new=True)
    try:
        path.mkdir(parents=True, exist_ok=True)
        deltalake.DeltaTable.create(
            str(path),
            deltalake.Schema.from_arrow(schema),
            mode="error",
            configuration={"delta.checkpointInterval": str(_CHECKPOINT_COMMITS), **properties},
            raise_if_key_not_exists=False,
            post_commithook_properties=_NOTHING_AFTERWARDS,
        )
    except (DeltaError, OSError) as error:
        if table_exists(path):
            return False
        raise StorageError(
            f"Delta table '{path}' cannot be created ({first_line(error)}); "
            f"{unwritten_remedy(error)}"
        ) from error
    _forget_location(path)
    # Folders may be new up to that of the stream: who names them must be flushed too.
    flush([path / LOG_FOLDER, path, path.parent, path.parent.parent])
    return True


def _forget_location(path: Path) -> None:
    """Take the absolute path out of the first commit: a store can be moved."""
    commit = commit_path(path, 0)
    draft = commit.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        with writing(commit):
            lines = actions_of(commit.read_text(encoding="utf-8"))
            for line in lines:
                line.get("commitInfo", {}).get("operationParameters", {}).pop("location", None)
            draft.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            flush([draft])
            draft.replace(commit)
    finally:
        discard([draft])


def commit_changes(
    path: Path,
    *,
    add: Sequence[NewFile] = (),
    remove: Sequence[str] = (),
    read_version: int | None,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int] | None = None,
    data_change: bool = True,
) -> int:
    """Commit files that were written beforehand, and take others out, at once.

    Files to add lie below ``path``; the bytes of those to remove stay for older versions.
    ``read_version`` is the version that the change was prepared on: the commit fails if another one
    landed since. It is None for derived tables, where adding a file twice is harmless and one to
    remove may have been removed by another process. ``metadata`` rides in the commit for the
    history; ``transactions`` outlive its history, see ``transaction_version``; ``data_change`` is
    False where the same rows lie in other files than before.

    Returns the version this commit made; for derived tables one that holds it. Raises
    CommitConflictError if another commit landed after ``read_version`` (nothing was committed),
    UnflushedCommitError if the disk does not confirm that it holds the commit.

    Notes
    -----
    delta-rs lets an append that lost the race try again behind the winner, since appends commute
    for Delta; they do not for streams. Without retries the commit is version
    ``read_version + 1`` or fails; the application transaction makes writers that do retry fail.
    """
    table = open_table(path, read_version)
    sizes = _sizes_to_remove(table, remove, path, strict=read_version is not None)
    if not add and not sizes and read_version is None:
        return table.version()
    now_ms = clock.time_ns() // 1_000_000
    actions: list[Any] = [_to_action(path, file, data_change=data_change) for file in add]
    actions += [
        RemoveAction(name, data_change, now_ms, size=size, partition_values={})
        for name, size in sizes.items()
    ]
    write = partial(table.create_write_transaction, actions, mode="append", schema=table.schema())
    marks = _marks(table, add, sizes) if read_version is not None else {}
    return _commit(path, table.version(), read_version, write, {**metadata, **marks}, transactions)


def _commit(
    path: Path,
    before: int,
    read_version: int | None,
    write: Callable[..., object],
    metadata: Mapping[str, str],
    transactions: Mapping[str, int] | None,
) -> int:
    """Let ``write`` make a commit on version ``before``; return its version."""
    properties = _properties(metadata, read_version, transactions or {})
    flush_commits(path, before, before)
    try:
        write(commit_properties=properties, post_commithook_properties=_NOTHING_AFTERWARDS)
    except Exception as error:
        if read_version is None or not _has_landed(path, read_version + 1, metadata[COMMIT]):
            if not isinstance(error, DeltaError | OSError):
                raise
            raise _commit_error(path, read_version, before, error) from error
    return _after_commit(path, before, read_version)


def _marks(
    table: deltalake.DeltaTable, add: Sequence[NewFile], removed: Mapping[str, int]
) -> dict[str, str]:
    """Return what a commit says of its table, by which one that is overwritten is known."""
    actions = pa.table(table.get_add_actions())
    counts = [None] * actions.num_rows
    if "num_records" in actions.column_names:
        counts = actions.column("num_records").to_pylist()
    names = actions.column("path").to_pylist()
    gone = {*removed, *(file.name for file in add)}  # a file that is listed anew counts once
    kept = [count for name, count in zip(names, counts, strict=True) if name not in gone]
    known = [int(file.statistics["numRecords"]) for file in add if "numRecords" in file.statistics]
    n_added = sum(known) if len(known) == len(add) else None
    return own_marks(str(table.metadata().id), kept, n_added) | {COMMIT: uuid.uuid4().hex}


def _has_landed(path: Path, version: int, name: str) -> bool:
    """Return whether the commit of a version is the one of this name."""
    try:
        marks = read_marks(commit_path(path, version))
    except StorageError:
        return False
    return marks is not None and marks.name == name


def add_columns(
    path: Path, columns: pa.Schema, *, read_version: int | None, metadata: Mapping[str, str]
) -> int:
    """Add nullable columns to a table, behind those it has; return the version that has them.

    ``read_version``, ``metadata`` and errors are as for ``commit_changes``; columns that a derived
    table has already are left as they are.
    """
    table = open_table(path, read_version)
    known = pa.schema(table.schema().to_arrow()).names
    fields = deltalake.Schema.from_arrow(columns).fields
    new = [field for field in fields if read_version is not None or field.name not in known]
    if not new:
        return table.version()
    write = partial(table.alter.add_columns, new)
    marks = _marks(table, (), {}) if read_version is not None else {}
    return _commit(path, table.version(), read_version, write, {**metadata, **marks}, None)


def flush_commits(path: Path, first: int, last: int) -> None:
    """Wait until the disk holds the commits of versions ``first`` to ``last``.

    Why this is enough: whoever commits has flushed the version it stands on, so a commit that is
    there says that the disk holds all before the one it followed. delta-rs flushes nothing.
    """
    found = [version for version in range(first, last + 1) if has_commit(path, version)]
    flush([*(commit_path(path, version) for version in found), path / LOG_FOLDER])


def _after_commit(path: Path, before: int, read_version: int | None) -> int:
    """Flush what was committed after version ``before``; return the version that holds it."""
    version = _newest_from(path, before) if read_version is None else read_version + 1
    try:
        flush_commits(path, before + 1, version)
    except StorageError as error:
        raise UnflushedCommitError(path, version, str(error)) from error
    if version // _CHECKPOINT_COMMITS > before // _CHECKPOINT_COMMITS:
        _checkpoint(path)
    return version


def _checkpoint(path: Path) -> None:
    """Sum up the log in a checkpoint, and drop the commits that are older than Delta keeps them.

    A checkpoint saves time alone: that it cannot be written is no fault of the commit before it.
    """
    with suppress(DeltaError, OSError, StorageError):
        table = deltalake.DeltaTable(str(path))
        table.create_checkpoint()
        log = path / LOG_FOLDER
        fresh = log.glob(f"{table.version():020d}.checkpoint*.parquet")
        flush([*fresh, log / "_last_checkpoint", log])
        table.cleanup_metadata()


def _newest_from(path: Path, version: int) -> int:
    """Return the newest version, by a ``stat`` for each that came after ``version``."""
    while version_exists_after(path, version):
        version += 1
    return version


def _properties(
    metadata: Mapping[str, str], read_version: int | None, transactions: Mapping[str, int]
) -> deltalake.CommitProperties:
    """Return what rides in a commit; one prepared on a version lands right behind it or fails."""
    riding = [deltalake.Transaction(name, number) for name, number in transactions.items()]
    if read_version is None:
        return deltalake.CommitProperties(
            custom_metadata=dict(metadata), app_transactions=riding or None
        )
    own = deltalake.Transaction(APPLICATION_ID, read_version + 1)
    return deltalake.CommitProperties(
        custom_metadata=dict(metadata), max_commit_retries=0, app_transactions=[own, *riding]
    )


def _commit_error(
    path: Path, read_version: int | None, version: int, error: Exception
) -> StorageError:
    lost = isinstance(error, CommitFailedError) and read_version is not None
    if lost and version_exists_after(path, version):
        return CommitConflictError(
            f"another process committed to '{path}' after version {read_version}; nothing of "
            "this commit is visible, run it again"
        )
    place = commit_path(path, version + 1)
    if place.is_dir():
        return StorageError(
            f"commit '{place}' cannot be written, since a folder of that name lies there; move it "
            "away, or run 'chronicle repair', which puts it aside"
        )
    return StorageError(
        f"commit to Delta table '{path}' failed ({first_line(error)}); {unwritten_remedy(error)}"
    )


def _sizes_to_remove(
    table: deltalake.DeltaTable, names: Sequence[str], path: Path, *, strict: bool
) -> dict[str, int]:
    """Return the sizes of files to remove, of those that live."""
    if not names:
        return {}
    actions = pa.table(table.get_add_actions())
    columns = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    live = dict(zip(*columns, strict=True))
    missing = [name for name in names if name not in live]
    if missing and strict:
        raise StorageError(
            f"file '{path / missing[0]}' is not part of version {table.version()} of its table "
            "and cannot be taken out; run it again"
        )
    return {name: live[name] for name in names if name in live}


def _to_action(path: Path, file: NewFile, *, data_change: bool) -> AddAction:
    try:
        modified_ms = (path / file.name).stat().st_mtime_ns // 1_000_000
    except FileNotFoundError as error:
        raise StorageError(
            f"file '{path / file.name}' is gone before it was committed; was its stream or index "
            "dropped meanwhile? Run it again"
        ) from error
    statistics = json.dumps(dict(file.statistics))
    return AddAction(file.name, file.size_bytes, {}, modified_ms, data_change, statistics)
