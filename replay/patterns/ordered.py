"""Events of the same time in the order of further columns: ``ORDER BY time, u, v``."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.source import EventSource, in_order

IntArray = npt.NDArray[np.int64]


class OrderedSource:
    """A source with events of the same time in another order than that of their arrival.

    Blocks, times and numbers of events stay as they are: only events of one time change places,
    also between blocks. What is read besides the blocks asked for are the events they share a
    time with.

    ``times`` are the least and the greatest time of each block. ``order_by`` are the columns that
    order events of one time, ascending, NULL and NaN last; what is alike in all of them keeps its
    order.
    """

    def __init__(
        self,
        source: EventSource,
        times: tuple[IntArray, IntArray],
        *,
        time: str,
        order_by: tuple[str, ...],
    ) -> None:
        self._source = source
        self._times = times
        self._time = time
        self._order_by = order_by
        self._largest: tuple[tuple[int, int], tuple[str, ...], pa.Table] | None = None
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend."""
        borders = [0, *(np.flatnonzero(np.diff(blocks) != 1) + 1).tolist(), len(blocks)]
        runs = [
            self._read_run(int(blocks[a]), int(blocks[b - 1]) + 1, columns)
            for a, b in pairwise(borders)
            if a < b
        ]
        if not runs:
            return self._source.read_blocks(blocks, columns)
        return runs[0] if len(runs) == 1 else pa.concat_tables(runs)

    def _read_run(self, first: int, last: int, columns: list[str]) -> pa.Table:
        low, high = self._with_ties(first, last)
        ordered = self._read_ordered(low, high, columns, keep=high - low > 2 * (last - first))
        start = int(self.bases[first] - self.bases[low])
        return ordered.slice(start, int(self.bases[last] - self.bases[first]))

    def _with_ties(self, first: int, last: int) -> tuple[int, int]:
        """Return the blocks that hold every event of the times in some blocks."""
        t_min, t_max = self._times
        low = int(np.searchsorted(t_max, t_min[first], side="left"))
        high = int(np.searchsorted(t_min, t_max[last - 1], side="right"))
        return min(low, first), max(high, last)

    def _read_ordered(self, low: int, high: int, columns: list[str], *, keep: bool) -> pa.Table:
        """Read blocks and put their events in order.

        One result that is much larger than what was asked for is kept: the next block is likely
        to be of the same time.
        """
        wanted = tuple(columns)
        kept = self._largest  # read once: other threads may replace it
        if keep and kept is not None and kept[:2] == ((low, high), wanted):
            return kept[2]
        names = [*dict.fromkeys((*columns, self._time, *self._order_by))]
        table = self._source.read_blocks(np.arange(low, high), names)
        ordered = in_order(table, self._time, self._order_by).select(columns)
        if keep:
            self._largest = ((low, high), wanted, ordered)
        return ordered
