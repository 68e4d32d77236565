"""Windowed aggregation from the TAB+-tree: the ways of thesis 3.3.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.tree.summary import AttributeSummary, Ints
from replay.engines.read_ahead import read_ahead
from replay.language.bound import WholeRange, WindowAggregation
from replay.limits import check_limits
from replay.operators.distinct import distinct
from replay.windows.forming import check_told
from replay.windows.merging import merge_counts, merge_windows
from replay.windows.plan import Way, WindowPlan
from replay.windows.results import answer_schema, to_tables
from replay.windows.tree.axis import axis_of, series_of
from replay.windows.tree.entries import EntryMaker, StretchEntries
from replay.windows.tree.keyed import Span, groups_of, key_spans
from replay.windows.tree.pieces import PieceReader
from replay.windows.tree.stats import TreeStats
from replay.windows.tree.terms import needed_of, plain_counts

WINDOWS_AT_ONCE = 1 << 15
"""Windows merged at once; more where more entries are held, so that these are not merged often."""

BORDERS_AT_ONCE = 1 << 15
"""Borders further on in a block, beyond which the block is read anew when their turn comes: events
may be so far apart that windows without number begin and end between two."""

NAIVE_AT_ONCE = 1 << 10
"""Windows of the naive way that make one table of the answer."""


class TreeRun:
    """A windowed aggregation on its way, and what it took so far.

    ``plan`` is what `window_plan` chose, by the tree. Only windows that overlap ``span``, first and
    last time, are part of the answer; None: all are. ``told_max`` is how many there may be to tell;
    None: any number.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        what: WindowAggregation,
        plan: WindowPlan,
        *,
        span: Span | None = None,
        told_max: int | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._told_max = told_max
        self._what = plain_counts(what)
        self._naive = plan.way is Way.TREE_NAIVE
        self._where = plan.where
        self._axis = axis_of(snapshot, what.windows)
        windows = series_of(snapshot, what.windows)
        self._windows = windows if span is None else windows.within(span)
        needed = needed_of(self._what, snapshot.schema)
        self._squares = {column.name: column.squares for column in needed}
        self._groups = (
            groups_of(needed, snapshot).that_may(plan.where.by_key) if what.keys else None
        )
        reader = PieceReader(
            snapshot, self._axis, needed, plan.where.classes, plan.where.condition, self._groups
        )
        self._maker = EntryMaker(reader)
        self._spans: list[Span | None] = []
        self.work = TreeStats()
        self.schema = answer_schema(self._what, snapshot.schema)

    def count_bytes(self) -> int:
        """Return the compressed bytes of what was read."""
        return self.work.count_bytes(self._snapshot)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer in canonical order, at least one table.

        Memory is bounded by the events of the windows that overlap, at most one entry for each,
        by `WINDOWS_AT_ONCE` and by `BORDERS_AT_ONCE`.

        Raises a QueryError for too many windows. If a sum does not fit, that is raised once the
        rows before it were yielded.
        """
        yield self.schema.empty_table()
        if self._groups is not None and not isinstance(self._what.windows, WholeRange):
            self._spans = key_spans(self._snapshot, self._where, self._groups, self.work)
            if not any(self._spans):
                return
        if self._groups is not None and not len(self._groups):
            return
        check_told(self._n_told(), self._told_max)
        for part in self._from_scratch() if self._naive else self._sliding():
            yield from to_tables(
                self._what,
                self._snapshot.schema,
                part.windows,
                () if part.keys is None else (part.keys,),
                part.counts,
                part.summaries,
            )

    def _n_told(self) -> int:
        """Return how many windows of all keys there are."""
        if self._groups is None:
            return self._windows.n_windows
        found = [self._windows.overlapping(span) for span in self._spans]
        return sum(max(0, stop - first) for first, stop in found)

    def _sliding(self) -> Iterator[_Rows]:
        """Merge windows from slices, each made once: "Optimized" of thesis 3.3.1 and 3.3.3."""
        held = _Held()
        begin = self._windows.first
        while begin < self._windows.stop:
            check_limits()
            end = min(begin + max(WINDOWS_AT_ONCE, held.n_entries // 2), self._windows.stop)
            low, high = self._clipped(begin, end)
            if held.limit is None:
                held.stop = int(self._axis.place(low[:1])[0][0])
            self._extend(held, int(high[-1]))
            yield self._merge(held.entries, begin, end)
            held.forget(int(low[-1]))
            begin = end

    def _extend(self, held: _Held, last: int) -> None:
        """Make the entries up to a border, and up to the end of its block as a rule."""
        if held.limit is not None and last <= held.limit:
            return
        block, cuts = self._axis.place(np.array([last]))
        stop = int(block[0] + cuts[0])
        limit = max(last, int(self._axis.high[stop - 1])) if stop else last
        if self._windows.n_borders(last, limit) > BORDERS_AT_ONCE:
            limit = last
        # Where a block was left at a border, it is cut there again.
        borders = self._borders(held.limit, limit, with_low=held.is_inside)
        made = self._maker.make(held.stop, stop, borders, self.work, in_threads=True)
        if held.is_inside:
            made = made.since(int(borders[0]))
        is_inside = limit == last and bool(cuts[0])
        held.add(made.until(last) if is_inside else made, limit)
        held.stop, held.is_inside = stop - is_inside, is_inside

    def _from_scratch(self) -> Iterator[_Rows]:
        """Ask the tree for every window by itself: "Naive" of thesis 3.3.1."""

        def one(number: int) -> tuple[_Rows, TreeStats]:
            ends = np.concatenate(self._clipped(number, number + 1))
            block, cuts = self._axis.place(ends)
            work = TreeStats()
            stop = int(block[1] + cuts[1])
            made = self._maker.make(int(block[0]), stop, distinct(ends), work, in_threads=False)
            return self._merge(made, number, number + 1), work

        found: list[_Rows] = []
        numbers = range(self._windows.first, self._windows.stop)
        several = self._windows.n_windows > 1
        for _, (rows, work) in read_ahead(numbers, one, in_threads=several):
            self.work.add(work)
            found.append(rows)
            if len(found) == NAIVE_AT_ONCE:
                yield _Rows.concat(found)
                found = []
        if found:
            yield _Rows.concat(found)

    def _clipped(self, begin: int, end: int) -> tuple[Ints, Ints]:
        """Return the parts of windows that lie in the range of time WHERE leaves."""
        low, high = (self._where.clip(side) for side in self._windows.bounds(begin, end))
        return low, high

    def _borders(self, low: int | None, high: int, *, with_low: bool) -> Ints:
        """Return the positions in (low, high] where entries must begin or end.

        With ``low`` itself where it is asked for, or is None: then it is the first position that
        any event is at, which stands for all before.
        """
        if low is None:
            low, with_low = self._first_position(), True
        ends = [end for end in (self._where.start, self._where.stop) if end is not None]
        # An array of no ends would be one of doubles, which late times do not fit.
        found = np.append(self._windows.borders(low, high), np.array(ends, np.int64))
        found = distinct(self._where.clip(found))
        begin, end = np.searchsorted(found, [low, high], "right").tolist()
        return np.append(np.array([low] if with_low else [], np.int64), found[begin:end])

    def _first_position(self) -> int:
        """Return where the first event of a window may be."""
        first = self._clipped(self._windows.first, self._windows.first + 1)[0]
        return int(np.append(self._where.clip(self._axis.low[:1]), first).max())

    def _merge(self, held: StretchEntries, begin: int, end: int) -> _Rows:
        """Merge the entries of windows, by key or of all events together."""
        low, high = self._clipped(begin, end)
        low_at, high_at = held.places(low), held.places(high)
        begins, ends = held.border_seq[low_at], held.border_seq[high_at]
        windows = self._windows.bounds(begin, end)
        if self._axis.in_rows:
            at, before = held.border_times
            windows = at[low_at], before[high_at]
        merged = []
        for series in held.series:
            first, stop = (np.searchsorted(series.seq, side) for side in (begins, ends))
            is_exact = self._where.classes is None and self._groups is None
            counts = ends - begins if is_exact else merge_counts(series.counts, first, stop)
            summaries = {
                name: merge_windows(summary, first, stop, squares=self._squares[name])
                for name, summary in series.summaries.items()
            }
            merged.append(_Rows(windows, None, counts, summaries))
        return merged[0] if self._groups is None else self._by_key(merged, begin, end)

    def _by_key(self, merged: Sequence[_Rows], begin: int, end: int) -> _Rows:
        """Return the windows of every key that are part of the answer, in canonical order."""
        assert self._groups is not None
        n = end - begin
        found = [np.zeros(0, np.int64)]
        for key, rows in enumerate(merged):
            if isinstance(self._what.windows, WholeRange):
                own = np.flatnonzero(rows.counts)
            else:
                first, stop = self._windows.overlapping(self._spans[key])
                own = np.arange(max(first, begin), min(stop, end), dtype=np.int64) - begin
            found.append(own + key * n)
        wanted = np.concatenate(found)
        window, key_of = wanted % n, wanted // n
        order = np.lexsort((key_of, window))
        whole = _Rows.concat(merged)
        return whole.take(wanted[order], self._groups.keys.take(pa.array(key_of[order])))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the answer before their last steps."""

    windows: tuple[Ints, Ints]
    keys: pa.Array | None
    counts: Ints
    summaries: dict[str, AttributeSummary]

    @classmethod
    def concat(cls, parts: Sequence[_Rows]) -> _Rows:
        """Return the rows of all parts, at least one, in order."""
        starts, ends = (np.concatenate([part.windows[side] for part in parts]) for side in (0, 1))
        keys = [part.keys for part in parts if part.keys is not None]
        summaries = {
            name: AttributeSummary.concat([part.summaries[name] for part in parts])
            for name in parts[0].summaries
        }
        counts = np.concatenate([part.counts for part in parts])
        return cls((starts, ends), pa.concat_arrays(keys) if keys else None, counts, summaries)

    def take(self, rows: Ints, keys: pa.Array) -> _Rows:
        """Return some rows, and their keys with them."""
        starts, ends = self.windows
        summaries = {name: summary.take(rows) for name, summary in self.summaries.items()}
        return _Rows((starts[rows], ends[rows]), keys, self.counts[rows], summaries)


class _Held:
    """Entries made so far that a window still needs."""

    def __init__(self) -> None:
        self.stop = 0
        """Entries are made of the blocks before this one."""
        self.limit: int | None = None
        """No border up to this position is missing; None: nothing was made yet."""
        self.is_inside = False
        """Whether this position cuts the block ``stop``, of which entries are made up to there."""
        self._entries: StretchEntries | None = None

    @property
    def entries(self) -> StretchEntries:
        """What is held."""
        assert self._entries is not None, "nothing was made yet"
        return self._entries

    @property
    def n_entries(self) -> int:
        """How many are held."""
        return 0 if self._entries is None else len(self._entries)

    def add(self, made: StretchEntries, limit: int) -> None:
        """Take the entries up to ``limit``."""
        held = self._entries
        whole = made if held is None else StretchEntries.concat([held, made])
        self._entries, self.limit = whole.told_apart(), limit

    def forget(self, before: int) -> None:
        """Let go of what lies before a border."""
        self._entries = self.entries.since(before)
