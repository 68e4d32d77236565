"""Put records that cannot become events aside, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from chronicle.ingest.columns import LINE, POSITION, REASON, RECORD
from chronicle.write.quarantine import QUARANTINE_SCHEMA


def split_faults(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the records that are events and those that are not, each in order."""
    reasons = batch.column(REASON)
    if reasons.null_count == len(reasons):
        return batch, batch.slice(0, 0)
    return batch.filter(reasons.is_null()), batch.filter(reasons.is_valid())


def to_quarantine(bad: pa.RecordBatch, *, batch_id: str, sources: Sequence[str]) -> pa.Table:
    """Return rows of the quarantine table for records that are no events.

    Parameters
    ----------
    bad
        Records with what accompanies them, see ``columns.HELPERS``.
    batch_id
        Of this ingest.
    sources
        Names of the sources, by position.
    """
    return pa.table(
        [
            pa.array([batch_id] * bad.num_rows, pa.string()),
            bad.column(REASON),
            pa.array(sources, pa.string()).take(bad.column(POSITION)),
            bad.column(RECORD),
            bad.column(LINE),
        ],
        schema=QUARANTINE_SCHEMA,
    )


def late_to_quarantine(
    late: pa.RecordBatch,
    *,
    batch_id: str,
    reason: str,
    columns: Sequence[str],
    sources: Sequence[str],
) -> pa.Table:
    """Return rows of the quarantine table for events that are older than the stream takes.

    Parameters
    ----------
    late
        Events with what accompanies them.
    batch_id, sources
        See ``to_quarantine``.
    reason
        Why they are put aside.
    columns
        Names of the events' columns.
    """
    texts = [json.dumps(row, default=str) for row in late.select(list(columns)).to_pylist()]
    at = {name: late.schema.get_field_index(name) for name in (REASON, RECORD)}
    reasons = pa.array([reason] * late.num_rows, pa.string())
    told = late.set_column(at[REASON], REASON, reasons)
    told = told.set_column(at[RECORD], RECORD, pa.array(texts, pa.string()))
    return to_quarantine(told, batch_id=batch_id, sources=sources)
