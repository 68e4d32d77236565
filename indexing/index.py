"""The indexes of one snapshot: which run answers for which file, lookups and counts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np

from chronicle import delta_log
from chronicle.errors import StorageError
from chronicle.snapshot import Snapshot
from indexing.bounds import Bounds, to_bounds
from indexing.cache import BoundedCache
from indexing.config import ANSWER_CACHE_BYTES, INDEX_SETS_KEPT, RUN_CACHE_BYTES
from indexing.cover import Segments, choose_runs
from indexing.errors import CorruptRunError, UnknownIndexError
from indexing.key_range import KeyRanges
from indexing.keys import KeyKind, key_kind
from indexing.lookup import Lookup, PlacedRun, in_order
from indexing.run import FileRun, open_run
from indexing.tail import TailFile, clear_memtables
from indexing.writer import INDEX_FOLDER


@dataclass(frozen=True, slots=True)
class RunTable:
    """The runs of one attribute, as one version of their Delta table lists them."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Placement:
    """Where the entries of each file of a snapshot come from."""

    opened: tuple[FileRun, ...]
    runs: tuple[PlacedRun, ...]
    tail: tuple[TailFile, ...]
    parts: tuple[PlacedRun | TailFile, ...]


_ANSWER_BYTES = 1000  # about what ranges and bookkeeping of a kept answer take


def _held_bytes(array: np.ndarray) -> int:
    """Return what an array keeps in memory: all of the one it is a view of."""
    whole = array.base if isinstance(array.base, np.ndarray) else array
    return int(whole.nbytes)


# Runs and listings are immutable once committed and cost a file system call to recognise, so a
# process keeps them across snapshots, which come and go with every ingest.
_runs: BoundedCache[tuple[str, int, int], FileRun] = BoundedCache(
    RUN_CACHE_BYTES, lambda run: run.memory_bytes
)
# An answer belongs to one index of one snapshot, which never changes. A run found damaged later
# changes where the next answers come from and none that was given.
_answers: BoundedCache[tuple[object, KeyRanges], Lookup] = BoundedCache(
    ANSWER_CACHE_BYTES, lambda found: _held_bytes(found.seq) + _held_bytes(found.t) + _ANSWER_BYTES
)
_sets: BoundedCache[tuple[str, int], IndexSet] = BoundedCache(INDEX_SETS_KEPT, lambda _: 1)


class Index:
    """The secondary index of one attribute, on one snapshot. Thread-safe.

    Runs that are missing or damaged are not used: their files are read as tail, which costs time
    and changes no answer, and ``faults`` says so.
    """

    def __init__(self, snapshot: Snapshot, attribute: str, table: RunTable) -> None:
        self.attribute = attribute
        self.faults: tuple[str, ...] = ()
        self._identity = object()
        self._snapshot = snapshot
        self._kind = key_kind(snapshot.schema.field(attribute).type, attribute)
        self._names = list(table.names)
        self._placement: _Placement | None = None
        self._lock = Lock()

    @property
    def n_entries(self) -> int:
        """Entries in runs, of events that live in the snapshot."""
        return sum(run.n_live for run in self._placed().runs)

    @property
    def n_runs(self) -> int:
        """Runs that can be used."""
        return len(self._placed().opened)

    @property
    def n_tail_events(self) -> int:
        """Events of data files that no run covers."""
        return sum(part.file.n_events for part in self._placed().tail)

    @property
    def size_bytes(self) -> int:
        """Size of the run files."""
        return sum(run.size_bytes for run in self._placed().opened)

    def estimate_count(self, ranges: KeyRanges) -> tuple[int, int]:
        """Return the least and the most events with keys in ``ranges``.

        Read from fences alone: the two differ by at most two row groups per run and range, and
        by the events of large files of the tail.
        """
        bounds = to_bounds(ranges, self._kind)
        counts = [part.count(bounds) for part in self._placed().parts]
        return sum(least for least, _ in counts), sum(most for _, most in counts)

    def lookup(self, ranges: KeyRanges) -> Lookup:
        """Return the events with keys in ``ranges``, in stream order.

        Time is proportional to the entries returned, plus two row groups per run and range.
        Answers are kept while memory for them lasts. Their arrays cannot be written to.

        Raises
        ------
        IndexingError
            If a bound cannot be compared with the keys.
        """
        key = (self._identity, ranges)
        kept = _answers.find(key)
        if kept is not None:
            return kept
        fresh = self._look_up(ranges)
        _answers.put(key, replace(fresh, n_bytes_read=0))
        return fresh

    def _look_up(self, ranges: KeyRanges) -> Lookup:
        """Return a fresh answer."""
        bounds = to_bounds(ranges, self._kind)
        while True:
            try:
                return self._find(bounds, self._placed())
            except CorruptRunError as error:
                self._distrust(error)

    def _find(self, bounds: Bounds, placement: _Placement) -> Lookup:
        found = [part.find(bounds) for part in placement.parts]
        if len(found) == 1:
            found[0].seq.flags.writeable = found[0].t.flags.writeable = False
            return found[0]
        seq, t = in_order([(f.seq, f.t) for f in found if len(f.seq)])
        seq.flags.writeable = t.flags.writeable = False
        return Lookup(
            seq, t, sum(f.n_entries_read for f in found), sum(f.n_bytes_read for f in found)
        )

    def _placed(self) -> _Placement:
        with self._lock:
            if self._placement is None:
                self._placement = self._place()
            return self._placement

    def _distrust(self, error: CorruptRunError) -> None:
        with self._lock:
            name = Path(error.path).name
            if name in self._names:  # else another thread met it first
                self._names.remove(name)
                self.faults = (*self.faults, str(error))
                self._placement = None

    def _place(self) -> _Placement:
        opened = self._open_runs()
        live = {file.name: file.n_events for file in self._snapshot.files}
        chosen = choose_runs([run.cover for run in opened], live)
        runs = [
            self._to_placed(run, frozenset(taken))
            for run, taken in zip(opened, chosen, strict=True)
            if taken
        ]
        runs.sort(key=lambda placed: placed.segments.first_seq)
        covered = {name for taken in chosen for name in taken}
        tail = [
            TailFile(self._snapshot, file, self.attribute, self._kind)
            for file in self._snapshot.files
            if file.name not in covered
        ]
        return _Placement(tuple(opened), tuple(runs), tuple(tail), (*runs, *tail))

    def _open_runs(self) -> list[FileRun]:
        folder = Path(self._snapshot.stream_dir) / INDEX_FOLDER / self.attribute
        opened: list[FileRun] = []
        for name in tuple(self._names):
            try:
                opened.append(_cached_run(folder / name, self.attribute, self._kind))
            except CorruptRunError as error:
                self._names.remove(name)
                self.faults = (*self.faults, str(error))
        return opened

    def _to_placed(self, run: FileRun, taken: frozenset[str]) -> PlacedRun:
        """Return the run with what its positions are in the snapshot."""
        base = self._snapshot.leaves.base
        first_seq = {name: int(base[self._snapshot.file_blocks(name)[0]]) for name in taken}
        n_dead = sum(c.n_entries for c in run.cover if c.name not in taken)
        return PlacedRun(run, Segments.of(run.cover, first_seq), n_dead)


class IndexSet:
    """The secondary indexes of a stream, on one snapshot. Thread-safe."""

    def __init__(
        self, snapshot: Snapshot, tables: Mapping[str, RunTable], faults: Iterable[str] = ()
    ) -> None:
        self.snapshot = snapshot
        self.tables = dict(tables)
        self._faults = tuple(faults)
        self._indexes = {
            attribute: Index(snapshot, attribute, table) for attribute, table in tables.items()
        }

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the indexed attributes, sorted."""
        return tuple(sorted(self._indexes))

    @property
    def faults(self) -> list[str]:
        """Sentences on what was found missing or damaged so far; answers are right without it."""
        return [*self._faults, *(f for index in self._indexes.values() for f in index.faults)]

    def index(self, attribute: str) -> Index:
        """Return the index of an attribute.

        Raises
        ------
        UnknownIndexError
            If there is none.
        """
        try:
            return self._indexes[attribute]
        except KeyError:
            raise UnknownIndexError(attribute, candidates=self._indexes) from None


def open_indexes(snapshot: Snapshot) -> IndexSet:
    """Return the indexes of a stream as far as they answer for ``snapshot``.

    Reads the index tables' logs where they are new; opens no run before it is needed.
    """
    stream_dir = Path(snapshot.stream_dir)
    key = (str(stream_dir), snapshot.version)
    known = _sets.find(key)
    attributes = _indexed(stream_dir, frozenset(snapshot.schema.names))
    if (
        known is not None
        and known.snapshot is snapshot
        and known.attributes == attributes
        and not any(
            delta_log.version_exists_after(f"{stream_dir}/{INDEX_FOLDER}/{a}", table.version)
            for a, table in known.tables.items()
        )
    ):
        return known
    tables, faults = {}, []
    for attribute in attributes:
        try:
            state = delta_log.load_table(stream_dir / INDEX_FOLDER / attribute)
            names = tuple(sorted(file.name for file in state.files))
            tables[attribute] = RunTable(state.version, names)
        except StorageError as error:
            tables[attribute] = RunTable(version=-1, names=())
            faults.append(f"the runs of index '{attribute}' are not known: {error}")
    opened = IndexSet(snapshot, tables, faults)
    if not faults:
        _sets.put(key, opened)
    return opened


def clear_caches() -> None:
    """Forget answers, opened runs, memtables and listings, as benchmarks of a cold start need."""
    for cache in (_answers, _runs, _sets):
        cache.clear()
    clear_memtables()


def _indexed(stream_dir: Path, columns: frozenset[str]) -> tuple[str, ...]:
    """Return the attributes with an index table, sorted."""
    folder = f"{stream_dir}/{INDEX_FOLDER}"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are wanted, by every query
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(
        sorted(
            name for name in names if name in columns and delta_log.table_exists(f"{folder}/{name}")
        )
    )


def _cached_run(path: Path, attribute: str, kind: KeyKind) -> FileRun:
    """Open a run, or return it opened before; a file that was replaced is opened anew."""
    try:
        stat = path.stat()
    except OSError as error:
        raise CorruptRunError(str(path), "the file is missing") from error
    run = _runs.get((str(path), stat.st_size, stat.st_mtime_ns), lambda: open_run(path))
    if run.head.attribute != attribute or run.kind is not kind:
        raise CorruptRunError(
            str(path), f"it holds {run.kind.value} keys of '{run.head.attribute}'"
        )
    return run
