"""Folders of files, and the layouts of other programs that are more than their loose files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from chronicle.disk_errors import reason_of
from chronicle.errors import SourceError
from chronicle.log import delta_log
from chronicle.paths import kind_of_special

_UNFINISHED = (".tmp", ".part", ".partial", ".filepart", ".crdownload", "._copying_")
"""Endings of files that are still being written or fetched."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a program lays out a table of which the files alone do not tell the rows."""

    name: str
    why: str
    remedy: str


DELTA = Layout("a Delta table", "whose log says which files live", "name the table")
HUDI = Layout(
    "a Hudi table",
    "whose files hold several versions of a record, of which '.hoodie' says which one counts",
    "write its rows to Parquet files in a folder of its own (with Spark: "
    "spark.read.format('hudi')), and name that",
)
ICEBERG = Layout(
    "an Iceberg table",
    "whose 'metadata' says which files live",
    "write its rows to Parquet files in a folder of its own (PyIceberg: table.scan().to_arrow()), "
    "and name that",
)
SPARK_SINK = Layout(
    "the output of a Spark streaming sink",
    "of which '_spark_metadata' says which files count; others are left by attempts that failed",
    "write its rows to Parquet files in a folder of its own (with Spark: "
    "spark.read.parquet(folder), which knows its log), and name that",
)

_ICEBERG_METADATA = re.compile(r"(v\d+|\d+-.+?)(\.gz)?\.metadata\.json(\.gz)?|version-hint\.text")


def layout_of(folder: Path, names: Collection[str] | None = None) -> Layout | None:
    """Return the layout that a folder is the root of, or None; ``names`` are those in it."""
    if names is None:
        try:
            names = set(os.listdir(folder))  # noqa: PTH208 -- names alone, of every parent
        except OSError:
            return None
    if "_delta_log" in names and delta_log.table_exists(folder):
        return DELTA
    if any(name == ".hoodie" or name.startswith(".hoodie_partition_metadata") for name in names):
        return HUDI
    if "_spark_metadata" in names:
        return SPARK_SINK
    if "metadata" in names and _is_iceberg(folder / "metadata"):
        return ICEBERG
    return None


def _is_iceberg(metadata: Path) -> bool:
    try:
        return any(_ICEBERG_METADATA.fullmatch(name) for name in os.listdir(metadata))  # noqa: PTH208
    except OSError:
        return False


def check_not_inside(folder: Path) -> None:
    """Check that a folder is no table of a foreign layout and no part of one.

    The files in it would else be taken for what the table holds.
    """
    place = folder.absolute()
    for each in dict.fromkeys((place, *place.parents, *place.resolve().parents)):
        found = layout_of(each)
        if found is not None:
            raise _refusal(folder, each, found)


def check_named(paths: Iterable[Path], *, is_pattern: bool) -> None:
    """Check what a user's name stands for: no pipe nor device, no part of a foreign table.

    Whoever names a single file of such a table means this file; a pattern, as a folder, means what
    lies there.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        check_ordinary(path)
        if path.is_dir():
            loose_files(path, lambda _: True)
        elif is_pattern:
            folders[path.parent] = None
    for folder in folders:
        check_not_inside(folder)


def _refusal(folder: Path, root: Path, layout: Layout) -> SourceError:
    if root in (folder, folder.absolute()):
        what = f"'{folder}' is"
    elif folder.absolute() in root.parents:
        what = f"'{folder}' holds '{root}', which is"
    else:
        what = f"'{folder}' lies in '{root}', which is"
    return SourceError(f"{what} {layout.name}, {layout.why}; {layout.remedy}")


def loose_files(folder: Path, is_data: Callable[[Path], bool]) -> list[Path]:
    """Return the files of a folder at any depth, sorted by name.

    Hidden files and folders (a leading ``.`` or ``_``) are left out, as Spark has it, and files
    that are still being written by their ending. A folder that is, holds or is a part of a table
    of a foreign layout is refused, and so is a pipe or device with a name that ``is_data`` says to
    be that of a file to take.
    """
    check_not_inside(folder)
    found: list[Path] = []
    left = [folder]
    while left:
        here = left.pop()
        try:
            with os.scandir(here) as listing:
                entries = list(listing)
        except FileNotFoundError:  # removed while it was looked for
            continue
        except OSError as error:
            raise SourceError(
                f"folder '{here}' cannot be read ({reason_of(error)}); make it readable, or move "
                "it away"
            ) from error
        layout = layout_of(here, {entry.name for entry in entries})
        if layout is not None:
            raise _refusal(folder, here, layout)
        for entry in entries:
            if entry.name.startswith((".", "_")) or entry.name.lower().endswith(_UNFINISHED):
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                left.append(path)
            elif entry.is_file(follow_symlinks=False) or path.is_file():
                found.append(path)
            elif is_data(path):
                check_ordinary(path)
    return sorted(found)


def check_ordinary(path: Path) -> None:
    """Check that a path is no pipe, device or socket, which reading may wait at for ever."""
    kind = kind_of_special(path)
    if kind is not None:
        raise SourceError(
            f"'{path}' is {kind}, not a file; write what comes from it to a file, and name that"
        )
