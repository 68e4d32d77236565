"""Put records that cannot become events aside, each with its reason."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chronicle.ingest.columns import FAULT, POSITION, RAW_RECORD, RAW_TIME
from chronicle.ingest.times import Fault
from chronicle.quarantine import QUARANTINE_SCHEMA


def split_faults(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the records that are events and those that are not, each in order."""
    faults = batch.column(FAULT)
    bad = pc.not_equal(faults, int(Fault.NONE))
    if not pc.any(bad).as_py():
        return batch, batch.slice(0, 0)
    return batch.filter(pc.invert(bad)), batch.filter(bad)


def to_quarantine(
    bad: pa.RecordBatch,
    *,
    batch_id: str,
    time: str,
    columns: Sequence[str],
    sources: tuple[str, ...],
    read_cells: Callable[[str], dict[str, Any] | None] | None,
) -> pa.Table:
    """Return rows of the quarantine table for records with a fault.

    Parameters
    ----------
    bad
        Records with the accompanying columns.
    batch_id
        Of this ingest.
    time
        Name of the time column.
    columns
        Names of the events' columns.
    sources
        Names of the sources, by position.
    read_cells
        Reads a record's text into raw cells by column, None if it is no record; None for
        formats without text.
    """
    types = {name: str(bad.schema.field(name).type) for name in columns}
    rows = [
        {
            "batch": batch_id,
            "reason": _reason(row, time=time, types=types, read_cells=read_cells),
            "source": sources[row[POSITION]],
            "record": _record_text(row, time=time, columns=columns),
        }
        for row in bad.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA)


def _reason(
    row: dict[str, Any],
    *,
    time: str,
    types: dict[str, str],
    read_cells: Callable[[str], dict[str, Any] | None] | None,
) -> str:
    fault = Fault(row[FAULT])
    if fault is not Fault.RECORD or read_cells is None:
        return fault.reason(time)
    cells = read_cells(row[RAW_RECORD])
    if cells is None:
        return fault.reason(time)
    for name, data_type in types.items():
        if name != time and row[name] is None and cells.get(name) not in (None, ""):
            return f"column '{name}' does not parse as {data_type}"
    if row[RAW_TIME] is None and cells.get(time) not in (None, ""):
        return Fault.UNPARSABLE.reason(time)
    return fault.reason(time)


def _record_text(row: dict[str, Any], *, time: str, columns: Sequence[str]) -> str:
    if row[RAW_RECORD] is not None:
        return str(row[RAW_RECORD])
    cells = {name: row[name] for name in columns}
    cells[time] = row[RAW_TIME]
    return json.dumps(cells, default=str)


def late_to_quarantine(
    late: pa.RecordBatch,
    *,
    batch_id: str,
    reason: str,
    columns: Sequence[str],
    sources: tuple[str, ...],
) -> pa.Table:
    """Return rows of the quarantine table for events that are older than the stream takes.

    Parameters
    ----------
    late
        Events with the accompanying columns.
    batch_id, columns, sources
        See ``to_quarantine``.
    reason
        Why they are put aside.
    """
    n = late.num_rows
    records = [json.dumps(row, default=str) for row in late.select(columns).to_pylist()]
    names = [sources[position] for position in late.column(POSITION).to_pylist()]
    return pa.table([[batch_id] * n, [reason] * n, names, records], schema=QUARANTINE_SCHEMA)


def csv_cells(columns: Sequence[str]) -> Callable[[str], dict[str, Any] | None]:
    """Return what reads a CSV record into raw cells; a record of another width is none."""

    def read(record: str) -> dict[str, Any] | None:
        cells = next(csv.reader([record]), [])
        return dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else None

    return read


def json_cells(record: str) -> dict[str, Any] | None:
    """Read a JSON record into raw cells."""
    try:
        cells = json.loads(record)
    except ValueError:
        return None
    return cells if isinstance(cells, dict) else None
