"""Searches over the rows of a stretch: what is kept of them while matches may still come."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replay.patterns.partition_edges import PartitionEdges
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows
from replay.patterns.strategies import kernels
from replay.patterns.strategies.enumeration import Batch, Cursor, Segments, enumerate_matches

IntArray = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1 << 18
"""Rows of matches found at once; a longer match comes alone."""


@dataclass(slots=True)
class Search:
    """Rows in order of ``seq``, the same grouped by partition, and how far their matches are out.

    ``newest`` is the time of the newest event seen with them, None without WITHIN.
    """

    ordered: Rows
    segments: Segments
    newest: int | None
    cursor: Cursor = field(default_factory=Cursor)
    final: bool = False
    is_dry: bool = False
    """Whether it gives no more before rows come, or at all if ``final``."""

    def __len__(self) -> int:
        return len(self.ordered)

    def end(self) -> None:
        """Say that no more rows come."""
        self.final = True
        self.is_dry = False

    def next(self, program: MatchProgram, n_matches: int, ranks: IntArray | None) -> Batch:
        """Find the next matches, at most so many; ``ranks`` as in `to_conditions`."""
        found = enumerate_matches(
            program,
            self.segments,
            self.cursor,
            final=self.final,
            newest=self.newest,
            n_matches=n_matches,
            n_rows=ROWS_AT_ONCE,
            ranks=ranks,
        )
        self.is_dry = found.status in (kernels.STATUS_DONE, kernels.STATUS_OPEN)
        return found

    def extended(
        self, new: list[Rows], edges: PartitionEdges, firsts: IntArray | None, lookback: int | None
    ) -> Search:
        """Return the search with further rows, less those that no match can need any more.

        Parameters
        ----------
        new
            Further rows, in order of ``seq``.
        edges, firsts
            As in `to_search`.
        lookback
            How long before a match rows decide about it; None: not at all.
        """
        cursor, rows, seq = self.cursor, self.segments.rows, self._seq
        start = self._start()
        kept = self.ordered.take(slice(self._first_kept(start, lookback), None))
        longer = to_search(Rows.concat([kept, *new]), edges, firsts, newest=self.newest)
        places = np.argsort(longer._seq)
        ascending = longer._seq[places]

        def moved(old: IntArray) -> IntArray:
            return places[np.searchsorted(ascending, seq[old])]

        unseen = int(self.ordered.seq[-1]) + 1 if len(rows) else None  # type: ignore[index]
        begin = start if start is not None else unseen
        if begin is not None:
            at = np.searchsorted(longer._seq[longer.segments.order], begin)
            longer.cursor.at = int(at)
        if start is not None:
            # Before the start itself there is nothing to be done.
            if cursor.done >= self.segments.order[cursor.at]:
                longer.cursor.done = int(moved(np.array([cursor.done]))[0])
            longer.cursor.rows, longer.cursor.symbols = moved(cursor.rows), cursor.symbols
        return longer

    def trimmed(
        self, edges: PartitionEdges, firsts: IntArray | None, lookback: int | None
    ) -> Search:
        """Return a dry search less the rows no match can need, if they are half of it."""
        if 2 * self._first_kept(self._start(), lookback) < max(len(self), 1):
            return self
        shorter = self.extended([], edges, firsts, lookback)
        shorter.is_dry = True
        return shorter

    def _start(self) -> int | None:
        """Return ``seq`` of the first row whose matches may not all be out; None: they are."""
        at, order = self.cursor.at, self.segments.order
        return int(self._seq[order[at]]) if at < len(order) else None

    @property
    def start_seq(self) -> int:
        """``seq`` of the first row of the matches under search."""
        return int(self._seq[self.segments.order[self.cursor.at]])

    @property
    def _seq(self) -> IntArray:
        assert self.segments.rows.seq is not None
        return self.segments.rows.seq

    def _first_kept(self, start: int | None, lookback: int | None) -> int:
        """Return the first of the rows in order that is needed still."""
        assert self.ordered.seq is not None
        begin = len(self.ordered)
        if start is not None:
            begin = int(np.searchsorted(self.ordered.seq, start))
        if lookback is None or not len(self.ordered):
            return begin
        times = self.ordered.times
        oldest = int(times[min(begin, len(times) - 1)]) - lookback
        return min(begin, int(np.searchsorted(times, max(oldest, np.iinfo(np.int64).min))))


def to_search(
    rows: Rows, edges: PartitionEdges, firsts: IntArray | None, *, newest: int | None = None
) -> Search:
    """Return a search over rows from its beginning.

    Parameters
    ----------
    rows
        In order of ``seq``, with the group each belongs to.
    edges
        What tells the first and last rows of the groups.
    firsts
        ``seq`` of the row of each group that was pushed first, if the pattern asks for it.
    newest
        Time of the newest event seen before.
    """
    assert rows.seq is not None
    assert rows.group is not None
    if len(rows.times):
        newest = int(rows.times[-1]) if newest is None else max(newest, int(rows.times[-1]))
    ordered = rows
    begins, ends = np.zeros(len(rows), np.int64), np.full(len(rows), len(rows))
    order = np.arange(len(rows))
    if len(rows) and rows.group.min() != rows.group.max():
        rows = rows.take(np.argsort(rows.group, kind="stable"))
        assert rows.group is not None
        cuts = np.flatnonzero(np.diff(rows.group, prepend=-1, append=-1))
        counts = np.diff(cuts)
        begins, ends = np.repeat(cuts[:-1], counts), np.repeat(cuts[1:], counts)
        order = np.argsort(rows.seq)  # type: ignore[arg-type]
    seq = rows.seq
    assert seq is not None
    at = np.arange(len(rows))
    opens = edges.are_first(rows, at, seq, None if firsts is None else firsts[rows.group])
    closes = np.equal(at, ends - 1) & edges.are_last(rows, at, seq)
    return Search(ordered, Segments(rows, begins, ends, opens, closes, order), newest)
