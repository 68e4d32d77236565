"""Make the writer of runs that a stream's indexes need."""

from __future__ import annotations

from chronicle.store import Stream
from indexing.config import TAIL_FILE_EVENTS
from indexing.tables import indexed_attributes
from indexing.writer import RunWriter


def writer_for(stream: Stream, *, least_events: int = TAIL_FILE_EVENTS) -> RunWriter:
    """Return what writes the runs of all indexes a stream has.

    Parameters
    ----------
    stream
        The stream.
    least_events
        Data files of fewer events get no run: they are tail.
    """
    return RunWriter(
        indexed_attributes(stream.path, stream.schema.names, stream.settings.derived),
        stream.settings.time,
        key=stream.settings.key,
        least_events=least_events,
    )
