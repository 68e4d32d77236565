"""Entries held until the last window that holds them is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from chronicle.tree.summary import Ints
from replay.operators.packing import State
from replay.windows.entries import WindowEntries
from replay.windows.kernels import order_rows

COMPACTED_LEAST = 1 << 12
"""Entries that are held as they come."""


def runs_of(entries: WindowEntries) -> Ints:
    """Return where entries of another key or position begin, and their number at the end."""
    n = len(entries)
    differ = np.ones(n, np.bool_)
    differ[1:] = (np.diff(entries.key) != 0) | (np.diff(entries.position) != 0)
    return np.append(np.flatnonzero(differ), n)


class EntryStore:
    """Entries in the order of their keys, then as they were added.

    Parameters
    ----------
    none
        WindowEntries of no event.
    """

    def __init__(self, none: WindowEntries) -> None:
        self._parts = [none]
        self._weight = 0
        self._added = 0
        self._is_sorted = True

    @property
    def weight(self) -> int:
        """Entries and values held."""
        return self._weight

    @property
    def added(self) -> int:
        """Entries and values added since entries were last kept or sorted."""
        return self._added

    def add(self, entries: WindowEntries) -> None:
        """Add entries that come after those of the same key held."""
        if len(entries):
            self._parts.append(entries)
            self._weight += entries.weight
            self._added += entries.weight
            self._is_sorted = False

    def sorted(self, ranks: Ints) -> WindowEntries:
        """Return all entries by the rank of their key."""
        entries = WindowEntries.concat(self._parts)
        if not self._is_sorted and len(ranks) > 1:
            entries = entries.take(order_rows(ranks[entries.key], len(ranks)))
        self._replace(entries)
        return entries

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        """Drop the other ones of the entries sorted last."""
        if which.all():
            return
        entries = self._parts[0]
        first = int(np.argmax(which)) if which.any() else len(which)
        if which[first:].all():  # as it is without keys: nothing has to be copied
            self._replace(entries.since(first))
        else:
            self._replace(entries.take(np.flatnonzero(which)))

    def compact(self, ranks: Ints) -> None:
        """Merge entries of one key and position, once they are twice as many as were left."""
        if self._added <= max(self._weight - self._added, COMPACTED_LEAST):
            return
        entries = self.sorted(ranks)
        self._replace(entries.merged(runs_of(entries)))

    def keys(self) -> Ints:
        """Return the numbers of the keys that entries have, ascending."""
        return np.unique(np.concatenate([part.key for part in self._parts]))

    def renumber(self, numbers: Ints) -> None:
        """Give the keys other numbers in the same order."""
        self._parts = [replace(part, key=numbers[part.key]) for part in self._parts]

    def state(self) -> State:
        """Return the entries and how they came."""
        entries = WindowEntries.concat(self._parts)
        return {
            "entries": entries.state(),
            "added": self._added,
            "is_sorted": self._is_sorted,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._replace(WindowEntries.from_state(state["entries"]))
        self._added, self._is_sorted = state["added"], state["is_sorted"]

    def _replace(self, entries: WindowEntries) -> None:
        self._parts = [entries]
        self._weight = entries.weight
        self._added = 0
        self._is_sorted = True
