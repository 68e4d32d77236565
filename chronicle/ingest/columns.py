"""Names of the columns that accompany records on their way into a stream, and are never stored."""

from __future__ import annotations

import pyarrow as pa

RESERVED_PREFIX = "__chronicle_"

REASON = f"{RESERVED_PREFIX}reason"
"""Why a record is no event; null for an event."""

RECORD = f"{RESERVED_PREFIX}record"
"""The text of a record that is no event; null for an event."""

LINE = f"{RESERVED_PREFIX}line"
"""The line of a text file at which a record begins that is no event."""

POSITION = f"{RESERVED_PREFIX}position"
"""Position among the sources of the file a record comes from."""

BLOCK_START = f"{RESERVED_PREFIX}block_start"
"""Row group at which the piece begins that a record comes from."""

ROW_ID = f"{RESERVED_PREFIX}row_id"
"""Ascending in the order of the records of one piece."""

TIME = f"{RESERVED_PREFIX}time"
"""The event's time, for a survey; null where the record is no event."""

HELPERS = pa.schema(
    [
        pa.field(REASON, pa.string()),
        pa.field(RECORD, pa.string()),
        pa.field(LINE, pa.int64()),
        pa.field(POSITION, pa.int32()),
        pa.field(BLOCK_START, pa.int64()),
    ]
)
"""What follows the events' columns when records are handed on."""
