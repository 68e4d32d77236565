"""Events of planned blocks that pass a condition: read ahead in threads, handed on in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.compile_time import clock
from chronicle.time import to_int64
from replay.engines.read_ahead import read_ahead
from replay.engines.source import EventSource, fetch_events
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Expression, attributes

IntArray = npt.NDArray[np.int64]

UNIT_EVENTS = 1 << 17
"""Events read and evaluated at once: large enough to hide Python calls, small enough for caches."""

INLINE_EVENTS = 1 << 15
"""Below this many events to read a query starts no thread."""

FEW_EVENTS = 1 << 12
"""Events of the first unit where a LIMIT may have enough soon; each next one has twice as many."""


SEQ: Final = "\0seq"
"""Name of a column, one that no stream has: where each event stands in the source."""

Computed = Callable[[pa.Table, Faults], pa.Table]
"""Gives rows with more columns, and counts the faults of computing them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a source."""

    columns: tuple[str, ...]
    """Columns handed on, at least one unless the source has none."""
    where: Expression | None = None
    """Which events; None: all."""
    time: str | None = None
    """The time column, among ``columns`` if ``backward``."""
    backward: bool = False
    """Whether later events come first; events of one time keep their order."""
    few: bool = False
    """Whether whoever asks may soon have enough."""
    encoded: bool = False
    """Whether strings stay dictionary-encoded, as whoever groups by them wants them."""
    computed: Computed | None = None
    """Adds columns, told by each row alone, in the threads that read; only without ``where``."""
    numbered: bool = False
    """Whether `SEQ` is handed on, too."""

    @property
    def first_columns(self) -> list[str]:
        """What must be read of every event: what the condition names, or all without one."""
        read = sorted({attribute.name for attribute in attributes(self.where)})
        return read or list(self.columns)

    @property
    def all_columns(self) -> list[str]:
        """All that is read of events that pass, each column once."""
        return list(dict.fromkeys((*self.first_columns, *self.columns)))


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a unit."""

    table: pa.Table
    n_rows: int
    n_faults: int


class Scan:
    """A filter on its way over stretches of blocks, and what that took so far.

    ``stretches`` are half-open block ranges that hold every event that passes, ascending and
    disjoint, shape (n, 2).

    ``n_blocks`` and ``n_rows`` count blocks read and their events, fewer than planned where
    `tables` was left early; ``n_faults`` faults of rows in the condition; ``seconds_read`` the time
    spent waiting for events to be read and filtered.
    """

    def __init__(self, source: EventSource, stretches: IntArray, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self.stretches = stretches
        self._units = cut_blocks(
            blocks_of(stretches),
            source.bases,
            backward=reading.backward,
            first_events=FEW_EVENTS if reading.few else UNIT_EVENTS,
        )
        self._in_threads = sum(map(self._count, self._units)) > INLINE_EVENTS
        self.n_blocks = self.n_rows = self.n_faults = 0
        self.seconds_read = 0.0

    def tables(self) -> Iterator[pa.Table]:
        """Yield the events that pass, at least one table."""
        yield self.empty()
        found = (table for _, table in self.units())
        yield from _latest_first(found, self._reading) if self.backward else found

    def units(self) -> Iterator[tuple[IntArray, pa.Table]]:
        """Yield blocks that were read at once, and their events that pass, if there are any."""
        mark = clock()
        for unit, done in read_ahead(
            self._units, self._read, in_threads=self._in_threads and len(self._units) > 1
        ):
            self.seconds_read += clock() - mark
            self.n_blocks += len(unit)
            self.n_rows += done.n_rows
            self.n_faults += done.n_faults
            if done.table.num_rows:
                yield unit, done.table
            mark = clock()

    @property
    def backward(self) -> bool:
        """Whether the last blocks are read first."""
        return self._reading.backward

    def _count(self, unit: IntArray) -> int:
        bases = self._source.bases
        return int((bases[unit + 1] - bases[unit]).sum())

    def empty(self) -> pa.Table:
        """Return a table without events."""
        nothing = np.empty(0, np.int64)
        table = self._source.read_blocks(nothing, list(self._reading.columns))
        return self._given(table, nothing, nothing)

    def _given(self, table: pa.Table, unit: IntArray, rows: IntArray | None) -> pa.Table:
        """Return some rows of a unit, all without ``rows``, as they are handed on."""
        table = table if self._reading.encoded else decoded(table)
        if not self._reading.numbered:
            return table
        rows = np.arange(table.num_rows) if rows is None else rows
        return table.append_column(SEQ, pa.array(self._seqs(unit, rows)))

    def _read(self, unit: IntArray) -> _Read:
        """Read what the condition names, and the rest only of blocks where it holds."""
        where, columns = self._reading.where, list(self._reading.columns)
        first = self._source.read_blocks(unit, self._reading.first_columns)
        n_rows, faults = self._count(unit), Faults()
        if where is None:
            table, computed = self._given(first, unit, None), self._reading.computed
            table = table if computed is None else computed(table, faults)
            return _Read(table, n_rows, faults.count)
        rows = np.flatnonzero(truths(where, Rows(first, n_rows), faults))
        late = [name for name in columns if name not in first.column_names]
        known = first.select([name for name in columns if name not in late])
        if len(rows) < n_rows:
            known = known.take(pa.array(rows))
        if not late:
            return _Read(self._given(known, unit, rows), n_rows, faults.count)
        rest = fetch_events(self._source, late, self._seqs(unit, rows))
        found = [(rest if name in late else known).column(name) for name in columns]
        table = self._given(pa.table(found, names=columns), unit, rows)
        return _Read(table, n_rows, faults.count)

    def _seqs(self, unit: IntArray, rows: IntArray) -> IntArray:
        """Return the ``seq`` of rows of the unit's blocks."""
        bases = self._source.bases
        counts = bases[unit + 1] - bases[unit]
        ends = np.cumsum(counts)
        block = np.searchsorted(ends, rows, side="right")
        return rows + (bases[unit] - ends + counts)[block]


class Rows(Columns):
    """The columns of a table that may have none, and so would forget how many rows it has."""

    def __init__(self, table: pa.Table, n_rows: int) -> None:
        super().__init__(table)
        self.n_rows = n_rows


def blocks_of(stretches: IntArray) -> IntArray:
    """Return the ordinals of the blocks in half-open ranges."""
    ranges = [np.arange(first, last) for first, last in stretches.tolist()]
    return np.concatenate(ranges) if ranges else np.empty(0, np.int64)


def cut_blocks(
    blocks: IntArray, bases: IntArray, *, backward: bool, first_events: int
) -> list[IntArray]:
    """Cut blocks into units: the first of about so many events, each next of twice as many. Pure.

    ``blocks`` ascend; with ``backward`` the unit of the last blocks comes first, and blocks in a
    unit ascend all the same. ``bases`` has the first ``seq`` of each block, shape (n_blocks + 1,).
    No unit grows beyond `UNIT_EVENTS`, or one block.
    """
    ordered = blocks[::-1] if backward else blocks
    ends = np.cumsum(bases[ordered + 1] - bases[ordered])
    units, at, room = [], 0, first_events
    while at < len(ordered):
        done = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, done + room, side="right")))
        unit = ordered[at:until]
        units.append(unit[::-1] if backward else unit)
        at, room = until, min(2 * room, UNIT_EVENTS)
    return units


def in_units(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table in pieces of `UNIT_EVENTS` rows, at least one; views.

    A subquery with ORDER BY gives all its rows in one table; whoever takes them works piece by
    piece, and looks at the limits of the query in between.
    """
    for first in range(0, max(1, table.num_rows), UNIT_EVENTS):
        yield table.slice(first, UNIT_EVENTS)


def _latest_first(found: Iterator[pa.Table], reading: Reading) -> Iterator[pa.Table]:
    """Yield tables that come last first, with later rows first inside.

    Rows of one time keep their order, so those of the earliest time wait: earlier tables may have
    more of them.
    """
    assert reading.time is not None
    waiting: list[pa.Table] = []
    awaited = 0
    for table in found:
        times = to_int64(table.column(reading.time), name=reading.time).to_numpy()
        n = len(times)
        if waiting and times[0] == awaited:
            waiting.insert(0, table)
            continue
        n_before = int(np.searchsorted(times, awaited, side="left")) if waiting else n
        if waiting:
            yield pa.concat_tables([table.slice(n_before), *waiting])
        n_first = int(np.searchsorted(times, times[0], side="right"))
        # ~x is -1 - x, which the least integer has too.
        places = np.argsort(~times[n_first:n_before], kind="stable") + n_first
        if len(places):
            yield table.take(pa.array(places))
        waiting, awaited = [table.slice(0, n_first)], int(times[0])
    if waiting:
        yield pa.concat_tables(waiting)


def decoded(table: pa.Table) -> pa.Table:
    """Return the table with its dictionary-encoded columns plain."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(index).cast(field.type.value_type)
            table = table.set_column(index, field.with_type(plain.type), plain)
    return table
