"""Turn one task's batches into data files and a quarantine file; knows no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronicle.block_writer import WrittenFile, write_ordered
from chronicle.derived import DerivedWriter
from chronicle.errors import ChronicleError, SchemaError, StorageError
from chronicle.ingest.columns import BLOCK_START, HELPERS, POSITION
from chronicle.ingest.quarantine import (
    QuarantineFile,
    QuarantineWriter,
    csv_cells,
    json_cells,
    split_faults,
    to_quarantine,
)
from chronicle.ingest.sources import SourceFormat
from chronicle.settings import StreamSettings

QUARANTINE_TABLE = "quarantine"
"""Delta table of a stream that holds the records put aside."""

RESULT_SCHEMA = pa.schema([pa.field("kind", pa.string()), pa.field("value", pa.string())])
RESULT_DDL = "kind string, value string"


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What every task of an ingest is told."""

    stream_dir: Path
    schema: pa.Schema
    settings: StreamSettings
    generation: int
    batch_id: str
    derived: DerivedWriter | None
    format: SourceFormat
    record_columns: tuple[str, ...]
    """Names of the columns as they stand in a record of the sources."""

    sources: tuple[str, ...]
    """Names of the sources, by position."""

    parts: Mapping[tuple[int, int], int] | None
    """Ordinal of each split by (position, block start), where a task reads one split; None where
    the records were sorted, and the number of the task is its ordinal."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task wrote."""

    files: list[WrittenFile]
    quarantine: QuarantineFile | None


@dataclass(frozen=True, slots=True)
class TaskOutputs:
    """What all tasks wrote."""

    files: list[WrittenFile]
    """In stream order."""

    quarantine: list[QuarantineFile]


def write_part(batches: Iterable[pa.RecordBatch], task: WriteTask, *, part: int) -> TaskOutput:
    """Write one task's records: events into data files, the rest into a quarantine file.

    Parameters
    ----------
    batches
        In stream order: the events' columns in the order of the schema, then ``HELPERS``.
    task
        What to write and where.
    part
        Number of the task, where the records were sorted.

    Raises
    ------
    SchemaError
        If the events are not in order. Whatever is raised, what was written is removed.
    """
    stream = iter(batches)
    first = next((batch for batch in stream if batch.num_rows), None)
    if first is None:
        return TaskOutput([], None)
    if task.parts is not None:
        part = task.parts[_split_of(first)]
    quarantine = QuarantineWriter(
        task.stream_dir / QUARANTINE_TABLE, f"{task.batch_id}-{part:06d}.parquet"
    )
    try:
        files = write_ordered(
            _events(_chain(first, stream), task, quarantine),
            stream_dir=task.stream_dir,
            schema=task.schema,
            settings=task.settings,
            ordinal_prefix=f"{task.generation:06d}-{part:06d}",
            derived=task.derived,
        )
        return TaskOutput(files, quarantine.close())
    except BaseException:
        quarantine.discard()
        raise


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _split_of(batch: pa.RecordBatch) -> tuple[int, int]:
    return batch.column(POSITION)[0].as_py(), batch.column(BLOCK_START)[0].as_py()


def _events(
    batches: Iterable[pa.RecordBatch], task: WriteTask, quarantine: QuarantineWriter
) -> Iterator[pa.RecordBatch]:
    """Yield the events with their own columns only; what is no event goes to the quarantine."""
    columns = task.schema.names
    read_cells = _cell_reader(task)
    for batch in batches:
        good, bad = split_faults(batch.rename_columns([*columns, *HELPERS]))
        if bad.num_rows:
            rows = to_quarantine(
                bad,
                batch_id=task.batch_id,
                time=task.settings.time,
                columns=columns,
                sources=task.sources,
                read_cells=read_cells,
            )
            quarantine.write(rows)
        if good.num_rows:
            yield good.select(columns)


def _cell_reader(task: WriteTask) -> Callable[[str], dict[str, Any] | None] | None:
    return {
        SourceFormat.CSV: csv_cells(task.record_columns),
        SourceFormat.JSON: json_cells,
        SourceFormat.PARQUET: None,
    }[task.format]


def to_results(output: TaskOutput) -> pa.RecordBatch:
    """Return what a task wrote as rows that travel to the driver."""
    rows = [("events", file.to_json()) for file in output.files]
    if output.quarantine is not None:
        rows.append(("quarantine", output.quarantine.to_json()))
    return _to_batch(rows)


def to_failure(error: ChronicleError | OSError) -> pa.RecordBatch:
    """Return a stated failure as a row: an exception would travel as a traceback in text."""
    kind = "schema failure" if isinstance(error, SchemaError) else "failure"
    return _to_batch([(kind, str(error))])


def from_results(rows: Iterable[tuple[str, str]]) -> TaskOutputs:
    """Return what all tasks wrote.

    Raises
    ------
    SchemaError, StorageError
        If a task failed.
    """
    found: dict[str, list[str]] = {}
    for kind, value in rows:
        found.setdefault(kind, []).append(value)
    if "schema failure" in found:
        raise SchemaError(found["schema failure"][0])
    if "failure" in found:
        raise StorageError(f"a task could not write: {found['failure'][0]}")
    files = [WrittenFile.from_json(text) for text in found.get("events", [])]
    return TaskOutputs(
        sorted(files, key=lambda file: file.ordinal),
        [QuarantineFile.from_json(text) for text in found.get("quarantine", [])],
    )


def _to_batch(rows: list[tuple[str, str]]) -> pa.RecordBatch:
    kinds, values = [kind for kind, _ in rows], [value for _, value in rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(kinds, pa.string()), pa.array(values, pa.string())], schema=RESULT_SCHEMA
    )
