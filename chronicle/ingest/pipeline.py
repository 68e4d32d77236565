"""Take files into a stream: read, survey, order, write, merge what is late, commit."""

from __future__ import annotations

import json
import time as clock
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.config import EVENTS_TABLE
from chronicle.disk import discard
from chronicle.disk_errors import reason_of
from chronicle.errors import ChronicleError, CommitConflictError, LateEventError, SourceError
from chronicle.ingest.jobs import spark_runner, telling_tasks
from chronicle.ingest.late import LateFile, LateMerge, LateRoute, plan_late
from chronicle.ingest.preparation import (
    Checksums,
    DerivedFactory,
    Job,
    Request,
    check_names,
    check_options,
    nothing_usable,
    prepare,
    to_attributes,
    to_writer,
)
from chronicle.ingest.read_plan import Inspected, inspect_sources
from chronicle.ingest.report import IngestOptions, IngestReport, cut_notes
from chronicle.ingest.session import open_spark
from chronicle.ingest.source_memory import Source, check_unchanged, to_transactions
from chronicle.ingest.sources import SourceFormat, SourceSet, find_sources
from chronicle.ingest.survey import LATE_SHOWN_MAX, Survey
from chronicle.ingest.table_memory import since_taken
from chronicle.ingest.tasks import (
    Reading,
    plan_reading,
    run_survey,
    run_write,
    to_late_route,
    to_write_task,
)
from chronicle.ingest.write import TaskOutput, WriteTask
from chronicle.jobs import Told
from chronicle.maintenance.compaction import tidy_after
from chronicle.store import Store, Stream, create_store
from chronicle.stream_folder import move_files, open_staging, put_in_place
from chronicle.time import from_int64, show_time, time_type
from chronicle.words import megabytes, number_of
from chronicle.write.append import Late
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import (
    INGEST,
    OPERATION,
    Change,
    Committed,
    check_whole,
    commit_change,
    complete_derived,
    has_landed,
)
from chronicle.write.quarantine import QUARANTINE_TABLE, QuarantineFile, commit_quarantine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_BYTES_MAX = 64 << 20
_SMALL_ROWS_MAX = 4_000_000
"""Sources up to this size are taken in seconds, most of which Spark needs to start. Parquet can
hold millions of rows in few bytes."""


def ingest(
    store: Store,
    stream_name: str,
    sources: Sequence[str | Path],
    options: IngestOptions,
    *,
    derived: DerivedFactory | None = None,
    progress: Callable[[str], None] = lambda _: None,
    told: Told = lambda *_: None,
    log_file: Path | None = None,
) -> IngestReport:
    """Append the events of files to a stream, which is created if it is new.

    Events are ordered by time, those of one time as they arrived: in the order of the ingests,
    then by position of the file among the sources, then by position in the file. The stream is
    what one load of all of them had made. Records that are no events are put into the stream's
    quarantine table. All events become visible at once, or none.

    Files that the stream has taken before are left out: an ingest can be run again after a crash,
    and adds what is missing.

    Parameters
    ----------
    store
        Where the stream is.
    stream_name
        Name of the stream.
    sources
        Files, patterns or folders, in the order of arrival.
    options
        How to read them, and what becomes of late events.
    derived
        Makes the writer of indexes; None writes none.
    progress
        Told what is being done, in words.
    told
        Hears how many tasks of what runs are done, by Spark's own counters.
    log_file
        Takes what Spark prints; a file in the temporary folder if None.

    Raises
    ------
    EnvironmentFaultError
        If Java is missing or too old.
    SourceError
        If a source is missing, empty, not in the format, holds no event, or was taken before and
        has changed.
    SchemaError
        If columns are missing, cannot be stored, or are not those of the stream.
    LateEventError
        If events are older than the stream's end, and such are to be rejected.
    StorageError
        If the stream cannot have its name, or the store cannot be written.
    CommitConflictError
        If other processes write to the stream again and again; run it again.
    """
    begin = clock.monotonic()
    request = Request(store, stream_name, options, derived, progress)
    check_options(request)
    known = stream_name in store.stream_names()
    stream = store.stream(stream_name) if known and not options.again else None
    found = find_sources(sources, format_name=options.format, since=since_taken(stream))
    with ThreadPoolExecutor(max_workers=1) as pool:
        checksums = Checksums(pool)
        job = prepare(request, found, checksums)
        if not job.sources.files:
            return replace(skip(job), seconds=clock.monotonic() - begin)
        _inspect(job)  # before Spark starts
        is_small = _is_small(job.sources)
        with (
            open_staging(store.path) as staging,
            open_spark(options.master, log_file=log_file, is_small=is_small) as lease,
            telling_tasks(lease.spark, told),
        ):
            report = take(request, found, lease.spark, staging, checksums)
    return replace(report, seconds=clock.monotonic() - begin, log_file=lease.log_file)


def take(
    request: Request, sources: SourceSet, spark: SparkSession, staging: Path, checksums: Checksums
) -> IngestReport:
    """Take files into a stream; begins anew where another process came first.

    If it raises, nothing was committed. The report does not tell how long it took.
    """
    for attempt in range(1, request.attempts_max + 1):
        job = prepare(request, sources, checksums)
        if not job.sources.files:
            return skip(job)
        folder = staging / str(attempt)
        folder.mkdir()
        try:
            report = _run(job, spark, folder, checksums)
        except CommitConflictError as error:
            if attempt == request.attempts_max:
                raise
            request.progress(f"beginning anew: {error}")
            continue
        return report if report.fault else replace(report, fault=_tidy(job))
    raise AssertionError("the last attempt returns or raises")


def complete(request: Request) -> None:
    """Write what a crash left out when events were committed; the stream must exist."""
    stream = request.store.stream(request.stream_name)
    attributes = to_attributes(stream, request.options)
    complete_derived(stream, to_writer(request, stream.settings, attributes))


def skip(job: Job) -> IngestReport:
    """Take nothing; complete what a crash may have left out when the sources were taken."""
    if job.stream is not None:
        complete_derived(job.stream, to_writer(job.request, job.settings, job.attributes))
    return _to_report(job, TaskOutput([], [], []), 0, Committed(job.version))


def _tidy(job: Job) -> str | None:
    """Keep the number of small files in check; return what failed. The events are in."""
    try:
        stream = job.request.store.stream(job.request.stream_name)
        report = tidy_after(stream, to_writer(job.request, job.settings, job.attributes))
    except ChronicleError as error:
        return f"small files were left as they are ({reason_of(error)})"
    return None if report is None else report.fault


def _run(job: Job, spark: SparkSession, staging: Path, checksums: Checksums) -> IngestReport:
    """Read, survey, write and commit."""
    progress, stream = job.request.progress, job.stream
    progress(f"reading {_sized(job.sources)}")
    checksums.begin(job.sources)
    stream_schema = None if stream is None else stream.schema
    found = _inspect(job)
    reading = plan_reading(job, spark, found, stream_schema)
    for column in reading.plan.folder_columns:
        progress(f"column from names of folders: {column}")
    schema = reading.schema
    check_names(job, schema)
    writer = to_writer(job.request, job.settings, job.attributes)
    if writer is not None:
        writer.tables(schema)  # refuses attributes that cannot be indexed, before any work
    route = to_late_route(job, schema, staging / "late")
    progress("checking order")
    survey, cut = run_survey(job, spark, reading)
    _check_survey(job, survey, schema)
    if stream is not None:
        complete_derived(stream, writer)
        if survey.n_usable + survey.n_bad == 0 and not job.sources.tables:
            return _to_report(job, TaskOutput([], [], []), 0, Committed(job.version))
        target, stream_dir = stream, staging / "files"
        stream_dir.mkdir()  # tasks make folders in it, and never the folder of a stream itself
    else:
        name = job.request.stream_name
        target = create_store(staging / "store").create_stream(name, schema, job.settings)
        stream_dir = target.path
    if survey.n_late == 0:
        route = None
    task = to_write_task(job, survey, schema, stream_dir, writer, route)
    outputs = _write(job, spark, reading, survey, task)
    late = _merge_late(job, spark, outputs.late, task)
    progress("committing")
    change = Change((*outputs.files, *late.written), late.removed)
    with_records = {job.sources.files[split.position] for split in survey.splits}
    sources = checksums.of(job.sources if job.sources.tables else job.sources.only(with_records))
    check_unchanged(sources)
    metadata, transactions = _to_commit(job, outputs, task, sources)
    if stream is None:
        place = job.request.store.path / job.request.stream_name
        committed = _publish_first(
            target, place, change, outputs.quarantine, metadata=metadata, transactions=transactions
        )
    else:
        committed = _publish_append(
            stream, stream_dir, change, outputs.quarantine,
            read_version=job.version, metadata=metadata, transactions=transactions,
        )  # fmt: skip
    report = _to_report(job, outputs, len(late.removed), committed)
    notes = (
        *report.notes,
        *reading.plan.notes,
        *cut_notes(cut.n_values, cut.n_twice, job.request.options.ambiguous),
    )
    first, last = _time_span(outputs, schema, job.settings.time)
    return replace(report, in_order=survey.in_order, notes=notes, first_time=first, last_time=last)


def _time_span(
    outputs: TaskOutput, schema: pa.Schema, column: str
) -> tuple[str, str] | tuple[None, None]:
    """Return the first and the last time of the events that are taken."""
    spans = [(file.t_min, file.t_max) for file in outputs.files]
    spans += [(file.t_min, file.t_max) for file in outputs.late]
    if not spans:
        return None, None
    kind = time_type(schema.field(column).type, column=column)
    first, last = min(t_min for t_min, _ in spans), max(t_max for _, t_max in spans)
    return show_time(first, kind), show_time(last, kind)


def _inspect(job: Job) -> Inspected:
    """Check what footers and headers tell."""
    return inspect_sources(
        job.sources,
        job.request.options,
        time=job.settings.time,
        stream_schema=None if job.stream is None else job.stream.schema,
    )


def _write(
    job: Job, spark: SparkSession, reading: Reading, survey: Survey, task: WriteTask
) -> TaskOutput:
    how = ", sorted by time" if task.parts is None else ""
    job.request.progress(f"writing {survey.n_usable:,} events{how}")
    outputs = run_write(job, spark, reading, survey, task)
    _check_complete(outputs, survey, task.late)
    return outputs


@dataclass(frozen=True, slots=True)
class _Merged:
    """What became of late events."""

    written: tuple[WrittenFile, ...]
    removed: tuple[str, ...]
    """Names of the data files written anew."""


def _merge_late(
    job: Job, spark: SparkSession, staged: Sequence[LateFile], task: WriteTask
) -> _Merged:
    """Put late events where they belong: one Spark task for each file concerned."""
    if not staged:
        return _Merged((), ())
    assert job.stream is not None
    merge = LateMerge(
        job.stream.path / EVENTS_TABLE, task.stream_dir, task.schema, task.settings, task.derived
    )
    jobs = plan_late(
        staged, job.live, generation=task.generation, file_events=task.settings.file_events
    )
    n_late = sum(one.n_late for one in jobs)
    removed = tuple(one.file for one in jobs if one.file is not None)
    job.request.progress(
        f"merging {number_of(n_late, 'late event')} into {number_of(len(removed), 'file')}"
    )
    return _Merged(tuple(chain(*spark_runner(spark)(merge, jobs))), removed)


def _to_commit(
    job: Job, outputs: TaskOutput, task: WriteTask, sources: Sequence[Source]
) -> tuple[dict[str, str], dict[str, int]]:
    """Return the metadata and the transactions of the commit."""
    n_late = sum(file.n_events for file in outputs.late)
    metadata = {
        OPERATION: INGEST,
        "sources": json.dumps([source.to_dict() for source in sources]),
        "n_events": str(sum(file.n_events for file in outputs.files) + n_late),
        "n_late": str(n_late),
    }
    if outputs.quarantine:
        metadata["quarantine_batch"] = task.batch_id
    taken = to_transactions(job.memory, sources, job.found.renamed)
    return metadata, {**taken, **job.sources.tables}


def _to_report(
    job: Job, outputs: TaskOutput, n_rewritten: int, committed: Committed
) -> IngestReport:
    reasons: Counter[str] = Counter()
    for file in outputs.quarantine:
        reasons.update(file.reasons)
    n_late = sum(file.n_events for file in outputs.late)
    return IngestReport(
        stream=job.request.stream_name,
        store_path=job.request.store.path,
        n_events=sum(file.n_events for file in outputs.files) + n_late,
        n_quarantined=reasons.total(),
        in_order=True,
        seconds=0.0,
        version=committed.version,
        n_late=n_late,
        n_rewritten=n_rewritten,
        n_skipped=job.n_skipped,
        notes=(*job.sources.notes, *job.found.notes),
        reasons=dict(reasons.most_common()),
        fault=committed.fault,
    )


def _is_small(sources: SourceSet) -> bool:
    if sources.size_bytes > _SMALL_BYTES_MAX:
        return False
    if sources.format is not SourceFormat.PARQUET:
        return True
    n_rows = sum(int(pq.read_metadata(file).num_rows) for file in sources.files)
    return n_rows <= _SMALL_ROWS_MAX


def _sized(sources: SourceSet) -> str:
    return f"{number_of(len(sources.files), 'file')} ({megabytes(sources.size_bytes)})"


# ---------------------------------------------------------------------------------------------
# Refuse, after a look at all events, what cannot be ingested as it is.


def _check_survey(job: Job, survey: Survey, schema: pa.Schema) -> None:
    """Refuse an ingest that would add nothing, or late events where they are not wanted."""
    is_new = job.stream is None  # a stream is made of events, and its types are those of events
    may_be_empty = not is_new and (job.request.is_following or survey.n_bad == 0)
    if survey.n_usable == 0 and not may_be_empty:
        raise nothing_usable(job.sources.shown, job.settings.time, survey.n_bad)
    if survey.n_late and job.late is Late.REJECT:
        raise LateEventError(_late_message(job, survey, schema), n_late=survey.n_late)


def _late_message(job: Job, survey: Survey, schema: pa.Schema) -> str:
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
        f"'{job.request.stream_name}' ({text(job.stream_end)}), the oldest of {text(oldest)} "
        f"(first: {', '.join(shown)}); nothing was ingested, take them out, merge them "
        "(--late merge) or put them aside (--late quarantine)"
    )


def _check_complete(outputs: TaskOutput, survey: Survey, route: LateRoute | None) -> None:
    """Check that what was written is what was surveyed: sources may change in between."""
    n_too_late = 0
    if route is not None:
        n_too_late = sum(file.reasons.get(route.reason, 0) for file in outputs.quarantine)
    n_late = sum(file.n_events for file in outputs.late)
    n_events = sum(file.n_events for file in outputs.files) + n_late + n_too_late
    n_bad = sum(file.n_rows for file in outputs.quarantine) - n_too_late
    if (n_events, n_bad) != (survey.n_usable, survey.n_bad):
        raise SourceError(
            f"the sources held {survey.n_usable:,} events and {survey.n_bad:,} other records at "
            f"first and {n_events:,} and {n_bad:,} when they were written; nothing was ingested, "
            "run it again when nobody writes to them"
        )


# ---------------------------------------------------------------------------------------------
# What was written becomes part of the stream, all of it or nothing.


def _publish_first(
    staged: Stream,
    place: Path,
    change: Change,
    quarantine: Sequence[QuarantineFile],
    *,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int],
) -> Committed:
    """Complete a new stream where nobody sees it, then move it to its place."""
    commit_quarantine(staged.path, quarantine)
    committed = commit_change(
        staged,
        change,
        read_version=staged.snapshot().version,
        metadata=metadata,
        transactions=transactions,
    )
    check_whole(committed, place)
    move_stream(staged.path, place)
    return committed


def _publish_append(
    stream: Stream,
    staged_files: Path,
    change: Change,
    quarantine: Sequence[QuarantineFile],
    *,
    read_version: int,
    metadata: Mapping[str, str],
    transactions: Mapping[str, int],
) -> Committed:
    """Move files into an existing stream and commit them; takes them out again on failure.

    What another process committed after ``read_version`` may refuse it.
    """
    moved = move_files(staged_files, stream.path)
    try:
        with stream.held():
            commit_quarantine(stream.path, quarantine)
        return commit_change(
            stream,
            change,
            read_version=read_version,
            metadata=metadata,
            transactions=transactions,
        )
    except BaseException:
        _remove_moved(stream, change, moved, since=read_version)
        raise


def move_stream(staged: Path, place: Path) -> None:
    """Move a finished stream to its place in the store; it appears whole."""
    taken = CommitConflictError(
        f"another process created stream '{place.name}' meanwhile; nothing was ingested, "
        "run it again to append to it"
    )
    put_in_place(staged, place, taken)


def _remove_moved(stream: Stream, change: Change, moved: list[Path], *, since: int) -> None:
    """Remove moved files, unless the commit they belong to landed before the failure."""
    if has_landed(stream, change.added, since=since):
        return
    # Quarantine files may have been committed already; without the events nothing counts them.
    quarantine = stream.path / QUARANTINE_TABLE
    discard([path for path in moved if quarantine not in path.parents])
