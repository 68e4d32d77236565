"""What planning may know of a stream: tree levels and index fences of one snapshot, no event."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.errors import StorageError
from chronicle.tree.summary import AttributeBounds, Leaves
from costmodel.parameters import CostParameters
from indexing import IndexSet, KeyRanges, open_indexes
from indexing.composite import parse_composite
from indexing.errors import IndexingError
from indexing.keys import KeyKind, key_kind
from indexing.objects import object_kind, to_objects
from replay.engines.key_numbers import count_keys, number_keys
from replay.engines.weights import LoadedWeights, load_weights
from replay.planning.statistics import IntArray

SNAPSHOTS_CACHED = 8
"""Snapshots whose statistics, and so whose plans, are kept per process."""

KEY_BLOCKS = 4
"""Blocks in which keys are counted: thousands of events, read once per snapshot."""


class SnapshotStatistics:
    """Summaries of one snapshot and fences of its indexes (``planning.StreamStatistics``).

    Equal only to itself, so that plans can be cached by it.
    """

    def __init__(self, indexes: IndexSet) -> None:
        self._snapshot: Snapshot = indexes.snapshot
        self._store_dir = str(Path(indexes.snapshot.stream_dir).parent)
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
    def indexed(self) -> frozenset[str]:
        """Attributes that have an index, several of one index joined by ``+``."""
        return frozenset(self._indexes.attributes)

    @cached_property
    def composites(self) -> Mapping[str, tuple[tuple[str, KeyKind], ...]]:
        """Columns of each index over several, with the kind of their keys."""
        schema, found = self._snapshot.schema, {}
        for name in self._indexes.attributes:
            composite = parse_composite(schema.names, name)
            if composite is not None:
                found[name] = tuple(
                    (part, key_kind(schema.field(part).type, part)) for part in composite.parts
                )
        return found

    @cached_property
    def texts(self) -> frozenset[str]:
        """Columns of text."""
        return frozenset(f.name for f in self._snapshot.schema if pa.types.is_string(f.type))

    @property
    def derived(self) -> frozenset[str]:
        """Derived attributes declared for the stream.

        None where they are told object by object and planning knows of no objects.
        """
        if self._snapshot.settings.key is not None and self.key is None:
            return frozenset()
        return frozenset(self._snapshot.settings.derived)

    @property
    def key(self) -> str | None:
        """The stream's key column, if its type can tell objects apart."""
        name = self._snapshot.settings.key
        try:
            if name is not None:
                object_kind(self._snapshot.schema.field(name).type, name)
        except IndexingError:
            return None
        return name

    @property
    def parameters(self) -> CostParameters:
        """Weights of the cost model: what ``chronicle calibrate`` measured, or the defaults."""
        return self._weights.parameters

    @property
    def indexes(self) -> IndexSet:
        """The indexes themselves, for the engine."""
        return self._indexes

    @property
    def faults(self) -> tuple[str, ...]:
        """What was found damaged in derived data and was answered without."""
        warning = self._weights.warning
        weights = () if warning is None else (warning,)
        return (*self._snapshot.faults, *self._indexes.faults, *weights)

    @property
    def _weights(self) -> LoadedWeights:
        return load_weights(self._store_dir)

    def bounds(self, attribute: str) -> AttributeBounds:
        """Least and greatest value of an attribute, per block."""
        return self._snapshot.bounds(attribute)

    def estimate_count(
        self, attribute: str, ranges: KeyRanges, *, within: IntArray | None = None
    ) -> tuple[int, int]:
        """Least and most events whose attribute lies in ``ranges``, from fences alone."""
        return self._indexes.index(attribute).estimate_count(ranges, within=within)

    @property
    def n_keys(self) -> float:
        """How many keys take turns, told from a few blocks; 1.0 without a key column."""
        name = self.key
        return 1.0 if name is None else _keys_in_turn(self._snapshot, name)

    def holds_key(self, attribute: str) -> bool:
        """Whether all runs of an index carry the stream's key column."""
        return self._indexes.index(attribute).holds_objects


def statistics_of(snapshot: Snapshot) -> SnapshotStatistics:
    """Return what planning may know; the same object as long as tree and indexes are the same."""
    return _cached_statistics(open_indexes(snapshot))


_cached_statistics = lru_cache(SNAPSHOTS_CACHED)(SnapshotStatistics)


@lru_cache(SNAPSHOTS_CACHED)
def _keys_in_turn(snapshot: Snapshot, key: str) -> float:
    if snapshot.n_blocks == 0:
        return 1.0
    blocks = np.unique(np.linspace(0, snapshot.n_blocks - 1, KEY_BLOCKS, dtype=np.int64))
    try:
        column = snapshot.read_blocks(blocks, [key]).column(key)
    except StorageError:  # a plan may have no need of the file that cannot be read
        return 1.0
    counts = snapshot.leaves.count[blocks]
    pieces = zip((np.cumsum(counts) - counts).tolist(), counts.tolist(), strict=True)
    near = [to_objects(column.slice(first, n), key) for first, n in pieces]
    return count_keys(number_keys(near))


def clear_statistics() -> None:
    """Forget what is kept of snapshots for planning: with their statistics go their plans.

    What the keys of a few blocks tell (`SnapshotStatistics.n_keys`) stays, as trees and opened runs
    do: it holds of the snapshot whatever is asked, and any query on it has it read once.
    """
    _cached_statistics.cache_clear()
