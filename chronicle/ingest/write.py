"""Turn one task's batches into data files and a quarantine file; knows no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.errors import ChronicleError, SchemaError, StorageError
from chronicle.ingest.columns import BLOCK_START, HELPERS, POSITION
from chronicle.ingest.late import LateFile, LateRoute, LateWriter
from chronicle.ingest.quarantine import late_to_quarantine, split_faults, to_quarantine
from chronicle.settings import StreamSettings
from chronicle.time import to_int64
from chronicle.write.block_writer import WrittenFile, write_ordered
from chronicle.write.quarantine import QUARANTINE_TABLE, QuarantineFile, QuarantineWriter

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
    sources: tuple[str, ...]
    """Names of the sources, by position."""

    parts: Mapping[tuple[int, int], int] | None
    """Ordinal of each piece by (position, block start), where the records come in order; None
    where they were sorted, and the number of the task is its ordinal."""

    late: LateRoute | None = None
    """Where events older than the stream's end go; None where there are none."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task wrote."""

    files: list[WrittenFile]
    quarantine: QuarantineFile | None
    late: list[LateFile]


@dataclass(frozen=True, slots=True)
class TaskOutputs:
    """What all tasks wrote."""

    files: list[WrittenFile]
    """In stream order."""

    quarantine: list[QuarantineFile]
    late: list[LateFile]


def write_part(batches: Iterable[pa.RecordBatch], task: WriteTask, *, part: int) -> TaskOutput:
    """Write one task's records: events into data files, the rest into a quarantine file.

    Events older than the end of the stream go into staged files, see ``chronicle.ingest.late``.

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
        return TaskOutput([], None, [])
    if task.parts is not None:
        part = task.parts[_split_of(first)]
    sorter = _Sorter(task, part)
    try:
        files = write_ordered(
            sorter.events(_chain(first, stream)),
            stream_dir=task.stream_dir,
            schema=task.schema,
            settings=task.settings,
            ordinal_prefix=f"{task.generation:06d}-{part:06d}",
            derived=task.derived,
        )
        return TaskOutput(files, sorter.quarantine.close(), sorter.late_files())
    except BaseException:
        sorter.discard()
        raise


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _split_of(batch: pa.RecordBatch) -> tuple[int, int]:
    return batch.column(POSITION)[0].as_py(), batch.column(BLOCK_START)[0].as_py()


class _Sorter:
    """Tells the events of one task from what is put aside, and keeps the latter."""

    def __init__(self, task: WriteTask, part: int) -> None:
        self._task = task
        # A task may be run twice: a second attempt must not write over what the first has.
        self.quarantine = QuarantineWriter(
            task.stream_dir / QUARANTINE_TABLE,
            f"{task.batch_id}-{part:06d}-{uuid.uuid4().hex}.parquet",
        )
        self._late = None
        if task.late is not None:
            self._late = LateWriter(task.late, task.schema, task.settings.time, part=part)

    def events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events that are not late, with their own columns only."""
        task = self._task
        for batch in batches:
            good, bad = split_faults(batch.rename_columns([*task.schema.names, *HELPERS.names]))
            if bad.num_rows:
                rows = to_quarantine(bad, batch_id=task.batch_id, sources=task.sources)
                self.quarantine.write(rows)
            if self._late is not None:
                good = self._without_late(good)
            if good.num_rows:
                yield good.select(task.schema.names)

    def late_files(self) -> list[LateFile]:
        """Complete the staged files of late events and return them."""
        return [] if self._late is None else self._late.close()

    def discard(self) -> None:
        """Remove what was put aside."""
        self.quarantine.discard()
        if self._late is not None:
            self._late.discard()

    def _without_late(self, good: pa.RecordBatch) -> pa.RecordBatch:
        """Put late events aside; return the others."""
        task, route = self._task, self._task.late
        assert route is not None
        assert self._late is not None
        times = to_int64(good.column(task.settings.time), name=task.settings.time).to_numpy()
        oldest = route.stream_end if route.oldest is None else route.oldest
        # Whether they really come in order of time is checked by those who write them.
        n_old, n_late = np.searchsorted(times, (oldest, route.stream_end), "left").tolist()
        if route.oldest is None:
            n_old = 0
        if n_old:
            rows = late_to_quarantine(
                good.slice(0, n_old),
                batch_id=task.batch_id,
                reason=route.reason,
                columns=task.schema.names,
                sources=task.sources,
            )
            self.quarantine.write(rows)
        if n_late > n_old:
            self._late.write(good.slice(n_old, n_late - n_old).select(task.schema.names))
        return good.slice(max(n_old, n_late))


def to_results(output: TaskOutput) -> pa.RecordBatch:
    """Return what a task wrote as rows that travel to the driver."""
    rows = [("events", file.to_json()) for file in output.files]
    rows += [("late", file.to_json()) for file in output.late]
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
        [LateFile.from_json(text) for text in found.get("late", [])],
    )


def _to_batch(rows: list[tuple[str, str]]) -> pa.RecordBatch:
    kinds, values = [kind for kind, _ in rows], [value for _, value in rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(kinds, pa.string()), pa.array(values, pa.string())], schema=RESULT_SCHEMA
    )
