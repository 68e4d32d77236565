"""Which folders of a store are streams, and which were before the log of their events was lost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from chronicle.arguments import check_name
from chronicle.config import EVENTS_TABLE
from chronicle.errors import StorageError
from chronicle.folder_lock import locked_folder
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


def put_in_place(made: Path, place: Path) -> None:
    """Move the folder of a finished stream to its place; it appears whole.

    What a killed process left there of a stream that never came to be goes.

    Raises FileExistsError if a stream is there.
    """
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
