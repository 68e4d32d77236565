"""Append files to a stream in this process; what it has taken before is not taken again."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from chronicle.append_report import AppendReport
from chronicle.arguments import check_name, check_paths, check_type
from chronicle.derived import DerivedWriter
from chronicle.errors import SchemaError, SourceError, StorageError
from chronicle.ingest.cells import Guess, join_guesses
from chronicle.ingest.helper_columns import REASON, to_quarantine
from chronicle.ingest.preparation import check_settings, nothing_usable
from chronicle.ingest.read_files import Cut, Piece, guess_columns, read_piece
from chronicle.ingest.read_options import ReadOptions, options_to_json
from chronicle.ingest.read_plan import Inspected, ReadPlan, inspect_sources, make_plan, text_plan
from chronicle.ingest.report import AppendOptions, cut_notes
from chronicle.ingest.source_memory import (
    Sorted,
    Source,
    check_none_changed,
    check_unchanged,
    read_source,
    remembered,
    sort_sources,
    to_transactions,
)
from chronicle.ingest.sources import Since, SourceFormat, SourceSet, find_sources
from chronicle.ingest.table_memory import since_taken
from chronicle.ingest.typed_files import rows_of_groups
from chronicle.maintenance.compaction import tidied
from chronicle.settings import StreamSettings
from chronicle.store import Store, Stream
from chronicle.stream_folder import check_stream_name
from chronicle.tree.derived_attributes import canonical_names
from chronicle.write.append import append
from chronicle.write.lifecycle import drop_if_empty
from chronicle.write.quarantine import QUARANTINE_SCHEMA, count_by_reason

BYTES_MAX = 1 << 30
"""Events are held in memory whole; beyond this, ingest on Spark is the way."""

_LINES_SHOWN = 3

STDIN = "-"
"""Stands for what comes in by standard input."""


@dataclass(frozen=True, slots=True)
class AppendFilesReport:
    """What appending files did."""

    stream: str
    store_path: Path
    n_skipped: int
    """Files that the stream had taken before."""

    appended: AppendReport | None
    """None where every file was skipped, or none holds a record."""

    folder_columns: tuple[str, ...] = ()
    """Names and types of columns whose values are those in names of folders."""
    notes: tuple[str, ...] = ()
    """What is to be known of how the files were read."""
    first_aside: str = ""
    """Lines of the first records that were put into quarantine, in words; empty if none has one."""

    def __str__(self) -> str:
        lines = list(self.notes)
        if self.appended is not None:
            lines += [f"stream '{self.stream}': {self.appended}{self.first_aside}"]
            lines += [f"column from names of folders: {column}" for column in self.folder_columns]
        if self.n_skipped:
            files = "1 file was" if self.n_skipped == 1 else f"{self.n_skipped:,} files were"
            lines += [f"{files} taken before and skipped (--again takes them once more)"]
        return "\n".join(lines)


def append_files(
    store: Store,
    stream_name: str,
    sources: Sequence[str | Path],
    options: AppendOptions | None = None,
    *,
    derived: Callable[[Stream], DerivedWriter] | None = None,
    begin: Callable[[Stream], object] | None = None,
    stdin: BinaryIO | None = None,
) -> AppendFilesReport:
    """Append the events of files to a stream without Spark; a new one is created.

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
        How to read them; a new stream needs its time column.
    derived
        Makes the writer of runs of the stream's indexes, such as ``indexing.writer_for``; without
        one the new files are the tail of the indexes until the next compaction or ingest.
    begin
        Told of a stream that was created, before it holds events; for new streams only.
    stdin
        What ``"-"`` stands for.

    Returns
    -------
    AppendFilesReport
        What was appended, put into quarantine and skipped.

    Raises
    ------
    SourceError
        If a file cannot be taken or has changed since it was taken, or if the files hold no event
        but other records, or nothing for a new stream.
    SchemaError
        If its columns are not those of the stream, no time column is named for a new one, or
        something is asked of an existing one that only a new one can have.
    LateEventError
        If events are late and ``late`` is ``reject``.
    """
    check_type(store, Store)
    check_name(stream_name, "stream")
    check_paths(sources)
    options = AppendOptions() if options is None else options
    check_stream_name(stream_name)
    stream = store.stream(stream_name) if stream_name in store.stream_names() else None
    time = _check_stream(stream_name, stream, options, begin)
    derived_names = canonical_names(options.derive)
    paths = list(sources)
    found = None
    if STDIN not in paths:
        since = since_taken(None if options.again else stream)
        found = find_files(paths, format_name=options.format, since=since)
    memory = remembered(stream)
    sources_by = _sort(stream_name, memory, found, again=options.again)
    n_skipped = len(sources_by.had) + len(sources_by.renamed)
    n_skipped += 0 if found is None else found.n_taken
    said = (*(() if found is None else found.notes), *sources_by.notes)
    if found is not None and not sources_by.new:
        return AppendFilesReport(stream_name, store.path, n_skipped, None, notes=said)
    if found is not None:
        found = found.only({Path(source.spelled) for source in sources_by.new})
    tables = {} if found is None else found.tables
    read = read_files(
        paths if found is None else found,
        options,
        time=time,
        schema=None if stream is None else stream.schema,
        stdin=stdin,
    )
    if read.events.num_rows == 0:
        nothing = _no_events(read, time, is_new=stream is None)
        return AppendFilesReport(stream_name, store.path, n_skipped, None, notes=(*said, nothing))
    is_new = stream is None
    if stream is None:
        settings = StreamSettings(time=time, key=options.key, derived=derived_names)
        stream = store.create_stream(stream_name, read.events.schema, settings)
    try:
        if is_new and begin is not None:
            begin(stream)
        new = sources_by.new if tables else sources_by.without(read.empty)
        job = _Take(new, sources_by, tables, memory)
        report = _append(stream, read, job, options, derived=derived)
    except BaseException:
        if is_new:
            with suppress(StorageError):  # it is gone, or another process has one of this name
                drop_if_empty(store, stream)
        raise
    return AppendFilesReport(
        stream_name,
        store.path,
        n_skipped,
        report,
        read.folder_columns,
        (*said, *read.notes),
        _first_lines(read.put_aside),
    )


def _no_events(read: FileEvents, time: str, *, is_new: bool) -> str:
    """Return what is said where files hold no record; all else that is no event is refused."""
    if read.put_aside.num_rows:
        reasons = count_by_reason(read.put_aside.column("reason").to_pylist())
        raise nothing_usable(read.shown, time, read.put_aside.num_rows, reasons)
    nothing = f"nothing to append: {read.shown} holds {read.nothing}"
    if is_new:
        raise SourceError(f"{nothing}; a new stream needs events, name a file that has some")
    return nothing


def _first_lines(put_aside: pa.Table) -> str:
    """Return a line of a report that names lines of the first file which has records put aside."""
    put_aside = put_aside.filter(pc.is_valid(put_aside.column("line")))
    if put_aside.num_rows == 0:
        return ""
    source = put_aside.column("source")[0]
    own = put_aside.filter(pc.equal(put_aside.column("source"), source))
    lines = [f"{line:,}" for line in sorted(own.column("line").to_pylist())[:_LINES_SHOWN]]
    more = ", …" if put_aside.num_rows > len(lines) else ""
    return f"\n  at line {', '.join(lines)}{more} of '{source}'"


def _check_stream(
    stream_name: str,
    stream: Stream | None,
    options: AppendOptions,
    begin: Callable[[Stream], object] | None,
) -> str:
    """Check that what is asked fits the stream; return its time column."""
    if stream is None:
        if options.time is None:
            raise SchemaError(
                f"stream '{stream_name}' is new; name its time column with --time, or an "
                "existing stream"
            )
        return options.time
    stream.check_writable()
    check_settings(stream_name, stream.settings, options)
    if begin is not None:
        raise SchemaError(
            f"stream '{stream_name}' exists; --index is for new streams, 'chronicle index create' "
            "indexes attributes of this one"
        )
    return stream.settings.time


def _sort(
    stream_name: str, memory: Mapping[str, int], found: SourceSet | None, *, again: bool
) -> Sorted:
    """Read the files, and sort them by what the stream has of them; one that changed is refused."""
    if found is None:
        return Sorted()
    values = {} if found.tables else found.values
    read = [read_source(path, values.get(path)) for path in found.files]
    if again:
        return Sorted(new=tuple(read))
    sources_by = sort_sources(memory, read, by_content=not found.tables)
    check_none_changed(stream_name, sources_by)
    return sources_by


@dataclass(frozen=True, slots=True)
class _Take:
    """What an append takes."""

    new: tuple[Source, ...]
    """The files with a record."""

    found: Sorted
    """All that were named."""

    tables: Mapping[str, int]
    memory: Mapping[str, int]
    """What the stream remembered of sources when they were looked up."""


def _append(
    stream: Stream,
    read: FileEvents,
    job: _Take,
    options: AppendOptions,
    *,
    derived: Callable[[Stream], DerivedWriter] | None,
) -> AppendReport:
    beside = (*job.found.had, *job.found.renamed)

    def guard() -> None:
        """Refuse a source that changed, or that another process took, since it was looked up."""
        check_unchanged(job.new)
        now = remembered(stream)
        left = sort_sources(now, job.new, beside, by_content=not job.tables).new
        for source in job.new:
            name = source.application_id
            if now.get(name) != job.memory.get(name) if options.again else source not in left:
                raise SourceError(
                    f"another process took '{source.path}' into stream '{stream.name}' meanwhile; "
                    "nothing was appended, run it again to take what is left"
                )

    writer = None if derived is None else derived(stream)
    report = append(
        stream,
        read.events,
        late=options.late,
        derived=writer,
        metadata={"sources": json.dumps([source.to_dict() for source in job.new])},
        transactions={**to_transactions(job.memory, job.new, job.found.renamed), **job.tables},
        put_aside=read.put_aside if read.put_aside.num_rows else None,
        guard=guard,
    )
    return tidied(stream, report, writer)


# ---------------------------------------------------------------------------------------------
# From files to events.


@dataclass(frozen=True, slots=True)
class FileEvents:
    """What files hold."""

    events: pa.Table
    """Of the stream's schema, in order of arrival."""

    put_aside: pa.Table
    """Rows of the quarantine table, their batch not named yet: records that are no events."""

    shown: str
    """The first file and how many more there are, for people."""

    nothing: str
    """What they hold if they hold no record, in words."""

    notes: tuple[str, ...]
    """What is to be known of how they were read."""

    folder_columns: tuple[str, ...] = ()
    """Names and types of columns whose values are those in names of folders."""

    empty: frozenset[Path] = frozenset()
    """The files without a record."""


def find_files(
    sources: Sequence[str | Path], *, format_name: str | None, since: Since = lambda _: None
) -> SourceSet:
    """Find files that can be read into memory, see ``find_sources``."""
    found = find_sources(sources, format_name=format_name, since=since)
    if found.size_bytes > BYTES_MAX:
        raise SourceError(
            f"the files hold {found.size_bytes / 1e9:.1f} GB, and an append takes at most "
            f"{BYTES_MAX / 1e9:.1f} GB; take them in with 'chronicle ingest'"
        )
    return found


def read_files(
    sources: Sequence[str | Path] | SourceSet,
    options: ReadOptions,
    *,
    time: str,
    schema: pa.Schema | None,
    stdin: BinaryIO | None = None,
) -> FileEvents:
    """Read files of events into memory.

    A record with a cell that does not parse or without a time is no event, and is put aside with
    the reason. Sources are in the order of arrival, or only ``"-"`` for ``stdin``, or what was
    found of them. Without ``schema``, that of the stream, the files' own is taken.
    """
    given: Sequence[str | Path] = sources.files if isinstance(sources, SourceSet) else sources
    with _spooled(given, options.format, stdin) as paths:
        if isinstance(sources, SourceSet):
            files = sources
        else:
            files = find_files(paths, format_name=options.format)
        named = tuple("standard input" if STDIN in given else str(f) for f in files.files)
        found = inspect_sources(files, options, time=time, stream_schema=schema, names=named)
        plan = make_plan(
            found, options, time=time, stream_schema=schema, guess=lambda: _guess(found, options)
        )
        events, put_aside, cut, empty = _read(files, plan)
    shown = f"'{named[0]}'" + (f" and {len(named) - 1:,} more" if len(named) > 1 else "")
    nothing = "a header only" if plan.dialect and plan.dialect.has_header else "no event"
    notes = (*plan.notes, *cut_notes(cut.n_values, cut.n_twice, options.ambiguous))
    return FileEvents(events, put_aside, shown, nothing, notes, plan.folder_columns, empty)


def _guess(found: Inspected, options: ReadOptions) -> dict[str, Guess]:
    plan = text_plan(found, options)
    return join_guesses(
        guess_columns(path, position, plan) for position, path in enumerate(found.sources.files)
    )


def _read(files: SourceSet, plan: ReadPlan) -> tuple[pa.Table, pa.Table, Cut, frozenset[Path]]:
    """Return the events, the records put aside, the times cut, and the files without a record."""
    cut, empty = Cut(), set(files.files)
    events: list[pa.RecordBatch] = []
    aside = [QUARANTINE_SCHEMA.empty_table()]
    reading = options_to_json(plan.options)
    for position, path in enumerate(files.files):
        stop = len(rows_of_groups(path)) if files.format is SourceFormat.PARQUET else 0
        for batch in read_piece(Piece(position, str(path), 0, stop), plan, cut=cut):
            if batch.num_rows:
                empty.discard(path)
            if batch.column(REASON).null_count == batch.num_rows:
                events.append(batch.select(plan.schema.names))
            else:
                rows = to_quarantine(batch, batch_id="", sources=plan.names, reading=reading)
                aside.append(rows)
    table = pa.Table.from_batches(events, plan.schema)
    return table, pa.concat_tables(aside), cut, frozenset(empty)


@contextmanager
def _spooled(
    sources: Sequence[str | Path], format_name: str | None, stdin: BinaryIO | None
) -> Iterator[Sequence[str | Path]]:
    """Lend paths to read from; standard input is written to a file of its own first."""
    if STDIN not in sources:
        yield sources
        return
    if len(sources) > 1 or stdin is None:
        raise SourceError("'-' is standard input, and cannot be taken with files; name it alone")
    if format_name is None:
        raise SourceError(
            "standard input has no ending that tells its format; "
            "give --format parquet, csv, json or arrow"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard-input"
        with path.open("wb") as file:
            shutil.copyfileobj(stdin, file)
        try:
            yield [path]
        except (SchemaError, SourceError) as error:
            # Nobody knows the file by its path, which is gone by then.
            raise type(error)(str(error).replace(f"'{path}'", "standard input")) from error
