"""Make what an ingest wrote part of a stream, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronicle.disk import discard, flush, unwritten
from chronicle.errors import CommitConflictError
from chronicle.store import Stream
from chronicle.stream_folder import move_files, put_in_place
from chronicle.write.commit import Change, Committed, check_whole, commit_change, has_landed
from chronicle.write.quarantine import QUARANTINE_TABLE, QuarantineFile, commit_quarantine


def publish_first(
    staged: Stream,
    place: Path,
    change: Change,
    quarantine: Sequence[QuarantineFile],
    *,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int],
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
    StorageError
        If anything of it cannot be committed; nobody sees the stream then.
    """
    commit_quarantine(staged.path, quarantine)
    committed = commit_change(
        staged,
        change,
        read_version=staged.snapshot().version,
        metadata=metadata,
        transactions=transactions,
    )
    check_whole(committed, place)
    move_stream(staged.path, place)
    return committed.version


def publish_append(
    stream: Stream,
    staged_files: Path,
    change: Change,
    quarantine: Sequence[QuarantineFile],
    *,
    read_version: int,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int],
) -> Committed:
    """Move files into an existing stream and commit them; takes them out again on failure.

    Raises
    ------
    CommitConflictError
        If what another process committed after ``read_version`` does not go with the change.
    """
    moved = move_files(staged_files, stream.path)
    try:
        with stream.held():
            commit_quarantine(stream.path, quarantine)
        return commit_change(
            stream,
            change,
            read_version=read_version,
            metadata=metadata,
            transactions=transactions,
        )
    except BaseException:
        _remove_moved(stream, change, moved, since=read_version)
        raise


def move_stream(staged: Path, place: Path) -> None:
    """Move a finished stream to its place in the store; it appears whole."""
    try:
        put_in_place(staged, place)
    except OSError as error:
        if not place.exists():
            raise unwritten(place, error) from error
        raise CommitConflictError(
            f"another process created stream '{place.name}' meanwhile; nothing was ingested, "
            "run it again to append to it"
        ) from error
    flush([place.parent])


def _remove_moved(stream: Stream, change: Change, moved: list[Path], *, since: int) -> None:
    """Remove moved files, unless the commit they belong to landed before the failure."""
    if has_landed(stream, change.added, since=since):
        return
    # Quarantine files may have been committed already; without the events nothing counts them.
    quarantine = stream.path / QUARANTINE_TABLE
    discard([path for path in moved if quarantine not in path.parents])
