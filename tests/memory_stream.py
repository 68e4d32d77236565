"""A store in memory: the engine's own snapshot, tree and indexes over tables, without files.

Writing a small stream to disk takes three times as long as answering a query on it with every
plan. Here only what would be bytes is replaced: data, tree and run files, logs and their commits.
"""

from __future__ import annotations

import itertools
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chronicle import Snapshot, Store, StreamSettings, create_store
from chronicle.errors import StreamNotFoundError
from chronicle.log.delta_log import LiveFile
from chronicle.store import Stream
from chronicle.time import to_int64
from chronicle.tree.blocks import BlockReader
from chronicle.tree.derived_attributes import parse_declared, summarise_declared
from chronicle.tree.file_tree import FileTree
from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.tree_file import build_levels
from chronicle.write.block_writer import block_counts
from indexing import RunWriter
from indexing.attributes import indexed_field, keys_of, with_derived
from indexing.entries import sort_entries
from indexing.index import Index, IndexSet, RunTable
from indexing.keys import key_kind
from indexing.lifecycle import create_index
from indexing.objects import object_kind, to_objects
from indexing.run import Run
from indexing.run_format import CoveredFile, RunHead, TimeScale
from replay.engines import statistics
from replay.engines.source import encode_strings
from tests.strategies import SmallStream

GROUP_ENTRIES = 4
"""Entries of a group of a run: so few that lookups choose among groups of small streams, too."""

ON_DISK = 10
"""Of so many examples about one is put to a store on the disk."""

_numbers = itertools.count()


@dataclass(eq=False)
class MemoryFile:
    """A data file as a table, with what a commit would have beside it."""

    events: pa.Table
    settings: StreamSettings
    writer: RunWriter | None
    name: str = ""
    levels: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.name = f"{0:06d}-{0:06d}-{number:06d}-{number:032x}.parquet"
        self.times = to_int64(self.events.column(self.settings.time), name="t").to_numpy()
        self.counts = block_counts(len(self.times), self.settings.block_events)

    def attribute(self, name: str, _kind: object) -> Any:
        """Return the levels of an attribute, as `TreeFile` does."""
        if name not in self.levels:
            leaves = {}
            if name in self.events.column_names:
                leaves = {name: summarise(self.events.column(name), self.counts)}
            else:
                for declared in map(parse_declared, self.settings.derived):
                    of_events = self.events, declared, self.settings.key, self.counts
                    leaves |= summarise_declared(*of_events)
            fan_out = self.settings.fan_out
            self.levels |= {each: build_levels(leaves[each], fan_out) for each in leaves}
        return self.levels.get(name)

    def attributes(self) -> list[str]:
        """Return the names of all attributes that have entries."""
        for declared in self.settings.derived:
            self.attribute(declared, None)
        return [*self.events.column_names, *self.levels]

    def run(self, attribute: str) -> Run | None:
        """Return the run of an attribute; None if the file was written without one."""
        writer = self.writer
        if writer is None or attribute not in writer._attributes:
            return None
        if attribute not in self.runs:
            events = with_derived(self.events, [attribute], writer._key)
            of_key = objects = None
            if writer._key is not None:
                objects = to_objects(events.column(writer._key), writer._key)
                of_key = object_kind(events.schema.field(writer._key).type, writer._key)
            entries = sort_entries(
                keys_of(events, attribute), self.times, fence_entries=GROUP_ENTRIES, objects=objects
            )
            kind = key_kind(indexed_field(events.schema, attribute).type, attribute)
            cover = CoveredFile(self.name, len(self.times), len(entries.t))
            head = RunHead(attribute, kind, of_key, TimeScale.of(self.times), (cover,))
            self.runs[attribute] = replace(Run.in_memory(head, entries), path=Path(self.name))
        return self.runs[attribute]


class MemoryReader(BlockReader):
    """Reads tables as data files are read."""

    def __init__(self, path: Path, schema: pa.Schema, files: list[MemoryFile]) -> None:
        super().__init__(path, schema)
        self.files = {file.name: file for file in files}

    def read(self, name: str, row_groups: Any, columns: Any) -> pa.Table:
        file, groups = self.files[name], list(row_groups)
        ends = np.cumsum(file.counts)
        chosen = file.events.select(list(columns))
        slices = [chosen.slice(ends[g] - file.counts[g], file.counts[g]) for g in groups]
        table = pa.concat_tables(slices) if slices else chosen.slice(0, 0)
        return encode_strings(table.combine_chunks())

    def block_counts(self, name: str) -> list[int]:
        return self.files[name].counts

    def column_bytes(self, name: str, column: str) -> Any:
        return 8 * np.array(self.files[name].counts)

    def has_column(self, name: str, column: str) -> bool:
        return column in self.files[name].events.column_names


class MemoryTree(FileTree):
    """Tree entries of a table."""

    def _open(self, *_where: object) -> Any:
        assert isinstance(self._reader, MemoryReader)
        file = self._reader.files[self.name]
        return file, build_levels(summarise_times(file.times, file.counts), self._fan_out)


class MemoryIndex(Index):
    """An index over runs in memory; files without one are its tail."""

    def _open_runs(self) -> list[Run]:
        assert isinstance(self._snapshot, MemorySnapshot)
        runs = (f.run(self.attribute) for f in self._snapshot.tables if f.name in self._names)
        return [run for run in runs if run is not None]


class MemorySnapshot(Snapshot):
    """A version of a stream in memory, and its indexes."""

    def __init__(self, stream: MemoryStream) -> None:
        self.tables = list(stream.files)
        reader = MemoryReader(stream.path / "events", stream.schema, self.tables)
        live = [LiveFile(file.name, 8, len(file.times), 0) for file in self.tables]
        super().__init__(
            name=stream.name,
            stream_dir=stream.path,
            version=len(live),
            schema=stream.schema,
            settings=stream.settings,
            trees=[MemoryTree(f, None, reader=reader, settings=stream.settings) for f in live],
            reader=reader,
        )
        names = tuple(file.name for file in self.tables)
        self.indexes = IndexSet(self, {})
        self.indexes._indexes = {
            name: MemoryIndex(self, name, RunTable(0, names)) for name in sorted(stream.indexed)
        }


class MemoryStream:
    """What a query asks of a stream, and what fills it."""

    def __init__(self, name: str, path: Path, schema: pa.Schema, settings: StreamSettings) -> None:
        self.name, self.path, self.schema, self.settings = name, path, schema, settings
        self.files: list[MemoryFile] = []
        self.indexed: set[str] = set()
        self._snapshot: MemorySnapshot | None = None

    def append(self, events: pa.Table, *, derived: RunWriter | None = None) -> None:
        """Put events where they belong; files that overlap them in time are written anew."""
        if not events.num_rows:
            return
        order = np.argsort(to_int64(events.column(self.settings.time), name="t"), kind="stable")
        events = events.take(pa.array(order))
        first = to_int64(events.column(self.settings.time), name="t")[0].as_py()
        kept = [file for file in self.files if file.times[-1] <= first]
        late = [file.events for file in self.files if file not in kept]
        self.files = kept
        if late:
            events = pa.concat_tables([*late, events])
            times = to_int64(events.column(self.settings.time), name="t")
            events = events.take(pa.array(np.argsort(times, kind="stable")))
        self.put(events, derived)

    def put(self, events: pa.Table, derived: RunWriter | None) -> None:
        """Add files of events that come in order after all others."""
        size = self.settings.file_events
        self.files += [
            MemoryFile(events.slice(i, size).combine_chunks(), self.settings, derived)
            for i in range(0, events.num_rows, size)
        ]
        self._snapshot = None

    def snapshot(self, *_version: object, without: frozenset[str] = frozenset()) -> MemorySnapshot:
        """Return the newest version; there is no other."""
        assert not without
        if self._snapshot is None:
            self._snapshot = MemorySnapshot(self)
        return self._snapshot

    def refresh(self) -> int:
        """Return the newest version."""
        return len(self.files)

    def version_of(self, _version: object) -> int:
        """Return the newest version."""
        return len(self.files)

    def watched(self) -> AbstractContextManager[None]:
        """Watch nothing: who holds the stream keeps it."""
        return nullcontext()


class MemoryStore(Store):
    """Streams in memory by name."""

    def __init__(self) -> None:
        super().__init__(Path(f"/in-memory/{next(_numbers)}"))

    def stream_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._streams))

    def create_stream(self, name: str, schema: pa.Schema, settings: StreamSettings) -> Any:
        self._streams[name] = MemoryStream(name, self.path / name, schema, settings)  # type: ignore[assignment]
        return self._streams[name]

    def stream(self, name: str) -> Stream:
        if name not in self._streams:
            raise StreamNotFoundError(name, candidates=self._streams)
        return self._streams[name]


def index(stream: Any, attributes: Any) -> None:
    """Make indexes of a stream, wherever it lies."""
    if isinstance(stream, MemoryStream):
        stream.indexed |= set(attributes)
        writer = RunWriter(tuple(attributes), stream.settings.time, key=stream.settings.key)
        for file in stream.files:
            file.writer = writer
        stream._snapshot = None
    else:
        create_index(stream, list(attributes), least_events=0)


class _Damaged:
    """Columns of a run whose checksums are wrong."""

    def read(self, *_wanted: object, **_knobs: object) -> Any:
        raise ValueError("its checksum is wrong")

    read_strings = read


def damage_run(stream: Any, number: int) -> None:
    """Damage one run of a stream, of as many as it has; its fences stay whole in memory."""
    if isinstance(stream, MemoryStream):
        files = [(f, name) for f in stream.files for name in sorted(stream.indexed) if f.run(name)]
        if files:
            file, name = files[number % len(files)]
            file.runs[name] = replace(file.runs[name], columns=_Damaged())
        return
    paths = sorted((stream.path / "index").rglob("*.parquet"))
    if paths:
        content = bytearray(paths[number % len(paths)].read_bytes())
        first, last = len(content) // 3, len(content) // 2
        content[first:last] = bytes(last - first)
        paths[number % len(paths)].write_bytes(content)


@contextmanager
def memory_store() -> Iterator[MemoryStore]:
    """Lend an empty store in memory, which queries can be asked of while the block runs."""
    open_indexes = statistics.open_indexes

    def opened(snapshot: Snapshot) -> IndexSet:
        return snapshot.indexes if isinstance(snapshot, MemorySnapshot) else open_indexes(snapshot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "open_indexes", opened)
        yield MemoryStore()


@contextmanager
def some_store(*example: object) -> Iterator[Store]:
    """Lend an empty store: of about one example of ten on the disk, of the others in memory."""
    if zlib.crc32(repr(example).encode()) % ON_DISK == 0:
        with tempfile.TemporaryDirectory() as folder:
            yield create_store(Path(folder) / "store")
    else:
        with memory_store() as store:
            yield store


def fill_memory(
    store: MemoryStore, name: str, small: SmallStream, index: Any, key: str | None = None
) -> MemoryStream:
    """Create a stream with as many commits as it has cuts, plus one."""
    settings = StreamSettings(
        "t", small.block_events, small.file_events, fan_out=small.fan_out, key=key
    )
    stream: MemoryStream = store.create_stream(name, small.schema, settings)
    stream.indexed = set(index)
    writer = RunWriter(tuple(index), "t", key=key)
    for start, stop in itertools.pairwise((0, *small.cuts, len(small.rows))):
        stream.put(small.table.slice(start, stop - start), writer)
    return stream
