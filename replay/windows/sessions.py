"""SESSION, and aggregation without windows: windows that hold whole runs of events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import Ints
from replay.expressions.scalars import Faults
from replay.language.bound import SessionWindows
from replay.operators.packing import State
from replay.windows.entries import WindowEntries
from replay.windows.forming import Placed
from replay.windows.kernels import number_sessions
from replay.windows.keys import KeyTable
from replay.windows.rows import WindowRows
from replay.windows.store import EntryStore, runs_of

KNOWN_MIN = 1 << 10
"""Keys that are known at least before those without an open session are forgotten."""


class SessionForming:
    """Sessions over a stream, or over the events of each partition.

    They are numbered in the order of their first events; the position of an event is the number
    of its session. A session is told once it is over and all are that began before it.

    Parameters
    ----------
    windows
        The windows.
    keys
        The table that the rows' keys are numbered by.
    partitions
        A table of the partition columns.
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
            store.compact(self._keys.ranks())
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
            used = np.union1d(store.keys(), self._keys.with_zeros())
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
    """One window of all events.

    Parameters
    ----------
    keys
        The table that the rows' keys are numbered by.
    """

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
            store.compact(self._keys.ranks())
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
