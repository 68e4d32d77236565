"""Where the streams of one query come from: versions of a store's streams, or tables in memory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from chronicle import Snapshot, Store
from chronicle.errors import CorruptBlockError, StreamNotFoundError
from chronicle.history import parse_version
from chronicle.lost import check_not_vacuumed, lost_file
from replay.errors import PlanError

Described = tuple[pa.Schema, str | None]
"""Columns of a stream and its time column; None where nothing names one."""


class Catalog(Protocol):
    """The streams a query may read."""

    def describe(self, name: str) -> Described:
        """Return columns and time column of a stream."""
        ...

    def snapshot(self, name: str) -> Snapshot | None:
        """Return the version of a stream to read; None for a table in memory."""
        ...

    def table(self, name: str) -> pa.Table:
        """Return a table in memory."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out."""
        ...


@dataclass(slots=True)
class StoreCatalog:
    """Streams of a store, each at one version for the whole query.

    Parameters
    ----------
    store
        The store.
    versions
        Number of the version of each stream the query reads.
    lost
        By stream, the data files to leave out and the sentence on each.
    """

    store: Store
    versions: Mapping[str, int]
    lost: dict[str, dict[str, str]] = field(default_factory=dict)
    _opened: dict[tuple[str, frozenset[str]], Snapshot] = field(default_factory=dict, init=False)

    def describe(self, name: str) -> Described:
        """Return columns and time column of a stream.

        Raises
        ------
        StreamNotFoundError
            If the store has none of that name.
        """
        snapshot = self.snapshot(name)
        return snapshot.schema, snapshot.settings.time

    def snapshot(self, name: str) -> Snapshot:
        """Return the version of a stream to read, without the files that are lost."""
        without = frozenset(self.lost.get(name, ()))
        opened = self._opened.get((name, without))
        if opened is None:
            opened = self.store.stream(name).snapshot(self.versions.get(name), without=without)
            self._opened[name, without] = opened
        return opened

    def table(self, name: str) -> pa.Table:
        """Raise: a store has no tables in memory."""
        raise StreamNotFoundError(name, candidates=self.store.stream_names())

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence on each file left out."""
        return tuple(text for files in self.lost.values() for text in files.values())

    def leave_out(self, error: CorruptBlockError, *, may_skip: bool) -> None:
        """Leave out the file an error is about from here on, or raise the error.

        Raises
        ------
        VacuumedVersionError
            If the file was vacuumed while it was read.
        CorruptBlockError
            If nothing may be left out, or the file is already.
        """
        path = Path(error.path)
        streams = (name for name in self.versions if self.store.path / name in path.parents)
        name = next(streams, None)
        if name is None:
            raise error
        stream, version = self.store.stream(name), self.versions[name]
        check_not_vacuumed(stream, version, error)
        files = self.lost.setdefault(name, {})
        if not may_skip or path.name in files:
            raise error
        files[path.name] = str(lost_file(stream, version, error))


def catalog_of_store(
    store: Store, streams: Sequence[str], as_of: int | dt.datetime | str | None
) -> StoreCatalog:
    """Return the streams of a query, each at the newest version or at that of a time.

    Raises
    ------
    StreamNotFoundError
        If there is none of a name.
    PlanError
        If a number names the version of more than one stream.
    """
    version = parse_version(as_of) if isinstance(as_of, str) else as_of
    if isinstance(version, int) and len(streams) > 1:
        raise PlanError(
            f"as_of={version} names the version of one stream, and the query reads "
            f"{', '.join(streams)}; give a time instead"
        )
    return StoreCatalog(store, {name: store.stream(name).version_of(version) for name in streams})


@dataclass(frozen=True, slots=True)
class TableCatalog:
    """Tables in memory, by name."""

    tables: Mapping[str, pa.Table]
    warnings: tuple[str, ...] = ()

    def describe(self, name: str) -> Described:
        """Return columns of a table; nothing names its time column.

        Raises
        ------
        StreamNotFoundError
            If there is none of that name.
        """
        return self.table(name).schema, None

    def snapshot(self, name: str) -> None:  # noqa: ARG002 - a table has no versions
        """Return None: a table has no versions."""
        return

    def table(self, name: str) -> pa.Table:
        """Return a table.

        Raises
        ------
        StreamNotFoundError
            If there is none of that name.
        """
        if name not in self.tables:
            raise StreamNotFoundError(name, candidates=self.tables)
        return self.tables[name]
