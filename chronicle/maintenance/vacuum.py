"""Delete what no retained version of a stream needs: replaced files, dead runs, leftovers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle import config
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedChange, DerivedWriter
from chronicle.disk import unwritten
from chronicle.errors import VersionNotFoundError
from chronicle.log import delta_log
from chronicle.log.delta_log import Commit
from chronicle.log.history import version_at
from chronicle.maintenance.orphans import find_links, is_own_file
from chronicle.store import Stream, watched
from chronicle.stream_folder import remove_abandoned
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.words import megabytes, number_of
from chronicle.write.commit import OPERATION
from chronicle.write.quarantine import QUARANTINE_TABLE, named_batches

_VACUUM = "vacuum"


@dataclass(frozen=True, slots=True)
class FileOnDisk:
    """A file in the folder of a table, whether the table knows it or not."""

    name: str
    size_bytes: int
    changed_ms: int
    """When it was written or, if that is later, moved to its place; milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a vacuum removed, or would."""

    n_files: int
    n_bytes: int
    bytes_by_table: Mapping[str, int]
    """By table of the stream, such as ``events``; only tables that files went from."""

    n_staging: int
    """Folders of ingests that were killed."""

    oldest_version: int
    """The first version that can still be read for certain."""

    dry_run: bool

    links: tuple[str, ...] = ()
    """Links in the stream's folder: nothing behind them was looked at."""

    def __str__(self) -> str:
        verb = "would be removed" if self.dry_run else "removed"
        by_table = "".join(
            f"\n  {megabytes(n_bytes)} of '{table}'"
            for table, n_bytes in self.bytes_by_table.items()
        )
        killed = (
            f"\n  {number_of(self.n_staging, 'folder')} of killed ingests" if self.n_staging else ""
        )
        links = "".join(f"\n  '{link}' is a link and was left alone" for link in self.links)
        return (
            f"{number_of(self.n_files, 'file')} of {megabytes(self.n_bytes)} {verb}; versions from "
            f"{self.oldest_version} on stay readable{by_table}{killed}{links}"
        )


@dataclass(slots=True)
class _Plan:
    """What is to go."""

    oldest_version: int
    leave: list[DerivedChange] = field(default_factory=list)
    """Files that leave their tables first."""

    delete: dict[str, list[FileOnDisk]] = field(default_factory=dict)
    """By table."""


def oldest_retained(commits: Sequence[Commit], cutoff: dt.datetime) -> int:
    """Return the oldest version that was the newest one at some time after ``cutoff``. Pure.

    So a version is retained by when it was replaced, not by when it was made: a question as of
    any time within the retention has its answer.

    ``commits`` come newest first, at least one; ``cutoff`` is the begin of the retention.
    """
    try:
        return version_at(commits, cutoff)
    except VersionNotFoundError:
        return commits[-1].version


def choose_garbage(
    on_disk: Iterable[FileOnDisk], *, kept: Collection[str], cutoff_ms: int
) -> list[FileOnDisk]:
    """Choose the files that are needed neither now nor by what is under way. Pure.

    ``on_disk`` was listed before ``kept`` was read: so what is committed meanwhile is known or was
    not there yet. Files younger than ``cutoff_ms`` may belong to an ingest that has not committed
    yet.
    """
    return [file for file in on_disk if file.name not in kept and file.changed_ms <= cutoff_ms]


@watched
def vacuum(
    stream: Stream,
    *,
    derived: DerivedWriter | None = None,
    retention: dt.timedelta = config.VACUUM_RETENTION,
    dry_run: bool = False,
    now: dt.datetime | None = None,
) -> VacuumReport:
    """Remove files that no retained version needs; older versions cannot be read afterwards.

    Retained are the newest version and all that were the newest at some time within the
    retention. Removed are data files of older versions alone with their tree files; runs that
    left their index, or cover none of the files kept; quarantined records whose ingest never
    committed; leftovers of killed processes. The Delta logs stay as they are: Delta itself drops
    commits older than its log retention, and with them their part of the history.

    Parameters
    ----------
    stream
        Whose files.
    derived
        Knows the indexes of the stream; None leaves their files alone.
    retention
        For how long replaced files stay. Zero keeps the newest version alone and is *not safe*
        while other processes write to the stream or read older versions: files that they have
        written and not committed yet are taken for leftovers.
    dry_run
        Whether to report only.
    now
        Present time, with a zone; the clock's if None.

    Raises
    ------
    ValueError
        If ``retention`` is negative.
    StorageError
        If a log cannot be read, or a file cannot be deleted. What a vacuum left undone the next
        one does.
    """
    if retention < dt.timedelta(0):
        raise ValueError(f"retention is {retention}; give a time span of zero or more")
    cutoff = (now or dt.datetime.now(dt.UTC)) - retention
    plan = _plan(stream, derived, cutoff)
    stream.refresh()  # nothing goes of another stream that was made in its place
    abandoned = remove_abandoned(stream.path.parent, dry_run=dry_run)
    if not dry_run:
        _carry_out(stream, plan)
    n_bytes = {
        table: sum(file.size_bytes for file in files)
        for table, files in plan.delete.items()
        if files
    }
    return VacuumReport(
        n_files=sum(len(files) for files in plan.delete.values()),
        n_bytes=sum(n_bytes.values()),
        bytes_by_table=n_bytes,
        n_staging=len(abandoned),
        oldest_version=plan.oldest_version,
        dry_run=dry_run,
        links=tuple(link.as_posix() for link in find_links(stream.path)),
    )


def _plan(stream: Stream, derived: DerivedWriter | None, cutoff: dt.datetime) -> _Plan:
    """Choose what goes; changes nothing."""
    cutoff_ms = int(cutoff.timestamp() * 1000)
    derived_tables = [] if derived is None else list(derived.tables(stream.schema))
    tables = (EVENTS_TABLE, TREE_TABLE, QUARANTINE_TABLE, *derived_tables)
    # Folders are listed before logs are read: see choose_garbage. For the same reason tables of
    # derived files are read before the events they derive from.
    on_disk = {table: _list_files(stream.path / table) for table in tables}
    trees = {file.name for file in delta_log.live_files(stream.path / TREE_TABLE)}
    commits = delta_log.commits(stream.path / EVENTS_TABLE)
    plan = _Plan(oldest_retained(commits, cutoff))
    kept = {table: _kept(stream.path / table, cutoff) for table in tables}
    # Tree files are named like their data files, and read at their table's newest version.
    kept[TREE_TABLE] = kept[EVENTS_TABLE]
    plan.leave.append(DerivedChange(TREE_TABLE, (), tuple(sorted(trees - kept[EVENTS_TABLE]))))
    if derived is not None:
        plan.leave += derived.expired(stream.path, kept[EVENTS_TABLE])
    unnamed = _unnamed_batches(stream.path / QUARANTINE_TABLE, commits, cutoff_ms)
    plan.leave.append(DerivedChange(QUARANTINE_TABLE, (), tuple(unnamed)))
    for change in plan.leave:
        kept[change.table] = kept[change.table] - set(change.removed)
    for table, files in on_disk.items():
        plan.delete[table] = choose_garbage(files, kept=kept[table], cutoff_ms=cutoff_ms)
    return plan


def _carry_out(stream: Stream, plan: _Plan) -> None:
    """Take files out of their tables, then delete; a crash in between leaves them leftovers."""
    for change in plan.leave:
        if change.removed:
            with stream.held():
                delta_log.commit_changes(
                    stream.path / change.table,
                    remove=change.removed,
                    read_version=None,
                    metadata={OPERATION: _VACUUM},
                    data_change=False,
                )
    for table, files in plan.delete.items():
        for file in files:
            path = stream.path / table / file.name
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise unwritten(path, error, "deleted") from error


def _list_files(folder: Path) -> list[FileOnDisk]:
    """Return the files of Chronicle's in the folder of a table, sorted; none behind a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.iterdir()):
        try:
            status = path.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # moved or removed meanwhile by its own process
        if is_own_file(path):
            changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
            found.append(FileOnDisk(path.name, status.st_size, changed_ns // 1_000_000))
    return found


def _kept(path: Path, cutoff: dt.datetime) -> frozenset[str]:
    """Return the files of a table that live in any version retained."""
    if not delta_log.table_exists(path):
        return frozenset()
    oldest = oldest_retained(delta_log.commits(path), cutoff)
    later = (change.added for change in delta_log.changes_since(path, oldest))
    return frozenset(file.name for file in delta_log.live_files(path, oldest)).union(*later)


def _unnamed_batches(path: Path, commits: Sequence[Commit], cutoff_ms: int) -> list[str]:
    """Return the files of the quarantine table of which no commit to the events names the batch.

    Where Delta dropped the first commits there is no telling, and every file stays.
    """
    if not delta_log.table_exists(path) or commits[-1].version > 0:
        return []
    named = named_batches(commits)
    old = {file.name for file in _list_files(path) if file.changed_ms <= cutoff_ms}
    live = sorted(file.name for file in delta_log.live_files(path) if file.name in old)
    return [name for name in live if _is_unnamed(path / name, named)]


def _is_unnamed(path: Path, named: Collection[str]) -> bool:
    """Return whether a quarantine file holds other batches alone; one that is damaged may not."""
    try:
        column = pq.read_table(path, columns=["batch"]).column("batch")
    except (OSError, pa.ArrowException):
        return False
    return not any(batch in named for batch in column.unique().to_pylist())
