"""Keeps a stream's folder in its place while it is committed to, and gone once it was moved."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from chronicle.disk import unwritten
from chronicle.errors import StorageError


@contextmanager
def locked_folder(folder: Path, *, alone: bool = False) -> Iterator[None]:
    """Lock a stream's folder while the block runs, for commits, or alone for moving it.

    Raises FileNotFoundError if it is not there.
    """
    descriptor = _lock(folder, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    try:
        yield
    finally:
        os.close(descriptor)  # the lock ends with it


def _lock(folder: Path, kind: int) -> int:
    """Lock what lies at a path; who moved it meanwhile leaves a lock on what lies elsewhere."""
    while True:
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(
                f"folder '{folder}' cannot be opened ({error.strerror}); check its permissions"
            ) from error
        try:
            fcntl.flock(descriptor, kind)
            if os.path.samestat(os.fstat(descriptor), folder.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def make_table_folder(stream_dir: Path, table: str) -> Path:
    """Make the folder of a table inside a stream's folder; return its path.

    Why: the folder of a stream that was dropped must not come back because somebody still writes
    to it; without a log it would keep the name from being used again.

    Raises FileNotFoundError if the stream's folder is gone.
    """
    folder = stream_dir
    for part in PurePosixPath(table).parts:
        folder /= part
        try:
            folder.mkdir(exist_ok=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unwritten(folder, error) from error
    return folder
