"""The commit protocol: events first, then what is derived from them, each step on its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from chronicle.config import EVENTS_TABLE
from chronicle.derived import DERIVED_SCHEMA, DerivedChange, DerivedFile, DerivedWriter
from chronicle.disk import flush
from chronicle.disk_errors import reason_of
from chronicle.errors import CommitConflictError, CorruptTreeError, StorageError
from chronicle.log import delta_log
from chronicle.log.delta_log import LoggedChange, NewFile, new_files
from chronicle.log.stream_metadata import add_metadata
from chronicle.ordinal import levels_of
from chronicle.snapshot import DataFile
from chronicle.store import Stream
from chronicle.time import to_int64
from chronicle.tree.blocks import BlockReader
from chronicle.tree.derived_attributes import extend
from chronicle.tree.tree_file import TREE_TABLE, TreeFile
from chronicle.write.block_writer import WrittenFile, remove_written, write_tree

OPERATION = "chronicle.operation"
"""Name, in a commit's metadata, of what it did."""

INGEST, APPEND, COMPACT, DELETE, ADD_COLUMN = "ingest", "append", "compact", "delete", "add column"
MATERIALISE = "materialise"
ADOPT = "adopt"

SOURCE_PREFIX = "chronicle.source."
"""Ids of transactions that begin so stand for source files, their numbers for the content."""

R = TypeVar("R")

_YEAR_1_US = -62_135_596_800_000_000
_YEAR_10000_US = 253_402_300_800_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """Data files that come and go in one commit."""

    added: tuple[WrittenFile, ...]
    removed: tuple[str, ...] = ()
    rearranges: bool = False
    """Whether no event comes or goes: the same ones lie in other files."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a change: its events are in the stream, whatever ``fault`` says."""

    version: int
    """Version of the events table that it made."""

    fault: str | None = None
    """What was not committed of what is derived from the events, and why."""


def retried(attempt: Callable[[], R], *, attempts: int = 20) -> R:
    """Return what an attempt returns, made anew where others commit first; the last one raises."""
    for _ in range(attempts - 1):
        with suppress(CommitConflictError):
            return attempt()
    return attempt()


def commit_change(
    stream: Stream,
    change: Change,
    *,
    read_version: int,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int] | None = None,
) -> Committed:
    """Commit written files: events, then tree entries, then runs.

    A crash in between loses nothing: the events exist once the first step is done, and
    ``complete_derived`` does the rest. For the same reason what fails afterwards is no failure of
    the change, which would be made twice by whoever tried again.

    ``read_version`` is the version of the events table that the change was prepared on;
    ``metadata`` and ``transactions`` ride in the events commit.

    Raises CommitConflictError if other commits landed after it that the change does not commute
    with, see ``why_unsafe``. Whatever is raised, nothing was committed.
    """
    version = commit_events(
        stream, change, read_version=read_version, metadata=metadata, transactions=transactions
    )
    fault = None
    for commit in (commit_tree, commit_derived):
        try:
            commit(stream, change.added)
        except Exception as error:  # noqa: BLE001 - whatever it is, the events are in
            fault = fault or derived_fault(error)
    return Committed(version, fault)


def check_whole(committed: Committed, place: Path) -> None:
    """Check that all was committed of a stream that nobody sees yet: it can be made anew."""
    if committed.fault is not None:
        raise StorageError(
            f"stream '{place.name}' was not made in '{place.parent}': {committed.fault}"
        )


def derived_fault(error: Exception) -> str:
    """Return a sentence on what is derived and was not committed with its events. Pure."""
    return (
        f"tree or index entries of these events may be missing ({reason_of(error)}); answers stay "
        "right without them, 'chronicle repair' writes them"
    )


def commit_events(
    stream: Stream,
    change: Change,
    *,
    read_version: int,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int] | None = None,
) -> int:
    """Commit data files to the events table: the moment their events exist.

    Where others committed first, the change is based on what they left if it commutes with it.
    The disk holds the data files before the commit names them.
    Whatever a command checks before it, here no event gets into an adopted stream but by adopting.
    """
    if metadata.get(OPERATION) != ADOPT:
        stream.check_writable()
    time = stream.settings.time
    data_type = stream.schema.field(time).type
    additions = [
        NewFile(
            file.name,
            file.size_bytes,
            {"numRecords": file.n_events}
            | time_statistics(time, data_type, file.t_min, file.t_max),
        )
        for file in change.added
    ]
    if change.rearranges and not keeps_order(change, stream.snapshot(read_version).files):
        raise CommitConflictError(
            f"events were added to stream '{stream.name}' between those that were to become one "
            "file; nothing of this is visible, run it again"
        )
    events = stream.path / EVENTS_TABLE
    flush([*(events / file.name for file in change.added), events])
    while True:
        try:
            with stream.held():
                return delta_log.commit_changes(
                    events,
                    add=additions,
                    remove=change.removed,
                    read_version=read_version,
                    metadata=metadata,
                    transactions=transactions,
                    data_change=not change.rearranges,
                )
        except CommitConflictError as error:
            read_version = _rebase(stream, change, read_version, transactions or {}, error)


def _rebase(
    stream: Stream,
    change: Change,
    read_version: int,
    transactions: Mapping[str, int],
    error: CommitConflictError,
) -> int:
    """Return a newer version the change can be based on; raises ``error`` if it cannot."""
    others = delta_log.changes_since(stream.path / EVENTS_TABLE, read_version)
    now = stream.snapshot(others[-1].version if others else None)
    reason = why_unsafe(change, others, now.files, transactions)
    if reason is not None:
        raise CommitConflictError(f"{error} ({reason})") from error
    return now.version


def why_unsafe(
    change: Change,
    others: Sequence[LoggedChange],
    live: Sequence[DataFile],
    transactions: Mapping[str, int],
) -> str | None:
    """Return why a change cannot follow other commits unchanged; None if it can. Pure.

    It can if all it removes is still there, and nothing that came in the meantime touches its
    stretches of time: then its late events are where they belong whoever committed first, and
    ties have the order they would have had. A compaction moves no event, yet its files span what
    lies between those they replace, where an append prepared long before may want to put more.

    ``change`` was prepared before ``others``, oldest first, were committed; ``live`` are the data
    files after the last of them; ``transactions`` ride with the change.
    """
    gone = set(change.removed) - {file.name for file in live}
    if gone:
        return f"it rewrote '{min(gone)}'"
    contents = _contents(transactions)
    for other in others:
        is_known = not transactions.keys().isdisjoint(other.transactions)
        if is_known or not contents.isdisjoint(_contents(other.transactions)):
            return "it took the same source"
    if any(not other.metadata.get(OPERATION) for other in others):
        return "it was not made by Chronicle's own operations"
    if any(other.metadata[OPERATION] == ADD_COLUMN for other in others):
        return "it changed the columns"
    if change.rearranges:
        return None if keeps_order(change, live) else "it added events between those of this one"
    news = {name for other in others for name in other.added}
    theirs = [(file.t_min, file.t_max) for file in live if file.name in news]
    for file in change.added:
        if any(low <= file.t_max and file.t_min <= high for low, high in theirs):
            return "it wrote events of the same time"
    return None


def _contents(transactions: Mapping[str, int]) -> frozenset[int]:
    """Return what stands for the contents of sources, by whatever path they were taken."""
    return frozenset(n for name, n in transactions.items() if name.startswith(SOURCE_PREFIX))


def keeps_order(change: Change, live: Sequence[DataFile]) -> bool:
    """Return whether files that only rearrange events leave every event where it stood. Pure.

    ``live`` are the data files before the change, in stream order; those that the change adds are
    in stream order, too.
    """
    gone = set(change.removed)
    places, n_before = dict[str, int](), 0
    for file in live:
        if file.name not in gone:
            places[file.name] = n_before
        n_before += file.n_events
    fresh, n_before = list[str](), 0
    after: list[DataFile | WrittenFile] = [file for file in live if file.name not in gone]
    after += change.added
    for each in sorted(after, key=_stream_order):
        if each.name not in places:
            fresh.append(each.name)
        elif places[each.name] != n_before:
            return False
        n_before += each.n_events
    return fresh == [file.name for file in change.added]


def _stream_order(file: DataFile | WrittenFile) -> tuple[int, int, tuple[int, ...], str]:
    return file.t_min, file.t_max, levels_of(file.ordinal), file.name


def has_landed(stream: Stream, files: Iterable[WrittenFile], *, since: int) -> bool:
    """Return whether a commit after version ``since`` added any of the files, or may have.

    Asked of the log, since another process may have replaced the files again already. A log that
    cannot be read does not tell: the files stay then, and are leftovers at worst.
    """
    names = {file.name for file in files}
    try:
        changes = delta_log.changes_since(stream.path / EVENTS_TABLE, since) if names else []
    except StorageError:
        return True
    return any(not names.isdisjoint(change.added) for change in changes)


def remove_uncommitted(stream: Stream, files: Sequence[WrittenFile], *, since: int) -> None:
    """Remove files after a failure, unless the commit they belong to landed before it.

    ``since`` is the version of the events table they were prepared on.
    """
    if has_landed(stream, files, since=since):
        return
    for file in files:
        remove_written(stream.path, file)


def time_statistics(time: str, data_type: pa.DataType, t_min: int, t_max: int) -> dict[str, Any]:
    """Return Delta's statistics of the time column, so that other readers can skip a file.

    ``t_min`` and ``t_max`` are internal times. Empty for timestamps outside the years 1 to 9999,
    which Delta's text form cannot carry.
    """
    low: int | str = t_min
    high: int | str = t_max
    if pa.types.is_timestamp(data_type):
        if t_min < _YEAR_1_US or t_max >= _YEAR_10000_US:
            return {}
        zone = "" if data_type.tz is None else "Z"
        low, high = (f"{np.datetime64(value, 'us')}{zone}" for value in (t_min, t_max))
    return {"minValues": {time: low}, "maxValues": {time: high}, "nullCount": {time: 0}}


def commit_tree(stream: Stream, files: Sequence[WrittenFile]) -> None:
    """Commit the files' tree entries."""
    _commit_derived_files(stream, TREE_TABLE, [file.tree for file in files])


def commit_derived(stream: Stream, files: Sequence[WrittenFile]) -> None:
    """Commit what a ``DerivedWriter`` wrote beside the files, table by table."""
    by_table: dict[str, list[DerivedFile]] = {}
    for file in files:
        for derived in file.derived:
            by_table.setdefault(derived.table, []).append(derived)
    for table in sorted(by_table):
        _commit_derived_files(stream, table, by_table[table])


def commit_tidy(stream: Stream, changes: Sequence[DerivedChange]) -> None:
    """Commit what a ``DerivedWriter`` merged, table by table; leaves out what was dropped."""
    for change in changes:
        try:
            with stream.held():
                delta_log.commit_changes(
                    stream.path / change.table,
                    add=new_files((f.name, f.size_bytes, f.n_rows) for f in change.added),
                    remove=change.removed,
                    read_version=None,
                    metadata={OPERATION: COMPACT},
                    data_change=False,
                )
        except (OSError, StorageError):
            if delta_log.table_exists(stream.path / change.table):
                raise


def _commit_derived_files(
    stream: Stream,
    table: str,
    files: Sequence[DerivedFile],
    *,
    stale: Collection[str] = (),
) -> None:
    """Add derived files to their table; creates it if need be.

    ``stale`` names files to take out. One that was written anew under its name stays listed.
    """
    removed = sorted(set(stale) - {file.name for file in files})
    if not files and not removed:
        return
    path = stream.path / table
    try:
        if not delta_log.table_exists(path):
            if not all((path / file.name).exists() for file in files):
                return  # dropped meanwhile, see below
            make_tables(stream, [table])
        additions = new_files((file.name, file.size_bytes, file.n_rows) for file in files)
        with stream.held():
            delta_log.commit_changes(
                path, add=additions, remove=removed, read_version=None, metadata={}
            )
    except (OSError, StorageError):
        # An index that another process dropped meanwhile took the files with it: the events are
        # in the stream, and nothing derived is missing that anybody wants.
        if all((path / file.name).exists() for file in files):
            raise


def make_tables(stream: Stream, tables: Iterable[str]) -> list[str]:
    """Make the derived tables that are not there; return which.

    They are declared, so that their loss is noticed; each stream has a tree.
    """
    with stream.held():
        made = [t for t in tables if delta_log.create_table(stream.path / t, DERIVED_SCHEMA, {})]
    to_declare = [table for table in made if table != TREE_TABLE]
    if to_declare:
        add_metadata(stream.path, tables=to_declare)
    return made


def complete_derived(
    stream: Stream, derived: DerivedWriter | None, *, skip: Collection[str] = ()
) -> int:
    """Write and commit what a crash left out: tree entries and runs of live data files.

    ``derived`` writes runs; None completes tree entries only. Data files in ``skip`` are damaged,
    and left as they are. Returns the number of derived files committed.
    """
    state = delta_log.load_table(stream.path / EVENTS_TABLE)
    reader = BlockReader(stream.path / EVENTS_TABLE, stream.schema)
    counts = {
        file.name: sum(reader.block_counts(file.name)) if file.n_rows is None else file.n_rows
        for file in state.files
        if file.name not in skip
    }
    tables = [TREE_TABLE, *([] if derived is None else derived.tables(stream.schema))]
    make_tables(stream, tables)
    lacking = {TREE_TABLE: _without_tree(stream, counts)}
    damaged: dict[str, set[str]] = {}
    if derived is not None:
        lacking |= derived.lacking(stream.path, counts)
        damaged = derived.damaged(stream.path, counts)
    written: dict[str, list[DerivedFile]] = {table: [] for table in tables}
    for name in sorted(counts):
        wanted = {table for table, names in lacking.items() if name in names}
        if wanted:
            for file in _derive(stream, reader, name, derived, wanted):
                written[file.table].append(file)
    for table, files in written.items():
        _commit_derived_files(stream, table, files, stale=damaged.get(table, ()))
    return sum(len(files) for files in written.values())


def _without_tree(stream: Stream, live: Iterable[str]) -> set[str]:
    """Return the live data files without a tree file, or with one that lacks attributes."""
    path = stream.path / TREE_TABLE
    stored = {file.name for file in delta_log.live_files(path) if (path / file.name).exists()}
    wanted = stream.settings.derived
    return {name for name in live if name not in stored or not _holds(path / name, wanted)}


def _holds(tree: Path, derived: Sequence[str]) -> bool:
    """Return whether a tree file has derived attributes; a damaged one is left to ``repair``."""
    try:
        return not derived or TreeFile(tree).holds(derived)
    except CorruptTreeError:
        return True


def _derive(
    stream: Stream,
    reader: BlockReader,
    name: str,
    derived: DerivedWriter | None,
    lacking: set[str],
) -> list[DerivedFile]:
    """Write what one data file lacks."""
    counts = reader.block_counts(name)
    settings = stream.settings
    events = reader.read_file(name).combine_chunks()
    events = extend(events, settings.derived, settings.key)
    times = to_int64(events.column(settings.time), name=settings.time)
    files = []
    if TREE_TABLE in lacking:
        files.append(write_tree(stream.path, name, events, times.to_numpy(), counts, settings))
    if derived is not None and lacking - {TREE_TABLE}:
        files += derived.write(stream.path, name, events, times, counts)
    return [file for file in files if file.table in lacking]
