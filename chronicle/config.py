"""Every default of the event store, in one place, with its unit and its reason."""

from __future__ import annotations

FORMAT_VERSION = 1
"""Layout of a store; a store with a larger number is refused."""

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
