"""Parquet that needs no conversion, read by the workers themselves: its rows cross no JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.columns import (
    BLOCK_START,
    FAULT,
    HELPERS,
    POSITION,
    RAW_RECORD,
    RAW_TIME,
    TIME,
)
from chronicle.ingest.survey import survey_batches
from chronicle.ingest.times import Fault, TimeReading, TimeSource
from chronicle.ingest.write import WriteTask, to_results, write_part
from chronicle.schema import normalise_schema
from chronicle.time import TIME_LIMIT

_BATCH_ROWS = 1 << 16

_SPLIT_ROWS_MAX = 1 << 23
"""A task's work: many data files, and few enough rows that doing it again costs little."""

_HELPER_TYPES = {
    FAULT: pa.int32(),
    RAW_TIME: pa.string(),
    RAW_RECORD: pa.string(),
    POSITION: pa.int32(),
    BLOCK_START: pa.int64(),
}


@dataclass(frozen=True, slots=True)
class DirectSplit:
    """Row groups ``first:stop`` of one source, which one task reads."""

    position: int
    """Of the file among the sources."""

    path: str
    first: int
    stop: int

    def to_json(self) -> str:
        """Return the value as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DirectSplit:
        """Read back what ``to_json`` gave."""
        return cls(**json.loads(text))


def needs_no_conversion(found: pa.Schema | None, schema: pa.Schema, time: TimeReading) -> bool:
    """Return whether Arrow reads the sources into just the events that Spark would. Pure.

    Parameters
    ----------
    found
        Columns of the Parquet files; None for other formats.
    schema
        Columns of the events, of the types a stream stores.
    time
        How the time column is to be read.
    """
    if found is None or time.zone is not None or time.pattern is not None:
        return False
    if time.source is TimeSource.TEXT or any("." in name for name in found.names):
        return False
    try:
        stored = normalise_schema(found)
    except SchemaError:
        return False
    return all(
        name in stored.names and stored.field(name).type == schema.field(name).type
        for name in schema.names
    )


def plan_splits(
    paths: Sequence[Path], group_rows: Sequence[Sequence[int]], *, n_tasks: int
) -> list[DirectSplit]:
    """Cut files between row groups into at least about ``n_tasks`` splits of like size. Pure.

    Parameters
    ----------
    paths
        The sources, in the order of arrival.
    group_rows
        Rows of every row group, for each of them.
    n_tasks
        Tasks that run at once.
    """
    n_rows = sum(map(sum, group_rows))
    size = max(1, min(_SPLIT_ROWS_MAX, -(-n_rows // n_tasks)))
    splits = []
    for position, (path, rows) in enumerate(zip(paths, group_rows, strict=True)):
        before = np.concatenate(([0], np.cumsum(rows)))[: len(rows)]
        cuts = [0, *(np.flatnonzero(np.diff(before // size)) + 1).tolist(), len(rows)]
        splits += [DirectSplit(position, str(path), a, b) for a, b in pairwise(cuts) if a < b]
    return splits


def rows_of_groups(path: Path) -> list[int]:
    """Return the rows of every row group of a Parquet file, from its footer."""
    footer = pq.read_metadata(path)
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def survey_split(text: str, *, schema: pa.Schema, time: str, stream_end: int | None) -> str:
    """Look at the times of a split (a ``chronicle.jobs.Job``); returns rows of a survey."""
    split = DirectSplit.from_json(text)
    field = schema.field(time)
    batches = (
        pa.RecordBatch.from_arrays(
            [
                _usable_times(batch.column(0).cast(field.type))[0],
                *_places(split, batch.num_rows),
            ],
            names=[TIME, POSITION, BLOCK_START],
        )
        for batch in _read(split, [time])
    )
    rows = survey_batches(batches, stream_end=stream_end)
    return json.dumps([row for batch in rows for row in batch.to_pylist()])


def write_split(text: str, *, task: WriteTask) -> str:
    """Write the events of a split (a ``chronicle.jobs.Job``); returns rows of ``to_results``."""
    split = DirectSplit.from_json(text)
    names, time = task.schema.names, task.settings.time
    records = (_to_records(batch, split, task.schema, time) for batch in _read(split, names))
    return json.dumps(to_results(write_part(records, task, part=0)).to_pylist())


def _read(split: DirectSplit, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in order, of the columns named."""
    try:
        with pq.ParquetFile(split.path) as file:
            groups = range(split.first, split.stop)
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names):
                yield batch.select(names)
    except (OSError, pa.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SourceError(f"'{split.path}' cannot be read ({reason}); check the file") from error


def _to_records(
    batch: pa.RecordBatch, split: DirectSplit, schema: pa.Schema, time: str
) -> pa.RecordBatch:
    """Return records as Spark hands them over: the events' columns, then ``HELPERS``."""
    at = schema.names.index(time)
    raw = batch.column(at)
    usable, fault = _usable_times(raw.cast(schema.field(time).type))
    columns = batch.columns
    columns[at] = usable
    position, block_start = _places(split, batch.num_rows)
    helpers = {
        FAULT: fault,
        RAW_TIME: _raw_times(raw, pc.not_equal(fault, int(Fault.NONE))),
        RAW_RECORD: pa.nulls(batch.num_rows, pa.string()),
        POSITION: position,
        BLOCK_START: block_start,
    }
    return pa.RecordBatch.from_arrays(
        [*columns, *(helpers[name].cast(_HELPER_TYPES[name]) for name in HELPERS)],
        names=[*schema.names, *HELPERS],
    )


def _raw_times(raw: pa.Array, faulty: pa.Array) -> pa.Array:
    """Return the times as text where they are faulty; texts of all would cost most of the job."""
    if not pc.any(faulty).as_py():
        return pa.nulls(len(raw), pa.string())
    return pc.if_else(faulty, raw, pa.scalar(None, raw.type)).cast(pa.string())


def _usable_times(times: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return times, null where they are none, and the number of a ``Fault`` for each."""
    fault = pc.if_else(pc.is_null(times), int(Fault.NO_TIME), int(Fault.NONE))
    if pa.types.is_integer(times.type):
        wide = times.cast(pa.int64())
        beyond = pc.or_(pc.greater_equal(wide, TIME_LIMIT), pc.less_equal(wide, -TIME_LIMIT))
        beyond = beyond.fill_null(False)
        fault = pc.if_else(beyond, int(Fault.OUT_OF_RANGE), fault)
        times = pc.if_else(beyond, pa.scalar(None, times.type), times)
    return times, fault.cast(pa.int32())


def _places(split: DirectSplit, n_rows: int) -> tuple[pa.Array, pa.Array]:
    """Return where records come from; the first row group stands for the start of a split."""
    return (
        pa.array(np.full(n_rows, split.position, np.int32)),
        pa.array(np.full(n_rows, split.first, np.int64)),
    )
