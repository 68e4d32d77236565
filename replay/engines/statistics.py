"""What planning may know of a stream: tree levels and index fences of one snapshot, no event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from chronicle import Snapshot
from chronicle.snapshot import AttributeBounds, Leaves
from indexing import IndexSet, KeyRanges, open_indexes
from replay.planning.plan import Occurrences, Plan

SNAPSHOTS_CACHED = 8
"""Snapshots whose statistics, and so whose plans, are kept per process."""


class SnapshotStatistics:
    """Summaries of one snapshot and fences of its indexes (``planning.StreamStatistics``).

    Equal only to itself, so that plans can be cached by it.
    """

    def __init__(self, indexes: IndexSet) -> None:
        self._snapshot: Snapshot = indexes.snapshot
        self._indexes = indexes

    @property
    def n_events(self) -> int:
        """Events of the stream."""
        return self._snapshot.n_events

    @property
    def n_blocks(self) -> int:
        """Blocks of the stream."""
        return self._snapshot.n_blocks

    @property
    def leaves(self) -> Leaves:
        """Counts, positions and times of the blocks."""
        return self._snapshot.leaves

    @property
    def gap_min(self) -> int:
        """Smallest time between neighbouring events."""
        return self._snapshot.gap_min

    @property
    def indexed(self) -> frozenset[str]:
        """Attributes that have an index."""
        return frozenset(self._indexes.attributes)

    @property
    def indexes(self) -> IndexSet:
        """The indexes themselves, for the engine."""
        return self._indexes

    @property
    def faults(self) -> tuple[str, ...]:
        """What was found damaged in derived data and was answered without."""
        return (*self._snapshot.faults, *self._indexes.faults)

    def bounds(self, attribute: str) -> AttributeBounds:
        """Least and greatest value of an attribute, per block."""
        return self._snapshot.bounds(attribute)

    def estimate_count(self, attribute: str, ranges: KeyRanges) -> tuple[int, int]:
        """Least and most events whose attribute lies in ``ranges``, from fences alone."""
        return self._indexes.index(attribute).estimate_count(ranges)


def statistics_of(snapshot: Snapshot) -> SnapshotStatistics:
    """Return what planning may know; the same object as long as tree and indexes are the same."""
    return _cached_statistics(open_indexes(snapshot))


_cached_statistics = lru_cache(SNAPSHOTS_CACHED)(SnapshotStatistics)


@dataclass(frozen=True, slots=True)
class IndexPhase:
    """Entries the indexes gave for a plan."""

    occurrences: Mapping[tuple[int, str], Occurrences]
    """By position in the pattern and attribute; sorted by ``seq``."""
    n_entries_read: int
    n_bytes_read: int


def look_up(plan: Plan, statistics: SnapshotStatistics) -> IndexPhase:
    """Look up the plan's conditions; equal ranges of one attribute are read once."""
    if plan.finds_nothing:
        return IndexPhase({}, 0, 0)
    found: dict[tuple[str, KeyRanges], Occurrences] = {}
    n_entries = n_bytes = 0
    occurrences = {}
    for condition in plan.conditions:
        asked = (condition.attribute, condition.ranges)
        if asked not in found:
            entries = statistics.indexes.index(condition.attribute).lookup(condition.ranges)
            found[asked] = Occurrences(seq=entries.seq, t=entries.t)
            n_entries += entries.n_entries_read
            n_bytes += entries.n_bytes_read
        occurrences[condition.position, condition.attribute] = found[asked]
    return IndexPhase(occurrences, n_entries, n_bytes)
