"""Makes derived data whole again from the events, and clears what killed operations left."""

from __future__ import annotations

import time as clock
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath

from chronicle import config
from chronicle.arguments import check_type
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DERIVED_SCHEMA, DerivedWriter
from chronicle.errors import StorageError
from chronicle.log import delta_log
from chronicle.log.audit import audit_log, stale_hint
from chronicle.log.delta_log import odd_folders, put_aside, torn_files
from chronicle.log.stream_metadata import add_metadata
from chronicle.maintenance.check import (
    COMMITTED,
    DECLARED,
    LEFTOVERS,
    LOGS,
    MARKER,
    check_stream,
    in_place,
)
from chronicle.maintenance.finding import DerivedCheck, Finding, faults_of
from chronicle.maintenance.orphans import remove_if_empty, remove_table
from chronicle.schema import normalise_schema
from chronicle.store import Store, Stream, open_store
from chronicle.stream_folder import own_folders, remove_abandoned, with_unlogged
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.write.commit import OPERATION, complete_derived
from chronicle.write.quarantine import QUARANTINE_TABLE

REPAIR = "repair"
"""What commits that take damaged derived files out call their operation."""

_DAMAGED_PREFIX = ".damaged-"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did."""

    replaced: tuple[str, ...]
    """Derived files and tables taken out because they were damaged, relative to the store."""

    n_written: int
    """Tree files and runs written anew."""

    removed: tuple[str, ...]
    """Files and folders that killed operations had left, relative to the store."""

    left: tuple[Finding, ...]
    """Faults of the events themselves: nothing but a copy can put them right."""

    put_aside: tuple[str, ...] = ()
    """Where files of logs lie now that a power failure had cut, and folders that lay in the place
    of a file, relative to the store."""


def repair_store(
    store: Store | Path,
    *,
    derived: DerivedWriter | None = None,
    derived_checks: Sequence[DerivedCheck] = (),
    deep: bool = False,
    leftover_age: timedelta = config.LEFTOVER_AGE,
) -> dict[str, RepairReport]:
    """Repair every stream of a store, see ``repair_stream``; returns what was done by stream.

    Of one that has lost the log of its events it says what is missing: only a copy can save it.
    """
    check_type(store, Store, Path)
    opened = open_store(store) if isinstance(store, Path) else store
    return {
        name: repair_stream(
            opened.path / name,
            derived=derived,
            derived_checks=derived_checks,
            deep=deep,
            leftover_age=leftover_age,
        )
        for name in with_unlogged(opened.stream_names(), opened.path)
    }


def repair_stream(
    stream: Stream | Path,
    *,
    derived: DerivedWriter | None = None,
    derived_checks: Sequence[DerivedCheck] = (),
    deep: bool = False,
    leftover_age: timedelta = config.LEFTOVER_AGE,
) -> RepairReport:
    """Write missing, damaged and outdated derived data anew and clear what was left behind.

    Never touches the events. Can be run again, and be killed at any point: what is taken out is
    made from the events by queries until it is written anew.

    Parameters
    ----------
    stream
        The stream or its folder: one whose tree table is damaged cannot be opened.
    derived
        Writes runs; None leaves indexes as they are but for damaged runs, which are taken out.
    derived_checks
        Say which runs are damaged.
    deep
        Whether to compare all derived data with the events, not checksums alone.
    leftover_age
        Files that no table knows are removed once they are older.

    Returns
    -------
    RepairReport
        ``left`` names what stays broken. While the events' log itself is broken nothing is done:
        files that it does not name may be all that is left of lost commits.
    """
    check_type(stream, Stream, Path)
    path = stream if isinstance(stream, Path) else stream.path
    with in_place(path):
        return _repair_stream(path, derived, derived_checks, leftover_age, deep=deep)


def _repair_stream(
    path: Path,
    derived: DerivedWriter | None,
    derived_checks: Sequence[DerivedCheck],
    leftover_age: timedelta,
    *,
    deep: bool,
) -> RepairReport:
    aside = put_aside_torn(path)
    hints = remove_stale_hints(path)
    findings = check_stream(path, deep=deep, derived_checks=derived_checks)
    faults = faults_of(findings)
    damaged = _damaged_files(path, faults)
    left = tuple(fault for fault in faults if fault.file not in damaged)
    if any(_forbids_repair(fault, path) for fault in left):
        return RepairReport((), 0, hints, left, aside)
    replaced = _replace_tables(path, left, derived)
    left = tuple(fault for fault in left if _table_of(path, fault) not in replaced)
    by_table: dict[str, list[str]] = {}
    for file in sorted(damaged):
        table, name = _table_and_name(path, file)
        by_table.setdefault(table, []).append(name)
    for table, names in by_table.items():
        _take_out(path / table, names)
        aside += _put_aside_folders(path, table, names)
    broken = _broken_events(path, left)
    # Runs are named like their data file: one written anew may take the place of a leftover.
    removed = _remove_leftovers(path, findings, leftover_age)
    opened = Stream(path.name, path)
    n_written = complete_derived(opened, derived, skip=broken)
    if derived is not None and not any(fault.invariant == DECLARED for fault in left):
        # Tables that were made before they were declared.
        add_metadata(path, tables=list(derived.tables(opened.schema)))
    tables = [f"{path.name}/{table}" for table in replaced]
    replacements = (*tables, *sorted(damaged))
    return RepairReport(replacements, n_written, (*hints, *removed), left, aside)


def put_aside_torn(path: Path) -> tuple[str, ...]:
    """Move out of the logs of a stream what a power failure cut and nothing stands on.

    Folders that are named as files of a log go with it.

    The newest commit of the events stays where derived tables know data files that no commit
    names: then it was whole once, and only a copy can bring it back.

    Returns where the files are now, relative to the store; nothing deletes them.
    """
    events = path / EVENTS_TABLE
    tables = sorted(log.parent for log in path.rglob("_delta_log") if log.parent != events)
    moved = [put_aside(path, odd) for table in (*tables, events) for odd in odd_folders(table)]
    moved += [put_aside(path, file) for table in tables for file in torn_files(table)]
    of_events = torn_files(events)
    if any(file.suffix == ".json" for file in of_events) and _is_derived_from(path, tables):
        of_events = [file for file in of_events if file.suffix != ".json"]
    moved += [put_aside(path, file) for file in of_events]
    return tuple(place.relative_to(path.parent).as_posix() for place in moved)


def _put_aside_folders(path: Path, table: str, names: Collection[str]) -> tuple[str, ...]:
    """Move away folders that lie where a derived file is to be written anew."""
    places = (path / table / name for name in names)
    folders = [place for place in places if place.is_dir() and not place.is_symlink()]
    moved = (put_aside(path, folder) for folder in folders)
    return tuple(place.relative_to(path.parent).as_posix() for place in moved)


def _is_derived_from(path: Path, tables: Sequence[Path]) -> bool:
    """Return whether a derived table names a data file that is there and no commit names."""
    known = audit_log(path / EVENTS_TABLE).known
    for table in tables:
        if table.name == QUARANTINE_TABLE:
            continue
        with suppress(StorageError):  # it says nothing, and is made anew
            names = {file.name for file in delta_log.live_files(table)}
            if any((path / EVENTS_TABLE / name).exists() for name in names - known):
                return True
    return False


def remove_stale_hints(path: Path) -> tuple[str, ...]:
    """Let logs be read that name a checkpoint which is gone: their commits may all be there.

    Returns the files removed, relative to the store.
    """
    tables = (log.parent for log in path.rglob("_delta_log"))
    hints = [hint for table in sorted(tables) if (hint := stale_hint(table)) is not None]
    for hint in hints:
        hint.unlink(missing_ok=True)
    return tuple(hint.relative_to(path.parent).as_posix() for hint in hints)


def _damaged_files(path: Path, faults: Sequence[Finding]) -> set[str]:
    """Return the files of derived tables that findings name, relative to the store."""
    return {
        fault.file
        for fault in faults
        if fault.invariant not in (LOGS, COMMITTED)
        and not fault.is_unread
        and fault.file.startswith((f"{path.name}/{TREE_TABLE}/", f"{path.name}/index/"))
        and fault.file.endswith(".parquet")
    }


def _forbids_repair(fault: Finding, path: Path) -> bool:
    """Return whether what is left on disk may be all there is of events."""
    is_of_events = fault.file.startswith(f"{path.name}/{EVENTS_TABLE}")
    return fault.invariant in (COMMITTED, MARKER) or (fault.invariant == LOGS and is_of_events)


def _table_and_name(path: Path, file: str) -> tuple[str, str]:
    """Split a file relative to the store into its table and its name."""
    inside = PurePosixPath(file).relative_to(path.name)
    return inside.parent.as_posix(), inside.name


def _table_of(path: Path, fault: Finding) -> str | None:
    """Return the derived table whose log a fault is about."""
    if fault.invariant != LOGS or fault.is_unread:
        return None
    table, _, _ = fault.file.removeprefix(f"{path.name}/").partition("/_delta_log")
    return table


def _replace_tables(
    path: Path, faults: Sequence[Finding], derived: DerivedWriter | None
) -> list[str]:
    """Put an empty table in the place of each derived table whose log is broken."""
    schema = normalise_schema(delta_log.load_table(path / EVENTS_TABLE).schema)
    tables = {TREE_TABLE, *([] if derived is None else derived.tables(schema))}
    broken = sorted({table for table in (_table_of(path, f) for f in faults) if table in tables})
    for table in (name for name in broken if not (path / name).is_symlink()):
        aside = path / f"{_DAMAGED_PREFIX}{uuid.uuid4().hex}"
        fresh = path / f"{_DAMAGED_PREFIX}{uuid.uuid4().hex}"
        delta_log.create_table(fresh, DERIVED_SCHEMA, {})
        if (path / table).exists():
            (path / table).rename(aside)
        (path / table).parent.mkdir(exist_ok=True)  # it may be gone with all indexes
        fresh.rename(path / table)
        remove_table(aside)
    return broken


def _take_out(table: Path, names: Collection[str]) -> None:
    live = {file.name for file in delta_log.live_files(table)}
    delta_log.commit_changes(
        table,
        remove=sorted(live.intersection(names)),
        read_version=None,
        metadata={OPERATION: REPAIR},
    )


def _broken_events(path: Path, faults: Sequence[Finding]) -> set[str]:
    """Return the data files that cannot be read."""
    prefix = f"{path.name}/{EVENTS_TABLE}/"
    return {fault.file.removeprefix(prefix) for fault in faults if fault.file.startswith(prefix)}


def _remove_leftovers(
    path: Path, findings: Sequence[Finding], leftover_age: timedelta
) -> tuple[str, ...]:
    """Remove old files no table knows, and folders nobody works in."""
    root = path.parent
    oldest = clock.time() - leftover_age.total_seconds()
    removed = []
    found = (finding.file for finding in findings if finding.invariant == LEFTOVERS)
    # What lies in a folder goes before the folder.
    for file in sorted(found, reverse=True):
        leftover = root / file
        if not _was_written_before(leftover, oldest):
            continue
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
            removed.append(file)
        elif leftover.is_dir() and remove_if_empty(leftover):
            removed.append(file)
    removed += [folder.name for folder in remove_abandoned(root)]
    for folder in own_folders(path, _DAMAGED_PREFIX):
        if remove_table(folder):
            removed.append(f"{path.name}/{folder.name}")
    return tuple(removed)


def _was_written_before(path: Path, oldest: float) -> bool:
    """Return whether a file or folder was last written before a time of the clock, in seconds.

    One that is gone was not: a writer whose commit lost takes its own files away meanwhile.
    """
    try:
        return path.stat().st_mtime < oldest
    except FileNotFoundError:
        return False
