"""Matches as the matcher gives them: rows by their sequence numbers, nothing materialised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.patterns.program import MatchProgram

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_SYMBOL = 0x7F
"""Symbol of a row that is mapped to none: the row of an empty match, or an unmatched row."""


@dataclass(frozen=True, slots=True)
class MatchRows:
    """The rows of matches, one after the other, in the order they are mapped.

    Match ``k`` has the rows ``offsets[k] : offsets[k + 1]``, int64[n_matches + 1]. An empty match
    and an unmatched row have one row, of the symbol `NO_SYMBOL`.
    """

    offsets: IntArray
    seq: IntArray
    symbol: npt.NDArray[np.uint8]
    excluded: Bools
    """Rows that `{- -}` leaves out of ALL ROWS PER MATCH."""
    moved: IntArray
    """``seq`` of the rows ``MatchProgram.row_offsets`` further on in the partition, -1 for none,
    shape (n_rows, n_offsets). Without partitions there are no offsets: seq tells."""

    def __len__(self) -> int:
        return len(self.seq)

    @classmethod
    def none(cls, n_offsets: int) -> MatchRows:
        """Return the rows of no match."""
        none = np.empty(0, np.int64)
        moved = np.empty((0, n_offsets), np.int64)
        return cls(np.zeros(1, np.int64), none, none.astype(np.uint8), none.astype(np.bool_), moved)

    @classmethod
    def concat(cls, parts: list[MatchRows]) -> MatchRows:
        """Return the rows of the parts' matches, one part, of at least one, after the other."""
        begins = np.cumsum([0, *(len(part) for part in parts)])
        offsets = [part.offsets[:-1] + b for part, b in zip(parts, begins[:-1], strict=True)]
        return cls(
            np.concatenate([*offsets, begins[-1:]]),
            np.concatenate([part.seq for part in parts]),
            np.concatenate([part.symbol for part in parts]),
            np.concatenate([part.excluded for part in parts]),
            np.concatenate([part.moved for part in parts]),
        )

    def take(self, matches: IntArray | Bools | slice) -> MatchRows:
        """Return the rows of the chosen matches, in the order chosen."""
        begins, ends = self.offsets[:-1][matches], self.offsets[1:][matches]
        counts = ends - begins
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        rows = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], counts)
        return MatchRows(
            offsets, self.seq[rows], self.symbol[rows], self.excluded[rows], self.moved[rows]
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches by column, int64, in canonical order (by ``first_seq``).

    ``first_seq``, ``last_seq`` (``first_seq - 1`` where no row is mapped), ``number`` (1, 2, … in
    each partition; 0 for an unmatched row) and ``classifier`` (symbol of the last row, -1 if none)
    have shape (n,); ``anchors`` (``seq`` of the rows MEASURES read, -1 if none) has shape
    (n, n_anchors).
    """

    first_seq: IntArray
    last_seq: IntArray
    number: IntArray
    classifier: IntArray
    anchors: IntArray
    rows: MatchRows | None = None
    """Where ``MatchProgram.needs_rows``."""
    timed_out: Bools | None = None
    """WITH TIMEOUTS: which are partial matches that ran out of their window, shape (n,)."""

    def __len__(self) -> int:
        return len(self.first_seq)

    @classmethod
    def none(cls, program: MatchProgram) -> Matches:
        """Return no match, in the form the program's matches have."""
        none = np.empty(0, np.int64)
        anchors = np.empty((0, len(program.anchors)), np.int64)
        rows = MatchRows.none(len(program.row_offsets)) if program.needs_rows else None
        return cls(none, none, none, none, anchors, rows)

    @classmethod
    def concat(cls, parts: list[Matches]) -> Matches:
        """Return the parts with matches, or the first one, one after the other."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.first_seq for part in parts]),
            np.concatenate([part.last_seq for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.classifier for part in parts]),
            np.concatenate([part.anchors for part in parts]),
            None if parts[0].rows is None else MatchRows.concat([p.rows for p in parts if p.rows]),
            _join([part.timed_out for part in parts if part.timed_out is not None]),
        )

    def take(self, rows: IntArray | Bools | slice) -> Matches:
        """Return the chosen matches, in the order chosen."""
        return Matches(
            self.first_seq[rows],
            self.last_seq[rows],
            self.number[rows],
            self.classifier[rows],
            self.anchors[rows],
            None if self.rows is None else self.rows.take(rows),
            None if self.timed_out is None else self.timed_out[rows],
        )

    def head(self, n: int) -> Matches:
        """Return the first ``n`` matches."""
        return self.take(slice(0, n))

    def in_order(self) -> Matches:
        """Return the matches by their first row."""
        return self.take(np.argsort(self.first_seq, kind="stable"))

    def check(self, n_anchors: int) -> None:
        """Raise ValueError unless the arrays have the right lengths and the rows begin in order."""
        n = len(self)
        columns = (self.last_seq, self.number, self.classifier)
        is_right = all(column.shape == (n,) for column in columns)
        is_right &= self.anchors.shape == (n, n_anchors)
        if self.rows is not None:
            offsets, n_rows = self.rows.offsets, len(self.rows)
            is_right &= offsets.shape == (n + 1,) and offsets.dtype == np.int64
            is_right = is_right and bool((np.diff(offsets) >= 0).all())
            is_right = is_right and (int(offsets[0]), int(offsets[-1])) == (0, n_rows)
            is_right &= self.rows.symbol.shape == self.rows.excluded.shape == (n_rows,)
            is_right &= len(self.rows.moved) == n_rows
        if not is_right:
            raise ValueError("the matches of the state are of other lengths")

    def split(self, n_rows: int) -> Iterator[Matches]:
        """Yield parts of whole matches, at least one part, of about ``n_rows`` rows each.

        A part has more rows only where a single match has. Only for matches with `rows`.
        """
        assert self.rows is not None
        offsets = self.rows.offsets
        begin = 0
        while True:
            end = int(np.searchsorted(offsets, offsets[begin] + n_rows, side="right")) - 1
            end = min(max(end, begin + 1), len(self))
            yield self if (begin, end) == (0, len(self)) else self.take(slice(begin, end))
            if end == len(self):
                return
            begin = end


def _join(parts: list[Bools]) -> Bools | None:
    return np.concatenate(parts) if parts else None
