"""Changes of the disk: flushed to survive a power failure, and told in a sentence if they fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chronicle.disk_errors import reason_of, unwritten_remedy
from chronicle.errors import StorageError

SYNC_VARIABLE = "CHRONICLE_SYNC"
"""Environment variable that turns flushing ``off``; it is ``on`` where it is not set."""

_NO_FOLDERS = frozenset({errno.EINVAL, errno.ENOTSUP})
"""What file systems answer that cannot flush a folder, as some on networks."""


def is_durable() -> bool:
    """Return whether what is written is flushed before it is acknowledged."""
    said = os.environ.get(SYNC_VARIABLE, "on")
    if said not in ("on", "off"):
        raise StorageError(
            f"environment variable {SYNC_VARIABLE} is '{said}'; set it to 'on', so that what is "
            "acknowledged survives a power failure, or to 'off'"
        )
    return said == "on"


def flush(paths: Iterable[Path]) -> None:
    """Wait until the disk holds files, or the names in folders, whoever wrote them.

    A file survives a power failure once it is flushed, and the folder that names it, and the one
    that names this folder. Does nothing where flushing is turned off.

    Why a failure is raised: the bytes may be lost though they can be read now.
    """
    if not is_durable():
        return
    for path in paths:
        with writing(path, "flushed to disk"):
            _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDERS or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path, done: str = "written") -> Iterator[None]:
    """Turn what the system raises in the block into a StorageError: path, reason, remedy."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise unwritten(path, error, done) from error


def unwritten(path: Path | str, error: BaseException, done: str = "written") -> StorageError:
    """Return the error for something that cannot be written."""
    return StorageError(
        f"'{path}' cannot be {done} ({reason_of(error)}); {unwritten_remedy(error)}"
    )


def discard(paths: Iterable[Path]) -> None:
    """Remove files that no table names, as far as the disk lets it.

    What stays is a leftover, which ``check`` tells and ``vacuum`` removes; the error that made
    the files useless is the one to be told.
    """
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)
