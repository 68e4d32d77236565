"""Where the runs of an index lie, and what their files are called."""

from __future__ import annotations

import os
import re
import unicodedata
import uuid
from collections.abc import Collection
from pathlib import Path

from chronicle.log import delta_log
from chronicle.log.stream_metadata import declared_tables
from indexing.attributes import names_attribute

INDEX_FOLDER = "index"
"""Folder inside a stream that holds one Delta table per indexed attribute."""

DROPPED_PREFIX = ".dropped-"
"""First part of the name a dropped index has while its files are deleted. No attribute starts with
a dot."""

FOLDER_BYTES_MAX = 200
"""Longest name of an index folder; file systems take no more than 255."""

_DATA_FILE = re.compile(r"\d+(?:-\d+){2,}-[0-9a-f]{32}(?:\.adopted)?\.parquet")


def index_table(attribute: str) -> str:
    """Return the Delta table of an attribute's runs, relative to the stream's folder."""
    return f"{INDEX_FOLDER}/{attribute}"


def names_folder(attribute: str) -> bool:
    """Return whether the folder of an index can be called as the attribute is."""
    return (
        0 < len(os.fsencode(attribute)) <= FOLDER_BYTES_MAX
        and not attribute.startswith((".", "_"))
        and not any(char in "/\\%:" or unicodedata.category(char) == "Cc" for char in attribute)
    )


def merged_run_name() -> str:
    """Return a file name no other run has; those of one data file are named like it."""
    return f"{uuid.uuid4().hex}.parquet"


def is_of_one_file(run: str) -> bool:
    """Return whether a run covers the one data file it is named like, told by its name alone."""
    return _DATA_FILE.fullmatch(run) is not None


def indexed_attributes(
    stream_dir: Path | str, columns: Collection[str], derived: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what has an index table, or had one that was lost, sorted; lists one folder.

    What is called otherwise than a column or a derived attribute, or joins other columns, is left
    out.
    """
    folder = f"{stream_dir}/{INDEX_FOLDER}"
    named = index_folders(stream_dir, columns, derived)
    there = {name for name in named if delta_log.table_exists(f"{folder}/{name}")}
    declared = [table.removeprefix(f"{INDEX_FOLDER}/") for table in declared_tables(stream_dir)]
    return tuple(sorted(there.union(n for n in declared if names_attribute(columns, derived, n))))


def index_folders(
    stream_dir: Path | str, columns: Collection[str], derived: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what has a folder of an index, sorted, with a table in it or not."""
    try:
        names = os.listdir(f"{stream_dir}/{INDEX_FOLDER}")  # noqa: PTH208 - names are wanted
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(name for name in names if names_attribute(columns, derived, name)))
