"""Merge k runs into one, in memory bounded by the groups in hand.

Entries on the way have their keys as numbers that sort as the keys do (`Ranked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.derived import DerivedFile
from chronicle.disk import writing
from indexing.config import FENCE_ENTRIES, MERGE_GROUPS
from indexing.cover import Segments, choose_runs
from indexing.entries import choose_cuts, code_by_group, code_keys, find_words, number_keys
from indexing.errors import IndexingError
from indexing.keys import KeyKind
from indexing.objects import join_objects
from indexing.run import GroupEntries, Run, open_run
from indexing.run_format import CoveredFile, RunFileWriter, RunHead, TimeScale
from indexing.tables import index_table

_ALL_BUT_SIGN = np.int64((1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Entries in any order."""

    kind: KeyKind
    rank: np.ndarray
    """int64: sorts as the keys do. Integers themselves; the bits of doubles, those of negative ones
    but the sign turned over; places of strings in ``words``."""
    words: pa.StringArray | None
    """The strings, ascending, none twice; None for other keys."""
    position: np.ndarray
    """int64: row over the files of the merged run."""
    t: np.ndarray
    objects: pa.Array | None

    def __len__(self) -> int:
        return len(self.rank)

    @classmethod
    def of(cls, read: GroupEntries, kind: KeyKind, *, with_objects: bool) -> Ranked:
        """Return what was read of a run; strings are not in order before :func:`align`."""
        rank = _to_rank(read.numbers) if kind is KeyKind.DOUBLE else read.numbers
        objects = read.objects if with_objects else None
        return cls(kind, rank, read.words, read.position, read.t, objects)

    @classmethod
    def nothing(cls, head: RunHead) -> Ranked:
        """Return no entries of a run."""
        none = np.empty(0, dtype=np.int64)
        words = pa.array([], pa.string()) if head.kind is KeyKind.STRING else None
        objects = head.object_kind and pa.array([], head.object_kind.arrow_type)
        return cls(head.kind, none, words, none, none, objects)

    def take(self, places: np.ndarray) -> Ranked:
        """Return the entries at ``places``, in that order."""
        objects = self.objects
        return replace(
            self,
            rank=self.rank[places],
            position=self.position[places],
            t=self.t[places],
            objects=None if objects is None else objects.take(pa.array(places)),
        )

    def order(self) -> np.ndarray:
        """Return the places of the entries in order of (key, position), an int64 array."""
        return np.lexsort((self.position, self.rank))

    def last(self) -> tuple[int, int]:
        """Return (rank, position) of the entry that comes last."""
        rank = self.rank.max()
        return int(rank), int(self.position[self.rank == rank].max())

    def split(self, bound: tuple[int, int] | None) -> tuple[Ranked, Ranked | None]:
        """Return what does not come after (rank, position), and the rest if there is any."""
        if bound is None:
            return self, None
        rank, position = bound
        early = (self.rank < rank) | ((self.rank == rank) & (self.position <= position))
        if early.all():
            return self, None
        return self.take(np.flatnonzero(early)), self.take(np.flatnonzero(~early))

    def key_words(self, rank: np.ndarray) -> pa.Array:
        """Return the keys that ranks stand for: int64, double or string array."""
        if self.words is not None:
            return self.words.take(pa.array(rank))
        return pa.array(_from_rank(rank) if self.kind is KeyKind.DOUBLE else rank)

    def plain(self) -> Ranked:
        """Return the same entries, whose objects share no dictionary with others."""
        if self.objects is None or not pa.types.is_dictionary(self.objects.type):
            return self
        return replace(self, objects=self.objects.cast(self.objects.type.value_type))


def align(parts: Sequence[Ranked]) -> list[Ranked]:
    """Return parts whose ranks can be compared with each other, at least one.

    Words that no entry has any more are dropped.
    """
    if parts[0].words is None:
        return list(parts)
    slim = [_slimmed(part) for part in parts]
    encoded = pa.concat_arrays([part.words for part in slim]).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    rank_of_word = rank[encoded.indices.to_numpy()]
    words = encoded.dictionary.take(order)
    starts = np.cumsum([0, *(len(part.words or ()) for part in slim)])
    return [
        replace(part, rank=rank_of_word[start + part.rank], words=words)
        for part, start in zip(slim, starts.tolist(), strict=False)
    ]


def join(parts: Sequence[Ranked]) -> Ranked:
    """Return the entries of all parts, at least one, that are aligned."""
    objects = None
    if parts[0].objects is not None:
        objects = join_objects([part.objects for part in parts], is_unique=False)
    return Ranked(
        parts[0].kind,
        np.concatenate([part.rank for part in parts]),
        parts[0].words,
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.t for part in parts]),
        objects,
    )


def _slimmed(part: Ranked) -> Ranked:
    assert part.words is not None
    used = np.bincount(part.rank, minlength=len(part.words)) > 0
    if used.all():
        return part
    places = np.cumsum(used) - 1
    return replace(part, rank=places[part.rank], words=part.words.filter(pa.array(used)))


def _to_rank(doubles: np.ndarray) -> np.ndarray:
    bits = doubles.view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & _ALL_BUT_SIGN))


def _from_rank(rank: np.ndarray) -> np.ndarray:
    return np.asarray(rank ^ ((rank >> 63) & _ALL_BUT_SIGN)).view(np.float64)


# ---------------------------------------------------------------------------------------------
# The merge


class _RunStream:
    """Entries of a run that go into the merged one, some groups at a time.

    ``segments`` says where positions of the run lie in the merged one.
    """

    def __init__(self, run: Run, segments: Segments, *, with_objects: bool) -> None:
        self._run = run
        self._segments = segments
        self._with_objects = with_objects
        self._next_group = 0
        self._left = np.array([c.n_entries for c in run.cover], dtype=np.int64)
        self._ends = np.cumsum([c.n_events for c in run.cover], dtype=np.int64)
        self.ready: Ranked | None = None

    @property
    def has_more(self) -> bool:
        return self._next_group < len(self._run.fences)

    def fill(self) -> None:
        """Read on until entries are ready or the run ends."""
        while self.ready is None and self.has_more:
            end = min(self._next_group + MERGE_GROUPS, len(self._run.fences))
            read = self._run.read(np.arange(self._next_group, end))
            self._next_group = end
            with self._run.stated():
                self._count(read.position)
            self._segments.place(read.position)
            live = np.flatnonzero(read.position >= 0)
            if len(live):
                part = Ranked.of(read, self._run.kind, with_objects=self._with_objects)
                self.ready = part if len(live) == len(part) else part.take(live)

    def _count(self, position: np.ndarray) -> None:
        """Check that the files covered have the entries they should: the merged run says so too."""
        of_file = np.searchsorted(self._ends, position, side="right")
        self._left -= np.bincount(of_file, minlength=len(self._left))
        if (self._left < 0).any() or (not self.has_more and self._left.any()):
            raise ValueError("its files have other numbers of entries than it says")


def merge_runs(
    stream_dir: Path,
    attribute: str,
    names: Sequence[str],
    *,
    live: Sequence[str],
    target: str,
    fence_entries: int = FENCE_ENTRIES,
) -> DerivedFile:
    """Write one run with the entries of several; commit nothing.

    The result equals a run built from the live files at once. Entries of files that do not live
    are dropped, and those files leave the cover. A file that two of the runs cover is taken from
    one. Entries carry their objects if those of all runs do.

    Parameters
    ----------
    stream_dir
        Folder of the stream.
    attribute
        Whose runs they are.
    names
        File names of the runs, at least one.
    live
        Names of the live data files in stream order.
    target
        File name of the new run.

    Raises
    ------
    CorruptRunError
        If a run is missing or damaged; nothing is left behind.
    IndexingError
        If the runs hold keys or objects of different types, or data files in another order than
        ``live``.
    """
    folder = stream_dir / index_table(attribute)
    runs = [open_run(folder / name) for name in names]
    with_objects = all(run.object_kind is not None for run in runs)
    cover, streams = _plan_streams(runs, live, with_objects=with_objects)
    path = folder / target
    head = _choose_head(attribute, runs, cover, with_objects=with_objects)
    with writing(path), closing(_GroupWriter(path, head, fence_entries)) as writer:
        _merge(streams, writer)
        size_bytes = writer.finish()
    return DerivedFile(index_table(attribute), target, size_bytes, head.n_entries)


def _choose_head(
    attribute: str, runs: Sequence[Run], cover: Sequence[CoveredFile], *, with_objects: bool
) -> RunHead:
    kinds = {run.kind for run in runs}
    if len(kinds) != 1:
        raise IndexingError(f"runs of '{attribute}' to merge hold keys of {len(kinds)} types")
    object_kinds = {run.object_kind for run in runs} if with_objects else {None}
    if len(object_kinds) != 1:
        raise IndexingError(
            f"runs of '{attribute}' to merge hold objects of {len(object_kinds)} types"
        )
    scale = TimeScale.merged([run.head.scale for run in runs if run.head.n_entries])
    return RunHead(attribute, kinds.pop(), object_kinds.pop(), scale, tuple(cover))


def _plan_streams(
    runs: Sequence[Run], live: Sequence[str], *, with_objects: bool
) -> tuple[list[CoveredFile], list[_RunStream]]:
    """Return the cover of the merged run, in stream order, and what to read."""
    order = {name: i for i, name in enumerate(live)}
    n_events = {c.name: c.n_events for run in runs for c in run.cover if c.name in order}
    chosen = [set(taken) for taken in choose_runs([run.cover for run in runs], n_events)]
    cover = sorted(
        (c for run, taken in zip(runs, chosen, strict=True) for c in run.cover if c.name in taken),
        key=lambda c: order[c.name],
    )
    first, n = {}, 0
    for covered in cover:
        first[covered.name] = n
        n += covered.n_events
    streams = []
    for run, taken in zip(runs, chosen, strict=True):
        segments = Segments.of(run.cover, {name: first[name] for name in taken})
        if not segments.ascends:
            raise IndexingError(
                f"run '{run.path}' holds data files in another order than the stream; "
                "'chronicle repair' writes it anew"
            )
        streams.append(_RunStream(run, segments, with_objects=with_objects))
    return cover, streams


def _merge(streams: Sequence[_RunStream], writer: _GroupWriter) -> None:
    """Merge until all runs are read.

    What comes after the last entry in hand of any run that has more may still be overtaken by
    that run, so each round hands on the entries up to the least of these.
    """
    while True:
        for stream in streams:
            stream.fill()
        in_hand = [(stream, stream.ready) for stream in streams if stream.ready is not None]
        if not in_hand:
            return
        writer.pending, *aligned = align([writer.pending, *(ready for _, ready in in_hand)])
        open_ends = [
            ready.last()
            for (stream, _), ready in zip(in_hand, aligned, strict=True)
            if stream.has_more
        ]
        bound = min(open_ends, default=None)
        handed = []
        for (stream, _), ready in zip(in_hand, aligned, strict=True):
            early, stream.ready = ready.split(bound)
            handed.append(early)
        writer.append(handed)


class _GroupWriter:
    """Cuts merged entries into groups, as a run built at once would be cut.

    ``pending`` are the entries taken and not yet written, in order of (key, position).
    """

    def __init__(self, path: Path, head: RunHead, fence_entries: int) -> None:
        self._fence_entries = fence_entries
        self._file = RunFileWriter(path, head)
        self.pending = Ranked.nothing(head)

    def append(self, parts: Sequence[Ranked]) -> None:
        """Take entries that come after all taken before; all parts are aligned."""
        self._write_groups(join([self.pending, *parts]), open_end=True)

    def finish(self) -> int:
        """Write the rest; return the size of the file in bytes."""
        self._write_groups(self.pending, open_end=False)
        return self._file.finish()

    def close(self) -> None:
        """Let go of what was written."""
        self._file.close()

    def _write_groups(self, entries: Ranked, *, open_end: bool) -> None:
        order = entries.order()
        rank = entries.rank[order]
        changes = np.flatnonzero(rank[1:] != rank[:-1]) + 1
        cuts = choose_cuts(changes, len(rank), fence_entries=self._fence_entries, open_end=open_end)
        n = int(cuts[-1])
        numbers = number_keys(changes, order)
        places, word_cuts = find_words(changes, cuts)
        words = entries.key_words(rank[places])
        for first, end in pairwise(cuts.tolist()):
            group = order[first:end]
            group[:] = group[np.argsort(entries.position[group])]
        keys = code_keys(numbers[order[:n]], words, word_cuts, cuts)
        written = entries.take(order[:n])
        objects = None if written.objects is None else code_by_group(written.objects, cuts)
        self._file.append(keys, written.t, written.position, objects)
        self.pending = entries.take(order[n:]).plain()
