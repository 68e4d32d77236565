"""Rows of the answer from entries: merged window by window, finished, put in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import AttributeSummary, Ints, Kind
from replay.expressions.columns import Values, to_arrow
from replay.language.bound import Aggregate, WindowAggregation
from replay.limits import check_limits
from replay.operators.grouping import group_rows
from replay.windows.entries import KINDS, Needs, Rows, WindowEntries, summarise_rows
from replay.windows.exact_kernels import (
    distinct_ranks,
    slide_distinct,
    slide_percentile,
)
from replay.windows.merging import merge_counts, merge_windows
from replay.windows.results import (
    MERGEABLE,
    SPREADS,
    Finished,
    assemble,
    finish,
    is_mergeable,
    summarised,
)

_DISTINCT_AT_ONCE = 1 << 18
"""Rows of windows whose different values are held at once."""


def count_distinct(rows: Rows, lo: Ints, hi: Ints) -> Ints:
    """Return how many different values each window has; NaN is one of them, -0.0 is 0.0.

    Takes time linear in rows and windows.

    ``lo`` and ``hi`` as in `merging.merge_windows`.
    """
    groups = group_rows([rows.evaluated], len(rows.values))
    counts: Ints = slide_distinct(groups.of_row, groups.n_groups, *_row_bounds(rows, lo, hi))
    return counts


def summarise_distinct(
    rows: Rows, lo: Ints, hi: Ints, kind: Kind, *, squares: bool
) -> AttributeSummary:
    """Summarise the different values of each window, added up in their order.

    So the order of the rows does not matter, nor how the stream was cut. NaN is one of them, -0.0
    is 0.0. Takes time in O(n log n) of the n rows of each window, whatever they share.

    ``rows`` are numbers, ``kind`` INTEGER or FLOAT; ``lo`` and ``hi`` as in
    `merging.merge_windows`.
    """
    data = rows.evaluated.data
    different, ranks = np.unique(data, return_inverse=True)
    begins, ends = _row_bounds(rows, lo, hi)
    ends = np.maximum(begins, ends)
    batch = np.cumsum(ends - begins) // _DISTINCT_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(lo)]
    parts = []
    for first, stop in pairwise(cuts):
        check_limits()
        chosen, counts = distinct_ranks(ranks, begins[first:stop], ends[first:stop])
        borders = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        values = Values(different[chosen], None)
        parts.append(summarise_rows(values, kind, borders, squares=squares))
    return AttributeSummary.concat(parts)


def percentile(rows: Rows, lo: Ints, hi: Ints, fraction: float) -> Values:
    """Return a percentile of each window, NULL where it has no value but NaN.

    The value at place ``fraction * (n - 1)`` of the n values in ascending order, from 0; between
    two of them in proportion. Takes time in O((rows + windows) log rows).

    ``rows`` are numbers, ``fraction`` is from 0 to 1; ``lo`` and ``hi`` as in
    `merging.merge_windows`.
    """
    data = rows.evaluated.data
    different, ranks = np.unique(data, return_inverse=True)
    if data.dtype.kind == "f":
        ranks = np.where(np.isnan(data), -1, ranks)
    bounds = _row_bounds(rows, lo, hi)
    below, above, way = slide_percentile(ranks, rows.times, len(different), *bounds, fraction)
    there = below >= 0
    if not len(different):
        return Values(np.zeros(len(lo)), there)
    least, most = (different[np.maximum(side, 0)].astype(np.float64) for side in (below, above))
    with np.errstate(over="ignore", invalid="ignore"):
        between = least + (most - least) * way
        # Of values too far apart to be subtracted, or infinite ones.
        between = np.where(np.isfinite(between), between, least * (1.0 - way) + most * way)
    return Values(np.where(below == above, least, between) + 0.0, there)


def _row_bounds(rows: Rows, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.counts)])
    return before[lo], before[np.maximum(lo, hi)]


class WindowRows(NamedTuple):
    """Which rows there are, and which entries each of them holds."""

    lo: Ints
    """First entry of each row; ascends."""
    hi: Ints
    """The entry after its last; ascends."""
    starts: Ints
    ends: Ints
    keys: list[pa.Array]
    order: Ints | None
    """Their places in canonical order; None where they stand in it."""


class RowMaker:
    """Makes rows of one aggregation.

    ``needs`` is `entries.needs_of` its aggregates, ``schema`` that of the events.
    """

    def __init__(
        self, what: WindowAggregation, needs: tuple[Needs, ...], schema: pa.Schema
    ) -> None:
        self._what = what
        self._needs = needs
        self._place = {need.argument: at for at, need in enumerate(needs)}
        self._schema = schema

    def tables(self, entries: WindowEntries, rows: WindowRows) -> Iterator[pa.Table]:
        """Yield the rows in canonical order, in one table; see `results.to_tables`.

        ``entries`` stand by key, then position.
        """
        lo, hi, starts, ends, keys, order = rows
        counts = merge_counts(entries.counts, lo, hi)
        merged = [
            None
            if part.summary is None
            else merge_windows(part.summary, lo, hi, squares=need.squares)
            for need, part in zip(self._needs, entries.kept, strict=True)
        ]
        finished = [
            self._finish(part, entries, merged, counts, (lo, hi), order)
            for part in self._what.aggregates
        ]
        if order is not None:
            starts, ends = starts[order], ends[order]
            keys = [key.take(pa.array(order)) for key in keys]
        yield from assemble(self._what, self._schema, (starts, ends), keys, finished)

    def _finish(
        self,
        part: Aggregate,
        entries: WindowEntries,
        merged: list[AttributeSummary | None],
        counts: Ints,
        bounds: tuple[Ints, Ints],
        order: Ints | None,
    ) -> Finished:
        """Return one aggregate of every row, in canonical order."""
        check_limits()
        if part.argument is None or part.function in MERGEABLE - {"count"} or is_mergeable(part):
            summary = self._summary(part, entries, merged, bounds)
            if order is None:
                return finish(part, counts, summary)
            summary = None if summary is None else summary.take(order)
            return finish(part, counts[order], summary)
        column = self._exact(part, entries, bounds)
        return Finished(column if order is None else column.take(pa.array(order)), None, str)

    def _summary(
        self,
        part: Aggregate,
        entries: WindowEntries,
        merged: list[AttributeSummary | None],
        bounds: tuple[Ints, Ints],
    ) -> AttributeSummary | None:
        """Return the summary that gives an aggregate; None for ``COUNT(*)``."""
        argument = summarised(part)
        if argument is None or is_mergeable(part):
            return None if argument is None else merged[self._place[argument]]
        rows = entries.kept[self._place[argument]].rows
        assert rows is not None
        squares = part.function in SPREADS
        return summarise_distinct(rows, *bounds, KINDS[argument.type], squares=squares)

    def _exact(
        self, part: Aggregate, entries: WindowEntries, bounds: tuple[Ints, Ints]
    ) -> pa.Array:
        """Return an aggregate that is told from values themselves."""
        argument = summarised(part)
        assert argument is not None
        kept = entries.kept[self._place[argument]]
        lo, hi = bounds
        if part.function in ("first", "last"):
            side, at = (kept.first, lo) if part.function == "first" else (kept.last, hi - 1)
            assert side is not None
            empty = lo >= hi
            return side.take(pa.array(np.where(empty, 0, at), mask=empty))
        assert kept.rows is not None
        if part.function == "percentile":
            assert part.fraction is not None
            return to_arrow(percentile(kept.rows, lo, hi, part.fraction), part.type)
        return to_arrow(Values(count_distinct(kept.rows, lo, hi), None), part.type)
