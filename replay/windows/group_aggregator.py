"""Aggregates of numbered groups of rows, as those of windows are computed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import Ints
from replay.expressions.columns import Columns
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import Aggregate, Outer, WholeRange, WindowAggregation
from replay.operators.packing import State
from replay.windows.entries import WindowEntries, keep, needs_of, runs_of
from replay.windows.results import answer_schema
from replay.windows.rows import RowMaker, WindowRows


class GroupAggregator:
    """Aggregates groups of rows, which may come in pieces.

    Of rows that were added an entry of each group is held: it is as large for many rows as for a
    few, but for percentiles and DISTINCT, which need the values themselves.

    Attributes
    ----------
    schema
        Of the aggregates, a column each.
    """

    def __init__(self, aggregates: tuple[Aggregate, ...], schema: pa.Schema) -> None:
        names = tuple(f"{part.function.upper()} ({i})" for i, part in enumerate(aggregates, 1))
        what = WindowAggregation(WholeRange(), "", None, (), (), aggregates, names, Outer(()))
        self._needs = needs_of(aggregates)
        self._maker = RowMaker(what, self._needs, schema)
        self._held = self._entries(schema.empty_table(), np.zeros(0, np.int64))
        self.schema = answer_schema(what, schema)

    @property
    def n_held(self) -> int:
        """Entries, and values themselves, that are held."""
        return self._held.weight

    def add(self, rows: pa.Table, groups: Ints) -> None:
        """Take in the next rows of groups: the number of each row's, those of one together."""
        entries = _by_group([self._held, self._entries(rows, groups)])
        self._held = entries.merged(runs_of(entries)) if len(entries) else entries

    def keep(self, groups: Ints) -> None:
        """Drop what is held of all groups but some."""
        self._held = self._held.take(np.flatnonzero(np.isin(self._held.key, groups)))

    def aggregates(self, rows: pa.Table, groups: Ints, held: Ints) -> pa.Table:
        """Return the aggregates of groups, a row each.

        ``rows`` are theirs that were not added, ``groups`` the place of each row's group in
        ``held``, those of one together, and ``held`` the number by which rows of each were added,
        if any. No group is empty.
        """
        added = np.searchsorted(self._held.key, held)
        is_added = added < len(self._held)
        is_added[is_added] = self._held.key[added[is_added]] == held[is_added]
        before = self._held.take(added[is_added])
        before = WindowEntries(
            np.flatnonzero(is_added), before.position, before.counts, before.kept
        )
        entries = _by_group([before, self._entries(rows, groups)])
        runs = runs_of(entries)
        places = np.arange(len(held))
        (table,) = self._maker.tables(
            entries, WindowRows(runs[:-1], runs[1:], places, places, [], None)
        )
        return table

    def _entries(self, rows: pa.Table, groups: Ints) -> WindowEntries:
        source, faults = Columns(rows), Faults()
        begins = np.flatnonzero(np.diff(groups, prepend=-1))
        borders = np.append(begins, len(groups))
        kept = tuple(
            keep(need, evaluate(need.argument, source, faults), borders) for need in self._needs
        )
        return WindowEntries(groups[begins], np.zeros_like(begins), np.diff(borders), kept)

    def state(self) -> State:
        """Return what is held."""
        return self._held.state()

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        held = WindowEntries.from_state(state)
        if len(held.kept) != len(self._needs) or (np.diff(held.key) <= 0).any():
            raise ValueError("the state has entries of other aggregates")
        self._held = held


def _by_group(parts: list[WindowEntries]) -> WindowEntries:
    """Return entries in the order of their groups, those of one in the order of the parts."""
    entries = WindowEntries.concat([part for part in parts if len(part)] or parts[:1])
    return entries.take(np.argsort(entries.key, kind="stable"))
