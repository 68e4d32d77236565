"""Merge k runs into one, in memory bounded by the groups in hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedFile
from chronicle.disk import writing
from indexing.config import FENCE_ENTRIES, MERGE_GROUPS
from indexing.cover import Segments, choose_runs
from indexing.entries import LooseEntries, rank_keys
from indexing.errors import IndexingError
from indexing.run import Run, open_run
from indexing.run_format import CoveredFile, RunFileWriter, RunHead, TimeScale
from indexing.tables import index_table


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
        self.ready: LooseEntries | None = None

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
            if not self._with_objects:
                read = replace(read, objects=None)
            live = np.flatnonzero(read.position >= 0)
            if len(live):
                self.ready = read if len(live) == len(read) else read.take(live)

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
    with writing(path), closing(RunFileWriter(path, head)) as writer:
        _merge(streams, writer, head, fence_entries)
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


def _merge(streams: Sequence[_RunStream], file: RunFileWriter, head: RunHead, size: int) -> None:
    """Write the entries of all runs in groups of at most ``size``, as a run built at once has them.

    What comes after the last entry in hand of any run that has more may still be overtaken by
    that run, so each round hands on the entries up to the least of these.
    """
    pending = _nothing(head)  # handed on, and of a group whose end is not known
    while True:
        for stream in streams:
            stream.fill()
        in_hand = [(stream, stream.ready) for stream in streams if stream.ready is not None]
        if not in_hand:
            break
        entries = LooseEntries.concat([pending, *(ready for _, ready in in_hand)])
        ranks, position = rank_keys(entries.keys), entries.position
        firsts = len(pending) + np.cumsum([0, *(len(ready) for _, ready in in_hand)])
        bounds = [
            _last(ranks[first:end], position[first:end])
            for (stream, _), first, end in zip(in_hand, firsts, firsts[1:], strict=False)
            if stream.has_more
        ]
        rank, last = min(bounds, default=_last(ranks, position))
        is_early = (ranks < rank) | ((ranks == rank) & (position <= last))
        for (stream, ready), first in zip(in_hand, firsts, strict=False):
            late = np.flatnonzero(~is_early[first : first + len(ready)])
            stream.ready = ready.take(late) if len(late) else None
        early = np.flatnonzero(is_early)
        groups, left = entries.grouped(early, ranks, fence_entries=size, open_end=True)
        file.append(groups)
        pending = entries.take(left).plain()
    every, ranks = np.arange(len(pending)), rank_keys(pending.keys)
    groups, _ = pending.grouped(every, ranks, fence_entries=size)
    file.append(groups)


def _last(ranks: np.ndarray, position: np.ndarray) -> tuple[int, int]:
    """Return rank and position of the entry that comes last."""
    rank = ranks.max()
    return int(rank), int(position[ranks == rank].max())


def _nothing(head: RunHead) -> LooseEntries:
    """Return no entries of a run."""
    none = np.empty(0, dtype=np.int64)
    objects = head.object_kind and pa.nulls(0, head.object_kind.arrow_type)
    return LooseEntries(pa.nulls(0, head.kind.arrow_type), none, none, objects)
