"""The commit protocol: events first, then what is derived from them, each step on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle import delta_log
from chronicle.block_writer import EVENTS_TABLE, WrittenFile, write_tree
from chronicle.blocks import BlockReader
from chronicle.delta_log import NewFile, new_files
from chronicle.derived import DerivedFile, DerivedWriter
from chronicle.store import Stream
from chronicle.time import to_int64
from chronicle.tree_file import TREE_TABLE, tree_schema

_YEAR_1_US = -62_135_596_800_000_000
_YEAR_10000_US = 253_402_300_800_000_000


def commit_files(
    stream: Stream,
    files: Sequence[WrittenFile],
    *,
    read_version: int,
    metadata: Mapping[str, str],
) -> int:
    """Commit written files: events, then tree entries, then runs.

    A crash in between loses nothing: the events exist once the first step is done, and
    ``complete_derived`` does the rest.

    Parameters
    ----------
    stream
        The stream they were written for.
    files
        What ``write_ordered`` returned.
    read_version
        Version of the events table the files were prepared on.
    metadata
        Rides in the events commit.

    Returns
    -------
    int
        The version of the events table that holds the files.

    Raises
    ------
    CommitConflictError
        If another commit to the events landed after ``read_version``; nothing was committed.
    """
    version = commit_events(stream, files, read_version=read_version, metadata=metadata)
    commit_tree(stream, files)
    commit_derived(stream, files)
    return version


def commit_events(
    stream: Stream,
    files: Sequence[WrittenFile],
    *,
    read_version: int,
    metadata: Mapping[str, str],
) -> int:
    """Commit data files to the events table: the moment their events exist."""
    time = stream.settings.time
    data_type = stream.schema.field(time).type
    additions = [
        NewFile(
            file.name,
            file.size_bytes,
            {"numRecords": file.n_events}
            | time_statistics(time, data_type, file.t_min, file.t_max),
        )
        for file in files
    ]
    return delta_log.add_files(
        stream.path / EVENTS_TABLE, additions, read_version=read_version, metadata=metadata
    )


def time_statistics(time: str, data_type: pa.DataType, t_min: int, t_max: int) -> dict[str, Any]:
    """Return Delta's statistics of the time column, so that other readers can skip a file.

    Parameters
    ----------
    time
        Name of the time column.
    data_type
        Its type in the stream's schema.
    t_min, t_max
        Internal times of the file's first and last event.

    Returns
    -------
    dict
        Empty for timestamps outside the years 1 to 9999, which Delta's text form cannot carry.
    """
    low: int | str = t_min
    high: int | str = t_max
    if pa.types.is_timestamp(data_type):
        if t_min < _YEAR_1_US or t_max >= _YEAR_10000_US:
            return {}
        zone = "" if data_type.tz is None else "Z"
        low, high = (f"{np.datetime64(value, 'us')}{zone}" for value in (t_min, t_max))
    return {"minValues": {time: low}, "maxValues": {time: high}, "nullCount": {time: 0}}


def commit_tree(stream: Stream, files: Sequence[WrittenFile]) -> None:
    """Commit the files' tree entries."""
    _commit_derived_files(stream, [file.tree for file in files], tree_schema(stream.schema))


def commit_derived(stream: Stream, files: Sequence[WrittenFile]) -> None:
    """Commit what a ``DerivedWriter`` wrote beside the files, table by table."""
    by_table: dict[str, list[DerivedFile]] = {}
    for file in files:
        for derived in file.derived:
            by_table.setdefault(derived.table, []).append(derived)
    for table in sorted(by_table):
        _commit_derived_files(stream, by_table[table], None)


def _commit_derived_files(
    stream: Stream, files: Sequence[DerivedFile], schema: pa.Schema | None
) -> None:
    """Add derived files to their one table; creates it, by a file's schema if none is given."""
    if not files:
        return
    path = stream.path / files[0].table
    if not delta_log.table_exists(path):
        found = schema if schema is not None else pq.read_schema(path / files[0].name)
        delta_log.create_table(path, found.remove_metadata(), {})
    additions = new_files((file.name, file.size_bytes, file.n_rows) for file in files)
    delta_log.add_files(path, additions, read_version=None, metadata={})


def complete_derived(stream: Stream, derived: DerivedWriter | None) -> int:
    """Write and commit what a crash left out: tree entries and runs of live data files.

    Parameters
    ----------
    stream
        Any stream; one that lacks nothing is left as it is.
    derived
        Writes runs; None completes tree entries only.

    Returns
    -------
    int
        Number of derived files committed.

    Raises
    ------
    CorruptBlockError
        If a data file that lacks something cannot be read.
    """
    live = [file.name for file in delta_log.live_files(stream.path / EVENTS_TABLE)]
    tables = {TREE_TABLE: tree_schema(stream.schema)}
    if derived is not None:
        tables |= derived.tables(stream.schema)
    covered = {table: _covered(stream, table, schema) for table, schema in tables.items()}
    written: dict[str, list[DerivedFile]] = {table: [] for table in tables}
    reader = BlockReader(stream.path / EVENTS_TABLE, stream.schema)
    for name in sorted(live):
        lacking = {table for table in tables if name not in covered[table]}
        if lacking:
            for file in _derive(stream, reader, name, derived, lacking):
                written[file.table].append(file)
    for table, files in written.items():
        _commit_derived_files(stream, files, tables[table])
    return sum(len(files) for files in written.values())


def _covered(stream: Stream, table: str, schema: pa.Schema) -> set[str]:
    """Return the data files a derived table has a file of; creates a table that is missing."""
    delta_log.create_table(stream.path / table, schema, {})
    path = stream.path / table
    return {file.name for file in delta_log.live_files(path) if (path / file.name).exists()}


def _derive(
    stream: Stream,
    reader: BlockReader,
    name: str,
    derived: DerivedWriter | None,
    lacking: set[str],
) -> list[DerivedFile]:
    """Write what one data file lacks."""
    counts = reader.block_counts(name)
    events = reader.read(name, range(len(counts)), stream.schema.names).cast(stream.schema)
    events = events.combine_chunks()
    times = to_int64(events.column(stream.settings.time), name=stream.settings.time)
    files = []
    if TREE_TABLE in lacking:
        fan_out = stream.settings.fan_out
        files.append(write_tree(stream.path, name, events, times.to_numpy(), counts, fan_out))
    if derived is not None and lacking - {TREE_TABLE}:
        files += derived.write(stream.path, name, events, times, counts)
    return [file for file in files if file.table in lacking]
