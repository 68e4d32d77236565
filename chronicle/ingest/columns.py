"""Names of the columns that accompany the events through Spark and are never stored."""

from __future__ import annotations

RESERVED_PREFIX = "__chronicle_"

FAULT = f"{RESERVED_PREFIX}fault"
"""Number of a ``Fault``; 0 for an event."""

RAW_TIME = f"{RESERVED_PREFIX}raw_time"
"""The time as it was read, as text; null for an event."""

RAW_RECORD = f"{RESERVED_PREFIX}raw_record"
"""The text of a record that does not parse; null for others."""

POSITION = f"{RESERVED_PREFIX}position"
"""Position among the sources of the file a record comes from."""

BLOCK_START = f"{RESERVED_PREFIX}block_start"
"""Byte at which the split begins that a record comes from."""

ROW_ID = f"{RESERVED_PREFIX}row_id"
"""Ascending in the order of the records of one split."""

PATH = f"{RESERVED_PREFIX}path"
"""Spark's name of the file a record comes from."""

CHECK = f"{RESERVED_PREFIX}check"
"""A value that depends on every column, so that every cell is parsed."""

TIME = f"{RESERVED_PREFIX}time"
"""The event's time, for a survey; null where the record has a fault."""

HELPERS = (FAULT, RAW_TIME, RAW_RECORD, POSITION, BLOCK_START)
"""What follows the events' columns when records are written."""
