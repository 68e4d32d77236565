"""Entries between the borders of windows: nodes of the tree, and pieces of blocks that are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from chronicle.compile_time import clock
from chronicle.tree.summary import AttributeSummary, Ints, Kind, all_null, counted
from replay.engines.block_truth import ALL_PASS, MUST_READ, NONE_PASS
from replay.engines.read_ahead import read_ahead
from replay.engines.scan import INLINE_EVENTS
from replay.windows.merging import without_squares
from replay.windows.tree.keyed import KeyGroups
from replay.windows.tree.pieces import NO_INTS, PieceReader, Pieces, Series, cut_units
from replay.windows.tree.stats import TreeStats
from replay.windows.tree.terms import Needed
from replay.windows.where import BY_KEY

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StretchEntries:
    """Entries of a stretch of blocks, and the borders there.

    Of borders that no event lies between, the first may stand for all: see `places`.
    """

    series: tuple[Series, ...]
    """One for each key, or one for all."""
    borders: Ints
    """Positions on the axis, ascending."""
    border_seq: Ints
    """``seq`` of the first event at or after each border."""
    border_times: tuple[Ints, Ints]
    """Times of that event and of the one before it, where rows are counted; else empty."""

    @classmethod
    def concat(cls, parts: Sequence[StretchEntries]) -> StretchEntries:
        """Return the entries of consecutive stretches of blocks, at least one."""
        return cls(
            tuple(_concat(series) for series in zip(*(p.series for p in parts), strict=True)),
            _joined([part.borders for part in parts]),
            _joined([part.border_seq for part in parts]),
            (
                _joined([part.border_times[0] for part in parts]),
                _joined([part.border_times[1] for part in parts]),
            ),
        )

    def __len__(self) -> int:
        return sum(len(series) for series in self.series)

    def places(self, positions: Ints) -> Ints:
        """Return the index of the border that each position is, or that stands for it.

        Before the first border there is no event that is held.
        """
        return np.maximum(np.searchsorted(self.borders, positions, "right") - 1, 0)

    def since(self, border: int) -> StretchEntries:
        """Return what lies at or after one of the borders; views."""
        at = int(self.places(np.array([border]))[0])
        seq = int(self.border_seq[at])
        return StretchEntries(
            tuple(series.slice(series.first_from(seq), len(series)) for series in self.series),
            self.borders[at:],
            self.border_seq[at:],
            (self.border_times[0][at:], self.border_times[1][at:]),
        )

    def until(self, border: int) -> StretchEntries:
        """Return the entries before one of the borders, and all borders; views."""
        seq = int(self.border_seq[self.places(np.array([border]))[0]])
        return replace(
            self, series=tuple(series.slice(0, series.first_from(seq)) for series in self.series)
        )

    def told_apart(self) -> StretchEntries:
        """Return the same without the borders that another one stands for."""
        first = np.ones(len(self.borders), np.bool_)
        first[1:] = self.border_seq[1:] != self.border_seq[:-1]
        if first.all():
            return self
        at, before = (times[first] if len(times) else times for times in self.border_times)
        return StretchEntries(
            self.series, self.borders[first], self.border_seq[first], (at, before)
        )


class EntryMaker:
    """Makes entries for stretches of blocks; ``reader`` reads those that must be."""

    def __init__(self, reader: PieceReader) -> None:
        self._reader = reader

    def make(
        self, first: int, stop: int, borders: Ints, work: TreeStats, *, in_threads: bool
    ) -> StretchEntries:
        """Return the entries of the blocks ``first`` to ``stop``, half-open.

        ``borders`` ascend strictly, and the block ``stop`` has no event before any of them.
        ``work`` adds what it took; ``in_threads`` allows blocks to be read in threads.
        """
        block, cuts = self._reader.axis.place(borders)
        if self._reader.classes is not None and not self._reader.axis.in_rows:
            # Where none of a cut block's events passes, it does not matter where it is cut. Where
            # rows are counted it does: its events tell the times at which windows begin and end.
            cuts[cuts] = self._reader.classes[block[cuts]] != NONE_PASS
        read = self._blocks_to_read(first, stop, block[cuts])
        pieces = self._read(read, block[cuts], borders[cuts], work, in_threads=in_threads)
        border_seq = self._reader.snapshot.bases[block]
        border_seq[cuts] = _joined([piece.border_seq for piece in pieces])
        times = (
            self._border_times(block, cuts, pieces) if self._reader.axis.in_rows else (NO_INTS,) * 2
        )
        whole = self._whole_blocks(first, stop, read)
        nodes = self._summaries_of(whole, first, block[~cuts])
        series = tuple(
            self._in_order(of_nodes, [piece.series[place] for piece in pieces])
            for place, of_nodes in enumerate(nodes)
        )
        return StretchEntries(series, borders, border_seq, times)

    def _read(
        self, read: Ints, border_block: Ints, borders: Ints, work: TreeStats, *, in_threads: bool
    ) -> list[Pieces]:
        """Return the pieces of all blocks that must be read, in order."""
        counts = self._reader.snapshot.leaves.count[read]
        units = cut_units(read, counts, border_block, borders)
        threads = in_threads and int(counts.sum()) > INLINE_EVENTS
        pieces: list[Pieces] = []
        mark = clock()
        for unit, found in read_ahead(units, self._reader.read, in_threads=threads):
            work.read(unit.blocks, unit.n_events, found.columns)
            work.n_faults += found.n_faults
            pieces.append(found)
        work.seconds_read += clock() - mark
        return pieces

    def _blocks_to_read(self, first: int, stop: int, cut: Ints) -> Ints:
        """Return the blocks that are cut, or whose rows pass in part."""
        must = np.zeros(stop - first, np.bool_)
        must[cut - first] = True
        if self._reader.classes is not None:
            must |= self._reader.classes[first:stop] == MUST_READ
        return np.flatnonzero(must) + first

    def _whole_blocks(self, first: int, stop: int, read: Ints) -> Bools:
        """Return the blocks of which summaries are taken as they are."""
        whole = np.ones(stop - first, np.bool_)
        whole[read - first] = False
        if self._reader.classes is not None:
            # Of keys whose events do not pass there, `KeyGroups.that_may` leaves none.
            whole &= np.isin(self._reader.classes[first:stop], (ALL_PASS, BY_KEY))
        return whole

    def _summaries_of(self, whole: Bools, first: int, aligned: Ints) -> tuple[Series | None, ...]:
        """Return what is stored of whole blocks, for each key or for all events together."""
        if self._reader.groups is not None:
            return self._leaves_by_key(self._reader.groups, np.flatnonzero(whole) + first)
        if self._reader.classes is None and not self._reader.needed:
            return (None,)  # borders alone tell how many events lie between them
        return (self._nodes(whole, first, aligned),)

    def _nodes(self, whole: Bools, first: int, aligned: Ints) -> Series | None:
        """Return the fewest entries of the tree that make up the blocks between borders."""
        ranges = ranges_between(whole, first, aligned)
        if not len(ranges):
            return None
        tree = self._reader.snapshot.tree
        nodes = tree.nodes_of_ranges(ranges[:, 0], ranges[:, 1])
        summaries = {
            needed.name: _trimmed(tree.attribute_of_entries(nodes, needed.name), needed)
            for needed in self._reader.needed
        }
        seq = np.repeat(self._reader.snapshot.bases[ranges[:, 0]], np.diff(nodes.offsets))
        return Series(seq, tree.counts_of_entries(nodes), summaries)

    def _leaves_by_key(self, groups: KeyGroups, blocks: Ints) -> tuple[Series, ...]:
        """Return what is stored of each key's events in some blocks."""
        found = []
        for key in range(len(groups)):
            own = blocks[groups.rows[key, blocks] > 0]
            summaries = {
                needed.name: _trimmed(groups.summaries[needed.name].values[key].take(own), needed)
                for needed in self._reader.needed
            }
            found.append(Series(self._reader.snapshot.bases[own], groups.rows[key, own], summaries))
        return tuple(found)

    def _in_order(self, nodes: Series | None, pieces: Sequence[Series]) -> Series:
        """Put nodes and pieces in the order of the stream."""
        parts = [*pieces] if nodes is None else [nodes, *pieces]
        if not parts:
            none = {needed.name: all_null(needed.kind, NO_INTS) for needed in self._reader.needed}
            return Series(NO_INTS, NO_INTS, none)
        whole = _concat(parts)
        order = np.argsort(whole.seq, kind="stable")
        summaries = {name: summary.take(order) for name, summary in whole.summaries.items()}
        return Series(whole.seq[order], whole.counts[order], summaries)

    def _border_times(
        self, block: Ints, cuts: Bools, pieces: Sequence[Pieces]
    ) -> tuple[Ints, Ints]:
        """Return the times at the borders of windows of rows, and before them."""
        leaves = self._reader.snapshot.leaves
        at = np.append(leaves.t_min, 0)[block]
        before = np.append(0, leaves.t_max)[block]
        at[cuts] = _joined([piece.border_times[0] for piece in pieces])
        before[cuts] = _joined([piece.border_times[1] for piece in pieces])
        return at, before


def ranges_between(whole: Bools, first: int, aligned: Ints) -> Ints:
    """Return the longest ranges of blocks to be taken whole that no border lies in. Pure.

    ``whole`` tells which of the blocks from ``first`` on are to be taken; ``aligned`` are the
    blocks that a border lies just before, ascending. Ranges are half-open, shape (n, 2).

    Examples
    --------
    >>> ranges_between(np.array([True, True, True, False, True]), 10, np.array([12])).tolist()
    [[10, 12], [12, 13], [14, 15]]
    """
    begins = whole.copy()
    begins[1:] &= ~whole[:-1]
    between = aligned[(aligned > first) & (aligned < first + len(whole))] - first
    begins[between] |= whole[between]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(whole))
    gaps = np.append(np.flatnonzero(~whole), len(whole))
    ends = np.minimum(ends, gaps[np.searchsorted(gaps, starts)])
    return np.asarray(np.stack((starts, ends), axis=1) + first, np.int64)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate((NO_INTS, *parts))


def _concat(parts: Sequence[Series]) -> Series:
    return Series(
        _joined([part.seq for part in parts]),
        _joined([part.counts for part in parts]),
        {
            name: AttributeSummary.concat([part.summaries[name] for part in parts])
            for name in parts[0].summaries
        },
    )


def _trimmed(summary: AttributeSummary, needed: Needed) -> AttributeSummary:
    """Return summaries with no more than is needed, as those of pieces have it."""
    if needed.kind is Kind.OPAQUE:
        return counted(summary.n_values + summary.nan_count, summary.null_count)
    return summary if needed.squares else without_squares(summary)
