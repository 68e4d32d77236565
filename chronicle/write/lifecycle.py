"""The life of a stream as a whole: drop it, rename it, delete a range of its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chronicle.arguments import check_name, check_type
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedWriter
from chronicle.disk import flush
from chronicle.errors import (
    CommitConflictError,
    StorageError,
    StreamExistsError,
    StreamNotFoundError,
)
from chronicle.snapshot import DataFile, Snapshot
from chronicle.store import Store, Stream, watched
from chronicle.stream_folder import check_stream_name, locked_folder, open_staging
from chronicle.words import number_of
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import DELETE, OPERATION, Change, commit_change, remove_uncommitted
from chronicle.write.rewrite import Rewrite, rewrite_files

_ATTEMPTS_MAX = 20
"""Times a deletion is prepared anew because others committed first."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What a deletion did."""

    n_events: int
    """Events deleted."""

    n_files_removed: int
    """Data files of which no event was left."""

    n_files_rewritten: int
    """Data files of which some were."""

    version: int
    """Version of the events table without the events."""

    fault: str | None = None
    """What failed once the events were deleted."""

    def __str__(self) -> str:
        return (
            f"{self.n_events:,} events deleted, version {self.version}: {self.n_files_removed:,} "
            f"files removed, {self.n_files_rewritten:,} rewritten"
        )


def drop_stream(store: Store, name: str) -> None:
    """Remove a stream with all its versions and indexes; it vanishes at once.

    What a crash leaves behind, the next ingest or vacuum removes.

    Parameters
    ----------
    store
        Where the stream is.
    name
        Name of the stream.

    Raises
    ------
    StreamNotFoundError
        If there is none of that name.
    StorageError
        If its folder cannot be moved.
    """
    check_type(store, Store)
    check_name(name, "stream")
    with open_staging(store.path) as staging:
        _move(store, name, staging / name)


def drop_if_empty(store: Store, stream: Stream) -> None:
    """Remove a stream that was made and not filled, unless somebody else has appended to it."""
    with open_staging(store.path) as staging:
        _move(
            store,
            stream.name,
            staging / stream.name,
            unless=lambda: stream.snapshot().n_events > 0,
        )


def rename_stream(store: Store, old: str, new: str) -> Stream:
    """Give a stream another name, at once and for all processes.

    What another process is about to commit under the old name fails there; run it again.

    Parameters
    ----------
    store
        Where the stream is.
    old, new
        Its name, and the one it gets.

    Returns
    -------
    Stream
        The stream under its new name.

    Raises
    ------
    StreamNotFoundError
        If there is no stream ``old``.
    StreamExistsError
        If the store has something called ``new``.
    StorageError
        If no stream can have that name, or the folder cannot be moved.
    """
    check_type(store, Store)
    check_name(old, "stream")
    check_name(new, "stream")
    check_stream_name(new)
    target = store.path / new
    if target.exists():
        raise StreamExistsError(
            f"stream '{old}' cannot be called '{new}', which store '{store.path}' has already; "
            "take another name or drop that one first"
        )
    _move(store, old, target)
    return store.stream(new)


def _move(
    store: Store, name: str, target: Path, *, unless: Callable[[], bool] = lambda: False
) -> None:
    """Move a stream's folder, which makes it known to nobody under its old name.

    ``unless`` is asked when nobody can commit to it any more.
    """
    if name not in store.stream_names():
        raise StreamNotFoundError(name, candidates=store.stream_names())
    folder = store.path / name
    try:
        # Who commits to it holds it in its place; who comes later finds it gone.
        with locked_folder(folder, alone=True):
            if unless():
                return
            folder.rename(target)
        flush([store.path])
    except FileNotFoundError as error:
        raise StreamNotFoundError(name, candidates=store.stream_names()) from error
    except OSError as error:
        if target.exists():
            raise StreamExistsError(
                f"another process made '{target.name}' in store '{store.path}' meanwhile; take "
                "another name"
            ) from error
        raise StorageError(
            f"folder '{store.path / name}' cannot be moved ({error.strerror}); check its "
            "permissions"
        ) from error
    store.forget(name)


@watched
def delete_range(
    stream: Stream,
    start: int | None,
    stop: int | None,
    *,
    derived: DerivedWriter | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> DeleteReport:
    """Delete the events of a range of time, in one commit.

    Data files that lie in it leave the stream, those at its rim are written anew. Older versions
    keep the events until vacuum removes their files. Events that other processes append to the
    range meanwhile are deleted too if they are committed first.

    Parameters
    ----------
    stream
        Whose events.
    start, stop
        Internal times, half-open; None is unbounded.
    derived
        Writes runs of the new files, such as ``indexing.writer_for(stream)`` gives; without one
        they are the tail of the indexes until the next compaction.
    progress
        Told what is being done, in words.

    Raises
    ------
    TypeError
        If a time is none of the internal ones.
    CommitConflictError
        If other processes rewrite the same files first again and again.
    CorruptBlockError
        If a file at the rim cannot be read.
    StorageError
        If the store cannot be written; nothing was deleted.
    """
    check_type(stream, Stream)
    for time in (start, stop):
        if time is not None and not hasattr(time, "__index__"):
            raise TypeError(
                "expected a time as an integer (in microseconds since 1970 where times are "
                f"timestamps) or None, not {time!r}"
            )
    stream.check_writable()
    total = DeleteReport(0, 0, 0, stream.refresh())
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        snapshot = stream.snapshot()
        plan = plan_deletion(snapshot, start, stop)
        if not plan.n_events:
            break
        progress(
            f"deleting {plan.n_events:,} events: {len(plan.whole):,} files go, "
            f"{len(plan.partly):,} are written anew"
        )
        try:
            report = _delete(stream, snapshot, plan, (start, stop), derived)
        except CommitConflictError:
            if attempt == _ATTEMPTS_MAX:
                raise
            continue
        total = _sum_of(total, report)
        if report.version == snapshot.version + 1:
            break
        # Others committed first what did not keep this from landing: it may lie in the range.
    return total


def _sum_of(first: DeleteReport, second: DeleteReport) -> DeleteReport:
    return DeleteReport(
        first.n_events + second.n_events,
        first.n_files_removed + second.n_files_removed,
        first.n_files_rewritten + second.n_files_rewritten,
        second.version,
        second.fault or first.fault,
    )


@dataclass(frozen=True, slots=True)
class Deletion:
    """Which data files lose events."""

    n_events: int
    whole: tuple[DataFile, ...]
    """Lose all of them."""

    partly: tuple[DataFile, ...]
    """Lose some."""


def plan_deletion(snapshot: Snapshot, start: int | None, stop: int | None) -> Deletion:
    """Return which data files hold events of [start, stop); reads at most two blocks."""
    first = 0 if start is None else snapshot.seq_at(start)
    last = snapshot.n_events if stop is None else snapshot.seq_at(stop)
    whole: list[DataFile] = []
    partly: list[DataFile] = []
    begin = 0
    for file in snapshot.files:
        end = begin + file.n_events
        if first <= begin and end <= last:
            whole.append(file)
        elif max(first, begin) < min(last, end):
            partly.append(file)
        begin = end
    return Deletion(max(0, last - first), tuple(whole), tuple(partly))


def _delete(
    stream: Stream,
    snapshot: Snapshot,
    plan: Deletion,
    time_range: tuple[int | None, int | None],
    derived: DerivedWriter | None,
) -> DeleteReport:
    start, stop = time_range
    drop = (_INT64_MIN if start is None else start, _INT64_MAX if stop is None else stop)
    written: list[WrittenFile] = []
    try:
        for file in plan.partly:
            written += rewrite_files(
                Rewrite((file.name,), file.ordinal, drop=drop),
                events_dir=stream.path / EVENTS_TABLE,
                target_dir=stream.path,
                schema=stream.schema,
                settings=stream.settings,
                derived=derived,
            )
        _check_count(plan, written, stream)
        removed = tuple(file.name for file in (*plan.whole, *plan.partly))
        committed = commit_change(
            stream,
            Change(tuple(written), removed),
            read_version=snapshot.version,
            metadata={OPERATION: DELETE, "n_events": str(plan.n_events)},
        )
    except BaseException:
        remove_uncommitted(stream, written, since=snapshot.version)
        raise
    return DeleteReport(
        plan.n_events, len(plan.whole), len(plan.partly), committed.version, committed.fault
    )


def _check_count(plan: Deletion, written: list[WrittenFile], stream: Stream) -> None:
    """Refuse to commit where the blocks hold other events than the tree says."""
    n_before = sum(file.n_events for file in (*plan.whole, *plan.partly))
    n_left = sum(file.n_events for file in written)
    if n_before - n_left != plan.n_events:
        raise StorageError(
            f"{number_of(n_before - n_left, 'event')} of stream '{stream.name}' in the range where "
            f"its tree has {plan.n_events:,}; nothing was deleted, run 'chronicle check'"
        )
