"""Write files anew: merge late events in, join neighbours, or leave a stretch of time out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.ordinal import pieces_of
from chronicle.settings import StreamSettings
from chronicle.time import times_of, to_int64
from chronicle.tree.blocks import BlockReader
from chronicle.write.block_writer import WrittenFile, removed_on_failure, write_file


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Which files are replaced by what; the new ones stand where the old ones stood."""

    files: tuple[str, ...]
    """Neighbours in stream order."""

    ordinal: str
    """That of the first of them, which the new files inherit."""

    drop: tuple[int, int] | None = None
    """Internal times: events of [start, stop) are left out."""


def rewrite_files(
    task: Rewrite,
    *,
    events_dir: Path,
    target_dir: Path,
    schema: pa.Schema,
    settings: StreamSettings,
    derived: DerivedWriter | None = None,
    late: pa.Table | None = None,
) -> list[WrittenFile]:
    """Write the files that take the place of others; commit nothing.

    ``events_dir`` is read; ``target_dir`` is the stream's folder, or one staged for it. ``late``
    are events to merge in, in order of (time, arrival). The files returned are in stream order and
    of about equal size; none if no event is left. On any exception nothing is left behind.
    """
    reader = BlockReader(events_dir, schema)
    events = pa.concat_tables([reader.read_file(name) for name in task.files])
    if late is not None:
        events = merge_late(events, late, settings.time)
    if task.drop is not None:
        events = without(events, task.drop, settings.time)
    cuts = even_cuts(events.num_rows, settings.file_events, settings.block_events)
    with removed_on_failure(target_dir) as written:
        ordinals = pieces_of(task.ordinal, len(cuts) - 1)
        for ordinal, (start, stop) in zip(ordinals, pairwise(cuts), strict=True):
            piece = events.slice(start, stop - start).combine_chunks()
            times = to_int64(piece.column(settings.time), name=settings.time)
            written.append(write_file(ordinal, piece, times, target_dir, settings, derived))
    return written


def merge_late(events: pa.Table, late: pa.Table, time: str) -> pa.Table:
    """Merge late events into those that arrived before them. Pure.

    Both are in order of (time, arrival) and of one schema; of equal times come first ``events``,
    then ``late``.
    """
    both = pa.concat_tables([events, late])
    order = np.argsort(times_of(both, time), kind="stable")
    return both.take(pa.array(order))


def without(events: pa.Table, drop: tuple[int, int], time: str) -> pa.Table:
    """Return events in order of time but for those of [start, stop). Pure."""
    first, last = np.searchsorted(times_of(events, time), drop, "left").tolist()
    return pa.concat_tables([events.slice(0, first), events.slice(max(first, last))])


def even_cuts(n_events: int, file_events: int, block_events: int) -> Sequence[int]:
    """Return where ``n_events`` are cut into as few files as hold them, of about equal size. Pure.

    A file that is full is halved instead of filled up anew, so the next late event finds room.
    All files but the last hold whole blocks, unless that would take a file more.
    """
    if n_events == 0:
        return [0]
    n_files = -(-n_events // file_events)
    size = -(-n_events // n_files)
    whole = -(-size // block_events) * block_events
    size = whole if whole <= file_events else min(size, file_events)
    return [*range(0, n_events, size), n_events]
