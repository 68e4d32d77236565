"""Find the blocks in which an as-of join finds the latest, or the next, event of each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle import Snapshot
from chronicle.time import to_int64
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.joins.keys import KeyNumbers
from replay.joins.spans import END_OF_TIME
from replay.language.bound import Expression, attributes
from replay.limits import check_limits
from replay.planning.block_ranges import ranges_of

IntArray = npt.NDArray[np.int64]

BLOCKS_AT_ONCE_MAX: Final = 64
"""Blocks read at once on the way back at most: first 1, then twice as many each time."""

NOT_SOUGHT: Final = -END_OF_TIME
"""Time of the earliest event that seeks a key none seeks: no event is as early."""


@dataclass(frozen=True, slots=True)
class AsofLookup:
    """What is looked for on the way back."""

    time: str
    keys: tuple[str, ...]
    condition: Expression | None
    """Which of the stream's events count; None: all."""
    strict: bool
    """Whether they must not be at the time of the event that seeks them."""
    forward: bool = False
    """Whether the next event is sought, not the latest before."""

    @property
    def columns(self) -> list[str]:
        """What is read."""
        read = {attribute.name for attribute in attributes(self.condition)}
        return sorted({self.time, *self.keys, *read})


def find_asof_stretches(
    snapshot: Snapshot,
    lookup: AsofLookup,
    seekers: tuple[IntArray, IntArray],
    numbers: KeyNumbers,
    blocks: IntArray,
    *,
    n_blocks_max: int | None,
) -> tuple[IntArray | None, int]:
    """Return the blocks that hold the latest event of its key before each of some events.

    One pass from the latest to the earliest, over the blocks between an event and what it seeks.
    The next event is the latest one where time runs back: all times are negated, and what ascends
    is turned round.

    ``seekers`` are times, ascending, and numbers of the keys of the events, by ``numbers``; -1 for
    one that seeks nothing. ``blocks`` may hold an event that counts, and ascend. After
    ``n_blocks_max`` the search is given up; None: never.

    The result is stretches of blocks, shape (n, 2), or None if it was given up; and the number of
    blocks looked at. All events that count between a seeker and what it seeks are in the stretches.
    """
    times, codes = (column[seekers[1] >= 0] for column in seekers)
    begins = snapshot.leaves.t_min[blocks]
    if lookup.forward:
        times, codes, blocks = -times[::-1], codes[::-1], blocks[::-1]
        begins = -snapshot.leaves.t_max[blocks]
    earliest = np.full(len(numbers), NOT_SOUGHT)
    latest_time = times - int(lookup.strict)
    # Place among the blocks of the last one that begins early enough for each seeker.
    ends = np.searchsorted(begins, latest_time, side="right") - 1
    is_read = np.zeros(snapshot.n_blocks, np.bool_)
    waiting = int(np.searchsorted(ends, 0))  # before it there is nothing to be found
    left, n_read, at, n_at_once = len(times), 0, len(blocks), 1
    while True:
        check_limits()
        if not (earliest > NOT_SOUGHT).any():
            if left == waiting:
                return ranges_of(is_read), n_read
            at, n_at_once = int(ends[left - 1]) + 1, 1
        if at == 0:
            return ranges_of(is_read), n_read
        first = max(0, at - n_at_once)
        n_come = int(np.searchsorted(ends, first, side="left"))
        # Times ascend, so the first of a key's seekers is its earliest, also of those before.
        come = slice(max(n_come, waiting), left)
        earliest[codes[come][::-1]] = latest_time[come][::-1]
        left = come.start
        chunk = np.sort(blocks[first:at])
        n_read += len(chunk)
        if n_blocks_max is not None and n_read > n_blocks_max:
            return None, n_read
        is_read[chunk] = True
        earliest = _without_found(
            snapshot.read_blocks(chunk, lookup.columns), lookup, numbers, earliest
        )
        at, n_at_once = first, min(2 * n_at_once, BLOCKS_AT_ONCE_MAX)


def _without_found(
    table: pa.Table, lookup: AsofLookup, numbers: KeyNumbers, earliest: IntArray
) -> IntArray:
    """Return the time by which each key is still sought, now that some events were looked at."""
    codes = numbers.number(table, lookup.keys)
    counts = codes >= 0
    if lookup.condition is not None:
        counts &= truths(lookup.condition, Columns(table), Faults())
    times = np.asarray(to_int64(table.column(lookup.time), name=lookup.time).to_numpy(), np.int64)
    times = -times if lookup.forward else times
    more = np.full(len(numbers) - len(earliest), NOT_SOUGHT)
    earliest = np.concatenate((earliest, more))
    codes, times = codes[counts], times[counts]
    earliest[codes[times <= earliest[codes]]] = NOT_SOUGHT
    return earliest
