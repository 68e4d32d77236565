"""Open a store, or make one that goes again if what it was made for fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chronicle import config
from chronicle.errors import StoreExistsError
from chronicle.paths import local_path
from chronicle.store import Store, create_store, open_store


@contextmanager
def open_or_create(path: str | Path) -> Iterator[Store]:
    """Lend the store at ``path``, made where there is none.

    One that was made here and holds nothing when the block fails is removed, and so are the
    folders that were made to hold it.
    """
    folder = local_path(path)
    if (folder / config.MARKER_FILE).exists():
        yield open_store(folder)
        return
    top = _topmost_missing(folder)
    try:
        store = create_store(folder)
    except StoreExistsError:
        if not (folder / config.MARKER_FILE).exists():
            raise
        yield open_store(folder)  # another process made it just now
        return
    try:
        yield store
    except BaseException:
        if [entry.name for entry in folder.iterdir()] == [config.MARKER_FILE]:
            (folder / config.MARKER_FILE).unlink()
            if top is not None:
                shutil.rmtree(top, ignore_errors=True)
        raise


def _topmost_missing(folder: Path) -> Path | None:
    """Return the outermost folder that has to be made for ``folder`` to exist; None if it does."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    return missing[-1] if missing else None
