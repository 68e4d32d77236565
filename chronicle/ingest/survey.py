"""Look at the times of all events once, to know whether they must be sorted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

LATE_SHOWN_MAX = 3
"""Late events named in a message."""


@dataclass(slots=True)
class Split:
    """What was seen in one piece of a file, which one task reads from end to end."""

    position: int
    """Of the file among the sources."""

    block_start: int
    """Row group at which it begins."""

    n_usable: int = 0
    """Records with a time, and without a fault."""

    n_bad: int = 0
    """Records that go to the quarantine."""

    first: int = 0
    last: int = 0
    t_min: int = 0
    t_max: int = 0
    """Times of the usable records in arrival order, and their extremes; 0 if there are none."""

    ordered: bool = True
    """Whether no usable record is older than the one before it."""

    n_late: int = 0
    """Usable records older than the stream's end."""

    late: list[int] = field(default_factory=list)
    """Times of the first of them."""

    def add(self, times: pa.Array, stream_end: int | None) -> None:
        """Take in the internal times of the next records; null where a record has a fault."""
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


def summarise_splits(splits: Iterable[Split]) -> Survey:
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
    )
