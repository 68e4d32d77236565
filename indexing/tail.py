"""Data files without a run: sorted in memory where they are small, scanned where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chronicle.snapshot import DataFile, Snapshot
from chronicle.time import to_int64
from indexing.bounds import Bounds
from indexing.cache import BoundedCache
from indexing.config import FENCE_ENTRIES, MEMTABLE_CACHE_BYTES, MEMTABLE_EVENTS, SCAN_EVENTS
from indexing.cover import Segments
from indexing.entries import sort_entries
from indexing.keys import KeyKind, Keys, to_keys
from indexing.lookup import Lookup, PlacedRun, in_order
from indexing.run import MemoryRun
from indexing.run_format import CoveredFile

# Names of data files are unique for ever, so an entry is never wrong, only dropped when memory
# runs short; a snapshot cannot hold it, since the next snapshot needs it too.
_memtables: BoundedCache[tuple[str, str, str], MemoryRun] = BoundedCache(
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

    def find(self, bounds: Bounds) -> Lookup:
        """Return the file's events with keys in ``bounds``."""
        if self._is_small():
            return self._memtable().find(bounds)
        parts, n_read, n_bytes = [], 0, 0
        for seq, t, keys, size_bytes in self._scan():
            admitted = keys.rows[bounds.contains(keys.values)]
            parts.append((seq[admitted], t[admitted]))
            n_read += len(seq)
            n_bytes += size_bytes
        seq, t = in_order(parts)
        return Lookup(seq, t, n_read, n_bytes)

    def count(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most events of the file with keys in ``bounds``."""
        if not self._is_small():
            return 0, self.file.n_events
        # Entries in memory are as cheap to count as to bound.
        n = len(self._memtable().find(bounds).seq)
        return n, n

    def _is_small(self) -> bool:
        return self.file.n_events <= MEMTABLE_EVENTS

    def _memtable(self) -> PlacedRun:
        key = (str(self.snapshot.stream_dir), self.file.name, self.attribute)
        block, _ = self.snapshot.file_blocks(self.file.name)
        first_seq = int(self.snapshot.leaves.base[block])
        run = _memtables.get(key, self._build)
        return PlacedRun(run, Segments.of(run.cover, {self.file.name: first_seq}))

    def _build(self) -> MemoryRun:
        [(_, t, keys, _)] = self._scan()
        entries = sort_entries(keys, t, fence_entries=FENCE_ENTRIES)
        cover = CoveredFile(self.file.name, self.file.n_events, len(entries.t))
        return MemoryRun(self.kind, (cover,), entries)

    def _scan(self) -> Iterator[tuple[np.ndarray, np.ndarray, Keys, int]]:
        """Yield ``seq``, ``t`` and keys of some blocks at a time, and the bytes they cost."""
        first, n_blocks = self.snapshot.file_blocks(self.file.name)
        base = self.snapshot.leaves.base
        columns = list(dict.fromkeys((self.attribute, self.snapshot.settings.time)))
        start = first
        while start < first + n_blocks:
            beyond = int(np.searchsorted(base, base[start] + SCAN_EVENTS, side="right")) - 1
            end = min(first + n_blocks, max(start + 1, beyond))
            blocks = np.arange(start, end, dtype=np.int64)
            table = self.snapshot.read_blocks(blocks, columns)
            t = to_int64(table[columns[-1]], name=columns[-1]).to_numpy(zero_copy_only=False)
            yield (
                np.arange(base[start], base[end], dtype=np.int64),
                t,
                to_keys(table[self.attribute], self.attribute),
                self.snapshot.block_bytes(blocks, columns),
            )
            start = end
