"""What an ingest is asked to do, and what it says it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How the sources are to be read, and how a new stream is laid out."""

    time: str
    """Name of the time column."""

    index: tuple[str, ...] = ()
    """Attributes to index; those of an existing stream are kept up besides."""

    key: str | None = None
    """Key column of a new stream."""

    format: str | None = None
    """``parquet``, ``csv`` or ``json``; by the files' endings if None."""

    schema: str | None = None
    """Columns of CSV or JSON as Spark DDL, such as ``ts TIMESTAMP_NTZ, x DOUBLE``; if None that
    of the stream, or inferred for a new one."""

    time_format: str | None = None
    """Spark datetime pattern of times written as text; ISO 8601 if None."""

    time_zone: str | None = None
    """Zone in which times without an offset are local; they are stored as instants then."""

    master: str = "local[*]"
    """Spark master."""

    block_events: int | None = None
    """Events per block of a new stream."""

    file_events: int | None = None
    """Most events per data file of a new stream."""

    split_bytes: int | None = None
    """Bytes of a source that one task reads; by the sources' size if None."""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did."""

    stream: str
    store_path: Path
    n_events: int
    """Events added."""

    n_quarantined: int
    """Records put into the quarantine table instead."""

    in_order: bool
    """Whether the input was in time order, so that nothing was sorted."""

    seconds: float
    """Wall-clock time, Spark's start included."""

    version: int
    """Version of the events table that holds the events."""

    log_file: Path
    """What Spark had to say."""

    reasons: Mapping[str, int] = field(default_factory=dict)
    """Records in quarantine by reason."""

    def __str__(self) -> str:
        order = "in time order already" if self.in_order else "sorted by time and arrival"
        added = f"{self.n_events:,} events added in {self.seconds:.1f} s"
        lines = [
            f"stream '{self.stream}': {added} ({order}), version {self.version}",
            f"store: {self.store_path}",
        ]
        if self.n_quarantined:
            lines.append(f"quarantined: {self.n_quarantined:,} rows, kept in table 'quarantine'")
            lines += [f"  {count:,} because {reason}" for reason, count in self.reasons.items()]
        return "\n".join(lines)
