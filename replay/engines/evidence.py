"""What a query leaves behind for its report: which blocks it read, and where its answers lie."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chronicle import Snapshot
from chronicle.time import TimeType, time_type, to_int64
from replay.engines.scan import blocks_of
from replay.engines.source import EventSource, fetch_events

IntArray = npt.NDArray[np.int64]

SPANS_MAX = 4_096
"""Spans that are kept at least, where there are so many; twice as many at most."""


@dataclass(frozen=True, slots=True, eq=False)
class BlocksRead:
    """Blocks of a version of a stream that were read.

    Of the ``stretches``, half-open block ranges of shape (n, 2), only the first ``n_read`` blocks
    were read where the query ended early; the last ones where it went ``backward``.
    """

    snapshot: Snapshot
    stretches: IntArray
    n_read: int
    backward: bool = False

    @property
    def n_planned(self) -> int:
        """Blocks of the stretches."""
        return int(np.sum(self.stretches[:, 1] - self.stretches[:, 0]))

    def blocks(self) -> IntArray:
        """Return the blocks that were read, ascending, each once."""
        planned = blocks_of(self.stretches)
        read = planned[::-1][: self.n_read] if self.backward else planned[: self.n_read]
        return np.unique(read)


@dataclass(slots=True, eq=False)
class SpanSample:
    """Spans from the first to the last event of what a query finds, evenly thinned.

    Of a great many every second, fourth, … is kept, so that memory is bounded: between `SPANS_MAX`
    and twice as many.
    """

    n_spans: int = 0
    """All that were found."""
    step: int = 1
    """Each how many-th of them is kept."""
    _n_rows: int = 0
    _kept: list[IntArray] = field(default_factory=list)
    _n_kept: int = 0

    def add(self, first: IntArray, last: IntArray, n_rows: IntArray | None) -> None:
        """Take the next spans: ``seq`` of their first and last events.

        ``n_rows`` says how many rows of the answer each has; None: one each.
        """
        n = len(first)
        if not n:
            return
        if n_rows is None:
            rows = self._n_rows + np.arange(n + 1)
        else:
            rows = self._n_rows + np.concatenate([np.zeros(1, np.int64), np.cumsum(n_rows)])
        chosen = slice(-self.n_spans % self.step, None, self.step)
        self._kept.append(
            np.stack((first[chosen], last[chosen], rows[:-1][chosen], rows[1:][chosen]))
        )
        self._n_kept += self._kept[-1].shape[1]
        self.n_spans, self._n_rows = self.n_spans + n, int(rows[-1])
        while self._n_kept > 2 * SPANS_MAX:
            self._kept = [np.concatenate(self._kept, axis=1)[:, ::2]]
            self._n_kept, self.step = self._kept[0].shape[1], 2 * self.step

    def kept(self) -> IntArray:
        """Return the spans kept, shape (4, n).

        ``seq`` of first and last event, then first row of the answer and the one behind the last.
        """
        return np.concatenate([np.empty((4, 0), np.int64), *self._kept], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class FoundSpans:
    """Where in a stream the answers of a query lie.

    Attributes
    ----------
    source, time
        The stream's events and its time column.
    sample
        The spans, thinned.
    row_offset
        Which row of what the spans gave is the answer's first; None: rows of the answer tell of no
        single span.
    """

    source: EventSource
    time: str
    sample: SpanSample
    row_offset: int | None

    @property
    def time_type(self) -> TimeType:
        """Kind of the time column."""
        nothing = self.source.read_blocks(np.empty(0, np.int64), [self.time])
        return time_type(nothing.schema.field(self.time).type, column=self.time)

    def times(self) -> tuple[IntArray, IntArray]:
        """Return first and last time of each span kept; reads the blocks of their events."""
        first, last = self.sample.kept()[:2]
        if not len(first):
            return first, last
        last = np.maximum(first, last)  # an empty match ends before it begins
        seqs = np.unique(np.concatenate((first, last)))
        events = fetch_events(self.source, [self.time], seqs)
        times = to_int64(events.column(self.time), name=self.time).to_numpy()
        return times[np.searchsorted(seqs, first)], times[np.searchsorted(seqs, last)]
