"""The folders of streams: their names, their locks, and folders where unfinished work lies."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time as clock
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from chronicle.arguments import check_name
from chronicle.config import EVENTS_TABLE
from chronicle.disk import discard, flush, unwritten, writing
from chronicle.errors import ChronicleError, StorageError
from chronicle.log import delta_log

_STREAM_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,254}")
"""No longer than file systems take."""

STREAM_NAME_MAX = 200
"""Longest name of a new stream, so that there is room for what is written beside its folder."""


def is_stream_name(name: str) -> bool:
    """Return whether a folder of this name can be a stream. Pure."""
    return _STREAM_NAME.fullmatch(name) is not None


def check_stream_name(name: str) -> None:
    """Check that a stream can have this name."""
    check_name(name, "stream")
    if len(name) > STREAM_NAME_MAX:
        raise StorageError(
            f"stream name '{name[:20]}…' has {len(name):,} letters; take {STREAM_NAME_MAX} at most"
        )
    if not is_stream_name(name):
        raise StorageError(
            f"stream name '{name}' cannot be used; take letters, digits, '_' and '-'"
        )
    if name == "_delta_log":
        raise StorageError(
            "stream name '_delta_log' cannot be used: it is that of the log of a Delta table"
        )


def put_in_place(made: Path, place: Path, taken: ChronicleError) -> None:
    """Move the folder of a finished stream to its place; it appears whole.

    What a killed process left there of a stream that never came to be goes.

    Raises ``taken`` if a stream is there.
    """
    try:
        _put_in_place(made, place)
    except OSError as error:
        if not place.exists():
            raise unwritten(place, error) from error
        raise taken from error
    flush([place.parent])


def _put_in_place(made: Path, place: Path) -> None:
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise
        with locked_folder(place, alone=True):
            if delta_log.table_exists(place / EVENTS_TABLE) or unlogged_file(place) is not None:
                raise FileExistsError(f"'{place}' is a stream") from None
            place.rename(made.with_name(f"{made.name}.remains"))
        made.rename(place)


def unlogged_streams(store_path: Path) -> list[str]:
    """Return the names of folders that hold data files of a stream and no log of its events."""
    return sorted(
        folder.name
        for folder in store_path.iterdir()
        if is_stream_name(folder.name) and unlogged_file(folder) is not None
    )


def with_unlogged(names: Iterable[str], store_path: Path) -> list[str]:
    """Return names of streams and those of streams that lost the log of their events, sorted."""
    return sorted({*names, *unlogged_streams(store_path)})


def check_unclaimed(folder: Path) -> None:
    """Check that no data file lies in a folder of which no log tells what events it holds.

    A stream cannot be made there, as it would take the place of another, nor can that one be
    repaired. What a crash leaves of a stream that was being made is no hindrance: it has no data
    file yet.
    """
    found = unlogged_file(folder)
    if found is None:
        return
    log = folder / EVENTS_TABLE / "_delta_log"
    if log.is_dir() and not os.access(log, os.R_OK | os.X_OK):
        raise StorageError(f"the log '{log}' of a stream may not be read; check its permissions")
    raise StorageError(
        f"'{folder}' holds data files of a stream, such as '{found.relative_to(folder)}', and "
        f"the log of its events is gone; restore '{log}' from a copy, or move the folder away to "
        "make a new stream of that name"
    )


def unlogged_file(folder: Path) -> Path | None:
    """Return a data file of a stream that lost the log of its events; None for other folders."""
    if delta_log.table_exists(folder / EVENTS_TABLE):
        return None
    # Of the events, the tree and the quarantine; of indexes, a level below.
    found = min([*folder.glob("*/*.parquet"), *folder.glob("index/*/*.parquet")], default=None)
    # Another process may have made the stream, or dropped it, while this one looked.
    if found is None or delta_log.table_exists(folder / EVENTS_TABLE) or not found.exists():
        return None
    return found


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


# ---------------------------------------------------------------------------------------------
# Folders where an operation writes what nobody may see yet


STAGING_PREFIX = ".ingest-"
"""Folders of this prefix at the root of a store hold unfinished work and are no streams."""

_LOCK_FILE = "lock"

_MADE_SECONDS_MAX = 600
"""A folder without a lock this long after it was made belongs to an ingest that was killed."""


_HEX = re.compile(r"[0-9a-f]{32}", re.ASCII)


@contextmanager
def open_staging(store_path: Path) -> Iterator[Path]:
    """Make a folder that is removed with all it still holds when the block ends.

    It lies in the store, so that what is finished can be renamed to its place at once. A lock
    that the system releases when a process dies tells work under way from what a killed ingest
    left behind; the latter is removed here.
    """
    remove_abandoned(store_path)
    folder, descriptor = _make(store_path)
    try:
        yield folder
    finally:
        # Tasks of an interrupted job may write for a moment longer.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def own_folders(parent: Path, prefix: str) -> list[Path]:
    """Return the folders, no links, that Chronicle named with a prefix and a random number."""
    return sorted(
        path
        for path in parent.glob(f"{prefix}*")
        if _HEX.fullmatch(path.name.removeprefix(prefix))
        and not path.is_symlink()
        and path.is_dir()
    )


def _make(store_path: Path) -> tuple[Path, int]:
    """Make a folder and lock it; returns the lock's descriptor too."""
    while True:
        folder = store_path / f"{STAGING_PREFIX}{uuid.uuid4().hex}"
        lock = folder / _LOCK_FILE
        with writing(folder, "made"):
            folder.mkdir()
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if lock.exists():
            return folder, descriptor
        os.close(descriptor)  # another process took it for abandoned before it was locked


def remove_abandoned(store_path: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the folders of ingests that are no longer running; return which."""
    abandoned = []
    for folder in own_folders(store_path, STAGING_PREFIX):
        try:
            descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR)
        except FileNotFoundError:
            if not _is_old(folder):
                continue  # just being made or removed by its own ingest
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
            abandoned.append(folder)
            continue
        except OSError:
            continue  # not ours to touch
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
            abandoned.append(folder)
        except BlockingIOError:
            continue  # at work
        finally:
            os.close(descriptor)
    return abandoned


def _is_old(folder: Path) -> bool:
    """Return whether a folder was made long ago, by the clock of the file system's writers."""
    try:
        return clock.time() - folder.stat().st_mtime > _MADE_SECONDS_MAX
    except FileNotFoundError:
        return False


def move_files(staged: Path, target: Path) -> list[Path]:
    """Move every file below ``staged`` to the same place below ``target``.

    Returns where the files are now. If one cannot be moved, none is.
    """
    moved: list[Path] = []
    try:
        for path in sorted(staged.rglob("*")):
            if path.is_file():
                place = target / path.relative_to(staged)
                with writing(place):
                    make_table_folder(target, place.parent.relative_to(target).as_posix())
                    path.rename(place)
                moved.append(place)
    except BaseException:
        discard(moved)
        raise
    return moved
