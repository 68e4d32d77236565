"""Where the streams of one query come from: versions of a store's streams, or tables in memory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronicle import Snapshot, Store, Stream
from chronicle.errors import CorruptBlockError, StreamNotFoundError
from chronicle.log.history import parse_version
from chronicle.maintenance.missing_files import check_not_vacuumed, missing_file
from replay.engines.shared_blocks import Room, SharedBlocks
from replay.engines.source import EventSource, TableSource
from replay.errors import PlanError, QueryError

if TYPE_CHECKING:
    from replay.patterns.together import Together

Described = tuple[pa.Schema, str | None]
"""Columns of a stream and its time column; None where nothing names one."""


@dataclass(slots=True)
class StoreCatalog:
    """Streams of a store, each at one version for the whole query."""

    store: Store
    streams: Mapping[str, Stream]
    """Those the query reads, by name, as they were opened: what is made anew under a name while the
    query runs is another stream."""
    versions: Mapping[str, int]
    """Number of the version of each of them."""
    lost: dict[str, dict[str, str]] = field(default_factory=dict)
    """By stream, the data files to leave out and the sentence on each."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """Tables in memory beside the streams, by name."""
    shared: Shared | None = None
    """What is shared with other queries; None: nothing is."""
    _opened: dict[tuple[str, frozenset[str]], Snapshot] = field(default_factory=dict, init=False)

    def describe(self, name: str) -> Described:
        """Return columns and time column of a stream; nothing names that of a table."""
        snapshot = self.snapshot(name)
        if snapshot is None:
            return self.tables[name].schema, None
        return snapshot.schema, snapshot.settings.time

    def snapshot(self, name: str) -> Snapshot | None:
        """Return the version of a stream to read, without the files that are lost.

        None for a table in memory, which has no versions.
        """
        if name in self.tables:
            return None
        without = frozenset(self.lost.get(name, ()))
        opened = self._opened.get((name, without))
        if opened is None:
            if name not in self.streams:
                raise StreamNotFoundError(name, candidates=self.store.stream_names())
            opened = self.streams[name].snapshot(self.versions[name], without=without)
            self._opened[name, without] = opened
        return opened

    def source(self, snapshot: Snapshot) -> EventSource:
        """Return where the events of a version are read."""
        return snapshot if self.shared is None else self.shared.source(snapshot)

    def table(self, name: str) -> pa.Table:
        """Return a table in memory."""
        if name not in self.tables:
            raise StreamNotFoundError(name, candidates=self.store.stream_names())
        return self.tables[name]

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence on each file left out."""
        return tuple(text for files in self.lost.values() for text in files.values())

    def watched(self) -> AbstractContextManager[object]:
        """Have what fails in the block say that a stream is gone, see ``Stream.watched``."""
        stack = ExitStack()
        for stream in self.streams.values():
            stack.enter_context(stream.watched())
        return stack

    def leave_out(self, error: CorruptBlockError, *, may_skip: bool) -> None:
        """Leave out the file an error is about from here on, or raise the error.

        Raises a StreamNotFoundError or StreamReplacedError if the stream was dropped or renamed
        while it was read, a VacuumedVersionError if the file was vacuumed, and the error itself if
        nothing may be left out or the file is already.
        """
        path = Path(error.path)
        streams = (name for name in self.versions if self.store.path / name in path.parents)
        name = next(streams, None)
        if name is None:
            raise error
        stream, version = self.streams[name], self.versions[name]
        stream.refresh()
        check_not_vacuumed(stream, version, error)
        files = self.lost.setdefault(name, {})
        if not may_skip or path.name in files:
            raise error
        files[path.name] = str(missing_file(stream, version, error))


def catalog_of_store(
    store: Store,
    names: Sequence[str],
    as_of: int | dt.datetime | str | None,
    tables: Mapping[str, pa.Table] | None = None,
) -> StoreCatalog:
    """Return the streams of a query, each at the newest version or at that of a time.

    ``tables`` are in memory beside them. Raises a PlanError for a number that names the version of
    more than one stream.
    """
    beside = dict(tables or {})
    for name in beside:
        if name in names and name in store.stream_names():
            raise QueryError(
                f"the store has a stream '{name}', and so has tables=; call the table otherwise"
            )
    streams = [name for name in names if name not in beside]
    version = parse_version(as_of) if isinstance(as_of, str) else as_of
    if isinstance(version, int) and len(streams) > 1:
        raise PlanError(
            f"as_of={version} names the version of one stream, and the query reads "
            f"{', '.join(streams)}; give a time instead"
        )
    opened = {name: store.stream(name) for name in streams}
    versions = {name: stream.version_of(version) for name, stream in opened.items()}
    return StoreCatalog(store, opened, versions, tables=beside)


@dataclass(frozen=True, slots=True)
class TableCatalog:
    """Tables in memory, by name."""

    tables: Mapping[str, pa.Table]
    shared: Shared | None = None
    """What is shared with other queries; None: nothing is."""
    warnings: tuple[str, ...] = ()

    def watched(self) -> AbstractContextManager[object]:
        """Watch nothing: a table in memory does not go."""
        return nullcontext()

    def describe(self, name: str) -> Described:
        """Return columns of a table; nothing names its time column."""
        return self.table(name).schema, None

    def snapshot(self, name: str) -> None:  # noqa: ARG002 - a table has no versions
        """Return None: a table has no versions."""
        return

    def source(self, snapshot: Snapshot) -> EventSource:
        """Return where the events of a version are read."""
        return snapshot

    def table(self, name: str) -> pa.Table:
        """Return a table."""
        if name not in self.tables:
            raise StreamNotFoundError(name, candidates=self.tables)
        return self.tables[name]


@dataclass(frozen=True, slots=True)
class WithoutEvents(TableCatalog):
    """Streams without their events: what is answered over them has the right columns."""

    times: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, catalog: Catalog, names: Iterable[str]) -> WithoutEvents:
        """Return streams of a catalog."""
        known = {name: catalog.describe(name) for name in names}
        tables = {name: schema.empty_table() for name, (schema, _) in known.items()}
        return cls(tables, times={name: time for name, (_, time) in known.items()})

    def describe(self, name: str) -> Described:
        """Return columns and time column of a stream."""
        return self.table(name).schema, self.times.get(name)


Catalog = StoreCatalog | TableCatalog
"""The streams a query may read."""


def _new_together() -> Together:
    from replay.patterns.together import Together  # one query by itself needs it not

    return Together()


@dataclass(frozen=True, slots=True)
class Shared:
    """What several queries share: versions of streams, blocks that were read of them, and sums."""

    _streams: dict[str, Stream] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _room: Room = field(default_factory=Room)
    _blocks: dict[Snapshot, SharedBlocks] = field(default_factory=dict)
    _tables: dict[Hashable, TableSource] = field(default_factory=dict)
    together: Together = field(default_factory=_new_together)

    def among(self, catalog: Catalog) -> Catalog:
        """Return the streams of a query at the versions that were opened first."""
        if not isinstance(catalog, StoreCatalog):
            return replace(catalog, shared=self)
        for name, stream in catalog.streams.items():
            if name not in self._streams:
                self._streams[name], self._versions[name] = stream, catalog.versions[name]
        return replace(
            catalog,
            streams={name: self._streams[name] for name in catalog.streams},
            versions={name: self._versions[name] for name in catalog.versions},
            shared=self,
        )

    def source(self, snapshot: Snapshot) -> EventSource:
        """Return where the events of a version are read, the same for all queries."""
        if snapshot not in self._blocks:
            self._blocks[snapshot] = SharedBlocks(snapshot, self._room)
        return self._blocks[snapshot]

    def table_source(self, table: pa.Table, columns: list[str], **of: Any) -> TableSource:
        """Return columns of a table in memory in its order, the same for all queries.

        ``of`` is as of `TableSource`; a name is that of one table.
        """
        key = (*columns, *of.items())
        if key not in self._tables:
            self._tables[key] = TableSource(table, columns, **of)
        return self._tables[key]

    def keep_no_more(self) -> None:
        """Keep nothing of what is read from now on: nobody would come for it."""
        self._room.close()

    def forget(self) -> None:
        """Let go of the blocks that are kept; an answer may hold on to where it was read."""
        self._room.close()
        self._tables.clear()
        for blocks in self._blocks.values():
            blocks.forget()
