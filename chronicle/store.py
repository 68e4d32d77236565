"""Stores and their streams: create, open, list, and take snapshots."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from chronicle import config
from chronicle.arguments import check_name, check_path, check_type
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DERIVED_SCHEMA
from chronicle.disk import discard, flush, writing
from chronicle.errors import (
    AdoptedStreamError,
    ChronicleError,
    FormatVersionError,
    SchemaError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    StreamReplacedError,
    VacuumedVersionError,
    VersionNotFoundError,
    unread,
)
from chronicle.foreign_text import parse_json
from chronicle.log import delta_log
from chronicle.log.adopted_file import check_stamps
from chronicle.log.delta_log import Commit, FollowedTable, TableState
from chronicle.log.history import parse_version, version_at
from chronicle.log.stream_metadata import FollowedMetadata, StreamMetadata, TreeLog, write_metadata
from chronicle.ordinal import parse_ordinal
from chronicle.paths import kind_of_special, local_path
from chronicle.schema import check_extends, check_key, check_settings, normalise_schema
from chronicle.settings import Lineage, StreamSettings
from chronicle.snapshot import Snapshot
from chronicle.stream_folder import (
    check_stream_name,
    check_unclaimed,
    is_stream_name,
    locked_folder,
    open_staging,
    put_in_place,
)
from chronicle.time import TimeType, show_time, time_type
from chronicle.tree.blocks import BlockReader
from chronicle.tree.derived_attributes import check_derived
from chronicle.tree.file_tree import FileTree
from chronicle.tree.tree_file import TREE_TABLE
from chronicle.words import number_of

if TYPE_CHECKING:
    from chronicle.append_report import AppendReport
    from chronicle.derived import DerivedWriter

P = ParamSpec("P")
R = TypeVar("R")

_OLD_SNAPSHOTS_MAX = 4
"""Snapshots of named versions, or of fewer files, kept beside the latest one."""

_NAMES_SHOWN = 10
"""Names that the text of a store or stream lists."""

_Kept = tuple[int, frozenset[str]]
"""Version of a snapshot and the data files it leaves out."""


def create_store(path: str | Path) -> Store:
    """Make a new, empty store; the folder may exist if it is empty.

    Raises
    ------
    StoreExistsError
        If a store or anything else lies there.
    StorageError
        If ``path`` is a URL.
    """
    folder = _store_folder(path)
    if (folder / config.MARKER_FILE).exists():
        raise StoreExistsError(f"a store exists at '{folder}'; open it or choose another folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreExistsError(f"'{folder}' is not an empty folder; choose another for the store")
    text = json.dumps({"format_version": config.FORMAT_VERSION})
    marker = folder / config.MARKER_FILE
    with writing(marker):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            marker.write_text(text + "\n", encoding="utf-8")
        except OSError:
            discard([marker])  # a marker cut short makes the folder neither a store nor a new one
            raise
    flush([marker, folder, folder.absolute().parent])
    return Store(folder)


def open_store(path: str | Path) -> Store:
    """Open an existing store; reads only its marker file.

    Raises
    ------
    StoreNotFoundError
        If there is none at ``path``.
    FormatVersionError
        If a newer Chronicle wrote it.
    StorageError
        If ``path`` is a URL.
    """
    folder = _store_folder(path)
    marker = folder / config.MARKER_FILE
    special = kind_of_special(marker)
    if special is not None:
        raise StorageError(f"marker file '{marker}' is {special}, not a file; restore it")
    try:
        found = parse_json(marker.read_text(encoding="utf-8"))["format_version"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreNotFoundError(
            f"no Chronicle store at '{folder}'; check the path or ingest events into it first"
        ) from error
    except OSError as error:
        raise unread(marker, error) or StorageError(
            f"marker file '{marker}' cannot be read ({error.strerror}); restore it"
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
    if (_store_folder(path) / config.MARKER_FILE).exists():
        return open_store(path)
    return create_store(path)


def _store_folder(path: str | Path) -> Path:
    """Return the folder of a store, wherever a process that is told of it may run."""
    check_path(path, "store")
    return local_path(path).absolute()


class Store:
    """A folder of streams; made by ``create_store`` and ``open_store``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}

    def __repr__(self) -> str:
        try:
            names = self.stream_names()
        except OSError as error:
            return f"<Store '{self.path}': {error.strerror}>"
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        return f"<Store '{self.path}': {shown or 'no stream yet'}>"

    def stream_names(self) -> tuple[str, ...]:
        """Return the names of all streams, sorted."""
        return tuple(
            sorted(
                folder.name
                for folder in self.path.iterdir()
                if is_stream_name(folder.name) and delta_log.table_exists(folder / EVENTS_TABLE)
            )
        )

    def stream(self, name: str) -> Stream:
        """Return a stream; the same object each time, so that its caches last.

        One that was dropped and made again since is another stream, and another object.

        Raises
        ------
        StreamNotFoundError
            If the store has none of that name.
        """
        check_name(name, "stream")
        with self._lock:
            if name in self._streams and self._streams[name].is_in_place():
                return self._streams[name]
            path = self.path / name
            if not is_stream_name(name) or not delta_log.table_exists(path / EVENTS_TABLE):
                raise StreamNotFoundError(name, candidates=self.stream_names())
            try:
                self._streams[name] = Stream(name, path)
            except StorageError as error:
                if delta_log.table_exists(path / EVENTS_TABLE):
                    raise
                raise StreamNotFoundError(name, candidates=self.stream_names()) from error
            return self._streams[name]

    def forget(self, name: str) -> None:
        """Let go of a stream whose folder went elsewhere; who still holds it is told so."""
        with self._lock:
            stream = self._streams.pop(name, None)
        if stream is not None:
            stream.retire()

    def create_stream(
        self,
        name: str,
        schema: pa.Schema,
        settings: StreamSettings,
        *,
        lineage: Lineage | None = None,
    ) -> Stream:
        """Create an empty stream.

        Parameters
        ----------
        name
            Letters, digits, ``_`` and ``-``.
        schema
            Columns of the events; stored as ``normalise_schema`` gives them.
        settings
            Fixed for the stream's life, but for its derived attributes.
        lineage
            The query whose answer it is to hold; None if it is not made by one.

        Raises
        ------
        StreamExistsError
            If there is one of that name.
        SchemaError
            If the schema cannot be stored, lacks the time or key column, or has a key column that
            tells no objects apart.
        StorageError
            If the name cannot be a stream's, or data files of one without a log lie there.
        """
        check_stream_name(name)
        stored = normalise_schema(schema)
        check_settings(stored, settings)
        if settings.key is not None:
            check_key(stored, settings.key)
        path = self.path / name
        check_unclaimed(path)
        derived = check_derived(stored, settings.derived, key=settings.key)
        properties = settings.to_properties()
        properties |= {} if lineage is None else lineage.to_properties()
        # Made where nobody sees it: a kill leaves no half of a stream, nor does a drop meet one.
        with open_staging(self.path) as staging:
            made = staging / name
            made.mkdir()
            delta_log.create_table(made / TREE_TABLE, DERIVED_SCHEMA, {})
            if derived:
                write_metadata(made, StreamMetadata(tuple(attribute.name for attribute in derived)))
            delta_log.create_table(made / EVENTS_TABLE, stored, properties)
            taken = StreamExistsError(
                f"stream '{name}' exists in store '{self.path}'; append to it or take another name"
            )
            put_in_place(made, path, taken)
        return self.stream(name)


class Stream:
    """A time-ordered sequence of events with one schema. Thread-safe."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self._lock = threading.Lock()
        self._is_retired = False
        self._events_log = FollowedTable(path / EVENTS_TABLE)
        self._tree_log = TreeLog(path / TREE_TABLE)
        self._declaration = FollowedMetadata(path)
        events = self._events_log.state
        self._identity = events.identity
        self.settings = StreamSettings.from_properties(events.properties)
        self.lineage = Lineage.from_properties(events.properties)
        if self.settings.format_version > config.FORMAT_VERSION:
            raise FormatVersionError(
                str(path),
                found=self.settings.format_version,
                supported=config.FORMAT_VERSION,
            )
        self._seen = events
        self._schema = normalise_schema(events.schema)
        self._reader = BlockReader(path / EVENTS_TABLE, self._schema)
        self._trees: dict[str, FileTree] = {}
        self._latest: Snapshot | None = None
        self._old: dict[_Kept, Snapshot] = {}
        self._commits: tuple[Commit, ...] = ()
        self._take_declared()

    def __repr__(self) -> str:
        names = self.schema.names
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        head = f"Stream '{self.name}'"
        try:
            snapshot = self.snapshot()
        except ChronicleError as error:
            return f"<{head}: {error}>"
        span = ""
        if snapshot.t_min is not None and snapshot.t_max is not None:
            first, last = (show_time(t, self.time_type) for t in (snapshot.t_min, snapshot.t_max))
            span = f" from {first} to {last}"
        events = f"{number_of(snapshot.n_events, 'event')}{span}, version {snapshot.version}"
        return f"<{head}: {events}; time '{self.settings.time}', columns {shown}>"

    @property
    def schema(self) -> pa.Schema:
        """Columns of the events, as of the last time the log was looked at."""
        return self._schema

    @property
    def time_type(self) -> TimeType:
        """Kind of the time column."""
        return time_type(self.schema.field(self.settings.time).type, column=self.settings.time)

    def append(
        self, events: Any, *, late: str = "merge", derived: DerivedWriter | None = None
    ) -> AppendReport:
        """Append events held in memory, without Spark; all become visible at once, or none.

        Parameters
        ----------
        events
            With the stream's columns, in order of arrival; they need not be in order of time. A
            ``pyarrow.Table``, a frame of pandas or Polars, or whatever else holds Arrow data.
        late
            What becomes of events older than the stream's end: ``merge`` puts them where they
            belong, ``reject`` takes nothing, ``quarantine`` puts them aside.
        derived
            Writes runs of the indexes, such as ``indexing.writer_for(stream)`` gives; without one
            the new files are the tail of the indexes until the next compaction or ingest.

        Raises
        ------
        SchemaError
            If columns or types do not fit the stream.
        LateEventError
            If events are late and ``late`` is ``reject``.
        CommitConflictError
            If other processes commit first again and again.
        StorageError
            If the store cannot be written; nothing was appended.
        """
        # By name, as what writes imports this module.
        report: AppendReport = import_module("chronicle.verbs").append(
            self, events, late=late, derived=derived
        )
        return report

    def check_writable(self) -> None:
        """Check that events of the stream may be written; only its own files are."""
        if self.settings.adopted_from is not None:
            raise AdoptedStreamError(self.name, self.settings.adopted_from)

    def retire(self) -> None:
        """Answer no more: the stream was dropped or renamed."""
        with self._lock:
            self._is_retired = True

    def is_in_place(self) -> bool:
        """Return whether the stream is still the one that its store has of this name.

        What cannot be read for another reason is still in its place.
        """
        try:
            self.refresh()
        except (StreamNotFoundError, StreamReplacedError):
            return False
        except StorageError:
            return True
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the stream in its place while the block runs: nobody drops or renames it.

        Why: a commit is a file below the stream's path, and its number may fit a stream that was
        made there anew. Blocks of several processes run side by side; who moves the folder waits.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(locked_folder(self.path))
            except FileNotFoundError as error:
                raise self._missing() from error
            self.refresh()
            yield

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have what fails in the block say that the stream is gone, where that is the reason."""
        try:
            yield
        except (StreamNotFoundError, StreamReplacedError):
            raise
        except (ChronicleError, OSError) as error:
            try:
                self.refresh()
            except (StreamNotFoundError, StreamReplacedError) as gone:
                raise gone from error
            except (ChronicleError, OSError):
                pass  # what is wrong with the store was said already
            if isinstance(error, FileNotFoundError) and not isinstance(error, ChronicleError):
                raise StorageError(
                    f"'{error.filename}' is gone; another process removed it meanwhile, as who "
                    "drops an index does; run it again"
                ) from error
            raise

    def refresh(self) -> int:
        """Take in what was committed since, by whomever; return the newest version.

        Raises
        ------
        StorageError
            If the log cannot be read any more.
        """
        with self._lock:
            self._refresh()
            return self._events_log.state.version

    def version_of(self, version: int | dt.datetime | str | None) -> int:
        """Return the number of the version that ``snapshot`` would take."""
        with self._lock:
            self._refresh()
            return self._number_of(version)

    def snapshot(
        self,
        version: int | dt.datetime | str | None = None,
        *,
        without: frozenset[str] = frozenset(),
    ) -> Snapshot:
        """Return the stream at a version, the latest if none is named.

        Costs four ``stat`` calls while nothing was committed since the last call, and one for
        each file of an adopted stream.

        Parameters
        ----------
        version
            Number of a version; or a time, which stands for the latest version committed at or
            before it: a ``datetime`` or ISO 8601 text, in UTC unless it names a zone.
        without
            Names of data files to leave out, as if their events had never been.

        Raises
        ------
        VersionNotFoundError
            If there is no such version, none yet at that time, or the text is no version.
        VacuumedVersionError
            If data files that only older versions have were vacuumed.
        StorageError
            If the log does not reach back that far, or data files overlap in time.
        ForeignFileError
            If the events table holds a file Chronicle did not write.
        CorruptBlockError
            If a data file without tree entries cannot be read.
        ChangedFileError
            If a file of an adopted stream is not the one that was verified.
        """
        with self._lock:
            self._refresh()
            latest = self._events_log.state
            number = self._number_of(version)
            if number == latest.version and not without:
                self._check_adopted(latest, without)
                if self._latest is None:
                    self._latest = self._take(latest, without)
                    self._drop_unused()
                return self._latest
            kept = (number, without)
            state = latest
            if number != latest.version and (kept not in self._old or self._is_adopted):
                state = delta_log.load_table(self.path / EVENTS_TABLE, number)
                self._check_not_vacuumed(state, latest)
            self._check_adopted(state, without)
            if kept not in self._old:
                while len(self._old) >= _OLD_SNAPSHOTS_MAX:
                    del self._old[next(iter(self._old))]
                self._old[kept] = self._take(state, without)
                self._drop_unused()
            return self._old[kept]

    def next_generation(self) -> int:
        """Return the generation of the next ingest: one more than any live file's, from 0."""
        with self._lock:
            self._refresh()
            events_dir = self.path / EVENTS_TABLE
            ordinals = [
                parse_ordinal(file.name, events_dir=events_dir)
                for file in self._events_log.state.files
            ]
        return max((ordinal[0] + 1 for ordinal in ordinals), default=0)

    def _refresh(self) -> None:
        """Load what was committed since; drop the snapshots that it outdates."""
        if self._is_retired or not self.path.is_dir():
            raise self._missing()
        try:
            self._events_log.refresh()
        except StorageError as error:
            if not self.path.is_dir():
                raise self._missing() from error
            raise
        if self._events_log.state.identity != self._identity:
            raise StreamReplacedError(self.name)
        if self._events_log.state is not self._seen:
            self._take_schema(normalise_schema(self._events_log.state.schema))
            self._seen = self._events_log.state
            self._latest = None
        is_declared_anew = self._declaration.refresh() or self._schema is not self._declared_for
        if is_declared_anew:
            self._take_declared()
        if self._tree_log.refresh() or is_declared_anew:
            derived = self.settings.derived
            self._trees = {n: t for n, t in self._trees.items() if t.holds(derived)}
            self._latest = None
            self._old.clear()

    def _missing(self) -> StreamNotFoundError | StreamReplacedError:
        names = open_store(self.path.parent).stream_names()
        if self.name in names:  # made again since it was missed
            return StreamReplacedError(self.name)
        return StreamNotFoundError(self.name, candidates=names)

    def _take_declared(self) -> None:
        """Follow what is declared as far as it fits the columns; the rest is a fault."""
        self._declared_for = self._schema
        names, self._declaration_fault = self._declaration.names, self._declaration.fault
        try:
            check_derived(self._schema, names, key=self.settings.key)
        except SchemaError as error:
            names, self._declaration_fault = (), f"derived attributes are not used: {error}"
        self.settings = replace(self.settings, derived=names)

    def _take_schema(self, schema: pa.Schema) -> None:
        if schema == self._schema:
            return
        check_extends(self._schema, schema, where=str(self.path / EVENTS_TABLE))
        # What was opened before knows nothing of the new columns.
        self._schema = schema
        self._reader = BlockReader(self.path / EVENTS_TABLE, schema)
        self._trees.clear()
        self._old.clear()

    def _number_of(self, version: int | dt.datetime | str | None) -> int:
        """Return the number of a version however it was named."""
        latest = self._events_log.state.version
        if isinstance(version, str):
            version = parse_version(version)
        if version is None:
            return latest
        if isinstance(version, dt.datetime):
            if not self._commits or self._commits[0].version != latest:
                found = delta_log.commits(self.path / EVENTS_TABLE)
                self._commits = tuple(commit for commit in found if commit.version <= latest)
            return version_at(self._commits, version)
        if not 0 <= version <= latest:
            raise VersionNotFoundError(
                f"stream '{self.name}' has no version {version}; name a version from 0 to {latest}"
            )
        return int(version)

    def _check_not_vacuumed(self, old: TableState, latest: TableState) -> None:
        """Refuse an old version of which data files are gone that no later one has."""
        live = {file.name for file in latest.files}
        for file in old.files:
            if file.name not in live and not self._reader.path(file.name).exists():
                raise VacuumedVersionError(old.version, str(self._reader.path(file.name)))

    @property
    def _is_adopted(self) -> bool:
        return self.settings.adopted_from is not None

    def _check_adopted(self, events: TableState, without: frozenset[str]) -> None:
        """Refuse files of an adopted stream that are not the ones that were verified."""
        if self._is_adopted:
            files = (file for file in events.files if file.name not in without)
            check_stamps(self.path / EVENTS_TABLE, files)

    def _take(self, events: TableState, without: frozenset[str]) -> Snapshot:
        stored = self._tree_log.names
        files = [file for file in events.files if file.name not in without]
        for file in files:
            if file.name not in self._trees:
                tree_path = self.path / TREE_TABLE / file.name if file.name in stored else None
                self._trees[file.name] = FileTree(
                    file, tree_path, reader=self._reader, settings=self.settings
                )
        trees = sorted((self._trees[file.name] for file in files), key=_stream_order)
        _check_disjoint(trees, self.path)
        return Snapshot(
            name=self.name,
            stream_dir=self.path,
            version=events.version,
            schema=normalise_schema(events.schema),
            settings=self.settings,
            trees=trees,
            reader=self._reader,
            faults=(self._tree_log.fault, self._declaration_fault),
        )

    def _drop_unused(self) -> None:
        """Forget the trees of files that no snapshot kept here has."""
        kept = [*self._old.values(), *([] if self._latest is None else [self._latest])]
        names = {file.name for snapshot in kept for file in snapshot.files}
        if self._latest is None:  # its trees are wanted again as soon as it is
            names |= {file.name for file in self._events_log.state.files}
        self._trees = {name: tree for name, tree in self._trees.items() if name in names}


def watched(
    call: Callable[Concatenate[Stream, P], R],
) -> Callable[Concatenate[Stream, P], R]:
    """Have a function on a stream say that the stream is gone, see ``Stream.watched``."""

    @wraps(call)
    def watching(stream: Stream, *args: P.args, **options: P.kwargs) -> R:
        check_type(stream, Stream)
        with stream.watched():
            return call(stream, *args, **options)

    return watching  # type: ignore[return-value]  # by keyword, too


def _stream_order(tree: FileTree) -> tuple[int, int, tuple[int, ...], str]:
    leaves = tree.times()[0]
    # Two appends at once can have one ordinal; names make their order the same for every reader.
    return int(leaves.t_min[0]), int(leaves.t_max[-1]), tree.key, tree.name


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


@contextmanager
def open_or_create(path: str | Path) -> Iterator[Store]:
    """Lend the store at ``path``, made where there is none.

    One that was made here and holds nothing when the block fails is removed, and so are the
    folders that were made to hold it.
    """
    folder = local_path(path)
    if (folder / config.MARKER_FILE).exists():
        yield open_store(folder)
        return
    top = _topmost_missing(folder)
    try:
        store = create_store(folder)
    except StoreExistsError:
        if not (folder / config.MARKER_FILE).exists():
            raise
        yield open_store(folder)  # another process made it just now
        return
    try:
        yield store
    except BaseException:
        if [entry.name for entry in folder.iterdir()] == [config.MARKER_FILE]:
            (folder / config.MARKER_FILE).unlink()
            if top is not None:
                shutil.rmtree(top, ignore_errors=True)
        raise


def _topmost_missing(folder: Path) -> Path | None:
    """Return the outermost folder that has to be made for ``folder`` to exist; None if it does."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    return missing[-1] if missing else None
