"""A row pattern in windows: the rows of each window are matched, one window after the other.

The outer query around it groups by window online: a group goes out once no window to come is of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.time import from_int64, to_int64
from replay.engines.source import TableSource
from replay.expressions.columns import Values, in_few_chunks, to_arrow
from replay.expressions.scalars import Faults
from replay.expressions.types import type_of_moments
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Attribute,
    BoundPatternQuery,
    Outer,
    SlidingWindows,
    TimeWindows,
)
from replay.language.required_columns import columns_of_pattern
from replay.limits import check_asked, check_limits
from replay.operators.outer import apply_outer
from replay.operators.packing import State
from replay.patterns.answer import ResultBuilder
from replay.patterns.local import Replay
from replay.patterns.program import MatchProgram, compile_program
from replay.patterns.summing.answer import answer_sums
from replay.patterns.summing.in_windows import (
    EntryWindowOperator,
    EventWindowOperator,
    WindowOperator,
)
from replay.patterns.summing.kernels import Windows
from replay.patterns.summing.lanes import Lanes, lanes_of
from replay.patterns.summing.operator import Totals
from replay.patterns.summing.panes import PaneTrendOperator
from replay.patterns.together import InWindows
from replay.patterns.trends.machine import Sums
from replay.patterns.windows import matched_in_windows
from replay.planning.ascending import count_on
from replay.planning.block_ranges import all_blocks
from replay.windows.borders import TimeGrid, grid_of

IntArray = npt.NDArray[np.int64]


class _Windowed:
    """Rows of windows, kept while one to come may be in a window with them.

    A window is looked at once a row behind its end, or the end of the input, has come. Rows that a
    plan leaves unread make no match of those beside them: where rows that fit symbols are close
    enough, all between them is read.

    Parameters
    ----------
    query
        A row pattern in windows.
    schema
        Columns of the rows.
    columns
        Those of them that are read, the time among them.
    first
        The time of the stream's first event; None: that of the first row.
    told_by
        Which of start and end (0, 1) tell windows apart: those that agree in them are looked at
        together, once the last of them is over.
    """

    def __init__(
        self,
        query: BoundPatternQuery,
        schema: pa.Schema,
        columns: list[str],
        *,
        first: int | None = None,
        told_by: tuple[int, ...] = (0, 1),
    ) -> None:
        assert query.windows is not None
        self._query = query
        self._columns = columns
        self._windows: _Grid | _Sliding = (
            _Sliding(query.windows.size)
            if isinstance(query.windows, SlidingWindows)
            else _Grid(query, first, told_by)
        )
        self._rows = schema.empty_table().select(self._columns)
        self._times = np.empty(0, np.int64)
        self._n_dropped = 0

    def _take(self, table: pa.Table) -> IntArray:
        """Keep the next rows; return their times."""
        times = self._times_of(table)
        self._rows = in_few_chunks(pa.concat_tables([self._rows, table.select(self._columns)]))
        self._times = np.concatenate([self._times, times])
        return times

    def _closed(self, reached: int | None) -> Iterator[_Window]:
        """Yield the windows whose rows have all come, and let go of what no other needs."""
        times = self._times
        for start, end in self._windows.closed(times, reached).tolist():
            check_limits()
            low, high = np.searchsorted(times, (start, end)).tolist()
            seqs = (self._n_dropped + low, self._n_dropped + high)
            yield _Window(start, end, seqs, self._rows.slice(low, high - low))
        self._forget_rows()

    def _forget_rows(self) -> None:
        """Let go of the rows that no window to come needs."""
        n_over = int(np.searchsorted(self._times, self._windows.oldest_needed))
        self._rows = self._rows.slice(n_over)
        self._times = self._times[n_over:]
        self._n_dropped += n_over

    def _source_of(self, rows: pa.Table) -> TableSource:
        """Return rows of a window in their order."""
        query = self._query
        return TableSource(
            rows, self._columns, time=query.time, name=query.stream, order_by=query.order_by
        )

    def _times_of(self, rows: pa.Table) -> IntArray:
        times: IntArray = to_int64(rows.column(self._query.time), name=self._query.time).to_numpy()
        return times

    def state(self) -> State:
        """Return the rows that are kept, and which windows were looked at."""
        return {
            "windows": self._windows.state(),
            "rows": self._rows,
            "n_dropped": self._n_dropped,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._windows.take_over(state["windows"])
        self._rows, self._n_dropped = state["rows"], state["n_dropped"]
        self._times = self._times_of(self._rows)


class _Window(NamedTuple):
    """A window and its rows."""

    start: int
    end: int
    seqs: tuple[int, int]
    """First row, counted from the first of all, and the one behind the last."""
    rows: pa.Table


class _Taken(NamedTuple):
    """The rows that were taken last."""

    table: pa.Table
    times: IntArray
    panes: IntArray
    """Of each, where rows are summed as they come, the last start of a window until then."""


class WindowedSums(_Windowed):
    """Aggregates over the matches of each window, of a query for which none need be made.

    What is known of a window is a few numbers. They are kept until the end of the input, or as an
    ``eager`` one until no window to come is of the same group. Where runs are told apart by panes,
    rows are summed as they come, and only their times are kept: with ``together`` the first of the
    queries that it gives does so for all, and the others are told.
    """

    is_done = False

    def __init__(
        self,
        query: BoundPatternQuery,
        program: MatchProgram,
        schema: pa.Schema,
        *,
        first: int | None = None,
        eager: bool = False,
        together: Callable[[], tuple[InWindows, int] | None] | None = None,
    ) -> None:
        told_by = grouped_by_window(query.outer) if eager else (0, 1)
        columns = sorted({*program.columns, *query.order_by, query.time})
        super().__init__(query, schema, columns, first=first, told_by=told_by)
        self._program = program
        self._eager = eager
        self._found: list[tuple[IntArray, Totals]] = []
        """Sums since the last answer, with start and end of the window of each."""
        self._latest: tuple[tuple[int, int], Totals] = (0, 0), Totals.joined([])
        """Windows that follow each other may have the same rows, and then the same sums."""
        self._n_faults = 0
        self._faults = Faults()
        self._of_rows = self._rows.schema
        self._nothing = _Taken(self._of_rows.empty_table(), _NO_TIMES, _NO_TIMES)
        self._pane = _NO_TIMES
        """Of the time that was taken last, if there is one."""
        self._at_once: PaneTrendOperator | WindowOperator | None = None
        self._together: InWindows | None = None
        self._number = 0
        self._summed = program
        lanes = lanes_of(query, program, goes_out_early=eager)
        if lanes is not Lanes.WINDOWS and self._windows.closes_in_order:
            with_others, number = (together and together()) or (None, 0)
            if with_others is not None and with_others.is_begun == with_others.is_done:
                self._together, self._number = with_others, number
                if not with_others.is_done:
                    with_others.is_begun = True
                    self._summed = with_others.joined
                    self._at_once = _summing(lanes, self._summed, with_others.sums)
            else:
                self._at_once = _summing(lanes, program)
            self._columns = [query.time]
            self._rows = self._rows.select(self._columns)
        self.schema = self._answer().schema

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        at_once = 0 if self._at_once is None else self._at_once.n_faults
        if self._is_told and self._together is not None:
            at_once = self._together.n_faults
        return self._n_faults + at_once + self._faults.count

    @property
    def _is_told(self) -> bool:
        """Whether everything was found with other queries."""
        return self._together is not None and self._together.is_done

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows; yield the groups that are over, if they are wanted before the end."""
        if self._is_told:
            return iter(())
        taken = self._taken(table)
        return self._told(int(taken.times[-1]), taken) if len(taken.times) else iter(())

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Sum over the windows that end by a time; yield as `push` does."""
        return self._told(time, self._nothing)

    def finish(self) -> Iterator[pa.Table]:
        """Yield the answer, as far as it is not yet told."""
        if not self._is_told:
            self._sum(None, self._nothing)
        if self._together is not None:
            if self._at_once is not None:
                self._together.n_faults = self._at_once.n_faults
                self._together.is_done = True
            self._found = self._together.found[self._number]
        if self._found or not self._eager:
            yield self._answer()

    def state(self) -> State:
        """Return what is known and kept of an eager one, which keeps no sums."""
        assert self._eager
        state = {**super().state(), "n_faults": self.n_faults, "panes": None}
        if self._at_once is not None:
            times = from_int64(self._times, self._rows.schema.field(self._query.time).type)
            state |= {"rows": pa.table([times], self._rows.schema), "panes": self._at_once.state()}
        return state

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        super().take_over(state)
        self._latest = (0, 0), Totals.joined([])
        self._n_faults, self._faults.count = state["n_faults"], 0
        if self._at_once is not None:
            self._rows = self._rows.slice(0, 0)
            self._pane = self._windows.panes_of(self._times[-1:])
            self._at_once.take_over(state["panes"])
            self._n_faults -= self._at_once.n_faults

    def _taken(self, table: pa.Table) -> _Taken:
        """Keep the next rows, or only what tells which windows have any."""
        if self._at_once is None:
            return _Taken(table, self._take(table), _NO_TIMES)
        times = self._times_of(table)
        panes = self._windows.panes_of(times)
        # Of times of one pane the first tells which windows have rows: see `_Grid.closed`.
        is_first = np.ones(len(panes), np.bool_)
        is_first[1:] = panes[1:] != panes[:-1]
        is_first[:1] = not np.array_equal(self._pane, panes[:1])
        self._times = np.concatenate([self._times, times[is_first]])
        if len(panes):
            self._pane = panes[-1:]
        return _Taken(table, times, panes)

    def _told(self, reached: int, taken: _Taken) -> Iterator[pa.Table]:
        self._sum(reached, taken)
        if self._eager and self._found:
            yield self._answer()

    def _sum(self, reached: int | None, taken: _Taken) -> None:
        """Sum over the windows that are over by a time."""
        if self._at_once is not None:
            self._sum_at_once(reached, taken, self._at_once)
            return
        for window in self._closed(reached):
            if window.seqs != self._latest[0]:
                self._latest = window.seqs, self._sums_of(window.rows)
            found = self._latest[1]
            _keep(self._found, np.full((len(found), 2), (window.start, window.end)), found)

    def _sum_at_once(
        self,
        reached: int | None,
        taken: _Taken,
        operator: PaneTrendOperator | WindowOperator,
    ) -> None:
        """Sum over the rows taken last, and over the windows that end behind some of them."""
        bounds = self._windows.closed(self._times, reached)
        self._times = self._windows.left(self._times)
        rows = taken.table.select(list(self._summed.columns)).unify_dictionaries()
        prepared = self._summed.prepare(rows)
        if isinstance(operator, WindowOperator):
            oldest = self._windows.oldest_needed
            by_query = operator.sum(prepared, taken.times, bounds, oldest)
        else:
            windows = Windows(
                starts=bounds[:, 0],
                coming=self._windows.starts_behind(bounds),
                rows=np.searchsorted(taken.times, bounds[:, 1]),
            )
            by_query = operator.sum(prepared, taken.panes, windows)
        of_each = [self._found] if self._together is None else self._together.found
        for kept, (numbers, found) in zip(of_each, by_query, strict=True):
            _keep(kept, bounds[numbers], found)

    def _sums_of(self, rows: pa.Table) -> Totals:
        source = self._source_of(rows)
        replayed = Replay(source, self._program, all_blocks(source.n_blocks))
        found = replayed.totals()
        self._n_faults += replayed.n_faults
        return found

    def _answer(self) -> pa.Table:
        """Return the groups of the windows since the last answer."""
        assert self._program.sums is not None
        summing, found = self._program.sums.summing, self._found
        self._found = []
        totals = Totals.joined([totals for _, totals in found])
        windows = np.concatenate([np.empty((0, 2), np.int64), *(bounds for bounds, _ in found)])
        return answer_sums(self._query, summing, totals, self._of_rows, self._faults, windows)


def _summing(
    lanes: Lanes, program: MatchProgram, sums: Sequence[Sums] = ()
) -> PaneTrendOperator | WindowOperator:
    """Return what sums in windows in one go, over several queries if there are ``sums`` of such."""
    if lanes is Lanes.PANES:
        return PaneTrendOperator(program, sums)
    of_grain = EntryWindowOperator if lanes is Lanes.ENTRIES else EventWindowOperator
    return of_grain(program, sums)


def _keep(kept: list[tuple[IntArray, Totals]], bounds: IntArray, found: Totals) -> None:
    if len(found):
        kept.append((bounds, found))


class _Matched(NamedTuple):
    """The answer over the rows of a window."""

    seqs: tuple[int, int]
    tables: list[pa.Table]
    """At least one."""
    n_faults: int


class WindowedMatching(_Windowed):
    """A row pattern without an outer query over the rows of each window, one after the other.

    Its measures, and aggregates over symbols as arrays; what its outer query does is the caller's
    affair.
    """

    def __init__(
        self,
        query: BoundPatternQuery,
        schema: pa.Schema,
        *,
        first: int | None = None,
        told_by: tuple[int, ...] = (0, 1),
    ) -> None:
        super().__init__(query, schema, columns_of_pattern(query), first=first, told_by=told_by)
        self._inside = matched_in_windows(query)
        self._program = compile_program(self._inside)
        self._left = query.limit
        self.n_faults = 0
        self._none = _Matched((0, 0), *self._matched(self._rows))
        self._latest = self._none
        """Windows that follow each other may have the same rows, and then the same matches."""
        self.schema = self._with_window(self._none.tables[0], 0, 0).schema

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough."""
        return self._left == 0

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows; yield the matches of the windows that end before the last of them."""
        times = self._take(table)
        if len(times):
            yield from self._told(int(times[-1]))

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Yield the matches of the windows that end by a time."""
        yield from self._told(time)

    def finish(self) -> Iterator[pa.Table]:
        """Yield the matches of the windows that are left."""
        yield from self._told(None)

    def state(self) -> State:
        """Return what is known and kept."""
        return {**super().state(), "left": self._left, "n_faults": self.n_faults}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        super().take_over(state)
        self._latest = self._none
        self._left, self.n_faults = state["left"], state["n_faults"]

    def _told(self, reached: int | None) -> Iterator[pa.Table]:
        """Yield the matches of the windows whose rows have all come, by window."""
        for window in self._closed(reached):
            if window.seqs != self._latest.seqs:
                self._latest = _Matched(window.seqs, *self._matched(window.rows))
            self.n_faults += self._latest.n_faults
            for table in self._latest.tables:
                if table.num_rows:
                    kept = self._with_window(table, window.start, window.end).slice(0, self._left)
                    if self._left is not None:
                        self._left -= kept.num_rows
                    yield kept
                if self.is_done:
                    return

    def _matched(self, rows: pa.Table) -> tuple[list[pa.Table], int]:
        """Return the answer over the rows of a window, and how many faults there were."""
        source = self._source_of(rows)
        builder = ResultBuilder(source, self._inside, self._program, all_blocks(source.n_blocks))
        tables = list(builder.tables())
        return tables, builder.n_faults

    def _with_window(self, table: pa.Table, start: int, end: int) -> pa.Table:
        """Return rows of the answer with the columns of their window."""
        n_rows, of_window = table.num_rows, type_of_moments(self._query.time_type)
        borders = {
            name: to_arrow(Values(np.full(n_rows, time), None), of_window)
            for name, time in ((WINDOW_START, start), (WINDOW_END, end))
        }
        names = [name for _, name in self._query.output]
        columns: list[Any] = [
            borders[source] if source in borders else table.column(name)
            for source, name in self._query.output
        ]
        return pa.table(columns, names=names) if names else pa.table({"": pa.nulls(n_rows)})


class GroupedMatching:
    """A row pattern in windows and the outer query, which groups by window; matches are made.

    Groups go out once no window to come is of them. The outer query orders and cuts nothing.
    """

    is_done = False

    def __init__(self, query: BoundPatternQuery, schema: pa.Schema) -> None:
        assert query.outer is not None
        self._outer, self._faults = query.outer, Faults()
        inner, told_by = replace(query, outer=None), grouped_by_window(query.outer)
        self._matching = WindowedMatching(inner, schema, told_by=told_by)
        self.schema = apply_outer(self._matching.schema.empty_table(), self._outer, Faults()).schema

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        return self._matching.n_faults + self._faults.count

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows; yield the groups that are over."""
        return self._grouped(self._matching.push(table))

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Yield the groups that are over by a time."""
        return self._grouped(self._matching.advance(time))

    def finish(self) -> Iterator[pa.Table]:
        """Yield the groups that are left."""
        return self._grouped(self._matching.finish())

    def _grouped(self, matches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        tables = list(matches)
        if tables:
            yield apply_outer(pa.concat_tables(tables), self._outer, self._faults)

    def state(self) -> State:
        """Return what is known and kept."""
        return {"matching": self._matching.state(), "n_faults": self._faults.count}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._matching.take_over(state["matching"])
        self._faults.count = state["n_faults"]


def grouped_by_window(outer: Outer | None) -> tuple[int, ...]:
    """Return which of start and end of a window (0, 1) an outer query groups by."""
    keys = () if outer is None or outer.group_by is None else outer.group_by
    names = {key.name for key in keys if isinstance(key, Attribute)}
    return tuple(place for place, name in enumerate((WINDOW_START, WINDOW_END)) if name in names)


_NO_WINDOWS: Final = np.empty((0, 2), np.int64)

_WINDOW_BYTES: Final = 64
"""What start and end of a window take while they are computed."""
_NO_TIMES: Final = np.empty(0, np.int64)


class _Grid:
    """Windows of HOP, TUMBLE and CUMULATE that have rows, in the order of start and end."""

    def __init__(
        self, query: BoundPatternQuery, first: int | None, told_by: tuple[int, ...]
    ) -> None:
        self._query = query
        self._told_by = told_by
        self._next = 0
        self._first = first
        self._grid: TimeGrid | None = None
        if first is not None:
            self._begin(first)

    def _begin(self, first: int) -> TimeGrid:
        windows = self._query.windows
        assert windows is not None
        assert not isinstance(windows, SlidingWindows)
        self._first, self._grid = first, grid_of(windows, first)
        self._next = self._grid.ending_after(first)
        return self._grid

    @property
    def oldest_needed(self) -> int:
        """The time before which no row is needed any more."""
        if self._grid is None:
            return np.iinfo(np.int64).min
        return self._grid.bounds_at(self._next)[0]

    def closed(self, times: IntArray, reached: int | None) -> IntArray:
        """Return starts and ends of the windows that have rows and are over by a time.

        All where it is None. Their ends, and whatever else they are told by, are before those of
        all to come.
        """
        if not len(times):
            return _NO_WINDOWS
        grid = self._grid or self._begin(int(times[0]))
        coming = None if reached is None else self._told(int(grid.ending_after(reached)))
        if coming is not None and self._told(self._next) >= coming:
            return _NO_WINDOWS
        # Of times between the same two starts the first is in all windows that any of them is in;
        # they follow each other, and the first may be those before.
        behind, firsts = grid.between_starts(times)
        begins = np.maximum(grid.ending_after(times[firsts]), self._next)
        begins[1:] = np.maximum(begins[1:], behind[:-1])
        counts = np.maximum(behind - begins, 0)
        n_windows = float(counts.sum(dtype=np.float64))
        what = f"a slide so short that {n_windows:,.0f} windows have rows"
        check_asked(_WINDOW_BYTES * n_windows, what)
        numbers = count_on(begins, counts)
        n_over = len(numbers)
        if coming is not None:
            n_over = bisect_left(numbers, coming, key=lambda number: self._told(int(number)))
        if len(numbers):
            over = n_over == len(numbers)
            self._next = int(numbers[-1]) + 1 if over else int(numbers[n_over])
        return np.stack(grid.bounds_of(numbers[:n_over]), axis=1)

    def left(self, kept: IntArray) -> IntArray:
        """Return those of the times kept that tell of windows to come."""
        return kept[np.searchsorted(kept, self.oldest_needed) :]

    @property
    def closes_in_order(self) -> bool:
        """Whether each window is yielded once it is over, not only with others."""
        return self._told_by != (0,) or isinstance(self._query.windows, TimeWindows)

    def panes_of(self, times: IntArray) -> IntArray:
        """Return of each time the last start of a window until then; it is in that window."""
        if not len(times):
            return times
        grid = self._grid or self._begin(int(times[0]))
        behind, firsts = grid.between_starts(times)
        starts, _ = grid.bounds_of(behind - grid.n_ends)
        return np.repeat(starts, np.diff(firsts, append=len(times)))

    def starts_behind(self, bounds: IntArray) -> IntArray:
        """Return before which time no window starts behind each of those given."""
        if not len(bounds):
            return bounds[:, 0]
        assert self._grid is not None
        starts, _ = self._grid.bounds_of(self._grid.ending_after(bounds[:, 1] - 1) + 1)
        return starts

    def _bounds(self, number: int) -> tuple[int, int]:
        assert self._grid is not None
        return self._grid.bounds_at(number)

    def _told(self, number: int) -> tuple[int, ...]:
        """Return what a window is told by; it never descends from one to the next."""
        bounds = self._bounds(number)
        return tuple(bounds[place] for place in self._told_by)

    def state(self) -> State:
        """Return where windows are counted from, and which is next."""
        return {"first": self._first, "next": self._next}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._first, self._grid = None, None
        if state["first"] is not None:
            self._begin(state["first"])
        self._next = state["next"]


class _Sliding:
    """Windows of SLIDING: one for each distinct time."""

    closes_in_order = True
    """Each window is yielded once it is over."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._done = int(np.iinfo(np.int64).min)
        """The last time whose window was told."""

    @property
    def oldest_needed(self) -> int:
        """The time before which no row is needed any more."""
        return max(self._done, np.iinfo(np.int64).min + self._size) - self._size + 1

    def closed(self, times: IntArray, reached: int | None) -> IntArray:
        """Return starts and ends of the windows that end by a time; all where it is None."""
        begin = np.searchsorted(times, self._done, side="right")
        over = times[begin : None if reached is None else np.searchsorted(times, reached)]
        over = over[np.diff(over, prepend=self._done) != 0]
        if len(over):
            self._done = int(over[-1])
        earliest = np.iinfo(np.int64).min + self._size - 1
        return np.stack([np.maximum(over, earliest) - self._size + 1, over + 1], axis=1)

    def left(self, kept: IntArray) -> IntArray:
        """Return those of the times kept that tell of windows to come."""
        return kept[np.searchsorted(kept, self._done, side="right") :]

    def panes_of(self, times: IntArray) -> IntArray:
        """Return of each time the last start of a window until then: it may start with each."""
        return times

    def starts_behind(self, bounds: IntArray) -> IntArray:
        """Return before which time no window starts behind each of those given."""
        return bounds[:, 0] + 1

    def state(self) -> State:
        """Return the last time whose window was told."""
        return {"done": self._done}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._done = state["done"]
