"""Finds what killed operations left behind in tables: files that none of them knows."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


def unknown_files(table: Path, known: Collection[str]) -> list[Path]:
    """Return the files in a table's folder that none of its versions names, sorted.

    Parameters
    ----------
    table
        Folder of the Delta table.
    known
        Names, relative to the folder, of all files that any version names.
    """
    return sorted(
        path
        for path in (table.iterdir() if table.is_dir() else ())
        if path.name not in known and path.name != "_delta_log" and path.is_file()
    )
