"""Small helps for talking to Spark: names, paths, faults."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.sources import SourceSet

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame, Row

_STATED = re.compile(r"^chronicle\.errors\.(SchemaError|SourceError): (.*)$", re.MULTILINE)
"""A fault of our own in what Spark says of one of its workers."""


def first_line(error: BaseException) -> str:
    """Return the first line of a Spark error, without its class."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def collect_rows(frame: DataFrame) -> list[Row]:
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
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            raise


@contextmanager
def spark_faults(sources: SourceSet) -> Iterator[None]:
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
            f"Spark cannot read {_named(sources)}: {reason}; check the files"
        ) from error


def _root_cause(error: Py4JJavaError) -> str:
    """Return the first line of the exception in the JVM that others were made from."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).splitlines()[0]


def _named(sources: SourceSet) -> str:
    n_more = len(sources.files) - 1
    return f"'{sources.files[0]}'" + (f" and {n_more} more" if n_more else "")
