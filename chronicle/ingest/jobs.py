"""Run jobs over JSON text as tasks on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from chronicle.errors import ChronicleError, SchemaError, SourceError, StorageError
from chronicle.ingest.session import open_spark
from chronicle.ingest.spark_tools import collect_rows, first_line
from chronicle.jobs import Job, Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DDL = "position bigint, kind string, value string"
_SCHEMA = pa.schema([("position", pa.int64()), ("kind", pa.string()), ("value", pa.string())])


@contextmanager
def open_runner(master: str = "local[*]", *, log_file: Path | None = None) -> Iterator[Runner]:
    """Lend what runs jobs on Spark: that which is running, else one that ends with the block.

    Parameters
    ----------
    master
        Spark master.
    log_file
        Takes what Spark prints; a file in the temporary folder if None.

    Raises
    ------
    EnvironmentFaultError
        If Java is missing or too old, or Spark does not start.
    """
    with open_spark(master, log_file=log_file) as lease:
        yield spark_runner(lease.spark)


def spark_runner(spark: SparkSession) -> Runner:
    """Return what runs each job as one task on Spark, see ``chronicle.jobs.Runner``.

    Its jobs must be picklable and see the same files as the driver. What a job raises reaches the
    caller as the sentence it says: ``SchemaError`` and ``SourceError`` as themselves, other faults
    as ``StorageError``.
    """
    return partial(_run, spark)


def _run(spark: SparkSession, job: Job, tasks: Sequence[str]) -> list[str]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not tasks:
        return []
    # One row, one partition, one task each; the texts travel with the function.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    work = partial(_run_tasks, job=job, tasks=list(tasks))
    try:
        rows = collect_rows(numbers.mapInArrow(work, _DDL))
    except (PySparkException, Py4JJavaError) as error:
        raise StorageError(
            f"Spark could not run {len(tasks)} job{'s' if len(tasks) > 1 else ''} "
            f"({first_line(error)}); nothing was committed, its log file says more"
        ) from error
    for row in rows:
        if row["kind"] == "schema failure":
            raise SchemaError(row["value"])
        if row["kind"] == "source failure":
            raise SourceError(row["value"])
        if row["kind"] == "failure":
            raise StorageError(row["value"])
    results = {row["position"]: row["value"] for row in rows}
    return [results[position] for position in range(len(tasks))]


def _run_tasks(
    batches: Iterable[pa.RecordBatch], *, job: Job, tasks: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Run the jobs whose numbers come in; runs in a worker."""
    for batch in batches:
        for position in batch.column(0).to_pylist():
            kind, value = _run_task(job, tasks[position])
            yield pa.RecordBatch.from_pylist(
                [{"position": position, "kind": kind, "value": value}], schema=_SCHEMA
            )


def _run_task(job: Job, task: str) -> tuple[str, str]:
    """Return a stated failure as a value: an exception would travel as a traceback in text."""
    try:
        return "result", job(task)
    except SchemaError as error:
        return "schema failure", str(error)
    except SourceError as error:
        return "source failure", str(error)
    except (ChronicleError, OSError) as error:
        return "failure", str(error)
