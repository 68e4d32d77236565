"""Which derived attributes a stream has: a file beside its tables, since they may be added to."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from chronicle.errors import StorageError

ATTRIBUTES_FILE = "attributes.json"
"""File in a stream's folder that names its derived attributes."""


def read_declared(stream_dir: Path) -> tuple[str, ...]:
    """Return the names of a stream's derived attributes, in the order they were declared.

    Raises
    ------
    StorageError
        If the file that names them cannot be read.
    """
    path = stream_dir / ATTRIBUTES_FILE
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["derived"]
    except FileNotFoundError:
        return ()
    except PermissionError as error:
        raise StorageError(
            f"file '{path}' of derived attributes may not be read ({error.strerror}); check its "
            "permissions"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged(path, "it names no list of attributes")
    return tuple(names)


def write_declared(stream_dir: Path, names: Sequence[str]) -> None:
    """Name a stream's derived attributes; the file is whole or not there."""
    path = stream_dir / ATTRIBUTES_FILE
    draft = stream_dir / f".{ATTRIBUTES_FILE}.{uuid.uuid4().hex}"
    try:
        draft.write_text(json.dumps({"derived": list(names)}) + "\n", encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def add_declared(stream_dir: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Add to the names of a stream's derived attributes; returns all.

    Raises
    ------
    StorageError
        If the file that names them cannot be read.
    """
    folder = os.open(stream_dir, os.O_RDONLY)
    try:
        # Two processes may add at once; the lock ends with the descriptor.
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = read_declared(stream_dir)
        wanted = tuple(dict.fromkeys((*known, *names)))
        if wanted != known:
            write_declared(stream_dir, wanted)
        return wanted
    finally:
        os.close(folder)


class FollowedDeclaration:
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
        """Read the file if it changed; return whether it did."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.names, self.fault = read_declared(self._stream_dir), None
        except StorageError as error:
            self.names, self.fault = (), str(error)
        return True

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
