"""A stream described in plain values: sizes, versions, aggregates, and events over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from chronicle.arguments import check_type
from chronicle.config import EVENTS_TABLE
from chronicle.log import delta_log
from chronicle.log.history import HistoryEntry, to_history
from chronicle.settings import StreamSettings
from chronicle.snapshot import Snapshot
from chronicle.store import Stream
from chronicle.time import TimeType, show_time, time_type
from chronicle.tree.summary import Ints, kind_of
from chronicle.tree.tab_tree import Aggregate, Value
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.type_names import sql_type
from chronicle.words import megabytes, number_of


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
        times = f"{self._show(self.t_min)} to {self._show(self.t_max)}" if self.n_events else "none"
        lines = [
            ("stream", f"{self.name}, version {self.version}"),
            ("events", f"{self.n_events:,}"),
            ("time range", times),
            ("time column", f"{self.settings.time} ({self.time_type})"),
            ("key column", self.settings.key or "none"),
            ("derived", ", ".join(self.settings.derived) or "none"),
            ("columns", ", ".join(f"{name} {sql_type(kind)}" for name, kind in self.columns)),
            ("data files", f"{self.n_files:,}, {self.sizes(self.event_bytes)}"),
            ("blocks", f"{self.n_blocks:,} of up to {self.settings.block_events:,} events"),
            ("tree", f"{self.sizes(self.tree_bytes)}; entries of {levels or 'no level yet'}"),
        ]
        if self.settings.adopted_from is not None:
            lines.append(("adopted from", f"{self.settings.adopted_from}, read where it is"))
        if self.n_files_without_tree:
            without = f"{number_of(self.n_files_without_tree, 'data file')}, read in full"
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


# ---------------------------------------------------------------------------------------------
# Aggregates of a range of time, and how events lie over it


ENTRIES_PER_BAR = 8
"""Entries of the tree that a bar of a histogram has at least, where there are so many: within one,
events are taken to be spread evenly."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AttributeStats:
    """What is known of one attribute in a range of time."""

    name: str
    aggregate: Aggregate
    data_type: pa.DataType

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them; null where there is no such number."""
        found = self.aggregate
        variance = found.variance
        return {
            "values": found.n_values,
            "nulls": found.null_count,
            "nans": found.nan_count,
            "min": shown_value(found.minimum, self.data_type),
            "max": shown_value(found.maximum, self.data_type),
            "sum": _finite(found.sum),
            "mean": _finite(found.mean),
            "stddev_pop": None if variance is None else _finite(math.sqrt(variance)),
        }


@dataclass(frozen=True, slots=True)
class Histogram:
    """How events lie over bars of equal time, as one level of the tree tells: about."""

    level: int
    """Level of the tree; 0 are the blocks."""
    n_entries: int
    """Its entries that were looked at."""
    edges: Ints
    """Times at which bars begin and, last, the end; shape (n_bars + 1,)."""
    n_events: Floats
    """Events of each bar, about."""
    mean: Floats | None
    """Mean of the attribute in each bar, about; NaN where it has no value. None without one."""


def range_stats(
    snapshot: Snapshot, start: int | None, stop: int | None, attributes: Sequence[str]
) -> tuple[Aggregate, list[AttributeStats]]:
    """Aggregate attributes over [start, stop); reads at most two blocks for each.

    ``start`` and ``stop`` are internal times, half-open; None is unbounded. Returns number and
    times of the events, and what is known of each attribute.
    """
    found = [
        AttributeStats(
            name, snapshot.aggregate(start, stop, name), snapshot.schema.field(name).type
        )
        for name in attributes
    ]
    whole = found[0].aggregate if found else snapshot.aggregate(start, stop)
    return whole, found


def histogram(
    snapshot: Snapshot,
    start: int | None,
    stop: int | None,
    *,
    n_bars: int,
    attribute: str | None = None,
) -> Histogram | None:
    """Spread the events of a range of time over bars of equal time; reads no event.

    ``start`` and ``stop`` are internal times, half-open; None is where the stream begins or ends.
    There are fewer bars where the range has fewer times, and none (None) where it has no time of
    the stream. Means are told of ``attribute``, which holds numbers.
    """
    if snapshot.t_min is None or snapshot.t_max is None:
        return None
    first = snapshot.t_min if start is None else max(start, snapshot.t_min)
    end = snapshot.t_max + 1 if stop is None else min(stop, snapshot.t_max + 1)
    if first >= end:
        return None
    n_bars = min(n_bars, end - first)
    low, high = snapshot.tree.covering(first, end)
    k = _coarsest(snapshot, low, high, ENTRIES_PER_BAR * n_bars)
    level = snapshot.level(k, attribute)
    begin = int(np.searchsorted(level.first_block, low, "right")) - 1
    until = int(np.searchsorted(level.first_block, high, "left"))
    times = level.times.slice(begin, until)
    edges = first + (end - first) * np.arange(n_bars + 1, dtype=object) // n_bars
    events = spread_events(times.t_min, times.t_max, times.count, edges)
    mean = None
    if level.attribute is not None:
        of_values = level.attribute.slice(begin, until)
        n_values = spread_events(times.t_min, times.t_max, of_values.n_values, edges)
        total = spread_events(
            times.t_min, times.t_max, of_values.mean() * of_values.n_values, edges
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(n_values > 0, total / n_values, np.nan)
    return Histogram(k, until - begin, edges.astype(np.int64), events, mean)


def numeric_columns(snapshot: Snapshot) -> list[str]:
    """Return the columns of numbers."""
    return [field.name for field in snapshot.schema if kind_of(field.type).has_sum]


def has_mean(snapshot: Snapshot, attribute: str) -> bool:
    """Return whether a column holds numbers."""
    return kind_of(snapshot.schema.field(attribute).type).has_sum


def _coarsest(snapshot: Snapshot, low: int, high: int, n_entries: int) -> int:
    """Return the highest level with so many entries over some blocks; 0 if none has."""
    for k in range(snapshot.tree.n_levels - 1, 0, -1):
        borders = snapshot.level(k).first_block
        if np.searchsorted(borders, high) - np.searchsorted(borders, low) >= n_entries:
            return k
    return 0


def spread_events(t_min: Ints, t_max: Ints, amounts: Any, edges: Any) -> Floats:
    """Return what of amounts lies between edges, each spread evenly from first to last time.

    Times ascend, and so do the edges; both are internal times.
    """
    points = np.stack((t_min, t_max + 1), axis=1).ravel().astype(np.float64)
    edges = np.asarray(edges).astype(np.float64)
    before = np.concatenate(([0.0], np.cumsum(np.asarray(amounts, np.float64))))
    heights = np.stack((before[:-1], before[1:]), axis=1).ravel()
    return np.asarray(np.diff(np.interp(edges, points, heights)), np.float64)


def shown_value(value: Value | None, data_type: pa.DataType) -> Any:
    """Return an extreme, which aggregates hold in internal form, as JSON has it."""
    if value is None or isinstance(value, str):
        return value
    if pat.is_boolean(data_type):
        return bool(value)
    if pat.is_date(data_type):
        return str(np.datetime64(int(value), "D"))
    if pat.is_timestamp(data_type):
        return show_time(int(value), time_type(data_type, column=""))
    return _finite(value)


def _finite(number: float | None) -> float | str | None:
    """Return a number as JSON can have it: infinite ones as text."""
    if number is None or isinstance(number, int) or math.isfinite(number):
        return number
    return str(number)
