"""Rows that matter: what replay intervals leave of the blocks they touch, once times are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from replay.planning.statistics import IntArray

_NO_BOUND: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RowSpans:
    """Replay intervals of a stream, by start; every match has all its rows in one of them.

    Bounds are int64, shape (n,), ascending, and part of the interval. One that is None does not
    restrict; of two lower (or upper) bounds both hold.
    """

    n: int
    seq_low: IntArray | None
    t_low: IntArray | None
    seq_high: IntArray | None
    t_high: IntArray | None

    @property
    def by_time(self) -> bool:
        """Whether a bound is one of time."""
        return self.t_low is not None or self.t_high is not None

    def cut(
        self, starts: IntArray, n_rows: IntArray, first_seqs: IntArray, times: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the rows of some stretches that lie in an interval, as runs.

        Stretches, and the runs as well, are told by first row, number of rows and first ``seq``, in
        order of the stream; runs are disjoint, each of one row at least and within one stretch.
        ``times`` of the rows ascend, of shape (0,) where no bound is one of time. Linear in the
        intervals between the first row and the last, whatever lies between them.
        """
        from replay.planning.kernels import cut_to_intervals

        passed = 0
        if len(starts) and self.seq_high is not None:
            passed = int(np.searchsorted(self.seq_high, first_seqs[0]))
        if len(starts) and self.t_high is not None:
            passed = max(passed, int(np.searchsorted(self.t_high, times[starts[0]])))
        bounds = (self.seq_low, self.t_low, self.seq_high, self.t_high)
        begins, ends, stretch = cut_to_intervals(
            *(_in_place(_NO_BOUND if bound is None else bound[passed:]) for bound in bounds),
            self.n - passed,
            *map(_in_place, (starts, n_rows, first_seqs, times)),
        )
        return begins, ends - begins, begins + (first_seqs - starts)[stretch]


def _in_place(array: IntArray) -> IntArray:
    """Return an array in the one form the kernel is compiled for: contiguous, and only read.

    Arrow lets nobody write to its memory.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
