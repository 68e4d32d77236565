"""Run work as tasks on Spark; what fails there reaches the caller as the sentence it says."""

from __future__ import annotations

import pickle
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronicle import foreign_text
from chronicle.errors import ChronicleError, SchemaError, SourceError, StorageError
from chronicle.ingest.session import first_line, open_spark
from chronicle.ingest.sources import SourceSet
from chronicle.jobs import Result, Runner, Told
from chronicle.words import number_of

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame, Row, SparkSession

_DDL = "position bigint, result binary"
_SCHEMA = pa.schema([("position", pa.int64()), ("result", pa.binary())])

_LOOK_S = 0.5
"""Seconds between looks at Spark's counters."""

_STATED = re.compile(r"^chronicle\.errors\.(SchemaError|SourceError): (.*)$", re.MULTILINE)
"""A fault of our own in what Spark says of one of its workers."""


@contextmanager
def open_runner(
    master: str = "local[*]", *, log_file: Path | None = None, told: Told = lambda *_: None
) -> Iterator[Runner]:
    """Lend what runs jobs on Spark: that which is running, else one that ends with the block.

    Parameters
    ----------
    master
        Spark master.
    log_file
        Takes what Spark prints; a file in the temporary folder if None.
    told
        Hears how many tasks of what runs are done, by Spark's own counters.

    Raises
    ------
    EnvironmentFaultError
        If Java is missing or too old, or Spark does not start.
    """
    with open_spark(master, log_file=log_file) as lease, telling_tasks(lease.spark, told):
        yield spark_runner(lease.spark)


@contextmanager
def telling_tasks(spark: SparkSession, told: Told) -> Iterator[None]:
    """Tell how many tasks of the stages that run are done, by Spark's own counters."""
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()

    def look() -> None:
        try:
            while not over.wait(_LOOK_S):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                if known:
                    n_done = sum(stage.numCompletedTasks for stage in known)
                    told(n_done, sum(stage.numTasks for stage in known))
        except Exception:  # noqa: BLE001 - a JVM that ends is told of by the work itself
            return

    thread = threading.Thread(target=look, name="chronicle-tasks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def spark_runner(spark: SparkSession) -> Runner:
    """Return what runs each job as one task on Spark, see ``chronicle.jobs.Runner``.

    Its jobs must be picklable and see the same files as the driver. What a job raises reaches the
    caller as the sentence it says: ``SchemaError`` and ``SourceError`` as themselves, other faults
    as ``StorageError``.
    """
    return partial(_run, spark)


def _run(spark: SparkSession, job: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not tasks:
        return []
    # One row, one partition, one task each; the tasks travel with the function.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    work = partial(_run_tasks, job=job, tasks=list(tasks))
    try:
        return _results(numbers.mapInArrow(work, _DDL))
    except (PySparkException, Py4JJavaError) as error:
        raise StorageError(
            f"Spark could not run {number_of(len(tasks), 'job')} "
            f"({first_line(error)}); nothing was committed, its log file says more"
        ) from error


def run_on_partitions(
    frame: DataFrame, work: Callable[[Iterable[pa.RecordBatch], int], Result], sources: SourceSet
) -> list[Result]:
    """Return what ``work`` makes of each partition's batches and its number, by number.

    Faults of ``work`` and of reading ``sources`` reach the caller as sentences.
    """
    with _reading_faults(sources):
        return _results(frame.mapInArrow(partial(_run_partition, work=work), _DDL))


def _run_tasks(
    batches: Iterable[pa.RecordBatch], *, job: Callable[[Any], Any], tasks: Sequence[Any]
) -> Iterator[pa.RecordBatch]:
    """Run the jobs whose numbers come in; runs in a worker."""
    for batch in batches:
        for position in batch.column(0).to_pylist():
            yield _outcome(position, partial(job, tasks[position]))


def _run_partition(
    batches: Iterable[pa.RecordBatch], *, work: Callable[[Iterable[pa.RecordBatch], int], Any]
) -> Iterator[pa.RecordBatch]:
    """Run work on one partition; runs in a worker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number, stream = context.partitionId(), iter(batches)
    outcome = _outcome(number, lambda: work(stream, number))
    deque(stream, maxlen=0)  # Spark wants its input read to the end
    yield outcome


def _outcome(position: int, work: Callable[[], object]) -> pa.RecordBatch:
    """Return a result, or a stated failure: an exception would travel as a traceback in text."""
    try:
        result = work()
    except (ChronicleError, OSError) as error:
        as_itself = (kind for kind in (SchemaError, SourceError) if isinstance(error, kind))
        result = next(as_itself, StorageError)(str(error))
    return pa.RecordBatch.from_pylist(
        [{"position": position, "result": pickle.dumps(result)}], schema=_SCHEMA
    )


def _results(outcomes: DataFrame) -> list[Any]:
    """Return the results in the order of their positions; raise what failed."""
    rows = sorted(_collect(outcomes), key=lambda row: row["position"])
    results = [pickle.loads(row["result"]) for row in rows]  # noqa: S301 - of our own workers
    for result in results:
        if isinstance(result, ChronicleError):
            raise result
    return results


def _collect(frame: DataFrame) -> list[Row]:
    """Run a frame; an interrupt cancels its job.

    The job is awaited in a thread of its own, because an interrupt that breaks into a call to
    the JVM leaves the connection of its thread unusable, also for the cancellation.
    """
    context = frame.sparkSession.sparkContext
    group = f"chronicle-{uuid.uuid4().hex}"

    def run() -> list[Row]:
        context.setJobGroup(group, "chronicle ingest", interruptOnCancel=True)
        rows: list[Row] = frame.collect()
        return rows

    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(run)
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            context.cancelJobGroup(group)
            raise


@contextmanager
def _reading_faults(sources: SourceSet) -> Iterator[None]:
    """Turn Spark's failure to read a file into a sentence; faults of our own stay as they are."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException, PythonException

    try:
        yield
    except PythonException as error:
        stated = _STATED.search(str(error))
        if stated is None:
            raise
        kind = SchemaError if stated[1] == "SchemaError" else SourceError
        raise kind(stated[2]) from error
    except (PySparkException, Py4JJavaError) as error:
        # PySpark leaves some of the JVM's exceptions, such as those of a sort, as they are.
        reason = _root_cause(error) if isinstance(error, Py4JJavaError) else first_line(error)
        raise SourceError(
            f"Spark cannot read {sources.shown}: {reason}; check the files"
        ) from error


def _root_cause(error: Py4JJavaError) -> str:
    """Return the first line of the exception in the JVM that others were made from."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return foreign_text.first_line(str(cause.toString()))
