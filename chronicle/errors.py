"""The root of all errors Chronicle raises, and those of the event store.

::

    ChronicleError(Exception)
    ├── SchemaError(ValueError)                 wrong column, type, unordered time
    ├── SourceError                             an input file cannot be taken
    ├── StorageError
    │   ├── StoreNotFoundError(FileNotFoundError)
    │   ├── StoreExistsError(FileExistsError)
    │   ├── StreamExistsError                   another name, or append
    │   ├── StreamNotFoundError(LookupError)    .name .candidates
    │   ├── FormatVersionError                  .found .supported
    │   ├── VersionNotFoundError(LookupError)   no such version, or none as old as that time
    │   ├── VacuumedVersionError                .version .path
    │   ├── CorruptBlockError                   .path
    │   ├── CorruptTreeError                    .path .reason
    │   ├── ForeignFileError                    .path
    │   └── CommitConflictError                 retry after refresh
    ├── LateEventError                          .n_late
    ├── EnvironmentFaultError                   Java or another prerequisite is missing
    ├── IndexingError (indexing.errors)
    └── QueryError, PlanError (replay.errors)

Each message says what happened, where, and what to do next.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "ChronicleError",
    "CommitConflictError",
    "CorruptBlockError",
    "CorruptTreeError",
    "EnvironmentFaultError",
    "ForeignFileError",
    "FormatVersionError",
    "LateEventError",
    "SchemaError",
    "SourceError",
    "StorageError",
    "StoreExistsError",
    "StoreNotFoundError",
    "StreamExistsError",
    "StreamNotFoundError",
    "VacuumedVersionError",
    "VersionNotFoundError",
    "did_you_mean",
    "is_denied",
]

_DENIED = re.compile(r"\(os error (1|13)\)")
"""EPERM and EACCES, as delta-rs writes them into what it says of a file."""


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest candidate, or an empty string."""
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f"; did you mean '{by_folded[close[0]]}'?" if close else ""


def is_denied(error: BaseException) -> bool:
    """Return whether an error says that a file may not be used; there may be nothing wrong with it.

    Pure.
    """
    return isinstance(error, PermissionError) or _DENIED.search(str(error)) is not None


class ChronicleError(Exception):
    """Anything Chronicle can state in one sentence: bad query, bad data, bad store."""


class SchemaError(ChronicleError, ValueError):
    """A column is missing, has a type that cannot be stored, or time is out of order."""


class SourceError(ChronicleError):
    """An input file is missing, empty, of another format or of another schema."""


class LateEventError(ChronicleError):
    """Events are older than the stream's end.

    Attributes
    ----------
    n_late
        How many.
    """

    def __init__(self, message: str, *, n_late: int) -> None:
        super().__init__(message)
        self.n_late = n_late


class EnvironmentFaultError(ChronicleError):
    """A prerequisite of the machine (such as Java) is missing or too old."""


class StorageError(ChronicleError):
    """The store on disk is missing, damaged, or changed under the operation."""


class StoreNotFoundError(StorageError, FileNotFoundError):
    """There is no Chronicle store at the path."""


class StoreExistsError(StorageError, FileExistsError):
    """A store exists where a new one was to be made."""


class StreamExistsError(StorageError):
    """The store has a stream of that name already."""


class StreamNotFoundError(StorageError, LookupError):
    """The store has no stream of that name."""

    def __init__(self, name: str, *, candidates: Iterable[str]) -> None:
        self.name = name
        self.candidates = tuple(sorted(candidates))
        known = ", ".join(self.candidates) or "none yet"
        hint = did_you_mean(name, self.candidates)
        super().__init__(f"no stream '{name}' in this store (streams: {known}){hint}")


class FormatVersionError(StorageError):
    """The store was written by a newer Chronicle."""

    def __init__(self, path: str, *, found: int, supported: int) -> None:
        self.found = found
        self.supported = supported
        super().__init__(
            f"store '{path}' has format version {found}, this Chronicle reads up to {supported}; "
            "install a newer Chronicle"
        )


class VersionNotFoundError(StorageError, LookupError):
    """The stream has no such version, or had none yet at that time."""


class VacuumedVersionError(StorageError):
    """An old version can be read no longer, as data files of its own were vacuumed.

    Attributes
    ----------
    version, path
        Which version, and a data file it lacks.
    """

    def __init__(self, version: int, path: str) -> None:
        self.version = version
        self.path = path
        super().__init__(
            f"version {version} cannot be read any more: events file '{path}' was replaced by a "
            "later version and vacuumed since; name a later version ('chronicle history' lists "
            "them), and vacuum with a longer retention to keep old ones"
        )


class CorruptBlockError(StorageError):
    """An events file cannot be read; no answer is given without it.

    Attributes
    ----------
    path, reason
        Which file, and what is wrong with it.
    denied
        Whether it is only that it may not be read.
    """

    def __init__(self, path: str, reason: str, *, denied: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.denied = denied
        super().__init__(
            f"events file '{path}' may not be read ({reason}); check the permissions of the file "
            "and its folders, since no answer is given without it"
            if denied
            else f"events file '{path}' cannot be read ({reason}); restore it from a copy, since "
            "no answer is given without it, or leave it out with --skip-damaged "
            "('chronicle check' lists what is damaged)"
        )


class CorruptTreeError(StorageError):
    """A tree file is missing or damaged; its entries are made from the events instead.

    Attributes
    ----------
    path, reason
        Which file, and what is wrong with it.
    denied
        Whether it is only that it may not be read.
    """

    def __init__(self, path: str, reason: str, *, denied: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.denied = denied
        super().__init__(
            f"tree file '{path}' may not be read ({reason}); answers stay right without it, check "
            "the permissions of the file and its folders"
            if denied
            else f"tree file '{path}' cannot be used ({reason}); answers stay right without it, "
            "'chronicle repair' writes it anew"
        )


class ForeignFileError(StorageError):
    """The events table holds a file Chronicle did not write."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"events file '{path}' was not written by Chronicle; restore the table to the last "
            "version before it (Delta RESTORE), or ingest the events into a new stream"
        )


class CommitConflictError(StorageError):
    """Another process committed to the stream in between; nothing was written, run it again."""
