"""Windowed aggregation as an online operator: events in, rows of complete windows out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from chronicle.time import to_int64
from chronicle.tree.summary import Ints
from replay.expressions.columns import Columns
from replay.expressions.evaluate import evaluate, truths
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Attribute,
    Expression,
    RowWindows,
    SessionWindows,
    WholeRange,
    WindowAggregation,
    attributes,
)
from replay.operators.packing import State
from replay.operators.place_kernels import order_rows
from replay.windows.entries import EntryStore, WindowEntries, keep, needs_of
from replay.windows.forming import (
    Forming,
    Placed,
    RowForming,
    SessionForming,
    TimeForming,
    WholeForming,
)
from replay.windows.kernels import cut_entries
from replay.windows.keys import KeyTable
from replay.windows.results import answer_schema
from replay.windows.rows import RowMaker

_NO_CODES: Ints = np.zeros(0, np.int64)


class WindowAggregator:
    """Aggregates the events of windows, of a stream that is pushed in order.

    Events are cut into panes where windows begin or end, each pane is summarised as it comes, and
    windows are merged of panes, so that time is linear in events, panes and rows of the answer.
    Held are the panes of the longest window (and the values themselves for DISTINCT and
    percentiles), and what cannot be told yet because a row before it cannot.

    ``schema`` is that of the events pushed: at least the columns that ``what`` reads. ``span``
    holds the times of the stream's first and last event, where not all of its events are pushed.
    ``eager`` tells a window as soon as it is closed, also where many panes have to be merged for a
    few windows; else a few are told together then. ``told_max`` is how many windows there may be to
    tell, if eager at once; None: any number. Raises a QueryError for windows that are too long or
    too many, and a NotSupportedError for an aggregate they do not have yet.

    Notes
    -----
    ``push`` and ``finish`` return iterators. One has to be exhausted before the next push.
    """

    is_done = False
    """Every event counts."""

    def __init__(
        self,
        what: WindowAggregation,
        schema: pa.Schema,
        *,
        span: tuple[int, int] | None = None,
        eager: bool = False,
        told_max: int | None = None,
    ) -> None:
        self._what = what
        self._eager = eager
        self._faults = Faults()
        self._needs = needs_of(what.aggregates)
        self._names = _columns_of(what, schema)
        self._is_timed = not isinstance(what.windows, WholeRange)
        self._keys = KeyTable(what.keys, schema)
        self._forming = _forming(what, schema, self._keys, span, told_max)
        self._maker = RowMaker(what, self._needs, schema)
        self._store = EntryStore(self._entries(schema.empty_table(), Placed(_NO_CODES))[0])
        self.schema = answer_schema(what, schema)
        """Of the rows: window_start, window_end, keys, aggregates."""

    @property
    def n_faults(self) -> int:
        """Evaluations whose arithmetic or cast gave NULL."""
        return self._faults.count

    @property
    def n_held(self) -> int:
        """Entries of panes, and values themselves, that are held."""
        return self._store.weight

    def push(self, events: pa.Table) -> Iterator[pa.Table]:
        """Take in events, and yield the rows of windows that are complete.

        ``events`` are in stream order, none before one pushed earlier. If a sum does not fit, that
        is raised once the rows before it were yielded.
        """
        if not events.num_rows:
            return
        times = self._times(events)
        events = events.select(self._names)
        placed = self._forming.place(times, events, self._faults)
        if self._what.where is not None:
            passes = truths(self._what.where, Columns(events), self._faults)
            events, placed = events.filter(pa.array(passes)), _filter(placed, passes)
        if events.num_rows:
            entries, lasts, partitions = self._entries(events, placed)
            self._forming.note(entries, lasts, partitions)
            self._store.add(entries)
        yield from self._tables(final=False)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take it that no event to come is before a time; yield the rows that are complete then."""
        self._forming.advance(time)
        yield from self._tables(final=False)

    def finish(self) -> Iterator[pa.Table]:
        """Yield the rows of all windows that are left, at the end of the stream."""
        yield from self._tables(final=True)

    def state(self) -> State:
        """Return what is known and kept, for `take_over` of an aggregator of the same windows."""
        own = {
            "n_faults": self._faults.count,
            "keys": self._keys.state(),
            "forming": self._forming.state(),
            "store": self._store.state(),
        }
        return {"aggregator": own}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; what was pushed here is forgotten."""
        own = state["aggregator"]
        self._faults.count = own["n_faults"]
        self._keys.take_over(own["keys"])
        self._forming.take_over(own["forming"])
        self._store.take_over(own["store"])

    def _tables(self, *, final: bool) -> Iterator[pa.Table]:
        for entries, rows in self._forming.rows(self._store, final=final, eager=self._eager):
            yield from self._maker.tables(entries, rows)

    def _times(self, events: pa.Table) -> Ints:
        if not self._is_timed:
            return _NO_CODES
        column = to_int64(events.column(self._what.time), name=self._what.time)
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _entries(self, events: pa.Table, placed: Placed) -> tuple[WindowEntries, Ints, Ints | None]:
        """Return entries, the position of the last event of each, and its partition."""
        positions, partitions, codes, numbers = placed
        if codes is None or numbers is None:
            codes, numbers = self._keys.number(events, self._faults)
        source = Columns(events)
        columns = [evaluate(need.argument, source, self._faults) for need in self._needs]
        order = None
        if len(numbers) > 1:
            order, _ = order_rows(codes, len(numbers))
            codes, positions = codes[order], positions[order]
            columns = [values.take(order) for values in columns]
            partitions = None if partitions is None else partitions[order]
        # An empty stream has no borders to cut at.
        cut = self._forming.cut if len(positions) else (0, 0, 0)
        along = positions
        if isinstance(self._forming, TimeForming):
            along = self._forming.along(positions)
        begins = cut_entries(codes if order is not None else _NO_CODES, along, *cut)
        firsts = begins[:-1]
        kept = tuple(
            keep(need, values, begins) for need, values in zip(self._needs, columns, strict=True)
        )
        key = numbers[codes[firsts]] if len(codes) else firsts
        entries = WindowEntries(key, positions[firsts], np.diff(begins), kept)
        return (
            entries,
            positions[begins[1:] - 1],
            None if partitions is None else partitions[firsts],
        )


def _forming(
    what: WindowAggregation,
    schema: pa.Schema,
    keys: KeyTable,
    span: tuple[int, int] | None,
    told_max: int | None,
) -> Forming:
    """Return how the windows are formed."""
    windows = what.windows
    if isinstance(windows, WholeRange):
        return WholeForming(keys)
    if isinstance(windows, SessionWindows | RowWindows):
        columns = {key.name: key for key in what.keys if isinstance(key, Attribute)}
        partition_by = [columns[name] for name in windows.partition_by]
        partitions = KeyTable(partition_by, schema)
        if isinstance(windows, SessionWindows):
            return SessionForming(windows, keys, partitions)
        alone = set(partition_by) == set(what.keys)
        return RowForming(windows, keys, keys if alone else partitions)
    return TimeForming(windows, keys, span, told_max)


def _columns_of(what: WindowAggregation, schema: pa.Schema) -> list[str]:
    """Return the columns of the events that are read, in their order."""
    arguments = [part.argument for part in what.aggregates]
    expressions: list[Expression | None] = [what.where, *what.keys, *arguments]
    read = {attribute.name for part in expressions for attribute in attributes(part)}
    windows = what.windows
    if isinstance(windows, SessionWindows | RowWindows):
        read |= set(windows.partition_by)
    # A table without columns forgets how many rows it has.
    return [name for name in schema.names if name in read] or schema.names[:1]


def _filter(placed: Placed, passes: np.typing.NDArray[np.bool_]) -> Placed:
    positions, partitions, codes, numbers = placed
    return Placed(
        positions[passes],
        None if partitions is None else partitions[passes],
        None if codes is None else codes[passes],
        numbers,
    )
