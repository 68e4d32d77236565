"""One sorted run of entries, in a file or in memory, read by row group."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from indexing.bounds import Bounds
from indexing.config import MERGE_GROUPS, SKIPPED_BYTES_MIN
from indexing.cover import Segments
from indexing.entries import Entries
from indexing.errors import CorruptRunError
from indexing.fences import Fences, Selection
from indexing.keys import KeyKind, to_comparable
from indexing.pages import PADDING, Pages
from indexing.run_format import CoveredFile, Places, RunHead, parse_footer, read_footer
from indexing.scratch import Room, Scratch
from indexing.within.row_mask import Kept, RowMask

# What is decoded at once never outlives the lookup, so it may be overwritten by the next.
_raw, _decoded = Scratch(), Scratch()

_ROOMY_GROUPS = 5  # so many that two rims with nothing admitted waste less than half
_NONE_ADMITTED = np.empty(0, dtype=bool)


@dataclass(frozen=True, slots=True)
class Found:
    """Entries of a run with keys in some ranges, without their keys.

    Attributes
    ----------
    position, t
        int64 arrays.
    cuts
        int64 array: positions ascend in each piece ``cuts[i]:cuts[i + 1]``.
    n_entries_read, n_bytes_read
        What it took to find them.
    is_placed
        Whether position and t lie where the room given is free; else they are overwritten when
        the thread reads the next run.
    objects
        Their objects, if asked for: int64, string or dictionary array.
    """

    position: np.ndarray
    t: np.ndarray
    cuts: np.ndarray
    n_entries_read: int
    n_bytes_read: int
    is_placed: bool
    objects: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class GroupEntries:
    """Entries of some row groups, one group after the other.

    Attributes
    ----------
    numbers
        int64 or float64 array: keys; of strings, codes.
    words
        The strings codes stand for, in no order, some perhaps twice; None for other keys.
    t, position
        int64 arrays.
    objects
        Their objects if the run has any: int64 or dictionary array, which may hold a string
        more than once.
    """

    numbers: np.ndarray
    words: pa.StringArray | None
    t: np.ndarray
    position: np.ndarray
    objects: pa.Array | None

    @property
    def keys(self) -> np.ndarray:
        """The keys: int64, float64 or object (str) array."""
        return self.numbers if self.words is None else to_comparable(self.words)[self.numbers]


class Run(Protocol):
    """What a lookup needs of a run, on disk or in memory."""

    @property
    def kind(self) -> KeyKind:
        """How its keys are held."""
        ...

    @property
    def object_kind(self) -> KeyKind | None:
        """How the objects are held, if its entries carry any."""
        ...

    @property
    def fences(self) -> Fences:
        """Key range and count of its row groups."""
        ...

    @property
    def cover(self) -> tuple[CoveredFile, ...]:
        """Data files whose entries it holds."""
        ...

    def find(
        self,
        selection: Selection,
        bounds: Bounds,
        *,
        shift: int,
        room: Room,
        with_objects: bool = False,
    ) -> Found:
        """Return the entries of the selected groups with keys in ``bounds``.

        ``shift`` is added to every position. ``room`` has place for all entries of the groups;
        what may be final is written to where it is free, and is not yet kept.
        """
        ...

    def find_within(
        self,
        selection: Selection,
        bounds: Bounds,
        segments: Segments,
        rows: RowMask,
        *,
        with_times: bool,
        with_objects: bool,
    ) -> Kept:
        """Return the entries of the selected groups with keys in ``bounds`` that ``rows`` leaves.

        ``segments`` say where the run's positions lie in the stream; at least one group is
        selected.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """A run in memory: the memtable of one data file of the tail."""

    kind: KeyKind
    cover: tuple[CoveredFile, ...]
    entries: Entries
    object_kind: KeyKind | None = None

    @property
    def fences(self) -> Fences:
        """Key range and count of the row groups."""
        return self.entries.fences

    @property
    def size_bytes(self) -> int:
        """Memory the entries take."""
        e = self.entries
        objects = 0 if e.objects is None else e.objects.nbytes
        return int(e.keys.nbytes + e.t.nbytes + e.position.nbytes + objects)

    def find(
        self,
        selection: Selection,
        bounds: Bounds,
        *,
        shift: int,
        room: Room,
        with_objects: bool = False,
    ) -> Found:
        """Return the entries of the selected groups with keys in ``bounds``."""
        e = self.entries
        pieces, n_read = [np.empty(0, dtype=np.int64)], 0
        for group, rim in zip(selection.groups.tolist(), selection.rim.tolist(), strict=True):
            first, end = int(e.cuts[group]), int(e.cuts[group + 1])
            n_read += end - first
            if rim:
                admitted = bounds.contains(e.keys.slice(first, end - first))
                pieces.append(first + np.flatnonzero(admitted))
            else:
                pieces.append(np.arange(first, end))
        at = np.concatenate(pieces)
        position, t = room.free(len(at))
        np.add(e.position[at], shift, out=position)
        t[:] = e.t[at]
        cuts = np.cumsum([len(piece) for piece in pieces])
        objects = None
        if with_objects:
            assert e.objects is not None, "asked of runs with objects only"
            objects = e.objects.take(pa.array(at))
        return Found(position, t, cuts, n_read, 0, is_placed=True, objects=objects)

    def find_within(
        self,
        selection: Selection,
        bounds: Bounds,
        segments: Segments,
        rows: RowMask,
        *,
        with_times: bool,
        with_objects: bool,
    ) -> Kept:
        """Return the entries of the selected groups with keys in ``bounds`` that ``rows`` leaves.

        They are in memory, so none is left out before it is read.
        """
        room = Room(int(self.fences.count[selection.groups].sum()))
        found = self.find(selection, bounds, shift=0, room=room, with_objects=with_objects)
        segments.place(found.position)
        t = found.t if with_times else None
        every = Kept(found.position, t, found.cuts, found.n_entries_read, 0, found.objects)
        return every.where(rows)


@dataclass(frozen=True, slots=True)
class FileRun:
    """An opened run file. Reads are thread-safe.

    Attributes
    ----------
    checked
        bool array: whether the bytes of a row group were found to match their checksum. Files
        never change once committed, so once per opened run is enough.
    """

    path: Path
    head: RunHead
    places: Places
    size_bytes: int
    checked: np.ndarray = field(repr=False)

    @property
    def kind(self) -> KeyKind:
        """How the keys are held."""
        return self.head.kind

    @property
    def object_kind(self) -> KeyKind | None:
        """How the objects are held, if the entries carry any."""
        objects = self.head.layout.objects
        return None if objects is None else objects.kind

    @property
    def fences(self) -> Fences:
        """Key range and count of the row groups."""
        return self.head.fences

    @property
    def cover(self) -> tuple[CoveredFile, ...]:
        """Data files whose entries the run holds."""
        return self.head.cover

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the opened run holds in memory, fences and footer."""
        fences = self.fences
        keys = [k for k in (fences.low, fences.high) if k.dtype == object]
        strings = sum(len(key) for column in keys for key in column)
        return strings + 300 * (1 + len(fences)) + 200 * len(self.cover)

    def find(
        self,
        selection: Selection,
        bounds: Bounds,
        *,
        shift: int,
        room: Room,
        with_objects: bool = False,
    ) -> Found:
        """Return the entries of the selected groups with keys in ``bounds``.

        Raises
        ------
        CorruptRunError
            If the file is gone or its bytes do not match their checksum.
        """
        rim = selection.rim
        pages = self._read_pages(selection.groups, rim)
        has_rim = bool(rim.any())
        admitted = pages.admitted(np.flatnonzero(rim), bounds) if has_rim else _NONE_ADMITTED
        fences, first, last = self.fences, selection.groups[0], selection.groups[-1]
        # Entries of one key ascend from group to group. Others interleave, so what they are
        # decoded to is copied on anyway, as is what may turn out a small part of fresh memory.
        ascends = first == last or bounds.is_one_key or bool(fences.low[first] == fences.high[last])
        is_final = ascends and (not has_rim or len(rim) >= _ROOMY_GROUPS)
        n_read = int(pages.counts.sum())
        into = room.free(n_read) if is_final else _decoded.borrow_two(n_read)
        position, t, cuts = pages.decode(rim, admitted, shift=shift, into=into)
        return Found(
            position,
            t,
            cuts,
            n_read,
            len(pages.data) - PADDING,
            is_placed=is_final,
            objects=pages.objects(rim, admitted) if with_objects else None,
        )

    def find_within(
        self,
        selection: Selection,
        bounds: Bounds,
        segments: Segments,
        rows: RowMask,
        *,
        with_times: bool,
        with_objects: bool,
    ) -> Kept:
        """Return the entries of the selected groups with keys in ``bounds`` that ``rows`` leaves.

        Raises
        ------
        CorruptRunError
            If the file is gone or its bytes do not match their checksum.
        """
        return self._read_pages(selection.groups, selection.rim).within(
            selection.rim,
            bounds,
            self.fences.precede_next(selection.groups),
            segments,
            rows,
            with_times=with_times,
            with_objects=with_objects,
        )

    def read(self, groups: np.ndarray) -> GroupEntries:
        """Return the entries of ``groups`` (ascending) with their keys.

        Raises
        ------
        CorruptRunError
            If the file is gone or its bytes do not match their checksum.
        """
        whole = np.zeros(len(groups), dtype=bool)
        pages = self._read_pages(groups, ~whole)
        n = int(pages.counts.sum())
        room = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        position, t, _ = pages.decode(whole, _NONE_ADMITTED, shift=0, into=room)
        numbers, words = pages.keys()
        objects = None
        if self.object_kind is not None:
            objects = pages.objects(whole, _NONE_ADMITTED, is_unique=False)
        return GroupEntries(numbers, words, t, position, objects)

    def check(self) -> None:
        """Compare all entries with their checksums, some row groups at a time.

        Raises
        ------
        CorruptRunError
            If the file is gone or its bytes do not match their checksum.
        """
        for first in range(0, len(self.fences), MERGE_GROUPS):
            groups = np.arange(first, min(len(self.fences), first + MERGE_GROUPS))
            self._read_pages(groups, np.ones(len(groups), dtype=bool))

    def _read_pages(self, groups: np.ndarray, with_keys: np.ndarray) -> Pages:
        """Read and check the bytes of ``groups`` (ascending, at least one).

        ``with_keys`` says of which of them keys are wanted; those of others are left out where
        that pays. A checksum is of a whole group, so they are read once.
        """
        from indexing.kernels import lay_out

        places, n = self.places, len(groups)
        n_columns = places.pages.shape[1]
        firsts, stops, ends = np.empty((3, n), dtype=np.int64)
        pages = np.empty((n, n_columns), dtype=np.int64)
        dictionaries = np.empty((n, n_columns, 2), dtype=np.int64)
        n_stretches = lay_out(
            groups,
            with_keys | ~self.checked[groups],
            (places.starts, places.pages, places.dictionaries),
            SKIPPED_BYTES_MIN,
            (firsts, stops),
            (ends, pages, dictionaries),
        )
        stretches = zip(firsts[:n_stretches].tolist(), stops[:n_stretches].tolist(), strict=True)
        try:
            data = _read_stretches(self.path, stretches, int(ends[-1]))
        except FileNotFoundError as error:
            raise CorruptRunError(str(self.path), "the file is missing") from error
        except OSError as error:
            raise CorruptRunError.of(self.path, error) from error
        self._check(groups, data, ends)
        return Pages(
            data,
            np.ndarray((len(data) - PADDING + 1,), np.int64, data.data, 0, (1,)),
            self.head.layout,
            pages,
            dictionaries,
            self.fences.count[groups],
        )

    def _check(self, groups: np.ndarray, data: np.ndarray, ends: np.ndarray) -> None:
        """Compare checksums of groups not checked before, whose bytes end at ``ends``."""
        for i in np.flatnonzero(~self.checked[groups]).tolist():
            group, end = int(groups[i]), int(ends[i])
            start = end - int(self.places.starts[group + 1] - self.places.starts[group])
            if zlib.crc32(data.data[start:end]) != int(self.places.crc[group]):
                raise CorruptRunError(
                    str(self.path), f"the checksum of its row group {group} differs"
                )
            self.checked[group] = True


def open_run(path: Path) -> FileRun:
    """Return the run in a file, its footer checked, no entry read.

    Raises
    ------
    CorruptRunError
        If the file is missing, is no run, or its footer is damaged.
    """
    try:
        with path.open("rb") as file:
            footer = read_footer(file)
            size = file.seek(0, os.SEEK_END)
        head, places = parse_footer(footer, str(path))
    except FileNotFoundError as error:
        raise CorruptRunError(str(path), "the file is missing") from error
    except (OSError, ValueError) as error:
        raise CorruptRunError.of(path, error) from error
    return FileRun(path, head, places, size, np.zeros(len(head.fences), dtype=bool))


def _read_stretches(path: Path, stretches: Iterable[tuple[int, int]], n_bytes: int) -> np.ndarray:
    """Return the bytes ``first:stop`` of stretches of a file, joined and padded, as scratch.

    Raises
    ------
    OSError
        If the file cannot be read or is too short.
    """
    data = _raw.borrow(n_bytes + PADDING)
    data[-PADDING:] = 0
    free, at = data.data, 0
    file = os.open(path, os.O_RDONLY)
    try:
        for first, stop in stretches:
            while first < stop:
                n = os.preadv(file, (free[at : at + stop - first],), first)
                if not n:
                    raise OSError(f"it ends before byte {stop}")
                first, at = first + n, at + n
    finally:
        os.close(file)
    return data
