"""Where an engine reads events from, and the order in which they are matched."""

from __future__ import annotations

from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.errors import SchemaError
from chronicle.schema import normalise_schema
from chronicle.time import is_ascending, to_int64
from replay.engines.read_ahead import divide
from replay.planning.ascending import count_on

IntArray = npt.NDArray[np.int64]


def in_order(table: pa.Table, time: str, order_by: tuple[str, ...]) -> pa.Table:
    """Return the rows by time, then by the columns of ``order_by``, then as they come.

    NULL and NaN are alike, and come last.
    """
    keys = [to_int64(table.column(time), name=time).to_numpy()]
    keys += [_ranks(table.column(name)) for name in order_by]
    places = np.lexsort(keys[::-1])
    if np.array_equal(places, np.arange(len(places))):
        return table
    return table.unify_dictionaries().take(pa.array(places))


def _ranks(column: pa.ChunkedArray) -> IntArray:
    """Return numbers that order the values; the greatest for what is missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    ranks = pc.rank(column, tiebreaker="dense")  # nulls at the end
    return np.asarray(ranks).astype(np.int64)


TABLE_BLOCK_EVENTS = 1 << 16
"""Rows of an in-memory table handed over at once; large, since slicing costs nothing."""

FETCH_BLOCKS = 256
"""Blocks whose columns a thread holds at once while single events are looked up."""


class EventSource(Protocol):
    """Blocks of events in stream order.

    ``chronicle.Snapshot`` is one; ``TableSource`` another.
    """

    @property
    def n_events(self) -> int:
        """Number of events."""
        ...

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        ...

    @property
    def bases(self) -> IntArray:
        """First ``seq`` of each block and the number of events, shape (n_blocks + 1,)."""
        ...

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Read ascending ``blocks``; rows in ``seq`` order."""
        ...


class TableSource:
    """A table in memory, cut into blocks; sorted by time first if it is not.

    ``columns`` are those the query reads; others may be of any type. Rows of equal ``time`` keep
    the order they have unless ``order_by`` orders them; without a time column all rows keep theirs.
    ``name`` is what the table is called in messages.
    """

    def __init__(
        self,
        table: pa.Table,
        columns: list[str],
        *,
        time: str | None,
        name: str,
        order_by: tuple[str, ...] = (),
    ) -> None:
        table = _as_stored(table.select(columns), name)
        self._time = time
        if time is None:
            self._table = table
            return
        times = table.column(time)
        if times.null_count:
            raise SchemaError(
                f"table '{name}' has {times.null_count} rows without a time in column '{time}'; "
                "filter them out first"
            )
        self._table = _in_time_order(table, time, order_by)

    @property
    def n_events(self) -> int:
        """Number of rows."""
        return int(self._table.num_rows)

    @property
    def n_blocks(self) -> int:
        """Number of slices."""
        return -(-self.n_events // TABLE_BLOCK_EVENTS)

    @property
    def bases(self) -> IntArray:
        """First row of each slice and the number of rows."""
        starts = np.arange(self.n_blocks + 1, dtype=np.int64) * TABLE_BLOCK_EVENTS
        return np.minimum(starts, self.n_events)

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last time; None without rows, or where no column is known to be the time."""
        if self._time is None or not self.n_events:
            return None
        times = to_int64(self._table.column(self._time), name=self._time)
        return times[0].as_py(), times[-1].as_py()

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend."""
        chosen = self._table.select(columns)
        slices = [chosen.slice(int(b) * TABLE_BLOCK_EVENTS, TABLE_BLOCK_EVENTS) for b in blocks]
        table = pa.concat_tables(slices) if slices else chosen.slice(0, 0)
        return encode_strings(table)


def _as_stored(table: pa.Table, name: str) -> pa.Table:
    """Return a table's columns in the types that streams have."""
    for i, field in enumerate(normalise_schema(table.schema)):
        try:
            table = table.set_column(i, field, table.column(i).cast(field.type))
        except pa.ArrowInvalid as error:  # a time in seconds may lie beyond all microseconds
            raise SchemaError(
                f"a row of table '{name}' cannot be read: its '{field.name}' does not fit ({error})"
            ) from error
    return table.replace_schema_metadata(None)


def _in_time_order(table: pa.Table, time: str, order_by: tuple[str, ...]) -> pa.Table:
    if not order_by and is_ascending(to_int64(table.column(time), name=time).to_numpy()):
        return table
    return in_order(table, time, order_by)


def encode_strings(table: pa.Table) -> pa.Table:
    """Return the table with its string columns dictionary-encoded."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            encoded = pc.dictionary_encode(table.column(index))
            table = table.set_column(index, field.name, encoded)
    return table


class OnceRead:
    """A source that keeps what it read, for replays so small that all of it fits.

    The first read takes every column of the query; measures, which come after matching, are then
    evaluated on the same rows without going back to disk.

    ``columns`` are all that the query names.
    """

    def __init__(self, source: EventSource, columns: list[str]) -> None:
        self._source = source
        self._columns = columns
        self._blocks = np.empty(0, dtype=np.int64)
        self._table: pa.Table | None = None
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend, from what is kept where it has them."""
        if self._table is None:
            self._blocks, self._table = blocks, self._source.read_blocks(blocks, self._columns)
        if np.array_equal(blocks, self._blocks):
            return self._table.select(columns)
        places = self._blocks.searchsorted(blocks)
        is_kept = np.append(self._blocks, -1)[places] == blocks
        if not is_kept.any():
            return self._source.read_blocks(blocks, columns)
        if not is_kept.all():
            return self._with_others(blocks, is_kept, columns)
        counts = self.bases[self._blocks + 1] - self.bases[self._blocks]
        starts = (counts.cumsum() - counts)[places].tolist()
        chosen = self._table.select(columns)
        return pa.concat_tables(map(chosen.slice, starts, counts[places].tolist()))

    def _with_others(
        self, blocks: IntArray, is_kept: npt.NDArray[np.bool_], columns: list[str]
    ) -> pa.Table:
        """Return the rows of blocks some of which are kept; the others are read."""
        parts = [
            self._source.read_blocks(blocks[~is_kept], columns),
            self.read_blocks(blocks[is_kept], columns),
        ]
        counts = self.bases[blocks + 1] - self.bases[blocks]
        slices, at = [], [0, 0]
        for kept, n in zip(is_kept.tolist(), counts.tolist(), strict=True):
            slices.append(parts[kept].slice(at[kept], n))
            at[kept] += n
        return pa.concat_tables(slices)


class KeptBlocks:
    """A source that keeps the blocks read last, and counts those it had to read.

    ``columns`` are all that is ever asked for. Up to ``n_events_max`` events are kept.
    """

    def __init__(self, source: EventSource, columns: list[str], n_events_max: int) -> None:
        self._source, self._columns, self._n_events_max = source, columns, n_events_max
        self._kept: dict[int, pa.Table] = {}
        self._n_kept = 0
        self._lock = Lock()  # single events are fetched in threads
        self.read: list[int] = []
        """Blocks that were read."""
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    def keep(self, blocks: IntArray, table: pa.Table) -> None:
        """Keep the rows of some blocks, which were read elsewhere."""
        ends = np.cumsum(self.bases[blocks + 1] - self.bases[blocks]).tolist()
        with self._lock:
            for block, begin, end in zip(blocks.tolist(), [0, *ends], ends, strict=False):
                if block not in self._kept:
                    self._kept[block] = table.slice(begin, end - begin)
                    self._n_kept += end - begin
            while self._n_kept > self._n_events_max:
                self._n_kept -= self._kept.pop(next(iter(self._kept))).num_rows

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend, from what is kept where it has them."""
        kept = [self._kept.get(block) for block in blocks.tolist()]
        missing = blocks[[table is None for table in kept]]
        read = self._source.read_blocks(missing, self._columns)
        self.read += missing.tolist()
        self.keep(missing, read)
        slices, at = [read.slice(0, 0)], 0
        for block, table in zip(blocks.tolist(), kept, strict=True):
            if table is None:
                n = int(self.bases[block + 1] - self.bases[block])
                table, at = read.slice(at, n), at + n
            slices.append(table)
        return pa.concat_tables([table.select(columns) for table in slices])


def seqs_of_blocks(blocks: IntArray, bases: IntArray) -> IntArray:
    """Return the ``seq`` of all rows of some blocks, block by block."""
    return count_on(bases[blocks], bases[blocks + 1] - bases[blocks])


def fetch_events(source: EventSource, columns: list[str], seqs: IntArray) -> pa.Table:
    """Return the events at ``seqs``.

    ``seqs``, int64, are positions in ``[0, n_events)``, ascending, none twice; there is a row for
    each, in that order. At least one column is asked for.
    """
    bases = source.bases
    block_of = np.searchsorted(bases, seqs, side="right") - 1
    is_first = np.ones(len(seqs), np.bool_)
    is_first[1:] = block_of[1:] != block_of[:-1]
    blocks, place_of = block_of[is_first], is_first.cumsum() - 1
    starts = is_first.nonzero()[0]

    def fetch(first: int) -> pa.Table:
        chosen = blocks[first : first + FETCH_BLOCKS]
        last = first + len(chosen)
        lo = starts[first] if len(chosen) else 0
        hi = starts[last] if last < len(blocks) else len(seqs)
        # Row of the read at which each block's seq 0 would stand.
        counts = bases[chosen + 1] - bases[chosen]
        shift = np.cumsum(counts) - counts - bases[chosen]
        rows = seqs[lo:hi] + shift[place_of[lo:hi] - first]
        return source.read_blocks(chosen, columns).take(pa.array(rows))

    pieces = divide(range(0, max(len(blocks), 1), FETCH_BLOCKS), fetch)
    return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces).unify_dictionaries()
