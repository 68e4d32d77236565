"""HOP_ROWS and TUMBLE_ROWS: windows of so many events of the stream or of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.tree.summary import Ints
from replay.expressions.scalars import Faults
from replay.language.bound import RowWindows
from replay.operators.packing import State
from replay.windows.entries import WindowEntries
from replay.windows.forming import Placed, grown, pays
from replay.windows.kernels import locate, number_rows
from replay.windows.keys import KeyTable
from replay.windows.rows import WindowRows
from replay.windows.store import EntryStore

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

    Parameters
    ----------
    windows
        The windows.
    keys
        The table that the rows' keys are numbered by.
    partitions
        A table of the partition columns; ``keys`` itself where there are no further keys.
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
