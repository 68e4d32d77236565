"""Stores and their streams: create, open, list, and take snapshots."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle import config, delta_log
from chronicle.block_writer import EVENTS_TABLE
from chronicle.blocks import BlockReader
from chronicle.delta_log import TableState
from chronicle.errors import (
    FormatVersionError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
)
from chronicle.file_tree import FileTree, file_ordinal
from chronicle.schema import check_settings, normalise_schema
from chronicle.settings import StreamSettings
from chronicle.snapshot import Snapshot
from chronicle.time import TimeType, time_type
from chronicle.tree_file import TREE_TABLE, tree_schema

_STREAM_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")

_OLD_SNAPSHOTS_MAX = 4
"""Snapshots of named versions kept beside the latest one."""


def create_store(path: str | Path) -> Store:
    """Make a new, empty store; the folder may exist if it is empty.

    Raises
    ------
    StoreExistsError
        If a store or anything else lies there.
    """
    folder = Path(path)
    if (folder / config.MARKER_FILE).exists():
        raise StoreExistsError(f"a store exists at '{folder}'; open it or choose another folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreExistsError(f"'{folder}' is not an empty folder; choose another for the store")
    folder.mkdir(parents=True, exist_ok=True)
    marker = json.dumps({"format_version": config.FORMAT_VERSION})
    (folder / config.MARKER_FILE).write_text(marker + "\n", encoding="utf-8")
    return Store(folder)


def open_store(path: str | Path) -> Store:
    """Open an existing store; reads only its marker file.

    Raises
    ------
    StoreNotFoundError
        If there is none at ``path``.
    FormatVersionError
        If a newer Chronicle wrote it.
    """
    folder = Path(path)
    marker = folder / config.MARKER_FILE
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))["format_version"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreNotFoundError(
            f"no Chronicle store at '{folder}'; check the path or ingest events into it first"
        ) from error
    except OSError as error:
        raise StorageError(
            f"marker file '{marker}' cannot be read ({error.strerror}); check its permissions"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"marker file '{marker}' is damaged; restore it: "
            f'{{"format_version": {config.FORMAT_VERSION}}}'
        ) from error
    if not isinstance(found, int) or found > config.FORMAT_VERSION:
        raise FormatVersionError(str(folder), found=found, supported=config.FORMAT_VERSION)
    return Store(folder)


def ensure_store(path: str | Path) -> Store:
    """Open the store at ``path``, or create it where there is none."""
    if (Path(path) / config.MARKER_FILE).exists():
        return open_store(path)
    return create_store(path)


def check_stream_name(name: str) -> None:
    """Check that a stream can have this name.

    Raises
    ------
    StorageError
        If not.
    """
    if not _STREAM_NAME.fullmatch(name):
        raise StorageError(
            f"stream name '{name}' cannot be used; take letters, digits, '_' and '-'"
        )


class Store:
    """A folder of streams; made by ``create_store`` and ``open_store``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}

    def stream_names(self) -> tuple[str, ...]:
        """Return the names of all streams, sorted."""
        return tuple(
            sorted(
                folder.name
                for folder in self.path.iterdir()
                if _STREAM_NAME.fullmatch(folder.name)
                and delta_log.table_exists(folder / EVENTS_TABLE)
            )
        )

    def stream(self, name: str) -> Stream:
        """Return a stream; the same object each time, so that its caches last.

        Raises
        ------
        StreamNotFoundError
            If the store has none of that name.
        """
        with self._lock:
            if name in self._streams:
                return self._streams[name]
            path = self.path / name
            if not _STREAM_NAME.fullmatch(name) or not delta_log.table_exists(path / EVENTS_TABLE):
                raise StreamNotFoundError(name, candidates=self.stream_names())
            self._streams[name] = Stream(name, path)
            return self._streams[name]

    def create_stream(self, name: str, schema: pa.Schema, settings: StreamSettings) -> Stream:
        """Create an empty stream.

        Parameters
        ----------
        name
            Letters, digits, ``_`` and ``-``.
        schema
            Columns of the events; stored as ``normalise_schema`` gives them.
        settings
            Fixed for the stream's life.

        Raises
        ------
        StreamExistsError
            If there is one of that name.
        SchemaError
            If the schema cannot be stored or lacks the time or key column.
        StorageError
            If the name cannot be a stream's.
        """
        check_stream_name(name)
        stored = normalise_schema(schema)
        check_settings(stored, settings)
        path = self.path / name
        if not delta_log.table_exists(path / EVENTS_TABLE):
            delta_log.create_table(path / TREE_TABLE, tree_schema(stored), {})
        # The events table comes last: with it the stream exists.
        if not delta_log.create_table(path / EVENTS_TABLE, stored, settings.to_properties()):
            raise StreamExistsError(
                f"stream '{name}' exists in store '{self.path}'; append to it or take another name"
            )
        return self.stream(name)


class Stream:
    """A time-ordered sequence of events with one schema. Thread-safe."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self._lock = threading.Lock()
        events = delta_log.load_table(path / EVENTS_TABLE)
        self.schema = normalise_schema(events.schema)
        self.settings = StreamSettings.from_properties(events.properties)
        if self.settings.format_version > config.FORMAT_VERSION:
            raise FormatVersionError(
                str(path),
                found=self.settings.format_version,
                supported=config.FORMAT_VERSION,
            )
        self._reader = BlockReader(path / EVENTS_TABLE, self.schema)
        self._events = events
        self._tree = delta_log.load_table(path / TREE_TABLE)
        self._trees: dict[str, FileTree] = {}
        self._latest: Snapshot | None = None
        self._old: dict[int, Snapshot] = {}

    @property
    def time_type(self) -> TimeType:
        """Kind of the time column."""
        return time_type(self.schema.field(self.settings.time).type, column=self.settings.time)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the stream at a version, the latest if none is named.

        Costs two ``stat`` calls while nothing was committed since the last call.

        Raises
        ------
        StorageError
            If there is no such version, or data files overlap in time.
        ForeignFileError
            If the events table holds a file Chronicle did not write.
        CorruptBlockError
            If a data file without tree entries cannot be read.
        """
        with self._lock:
            self._refresh()
            if version is None or version == self._events.version:
                if self._latest is None:
                    self._latest = self._take(self._events)
                    live = {file.name for file in self._events.files}
                    self._trees = {n: t for n, t in self._trees.items() if n in live}
                return self._latest
            if version not in self._old:
                events = delta_log.load_table(self.path / EVENTS_TABLE, version)
                while len(self._old) >= _OLD_SNAPSHOTS_MAX:
                    del self._old[next(iter(self._old))]
                self._old[version] = self._take(events)
            return self._old[version]

    def next_generation(self) -> int:
        """Return the generation of the next ingest: one more than any live file's, from 0."""
        with self._lock:
            self._refresh()
            events_dir = self.path / EVENTS_TABLE
            ordinals = [
                file_ordinal(file.name, events_dir=events_dir) for file in self._events.files
            ]
        return max((generation + 1 for generation, _, _ in ordinals), default=0)

    def _refresh(self) -> None:
        """Load what was committed since; drop the snapshots that it outdates."""
        events, tree = self.path / EVENTS_TABLE, self.path / TREE_TABLE
        if delta_log.version_exists_after(events, self._events.version):
            self._events = delta_log.load_table(events)
            self._latest = None
        if delta_log.version_exists_after(tree, self._tree.version):
            self._tree = delta_log.load_table(tree)
            self._trees = {n: t for n, t in self._trees.items() if t.is_stored}
            self._latest = None
            self._old.clear()

    def _take(self, events: TableState) -> Snapshot:
        stored = {file.name for file in self._tree.files}
        for file in events.files:
            if file.name not in self._trees:
                tree_path = self.path / TREE_TABLE / file.name if file.name in stored else None
                self._trees[file.name] = FileTree(
                    file, tree_path, reader=self._reader, time=self.settings.time,
                    fan_out=self.settings.fan_out,
                )  # fmt: skip
        trees = sorted((self._trees[file.name] for file in events.files), key=_stream_order)
        _check_disjoint(trees, self.path)
        return Snapshot(
            name=self.name,
            stream_dir=self.path,
            version=events.version,
            schema=self.schema,
            settings=self.settings,
            trees=trees,
            reader=self._reader,
        )


def _stream_order(tree: FileTree) -> tuple[int, int, tuple[int, int, int]]:
    leaves = tree.times()[0]
    return int(leaves.t_min[0]), int(leaves.t_max[-1]), tree.key


def _check_disjoint(trees: list[FileTree], path: Path) -> None:
    """Refuse files that overlap in time: block order would not be time order."""
    starts = np.array([tree.times()[0].t_min[0] for tree in trees], np.int64)
    ends = np.array([tree.times()[0].t_max[-1] for tree in trees], np.int64)
    wrong = np.flatnonzero(ends[:-1] > starts[1:])
    if len(wrong):
        first, second = trees[wrong[0]].name, trees[wrong[0] + 1].name
        raise StorageError(
            f"events files '{first}' and '{second}' of stream '{path}' overlap in time; restore "
            "the table to the last version before the second (Delta RESTORE)"
        )
