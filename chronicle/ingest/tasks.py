"""The passes of an ingest over its sources as Spark jobs: find out types, survey, write."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from chronicle.derived import DerivedWriter
from chronicle.ingest.cells import Guess, join_guesses
from chronicle.ingest.helper_columns import BLOCK_START, HELPERS, POSITION, ROW_ID
from chronicle.ingest.jobs import run_on_partitions, spark_runner
from chronicle.ingest.late import LateRoute
from chronicle.ingest.preparation import Job, to_units
from chronicle.ingest.read_files import Cut, Piece, guess_columns, read_piece
from chronicle.ingest.read_options import options_to_json
from chronicle.ingest.read_plan import Inspected, ReadPlan, make_plan, text_plan
from chronicle.ingest.sources import SourceFormat, SourceSet
from chronicle.ingest.survey import Split, Survey, summarise_splits
from chronicle.ingest.typed_files import rows_of_groups
from chronicle.ingest.write import TaskOutput, WriteTask, join_outputs, write_part
from chronicle.time import time_type
from chronicle.write.append import Late
from chronicle.write.quarantine import LATE_REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

TASK_BYTES_MIN = 4 << 20
"""Small files share a task, up to about so many bytes."""

FILES_ALONE_MAX = 64
"""Up to so many files each has a task of its own, however small."""

_TASK_ROWS_MAX = 1 << 23
"""A task's work: many data files, and few enough rows that doing it again costs little."""

_SORT_EVENTS_MIN = 1 << 16
"""A sort is spread over more tasks only where each has so many events."""


Task = tuple[Piece, ...]
"""Pieces of files that are read one after the other."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Files that are to be read, and how."""

    plan: ReadPlan
    tasks: tuple[Task, ...]
    """In the order of arrival."""

    @property
    def schema(self) -> pa.Schema:
        """Of the events, as a stream stores them."""
        return self.plan.schema


# ---------------------------------------------------------------------------------------------
# Files become tasks.


def plan_tasks(sources: SourceSet, *, n_tasks: int, whole_files: bool = False) -> tuple[Task, ...]:
    """Cut files into tasks of consecutive pieces: Parquet between row groups, others not at all.

    Large files are cut into at least ``n_tasks``, unless ``whole_files`` are asked for.
    """
    is_parquet = sources.format is SourceFormat.PARQUET
    rows = [rows_of_groups(path) if is_parquet else [] for path in sources.files]
    if is_parquet and len(rows) <= FILES_ALONE_MAX and not whole_files:
        return tuple((piece,) for piece in cut_files(sources.files, rows, n_tasks))
    pieces = [Piece(i, str(path), 0, len(rows[i])) for i, path in enumerate(sources.files)]
    if len(pieces) <= FILES_ALONE_MAX:
        return tuple((piece,) for piece in pieces)
    numbers = np.cumsum(sources.sizes_bytes) // TASK_BYTES_MIN
    grouped = groupby(pieces, key=lambda piece: numbers[piece.position])
    return tuple(tuple(group) for _, group in grouped)


def cut_files(
    paths: Sequence[Path], group_rows: Sequence[Sequence[int]], n_tasks: int
) -> list[Piece]:
    """Cut Parquet files between row groups into at least about ``n_tasks`` like pieces. Pure.

    ``group_rows`` are the rows of every row group, for each file.
    """
    n_rows = sum(map(sum, group_rows))
    size = max(1, min(_TASK_ROWS_MAX, -(-n_rows // n_tasks)))
    pieces = []
    for position, (path, rows) in enumerate(zip(paths, group_rows, strict=True)):
        before = np.concatenate(([0], np.cumsum(rows)))[: len(rows)]
        cuts = [0, *(np.flatnonzero(np.diff(before // size)) + 1).tolist(), len(rows)]
        pieces += [Piece(position, str(path), a, b) for a, b in pairwise(cuts) if a < b]
    return pieces


def _read_task(pieces: Task, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Yield the records of all pieces of a task, see ``read_piece``."""
    for piece in pieces:
        yield from read_piece(piece, plan)


# ---------------------------------------------------------------------------------------------
# Types that nothing states.


def plan_reading(
    job: Job, spark: SparkSession, found: Inspected, stream_schema: pa.Schema | None
) -> Reading:
    """Decide how the sources are read; reads them through only for types that nothing states."""
    options = job.request.options
    n_tasks = spark.sparkContext.defaultParallelism
    if options.split_bytes is not None:
        n_tasks = -(-found.sources.size_bytes // options.split_bytes)
    # The order of a file says nothing once it is cut.
    in_order = options.ambiguous == "infer"
    tasks = plan_tasks(found.sources, n_tasks=n_tasks, whole_files=in_order)

    def guess() -> dict[str, Guess]:
        work = partial(_guess_task, plan=text_plan(found, options))
        return join_guesses(spark_runner(spark)(work, tasks))

    plan = make_plan(found, options, time=options.time, stream_schema=stream_schema, guess=guess)
    return Reading(plan, tasks)


def _guess_task(pieces: Task, *, plan: ReadPlan) -> dict[str, Guess]:
    """Find out what the columns of text files seem to be."""
    return join_guesses(guess_columns(Path(one.path), one.position, plan) for one in pieces)


# ---------------------------------------------------------------------------------------------
# The survey.


def run_survey(job: Job, spark: SparkSession, reading: Reading) -> tuple[Survey, Cut]:
    """Look at the times of all records; count those that become others than they are written."""
    look = partial(survey_task, plan=reading.plan, stream_end=job.stream_end)
    found = spark_runner(spark)(look, reading.tasks)
    splits = chain.from_iterable(seen for seen, _ in found)
    cut = Cut(sum(cut.n_values for _, cut in found), sum(cut.n_twice for _, cut in found))
    return summarise_splits(splits), cut


def survey_task(pieces: Task, *, plan: ReadPlan, stream_end: int | None) -> tuple[list[Split], Cut]:
    """Look at the times of a task's records; returns what was seen, and what was cut."""
    cut = Cut()
    splits = []
    for piece in pieces:
        split = Split(piece.position, piece.first)
        for batch in read_piece(piece, plan, time_only=not plan.has_other_units, cut=cut):
            split.add(batch.column(plan.time).cast(pa.int64()), stream_end)
        if split.n_usable or split.n_bad:
            splits.append(split)
    return splits, cut


# ---------------------------------------------------------------------------------------------
# The writing.


def to_late_route(job: Job, schema: pa.Schema, folder: Path) -> LateRoute | None:
    """Return where late events go; None for a stream without events.

    A lateness that is not in the unit of the stream's time is refused.
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
        reading=options_to_json(job.request.options),
    )


def run_write(
    job: Job, spark: SparkSession, reading: Reading, survey: Survey, task: WriteTask
) -> TaskOutput:
    """Write all records, sorted unless they come in order: then no row crosses the JVM."""
    if task.parts is not None:
        work = partial(_write_task, plan=reading.plan, task=task)
        return join_outputs(spark_runner(spark)(work, reading.tasks))
    # Enough partitions for files and for cores.
    n_cores_useful = -(-survey.n_usable // _SORT_EVENTS_MIN)
    n_files = -(-survey.n_usable // job.settings.file_events)
    n_partitions = max(1, min(n_cores_useful, 8), n_files)
    frame = _sorted_frame(spark, reading, n_partitions=n_partitions)
    return join_outputs(run_on_partitions(frame, partial(_write_sorted, task=task), job.sources))


def _write_task(pieces: Task, *, plan: ReadPlan, task: WriteTask) -> TaskOutput:
    """Write the events of a task's pieces."""
    return write_part(_read_task(pieces, plan), task, part=0)


def _write_sorted(batches: Iterable[pa.RecordBatch], number: int, *, task: WriteTask) -> TaskOutput:
    """Write one partition of sorted records."""
    return write_part(batches, task, part=number)


def _sorted_frame(spark: SparkSession, reading: Reading, *, n_partitions: int) -> DataFrame:
    """Return all records sorted by time and arrival.

    The events' columns come first, by number instead of name, because ``mapInArrow`` stumbles
    over names with dots and backticks; then those of ``HELPERS``.
    """
    from pyspark.sql import functions as F  # noqa: N812 -- the name everyone knows
    from pyspark.sql.types import LongType, StructField, StructType

    spark.conf.set("spark.sql.shuffle.partitions", str(n_partitions))
    numbered = [pa.field(f"c{number}", one.type) for number, one in enumerate(reading.schema)]
    columns = [StructField(one.name, _to_spark_type(one.type)) for one in [*numbered, *HELPERS]]
    wanted = StructType([*columns, StructField(ROW_ID, LongType())])
    read = partial(_read_numbered, plan=reading.plan, tasks=reading.tasks)
    # One row, one partition, one task each; the tasks travel with the function.
    n_tasks = len(reading.tasks)
    frame = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(read, wanted)
    time = f"c{reading.schema.get_field_index(reading.plan.time)}"
    ordered = frame.orderBy(*map(F.col, (time, POSITION, BLOCK_START, ROW_ID)))
    return ordered.select([one.name for one in [*numbered, *HELPERS]])


def _read_numbered(
    batches: Iterable[pa.RecordBatch], *, plan: ReadPlan, tasks: Sequence[Task]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the tasks whose numbers come in; runs in a worker."""
    names = [f"c{number}" for number in range(len(plan.schema))]
    n_rows = 0
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for records in _read_task(tasks[number], plan):
                ids = pa.array(np.arange(n_rows, n_rows + records.num_rows))
                n_rows += records.num_rows
                yield pa.RecordBatch.from_arrays(
                    [*records.columns, ids], names=[*names, *HELPERS.names, ROW_ID]
                )


def _to_spark_type(data_type: pa.DataType) -> DataType:
    """Return Spark's type for a type a stream stores (see ``chronicle.schema``)."""
    from pyspark.sql import types as T  # noqa: N812 -- the name everyone knows

    if pat.is_timestamp(data_type):
        return T.TimestampNTZType() if data_type.tz is None else T.TimestampType()
    if pat.is_decimal(data_type):
        return T.DecimalType(data_type.precision, data_type.scale)
    return {
        pa.int8(): T.ByteType(),
        pa.int16(): T.ShortType(),
        pa.int32(): T.IntegerType(),
        pa.int64(): T.LongType(),
        pa.float32(): T.FloatType(),
        pa.float64(): T.DoubleType(),
        pa.bool_(): T.BooleanType(),
        pa.string(): T.StringType(),
        pa.binary(): T.BinaryType(),
        pa.date32(): T.DateType(),
    }[data_type]
