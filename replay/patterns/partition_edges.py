"""Which rows are the first and the last of their partitions, as ``^`` and ``$`` ask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.patterns.prepared import BEFORE, BEHIND
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PartitionEdges:
    """What tells the first and the last row of each partition of a stream.

    Rows say it themselves where they were read with their neighbours (`Prepared.moved`).
    """

    asked: tuple[int, ...]
    """As `MatchProgram.partition_edges`."""
    n_events: int | None
    """Of a stream that is not partitioned; None: otherwise what is pushed is all there is."""

    @classmethod
    def of(cls, program: MatchProgram, n_events: int | None) -> PartitionEdges:
        """Return what tells the edges for a program over a stream of so many events, if known."""
        return cls(program.partition_edges, None if program.partition_by else n_events)

    def are_first(self, rows: Rows, at: IntArray, seq: IntArray, noted: IntArray | None) -> Bools:
        """Return whether some rows are the first of their partitions; False where none asks.

        Parameters
        ----------
        rows, at
            All rows at hand, and which of them are asked about.
        seq
            Of those.
        noted
            ``seq`` of the row pushed first of the partition of each; None: not asked for.
        """
        if BEFORE in self.asked:
            if rows.moved is not None:
                return np.less(rows.moved[BEFORE][at], 0)
            if self.n_events is not None:
                return np.equal(seq, 0)
            if noted is not None:
                return np.equal(seq, noted)
        return np.zeros(len(at), np.bool_)

    def are_last(self, rows: Rows, at: IntArray, seq: IntArray) -> Bools:
        """Return whether rows, the last at hand of their partitions, are the last there are.

        True where none asks, and where more may still be pushed: that is told by a stretch's end.
        """
        if BEHIND in self.asked:
            if rows.moved is not None:
                return np.less(rows.moved[BEHIND][at], 0)
            if self.n_events is not None:
                return np.equal(seq, self.n_events - 1)
        return np.ones(len(at), np.bool_)
