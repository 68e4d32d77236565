"""Which run answers for which data file, and where its positions lie in the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from indexing.run_format import CoveredFile


def choose_runs(
    covers: Sequence[tuple[CoveredFile, ...]], live: Mapping[str, int]
) -> list[list[str]]:
    """Return for each run the live files whose entries are taken from it. Pure.

    Every live file is taken from at most one run; runs that cover more live files come first, so
    few runs are asked. A file whose number of events (``live``, by name) differs from what the run
    says is not taken from it.
    """
    usable = [[c.name for c in cover if live.get(c.name) == c.n_events] for cover in covers]
    taken: set[str] = set()
    chosen: list[list[str]] = [[] for _ in covers]
    for run in sorted(range(len(covers)), key=lambda i: -len(usable[i])):
        chosen[run] = [name for name in usable[run] if name not in taken]
        taken.update(chosen[run])
    return chosen


@dataclass(frozen=True, slots=True)
class Segments:
    """Where the positions of a run lie in the stream, as stretches that move as one."""

    ends: np.ndarray
    """int64, ascending: segment 0 holds the positions below ``ends[0]``, and so on."""
    shifts: np.ndarray
    """int64: sequence number less position."""
    live: np.ndarray
    """Whether entries of the segment are taken from the run."""

    @classmethod
    def of(cls, cover: Sequence[CoveredFile], first_seq: Mapping[str, int]) -> Segments:
        """Return the segments of a run.

        ``first_seq`` has the sequence number of the first event of each file that is taken from the
        run.
        """
        rows: list[tuple[int, int, bool]] = []
        start = 0
        for covered in cover:
            live = covered.name in first_seq
            row = (start + covered.n_events, first_seq[covered.name] - start if live else 0, live)
            start = row[0]
            if rows and rows[-1][1:] == row[1:]:
                rows.pop()
            rows.append(row)
        return cls(
            np.array([end for end, _, _ in rows], dtype=np.int64),
            np.array([shift for _, shift, _ in rows], dtype=np.int64),
            np.array([live for _, _, live in rows], dtype=bool),
        )

    @property
    def is_one(self) -> bool:
        """Return whether one addition places every position."""
        return len(self.ends) == 1 and bool(self.live[0])

    @property
    def shift(self) -> int:
        """What is added to positions when they are read; where it is 0, `place` does the rest."""
        return int(self.shifts[0]) if self.is_one else 0

    @property
    def first_seq(self) -> int:
        """Return the least sequence number of any live segment."""
        starts = np.concatenate(([0], self.ends[:-1])) + self.shifts
        return int(starts[self.live].min())

    @property
    def spans(self) -> np.ndarray:
        """Return the sequence numbers of the live segments: int64, shape (n, 2), half-open."""
        starts = np.concatenate(([0], self.ends[:-1]))
        found = np.stack((starts + self.shifts, self.ends + self.shifts), axis=1)
        return np.asarray(found[self.live])

    @property
    def ascends(self) -> bool:
        """Return whether sequence numbers ascend where positions do."""
        # Not their shifts: one falls where more events of dead files are left out than came in.
        first = (np.concatenate(([0], self.ends[:-1])) + self.shifts)[self.live]
        stop = (self.ends + self.shifts)[self.live]
        return bool((stop[:-1] <= first[1:]).all())

    def place(self, position: np.ndarray) -> None:
        """Turn positions into sequence numbers, in place; -1 where the segment is not live."""
        from indexing.kernels import place_positions

        place_positions(position, self.ends, self.shifts, self.live)


def overlapping(spans: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Return which spans share a number with one of the ranges, as a bool array. Pure.

    Both are half-open and have shape (n, 2), none is empty; ranges are ascending and disjoint.
    """
    if not len(ranges):
        return np.zeros(len(spans), dtype=np.bool_)
    # Of the ranges that end behind the span's start the first begins first.
    nearest = ranges[:, 1].searchsorted(spans[:, 0], side="right")
    is_behind = nearest == len(ranges)
    nearest[is_behind] = 0
    return np.asarray((ranges[nearest, 0] < spans[:, 1]) & ~is_behind)
