"""What an ingest or an append is asked to do, and what an ingest says it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chronicle.ingest.read_options import ReadOptions
from chronicle.words import number_of, quarantine_lines, time_lines
from chronicle.write.append import Late


@dataclass(frozen=True, slots=True)
class IngestOptions(ReadOptions):
    """How the sources are to be read, and how a new stream is laid out."""

    time: str
    """Name of the time column."""

    index: tuple[str, ...] = ()
    """Attributes to index; those of an existing stream are kept up besides."""

    key: str | None = None
    """Key column of a new stream."""

    derive: tuple[str, ...] = ()
    """Derived attributes of a new stream, such as ``delta(speed)``, and summaries by key, such as
    ``by(speed)``."""

    master: str = "local[*]"
    """Spark master."""

    block_events: int | None = None
    """Events per block of a new stream."""

    file_events: int | None = None
    """Most events per data file of a new stream."""

    split_bytes: int | None = None
    """Bytes of Parquet that one task reads; by the sources' size if None."""

    late: str = "merge"
    """What becomes of events older than the end of the stream: ``merge`` puts them where they
    belong, ``reject`` refuses the ingest, ``quarantine`` puts them aside."""

    again: bool = False
    """Whether to take sources that the stream has taken before."""


@dataclass(frozen=True, slots=True)
class AppendOptions(ReadOptions):
    """How files are to be read without Spark, and what becomes of late events."""

    time: str | None = None
    """Time column; needed for a new stream alone."""

    derive: tuple[str, ...] = ()
    """Derived attributes of a new stream, such as ``delta(speed)``."""

    key: str | None = None
    """Column that tells the objects of a new stream apart."""

    late: Late | str = Late.MERGE
    again: bool = False
    """Whether to take files that were taken before."""


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

    log_file: Path | None = None
    """The file that was named for what Spark says; None if none was, or Spark was not started."""

    n_late: int = 0
    """Events added that were older than the end of the stream."""

    n_rewritten: int = 0
    """Data files that late events were merged into."""

    n_skipped: int = 0
    """Sources left out because the stream has taken them before."""

    reasons: Mapping[str, int] = field(default_factory=dict)
    """Records in quarantine by reason."""

    fault: str | None = None
    """What failed once the events were in the stream; they are, and must not be ingested again."""
    notes: tuple[str, ...] = ()
    """What is to be known of how the files were read."""

    first_time: str | None = None
    """Time of the first event added, by its time; None if none was."""

    last_time: str | None = None

    def __str__(self) -> str:
        lines = [*self.notes, f"stream '{self.stream}': {self._added()}, version {self.version}"]
        lines += time_lines(self.first_time, self.last_time)
        lines.append(f"store: {self.store_path}")
        if self.n_skipped:
            sources = number_of(self.n_skipped, "source")
            lines.append(f"skipped: {sources} taken before (--again takes them)")
        if self.n_late:
            where = f"{number_of(self.n_rewritten, 'file')} rewritten"
            lines.append(f"late: {self.n_late:,} of them put where they belong, {where}")
        lines += quarantine_lines(self.n_quarantined, self.reasons)
        return "\n".join(lines)

    def _added(self) -> str:
        if self.n_events == 0 and self.n_quarantined == 0:
            return "nothing new"
        order = "in time order already" if self.in_order else "sorted by time and arrival"
        return f"{number_of(self.n_events, 'event')} added in {self.seconds:.1f} s ({order})"


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What was taken while a folder was followed."""

    stream: str
    store_path: Path
    n_batches: int
    n_events: int
    """Events added."""

    n_late: int
    """Events added that were older than the end of the stream."""

    n_quarantined: int
    n_skipped: int
    """Files left out because the stream has taken them before."""

    seconds: float
    log_file: Path | None
    """The file that was named for what Spark says; None if none was."""

    fault: str | None = None
    """What failed last once events were in the stream; they are."""

    def __str__(self) -> str:
        batches = number_of(self.n_batches, "batch", "batches")
        added = f"{self.n_events:,} events added in {batches}"
        lines = [f"stream '{self.stream}': {added}", f"store: {self.store_path}"]
        if self.n_skipped:
            lines.append(f"skipped: {number_of(self.n_skipped, 'file')} taken before")
        if self.n_late:
            lines.append(f"late: {self.n_late:,} of them put where they belong")
        lines += quarantine_lines(self.n_quarantined)
        return "\n".join(lines)


def cut_notes(n_values: int, n_twice: int, ambiguous: str | None) -> tuple[str, ...]:
    """Return what is told of times that became others than they are written.

    ``n_values`` were finer than a stream stores them; clocks show ``n_twice`` twice.
    """
    notes = []
    if n_values:
        values = "1 time was" if n_values == 1 else f"{n_values:,} times were"
        notes.append(f"{values} finer than a microsecond, and cut to it")
    if n_twice:
        times = "1 time that clocks show twice was" if n_twice == 1 else (
            f"{n_twice:,} times that clocks show twice were"
        )  # fmt: skip
        which = "by the order of the file" if ambiguous == "infer" else f"as the {ambiguous} one"
        notes.append(f"{times} taken {which}")
    return tuple(notes)
