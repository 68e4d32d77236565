"""Take files into a stream: read, survey, order, write, merge what is late, commit."""

from __future__ import annotations

import json
import time as clock
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from chronicle.config import EVENTS_TABLE
from chronicle.disk_errors import reason_of
from chronicle.errors import ChronicleError, CommitConflictError
from chronicle.ingest.checks import check_complete, check_survey
from chronicle.ingest.folders import Since
from chronicle.ingest.frames import Reading
from chronicle.ingest.jobs import spark_runner
from chronicle.ingest.late import LateFile, LateMerge, from_job_results, plan_late
from chronicle.ingest.preparation import (
    Checksums,
    DerivedFactory,
    Job,
    Request,
    check_names,
    check_options,
    prepare,
    to_attributes,
    to_writer,
)
from chronicle.ingest.publish import publish_append, publish_first
from chronicle.ingest.read_plan import Inspected, inspect_sources
from chronicle.ingest.report import IngestOptions, IngestReport, cut_note
from chronicle.ingest.session import open_spark
from chronicle.ingest.source_memory import to_transactions, version_taken
from chronicle.ingest.sources import SourceFormat, SourceSet, find_sources, table_id
from chronicle.ingest.survey import Survey
from chronicle.ingest.tasks import (
    plan_reading,
    run_survey,
    run_write,
    to_late_route,
    to_write_task,
)
from chronicle.ingest.write import TaskOutputs, WriteTask
from chronicle.log.delta_log import ForeignTable
from chronicle.maintenance.compaction import tidy_after
from chronicle.store import Store, create_store
from chronicle.stream_folder import open_staging
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import INGEST, OPERATION, Change, Committed, complete_derived

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
    found = find_sources(sources, format_name=options.format, since=_since(request))
    with ThreadPoolExecutor(max_workers=1) as pool:
        checksums = Checksums(pool)
        job = prepare(request, found, checksums)
        if not job.sources.files:
            outcome = _skip(job)
            return outcome.to_report(request, seconds=clock.monotonic() - begin, log_file=None)
        _inspect(job)  # before Spark starts
        is_small = _is_small(job.sources)
        with (
            open_staging(store.path) as staging,
            open_spark(options.master, log_file=log_file, is_small=is_small) as lease,
        ):
            outcome = take(request, found, lease.spark, staging, checksums)
    seconds = clock.monotonic() - begin
    return outcome.to_report(request, seconds=seconds, log_file=lease.log_file)


def _since(request: Request) -> Since:
    """Return what tells up to which version the stream has taken a Delta table."""

    def since(table: ForeignTable) -> int | None:
        if request.options.again or request.stream_name not in request.store.stream_names():
            return None
        return version_taken(request.store.stream(request.stream_name), table_id(table))

    return since


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an ingest."""

    version: int
    in_order: bool = True
    n_events: int = 0
    n_late: int = 0
    n_rewritten: int = 0
    n_skipped: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Records in quarantine by reason, the most frequent first."""

    fault: str | None = None
    """What failed once the events were in the stream."""
    notes: tuple[str, ...] = ()
    """What is to be known of how the sources were read."""

    def to_report(self, request: Request, *, seconds: float, log_file: Path | None) -> IngestReport:
        """Return what is told to whoever asked."""
        return IngestReport(
            stream=request.stream_name,
            store_path=request.store.path,
            n_events=self.n_events,
            n_quarantined=sum(self.reasons.values()),
            in_order=self.in_order,
            seconds=seconds,
            version=self.version,
            log_file=log_file,
            n_late=self.n_late,
            n_rewritten=self.n_rewritten,
            n_skipped=self.n_skipped,
            reasons=self.reasons,
            fault=self.fault,
            notes=self.notes,
        )


def take(
    request: Request, sources: SourceSet, spark: SparkSession, staging: Path, checksums: Checksums
) -> Outcome:
    """Take files into a stream; begins anew where another process came first.

    Raises
    ------
    ChronicleError
        See ``ingest``; nothing was committed then.
    """
    for attempt in range(1, request.attempts_max + 1):
        job = prepare(request, sources, checksums)
        if not job.sources.files:
            return _skip(job)
        folder = staging / str(attempt)
        folder.mkdir()
        try:
            outcome = _run(job, spark, folder, checksums)
        except CommitConflictError as error:
            if attempt == request.attempts_max:
                raise
            request.progress(f"beginning anew: {error}")
            continue
        return outcome if outcome.fault else replace(outcome, fault=_tidy(job))
    raise AssertionError("the last attempt returns or raises")


def complete(request: Request) -> None:
    """Write what a crash left out when events were committed; the stream must exist."""
    stream = request.store.stream(request.stream_name)
    attributes = to_attributes(stream, request.options)
    complete_derived(stream, to_writer(request, stream.settings, attributes))


def _skip(job: Job) -> Outcome:
    """Take nothing; complete what a crash may have left out when the sources were taken."""
    assert job.stream is not None
    complete_derived(job.stream, to_writer(job.request, job.settings, job.attributes))
    return Outcome(job.version, n_skipped=job.n_skipped)


def _tidy(job: Job) -> str | None:
    """Keep the number of small files in check; return what failed. The events are in."""
    try:
        stream = job.request.store.stream(job.request.stream_name)
        report = tidy_after(stream, to_writer(job.request, job.settings, job.attributes))
    except ChronicleError as error:
        return f"small files were left as they are ({reason_of(error)})"
    return None if report is None else report.fault


def _run(job: Job, spark: SparkSession, staging: Path, checksums: Checksums) -> Outcome:
    """Read, survey, write and commit."""
    progress, stream = job.request.progress, job.stream
    progress(f"reading {_sized(job.sources)}")
    checksums.begin(job.sources.files)
    stream_schema = None if stream is None else stream.schema
    found = _inspect(job)
    for column in found.sources.folder_columns:
        progress(f"column from names of folders: {column}")
    reading = plan_reading(job, spark, found, stream_schema)
    schema = reading.schema
    check_names(job, schema)
    writer = to_writer(job.request, job.settings, job.attributes)
    if writer is not None:
        writer.tables(schema)  # refuses attributes that cannot be indexed, before any work
    route = to_late_route(job, schema, staging / "late")
    progress("checking order")
    survey = run_survey(job, spark, reading)
    check_survey(job, survey, schema)
    if stream is not None:
        complete_derived(stream, writer)
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
    metadata, transactions = _to_commit(job, outputs, task, checksums)
    if stream is None:
        place = job.request.store.path / job.request.stream_name
        version = publish_first(
            target, place, change, outputs.quarantine, metadata=metadata, transactions=transactions
        )
        committed = Committed(version)
    else:
        committed = publish_append(
            stream, stream_dir, change, outputs.quarantine,
            read_version=job.version, metadata=metadata, transactions=transactions,
        )  # fmt: skip
    notes = (*reading.plan.notes, *cut_note(survey.n_cut))
    return _to_outcome(job, outputs, late, committed, in_order=survey.in_order, notes=notes)


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
) -> TaskOutputs:
    how = ", sorted by time" if task.parts is None else ""
    job.request.progress(f"writing {survey.n_usable:,} events{how}")
    outputs = run_write(job, spark, reading, survey, task)
    check_complete(outputs, survey, task.late)
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
    job.request.progress(f"merging {n_late:,} late events into {len(removed):,} files")
    results = spark_runner(spark)(merge, [one.to_json() for one in jobs])
    return _Merged(tuple(from_job_results(results)), removed)


def _to_commit(
    job: Job, outputs: TaskOutputs, task: WriteTask, checksums: Checksums
) -> tuple[dict[str, str], dict[str, int]]:
    """Return the metadata and the transactions of the commit."""
    sources = checksums.of(job.sources.files)
    n_late = sum(file.n_events for file in outputs.late)
    metadata = {
        OPERATION: INGEST,
        "sources": json.dumps([source.to_dict() for source in sources]),
        "n_events": str(sum(file.n_events for file in outputs.files) + n_late),
        "n_late": str(n_late),
    }
    if outputs.quarantine:
        metadata["quarantine_batch"] = task.batch_id
    taken = {**to_transactions(sources), **job.sources.tables}
    return metadata, {**taken, **job.request.transactions}


def _to_outcome(
    job: Job,
    outputs: TaskOutputs,
    late: _Merged,
    committed: Committed,
    *,
    in_order: bool,
    notes: tuple[str, ...],
) -> Outcome:
    reasons: Counter[str] = Counter()
    for file in outputs.quarantine:
        reasons.update(file.reasons)
    n_late = sum(file.n_events for file in outputs.late)
    return Outcome(
        version=committed.version,
        fault=committed.fault,
        in_order=in_order,
        n_events=sum(file.n_events for file in outputs.files) + n_late,
        n_late=n_late,
        n_rewritten=len(late.removed),
        n_skipped=job.n_skipped,
        reasons=dict(reasons.most_common()),
        notes=notes,
    )


def _is_small(sources: SourceSet) -> bool:
    if sources.size_bytes > _SMALL_BYTES_MAX:
        return False
    if sources.format is not SourceFormat.PARQUET:
        return True
    n_rows = sum(int(pq.read_metadata(file).num_rows) for file in sources.files)
    return n_rows <= _SMALL_ROWS_MAX


def _sized(sources: SourceSet) -> str:
    n_files = len(sources.files)
    return f"{n_files} file{'s' if n_files > 1 else ''} ({sources.size_bytes / 1e6:.1f} MB)"
