"""Columns that accompany records on their way into a stream, and what is done by them.

They are never stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chronicle.write.quarantine import QUARANTINE_SCHEMA, to_json

RESERVED_PREFIX = "__chronicle_"

REASON = f"{RESERVED_PREFIX}reason"
"""Why a record is no event; null for an event."""

RECORD = f"{RESERVED_PREFIX}record"
"""The text of a record that is no event; null for an event."""

LINE = f"{RESERVED_PREFIX}line"
"""The line of a text file at which a record begins that is no event."""

CELLS = f"{RESERVED_PREFIX}cells"
"""The cells of a CSV record that is no event, by column, as a JSON object; null where unknown."""

POSITION = f"{RESERVED_PREFIX}position"
"""Position among the sources of the file a record comes from."""

BLOCK_START = f"{RESERVED_PREFIX}block_start"
"""Row group at which the piece begins that a record comes from."""

ROW_ID = f"{RESERVED_PREFIX}row_id"
"""Ascending in the order of the records of one piece."""

HELPERS = pa.schema(
    [
        pa.field(REASON, pa.string()),
        pa.field(RECORD, pa.string()),
        pa.field(LINE, pa.int64()),
        pa.field(CELLS, pa.string()),
        pa.field(POSITION, pa.int32()),
        pa.field(BLOCK_START, pa.int64()),
    ]
)
"""What follows the events' columns when records are handed on."""


def split_faults(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the records that are events and those that are not, each in order."""
    reasons = batch.column(REASON)
    if reasons.null_count == len(reasons):
        return batch, batch.slice(0, 0)
    return batch.filter(reasons.is_null()), batch.filter(reasons.is_valid())


def to_quarantine(
    records: pa.RecordBatch,
    *,
    batch_id: str,
    sources: Sequence[str],
    reading: str | None,
    reason: str | None = None,
) -> pa.Table:
    """Return rows of the quarantine table for records that are no events.

    Records that are events are put aside for ``reason``. ``sources`` are names by position;
    ``reading`` are the options by which their cells are read.
    """
    n = records.num_rows
    reasons, texts = records.column(REASON), records.column(RECORD)
    if reason is not None:
        events = records.drop_columns(HELPERS.names)
        reasons = pa.array([reason] * n, pa.string())
        texts = pa.array(to_json(events), pa.string())
        reading = None  # values were read
    return pa.table(
        [
            pa.array([batch_id] * n, pa.string()),
            reasons,
            pa.array(sources, pa.string()).take(records.column(POSITION)),
            texts,
            records.column(LINE),
            records.column(CELLS),
            pa.array([reading] * n, pa.string()),
        ],
        schema=QUARANTINE_SCHEMA,
    )
