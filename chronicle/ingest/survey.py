"""Look at the times of all events once, to know whether they must be sorted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from chronicle.ingest.columns import BLOCK_START, POSITION, TIME

LATE_SHOWN_MAX = 3
"""Late events named in a message."""


@dataclass(frozen=True, slots=True)
class Split:
    """What was seen in one piece of a file, which one task reads from end to end."""

    position: int
    """Of the file among the sources."""

    block_start: int
    """Row group at which it begins."""

    n_usable: int
    """Records with a time, and without a fault."""

    n_bad: int
    """Records that go to the quarantine."""

    first: int
    last: int
    t_min: int
    t_max: int
    """Times of the usable records in arrival order, and their extremes; 0 if there are none."""

    ordered: bool
    """Whether no usable record is older than the one before it."""

    n_late: int
    """Usable records older than the stream's end."""

    late: tuple[int, ...]
    """Times of the first of them."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What was seen in all splits."""

    splits: tuple[Split, ...]
    """In arrival order."""

    n_usable: int
    n_bad: int
    in_order: bool
    """Whether the usable records are in time order as they arrived."""

    n_late: int
    n_cut: int = 0
    """Times that are finer than a microsecond, and are cut to it."""


def summarise_splits(splits: Iterable[Split], *, n_cut: int = 0) -> Survey:
    """Put what was seen of the splits together. Pure."""
    ranked = tuple(sorted(splits, key=lambda split: (split.position, split.block_start)))
    usable = [split for split in ranked if split.n_usable]
    borders = itertools.pairwise(usable)
    in_order = all(split.ordered for split in usable) and all(
        before.last <= after.first for before, after in borders
    )
    return Survey(
        ranked,
        n_usable=sum(split.n_usable for split in ranked),
        n_bad=sum(split.n_bad for split in ranked),
        in_order=in_order,
        n_late=sum(split.n_late for split in ranked),
        n_cut=n_cut,
    )


@dataclass(slots=True)
class _Tally:
    """What was seen of a split so far."""

    n_usable: int = 0
    n_bad: int = 0
    first: int = 0
    last: int = 0
    t_min: int = 0
    t_max: int = 0
    ordered: bool = True
    n_late: int = 0
    late: list[int] = field(default_factory=list)

    def add(self, times: pa.Array, stream_end: int | None) -> None:
        """Take in the next records of the split; null where a record has a fault."""
        self.n_bad += times.null_count
        usable = times.drop_null().to_numpy(zero_copy_only=False)
        if not len(usable):
            return
        if self.n_usable == 0:
            self.first = self.last = self.t_min = self.t_max = int(usable[0])
        self.ordered &= self.last <= int(usable[0]) and bool((usable[1:] >= usable[:-1]).all())
        self.n_usable += len(usable)
        self.last = int(usable[-1])
        self.t_min = min(self.t_min, int(usable.min()))
        self.t_max = max(self.t_max, int(usable.max()))
        if stream_end is not None:
            late = usable[usable < stream_end]
            self.n_late += len(late)
            self.late += late[: LATE_SHOWN_MAX - len(self.late)].tolist()


def survey_batches(
    batches: Iterable[pa.RecordBatch], *, stream_end: int | None
) -> Iterator[pa.RecordBatch]:
    """Tally the records of one task by split; yields one row per split.

    Parameters
    ----------
    batches
        With the time column (null where the record has a fault), and the position of the file
        and the start of the split each record comes from.
    stream_end
        Time of the stream's last event, None for a new stream.
    """
    tallies: dict[tuple[int, int], _Tally] = {}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        positions = batch.column(POSITION).to_numpy()
        starts = batch.column(BLOCK_START).to_numpy()
        times = batch.column(TIME).cast(pa.int64())
        changes = (positions[1:] != positions[:-1]) | (starts[1:] != starts[:-1])
        borders = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
        for begin, end in itertools.pairwise(borders):
            split = (int(positions[begin]), int(starts[begin]))
            tally = tallies.setdefault(split, _Tally())
            tally.add(times.slice(begin, end - begin), stream_end)
    for (position, start), tally in tallies.items():
        yield _to_row(position, start, tally)


def _to_row(position: int, start: int, tally: _Tally) -> pa.RecordBatch:
    integers = ["n_usable", "n_bad", "first", "last", "t_min", "t_max"]
    columns: dict[str, pa.Array] = {
        "position": pa.array([position], pa.int32()),
        "block_start": pa.array([start], pa.int64()),
        **{name: pa.array([getattr(tally, name)], pa.int64()) for name in integers},
        "ordered": pa.array([tally.ordered]),
        "n_late": pa.array([tally.n_late], pa.int64()),
        "late": pa.array([tally.late], pa.list_(pa.int64())),
    }
    return pa.RecordBatch.from_pydict(columns)
