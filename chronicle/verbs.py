"""What users call as methods of a stream and ``write/`` does: ``stream.append(events)``.

A stream knows itself and its reads; modules that change it import it, so it finds its verbs here
by name.
"""

from __future__ import annotations

from typing import Any

from chronicle.append_report import AppendReport
from chronicle.derived import DerivedWriter
from chronicle.frames import to_table
from chronicle.maintenance.compaction import tidied
from chronicle.store import Stream
from chronicle.write.append import append as append_events


def append(
    stream: Stream, events: Any, *, late: str, derived: DerivedWriter | None
) -> AppendReport:
    """Append events held in memory; see ``Stream.append``."""
    table = to_table(events, what="the first argument")
    return tidied(stream, append_events(stream, table, late=late, derived=derived), derived)
