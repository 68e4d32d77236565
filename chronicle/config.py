"""Every default of the event store, in one place, with its unit and its reason."""

from __future__ import annotations

from datetime import timedelta

FORMAT_VERSION = 3
"""Layout of a store; a store with a larger number is refused, one with a smaller is read: version
1 has shorter ordinals, and runs and tree files that ``repair`` writes anew."""

BLOCK_EVENTS = 2048
"""Events per block (Parquet row group). Measured, see ``docs/decisions/0003-block-size.md``."""

FILE_EVENTS = 1 << 20
"""Events per data file: bounds what a late event rewrites and what one task holds in memory."""

FAN_OUT = 32
"""Entries of level k that one entry of level k + 1 of the TAB+-tree aggregates."""

TIME_UNIT = "us"
"""Unit of timestamps everywhere inside Chronicle (Delta stores no other)."""

MARKER_FILE = "chronicle-store.json"
"""File at the root of a store; holds the format version."""

EVENTS_TABLE = "events"
"""Delta table of a stream that holds the user's events."""

COMPACTION_FAN_IN = 8
"""Small data files of a tier that become one. A thousand appends of 1,000 events leave at most 19
files, each event written anew 2.6 times, by 125 merges; at fan-in 4 it is 14 files, 3.0 times and
250 merges, at 16 32 files, 1.7 times and 62 merges."""

AUTO_COMPACT_EVENTS = 1 << 18
"""Events an append may write anew to merge small files: a quarter of a full file, so that even the
largest such merge takes well under a second. Larger ones wait for ``chronicle compact``."""

COMPACT_MERGES_PER_COMMIT = 8
"""Merges of data files carried out at once: what a kill costs at most. They run on one core or
Spark task each, so more would leave fewer commits but hold more events in memory."""

VACUUM_RETENTION = timedelta(days=7)
"""How long a replaced file stays for older versions; Delta's own default."""

LEFTOVER_AGE = timedelta(days=1)
"""Age from which a file that no table knows is taken for what a killed operation left: no ingest
takes so long between writing a file and committing it."""
