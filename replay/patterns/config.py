"""Limits of the matcher, in one place, with their reasons."""

from __future__ import annotations

STEPS_MAX = 10_000_000
"""Steps of the machine from one start row, where conditions across rows tell more states apart
than ``STATES_MAX``."""

STATES_MAX = 1 << 18
"""States remembered to fail, some tens of bytes each; only what is used is touched."""

STATES_PATIENCE = 1 << 10
"""Steps of a start before states are remembered: to note one costs as much as many steps."""

PATH_BYTES_AT_ONCE = 1 << 20
"""Rows of matches a kernel writes before it hands them over, unless one match is longer."""

SYMBOLS_MAX = 64
"""Symbols of a query: their bits share one machine word."""

MATCHES_AT_ONCE = 1 << 16
"""Matches a kernel writes before it hands them over; bounds its output arrays."""

RETRY_FRACTION = 2
"""Undecided rows are searched again once 1/2 as many new ones came, so the whole stays linear."""

MEASURED_ROWS_AT_ONCE = 1 << 17
"""Rows of matches whose measures are evaluated at once: some tens of bytes a row and measure."""
