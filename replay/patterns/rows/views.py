"""Which rows the answer has, and which row of a match each of them reads from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.language.bound import (
    Anchor,
    AnchorKind,
    BoundPatternQuery,
    RowsPerMatch,
    SymbolSet,
)
from replay.operators.row_kernels import find_rows
from replay.patterns.matches import NO_SYMBOL, Matches, MatchRows

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Views:
    """What is seen from some rows: all arrays int64 of one length, rows as places in `MatchRows`.

    Of the match only the rows ``begins : ends`` are seen, the last of them the one the view is
    from; FINAL sees ``begins : match_ends``. A row of `NO_SYMBOL` is none that anything finds.
    """

    match: IntArray
    begins: IntArray
    ends: IntArray
    match_ends: IntArray

    def __len__(self) -> int:
        return len(self.match)

    def of_whole_matches(self) -> Views:
        """Return views from the last rows of the matches, which see all of them."""
        return Views(self.match, self.begins, self.match_ends, self.match_ends)

    def take(self, chosen: IntArray | Bools) -> Views:
        """Return the chosen views, in the order chosen."""
        return Views(
            self.match[chosen], self.begins[chosen], self.ends[chosen], self.match_ends[chosen]
        )


def answered_rows(query: BoundPatternQuery, matches: Matches) -> IntArray:
    """Return which rows of the matches give a row of the answer, as places in `MatchRows`.

    With ONE ROW PER MATCH that is the first row of each match, which partition columns are read
    from.
    """
    assert matches.rows is not None
    if query.rows_per_match is RowsPerMatch.ONE:
        return matches.rows.offsets[:-1]
    shown = ~matches.rows.excluded
    if query.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY:
        shown &= matches.rows.symbol != NO_SYMBOL
    return np.flatnonzero(shown)


def answer_counts(query: BoundPatternQuery, matches: Matches) -> IntArray:
    """Return how many rows of the answer each match gives; what LIMIT counts."""
    if query.rows_per_match is RowsPerMatch.ONE:
        return np.ones(len(matches), np.int64)
    assert matches.rows is not None
    at = np.searchsorted(answered_rows(query, matches), matches.rows.offsets)
    return np.diff(at)


class Navigator:
    """Finds the rows that measures read: in the match, then beside it.

    Parameters
    ----------
    rows
        The rows of the matches.
    row_offsets
        ``MatchProgram.row_offsets``.
    partitioned
        Whether neighbours are those in the partition, which `MatchRows.moved` tells.
    n_events
        Events of the stream; there is no row beyond.
    """

    def __init__(
        self, rows: MatchRows, row_offsets: tuple[int, ...], *, partitioned: bool, n_events: int
    ) -> None:
        self._rows = rows
        self._column_of = {offset: column for column, offset in enumerate(row_offsets)}
        self._partitioned = partitioned
        self._n_events = n_events
        self._match = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
        self._mapped: dict[SymbolSet, tuple[IntArray, IntArray]] = {}

    def mapped(self, symbols: SymbolSet) -> tuple[IntArray, IntArray]:
        """Return the rows mapped to the symbols, and how many of them stand before each row.

        The counts have one entry more than there are rows, so a range of rows ``a : b`` has the
        entries ``counts[a] : counts[b]`` of the rows.
        """
        if symbols not in self._mapped:
            symbol = self._rows.symbol
            wanted = symbol != NO_SYMBOL if symbols is None else np.isin(symbol, symbols)
            counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(wanted, dtype=np.int64)])
            self._mapped[symbols] = np.flatnonzero(wanted), counts
        return self._mapped[symbols]

    def views_at(self, rows: IntArray) -> Views:
        """Return what is seen from rows of matches: each row and those before it in the match."""
        match, offsets = self._match[rows], self._rows.offsets
        return Views(match, offsets[match], rows + 1, offsets[match + 1])

    def rows_of(self, anchor: Anchor, views: Views) -> IntArray:
        """Return the anchor's row as each view sees it, -1 for none."""
        rows, counts = self.mapped(anchor.symbols)
        low = counts[views.begins]
        high = counts[views.match_ends if anchor.final else views.ends]
        is_first = anchor.kind is AnchorKind.FIRST
        place = low + anchor.offset if is_first else high - 1 - anchor.offset
        there = (place >= low) & (place < high)
        if not len(rows):
            return np.full(len(views), -1, np.int64)
        return np.where(there, rows[np.where(there, place, 0)], -1)

    def seq_of(self, anchor: Anchor, offset: int, views: Views) -> IntArray:
        """Return ``seq`` of the row ``offset`` physical rows after the anchor's, -1 for none."""
        row = self.rows_of(anchor, views)
        there = row >= 0
        if not there.any():
            return row
        if offset and self._partitioned:
            return np.where(there, self._rows.moved[row, self._column_of[offset]], -1)
        seq = self._rows.seq[row] + offset
        return np.where(there & (seq >= 0) & (seq < self._n_events), seq, -1)

    def symbol_of(self, anchor: Anchor, offset: int, views: Views) -> IntArray:
        """Return the symbol of that row, -1 where the match does not map it.

        Only the anchor is found among the rows seen: a neighbour may be any row of the match.
        """
        row = self.rows_of(anchor, views)
        if offset:
            seq = self.seq_of(anchor, offset, views)
            found = find_rows(self._rows.seq, views.begins, views.match_ends, seq)
            row = np.where(seq < 0, -1, found)
        if not len(self._rows):
            return row
        return np.where(row < 0, -1, self._rows.symbol[row].astype(np.int64))
