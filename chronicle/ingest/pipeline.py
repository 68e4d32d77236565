"""Take files into a stream: read, survey, order, write, commit."""

from __future__ import annotations

import hashlib
import json
import time as clock
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronicle.commit import complete_derived
from chronicle.derived import DerivedWriter
from chronicle.errors import (
    ChronicleError,
    LateEventError,
    SchemaError,
    SourceError,
    did_you_mean,
)
from chronicle.ingest.column_choice import FoundColumns, inspect_sources
from chronicle.ingest.publish import publish_append, publish_first
from chronicle.ingest.reader import (
    Reading,
    read_sources,
    survey_frame,
    write_frame,
)
from chronicle.ingest.report import IngestOptions, IngestReport
from chronicle.ingest.session import open_spark
from chronicle.ingest.sources import SourceSet, find_sources
from chronicle.ingest.spark_tools import collect_rows, spark_faults
from chronicle.ingest.staging import open_staging
from chronicle.ingest.survey import (
    LATE_SHOWN_MAX,
    SURVEY_DDL,
    Split,
    Survey,
    summarise_splits,
    survey_batches,
)
from chronicle.ingest.write import (
    RESULT_DDL,
    TaskOutputs,
    WriteTask,
    from_results,
    to_failure,
    to_results,
    write_part,
)
from chronicle.settings import StreamSettings
from chronicle.store import Store, Stream, check_stream_name, create_store
from chronicle.time import from_int64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DerivedFactory = Callable[[tuple[str, ...], str], DerivedWriter]
"""Makes what derives indexes, from the attributes to index and the name of the time column."""

_SMALL_BYTES_MAX = 64 << 20
"""Sources up to this size are taken in seconds, most of which Spark needs to start."""

_TASK_EVENTS_MIN = 1 << 16
"""A sort is spread over more tasks only where each has so many events."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What one ingest is about, as decided before Spark starts."""

    store: Store
    stream_name: str
    stream: Stream | None
    """None if the stream is new."""

    read_version: int
    stream_end: int | None
    """Time of the stream's last event."""

    options: IngestOptions
    settings: StreamSettings
    attributes: tuple[str, ...]
    """To index."""

    sources: SourceSet
    progress: Callable[[str], None]


def ingest(
    store: Store,
    stream_name: str,
    sources: Sequence[str | Path],
    options: IngestOptions,
    *,
    derived: DerivedFactory | None = None,
    progress: Callable[[str], None] = lambda _: None,
    log_file: Path | None = None,
) -> IngestReport:
    """Append the events of files to a stream, which is created if it is new.

    Events are ordered by time, those of one time as they arrived: by position of the file among
    the sources, then by position in the file. Records that are no events are put into the
    stream's quarantine table. All events become visible at once, or none.

    Parameters
    ----------
    store
        Where the stream is.
    stream_name
        Name of the stream.
    sources
        Files, patterns or folders, in the order of arrival.
    options
        How to read them.
    derived
        Makes the writer of indexes; None writes none.
    progress
        Told what is being done, in words.
    log_file
        Takes what Spark prints; a file in the temporary folder if None.

    Raises
    ------
    EnvironmentFaultError
        If Java is missing or too old.
    SourceError
        If a source is missing, empty, not in the format, or holds no event.
    SchemaError
        If columns are missing, cannot be stored, or are not those of the stream.
    LateEventError
        If events are older than the stream's end.
    StorageError
        If the stream cannot have its name, or the store cannot be written.
    CommitConflictError
        If another process wrote to the stream meanwhile; run it again.
    """
    begin = clock.monotonic()
    check_stream_name(stream_name)
    found = inspect_sources(find_sources(sources, format_name=options.format), options)
    job = _prepare(store, stream_name, found.sources, options, progress)
    is_small = found.sources.size_bytes <= _SMALL_BYTES_MAX
    with (
        ThreadPoolExecutor(max_workers=1) as pool,
        open_staging(store.path) as staging,
        open_spark(options.master, log_file=log_file, is_small=is_small) as lease,
    ):
        digests = pool.submit(_digests, found.sources)
        written = _run(job, found, lease.spark, staging, derived, digests)
    reasons: Counter[str] = Counter()
    for file in written.outputs.quarantine:
        reasons.update(file.reasons)
    return IngestReport(
        stream=stream_name,
        store_path=store.path,
        n_events=sum(file.n_events for file in written.outputs.files),
        n_quarantined=reasons.total(),
        in_order=written.in_order,
        seconds=clock.monotonic() - begin,
        version=written.version,
        log_file=lease.log_file,
        reasons=dict(reasons.most_common()),
    )


@dataclass(frozen=True, slots=True)
class _Written:
    outputs: TaskOutputs
    in_order: bool
    version: int


def _run(
    job: _Job,
    found: FoundColumns,
    spark: SparkSession,
    staging: Path,
    derived: DerivedFactory | None,
    digests: Future[list[dict[str, str | int]]],
) -> _Written:
    """Read, survey, write and commit."""
    job.progress(f"reading {_sized(job.sources)}")
    stream_schema = None if job.stream is None else job.stream.schema
    reading = read_sources(spark, found, job.options, stream_schema=stream_schema)
    schema = reading.schema if stream_schema is None else stream_schema
    _check_names(job, schema)
    writer = None
    if derived is not None and job.attributes:
        writer = derived(job.attributes, job.settings.time)
        writer.tables(schema)  # refuses attributes that cannot be indexed, before any work
    job.progress("checking order")
    survey = _survey(job, reading)
    _check_survey(job, survey, schema)
    direct = survey.in_order and reading.split_per_task
    if job.stream is not None:
        complete_derived(job.stream, writer)
        target, stream_dir = job.stream, staging / "files"
    else:
        target = create_store(staging / "store").create_stream(
            job.stream_name, schema, job.settings
        )
        stream_dir = target.path
    task = _to_task(job, survey, reading, schema, stream_dir, writer, direct=direct)
    job.progress(f"writing {survey.n_usable:,} events" + ("" if direct else ", sorted by time"))
    outputs = _write(job, reading, task, n_partitions=None if direct else _partitions(job, survey))
    _check_complete(outputs, survey)
    job.progress("committing")
    metadata = {"sources": json.dumps(digests.result())}
    if outputs.quarantine:
        metadata["quarantine_batch"] = task.batch_id
    if job.stream is None:
        place = job.store.path / job.stream_name
        version = publish_first(target, place, outputs, metadata=metadata)
    else:
        version = publish_append(
            target, stream_dir, outputs, read_version=job.read_version, metadata=metadata
        )
    return _Written(outputs, direct, version)


# ---------------------------------------------------------------------------------------------
# Before anything is written.


def _prepare(
    store: Store,
    stream_name: str,
    sources: SourceSet,
    options: IngestOptions,
    progress: Callable[[str], None],
) -> _Job:
    """Look at the stream and check that the options fit it."""
    if len(set(options.index)) != len(options.index):
        raise SchemaError("an attribute to index is named twice; name each once")
    if stream_name not in store.stream_names():
        given = {"block_events": options.block_events, "file_events": options.file_events}
        settings = StreamSettings(
            time=options.time,
            key=options.key,
            **{name: value for name, value in given.items() if value is not None},
        )
        return _Job(
            store, stream_name, None, 0, None, options, settings, options.index, sources, progress
        )
    stream = store.stream(stream_name)
    _check_settings(stream_name, stream.settings, options)
    snapshot = stream.snapshot()
    attributes = tuple(dict.fromkeys((*_indexed(stream), *options.index)))
    return _Job(
        store,
        stream_name,
        stream,
        snapshot.version,
        snapshot.t_max,
        options,
        stream.settings,
        attributes,
        sources,
        progress,
    )


def _check_settings(name: str, settings: StreamSettings, options: IngestOptions) -> None:
    """Check that what is given is what the stream has: its settings never change."""
    if options.time != settings.time:
        raise SchemaError(
            f"stream '{name}' is ordered by '{settings.time}', not by '{options.time}'; "
            f"give --time {settings.time}, or ingest into a new stream"
        )
    for option in ("key", "block_events", "file_events"):
        given, has = getattr(options, option), getattr(settings, option)
        if given is not None and given != has:
            raise SchemaError(
                f"stream '{name}' has {option.replace('_', ' ')} {has!r}, not {given!r}, and it "
                "cannot be changed; leave it out, or ingest into a new stream"
            )


def _indexed(stream: Stream) -> tuple[str, ...]:
    """Return the attributes a stream has index tables for."""
    folder = stream.path / "index"
    if not folder.is_dir():
        return ()
    return tuple(sorted(table.name for table in folder.iterdir() if table.is_dir()))


def _check_names(job: _Job, schema: pa.Schema) -> None:
    roles = [("key column", job.settings.key)]
    roles += [("column to index", attribute) for attribute in job.options.index]
    for role, name in roles:
        if name is not None and name not in schema.names:
            raise SchemaError(
                f"no {role} '{name}' (columns: {', '.join(schema.names)})"
                f"{did_you_mean(name, schema.names)}"
            )


# ---------------------------------------------------------------------------------------------
# The survey and what follows from it.


def _survey(job: _Job, reading: Reading) -> Survey:
    look = partial(survey_batches, stream_end=job.stream_end)
    with spark_faults(job.sources):
        rows = collect_rows(survey_frame(reading).mapInArrow(look, SURVEY_DDL))
    return summarise_splits(Split(**{**row.asDict(), "late": tuple(row["late"])}) for row in rows)


def _check_survey(job: _Job, survey: Survey, schema: pa.Schema) -> None:
    """Refuse an ingest that would add nothing, or events before the stream's end."""
    if survey.n_usable == 0:
        where = f"'{job.sources.files[0]}'" + (" …" if len(job.sources.files) > 1 else "")
        if survey.n_bad == 0:
            raise SourceError(f"{where} holds no event; nothing was ingested, name another file")
        raise SourceError(
            f"none of the {survey.n_bad:,} records in {where} has a usable time in column "
            f"'{job.settings.time}' and cells that parse; nothing was ingested, "
            "check --time, --time-format and --schema"
        )
    if survey.n_late:
        raise LateEventError(_late_message(job, survey, schema), n_late=survey.n_late)


def _late_message(job: _Job, survey: Survey, schema: pa.Schema) -> str:
    time_type = schema.field(job.settings.time).type

    def text(time: int) -> str:
        return str(from_int64(np.array([time], np.int64), time_type).cast(pa.string())[0].as_py())

    assert job.stream_end is not None
    late = [split for split in survey.splits if split.n_late]
    # The newest late event lies somewhere before the end; the oldest is the least of its split.
    oldest = min(split.t_min for split in late)
    shown = [
        f"{text(time)} in '{job.sources.files[split.position].name}'"
        for split in late
        for time in split.late
    ][:LATE_SHOWN_MAX]
    return (
        f"{survey.n_late:,} of {survey.n_usable:,} events are older than the end of stream "
        f"'{job.stream_name}' ({text(job.stream_end)}), the oldest of {text(oldest)} "
        f"(first: {', '.join(shown)}); nothing was ingested, take them out or ingest them into "
        "another stream"
    )


def _partitions(job: _Job, survey: Survey) -> int:
    """Return into how many parts the events are sorted: enough for files and for cores."""
    n_cores_useful = -(-survey.n_usable // _TASK_EVENTS_MIN)
    n_files = -(-survey.n_usable // job.settings.file_events)
    return max(1, min(n_cores_useful, 8), n_files)


def _to_task(
    job: _Job,
    survey: Survey,
    reading: Reading,
    schema: pa.Schema,
    stream_dir: Path,
    writer: DerivedWriter | None,
    *,
    direct: bool,
) -> WriteTask:
    ranks = {(split.position, split.block_start): i for i, split in enumerate(survey.splits)}
    return WriteTask(
        stream_dir=stream_dir,
        schema=schema,
        settings=job.settings,
        generation=0 if job.stream is None else job.stream.next_generation(),
        batch_id=uuid.uuid4().hex,
        derived=writer,
        format=reading.format,
        record_columns=tuple(reading.schema.names),
        sources=tuple(str(path) for path in job.sources.files),
        parts=ranks if direct else None,
    )


# ---------------------------------------------------------------------------------------------
# Writing.


def _write(
    job: _Job, reading: Reading, task: WriteTask, *, n_partitions: int | None
) -> TaskOutputs:
    frame = write_frame(reading, task.schema.names, n_partitions=n_partitions)
    with spark_faults(job.sources):
        rows = collect_rows(frame.mapInArrow(partial(_run_task, task=task), RESULT_DDL))
    return from_results((row["kind"], row["value"]) for row in rows)


def _run_task(batches: Iterable[pa.RecordBatch], *, task: WriteTask) -> Iterator[pa.RecordBatch]:
    """Write one Spark task's records; runs in a worker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    stream = iter(batches)
    try:
        yield to_results(write_part(stream, task, part=context.partitionId()))
    except (ChronicleError, OSError) as error:
        deque(stream, maxlen=0)  # Spark wants its input read to the end
        yield to_failure(error)


def _check_complete(outputs: TaskOutputs, survey: Survey) -> None:
    """Check that what was written is what was surveyed: sources may change in between."""
    n_events = sum(file.n_events for file in outputs.files)
    n_bad = sum(file.n_rows for file in outputs.quarantine)
    if (n_events, n_bad) != (survey.n_usable, survey.n_bad):
        raise SourceError(
            f"the sources held {survey.n_usable:,} events and {survey.n_bad:,} other records at "
            f"first and {n_events:,} and {n_bad:,} when they were written; nothing was ingested, "
            "run it again when nobody writes to them"
        )


def _digests(sources: SourceSet) -> list[dict[str, str | int]]:
    """Return path, size and checksum of each source, for the history."""
    found: list[dict[str, str | int]] = []
    for path, size in zip(sources.files, sources.sizes_bytes, strict=True):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append({"path": str(path), "size": size, "sha256": digest})
    return found


def _sized(sources: SourceSet) -> str:
    n_files = len(sources.files)
    return f"{n_files} file{'s' if n_files > 1 else ''} ({sources.size_bytes / 1e6:.1f} MB)"
