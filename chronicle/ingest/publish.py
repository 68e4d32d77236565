"""Make what an ingest wrote part of a stream, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronicle.commit import commit_files
from chronicle.delta_log import add_files, create_table, new_files
from chronicle.errors import CommitConflictError
from chronicle.ingest.quarantine import QUARANTINE_SCHEMA, QuarantineFile
from chronicle.ingest.staging import move_files, remove_files
from chronicle.ingest.write import QUARANTINE_TABLE, TaskOutputs
from chronicle.store import Stream


def publish_first(
    staged: Stream, place: Path, outputs: TaskOutputs, *, metadata: Mapping[str, str]
) -> int:
    """Complete a new stream where nobody sees it, then move it to its place.

    Returns
    -------
    int
        Version of the events table that holds the events.

    Raises
    ------
    CommitConflictError
        If another process created a stream of that name meanwhile.
    """
    read_version = staged.snapshot().version
    commit_quarantine(staged, outputs.quarantine)
    version = commit_files(staged, outputs.files, read_version=read_version, metadata=metadata)
    move_stream(staged.path, place)
    return version


def publish_append(
    stream: Stream,
    staged_files: Path,
    outputs: TaskOutputs,
    *,
    read_version: int,
    metadata: Mapping[str, str],
) -> int:
    """Move files into an existing stream and commit them; takes them out again on failure.

    Returns
    -------
    int
        Version of the events table that holds the events.

    Raises
    ------
    CommitConflictError
        If another process wrote to the stream after ``read_version``.
    """
    moved = move_files(staged_files, stream.path)
    try:
        commit_quarantine(stream, outputs.quarantine)
        return commit_files(stream, outputs.files, read_version=read_version, metadata=metadata)
    except BaseException:
        _remove_uncommitted(stream, outputs, moved)
        raise


def commit_quarantine(stream: Stream, files: Sequence[QuarantineFile]) -> None:
    """Add files to the quarantine table, before the events they were separated from.

    Rows count only if a commit to the events table carries their batch.
    """
    if not files:
        return
    table = stream.path / QUARANTINE_TABLE
    create_table(table, QUARANTINE_SCHEMA, {})
    added = new_files((file.name, file.size_bytes, file.n_rows) for file in files)
    add_files(table, added, read_version=None, metadata={})


def move_stream(staged: Path, place: Path) -> None:
    """Move a finished stream to its place in the store; it appears whole."""
    try:
        staged.rename(place)
    except OSError as error:
        if not place.exists():
            raise
        raise CommitConflictError(
            f"another process created stream '{place.name}' meanwhile; nothing was ingested, "
            "run it again to append to it"
        ) from error


def _remove_uncommitted(stream: Stream, outputs: TaskOutputs, moved: list[Path]) -> None:
    """Remove moved files, unless the commit they belong to landed before the failure."""
    live = {file.name for file in stream.snapshot().files}
    if any(file.name in live for file in outputs.files):
        return
    # Quarantine files may have been committed already; without the events nothing counts them.
    quarantine = stream.path / QUARANTINE_TABLE
    remove_files([path for path in moved if quarantine not in path.parents])
