"""Form windows: which of them are complete, and which entries they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.tree.summary import Ints
from replay.errors import QueryError
from replay.expressions.scalars import Faults
from replay.language.bound import CumulateWindows, RowWindows, SessionWindows, TimeWindows
from replay.operators.distinct import distinct
from replay.operators.packing import State
from replay.operators.place_kernels import order_rows
from replay.windows.borders import TimeGrid, grid_of
from replay.windows.entries import EntryStore, WindowEntries, runs_of
from replay.windows.kernels import locate, number_rows, number_sessions
from replay.windows.keys import KeyTable
from replay.windows.rows import WindowRows

ROWS_AT_ONCE = 1 << 16
"""Least rows of the answer made together, where there are as many."""

HELD_MAX = 1 << 22
"""Entries up to which windows wait that may be too many."""


class Placed(NamedTuple):
    """Where rows stand: what decides in which windows they are."""

    positions: Ints
    """Of each row; those of one key ascend."""
    partitions: Ints | None = None
    """Number of the partition of each row, where windows are formed in partitions of rows."""
    codes: Ints | None = None
    """Number of each row's key among ``numbers``, where forming had to tell it anyway."""
    numbers: Ints | None = None
    """Numbers of those keys in the table of keys."""


def grown(numbers: Ints, n: int, fill: int) -> Ints:
    """Return the numbers with so many more that there are n."""
    if len(numbers) >= n:
        return numbers
    return np.concatenate([numbers, np.full(n - len(numbers), fill)])


def check_told(n_told: float, told_max: int | None) -> None:
    """Check how many windows, of all keys, are to be told, before any is made.

    Raises a QueryError for more than ``told_max``; None allows any number.
    """
    if told_max is not None and n_told > told_max:
        raise QueryError(
            f"the events lie so far apart, or windows so close, that {n_told:,.0f} windows would "
            f"be told, and the limit is {told_max:,}; make the slide (of TUMBLE the size, of "
            "CUMULATE the step) longer, leave out events far from the others, add LIMIT, or read "
            "them piece by piece with replay.batches"
        )


def rows_at_once(weight: int) -> int:
    """Return how many rows to make together: to merge entries takes time in all that are held."""
    return max(ROWS_AT_ONCE, weight // 2)


def pays(store: EntryStore, n_windows: int) -> bool:
    """Tell whether to merge all entries held for so many windows, or to wait for more."""
    return store.weight <= ROWS_AT_ONCE or n_windows + store.added >= store.weight // 2


class TimeForming:
    """Time windows over a stream.

    Without keys a window is part of the answer if it overlaps the stream, with keys if it overlaps
    [first, last] of the key's events that pass WHERE. So a window is told only when it is closed
    and no key that was met can be silent at it: one that is silent for long holds the answer back.

    ``span`` holds the times of the stream's first and last event; None: those pushed. ``told_max``
    is how many windows there may be to tell, online at once; None: any number.
    """

    def __init__(
        self,
        windows: TimeWindows | CumulateWindows,
        keys: KeyTable,
        span: tuple[int, int] | None,
        told_max: int | None = None,
    ) -> None:
        self._windows = windows
        self._told_max = told_max
        self._n_told = 0.0
        self._keys = keys
        self._span = span
        self._is_keyed = keys.width > 0
        self._firsts = self._lasts = np.zeros(0, np.int64)
        self._now = 0
        self._next = 0
        self._grid: TimeGrid | None = None
        if span is not None:
            self._begin(span[0])

    def _begin(self, first: int) -> TimeGrid:
        self._grid = grid_of(self._windows, first)
        self._next = self._grid.ending_after(first)
        self._now = first
        if not self._is_keyed:
            self._firsts, self._lasts = np.full(1, first), np.full(1, first)
            if self._span is not None:
                begin, end = self._grid.overlapping(*self._span)
                check_told(end - begin, self._told_max)
        return self._grid

    @property
    def cut(self) -> tuple[int, int, int]:
        """Where entries are cut, as ``kernels.cut_entries`` has it."""
        assert self._grid is not None, "it is made before the first cut"
        return self._grid.origin, *self._grid.pane

    def along(self, positions: Ints) -> Ints:
        """Return where positions are on what ``cut`` speaks of: months, say, of a calendar."""
        return positions if self._grid is None else self._grid.units(positions)

    def place(self, times: Ints, events: pa.Table, faults: Faults) -> Placed:  # noqa: ARG002
        """Take in the times of events, those too that WHERE does not let pass."""
        if self._grid is None:
            self._begin(int(times[0]))
        self._now = int(times[-1])
        if not self._is_keyed:
            self._lasts[0] = self._now
        return Placed(times)

    def advance(self, time: int) -> None:
        """Take it that no event to come is before a time."""
        self._now = max(self._now, time)

    def note(
        self,
        entries: WindowEntries,
        lasts: Ints,
        partitions: Ints | None,  # noqa: ARG002 - there are none
    ) -> None:
        """Take in entries, and of each the position of its last event."""
        if self._is_keyed:
            n_keys = len(self._keys)
            self._firsts = grown(self._firsts, n_keys, np.iinfo(np.int64).max)
            self._lasts = grown(self._lasts, n_keys, np.iinfo(np.int64).min)
            np.minimum.at(self._firsts, entries.key, entries.position)
            np.maximum.at(self._lasts, entries.key, lasts)

    def rows(
        self, store: EntryStore, *, final: bool, eager: bool
    ) -> Iterator[tuple[WindowEntries, WindowRows]]:
        """Yield the rows of windows that are complete, in pieces and in order.

        Entries that no window needs any more are dropped from the store. ``eager`` tells windows at
        once, though many entries have to be merged for a few.
        """
        if self._grid is None or not len(self._lasts):
            return
        if not (final or eager) and self._may_be_too_many(self._grid) and store.weight < HELD_MAX:
            return
        end = self._complete(self._grid, final=final)
        if end <= self._next:
            return
        if not (final or eager or pays(store, end - self._next)):
            return
        low, high = self._of_keys(self._grid, self._next, end)
        n_told = float(np.maximum(high - low, 0).sum(dtype=np.float64))
        self._n_told = n_told if eager else self._n_told + n_told  # eager: a stream without end
        check_told(self._n_told, self._told_max)
        entries = store.sorted(self._keys.ranks())
        n_windows = max(1, rows_at_once(store.weight) // len(self._lasts))
        while self._next < end:
            begin, self._next = self._next, min(self._next + n_windows, end)
            rows = self._rows(self._grid, entries, begin, self._next)
            if len(rows.lo):
                yield entries, rows
        store.keep(entries.position >= self._grid.bounds(end, end + 1)[0])

    def state(self) -> State:
        """Return what is known of windows."""
        return {
            "firsts": self._firsts,
            "lasts": self._lasts,
            "now": self._now,
            "next": self._next,
            "origin": None if self._grid is None else self._grid.origin,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._firsts, self._lasts = state["firsts"], state["lasts"]
        self._now, self._next = state["now"], state["next"]
        origin = state["origin"]
        self._grid = None if origin is None else grid_of(self._windows, origin)

    def _may_be_too_many(self, grid: TimeGrid) -> bool:
        """Tell whether the keys met could have too many windows; refuse if they do already.

        Why: what is refused in the end should be refused before millions of its rows are made.
        """
        if self._told_max is None or self._span is None or not self._is_keyed:
            return False
        begin, end = grid.overlapping(*self._span)
        if (end - begin) * len(self._keys) <= self._told_max:
            return False
        of_keys = grid.starting_after(self._lasts) - grid.ending_after(self._firsts)
        check_told(float(of_keys.sum(dtype=np.float64)), self._told_max)
        return True

    def _complete(self, grid: TimeGrid, *, final: bool) -> int:
        """Return the number of the first window that more events could change."""
        if not final:
            # Every key is silent from its last event on; what comes is after now.
            return min(grid.ending_after(self._now), grid.starting_after(int(self._lasts.min())))
        if self._span is not None and not self._is_keyed:
            self._lasts[0] = max(self._now, self._span[1])
        return grid.starting_after(int(self._lasts.max()))

    def _of_keys(self, grid: TimeGrid, begin: int, end: int) -> tuple[Ints, Ints]:
        """Return which of the windows ``begin`` to ``end`` each key has, half-open."""
        low = np.maximum(grid.ending_after(self._firsts), begin)
        return low, np.minimum(grid.starting_after(self._lasts), end)

    def _rows(self, grid: TimeGrid, entries: WindowEntries, begin: int, end: int) -> WindowRows:
        """Return the rows of the windows ``begin`` to ``end``."""
        ranks = self._keys.ranks()
        by_rank = np.argsort(ranks)
        low, high = (side[by_rank] for side in self._of_keys(grid, begin, end))
        counts = np.maximum(high - low, 0)
        row_begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        numbers = np.arange(row_begins[-1]) + np.repeat(low - row_begins[:-1], counts)
        starts, ends = grid.bounds_of(numbers)
        entry_begins = np.searchsorted(ranks[entries.key], np.arange(len(ranks) + 1))
        lo, hi = np.empty_like(numbers), np.empty_like(numbers)
        locate(entries.position, entry_begins, row_begins, starts, ends, lo, hi)
        if not self._is_keyed:
            return WindowRows(lo, hi, starts, ends, [], None)
        columns = self._keys.columns(np.repeat(by_rank, counts))
        order, _ = order_rows(numbers - begin, end - begin)
        return WindowRows(lo, hi, starts, ends, columns, order)


_INT_MAX = np.iinfo(np.int64).max


class _Windows(NamedTuple):
    """Windows, by array."""

    partition: Ints
    number: Ints
    start: Ints
    end: Ints

    def take(self, chosen: npt.NDArray[np.bool_] | Ints) -> _Windows:
        """Return some of the windows."""
        return _Windows(*(column[chosen] for column in self))

    def with_more(self, more: _Windows) -> _Windows:
        """Return these windows and more, by partition and number."""
        both = _Windows(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))
        if both.partition.any():
            both = both.take(np.lexsort((both.number, both.partition)))
        return both


_NO_WINDOWS = _Windows(*(np.zeros(0, np.int64) for _ in range(4)))


class RowForming:
    """Windows of rows, which are counted before WHERE; only full ones are part of the answer.

    The position of an event is the number of its row in its partition. With keys beyond the
    partition's, a window is part of the answer of a key if it overlaps the rows from the first to
    the last of the key's events that pass WHERE.

    ``partitions`` numbers the partition columns; it is ``keys`` itself where there are no further
    keys.
    """

    def __init__(self, windows: RowWindows, keys: KeyTable, partitions: KeyTable) -> None:
        self._windows = windows
        self._keys = keys
        self._partitions = partitions
        self._n_rows = np.zeros(0, np.int64)
        self._begun = _NO_WINDOWS  # their end is not known yet
        self._full = _NO_WINDOWS
        self._partition_of = np.zeros(0, np.int64)
        self._firsts = self._lasts = np.zeros(0, np.int64)
        self._now = 0

    @property
    def cut(self) -> tuple[int, int, int]:
        """Where entries are cut, as ``kernels.cut_entries`` has it."""
        return 0, self._windows.slide, self._windows.size % self._windows.slide

    def place(self, times: Ints, events: pa.Table, faults: Faults) -> Placed:
        """Take in events, those too that WHERE does not let pass."""
        codes, numbers = self._partitions.number(events, faults)
        partitions = numbers[codes]
        self._n_rows = grown(self._n_rows, len(self._partitions), 0)
        rows = number_rows(partitions, self._n_rows)
        self._now = int(times[-1])
        self._begin_windows(partitions, rows, times)
        self._fill_windows(partitions, rows, times)
        if self._partitions is self._keys:
            return Placed(rows, partitions, codes, numbers)
        return Placed(rows, partitions)

    def _begin_windows(self, partitions: Ints, rows: Ints, times: Ints) -> None:
        at = np.flatnonzero(rows % self._windows.slide == 0)
        number = rows[at] // self._windows.slide
        begun = _Windows(partitions[at], number, times[at], np.full(len(at), _INT_MAX))
        self._begun = self._begun.with_more(begun)

    def _fill_windows(self, partitions: Ints, rows: Ints, times: Ints) -> None:
        """Give windows whose last row has come their end."""
        beyond = rows - self._windows.size + 1
        at = np.flatnonzero((beyond >= 0) & (beyond % self._windows.slide == 0))
        if not len(at):
            return
        number = beyond[at] // self._windows.slide
        # Windows of a partition fill in the order in which they began: each is found by its place.
        order = np.lexsort((number, partitions[at]))
        begun = self._begun
        first = np.searchsorted(begun.partition, partitions[at][order])
        place = first + number[order] - begun.number[first]
        full = begun.take(place)._replace(end=times[at][order])
        self._full = self._full.with_more(full)
        still = np.ones(len(begun.number), np.bool_)
        still[place] = False
        self._begun = begun.take(still)

    def advance(self, time: int) -> None:
        """Take it that no event to come is before a time."""
        self._now = max(self._now, time)

    def note(self, entries: WindowEntries, lasts: Ints, partitions: Ints | None) -> None:
        """Take in entries, and of each the position of its last event and its partition."""
        assert partitions is not None, "they are among what is placed"
        n_keys = len(self._keys)
        self._partition_of = grown(self._partition_of, n_keys, 0)
        self._firsts = grown(self._firsts, n_keys, _INT_MAX)
        self._lasts = grown(self._lasts, n_keys, -1)
        self._partition_of[entries.key] = partitions
        np.minimum.at(self._firsts, entries.key, entries.position)
        np.maximum.at(self._lasts, entries.key, lasts)

    def rows(
        self, store: EntryStore, *, final: bool, eager: bool
    ) -> Iterator[tuple[WindowEntries, WindowRows]]:
        """Yield the rows of windows that are complete; see ``TimeForming.rows``."""
        complete = self._complete(final=final)
        n_windows = int(np.count_nonzero(complete))
        if not n_windows or not (final or eager or pays(store, n_windows)):
            return
        windows, self._full = self._full.take(complete), self._full.take(~complete)
        ranks = self._keys.ranks()
        entries = store.sorted(ranks)
        rows = self._rows(entries, windows, ranks)
        if len(rows.lo):
            yield entries, rows
        untold = np.zeros(len(self._n_rows), np.int64)
        np.maximum.at(untold, windows.partition, (windows.number + 1) * self._windows.slide)
        store.keep(entries.position >= untold[self._partition(entries.key)])

    def state(self) -> State:
        """Return what is known of windows."""
        return {
            "partitions": None if self._partitions is self._keys else self._partitions.state(),
            "n_rows": self._n_rows,
            "begun": self._begun,
            "full": self._full,
            "partition_of": self._partition_of,
            "firsts": self._firsts,
            "lasts": self._lasts,
            "now": self._now,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        if self._partitions is not self._keys:
            self._partitions.take_over(state["partitions"])
        self._begun, self._full = _Windows(*state["begun"]), _Windows(*state["full"])
        self._n_rows, self._now = state["n_rows"], state["now"]
        self._partition_of = state["partition_of"]
        self._firsts, self._lasts = state["firsts"], state["lasts"]

    def _partition(self, keys: Ints) -> Ints:
        return keys if self._partitions is self._keys else self._partition_of[keys]

    def _complete(self, *, final: bool) -> npt.NDArray[np.bool_]:
        """Return which of the full windows come before any that is still to come."""
        full = self._full
        if final or not self._keys.width:
            return np.ones(len(full.number), np.bool_)
        bound = min(self._now, int(self._begun.start.min(initial=_INT_MAX)))
        if self._partitions is not self._keys:
            # Whether a key that is silent is part of a window is told by its next event.
            silent = np.full(len(self._n_rows), _INT_MAX)
            np.minimum.at(silent, self._partition_of, self._lasts)
            blocked = full.number * self._windows.slide > silent[full.partition]
            bound = min(bound, int(full.start[blocked].min(initial=_INT_MAX)))
        return np.asarray(full.start < bound)

    def _rows(self, entries: WindowEntries, windows: _Windows, ranks: Ints) -> WindowRows:
        """Return a row for each window and key."""
        slide, size = self._windows.slide, self._windows.size
        by_rank = np.argsort(ranks)
        partition = self._partition(by_rank)
        begins = np.searchsorted(windows.partition, partition)
        ends = np.searchsorted(windows.partition, partition, side="right")
        # Windows of a partition stand together and are numbered without gaps.
        base = windows.number[np.minimum(begins, len(windows.number) - 1)]
        low, high = base, base + ends - begins
        if self._partitions is not self._keys:
            low = np.maximum(low, (self._firsts[by_rank] - size) // slide + 1)
            high = np.minimum(high, self._lasts[by_rank] // slide + 1)
        counts = np.maximum(high - low, 0)
        row_begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        shift = begins + low - base - row_begins[:-1]
        window = windows.take(np.arange(row_begins[-1]) + np.repeat(shift, counts))
        entry_begins = np.searchsorted(ranks[entries.key], np.arange(len(ranks) + 1))
        lo, hi = np.empty_like(window.number), np.empty_like(window.number)
        first = window.number * slide
        locate(entries.position, entry_begins, row_begins, first, first + size, lo, hi)
        keys = np.repeat(by_rank, counts)
        order = None
        if self._keys.width:
            order = np.lexsort((window.number, ranks[keys], window.end, window.start))
        return WindowRows(lo, hi, window.start, window.end, self._keys.columns(keys), order)


KNOWN_MIN = 1 << 10
"""Keys that are known at least before those without an open session are forgotten."""


class SessionForming:
    """Sessions over a stream, or over the events of each partition.

    They are numbered in the order of their first events; the position of an event is the number
    of its session. A session is told once it is over and all are that began before it.
    """

    cut = (0, 0, 0)
    """Entries are cut where positions change."""

    def __init__(self, windows: SessionWindows, keys: KeyTable, partitions: KeyTable) -> None:
        self._gap = windows.gap
        self._keys = keys
        self._partitions = partitions
        self._current = np.full(len(partitions), -1, np.int64)
        self._known_max = KNOWN_MIN
        self._starts = self._lasts = np.zeros(0, np.int64)
        self._base = 0
        self._now = 0

    def place(self, times: Ints, events: pa.Table, faults: Faults) -> Placed:
        """Take in events, those too that WHERE does not let pass."""
        codes, numbers = self._partitions.number(events, faults)
        n_new = len(self._partitions) - len(self._current)
        self._current = np.concatenate([self._current, np.full(n_new, -1, np.int64)])
        room = np.zeros(len(times), np.int64)
        starts, lasts = (np.concatenate([side, room]) for side in (self._starts, self._lasts))
        sessions, n_sessions = number_sessions(
            numbers[codes], times, self._gap, self._current, starts, lasts,
            self._base, self._base + len(self._starts),
        )  # fmt: skip
        n_held = n_sessions - self._base
        self._starts, self._lasts = starts[:n_held], lasts[:n_held]
        self._now = int(times[-1])
        return Placed(sessions)

    def advance(self, time: int) -> None:
        """Take it that no event to come is before a time."""
        self._now = max(self._now, time)

    def note(self, entries: WindowEntries, lasts: Ints, partitions: Ints | None) -> None:
        """Nothing more than the events is to be known."""

    def rows(
        self,
        store: EntryStore,
        *,
        final: bool,
        eager: bool,  # noqa: ARG002 - what is over is told
    ) -> Iterator[tuple[WindowEntries, WindowRows]]:
        """Yield the rows of sessions that are complete."""
        self._forget(store)
        n_over = self._n_over(final=final)
        if not n_over:
            store.compact(self._keys)
            return
        entries = store.sorted(self._keys.ranks())
        over = entries.position < self._base + n_over
        store.keep(~over)
        told = entries.take(np.flatnonzero(over))
        sessions = self._base, self._starts[:n_over], self._lasts[:n_over] + self._gap
        self._base += n_over
        self._starts, self._lasts = self._starts[n_over:], self._lasts[n_over:]
        if len(told):
            yield told, self._rows(told, *sessions)

    def state(self) -> State:
        """Return what is known of sessions."""
        return {
            "partitions": self._partitions.state(),
            "current": self._current,
            "starts": self._starts,
            "lasts": self._lasts,
            "base": self._base,
            "now": self._now,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._partitions.take_over(state["partitions"])
        self._current, self._starts = state["current"], state["starts"]
        self._lasts, self._base, self._now = state["lasts"], state["base"], state["now"]

    def _forget(self, store: EntryStore) -> None:
        """Forget partitions without an open session and keys without entries, now and then.

        Whenever as many have come as were left the last time. Why: a partition that comes again
        begins a session as a new one does; and a key gets a number anew, shown as it was before.
        """
        if max(len(self._partitions), len(self._keys)) < self._known_max:
            return
        if self._partitions.width:
            open_ones = np.flatnonzero(self._current >= self._base)
            self._partitions.forget_others(open_ones)
            self._current = self._current[open_ones]
        if self._keys.width:
            used = distinct(store.keys(), self._keys.with_zeros())
            store.renumber(self._keys.forget_others(used))
        self._known_max = max(KNOWN_MIN, 2 * len(self._partitions), 2 * len(self._keys))

    def _n_over(self, *, final: bool) -> int:
        """Return how many of the sessions held come before any that could still change."""
        if final or not len(self._starts):
            return len(self._starts)
        is_open = self._now - self._lasts < self._gap
        bound = self._starts[np.argmax(is_open)] if is_open.any() else self._now
        # Of sessions that begin together, the one that ends first comes first.
        return int(np.searchsorted(self._starts, min(bound, self._now)))

    def _rows(self, entries: WindowEntries, base: int, starts: Ints, ends: Ints) -> WindowRows:
        """Return a row for each session and key that has events."""
        runs = runs_of(entries)
        firsts = runs[:-1]
        session = entries.position[firsts] - base
        keys = entries.key[firsts]
        starts, ends = starts[session], ends[session]
        order = np.lexsort((ends, starts))  # stable, and entries come by key
        return WindowRows(firsts, runs[1:], starts, ends, self._keys.columns(keys), order)


class WholeForming:
    """One window of all events."""

    cut = (0, 0, 0)

    def __init__(self, keys: KeyTable) -> None:
        self._keys = keys

    def place(self, times: Ints, events: pa.Table, faults: Faults) -> Placed:  # noqa: ARG002
        """Take in events."""
        return Placed(np.zeros(events.num_rows, np.int64))

    def advance(self, time: int) -> None:
        """Wait for the end all the same."""

    def note(self, entries: WindowEntries, lasts: Ints, partitions: Ints | None) -> None:
        """Nothing more than the events is to be known."""

    def rows(
        self,
        store: EntryStore,
        *,
        final: bool,
        eager: bool,  # noqa: ARG002 - there is one row of each key
    ) -> Iterator[tuple[WindowEntries, WindowRows]]:
        """Yield one row for each key, or one row where there are no keys."""
        if not final:
            store.compact(self._keys)
            return
        entries = store.sorted(self._keys.ranks())
        runs = runs_of(entries) if self._keys.width else np.array([0, len(entries)])
        lo, hi = runs[:-1], runs[1:]
        columns = self._keys.columns(entries.key[lo]) if self._keys.width else []
        if len(lo):
            yield entries, WindowRows(lo, hi, lo, hi, columns, None)

    def state(self) -> State:
        """Return nothing: keys and entries are all there is."""
        return {}

    def take_over(self, state: State) -> None:
        """Go on from nothing."""


Forming = TimeForming | RowForming | SessionForming | WholeForming
"""How windows are formed, and which of them are complete."""
