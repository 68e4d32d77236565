"""A snapshot in memory, for tests of the indexes alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from chronicle.time import to_int64
from indexing.index import Index, IndexSet, RunTable
from indexing.key_range import KeyRange, KeyRanges
from indexing.writer import RunWriter


@dataclass(frozen=True)
class Piece:
    """One data file: its events and the events of each of its blocks."""

    name: str
    events: pa.Table
    block_counts: list[int]


class SnapshotDouble:
    """What indexes ask of ``chronicle.Snapshot``, over tables; counts the blocks read."""

    def __init__(
        self, stream_dir: Path, pieces: list[Piece], *, time: str = "t", key: str | None = None
    ) -> None:
        self.stream_dir = stream_dir
        self.version = 1
        self.settings = SimpleNamespace(time=time, key=key, derived=())
        self.schema = pieces[0].events.schema
        self.files = tuple(
            SimpleNamespace(name=p.name, n_events=p.events.num_rows, n_blocks=len(p.block_counts))
            for p in pieces
        )
        counts = np.array([c for p in pieces for c in p.block_counts], dtype=np.int64)
        self.leaves = SimpleNamespace(
            count=counts, base=np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        )
        self.events = pa.concat_tables([p.events for p in pieces])
        self.n_events = self.events.num_rows
        self.n_blocks_read = 0

    def file_blocks(self, name: str) -> tuple[int, int]:
        first = 0
        for file in self.files:
            if file.name == name:
                return first, file.n_blocks
            first += file.n_blocks
        raise KeyError(name)

    def read_blocks(self, blocks: np.ndarray, columns: list[str]) -> pa.Table:
        self.n_blocks_read += len(blocks)
        base = self.leaves.base
        rows = [np.arange(base[b], base[b + 1]) for b in blocks.tolist()]
        table = self.events.take(pa.array(np.concatenate(rows))).select(columns)
        for i, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                table = table.set_column(i, field.name, table[field.name].dictionary_encode())
        return table

    def block_bytes(self, blocks: np.ndarray, columns: list[str]) -> int:
        return 8 * len(blocks) * len(columns)


def only(key: int) -> KeyRanges:
    """Return the range of one key."""
    return KeyRanges.of([KeyRange(key, key)])


def flip_byte(path: Path, at: int) -> None:
    """Damage a byte of a file; below 0 it is counted from the end."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    """Leave the first bytes of a file."""
    path.write_bytes(path.read_bytes()[:40])


def write_runs(
    stream_dir: Path,
    pieces: list[Piece],
    attributes: tuple[str, ...],
    *,
    fence_entries: int = 4,
    key: str | None = None,
) -> dict[str, RunTable]:
    """Write a level-0 run for each piece and attribute and list them."""
    writer = RunWriter(attributes, "t", key=key, fence_entries=fence_entries)
    for piece in pieces:
        time = to_int64(piece.events["t"], name="t")
        writer.write(stream_dir, piece.name, piece.events, time, piece.block_counts)
    return dict.fromkeys(attributes, RunTable(0, tuple(piece.name for piece in pieces)))


def index_set(snapshot: SnapshotDouble, tables: dict[str, RunTable]) -> IndexSet:
    """Return the indexes over a double."""
    return IndexSet(snapshot, tables)  # type: ignore[arg-type]


def index_over(
    folder: Path,
    pieces: list[Piece],
    *,
    n_runs: int | None = None,
    fence_entries: int = 4,
    key: str | None = None,
) -> Index:
    """Return the index on ``x`` of pieces, of which the first ``n_runs``, or all, have a run."""
    tables = {"x": RunTable(0, ())}
    if pieces[:n_runs]:
        tables = write_runs(folder, pieces[:n_runs], ("x",), fence_entries=fence_entries, key=key)
    return index_set(SnapshotDouble(folder, pieces, key=key), tables).index("x")


def cut_into_pieces(events: pa.Table, file_events: list[int], block_events: int) -> list[Piece]:
    """Cut events into data files of the given sizes (the rest makes one more) and blocks."""
    pieces, start = [], 0
    for i, size in enumerate([*file_events, events.num_rows]):
        part = events.slice(start, size)
        start += part.num_rows
        if part.num_rows:
            full, rest = divmod(part.num_rows, block_events)
            counts = [block_events] * full + ([rest] if rest else [])
            pieces.append(Piece(f"{i:06d}.parquet", part, counts))
    return pieces
