"""What a stream has besides its events: derived attributes, tables and tree files."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chronicle.disk import discard, flush, writing
from chronicle.disk_errors import reason_of
from chronicle.errors import ExhaustedError, StorageError, UnreadFileError, unread
from chronicle.foreign_text import parse_json
from chronicle.log.delta_log import FollowedTable

ATTRIBUTES_FILE = "attributes.json"
"""File in a stream's folder that names its derived attributes and what is derived besides."""


@dataclass(frozen=True, slots=True)
class StreamMetadata:
    """What is derived from a stream's events, tree entries of columns aside."""

    derived: tuple[str, ...] = ()
    """Names of its derived attributes, in the order they were declared."""

    tables: tuple[str, ...] = ()
    """Tables that a ``DerivedWriter`` keeps, relative to the stream's folder: ``index/price``.
    They say so themselves while they are there; the list tells of those that were lost."""


def read_metadata(stream_dir: Path) -> StreamMetadata:
    """Return what is declared of a stream."""
    path = stream_dir / ATTRIBUTES_FILE
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        # Older files name no tables.
        names, tables = found["derived"], found.get("tables", [])
    except FileNotFoundError:
        return StreamMetadata()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unread(path, error) or _damaged(path, reason_of(error)) from error
    for listed, what in ((names, "attributes"), (tables, "tables")):
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise _damaged(path, f"it names no list of {what}")
    return StreamMetadata(tuple(names), tuple(tables))


def declared_tables(stream_dir: Path | str) -> tuple[str, ...]:
    """Return the declared tables; none where the file is damaged, as snapshots and check say."""
    try:
        return read_metadata(Path(stream_dir)).tables
    except ExhaustedError:
        raise
    except StorageError:
        return ()


def write_metadata(stream_dir: Path, declared: StreamMetadata) -> None:
    """Declare what is derived of a stream; the file is whole or not there."""
    path = stream_dir / ATTRIBUTES_FILE
    draft = stream_dir / f".{ATTRIBUTES_FILE}.{uuid.uuid4().hex}"
    try:
        with writing(path):
            draft.write_text(json.dumps(asdict(declared)) + "\n", encoding="utf-8")
            flush([draft])
            draft.replace(path)
    finally:
        discard([draft])
    flush([stream_dir])


def add_metadata(
    stream_dir: Path, *, derived: Sequence[str] = (), tables: Sequence[str] = ()
) -> None:
    """Add to what is declared of a stream."""
    _change(
        stream_dir,
        lambda known: StreamMetadata(
            tuple(dict.fromkeys((*known.derived, *derived))),
            tuple(dict.fromkeys((*known.tables, *tables))),
        ),
    )


def drop_metadata(stream_dir: Path, table: str) -> None:
    """Take a table out of what is declared of a stream."""
    _change(
        stream_dir,
        lambda known: replace(known, tables=tuple(t for t in known.tables if t != table)),
    )


def _change(stream_dir: Path, to_wanted: Callable[[StreamMetadata], StreamMetadata]) -> None:
    """Write what is wanted by what is declared, if it differs; one process at a time does."""
    with writing(stream_dir / ATTRIBUTES_FILE):
        folder = os.open(stream_dir, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # it ends with the descriptor
        known = read_metadata(stream_dir)
        wanted = to_wanted(known)
        if wanted != known:
            write_metadata(stream_dir, wanted)
    finally:
        os.close(folder)


class FollowedMetadata:
    """A stream's derived attributes, read again when the file changed. Not thread-safe.

    A file that is damaged costs time, never an answer: no attribute is derived then, and
    ``fault`` says so.
    """

    def __init__(self, stream_dir: Path) -> None:
        self._stream_dir = stream_dir
        self._stamp: tuple[int, int, int] | None = None
        self.names: tuple[str, ...] = ()
        self.fault: str | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it changed; return whether it says anything else of attributes."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        before = self.names, self.fault
        try:
            self.names, self.fault = read_metadata(self._stream_dir).derived, None
        except ExhaustedError:
            self._stamp = None  # read again next time
            raise
        except StorageError as error:
            self.names, self.fault = (), str(error)
        return before != (self.names, self.fault)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(f"{self._stream_dir}/{ATTRIBUTES_FILE}")  # noqa: PTH116 - hot path
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def _damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"file '{path}' of derived attributes is damaged ({reason}); restore it, or write "
        '{"derived": ["delta(COLUMN)"]} with the attributes that are to be kept, or none'
    )


class TreeLog:
    """The newest version of a stream's tree table. Not thread-safe.

    A log that is missing or damaged costs time, never an answer: no data file has a tree file
    then, and ``fault`` says so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: FollowedTable | None = None
        self.names: frozenset[str] = frozenset()
        self.fault: str | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Take in what was committed since; return whether anything changed.

        One ``stat`` if not; a log that could not be read is tried again.
        """
        try:
            if self._log is not None and not self._log.refresh():
                return False
            log = self._log or FollowedTable(self._path)
        except ExhaustedError:
            raise
        except StorageError as error:
            return self._lose(error)
        self._log = log
        self.names = frozenset(file.name for file in log.state.files)
        self.fault = None
        return True

    def _lose(self, error: StorageError) -> bool:
        is_news = self.fault is None
        self._log, self.names = None, frozenset()
        mended = ", 'chronicle repair' writes them anew"
        if isinstance(error, UnreadFileError):
            mended = ""  # they may be whole
        self.fault = (
            f"the tree files of '{self._path.parent}' are not known ({error}); answers stay right "
            f"without them{mended}"
        )
        return is_news
