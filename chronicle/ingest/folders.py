"""The files that a folder stands for: those of a Delta table by its log, else what lies in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from chronicle.errors import SourceError
from chronicle.log import delta_log
from chronicle.log.delta_log import ForeignFile, ForeignTable
from chronicle.paths import values_in
from chronicle.schema import normalise_schema

Since = Callable[[ForeignTable], int | None]
"""Tells up to which version a Delta table was taken; None if it was not."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a folder, in the order in which their events arrived."""

    files: tuple[Path, ...]
    values: Mapping[Path, Mapping[str, str | None]]
    """By file, the values of columns that stand in its path or in the log of its table."""

    table: ForeignTable | None = None
    """None if it is no Delta table."""

    n_taken: int = 0
    """Files of the table that are not named, since it was taken up to a version that has them."""

    partitions: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of the columns in ``values``, where a table says them."""


def files_of(folder: Path, wanted: Callable[[Path], bool], since: Since) -> Folder:
    """Return what a folder stands for.

    Parameters
    ----------
    folder
        Absolute.
    wanted
        Tells which files are taken, where no log does.
    since
        Of a table that was taken up to a version only what was added afterwards is returned.

    Raises
    ------
    SourceError
        If it is part of a Delta table or holds some, or its table cannot be read file by file.
    """
    if delta_log.table_exists(folder):
        return _of_table(folder, since)
    for parent in folder.parents:
        if delta_log.table_exists(parent):
            raise SourceError(
                f"'{folder}' lies in Delta table '{parent}', whose log says which files live; name "
                "the table"
            )
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    inner = next((path for path in found if path.parent.name == "_delta_log"), None)
    if inner is not None:
        raise SourceError(
            f"'{folder}' holds the Delta table '{inner.parent.parent}', whose log says which files "
            "live; name tables one by one"
        )
    files = tuple(path for path in found if not _is_hidden(path, folder) and wanted(path))
    values = {path: values_in(path.relative_to(folder).as_posix()) for path in files}
    return Folder(files, {path: said for path, said in values.items() if said})


def _of_table(folder: Path, since: Since) -> Folder:
    table = delta_log.load_foreign(folder)
    version = since(table)
    added = table.files if version is None else delta_log.files_added_since(table, version)
    schema = normalise_schema(table.schema)
    return Folder(
        tuple(_on_disk(folder, file) for file in added),
        {folder / file.inside: file.values for file in added if file.values},
        table,
        0 if version is None else len(table.files),
        {name: schema.field(name).type for name in table.partition_columns},
    )


def _on_disk(folder: Path, file: ForeignFile) -> Path:
    path = folder / file.inside
    if not path.exists():
        raise SourceError(
            f"'{path}' brought rows to Delta table '{folder}' and is gone (was it vacuumed?); take "
            "the table whole into a new stream"
        )
    return path


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
