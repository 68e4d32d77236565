"""Aggregates over given rows of a stream: whole blocks from the tree, those that are cut read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.time import to_int64
from chronicle.tree.summary import Ints
from replay.engines.source import EventSource, fetch_events
from replay.expressions.columns import ARROW_TYPES
from replay.language.bound import Aggregate, Attribute, Outer, WholeRange, WindowAggregation
from replay.operators.distinct import distinct
from replay.windows.merging import merge_windows
from replay.windows.results import to_tables
from replay.windows.tree.axis import Axis
from replay.windows.tree.entries import EntryMaker
from replay.windows.tree.pieces import PieceReader
from replay.windows.tree.stats import TreeStats
from replay.windows.tree.terms import needed_of, plain_counts, why_not_tree

_ENDS: Final = ("first", "last")
"""Aggregates that are the value of one row."""


def aggregate_rows(
    snapshot: Snapshot,
    aggregates: Sequence[Aggregate],
    names: Sequence[str],
    first: Ints,
    stop: Ints,
    source: EventSource,
) -> pa.Table:
    """Return aggregates over ranges of rows, one row for each.

    Parameters
    ----------
    aggregates, names
        Such that summaries hold (`why_not_tree`), or FIRST and LAST of plain columns; and what
        their columns are called.
    first, stop
        ``seq`` of the first row of each range and of the one behind its last. Both ascend; no range
        is empty, and there is one at least.
    source
        Where the blocks that ranges cut are read.
    """
    ends = {
        name: part for name, part in zip(names, aggregates, strict=True) if part.function in _ENDS
    }
    merged = {name: part for name, part in zip(names, aggregates, strict=True) if name not in ends}
    columns = {name: _at_end(part, first, stop, source) for name, part in ends.items()}
    if merged:
        table = _merged(snapshot, merged, first, stop, source)
        columns |= {name: table.column(name) for name in merged}
    return pa.table({name: columns[name] for name in names})


def _at_end(part: Aggregate, first: Ints, stop: Ints, source: EventSource) -> pa.ChunkedArray:
    """Return what FIRST or LAST of a plain column is of each range."""
    assert isinstance(part.argument, Attribute)
    rows = first if part.function == "first" else stop - 1
    seqs, places = np.unique(rows, return_inverse=True)
    column = fetch_events(source, [part.argument.name], seqs).column(0)
    return column.take(pa.array(places)).cast(ARROW_TYPES[part.type])


def _merged(
    snapshot: Snapshot,
    aggregates: Mapping[str, Aggregate],
    first: Ints,
    stop: Ints,
    source: EventSource,
) -> pa.Table:
    """Return the aggregates, by name, that summaries are merged to."""
    what = plain_counts(
        WindowAggregation(
            WholeRange(),
            "",
            None,
            (),
            (),
            tuple(aggregates.values()),
            tuple(aggregates),
            Outer(()),
        )
    )
    assert why_not_tree(what, snapshot.schema) is None
    base = snapshot.leaves.base
    axis = Axis(base[:-1], base[1:] - 1, in_rows=True)
    needed = needed_of(what, snapshot.schema)
    maker = EntryMaker(PieceReader(snapshot, axis, needed, None, None, None, source))
    borders = distinct(first, stop)
    block, cuts = axis.place(borders[[0, -1]])
    until = int(block[1] + cuts[1])
    (series,) = maker.make(int(block[0]), until, borders, TreeStats(), in_threads=False).series
    low, high = (np.searchsorted(series.seq, side) for side in (first, stop))
    summaries = {
        column.name: merge_windows(series.summaries[column.name], low, high, squares=column.squares)
        for column in needed
    }
    parts = to_tables(what, snapshot.schema, (first, stop), (), stop - first, summaries)
    return pa.concat_tables(list(parts)).select(list(aggregates))


def rows_until(snapshot: Snapshot, until: Ints, source: EventSource) -> Ints:
    """Return for each time the ``seq`` behind the last row that is not later.

    The times of blocks that one lies in are read from ``source``.
    """
    leaves, time = snapshot.leaves, snapshot.settings.time
    block = np.searchsorted(leaves.t_min, until, side="right") - 1
    stop = np.append(leaves.base, 0)[block + 1]  # a time before all is none of a row
    inside = (block >= 0) & (until < leaves.t_max[block])
    blocks = np.unique(block[inside])
    if not len(blocks):
        return stop
    counts = leaves.count[blocks]
    column = source.read_blocks(blocks, [time]).column(time)
    times = to_int64(column, name=time).to_numpy()
    begins = np.cumsum(counts) - counts
    place = np.searchsorted(blocks, block[inside])
    rows = np.searchsorted(times, until[inside], side="right") - begins[place]
    stop[inside] = leaves.base[block[inside]] + rows
    return stop
