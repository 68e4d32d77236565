"""Turn one task's batches into data files and a quarantine file; knows no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.ingest.helper_columns import (
    BLOCK_START,
    HELPERS,
    POSITION,
    split_faults,
    to_quarantine,
)
from chronicle.ingest.late import LateFile, LateRoute, LateWriter
from chronicle.settings import StreamSettings
from chronicle.time import to_int64
from chronicle.write.block_writer import WrittenFile, write_ordered
from chronicle.write.quarantine import QUARANTINE_TABLE, QuarantineFile, QuarantineWriter


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

    reading: str | None = None
    """Options by which the sources are read, as JSON."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task wrote, or all of them."""

    files: list[WrittenFile]
    """In stream order."""

    quarantine: list[QuarantineFile]
    late: list[LateFile]


def join_outputs(outputs: Iterable[TaskOutput]) -> TaskOutput:
    """Return what all tasks wrote."""
    joined = TaskOutput([], [], [])
    for output in outputs:
        joined.files.extend(output.files)
        joined.quarantine.extend(output.quarantine)
        joined.late.extend(output.late)
    joined.files.sort(key=lambda file: file.ordinal)
    return joined


def write_part(batches: Iterable[pa.RecordBatch], task: WriteTask, *, part: int) -> TaskOutput:
    """Write one task's records: events into data files, the rest into a quarantine file.

    Events older than the end of the stream go into staged files, see ``chronicle.ingest.late``.
    Whatever is raised, what was written is removed. Batches come in stream order: the events'
    columns in the order of the schema, then ``HELPERS``; events out of order are refused. ``part``
    is the number of the task where records were sorted.
    """
    stream = iter(batches)
    first = next((batch for batch in stream if batch.num_rows), None)
    if first is None:
        return TaskOutput([], [], [])
    if task.parts is not None:
        part = task.parts[first.column(POSITION)[0].as_py(), first.column(BLOCK_START)[0].as_py()]
    sorter = _Sorter(task, part)
    try:
        files = write_ordered(
            sorter.events(chain([first], stream)),
            stream_dir=task.stream_dir,
            schema=task.schema,
            settings=task.settings,
            ordinal_prefix=f"{task.generation:06d}-{part:06d}",
            derived=task.derived,
        )
        put_aside = sorter.quarantine.close()
        late = [] if sorter.late is None else sorter.late.close()
        return TaskOutput(files, [] if put_aside is None else [put_aside], late)
    except BaseException:
        sorter.discard()
        raise


class _Sorter:
    """Tells the events of one task from what is put aside, and keeps the latter."""

    def __init__(self, task: WriteTask, part: int) -> None:
        self._task = task
        # A task may be run twice: a second attempt must not write over what the first has.
        self.quarantine = QuarantineWriter(
            task.stream_dir / QUARANTINE_TABLE,
            f"{task.batch_id}-{part:06d}-{uuid.uuid4().hex}.parquet",
        )
        self.late = None
        if task.late is not None:
            self.late = LateWriter(task.late, task.schema, task.settings.time, part=part)

    def events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events that are not late, with their own columns only."""
        task = self._task
        for batch in batches:
            good, bad = split_faults(batch.rename_columns([*task.schema.names, *HELPERS.names]))
            self._put_aside(bad)
            if self.late is not None and task.late is not None:
                good = self._without_late(good, self.late, task.late)
            if good.num_rows:
                yield good.select(task.schema.names)

    def discard(self) -> None:
        """Remove what was put aside."""
        self.quarantine.discard()
        if self.late is not None:
            self.late.discard()

    def _put_aside(self, records: pa.RecordBatch, reason: str | None = None) -> None:
        if records.num_rows:
            task = self._task
            rows = to_quarantine(
                records,
                batch_id=task.batch_id,
                sources=task.sources,
                reading=task.reading,
                reason=reason,
            )
            self.quarantine.write(rows)

    def _without_late(
        self, good: pa.RecordBatch, writer: LateWriter, route: LateRoute
    ) -> pa.RecordBatch:
        """Put late events aside; return the others."""
        time = self._task.settings.time
        times = to_int64(good.column(time), name=time).to_numpy()
        # Whether they really come in order of time is checked by those who write them.
        n_late = int(np.searchsorted(times, route.stream_end, "left"))
        n_old = 0 if route.oldest is None else int(np.searchsorted(times, route.oldest, "left"))
        self._put_aside(good.slice(0, n_old), route.reason)
        if n_late > n_old:
            late = good.slice(n_old, n_late - n_old).select(self._task.schema.names)
            writer.write(late)
        return good.slice(max(n_old, n_late))
