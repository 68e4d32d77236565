"""Blocks of streams that several queries read: each column of each block is decoded once."""

from __future__ import annotations

from threading import Condition, Lock
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.source import EventSource

IntArray = npt.NDArray[np.int64]

SHARED_BYTES_MAX: Final = 1 << 28
"""Bytes of columns that are kept for other queries."""


_NOWHERE, _COMING = -1, -2
"""Of a block that is not kept, in place of the number of a read; and of one that a thread reads."""


class Room:
    """So many bytes, taken until there are none left. Thread-safe."""

    def __init__(self, n_bytes: int = SHARED_BYTES_MAX) -> None:
        self._n_left = n_bytes
        self._lock = Lock()

    def close(self) -> None:
        """Give no bytes any more, since nobody would come for what is kept."""
        with self._lock:
            self._n_left = -1

    def take(self, n_bytes: int) -> bool:
        """Take bytes; return whether there were as many."""
        with self._lock:
            if n_bytes > self._n_left:
                return False
            self._n_left -= n_bytes
            return True


class SharedBlocks:
    """A source that keeps what it read for others who read the same. Thread-safe.

    Once there is no ``room`` nothing more is kept: what comes first is, as whoever reads a stream
    from its begin on would find nothing of what came last. The rest is then read by each.
    A thread that wants what another one is reading waits for it.
    """

    def __init__(self, source: EventSource, room: Room) -> None:
        self._source, self._room = source, room
        self._reads: list[pa.ChunkedArray] = []
        self._places: dict[str, IntArray] = {}
        """By column, the read that each block is kept of, and its first row there."""
        self._changed = Condition()
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    def forget(self) -> None:
        """Let go of all that is kept."""
        with self._changed:
            self._reads, self._places = [], {}

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend, from what is kept where it has them."""
        if not columns or not len(blocks):
            return self._source.read_blocks(blocks, columns)
        with self._changed:
            all_places = [self._places_of(name) for name in columns]
            self._changed.wait_for(lambda: not _any_coming(all_places, blocks))
            reads, kept = self._reads, [places[:, blocks] for places in all_places]
            missing = [blocks[numbers == _NOWHERE] for numbers, _ in kept]
            for places, lacking in zip(all_places, missing, strict=True):
                places[0, lacking] = _COMING
        try:
            fresh: dict[str, pa.ChunkedArray] = {}
            for names, lacking in _alike(columns, missing):
                table = self._source.read_blocks(lacking, names)
                fresh |= zip(names, table.columns, strict=True)
            for name, places, lacking in zip(columns, all_places, missing, strict=True):
                if name in fresh and self._room.take(fresh[name].nbytes):
                    self._keep(fresh[name], places, lacking)
        finally:
            with self._changed:
                for places, lacking in zip(all_places, missing, strict=True):
                    places[0, lacking[places[0, lacking] == _COMING]] = _NOWHERE
                self._changed.notify_all()
        counts = self._counts(blocks)
        joined = [
            _joined(fresh.get(name), reads, places, counts)
            for name, places in zip(columns, kept, strict=True)
        ]
        return pa.table(joined, names=columns)

    def _places_of(self, name: str) -> IntArray:
        if name not in self._places:
            self._places[name] = np.full((2, self.n_blocks), _NOWHERE)
        return self._places[name]

    def _counts(self, blocks: IntArray) -> IntArray:
        counts: IntArray = self.bases[blocks + 1] - self.bases[blocks]
        return counts

    def _keep(self, column: pa.ChunkedArray, places: IntArray, blocks: IntArray) -> None:
        """Keep a column of blocks as it was read."""
        counts = self._counts(blocks)
        with self._changed:
            places[0, blocks] = len(self._reads)
            places[1, blocks] = counts.cumsum() - counts
            self._reads.append(column)


def _any_coming(all_places: list[IntArray], blocks: IntArray) -> bool:
    return any((places[0, blocks] == _COMING).any() for places in all_places)


def _alike(columns: list[str], missing: list[IntArray]) -> list[tuple[list[str], IntArray]]:
    """Return which columns lack the same blocks, and these."""
    found: dict[bytes, tuple[list[str], IntArray]] = {}
    for name, lacking in zip(columns, missing, strict=True):
        if len(lacking):
            found.setdefault(lacking.tobytes(), ([], lacking))[0].append(name)
    return list(found.values())


def _joined(
    fresh: pa.ChunkedArray | None, reads: list[pa.ChunkedArray], places: IntArray, counts: IntArray
) -> pa.ChunkedArray:
    """Return the rows of blocks, at least one, of so many rows each, from where they are.

    Blocks that are kept of no read are those of ``fresh``, one after the other.
    """
    numbers, rows = places
    is_fresh = numbers == _NOWHERE
    if fresh is not None and is_fresh.all():
        return fresh
    rows[is_fresh] = counts[is_fresh].cumsum() - counts[is_fresh]
    goes_on = (numbers[1:] == numbers[:-1]) & (rows[1:] == (rows + counts)[:-1])
    firsts = np.flatnonzero(np.append(True, ~goes_on))
    n_rows = np.add.reduceat(counts, firsts)

    def column_of(number: int) -> pa.ChunkedArray:
        return fresh if number == _NOWHERE else reads[number]

    parts = zip(numbers[firsts].tolist(), rows[firsts].tolist(), n_rows.tolist(), strict=True)
    slices = [column_of(number).slice(row, n) for number, row, n in parts]
    if len(slices) == 1:
        return slices[0]
    return pa.chunked_array([chunk for part in slices for chunk in part.chunks], slices[0].type)
