"""A stream and its versions described in plain values, for people and for the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from chronicle.arguments import check_type
from chronicle.config import EVENTS_TABLE
from chronicle.log import delta_log
from chronicle.log.history import HistoryEntry, to_history
from chronicle.settings import StreamSettings
from chronicle.size_text import megabytes
from chronicle.snapshot import Snapshot
from chronicle.store import Stream
from chronicle.time import TimeType, show_time
from chronicle.tree.tree_file import TREE_TABLE


@dataclass(frozen=True, slots=True)
class LevelDescription:
    """One level of the TAB+-tree."""

    level: int
    n_entries: int
    blocks_per_entry: float


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """What is stored of a stream, without its indexes."""

    name: str
    version: int
    columns: tuple[tuple[str, str], ...]
    """Names and types."""

    settings: StreamSettings
    time_type: TimeType
    t_min: int | None
    """Internal time of the first event; None if there is none."""

    t_max: int | None
    gap_min: int
    n_events: int
    n_files: int
    n_files_without_tree: int
    """Files whose tree entries are missing or damaged; ``repair`` makes them."""

    n_blocks: int
    levels: tuple[LevelDescription, ...]
    event_bytes: int
    tree_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for machines; times as ISO 8601 or in the column's own unit."""
        plain = asdict(self)
        plain["columns"] = dict(self.columns)
        plain["t_min"], plain["t_max"] = self._show(self.t_min), self._show(self.t_max)
        plain["bytes_per_event"] = {
            "events": self.per_event(self.event_bytes),
            "tree": self.per_event(self.tree_bytes),
        }
        return plain

    def per_event(self, n_bytes: int) -> float:
        """Return how much of some bytes stored for the stream falls to one event."""
        return round(n_bytes / self.n_events, 3) if self.n_events else 0.0

    def lines(self) -> list[tuple[str, str]]:
        """Return name and value of what a person wants to know, in order."""
        levels = ", ".join(f"level {v.level}: {v.n_entries:,}" for v in self.levels)
        lines = [
            ("stream", f"{self.name}, version {self.version}"),
            ("events", f"{self.n_events:,}"),
            ("time range", f"{self._show(self.t_min)} to {self._show(self.t_max)}"),
            ("time column", f"{self.settings.time} ({self.time_type})"),
            ("key column", self.settings.key or "none"),
            ("derived", ", ".join(self.settings.derived) or "none"),
            ("columns", ", ".join(f"{name} {kind}" for name, kind in self.columns)),
            ("data files", f"{self.n_files:,}, {self.sizes(self.event_bytes)}"),
            ("blocks", f"{self.n_blocks:,} of up to {self.settings.block_events:,} events"),
            ("tree", f"{self.sizes(self.tree_bytes)}; entries of {levels or 'no level yet'}"),
        ]
        if self.settings.adopted_from is not None:
            lines.append(("adopted from", f"{self.settings.adopted_from}, read where it is"))
        if self.n_files_without_tree:
            without = f"{self.n_files_without_tree:,} data files, read in full"
            lines.append(("without tree", without))
        return lines

    def sizes(self, n_bytes: int) -> str:
        """Return bytes stored for the stream in words, with how much that is per event."""
        return f"{megabytes(n_bytes)}, {self.per_event(n_bytes):,.2f} bytes per event"

    def _show(self, time: int | None) -> str | int | None:
        """Return an internal time as the time column shows it."""
        if time is None or self.time_type == "integer":
            return time
        return show_time(time, self.time_type)


def describe_stream(snapshot: Snapshot) -> StreamDescription:
    """Describe a snapshot; reads no event and no attribute."""
    check_type(snapshot, Snapshot)
    tree_dir = snapshot.stream_dir / TREE_TABLE
    levels = [snapshot.tree.level(k) for k in range(snapshot.tree.n_levels)]
    return StreamDescription(
        name=snapshot.name,
        version=snapshot.version,
        columns=tuple((field.name, str(field.type)) for field in snapshot.schema),
        settings=snapshot.settings,
        time_type=snapshot.time_type,
        t_min=snapshot.t_min,
        t_max=snapshot.t_max,
        gap_min=snapshot.gap_min,
        n_events=snapshot.n_events,
        n_files=len(snapshot.files),
        n_files_without_tree=sum(not file.has_tree for file in snapshot.files),
        n_blocks=snapshot.n_blocks,
        levels=tuple(
            LevelDescription(k, len(level.times), snapshot.n_blocks / max(1, len(level.times)))
            for k, level in enumerate(levels)
        ),
        event_bytes=sum(file.size_bytes for file in snapshot.files),
        tree_bytes=sum(
            (tree_dir / file.name).stat().st_size for file in snapshot.files if file.has_tree
        ),
    )


def history(stream: Stream) -> list[HistoryEntry]:
    """Return the versions of a stream, newest first, as far back as its log reaches.

    Reads the log alone. Delta drops commits older than the table's log retention.
    """
    check_type(stream, Stream)
    path = stream.path / EVENTS_TABLE
    state = delta_log.load_table(path)
    counts = [file.n_rows for file in state.files]
    total = sum(count or 0 for count in counts) if None not in counts else None
    known = [commit for commit in delta_log.commits(path) if commit.version <= state.version]
    return to_history(known, total)
