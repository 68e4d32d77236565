"""Where the runs of an index lie, and what their files are called."""

from __future__ import annotations

import os
import re
import unicodedata
import uuid
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from chronicle import delta_log
from chronicle.derived_attributes import attribute_field
from indexing.errors import IndexingError

INDEX_FOLDER = "index"
"""Folder inside a stream that holds one Delta table per indexed attribute."""

DROPPED_PREFIX = ".dropped-"
"""First part of the name a dropped index has while its files are deleted. No attribute starts with
a dot."""

FOLDER_BYTES_MAX = 200
"""Longest name of an index folder; file systems take no more than 255."""

_DATA_FILE = re.compile(r"\d+(?:-\d+){2,}-[0-9a-f]{32}\.parquet")


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


def indexed_field(schema: pa.Schema, attribute: str) -> pa.Field:
    """Return name and type of a column or a derived attribute to index.

    Raises
    ------
    IndexingError
        If it is neither.
    SchemaError
        If it is an attribute that cannot be derived from these columns.
    """
    field = attribute_field(schema, attribute)
    if field is None:
        raise IndexingError(
            f"no column '{attribute}' to index (columns: {', '.join(schema.names)})"
        )
    return field


def indexed_attributes(stream_dir: Path | str, columns: Iterable[str]) -> tuple[str, ...]:
    """Return which of ``columns`` have an index table, sorted; lists one folder.

    Parameters
    ----------
    stream_dir
        Folder of the stream.
    columns
        Names of the stream's columns and derived attributes.
    """
    folder = f"{stream_dir}/{INDEX_FOLDER}"
    named = index_folders(stream_dir, columns)
    return tuple(name for name in named if delta_log.table_exists(f"{folder}/{name}"))


def index_folders(stream_dir: Path | str, columns: Iterable[str]) -> tuple[str, ...]:
    """Return which of ``columns`` have a folder of an index, sorted, with a table in it or not."""
    try:
        names = os.listdir(f"{stream_dir}/{INDEX_FOLDER}")  # noqa: PTH208 - names are wanted
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(frozenset(columns).intersection(names)))
