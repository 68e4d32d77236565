"""Find orphans: files and folders that killed operations left behind and no version names.

Only what bears a name that Chronicle gives is a leftover, which vacuum and repair may remove. They
never go through a link: what lies behind one is not the stream's alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from chronicle.log.adopted_file import is_adopted

_LOG = "_delta_log"

_OWN_FILE = re.compile(
    r"_?(\d+-)*[0-9a-f]{32}(-[0-9a-f]+)*\.parquet(\.[0-9a-f]{32}\.draft)?", re.ASCII
)
"""Data files and those named like them, merged runs, quarantine files, and drafts of them."""

_DRAFT = re.compile(r".+#\d+|\..+\.draft")
"""What a file of a log is called before it has its name: ``00000000000000000007.json#1``."""


def is_own_file(path: Path) -> bool:
    """Return whether a file in a table's folder has a name of Chronicle's and is no link.

    The link to a file that was adopted is Chronicle's own; what it leads to is not.
    """
    if path.is_symlink():
        return is_adopted(path.name)
    return _OWN_FILE.fullmatch(path.name) is not None and path.is_file()


def unknown_files(table: Path, known: Collection[str]) -> list[Path]:
    """Return the files of Chronicle's in a table's folder that no version names, sorted.

    Drafts of commits and checkpoints are among them.
    """
    found = [path for path in _entries(table) if path.name not in known and is_own_file(path)]
    return sorted([*found, *drafts(table)])


def foreign_files(table: Path, known: Collection[str]) -> list[Path]:
    """Return what lies in a table's folder, or is the folder, and Chronicle did not put there."""
    if table.is_symlink():
        return [table]
    return [
        path
        for path in _entries(table)
        if not is_own_file(path)
        and (path.is_symlink() or not (path.is_dir() or path.name in known))
    ]


def find_links(stream_dir: Path) -> list[Path]:
    """Return the links in a stream's folder that Chronicle did not make, sorted."""
    found = (path for path in stream_dir.rglob("*") if path.is_symlink())
    return sorted(path for path in found if not is_own_file(path))


def _entries(table: Path) -> list[Path]:
    if table.is_symlink() or not table.is_dir():
        return []
    return sorted(path for path in table.iterdir() if path.name != _LOG)


def remove_table(folder: Path) -> bool:
    """Remove the folder of a table that was replaced; return whether nothing else lay in it.

    Its log and the files that Chronicle named go; what else is there stays, and the folder.
    """
    shutil.rmtree(folder / _LOG, ignore_errors=True)
    for path in filter(is_own_file, _entries(folder)):
        path.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def drafts(table: Path) -> list[Path]:
    """Return the files in a table's log that never got their names; none behind a link."""
    log = table / _LOG
    if table.is_symlink() or log.is_symlink() or not log.is_dir():
        return []
    return [path for path in log.iterdir() if is_draft(path.name) and not path.is_symlink()]


def is_draft(name: str) -> bool:
    """Return whether a file of a log has not got its name yet. Pure."""
    return _DRAFT.fullmatch(name) is not None


def remove_if_empty(folder: Path) -> bool:
    """Remove a folder that holds nothing but empty folders; return whether it is gone.

    Who puts a file into it meanwhile keeps it.
    """
    if folder.is_symlink():
        return False
    try:
        for inner in sorted(folder.rglob("*"), reverse=True):
            inner.rmdir()
        folder.rmdir()
    except OSError:
        return False
    return True
