"""Append files to a stream without Spark; what it has taken before is not taken again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from chronicle.append import AppendReport, Late, append
from chronicle.delta_log import ForeignTable
from chronicle.derived import DerivedWriter
from chronicle.derived_attributes import canonical_names
from chronicle.errors import SchemaError, SourceError, StorageError
from chronicle.ingest.sources import SourceSet, table_id
from chronicle.lifecycle import drop_if_empty
from chronicle.local.reader import STDIN, LocalEvents, find_files, read_files
from chronicle.settings import StreamSettings
from chronicle.source_memory import (
    Source,
    fingerprints,
    read_source,
    taken,
    to_transactions,
    version_taken,
)
from chronicle.store import Store, Stream
from chronicle.stream_folder import check_stream_name


@dataclass(frozen=True, slots=True)
class AppendOptions:
    """How files are to be read, and what becomes of late events."""

    time: str | None = None
    """Time column; needed for a new stream alone."""

    derive: tuple[str, ...] = ()
    """Derived attributes of a new stream, such as ``delta(speed)``."""

    key: str | None = None
    """Column that tells the objects of a new stream apart."""

    late: Late | str = Late.MERGE
    format: str | None = None
    """``parquet``, ``csv``, ``json`` or ``arrow``; by the files' endings if None."""

    time_zone: str | None = None
    """Zone in which times without an offset are local."""

    again: bool = False
    """Whether to take files that were taken before."""


@dataclass(frozen=True, slots=True)
class AppendFilesReport:
    """What appending files did."""

    stream: str
    store_path: Path
    n_skipped: int
    """Files that the stream had taken before."""

    appended: AppendReport | None
    """None where every file was skipped."""

    folder_columns: tuple[str, ...] = ()
    """Names and types of columns whose values are those in names of folders."""

    def __str__(self) -> str:
        lines = []
        if self.appended is not None:
            lines += [f"stream '{self.stream}': {self.appended}"]
            lines += [f"column from names of folders: {column}" for column in self.folder_columns]
        if self.n_skipped:
            files = "1 file was" if self.n_skipped == 1 else f"{self.n_skipped:,} files were"
            lines += [f"{files} taken before and skipped (--again takes them once more)"]
        return "\n".join(lines)


def append_files(
    store: Store,
    stream_name: str,
    sources: Sequence[str | Path],
    options: AppendOptions,
    *,
    derived: Callable[[Stream], DerivedWriter] | None = None,
    begin: Callable[[Stream], object] | None = None,
    stdin: BinaryIO | None = None,
) -> AppendFilesReport:
    """Append the events of files to a stream, which is created if it is new.

    A stream that was created goes again if nothing can be appended to it.

    Parameters
    ----------
    store
        Where the stream is.
    stream_name
        Name of the stream.
    sources
        Files, patterns or folders in the order of arrival, or only ``"-"`` for ``stdin``.
    options
        How to read them.
    derived
        Makes the writer of the stream's runs.
    begin
        Told of a stream that was created, before it holds events; for new streams only.
    stdin
        What ``"-"`` stands for.

    Raises
    ------
    SourceError
        If a file cannot be taken, has changed since it was taken, or holds no event.
    SchemaError
        If its columns are not those of the stream, no time column is named for a new one, or
        something is asked of an existing one that only a new one can have.
    LateEventError
        If events are late and ``late`` is ``reject``.
    """
    check_stream_name(stream_name)
    stream = store.stream(stream_name) if stream_name in store.stream_names() else None
    if stream is not None:
        stream.check_writable()
    time = _time_column(stream_name, stream, options.time)
    derived_names = _derived_names(stream_name, stream, options.derive)
    _check_new(stream_name, stream, options, begin)
    paths = list(sources)
    found = None if STDIN in paths else _find(paths, stream, options)
    known = [] if found is None else [read_source(path) for path in found.files]
    skipped = frozenset[str]() if options.again else taken(stream, known)
    new = [source for source in known if source.path not in skipped]
    n_skipped = len(skipped) + (0 if found is None else found.n_taken)
    if found is not None and not new:
        return AppendFilesReport(stream_name, store.path, n_skipped, None)
    found = None if found is None else found.only({Path(source.path) for source in new})
    columns = () if found is None else found.folder_columns
    tables = {} if found is None else found.tables
    read = read_files(
        paths if found is None else found,
        time=time,
        schema=None if stream is None else stream.schema,
        format_name=options.format,
        time_zone=options.time_zone,
        stdin=stdin,
    )
    if stream is not None:
        report = _append(stream, read, new, tables, options, derived=derived)
        return AppendFilesReport(stream_name, store.path, n_skipped, report, columns)
    settings = StreamSettings(time=time, key=options.key, derived=derived_names)
    stream = store.create_stream(stream_name, read.events.schema, settings)
    try:
        if begin is not None:
            begin(stream)
        report = _append(stream, read, new, tables, options, derived=derived)
    except BaseException:
        with suppress(StorageError):  # it is gone, or another process has one of this name
            drop_if_empty(store, stream)
        raise
    return AppendFilesReport(stream_name, store.path, n_skipped, report, columns)


def _find(paths: Sequence[str | Path], stream: Stream | None, options: AppendOptions) -> SourceSet:
    """Find the files of sources; of Delta tables what was added since they were taken."""

    def since(table: ForeignTable) -> int | None:
        return None if options.again else version_taken(stream, table_id(table))

    return find_files(paths, format_name=options.format, since=since)


def _time_column(stream_name: str, stream: Stream | None, time: str | None) -> str:
    if stream is None:
        if time is None:
            raise SchemaError(
                f"stream '{stream_name}' is new; name its time column with --time, or an "
                "existing stream"
            )
        return time
    if time not in (None, stream.settings.time):
        raise SchemaError(
            f"stream '{stream_name}' is ordered by '{stream.settings.time}', not by '{time}'; "
            "leave --time out, or append to a new stream"
        )
    return stream.settings.time


def _check_new(
    stream_name: str,
    stream: Stream | None,
    options: AppendOptions,
    begin: Callable[[Stream], object] | None,
) -> None:
    """Refuse to ask of a stream that exists what only a new one can have."""
    if stream is None:
        return
    if begin is not None:
        raise SchemaError(
            f"stream '{stream_name}' exists; --index is for new streams, 'chronicle index create' "
            "indexes attributes of this one"
        )
    if options.key not in (None, stream.settings.key):
        found = f"the key '{stream.settings.key}'" if stream.settings.key else "no key"
        raise SchemaError(
            f"stream '{stream_name}' has {found}, not '{options.key}'; leave --key out, or append "
            "to a new stream"
        )


def _derived_names(
    stream_name: str, stream: Stream | None, derive: Sequence[str]
) -> tuple[str, ...]:
    names = canonical_names(derive)
    new = [name for name in names if stream is not None and name not in stream.settings.derived]
    if new:
        raise SchemaError(
            f"stream '{stream_name}' does not derive '{new[0]}'; index it with 'chronicle index "
            "create', which declares it, or append to a new stream"
        )
    return names


def _append(
    stream: Stream,
    read: LocalEvents,
    sources: Sequence[Source],
    tables: Mapping[str, int],
    options: AppendOptions,
    *,
    derived: Callable[[Stream], DerivedWriter] | None,
) -> AppendReport:
    paths = [source.path for source in sources]
    before = fingerprints(stream, paths) if options.again else {}

    def guard() -> None:
        """Refuse a source that another process took since it was looked up."""
        for path, found in fingerprints(stream, paths).items():
            if before.get(path) != found:
                raise SourceError(
                    f"another process took '{path}' into stream '{stream.name}' meanwhile; "
                    "nothing was appended, run it again to take what is left"
                )

    return append(
        stream,
        read.events,
        late=options.late,
        derived=None if derived is None else derived(stream),
        metadata={"sources": json.dumps([source.to_dict() for source in sources])},
        transactions={**to_transactions(sources), **tables},
        put_aside=read.put_aside if read.put_aside.num_rows else None,
        guard=guard,
    )
