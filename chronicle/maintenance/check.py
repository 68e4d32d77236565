"""Verifies every invariant of a store and says which file breaks which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from chronicle import config
from chronicle.arguments import check_type
from chronicle.config import EVENTS_TABLE
from chronicle.errors import (
    ChronicleError,
    CorruptTreeError,
    FormatVersionError,
    StorageError,
    StreamNotFoundError,
    StreamReplacedError,
    UnreadFileError,
)
from chronicle.jobs import Told
from chronicle.log import delta_log
from chronicle.log.audit import LogAudit, LogFault, audit_log
from chronicle.log.delta_log import TableState
from chronicle.log.stream_metadata import ATTRIBUTES_FILE, declared_tables, read_metadata
from chronicle.maintenance.check_events import (
    BLOCKS,
    CHECKSUMS,
    FILES,
    NAMES,
    ORDER,
    TIMES,
    TREE,
    EventsChecker,
    FileSpan,
    check_order,
    check_quarantine,
)
from chronicle.maintenance.finding import CheckedEvents, DerivedCheck, Finding, Findings, faults_of
from chronicle.maintenance.orphans import foreign_files, is_draft, unknown_files
from chronicle.schema import check_settings, normalise_schema
from chronicle.settings import StreamSettings
from chronicle.store import Store, Stream, open_store
from chronicle.stream_folder import remove_abandoned, with_unlogged
from chronicle.tree.blocks import BlockReader
from chronicle.tree.derived_attributes import check_derived
from chronicle.tree.tree_file import TREE_TABLE, TreeFile
from chronicle.words import number_of
from chronicle.write.quarantine import QUARANTINE_TABLE, named_batches

MARKER = "the store's marker names a format this Chronicle reads"
SETTINGS = "the stream's settings can be read and name a known format"
DECLARED = "derived attributes are named and can be derived"
LOGS = "Delta logs can be read, have no empty commit and no gap"
COMMITTED = "derived tables name data files that the events table knows"
OLD_TREE = "tree entries of older versions are whole"
LEFTOVERS = "no file lies in the stream that no table knows"
FOREIGN = "no link and no file of anybody else lies in the stream's tables"
STAGING = "no unfinished work lies in the store"

_RESTORE_LOG = "restore the table's _delta_log from a copy"
_REPAIR = "chronicle repair"


@dataclass(frozen=True, slots=True)
class _Logs:
    """The Delta tables of a stream."""

    states: Mapping[str, TableState]
    """Those that can be read, by folder relative to the stream."""

    audits: Mapping[str, LogAudit]


def check_store(
    store: Store | Path,
    *,
    deep: bool = False,
    derived_checks: Sequence[DerivedCheck] = (),
    told: Told = lambda *_: None,
) -> list[Finding]:
    """Check a store and all of its streams; changes nothing.

    Parameters
    ----------
    store
        The store or its folder: a damaged one cannot be opened.
    deep, derived_checks, told
        As for ``check_stream``.

    Returns
    -------
    list of Finding
        At least one for each invariant of the store and of each stream; also of folders that
        have lost the log of their events, and so are no streams to anyone else.
    """
    check_type(store, Store, Path)
    root = store if isinstance(store, Path) else store.path
    findings = Findings(root)
    marker = root / config.MARKER_FILE
    try:
        opened = open_store(root)
    except StorageError as error:
        findings.fault(MARKER, marker, str(error), "put it right; nothing else was checked")
        return findings.all()
    findings.conclude(MARKER, marker, "it does")
    for folder in remove_abandoned(root, dry_run=True):
        what = "an ingest or another operation was killed and left this folder"
        findings.warn(STAGING, folder, what, _REPAIR)
    findings.conclude(STAGING, root, "none")
    found = findings.all()
    for name in with_unlogged(opened.stream_names(), root):
        with suppress(StreamNotFoundError):  # dropped meanwhile
            found += check_stream(root / name, deep=deep, derived_checks=derived_checks, told=told)
    return found


def check_stream(
    stream: Stream | Path,
    *,
    deep: bool = False,
    derived_checks: Sequence[DerivedCheck] = (),
    told: Told = lambda *_: None,
) -> list[Finding]:
    """Check one stream; changes nothing and may run beside an ingest.

    Reads every byte of it, one data file after the other.

    Parameters
    ----------
    stream
        The stream or its folder: a damaged one cannot be opened.
    deep
        Whether to compare all that is derived with what the events give.
    derived_checks
        Check what others derive from the events, such as ``indexing.check_runs``.
    told
        Hears how many of the stream's data files are read, and of how many.

    Returns
    -------
    list of Finding
        One for each invariant that holds, one for each file that breaks one.
    """
    check_type(stream, Stream, Path)
    path = stream if isinstance(stream, Path) else stream.path
    with in_place(path) as check_in_place:
        found = _check_stream(path, deep=deep, derived_checks=derived_checks, told=told)
        if faults_of(found):
            check_in_place()
    return found


@contextmanager
def in_place(path: Path) -> Iterator[Callable[[], None]]:
    """Have what fails in the block say that a stream is gone, where that is the reason.

    Lends what raises so, for faults that are found. Unlike ``Stream.watched`` it asks no more of a
    stream than the log of its events, and less where that is damaged.
    """
    identity = _identity(path)

    def check() -> None:
        if not path.is_dir():
            names = open_store(path.parent).stream_names()
            raise StreamNotFoundError(path.name, candidates=names)
        now = _identity(path)
        if now is not None and now != identity:
            raise StreamReplacedError(path.name)

    try:
        yield check
    except (ChronicleError, OSError):
        check()
        raise


def _identity(path: Path) -> str | None:
    try:
        return delta_log.load_table(path / EVENTS_TABLE).identity
    except StorageError:
        return None


def _check_stream(
    path: Path, *, deep: bool, derived_checks: Sequence[DerivedCheck], told: Told
) -> list[Finding]:
    findings = Findings(path.parent)
    logs = _check_logs(path, findings)
    events = logs.states.get(EVENTS_TABLE)
    if events is None:
        return findings.all()
    try:
        settings = StreamSettings.from_properties(events.properties)
        schema = normalise_schema(events.schema)
        check_settings(schema, settings)
        if settings.format_version > config.FORMAT_VERSION:
            raise FormatVersionError(
                str(path), found=settings.format_version, supported=config.FORMAT_VERSION
            )
    except ChronicleError as error:
        findings.fault(SETTINGS, path / EVENTS_TABLE, str(error), "put it right first")
        return findings.all()
    findings.conclude(SETTINGS, path, "they can")
    settings = replace(settings, derived=_check_declared(path, schema, settings.key, findings))
    reader = BlockReader(path / EVENTS_TABLE, schema)
    checker = EventsChecker(path, schema, settings, reader, findings)
    checked = _check_files(checker, logs, deep=deep, told=told)
    lost = _check_committed(path, logs, findings)
    _check_old_trees(path, logs, checked, findings)
    check_quarantine(path, logs.states.get(QUARANTINE_TABLE), findings)
    _check_leftovers(path, logs, lost, findings)
    found = findings.all()
    for check in derived_checks:
        found += check(checked, deep=deep)
    return found


def _check_declared(
    path: Path, schema: pa.Schema, key: str | None, findings: Findings
) -> tuple[str, ...]:
    """Return the names of the stream's derived attributes; none where they cannot be used."""
    names: tuple[str, ...] = ()
    try:
        declared = read_metadata(path).derived
        check_derived(schema, declared, key=key)
        names = declared
    except ChronicleError as error:
        remedy = "put it right; answers need no derived attribute"
        unread = error.remedy if isinstance(error, UnreadFileError) else None
        findings.fault(DECLARED, path / ATTRIBUTES_FILE, str(error), remedy, unread=unread)
    findings.conclude(DECLARED, path, f"{len(names)} derived attributes")
    return names


def _check_logs(path: Path, findings: Findings) -> _Logs:
    """Read all logs of a stream, those of derived tables first: an ingest commits them last."""
    index = path / "index"
    indexes = {f"index/{folder.name}" for folder in index.glob("[!._]*")}
    indexes.update(declared_tables(path))  # also those that were lost with their folder
    tables = [*sorted(indexes), TREE_TABLE, QUARANTINE_TABLE, EVENTS_TABLE]
    states: dict[str, TableState] = {}
    audits: dict[str, LogAudit] = {}
    for table in tables:
        if table == QUARANTINE_TABLE and not (path / table).exists():
            continue
        if _is_unmade(path, table):
            what = "it has no commit: an operation that was killed or is at work makes this table"
            remedy = f"run that operation again, or {_REPAIR}, which removes it once it is old"
            findings.warn(LEFTOVERS, path / table, what, remedy)
            audits[table] = LogAudit(0, (), frozenset())
            continue
        audits[table] = audit_log(path / table)
        for fault in audits[table].faults:
            remedy = _log_remedy(table, fault)
            findings.fault(LOGS, fault.path, fault.what, remedy, unread=fault.unread)
        try:
            states[table] = delta_log.load_table(path / table)
        except StorageError as error:
            if not audits[table].faults:
                unread = error.remedy if isinstance(error, UnreadFileError) else None
                findings.fault(LOGS, path / table, str(error), _RESTORE_LOG, unread=unread)
    n_commits = sum(audit.n_commits for audit in audits.values())
    findings.conclude(LOGS, path, f"{n_commits} commits of {len(audits)} tables")
    return _Logs(states, audits)


def _log_remedy(table: str, fault: LogFault) -> str:
    """Return what to do about a log: that of a derived table is made anew with its table."""
    is_source = table in (EVENTS_TABLE, QUARANTINE_TABLE)
    return fault.remedy if is_source else _REPAIR


def _is_unmade(path: Path, table: str) -> bool:
    """Return whether a table that comes with its first use has a folder and nothing else yet.

    Without its log an index that is not declared is no index, and nobody misses it; records in
    quarantine would be missed, so the commits of the events must name none.
    """
    if table in (TREE_TABLE, EVENTS_TABLE) or _has_log(path / table):
        return False
    if table != QUARANTINE_TABLE:
        # Read after the log was looked for: what another process drops is taken out of it first.
        return table not in declared_tables(path)
    try:
        commits = delta_log.commits(path / EVENTS_TABLE)
    except StorageError:
        return False
    return not named_batches(commits)


def _has_log(table: Path) -> bool:
    """Return whether a commit or a checkpoint lies in a table's log; drafts are neither."""
    return any(not is_draft(path.name) for path in (table / "_delta_log").glob("*.*"))


def _check_files(checker: EventsChecker, logs: _Logs, *, deep: bool, told: Told) -> CheckedEvents:
    path, findings = checker.stream_dir, checker.findings
    live = logs.states[EVENTS_TABLE].files
    trees = (
        {file.name for file in logs.states[TREE_TABLE].files}
        if TREE_TABLE in logs.states
        else set()
    )
    spans: dict[str, FileSpan] = {}
    for n, file in enumerate(sorted(live, key=lambda file: file.name)):
        told(n, len(live))
        span = checker.check_file(file, tree=file.name in trees, deep=deep)
        if span is not None:
            spans[file.name] = span
    ordered = [span.name for span in check_order(spans, path, findings)]
    counts = {file.name: file.n_rows or 0 for file in live}
    blocks = {name: checker.reader.block_counts(name) for name in ordered}
    counts |= {name: sum(found) for name, found in blocks.items()}
    n_blocks = sum(len(found) for found in blocks.values())
    files = number_of(len(live), "data file")
    events = number_of(sum(counts.values()), "event")
    compared = "all summaries compared" if deep else "counts and times compared"
    n_bytes = f"{sum(file.size_bytes for file in live)} bytes"
    if checker.settings.adopted_from is not None:
        n_bytes += " as last verified, with such checksums of pages as their writers left"
    for invariant, what in (
        (NAMES, files),
        (FILES, f"{files}, {events}"),
        (CHECKSUMS, f"{files}, {n_bytes}"),
        *(
            []
            if checker.settings.adopted_from is not None
            else [(BLOCKS, number_of(n_blocks, "block"))]
        ),
        (TIMES, events),
        (ORDER, files),
        (TREE, f"{number_of(len(live), 'tree file')}, {compared}"),
    ):
        findings.conclude(invariant, path, what)
    rest = sorted(counts.keys() - set(ordered))
    return CheckedEvents(
        stream_dir=path,
        schema=checker.schema,
        settings=checker.settings,
        counts={name: counts[name] for name in [*ordered, *rest]},
        readable=frozenset(ordered),
        known=_known_events(path, logs),
        reader=checker.reader,
    )


def _known_events(path: Path, logs: _Logs) -> frozenset[str]:
    """Return the data files that are not to be taken for those of lost commits."""
    audit = logs.audits[EVENTS_TABLE]
    if not audit.is_unread:
        return audit.known
    # What names the others was only not handed out.
    return audit.known.union(each.name for each in (path / EVENTS_TABLE).iterdir())


def _check_committed(path: Path, logs: _Logs, findings: Findings) -> set[Path]:
    """Look for derived data of events that no version has: the sign of a lost commit.

    Derived files are committed after their events, so a table that names a data file which is
    there but which the events table never heard of says that the events table lost its end.
    """
    known = _known_events(path, logs)
    lost_files: set[Path] = set()
    for table in sorted(logs.states):
        if table in (EVENTS_TABLE, QUARANTINE_TABLE):
            continue
        for file in sorted(logs.states[table].files, key=lambda file: file.name):
            lost = path / EVENTS_TABLE / file.name
            if file.name not in known and lost not in lost_files and lost.exists():
                lost_files.add(lost)
                findings.fault(
                    COMMITTED,
                    lost,
                    f"table '{table}' has entries of this data file, and no version of the events "
                    "table names it: the newest commits of the events table were lost",
                    f"restore the newest commits in '{path / EVENTS_TABLE / '_delta_log'}' from a "
                    "copy before anything is written to the stream",
                )
    findings.conclude(COMMITTED, path, f"{len(known)} data files known")
    return lost_files


def _check_old_trees(path: Path, logs: _Logs, checked: CheckedEvents, findings: Findings) -> None:
    """Compare checksums of tree files that only older versions use."""
    state = logs.states.get(TREE_TABLE)
    old = [] if state is None else [f.name for f in state.files if f.name not in checked.counts]
    for name in sorted(old):
        tree = path / TREE_TABLE / name
        if not (path / EVENTS_TABLE / name).exists():
            continue  # vacuumed with its data file, or about to be
        try:
            TreeFile(tree).check()
        except CorruptTreeError as error:
            findings.fault(OLD_TREE, tree, error.reason, _REPAIR, unread=error.unread)
        except UnreadFileError as error:
            findings.fault(OLD_TREE, tree, error.reason, "", unread=error.remedy)
    findings.conclude(OLD_TREE, path, f"{len(old)} tree files")


def _check_leftovers(path: Path, logs: _Logs, lost: set[Path], findings: Findings) -> None:
    for table, audit in sorted(logs.audits.items()):
        if audit.is_unread:
            continue  # its log may name what seems unknown
        for leftover in sorted({*unknown_files(path / table, audit.known)} - lost):
            what = "no table knows this file; an operation that was killed or is at work wrote it"
            findings.warn(LEFTOVERS, leftover, what, f"{_REPAIR}, which removes it once it is old")
        for foreign in foreign_files(path / table, audit.known):
            what = "it is a link" if foreign.is_symlink() else "Chronicle did not put it here"
            findings.warn(FOREIGN, foreign, what, "move it away: vacuum and repair leave it alone")
    findings.conclude(FOREIGN, path, "none")
    findings.conclude(LEFTOVERS, path, "none")
