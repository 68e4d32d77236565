"""The two passes of an ingest over its sources as Spark jobs: survey, then write."""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from chronicle.append import Late
from chronicle.derived import DerivedWriter
from chronicle.errors import ChronicleError
from chronicle.ingest.direct import survey_split, write_split
from chronicle.ingest.jobs import spark_runner
from chronicle.ingest.late import LateRoute
from chronicle.ingest.preparation import Job, to_units
from chronicle.ingest.reader import Reading, survey_frame, write_frame
from chronicle.ingest.spark_tools import collect_rows, spark_faults
from chronicle.ingest.survey import SURVEY_DDL, Split, Survey, summarise_splits, survey_batches
from chronicle.ingest.write import (
    RESULT_DDL,
    TaskOutputs,
    WriteTask,
    from_results,
    to_failure,
    to_results,
    write_part,
)
from chronicle.jobs import Job as DirectJob
from chronicle.quarantine import LATE_REASON
from chronicle.time import time_type

_TASK_EVENTS_MIN = 1 << 16
"""A sort is spread over more tasks only where each has so many events."""


def run_survey(job: Job, reading: Reading) -> Survey:
    """Look at the times of all records."""
    if reading.direct is not None:
        look_at = partial(
            survey_split, schema=reading.schema, time=reading.time, stream_end=job.stream_end
        )
        found = [row for text in _run_direct(reading, look_at) for row in json.loads(text)]
        return summarise_splits(Split(**{**row, "late": tuple(row["late"])}) for row in found)
    look = partial(survey_batches, stream_end=job.stream_end)
    with spark_faults(job.sources):
        rows = collect_rows(survey_frame(reading).mapInArrow(look, SURVEY_DDL))
    return summarise_splits(Split(**{**row.asDict(), "late": tuple(row["late"])}) for row in rows)


def to_late_route(job: Job, schema: pa.Schema, folder: Path) -> LateRoute | None:
    """Return where late events go; None for a stream without events.

    Raises
    ------
    SchemaError
        If the lateness is not in the unit of the stream's time.
    """
    column = job.settings.time
    lateness = to_units(job.request.lateness, time_type(schema.field(column).type, column=column))
    end = job.stream_end
    if end is None:
        return None
    oldest = None if lateness is None else end - lateness
    reason = f"the event is more than {job.request.lateness} older than the end of the stream"
    if job.late is Late.QUARANTINE:
        oldest, reason = end, LATE_REASON
    t_min = tuple(file.t_min for file in job.live)
    t_max = tuple(file.t_max for file in job.live)
    return LateRoute(end, oldest, reason, t_min, t_max, folder)


def to_write_task(
    job: Job,
    survey: Survey,
    reading: Reading,
    schema: pa.Schema,
    stream_dir: Path,
    writer: DerivedWriter | None,
    route: LateRoute | None,
) -> WriteTask:
    """Return what every task is told that writes."""
    direct = survey.in_order and reading.split_per_task
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
        late=route,
    )


def run_write(job: Job, reading: Reading, survey: Survey, task: WriteTask) -> TaskOutputs:
    """Write all records, sorted unless they come in order.

    Raises
    ------
    SourceError, SchemaError, StorageError
        If they cannot be read or written.
    """
    if reading.direct is not None and task.parts is not None:
        results = _run_direct(reading, partial(write_split, task=task))
        return from_results(
            (row["kind"], row["value"]) for text in results for row in json.loads(text)
        )
    n_partitions = None if task.parts is not None else _partitions(job, survey)
    frame = write_frame(reading, task.schema.names, n_partitions=n_partitions)
    with spark_faults(job.sources):
        rows = collect_rows(frame.mapInArrow(partial(_run_task, task=task), RESULT_DDL))
    return from_results((row["kind"], row["value"]) for row in rows)


def _run_direct(reading: Reading, job: DirectJob) -> list[str]:
    """Run a job for every split that workers read themselves."""
    run = spark_runner(reading.frame.sparkSession)
    return run(job, [split.to_json() for split in reading.direct or ()])


def _partitions(job: Job, survey: Survey) -> int:
    """Return into how many parts the events are sorted: enough for files and for cores."""
    n_cores_useful = -(-survey.n_usable // _TASK_EVENTS_MIN)
    n_files = -(-survey.n_usable // job.settings.file_events)
    return max(1, min(n_cores_useful, 8), n_files)


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
