"""Events of a stream in spans of time, each told where in the stream it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle import Snapshot
from chronicle.compile_time import clock
from chronicle.time import to_int64
from replay.engines.read_ahead import read_ahead
from replay.engines.scan import UNIT_EVENTS, cut_blocks
from replay.joins.spans import blocks_within

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some events of one span, all that are in their blocks."""

    span: int
    first_seq: int
    table: pa.Table


class SpanReader:
    """Reads the events of spans of time, span by span.

    Parameters
    ----------
    snapshot
        The stream.
    columns
        Columns that are read, the time column among them.
    time
        The time column.
    spans
        First and last time of each span, inclusive; ascending and disjoint, shape (n, 2).

    Attributes
    ----------
    first_seqs
        Position of the first event of the blocks of each span, shape (n,); where a span has no
        block, of the first event behind it.
    n_blocks, n_rows, seconds_read
        Blocks read so far, events in them, seconds spent waiting for them. A block in which one
        span ends and another begins is read for both.
    """

    def __init__(
        self, snapshot: Snapshot, columns: tuple[str, ...], time: str, spans: IntArray
    ) -> None:
        self._snapshot = snapshot
        self._columns = list(columns)
        self._time = time
        self._spans = spans
        self.blocks = blocks_within(spans, snapshot.leaves)
        self.first_seqs: IntArray = snapshot.bases[self.blocks[:, 0]]
        self.n_blocks = self.n_rows = 0
        self.seconds_read = 0.0

    def pieces(self) -> Iterator[Piece]:
        """Yield all events of the spans, in order; pieces may be empty."""
        mark = clock()
        for (_, unit), piece in read_ahead(self._units(), self._read, in_threads=True):
            self.seconds_read += clock() - mark
            self.n_blocks += len(unit)
            bases = self._snapshot.bases
            self.n_rows += int((bases[unit + 1] - bases[unit]).sum())
            yield piece
            mark = clock()

    def _units(self) -> Iterator[tuple[int, IntArray]]:
        for span, (first, last) in enumerate(self.blocks.tolist()):
            for unit in cut_blocks(
                np.arange(first, last),
                self._snapshot.bases,
                backward=False,
                first_events=UNIT_EVENTS,
            ):
                yield span, unit

    def _read(self, unit: tuple[int, IntArray]) -> Piece:
        span, blocks = unit
        table = self._snapshot.read_blocks(blocks, self._columns)
        times = to_int64(table.column(self._time), name=self._time).to_numpy()
        begin, end = self._spans[span].tolist()
        low = int(np.searchsorted(times, begin, side="left"))
        high = int(np.searchsorted(times, end, side="right"))
        first_seq = int(self._snapshot.bases[blocks[0]]) + low
        return Piece(span, first_seq, table.slice(low, high - low))
