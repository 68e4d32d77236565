"""Merges runs into one, in memory bounded by the row groups in hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedFile
from indexing.config import FENCE_ENTRIES, MERGE_GROUPS
from indexing.cover import Segments, choose_runs
from indexing.entries import choose_cuts
from indexing.errors import IndexingError
from indexing.keys import KeyKind
from indexing.run import FileRun, open_run
from indexing.run_file import RunFileWriter, run_schema
from indexing.run_format import CoveredFile
from indexing.writer import index_table


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Entries in order of (key, position), positions being those of the new run."""

    keys: np.ndarray
    position: np.ndarray
    t: np.ndarray

    def __len__(self) -> int:
        return len(self.position)

    def split(self, at: int) -> tuple[_Sorted, _Sorted]:
        head = _Sorted(self.keys[:at], self.position[:at], self.t[:at])
        return head, _Sorted(self.keys[at:], self.position[at:], self.t[at:])

    def last(self) -> tuple[object, int]:
        return self.keys[-1], int(self.position[-1])

    def count_up_to(self, key: object, position: int) -> int:
        """Return how many entries do not come after (key, position)."""
        first = int(np.searchsorted(self.keys, key, side="left"))  # type: ignore[call-overload]
        end = int(np.searchsorted(self.keys, key, side="right"))  # type: ignore[call-overload]
        return first + int(np.searchsorted(self.position[first:end], position, side="right"))


class _RunStream:
    """Entries of a run that go into the merged one, some row groups at a time.

    ``segments`` says where positions of the run lie in the merged one.
    """

    def __init__(self, run: FileRun, segments: Segments) -> None:
        self._run = run
        self._segments = segments
        self._next_group = 0
        self.ready = _join([], run.kind)

    @property
    def has_more(self) -> bool:
        return self._next_group < len(self._run.fences)

    def fill(self) -> None:
        """Read on until entries are ready or the run ends."""
        while not len(self.ready) and self.has_more:
            end = min(self._next_group + MERGE_GROUPS, len(self._run.fences))
            read = self._run.read(np.arange(self._next_group, end))
            self._next_group = end
            self._segments.place(read.position)
            live = read.position >= 0
            part = _Sorted(read.keys[live], read.position[live], read.t[live])
            self.ready = _join([part], self._run.kind)

    def take(self, bound: tuple[object, int] | None) -> _Sorted:
        """Hand out what does not come after ``bound``; everything if there is none."""
        at = len(self.ready) if bound is None else self.ready.count_up_to(*bound)
        taken, self.ready = self.ready.split(at)
        return taken


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
    one.

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
        If the runs hold keys of different types.
    """
    folder = stream_dir / index_table(attribute)
    runs = [open_run(folder / name) for name in names]
    kinds = {run.kind for run in runs}
    if len(kinds) != 1:
        raise IndexingError(f"runs of '{attribute}' to merge hold keys of {len(kinds)} types")
    cover, streams = _plan_streams(runs, live)
    path = folder / target
    writer = _GroupWriter(path, attribute, kinds.pop(), fence_entries)
    try:
        _merge(streams, writer)
        size_bytes, n_rows = writer.finish(cover), sum(c.n_entries for c in cover)
    except BaseException:
        writer.abandon()
        raise
    return DerivedFile(index_table(attribute), target, size_bytes, n_rows)


def _plan_streams(
    runs: Sequence[FileRun], live: Sequence[str]
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
    streams = [
        _RunStream(run, Segments.of(run.cover, {name: first[name] for name in taken}))
        for run, taken in zip(runs, chosen, strict=True)
    ]
    return cover, streams


def _merge(streams: Sequence[_RunStream], writer: _GroupWriter) -> None:
    """Merge until all runs are read.

    What comes after the last entry in hand of any run that has more may still be overtaken by
    that run, so each round hands on the entries up to the least of these.
    """
    while True:
        for stream in streams:
            stream.fill()
        if not any(len(stream.ready) for stream in streams):
            return
        open_ends = [s.ready.last() for s in streams if s.has_more]
        bound = min(open_ends, default=None)
        writer.append([stream.take(bound) for stream in streams])


class _GroupWriter:
    """Cuts merged entries into row groups, as a run built at once would be cut."""

    def __init__(self, path: Path, attribute: str, kind: KeyKind, fence_entries: int) -> None:
        self._path = path
        self._kind = kind
        self._fence_entries = fence_entries
        self._pending = _join([], kind)
        self._file = RunFileWriter(path, attribute=attribute, kind=kind)

    def append(self, parts: Sequence[_Sorted]) -> None:
        """Take entries that come after all taken before."""
        self._pending = _join([self._pending, *parts], self._kind)
        self._write_groups(open_end=True)

    def finish(self, cover: Sequence[CoveredFile]) -> int:
        """Write the rest and the footer; return the size of the file in bytes."""
        self._write_groups(open_end=False)
        self._file.finish(cover)
        return self._path.stat().st_size

    def abandon(self) -> None:
        self._file.abandon()

    def _write_groups(self, *, open_end: bool) -> None:
        keys = self._pending.keys
        cuts = choose_cuts(
            np.flatnonzero(keys[1:] != keys[:-1]) + 1,
            len(keys),
            fence_entries=self._fence_entries,
            open_end=open_end,
        )
        for first, end in pairwise(cuts.tolist()):
            order = first + np.argsort(self._pending.position[first:end])
            group = pa.Table.from_arrays(
                [
                    pa.array(keys[order], self._kind.arrow_type),
                    pa.array(self._pending.t[order]),
                    pa.array(self._pending.position[order]),
                ],
                schema=run_schema(self._kind),
            )
            self._file.write_group(group, keys[first], keys[end - 1])
        self._pending = self._pending.split(int(cuts[-1]))[1]


def _join(parts: Sequence[_Sorted], kind: KeyKind) -> _Sorted:
    """Return the entries of all parts in order of (key, position)."""
    empty = np.empty(0, dtype=np.int64)
    keys = np.concatenate([np.empty(0, dtype=kind.numpy_type), *(p.keys for p in parts)])
    position = np.concatenate([empty, *(p.position for p in parts)])
    t = np.concatenate([empty, *(p.t for p in parts)])
    by_position = np.argsort(position, kind="stable")
    order = by_position[np.argsort(keys[by_position], kind="stable")]
    return _Sorted(keys[order], position[order], t[order])
