"""Data files without a run: sorted in memory where they are small, scanned where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chronicle.snapshot import DataFile, Snapshot
from chronicle.time import to_int64
from indexing.attributes import (
    columns_to_index,
    is_told_by_neighbours,
    keys_of,
    with_derived,
)
from indexing.cache import BoundedCache
from indexing.config import FENCE_ENTRIES, MEMTABLE_CACHE_BYTES, MEMTABLE_EVENTS, SCAN_EVENTS
from indexing.cover import Segments
from indexing.entries import sort_entries
from indexing.key_range import Bounds
from indexing.keys import KeyKind, Keys
from indexing.lookup import Lookup
from indexing.objects import to_codes, to_objects
from indexing.placed_run import PlacedRun
from indexing.row_mask import RowMask
from indexing.run import Run
from indexing.run_format import CoveredFile, RunHead, TimeScale

# Names of data files are unique for ever, so an entry is never wrong, only dropped when memory
# runs short; a snapshot cannot hold it, since the next snapshot needs it too.
_memtables: BoundedCache[tuple[str, str, str, KeyKind | None], Run] = BoundedCache(
    MEMTABLE_CACHE_BYTES, lambda run: run.size_bytes
)


def clear_memtables() -> None:
    """Forget all memtables."""
    _memtables.clear()


@dataclass(frozen=True, slots=True)
class TailFile:
    """One data file that no run covers, as an index of one attribute sees it."""

    snapshot: Snapshot
    file: DataFile
    attribute: str
    kind: KeyKind
    object_kind: KeyKind | None = None

    @property
    def spans(self) -> np.ndarray:
        """Sequence numbers of its events: int64, shape (1, 2), half-open."""
        first = self._first_seq()
        return np.array([[first, first + self.file.n_events]], dtype=np.int64)

    def read(
        self, bounds: Bounds, rows: RowMask | None, *, with_times: bool, with_objects: bool
    ) -> Lookup:
        """Return the file's events with keys in ``bounds`` that a mask of rows leaves."""
        if self._is_small():
            asked = {"with_times": with_times, "with_objects": with_objects}
            return self._memtable().read(bounds, rows, **asked)
        parts = []
        for part in self.scan(with_objects=with_objects):
            kept = part.keys.rows[bounds.contains(part.keys.values)]
            times = part.t[kept] if with_times else None
            objects = None if part.objects is None else to_codes(part.objects.take(pa.array(kept)))
            cuts = np.array([0, len(kept)])
            seq = part.first_seq + kept
            parts.append(Lookup(seq, times, len(part.t), part.size_bytes, objects, cuts))
        found = Lookup.concat(parts)
        return found if rows is None else found.where(rows)

    def count(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most events of the file with keys in ``bounds``."""
        if not self._is_small():
            return 0, self.file.n_events
        # Entries in memory are as cheap to count as to bound.
        n = len(self.read(bounds, None, with_times=False, with_objects=False).seq)
        return n, n

    def _is_small(self) -> bool:
        return self.file.n_events <= MEMTABLE_EVENTS

    def _memtable(self) -> PlacedRun:
        key = (str(self.snapshot.stream_dir), self.file.name, self.attribute, self.object_kind)
        run = _memtables.get(key, self._build)
        return PlacedRun(run, Segments.of(run.cover, {self.file.name: self._first_seq()}))

    def _first_seq(self) -> int:
        block, _ = self.snapshot.file_blocks(self.file.name)
        return int(self.snapshot.leaves.base[block])

    def _build(self) -> Run:
        [part] = self.scan(with_objects=self.object_kind is not None)
        entries = sort_entries(part.keys, part.t, fence_entries=FENCE_ENTRIES, objects=part.objects)
        cover = CoveredFile(self.file.name, self.file.n_events, len(entries.t))
        scale = TimeScale.of(part.t)
        head = RunHead(self.attribute, self.kind, self.object_kind, scale, (cover,))
        return Run.in_memory(head, entries)

    def scan(self, *, with_objects: bool) -> Iterator[_Scanned]:
        """Yield some blocks at a time; all at once where values depend on those before."""
        first, n_blocks = self.snapshot.file_blocks(self.file.name)
        base = self.snapshot.leaves.base
        settings = self.snapshot.settings
        time, key = settings.time, settings.key if with_objects else None
        schema = self.snapshot.schema
        as_one = is_told_by_neighbours(schema, self.attribute)
        names = (*columns_to_index(schema, [self.attribute], settings.key), time, key)
        columns = list(dict.fromkeys(name for name in names if name is not None))
        start = first
        while start < first + n_blocks:
            beyond = int(np.searchsorted(base, base[start] + SCAN_EVENTS, side="right")) - 1
            end = first + n_blocks if as_one else min(first + n_blocks, max(start + 1, beyond))
            blocks = np.arange(start, end, dtype=np.int64)
            read = self.snapshot.read_blocks(blocks, columns)
            table = with_derived(read, [self.attribute], settings.key)
            yield _Scanned(
                int(base[start]),
                to_int64(table[time], name=time).to_numpy(zero_copy_only=False),
                keys_of(table, self.attribute),
                None if key is None else to_objects(table[key], key),
                self.snapshot.block_bytes(blocks, columns),
            )
            start = end


@dataclass(frozen=True, slots=True)
class _Scanned:
    """Some blocks of a data file: times and objects of all events, usable keys, bytes read."""

    first_seq: int
    t: np.ndarray
    keys: Keys
    objects: pa.Array | None
    size_bytes: int
