"""Rows of the answer from entries: merged window by window, finished, put in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import AttributeSummary, Ints
from replay.expressions.columns import Values, to_arrow
from replay.language.bound import Aggregate, WindowAggregation
from replay.windows.entries import KINDS, Needs, WindowEntries, take_summary
from replay.windows.exact import count_distinct, percentile, summarise_distinct
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

    Parameters
    ----------
    what
        The aggregation.
    needs
        `entries.needs_of` its aggregates.
    schema
        Of the events.
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

        Parameters
        ----------
        entries
            By key, then position.
        rows
            The rows.
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
        if part.argument is None or part.function in MERGEABLE - {"count"} or is_mergeable(part):
            summary = self._summary(part, entries, merged, bounds)
            if order is None:
                return finish(part, counts, summary)
            summary = None if summary is None else take_summary(summary, order)
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
