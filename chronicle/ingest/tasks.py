"""The passes of an ingest over its sources as Spark jobs: find out types, survey, write."""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.errors import ChronicleError
from chronicle.ingest.cells import Guess, from_plain, join_guesses
from chronicle.ingest.frames import (
    Reading,
    guess_task,
    plan_tasks,
    read_task,
    sorted_frame,
    survey_task,
)
from chronicle.ingest.jobs import spark_runner
from chronicle.ingest.late import LateRoute
from chronicle.ingest.preparation import Job, to_units
from chronicle.ingest.read_plan import Inspected, ReadPlan, make_plan, text_plan
from chronicle.ingest.spark_tools import collect_rows, spark_faults
from chronicle.ingest.survey import Split, Survey, summarise_splits
from chronicle.ingest.write import (
    RESULT_DDL,
    TaskOutputs,
    WriteTask,
    from_results,
    to_failure,
    to_results,
    write_part,
)
from chronicle.time import time_type
from chronicle.write.append import Late
from chronicle.write.quarantine import LATE_REASON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASK_EVENTS_MIN = 1 << 16
"""A sort is spread over more tasks only where each has so many events."""


def plan_reading(
    job: Job, spark: SparkSession, found: Inspected, stream_schema: pa.Schema | None
) -> Reading:
    """Decide how the sources are read; reads them through only for types that nothing states.

    Raises
    ------
    SourceError, SchemaError
        See ``chronicle.ingest.read_plan``.
    """
    options = job.request.options
    n_tasks = spark.sparkContext.defaultParallelism
    if options.split_bytes is not None:
        n_tasks = -(-found.sources.size_bytes // options.split_bytes)
    tasks = plan_tasks(found.sources, n_tasks=n_tasks)

    def guess() -> dict[str, Guess]:
        work = partial(guess_task, plan=text_plan(found, options))
        parts = [json.loads(text) for text in spark_runner(spark)(work, tasks)]
        return join_guesses({name: from_plain(one) for name, one in part.items()} for part in parts)

    plan = make_plan(found, options, time=options.time, stream_schema=stream_schema, guess=guess)
    return Reading(plan, tasks)


def run_survey(job: Job, spark: SparkSession, reading: Reading) -> Survey:
    """Look at the times of all records."""
    look = partial(survey_task, plan=reading.plan, stream_end=job.stream_end)
    found = [json.loads(text) for text in spark_runner(spark)(look, reading.tasks)]
    splits = (
        Split(**{**row, "late": tuple(row["late"])}) for one in found for row in one["splits"]
    )
    return summarise_splits(splits, n_cut=sum(one["n_cut"] for one in found))


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
    schema: pa.Schema,
    stream_dir: Path,
    writer: DerivedWriter | None,
    route: LateRoute | None,
) -> WriteTask:
    """Return what every task is told that writes."""
    ranks = {(split.position, split.block_start): i for i, split in enumerate(survey.splits)}
    return WriteTask(
        stream_dir=stream_dir,
        schema=schema,
        settings=job.settings,
        generation=0 if job.stream is None else job.stream.next_generation(),
        batch_id=uuid.uuid4().hex,
        derived=writer,
        sources=tuple(str(path) for path in job.sources.files),
        parts=ranks if survey.in_order else None,
        late=route,
    )


def run_write(
    job: Job, spark: SparkSession, reading: Reading, survey: Survey, task: WriteTask
) -> TaskOutputs:
    """Write all records, sorted unless they come in order: then no row crosses the JVM.

    Raises
    ------
    SourceError, SchemaError, StorageError
        If they cannot be read or written.
    """
    if task.parts is not None:
        work = partial(write_task, plan=reading.plan, task=task)
        results = spark_runner(spark)(work, reading.tasks)
        return from_results(
            (row["kind"], row["value"]) for text in results for row in json.loads(text)
        )
    frame = sorted_frame(spark, reading, n_partitions=_partitions(job, survey))
    with spark_faults(job.sources):
        rows = collect_rows(frame.mapInArrow(partial(_run_task, task=task), RESULT_DDL))
    return from_results((row["kind"], row["value"]) for row in rows)


def write_task(text: str, *, plan: ReadPlan, task: WriteTask) -> str:
    """Write the events of a task's pieces (a ``chronicle.jobs.Job``); returns ``to_results``."""
    return json.dumps(to_results(write_part(read_task(text, plan), task, part=0)).to_pylist())


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
