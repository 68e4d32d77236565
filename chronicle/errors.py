"""The root of all errors Chronicle raises, and those of the event store.

::

    ChronicleError(Exception)
    ├── SchemaError(ValueError)                 wrong column, type, unordered time
    ├── SourceError                             an input file cannot be taken
    │   └── NoEventError                        it holds no event
    ├── StorageError
    │   ├── StoreNotFoundError(FileNotFoundError)
    │   ├── StoreExistsError(FileExistsError)
    │   ├── StreamExistsError                   another name, or append
    │   ├── StreamNotFoundError(LookupError)    .name .candidates
    │   ├── StreamReplacedError                 .name: open it again
    │   ├── FormatVersionError                  .found .supported
    │   ├── VersionNotFoundError(LookupError)   no such version, or none as old as that time
    │   ├── VacuumedVersionError                .version .path
    │   ├── UnreadFileError                     .path .reason .remedy
    │   │   └── ExhaustedError                  too many open files, no memory
    │   ├── CorruptBlockError                   .path .reason
    │   │   └── ChangedFileError                .target: an adopted file is not the one verified
    │   ├── AdoptedStreamError                  events of an adopted stream cannot be written
    │   ├── CorruptTreeError                    .path .reason .unread
    │   ├── ForeignFileError                    .path
    │   ├── UnflushedCommitError                .version; not to be run again
    │   └── CommitConflictError                 retry after refresh
    ├── LateEventError                          .n_late
    ├── EnvironmentFaultError                   Java or another prerequisite is missing
    ├── IndexingError (indexing.errors)
    └── QueryError, PlanError, LimitExceededError (replay.errors)

Each message says what happened, where, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from chronicle.disk_errors import is_exhausted, reason_of, unread_remedy
from chronicle.words import number_of


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest candidate, or an empty string."""
    close = nearest(name, candidates, n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def nearest(name: str, candidates: Iterable[str], *, n: int, cutoff: float) -> list[str]:
    """Return up to ``n`` candidates at least as alike as ``cutoff``, 0 to 1, most alike first.

    Pure. Letters of either case are the same.
    """
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=n, cutoff=cutoff)
    return [by_folded[each] for each in close]


class OlderFormatError(ValueError):
    """A derived file is of a format that older versions wrote; whoever opens it states that."""


class ChronicleError(Exception):
    """Anything Chronicle can state in one sentence: bad query, bad data, bad store."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines a notebook shows instead of a traceback; IPython asks for them."""
        return [f"{type(self).__name__}: {self}"]


class SchemaError(ChronicleError, ValueError):
    """A column is missing, has a type that cannot be stored, or time is out of order."""


class SourceError(ChronicleError):
    """An input file is missing, empty, of another format or of another schema."""


class NoEventError(SourceError):
    """Input files hold no event: none of their records is one, or they have no record."""


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


class StreamReplacedError(StorageError):
    """The stream that is held was dropped or renamed, and another one has its name now."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"stream '{name}' was dropped or renamed and made again since it was opened; open it "
            "again to read or append to the one that is there now"
        )


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


class UnreadFileError(StorageError):
    """The system did not hand out a file that may be whole: nothing is damaged or missing.

    Attributes
    ----------
    path, reason, remedy
        Which file, what the system says, and what to do.
    """

    def __init__(self, path: str, reason: str, remedy: str) -> None:
        self.path = path
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"'{path}' could not be read ({reason}); {remedy}")


class ExhaustedError(UnreadFileError):
    """The process or the system has run out of something, such as open files.

    Answers do not do without the file then: the next one would fail too, and what is remembered
    of a file that cannot be used would outlast the shortage.
    """


def unread(path: Path | str, error: BaseException) -> UnreadFileError | None:
    """Return the error for a file that the system did not hand out; None where it is damaged."""
    remedy = unread_remedy(error)
    if remedy is None:
        return None
    kind = ExhaustedError if is_exhausted(error) else UnreadFileError
    return kind(str(path), reason_of(error), remedy)


class UnusableFileError(ChronicleError):
    """A file is missing or damaged, or was not handed out; of derived files answers do without.

    Attributes
    ----------
    path, reason
        Which file, and what is wrong with it.
    unread
        What to do where the system only did not hand out its bytes; None where they are wrong.
    older
        Whether it is only that an older version wrote it.
    """

    _kind: ClassVar[str]
    _trouble: ClassVar[str] = "cannot be used"
    _remedy: ClassVar[str] = "answers stay right without it, 'chronicle repair' writes it anew"

    def __init__(
        self, path: str, reason: str, *, unread: str | None = None, older: bool = False
    ) -> None:
        self.path = path
        self.reason = reason
        self.unread = unread
        self.older = older
        trouble = self._trouble if unread is None else "could not be read"
        remedy = self._remedy if unread is None else f"answers stay right without it; {unread}"
        super().__init__(f"{self._kind} '{path}' {trouble} ({reason}); {remedy}")

    @classmethod
    def of(cls, path: Path, error: Exception) -> Self | UnreadFileError:
        """Return the error for what reading a file raised."""
        missed = unread(path, error)
        if isinstance(missed, ExhaustedError):
            return missed
        return cls(
            str(path),
            reason_of(error),
            unread=None if missed is None else missed.remedy,
            older=isinstance(error, OlderFormatError),
        )


def sentences_on(errors: Sequence[UnusableFileError]) -> tuple[str, ...]:
    """Return what is said of derived files of one kind: of all that are merely old one sentence."""
    older = [error for error in errors if error.older]
    said = [str(error) for error in errors if not error.older]
    if older:
        said.append(
            f"an older Chronicle wrote {number_of(len(older), older[0]._kind)} in "
            f"'{Path(older[0].path).parent}', which this one does not read; answers stay right "
            "without, 'chronicle repair' writes them anew"
        )
    return tuple(said)


class CorruptBlockError(UnusableFileError, StorageError):
    """An events file is missing or damaged; no answer is given without it."""

    _kind = "events file"
    _trouble = "cannot be read"
    _remedy = (
        "restore it from a copy, since no answer is given without it; until then queries that are "
        "run, not explained, leave it out under --skip-damaged ('chronicle check' lists what is "
        "damaged)"
    )

    @classmethod
    def of(cls, path: Path, error: Exception) -> Self | UnreadFileError:
        """Return the error for what reading a file raised: only what is damaged may be left out."""
        return unread(path, error) or cls(str(path), reason_of(error))


class ChangedFileError(CorruptBlockError):
    """A file of an adopted table is not the one that was verified; it is never answered from.

    Attributes
    ----------
    target
        The file; ``path`` is the stream's link to it.
    """

    def __init__(self, path: str, target: str, reason: str) -> None:
        super().__init__(path, reason)
        self.target = target
        said = (
            f"adopted file '{target}' is not what it was when it was verified ({reason}); run "
            "'chronicle adopt' again, which verifies it anew, or take the table in with "
            "'chronicle ingest'"
        )
        self.args = (said,)

    def __reduce__(self) -> tuple[type[ChangedFileError], tuple[str, str, str]]:
        """Let the error cross processes."""
        return type(self), (self.path, self.target, self.reason)


class AdoptedStreamError(StorageError):
    """The events of an adopted stream belong to another table, and are not written.

    Attributes
    ----------
    name, table
        Of the stream, and what it was adopted from.
    """

    def __init__(self, name: str, table: str) -> None:
        self.name = name
        self.table = table
        super().__init__(
            f"stream '{name}' was adopted from '{table}', whose files Chronicle never writes; "
            "change that table and run 'chronicle adopt' again, or take it into a stream of its "
            "own with 'chronicle ingest'"
        )


class CorruptTreeError(UnusableFileError, StorageError):
    """A tree file is missing or damaged; its entries are made from the events instead."""

    _kind = "tree file"


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


class UnflushedCommitError(StorageError):
    """A commit landed, and the disk did not confirm that it survives a power failure.

    Attributes
    ----------
    version
        The version it made.
    """

    def __init__(self, table: Path, version: int, reason: str) -> None:
        self.version = version
        super().__init__(
            f"version {version} of '{table}' is committed, but the disk did not confirm it "
            f"({reason}), and a power failure may take it away; do not run it again: check the "
            "disk, then run 'chronicle check'"
        )
