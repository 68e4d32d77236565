"""Matches of a search made known to the outside: by sequence numbers, with their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.patterns.matches import NO_SYMBOL, Matches, MatchRows
from replay.patterns.search import Found, Rows

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Searched:
    """Rows that were searched, and where their segments lie."""

    rows: Rows
    begins: IntArray
    """First row of each segment."""
    ends: IntArray
    """Half-open."""
    shifts: IntArray
    """By segment: ``seq`` of its rows less their number, where the rows do not say theirs."""

    def seq(self, rows: IntArray, segments: IntArray) -> IntArray:
        """Return the ``seq`` of rows, -1 for row -1."""
        known = self.rows.seq
        if known is None:
            return np.where(rows < 0, -1, rows + self.shifts[segments])
        return np.where(rows < 0, -1, known[rows])

    def seq_of(self, row: int, segment: int) -> int:
        """Return the ``seq`` of one row."""
        return int(self.seq(np.array([row]), np.array([segment]))[0])

    def moved_seq(self, rows: IntArray, segments: IntArray, offset: int) -> IntArray:
        """Return ``seq`` of the rows ``offset`` further on, -1 for none and for row -1."""
        if offset == 0:
            return self.seq(rows, segments)
        if self.rows.moved is not None:
            return np.where(rows < 0, -1, self.rows.moved[offset][rows])
        targets = rows + offset
        there = (rows >= 0) & (targets >= self.begins[segments]) & (targets < self.ends[segments])
        return self.seq(np.where(there, targets, -1), segments)


def to_matches(
    found: Found,
    number: IntArray,
    searched: Searched,
    offsets: tuple[int, ...],
    row_offsets: tuple[int, ...] | None,
) -> Matches:
    """Return found matches by the ``seq`` of their rows.

    Parameters
    ----------
    number
        MATCH_NUMBER of each, 0 for an unmatched row.
    offsets
        By anchor: how far on in the segment its row is meant to be.
    row_offsets
        Columns of ``MatchRows.moved``; None where the rows of matches are not wanted.
    """
    first = searched.seq(found.first, found.segment)
    last = searched.seq(found.last, found.segment)
    columns = [
        searched.moved_seq(rows, found.segment, offset)
        for rows, offset in zip(found.anchors.T, offsets, strict=True)
    ]
    return Matches(
        first_seq=first,
        last_seq=np.where(found.last < found.first, first - 1, last),
        number=number,
        classifier=found.classifier,
        anchors=np.stack(columns, axis=1) if columns else np.empty((len(found), 0), np.int64),
        rows=None if row_offsets is None else _rows(found, searched, row_offsets),
    )


def _rows(found: Found, searched: Searched, row_offsets: tuple[int, ...]) -> MatchRows:
    lengths = found.last - found.first + 1
    counts = np.maximum(lengths, 1)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    rows = np.arange(offsets[-1]) + np.repeat(found.first - offsets[:-1], counts)
    segments = np.repeat(found.segment, counts)
    mapped = np.repeat(lengths > 0, counts)
    symbol = np.full(len(rows), NO_SYMBOL, np.uint8)
    symbol[mapped] = found.symbols
    excluded = np.zeros(len(rows), np.bool_)
    excluded[mapped] = found.excluded
    columns = [searched.moved_seq(rows, segments, offset) for offset in row_offsets]
    moved = np.stack(columns, axis=1) if columns else np.empty((len(rows), 0), np.int64)
    return MatchRows(offsets, searched.seq(rows, segments), symbol, excluded, moved)


def with_unmatched(
    found: Found,
    number: IntArray,
    searched: Searched,
    decided: tuple[IntArray, IntArray],
    covered_to: IntArray,
) -> tuple[Found, IntArray]:
    """Return matches and, as empty ones of number 0, rows that no match maps, by first row.

    Parameters
    ----------
    decided
        First and end (half-open) of the starts of each segment that were decided: what maps those
        rows is known.
    covered_to
        By segment: greatest ``seq`` that matches found before map.
    """
    n = len(searched.rows)
    change = np.zeros(n + 1, np.int64)
    np.add.at(change, found.first, 1)
    np.add.at(change, np.maximum(found.last, found.first) + 1, -1)
    counts = decided[1] - decided[0]
    segments = np.repeat(np.arange(len(counts)), counts)
    ahead = np.cumsum(counts) - counts
    rows = np.arange(counts.sum()) + np.repeat(decided[0] - ahead, counts)
    free = (np.cumsum(change)[rows] == 0) & (searched.seq(rows, segments) > covered_to[segments])
    rows, segments = rows[free], segments[free]
    merged = Found(
        first=np.concatenate([found.first, rows]),
        last=np.concatenate([found.last, rows - 1]),
        classifier=np.concatenate([found.classifier, np.full(len(rows), -1)]),
        segment=np.concatenate([found.segment, segments]),
        anchors=np.concatenate([found.anchors, np.full((len(rows), found.anchors.shape[1]), -1)]),
        symbols=found.symbols,
        excluded=found.excluded,
    )
    return merged, np.concatenate([number, np.zeros(len(rows), np.int64)])


def in_order(matches: Matches) -> Matches:
    """Return matches by their first row."""
    return matches.take(np.argsort(matches.first_seq, kind="stable"))
