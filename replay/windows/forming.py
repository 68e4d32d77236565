"""What the ways of forming windows share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import Ints
from replay.errors import QueryError
from replay.expressions.scalars import Faults
from replay.operators.packing import State
from replay.windows.entries import WindowEntries
from replay.windows.rows import WindowRows
from replay.windows.store import EntryStore

ROWS_AT_ONCE = 1 << 16
"""Least rows of the answer made together, where there are as many."""

TOLD_MAX = 100_000_000
"""Windows an answer that is kept whole has at most, those of each key counted: some GB of them."""


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


class Forming(Protocol):
    """How windows are formed, and which of them are complete."""

    @property
    def cut(self) -> tuple[int, int, int]:
        """Where entries are cut, as ``kernels.cut_entries`` has it."""

    def place(self, times: Ints, events: pa.Table, faults: Faults) -> Placed:
        """Take in events, those too that WHERE does not let pass."""

    def advance(self, time: int) -> None:
        """Take it that no event to come is before a time."""

    def note(self, entries: WindowEntries, lasts: Ints, partitions: Ints | None) -> None:
        """Take in entries, and of each the position of its last event and its partition."""

    def rows(
        self, store: EntryStore, *, final: bool, eager: bool
    ) -> Iterator[tuple[WindowEntries, WindowRows]]:
        """Yield the rows of windows that are complete, in pieces and in order."""

    def state(self) -> State:
        """Return what is known of windows; of keys and entries others know."""

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""


def grown(numbers: Ints, n: int, fill: int) -> Ints:
    """Return the numbers with so many more that there are n."""
    if len(numbers) >= n:
        return numbers
    return np.concatenate([numbers, np.full(n - len(numbers), fill)])


def check_told(n_told: float, told_max: int | None) -> None:
    """Check how many windows, of all keys, are to be told, before any is made.

    Raises
    ------
    QueryError
        If they are more than ``told_max``; None: there may be any number.
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
