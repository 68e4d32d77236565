"""Pieces of blocks: the events between the borders that cut a block, summarised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle import Snapshot
from chronicle.time import to_int64
from chronicle.tree.summarise import to_plain
from chronicle.tree.summary import AttributeSummary, Ints, Kind
from replay.engines.block_truth import ALL_PASS, BlockClasses
from replay.engines.scan import UNIT_EVENTS
from replay.engines.source import EventSource
from replay.expressions.columns import Columns, Values, to_arrays
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Expression, attributes
from replay.operators.distinct import distinct
from replay.windows.entries import summarise_rows
from replay.windows.tree.axis import Axis
from replay.windows.tree.keyed import KeyGroups
from replay.windows.tree.terms import Needed

Bools = npt.NDArray[np.bool_]

NO_INTS: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Series:
    """Summaries of consecutive events of one key, or of all, that no border lies between."""

    seq: Ints
    """``seq`` of a border or block that each begins at or after, ascending; every one ends before
    the first border at or after which the next begins."""
    counts: Ints
    """Events of each, those that WHERE lets pass."""
    summaries: Mapping[str, AttributeSummary]
    """Of each column asked for."""

    def __len__(self) -> int:
        return len(self.seq)

    def first_from(self, seq: int) -> int:
        """Return the place of the first one that begins at or after a ``seq``."""
        return int(np.searchsorted(self.seq, seq))

    def slice(self, first: int, stop: int) -> Series:
        """Return some of them; views."""
        summaries = {name: of.slice(first, stop) for name, of in self.summaries.items()}
        return Series(self.seq[first:stop], self.counts[first:stop], summaries)


@dataclass(frozen=True, slots=True)
class Unit:
    """Blocks that are read at once, and the borders that cut them."""

    blocks: Ints
    borders: Ints
    n_events: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a unit's events are cut to."""

    series: tuple[Series, ...]
    """One for each key, or one for all."""
    border_seq: Ints
    """``seq`` of the first event at or after each of the unit's borders."""
    border_times: tuple[Ints, Ints]
    """Times of that event and of the one before it, where rows are counted; else empty."""
    columns: tuple[str, ...]
    """What was read."""
    n_faults: int


def cut_units(read: Ints, counts: Ints, border_block: Ints, borders: Ints) -> Iterator[Unit]:
    """Yield blocks in units of about `UNIT_EVENTS` events, with their borders. Pure.

    ``counts`` are the events of each of the blocks ``read``, which ascend; ``border_block`` is the
    block that each border cuts, one of ``read``, ascending; ``borders`` are positions on the axis.
    """
    unit = (np.cumsum(counts) - counts) // UNIT_EVENTS
    starts = np.flatnonzero(np.diff(unit, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(read)]):
        blocks = read[start:end]
        low, high = np.searchsorted(border_block, [blocks[0], blocks[-1] + 1]).tolist()
        yield Unit(blocks, borders[low:high], int(counts[start:end].sum()))


class PieceReader:
    """Reads blocks and summarises the pieces between borders. Thread-safe.

    ``classes`` are what WHERE says of each block (None: every event passes), ``condition`` is the
    WHERE, ``groups`` are the keys that are told apart (None: all events together), ``source`` is
    where events are read (None: from the stream).
    """

    def __init__(
        self,
        snapshot: Snapshot,
        axis: Axis,
        needed: Sequence[Needed],
        classes: BlockClasses | None,
        condition: Expression | None,
        groups: KeyGroups | None,
        source: EventSource | None = None,
    ) -> None:
        self.snapshot = snapshot
        self._source = snapshot if source is None else source
        self.axis = axis
        self.needed = tuple(needed)
        self.classes = classes
        self._condition = condition
        self.groups = groups
        self._time = snapshot.settings.time

    def read(self, unit: Unit) -> Pieces:
        """Return the pieces of a unit that are not empty."""
        snapshot, blocks = self.snapshot, unit.blocks
        filters = self.classes is not None and (self.classes[blocks] != ALL_PASS).any()
        condition = self._condition if filters else None
        names = self._columns(condition, with_time=len(unit.borders) > 0)
        table = self._source.read_blocks(blocks, names)
        counts, base = snapshot.leaves.count[blocks], snapshot.bases[blocks]
        starts = np.cumsum(counts) - counts
        offsets, times = self._offsets(table, unit.borders, starts, base)
        at = np.searchsorted(starts, offsets, "right") - 1
        cuts = distinct(starts, offsets)
        lengths = np.diff(cuts, append=table.num_rows)
        faults = Faults()
        if condition is not None:
            passes = truths(condition, Columns(table), faults)
            lengths = _count_true(passes, cuts)
            table = table.filter(pa.array(passes))
        kept = np.flatnonzero(lengths)
        owner = np.searchsorted(starts, cuts[kept], "right") - 1
        seq = base[owner] + cuts[kept] - starts[owner]
        return Pieces(
            series=self._series(table, seq, lengths[kept]),
            border_seq=base[at] + offsets - starts[at],
            border_times=(times[offsets], times[offsets - 1])
            if self.axis.in_rows
            else (NO_INTS, NO_INTS),
            columns=tuple(names),
            n_faults=faults.count,
        )

    def _columns(self, condition: Expression | None, *, with_time: bool) -> list[str]:
        names = dict.fromkeys(needed.name for needed in self.needed)
        if with_time:
            names[self._time] = None
        if self.groups is not None:
            names[self.groups.column] = None
        return list(names | dict.fromkeys(sorted(a.name for a in attributes(condition))))

    def _offsets(
        self, table: pa.Table, borders: Ints, starts: Ints, base: Ints
    ) -> tuple[Ints, Ints]:
        """Return the row of the first event at or after each border, and the times of all rows."""
        if not len(borders):
            return NO_INTS, NO_INTS
        times = np.asarray(to_int64(table.column(self._time), name=self._time).to_numpy(), np.int64)
        if not self.axis.in_rows:
            return np.searchsorted(times, borders, "left"), times
        at = np.searchsorted(base, borders, "right") - 1
        return starts[at] + borders - base[at], times

    def _series(self, table: pa.Table, seq: Ints, lengths: Ints) -> tuple[Series, ...]:
        """Return the pieces of each key, or of all; ``lengths`` are their rows in the table."""
        if self.groups is None:
            return (Series(seq, lengths, self._summaries(table, lengths)),)
        n_keys, n_pieces = len(self.groups), len(seq)
        numbers = self.groups.numbers(table)
        piece = np.repeat(np.arange(n_pieces), lengths)
        counts = np.bincount(numbers * n_pieces + piece, minlength=n_keys * n_pieces)
        groups = np.flatnonzero(counts)
        ordered = table.take(pa.array(np.argsort(numbers, kind="stable")))
        found = self._summaries(ordered, counts[groups])
        ends = np.searchsorted(groups, np.arange(n_keys + 1) * n_pieces).tolist()
        return tuple(
            Series(
                seq[groups[a:b] - key * n_pieces],
                counts[groups[a:b]],
                {name: summary.slice(a, b) for name, summary in found.items()},
            )
            for key, (a, b) in enumerate(pairwise(ends))
        )

    def _summaries(self, table: pa.Table, lengths: Ints) -> dict[str, AttributeSummary]:
        begins = np.append(0, np.cumsum(lengths))
        return {
            needed.name: summarise_rows(
                _values(table.column(needed.name), needed.kind),
                needed.kind,
                begins,
                squares=needed.squares,
            )
            for needed in self.needed
        }


def _count_true(mask: Bools, cuts: Ints) -> Ints:
    """Return how many rows of a mask are set from each cut to the next."""
    before = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=before[1:])
    counts: Ints = np.diff(before[np.append(cuts, len(mask))])
    return counts


def _values(column: pa.ChunkedArray, kind: Kind) -> Values:
    """Return a column as it is summarised."""
    if kind is Kind.OPAQUE:
        return Values(NO_INTS, column.is_valid().to_numpy())
    if kind is not Kind.STRING:
        return to_arrays(column)
    return Values(to_plain(column), None)
