"""Limits of the matcher, in one place, with their reasons."""

from __future__ import annotations

STEPS_MAX = 10_000_000
"""Steps of the machine from one start row, where conditions across rows forbid a memo."""

SYMBOLS_MAX = 64
"""Symbols of a query: their bits share one machine word."""

MATCHES_AT_ONCE = 1 << 16
"""Matches a kernel writes before it hands them over; bounds its output arrays."""

RETRY_FRACTION = 2
"""Undecided rows are searched again once 1/2 as many new ones came, so the whole stays linear."""
