"""The indexes of one snapshot: which run answers for which file, lookups and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np

from chronicle.errors import ExhaustedError, StorageError, UnreadFileError, sentences_on
from chronicle.log import delta_log
from chronicle.snapshot import Snapshot
from indexing.attributes import KeySpace
from indexing.cache import BoundedCache
from indexing.config import ANSWER_CACHE_BYTES, INDEX_SETS_KEPT, RUN_CACHE_BYTES
from indexing.cover import Segments, choose_runs, overlapping
from indexing.errors import CorruptRunError, IndexingError, UnknownIndexError
from indexing.key_range import KeyRanges
from indexing.keys import KeyKind
from indexing.lookup import Lookup, look_up
from indexing.objects import object_kind
from indexing.placed_run import PlacedRun
from indexing.row_mask import RowMask
from indexing.run import Run, open_run
from indexing.tables import INDEX_FOLDER, index_folders, indexed_attributes, is_of_one_file
from indexing.tail import TailFile, clear_memtables


@dataclass(frozen=True, slots=True)
class RunTable:
    """The runs of one attribute, as one version of their Delta table lists them."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Placement:
    """Where the entries of each file of a snapshot come from."""

    opened: tuple[Run, ...]
    runs: tuple[PlacedRun, ...]
    tail: tuple[TailFile, ...]
    parts: tuple[PlacedRun | TailFile, ...]
    spans: np.ndarray
    """Sequence numbers that the parts hold entries of: int64, shape (n, 2), half-open."""
    part_of_span: np.ndarray
    """Position in ``parts``, shape (n,), ascending."""
    object_kind: KeyKind | None
    identity: object
    """Of this placement: another one has other parts."""

    def places_within(self, within: np.ndarray | None) -> tuple[int, ...]:
        """Return which parts have entries in ranges of sequence numbers; None: all parts."""
        if within is None:
            return tuple(range(len(self.parts)))
        kept = self.part_of_span[overlapping(self.spans, within)]
        return tuple(dict.fromkeys(kept.tolist()))


_MENDED = ", 'chronicle repair' writes them anew"

_ANSWER_BYTES = 1000  # about what ranges and bookkeeping of a kept answer take


def _answer_bytes(found: Lookup) -> int:
    """Return what an answer keeps in memory, of arrays that it has views of all."""
    columns = [column for column in (found.seq, found.t) if column is not None]
    wholes = (c.base if isinstance(c.base, np.ndarray) else c for c in columns)
    held = sum({id(whole): int(whole.nbytes) for whole in wholes}.values())
    objects = 0 if found.objects is None else int(found.objects.get_total_buffer_size())
    return held + objects + _ANSWER_BYTES


# Runs and listings are immutable once committed and cost a file system call to recognise, so a
# process keeps them across snapshots, which come and go with every ingest.
_runs: BoundedCache[tuple[str, int, int], Run] = BoundedCache(
    RUN_CACHE_BYTES, lambda run: run.memory_bytes
)
# An answer belongs to one index of one snapshot, which never changes. A run found damaged later
# changes where the next answers come from and none that was given.
_answers: BoundedCache[tuple[object, KeyRanges, bool, tuple[int, ...]], Lookup] = BoundedCache(
    ANSWER_CACHE_BYTES, _answer_bytes
)
_sets: BoundedCache[tuple[str, int], IndexSet] = BoundedCache(INDEX_SETS_KEPT, lambda _: 1)


class Index:
    """The secondary index of one attribute, on one snapshot. Thread-safe.

    Runs that are missing or damaged are not used: their files are read as tail, which costs time
    and changes no answer, and ``faults`` says so.
    """

    def __init__(self, snapshot: Snapshot, attribute: str, table: RunTable) -> None:
        self.attribute = attribute
        self._damage: tuple[CorruptRunError, ...] = ()
        self._identity = object()
        self._snapshot = snapshot
        self._keys = KeySpace.of(snapshot.schema, attribute)
        self._kind = self._keys.kind
        self._names = list(table.names)
        self._placements: dict[bool, _Placement] = {}
        self._lock = Lock()

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on runs found missing or damaged so far; answers are right without them."""
        return sentences_on(self._damage)

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

    @property
    def is_of_key(self) -> bool:
        """Whether it is of the stream's key, so that the objects of entries are what it is of."""
        return self.attribute == self._snapshot.settings.key

    @property
    def holds_objects(self) -> bool:
        """Whether lookups with objects are answered from the same runs as those without."""
        if self._snapshot.settings.key is None:
            return False
        with_objects = self._placed(with_objects=True)
        return len(with_objects.tail) == len(self._placed().tail)

    def estimate_count(
        self, ranges: KeyRanges, *, within: np.ndarray | None = None
    ) -> tuple[int, int]:
        """Return the least and the most events with keys in ``ranges``.

        Read from fences alone: the two differ by at most two groups per run and range, and
        by the events of large files of the tail. Of a derived attribute, also by the events whose
        value is not known, which ``lookup`` returns besides.

        Parameters
        ----------
        ranges
            Which keys.
        within
            As for ``lookup``: runs and files it leaves out are not counted.
        """
        candidates = self._keys.candidates(ranges)
        placement = self._placed()
        parts = [placement.parts[place] for place in placement.places_within(within)]
        if self._keys.open_key is None:
            counts = [part.count(candidates) for part in parts]
            return sum(least for least, _ in counts), sum(most for _, most in counts)
        certain = self._keys.certain(ranges)
        least = sum(part.count(certain)[0] for part in parts)
        return least, sum(part.count(candidates)[1] for part in parts)

    def lookup(
        self,
        ranges: KeyRanges,
        *,
        with_objects: bool = False,
        within: np.ndarray | None = None,
    ) -> Lookup:
        """Return the events with keys in ``ranges``, in stream order.

        Of a derived attribute also those whose value is not known from their data file alone.
        Time is proportional to the entries returned, plus two groups per run and range.
        Answers are kept while memory for them lasts. Their arrays cannot be written to.

        Parameters
        ----------
        ranges
            Which keys.
        with_objects
            Whether to return the events' values of the stream's key column too.
        within
            Sequence numbers of interest: int64, shape (n, 2), half-open, ascending and disjoint.
            Runs and files without any are not read; of the others events outside are returned
            as well. None: all.

        Raises
        ------
        IndexingError
            If a bound cannot be compared with the keys, or objects are asked of a stream that has
            no key column to tell them apart.
        """
        whole = (self._identity, ranges, with_objects, ())
        kept = _answers.find(whole)
        while kept is None:
            placement = self._placed(with_objects=with_objects)
            places = placement.places_within(within)
            # Kept by which parts were asked, not by what for: nearby queries leave out the same.
            is_whole = len(places) == len(placement.parts)
            key = whole if is_whole else (placement.identity, ranges, with_objects, places)
            kept = _answers.find(key)
            if kept is not None:
                break
            parts = [placement.parts[place] for place in places]
            bounds = self._keys.candidates(ranges)
            try:
                fresh = look_up(parts, bounds, placement.object_kind)
            except CorruptRunError as error:
                self._distrust(error)
                continue
            for column in (fresh.seq, fresh.t):
                if column is not None:
                    column.setflags(write=False)
            _answers.put(key, replace(fresh, n_bytes_read=0))
            return fresh
        return kept

    def lookup_within(
        self,
        ranges: KeyRanges,
        rows: RowMask,
        *,
        with_objects: bool = False,
        with_times: bool = True,
    ) -> Lookup:
        """Return the events with keys in ``ranges`` that a mask of rows leaves, in stream order.

        Groups that have none are not decoded where that can be told. An answer of
        :meth:`lookup` that is kept is used; what is found here is not kept.

        Parameters
        ----------
        ranges, with_objects
            As for :meth:`lookup`.
        rows
            Of the snapshot.
        with_times
            Whether times are asked for.

        Raises
        ------
        IndexingError
            As :meth:`lookup`.
        """
        whole = _answers.find((self._identity, ranges, with_objects, ()))
        if whole is not None:
            return replace(whole, n_entries_read=0).where(rows)
        bounds = self._keys.candidates(ranges)
        while True:
            placement = self._placed(with_objects=with_objects)
            spans = placement.part_of_span[rows.touch(placement.spans)]
            parts = [placement.parts[place] for place in np.unique(spans).tolist()]
            kind = placement.object_kind
            try:
                return look_up(parts, bounds, kind, rows=rows, with_times=with_times)
            except CorruptRunError as error:
                self._distrust(error)

    def _object_kind(self) -> KeyKind:
        key = self._snapshot.settings.key
        if key is None:
            raise IndexingError(
                f"the stream of index '{self.attribute}' has no key column that would tell "
                "objects apart; look up without objects, or name one when a stream is created"
            )
        return object_kind(self._snapshot.schema.field(key).type, key)

    def _placed(self, *, with_objects: bool = False) -> _Placement:
        with self._lock:
            if with_objects not in self._placements:
                self._placements[with_objects] = self._place(with_objects=with_objects)
            return self._placements[with_objects]

    def _distrust(self, error: CorruptRunError) -> None:
        with self._lock:
            name = Path(error.path).name
            if name in self._names:  # else another thread met it first
                self._names.remove(name)
                self._damage = (*self._damage, error)
                self._placements.clear()

    def _place(self, *, with_objects: bool) -> _Placement:
        opened = self._open_runs()
        of_key = self._object_kind() if with_objects else None
        if with_objects:
            # Written without objects: their files are tail to lookups that ask for them.
            opened = [run for run in opened if run.object_kind is of_key]
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
            TailFile(self._snapshot, file, self.attribute, self._kind, of_key)
            for file in self._snapshot.files
            if file.name not in covered
        ]
        parts: tuple[PlacedRun | TailFile, ...] = (*runs, *tail)
        spans = [part.spans for part in parts]
        return _Placement(
            tuple(opened),
            tuple(runs),
            tuple(tail),
            parts,
            np.concatenate([np.empty((0, 2), dtype=np.int64), *spans]),
            np.repeat(np.arange(len(parts)), [len(span) for span in spans]),
            of_key,
            identity=object(),
        )

    def _open_runs(self) -> list[Run]:
        folder = Path(self._snapshot.stream_dir) / INDEX_FOLDER / self.attribute
        opened: list[Run] = []
        live = {file.name for file in self._snapshot.files}
        for name in tuple(self._names):
            if is_of_one_file(name) and name not in live:
                continue  # it serves older snapshots; after many rewrites there are many of them
            try:
                opened.append(_cached_run(folder / name, self.attribute, self._kind))
            except CorruptRunError as error:
                self._names.remove(name)
                self._damage = (*self._damage, error)
        return opened

    def _to_placed(self, run: Run, taken: frozenset[str]) -> PlacedRun:
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
    key = (str(snapshot.stream_dir), snapshot.version)
    known = _sets.find(key)
    if known is not None and known.snapshot is snapshot and _is_current(known):
        return known
    stream_dir = Path(snapshot.stream_dir)
    tables, faults = {}, []
    derived = snapshot.settings.derived
    for attribute in indexed_attributes(stream_dir, snapshot.schema.names, derived):
        try:
            state = delta_log.load_table(stream_dir / INDEX_FOLDER / attribute)
            names = tuple(sorted(file.name for file in state.files))
            tables[attribute] = RunTable(state.version, names)
        except ExhaustedError:
            raise
        except StorageError as error:
            tables[attribute] = RunTable(version=-1, names=())
            faults.append(
                f"the runs of index '{attribute}' are not known ({error}); answers stay right "
                f"without them{'' if isinstance(error, UnreadFileError) else _MENDED}"
            )
    opened = IndexSet(snapshot, tables, faults)
    if not faults:
        _sets.put(key, opened)
    return opened


def _is_current(known: IndexSet) -> bool:
    """Return whether the indexes of a stream are those, at the versions they were opened at."""
    stream_dir = known.snapshot.stream_dir
    names = known.snapshot.schema.names, known.snapshot.settings.derived
    return index_folders(stream_dir, *names) == known.attributes and all(
        _is_latest(f"{stream_dir}/{INDEX_FOLDER}/{attribute}", table.version)
        for attribute, table in known.tables.items()
    )


def _is_latest(table: str, version: int) -> bool:
    """Return whether a version is the newest; an index made anew may not have come so far yet."""
    after = delta_log.version_exists_after
    return after(table, version - 1) and not after(table, version)


def clear_answers() -> None:
    """Forget the answers of lookups, as benchmarks of repeated queries need."""
    _answers.clear()


def clear_caches() -> None:
    """Forget answers, opened runs, memtables and listings, as benchmarks of a cold start need."""
    for cache in (_answers, _runs, _sets):
        cache.clear()
    clear_memtables()


def _cached_run(path: Path, attribute: str, kind: KeyKind) -> Run:
    """Open a run, or return it opened before; a file that was replaced is opened anew."""
    try:
        stat = path.stat()
    except FileNotFoundError as error:
        raise CorruptRunError(str(path), "the file is missing") from error
    except OSError as error:
        raise CorruptRunError.of(path, error) from error
    run = _runs.get((str(path), stat.st_size, stat.st_mtime_ns), lambda: open_run(path))
    run.check_keys(attribute, kind)
    return run
