"""Reads the commits of a Delta log one by one, for what loading a table does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.disk_errors import reason_of, unread_remedy
from chronicle.foreign_text import actions_of, parse_json
from chronicle.log.delta_log.files import HINT, list_log, odd_folders, torn_files, torn_remedy
from chronicle.log.delta_log.reading import to_marks, why_foreign

_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class LogFault:
    """A commit or checkpoint that is missing or cannot be read."""

    path: Path
    what: str
    remedy: str = "restore the commit from a copy of the table's _delta_log"
    unread: str | None = None
    """What to do where the system did not hand out the file; None where its bytes are wrong."""


@dataclass(frozen=True, slots=True)
class LogAudit:
    """What the log of a table says, version by version."""

    n_commits: int
    faults: tuple[LogFault, ...]
    known: frozenset[str]
    """Files that any kept version names, live or removed."""

    @property
    def is_unread(self) -> bool:
        """Whether the system did not hand out a part of the log: there may be more known files."""
        return any(fault.unread is not None for fault in self.faults)


def audit_log(table: Path) -> LogAudit:
    """Read every commit and checkpoint of a table. Without a log everything is missing."""
    commits, checkpoints = list_log(table)
    faults: list[LogFault] = list(_gaps(table / _LOG, sorted(commits), sorted(checkpoints)))
    known: set[str] = set()
    identity: str | None = None
    for version, path in sorted(commits.items()):
        try:
            text = path.read_text(encoding="utf-8")
            known.update(_commit_names(text))
            marks = to_marks(text)
        except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
            faults.append(_unreadable(path, error))
            continue
        identity = identity or marks.identity
        reason = why_foreign(marks, version=version, identity=identity)
        if reason is not None:
            faults.append(LogFault(path, f"the commit was overwritten: {reason}"))
    for path in (path for version in sorted(checkpoints) for path in checkpoints[version]):
        try:
            known.update(_checkpoint_names(path))
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            faults.append(_unreadable(path, error))
    what = "it is a folder, in the place of a file of the log"
    remedy = "run 'chronicle repair', which puts it aside"
    faults += [LogFault(path, what, remedy) for path in odd_folders(table)]
    stale = stale_hint(table)
    if stale is not None:
        what = "it names a checkpoint that is gone, and readers give up"
        faults.append(LogFault(stale, what, "run 'chronicle repair', which removes it"))
    return LogAudit(len(commits), tuple(faults), frozenset(known))


def _unreadable(path: Path, error: Exception) -> LogFault:
    what, unread = reason_of(error), unread_remedy(error)
    if unread is None and path in torn_files(path.parent.parent):
        return LogFault(path, what, torn_remedy(path))
    return LogFault(path, what, unread=unread)


def stale_hint(table: Path) -> Path | None:
    """Return the file of a table's log that names a checkpoint which is not there.

    Readers then give up, though the commits may all be there; without the file they look for
    themselves.
    """
    path = table / _LOG / HINT
    if path.is_dir():
        return None  # an odd folder
    try:
        named = parse_json(path.read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, FileNotFoundError) or unread_remedy(error) is not None:
            return None  # what was not handed out is not known to be stale
        return path
    return None if named in list_log(table).checkpoints else path


def _gaps(log: Path, commits: list[int], checkpoints: list[int]) -> Iterator[LogFault]:
    """Yield the commits that are missing; those before a checkpoint may be cleaned up."""
    if not commits:
        yield LogFault(log, "it holds no commit" if log.is_dir() else "the log of a table is gone")
        return
    if commits[0] > 0 and not any(version >= commits[0] - 1 for version in checkpoints):
        path = log / f"{commits[0] - 1:020d}.json"
        yield LogFault(path, "the commit is missing, and no checkpoint stands for it")
    for missing in sorted(set(range(commits[0], commits[-1])) - set(commits)):
        yield LogFault(log / f"{missing:020d}.json", "the commit is missing")


def _commit_names(text: str) -> set[str]:
    if not text.strip():
        raise ValueError("the commit is empty")
    names = set()
    for action in actions_of(text):
        for kind in ("add", "remove"):
            if kind in action:
                names.add(unquote(action[kind]["path"]))
    return names


def _checkpoint_names(path: Path) -> set[str]:
    names: set[str] = set()
    with pq.ParquetFile(path) as file:
        kinds = [kind for kind in ("add", "remove") if kind in file.schema_arrow.names]
        for batch in file.iter_batches(columns=[f"{kind}.path" for kind in kinds]):
            for kind in kinds:
                found = batch.column(kind).field("path").drop_null().to_pylist()
                names.update(unquote(name) for name in found)
    return names
