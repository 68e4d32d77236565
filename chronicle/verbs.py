"""What users call as methods of a stream and ``write/`` does: ``stream.append(events)``.

A stream knows itself and its reads; modules that change it import it. So its verbs are given to it
here, by ``chronicle/__init__.py``, which Python runs before any other module of the package.
"""

from __future__ import annotations

from typing import Any

from chronicle.append_report import AppendReport
from chronicle.derived import DerivedWriter
from chronicle.frames import to_table
from chronicle.maintenance.compaction import tidied
from chronicle.store import Stream
from chronicle.write.append import append as append_events

__all__ = ["Stream", "append"]


def append(
    self: Stream,
    events: Any,
    *,
    late: str = "merge",
    derived: DerivedWriter | None = None,
) -> AppendReport:
    """Append events held in memory, without Spark; all become visible at once, or none.

    Parameters
    ----------
    events
        With the stream's columns, in order of arrival; they need not be in order of time. A
        ``pyarrow.Table``, a frame of pandas or Polars, or whatever else holds Arrow data.
    late
        What becomes of events older than the stream's end: ``merge`` puts them where they
        belong, ``reject`` takes nothing, ``quarantine`` puts them aside.
    derived
        Writes runs of the indexes, such as ``indexing.writer_for(stream)`` gives; without one
        the new files are the tail of the indexes until the next compaction or ingest.

    Raises
    ------
    SchemaError
        If columns or types do not fit the stream.
    LateEventError
        If events are late and ``late`` is ``reject``.
    CommitConflictError
        If other processes commit first again and again.
    StorageError
        If the store cannot be written; nothing was appended.
    """
    table = to_table(events, what="the first argument")
    return tidied(self, append_events(self, table, late=late, derived=derived), derived)


Stream.append = append  # type: ignore[method-assign]
