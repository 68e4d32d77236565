"""The ASOF join: to each row of the left the latest row of the right, of the same key."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import NotSupportedError
from replay.joins.join import END_OF_TIME, KEPT_ROWS_MIN, StreamJoin
from replay.joins.kernels import NONE, OUT, find_latest, note_latest
from replay.joins.search import LEFT, PAIRS_AT_ONCE, RIGHT, to_window
from replay.language.bound import JoinKind, JoinRelation
from replay.language.join_conditions import JoinConditions
from replay.operators.packing import State, integers

IntArray = npt.NDArray[np.int64]


class AsofJoin(StreamJoin):
    """An ASOF join, over rows that are pushed in order of time.

    To each row of the left comes the latest row of the right with its key that is not later, or,
    if strict, that is earlier; of several of one time the last in its stream. With a window over
    the right it must be less than its size earlier. A row without one comes alone or, unless LEFT,
    not at all. Rows come in the order of the left.

    Kept are the latest row of each key of the right, and what waits for the other side. Without a
    window a key's latest row is kept for ever, since the next row of the left may be its partner
    however late it comes: memory grows with the keys that were met, not with the rows.

    Parameters are those of `StreamJoin`.

    Raises
    ------
    NotSupportedError
        If the join has a further condition, or its window slides by more than 1 or counts rows.
    """

    def __init__(
        self,
        join: JoinRelation,
        conditions: JoinConditions,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
    ) -> None:
        window = join.right_window
        if conditions.pairs is not None:
            raise NotSupportedError(
                "ASOF JOIN takes equal columns and one comparison of the times in ON; put other "
                "conditions into WHERE, or use JOIN … WITHIN"
            )
        if window is not None and (window.in_rows or window.slide != 1):
            raise NotSupportedError("WITHIN of an ASOF JOIN is a time, without ROWS and SLIDE")
        super().__init__(join, conditions, left, right, columns)
        self._is_left = join.kind is JoinKind.ASOF_LEFT
        size = 0 if window is None else int(to_window(window)[0])
        self._bound = np.array([join.asof_strict, size], np.int64)
        self._latest = np.full(1, NONE, np.int64)
        self._seen = np.zeros(1, np.int64)
        """Slot of the first row of the right that no row of the left has looked at."""

    def is_over(self, left_ended: bool, right_ended: bool) -> bool:
        """Return whether no row to come can change the answer, all of which has been given."""
        return left_ended and (right_ended or not self._left.n_kept)

    def certain(self, left_ended: bool, right_ended: bool) -> Iterator[pa.Table]:
        """Yield the rows of the answer that are certain now; see `StreamJoin.certain`."""
        until = END_OF_TIME if right_ended else self._sides[RIGHT].complete_until
        if until is None:
            return
        if not right_ended and self._bound[0]:
            until += 1  # only rows before it count, and they have all come
        self._make_room()
        left = np.stack((self._left.times, self._left.codes))
        right = np.stack((self._right.times, self._right.codes))
        row = 0
        while True:
            out = np.empty(min(PAIRS_AT_ONCE, left.shape[1] - row), np.int64)
            n = int(
                find_latest(left, row, right, self._seen, self._latest, until, self._bound, out)
            )
            if n == 0:
                break
            yield from self._rows(row, out[:n])
            row += n
        self._left.drop_before(self._left.first + row)
        self._drop(right, is_over=left_ended and not self._left.n_kept)

    def state(self) -> State:
        """Return what is known and kept; see `StreamJoin.state`."""
        return {**super().state(), "latest": self._latest, "seen": self._seen}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; see `StreamJoin.take_over`."""
        super().take_over(state)
        n, latest = self._right.n_kept, state["latest"]
        self._latest = integers(latest, np.shape(latest), NONE, n - 1)
        self._seen = integers(state["seen"], (1,), 0, n)

    def _rows(self, first_slot: int, found: IntArray) -> Iterator[pa.Table]:
        slots = np.arange(first_slot, first_slot + len(found))
        chosen = found != NONE
        if self._is_left:
            chosen |= self._left.codes[slots] != OUT
        if not chosen.any():
            return
        numbers = np.where(found == NONE, NONE, found + self._right.first)
        pairs = np.stack((slots + self._left.first, numbers))[:, chosen]
        yield self._layout.rows(self._layout.wanted, self._left, self._right, pairs)

    def _make_room(self) -> None:
        n_more = len(self._keys) - len(self._latest)
        if n_more > 0:
            more = np.full(max(n_more, len(self._latest)), NONE, np.int64)
            self._latest = np.concatenate((self._latest, more))

    def _drop(self, right: IntArray, *, is_over: bool) -> None:
        """Forget the rows of the right that no row of the left to come can have."""
        low = END_OF_TIME if is_over else self._earliest_left
        if low is None:
            return
        note_latest(right, self._seen, self._latest, low - self._bound[0])
        latest = np.unique(self._latest[self._latest != NONE])
        if self._bound[1]:
            latest = latest[self._right.times[latest] > low - self._bound[1]]
        n_seen = int(self._seen[0])
        if n_seen - len(latest) < max(KEPT_ROWS_MIN, self._right.n_kept // 2):
            return
        self._right.keep(np.concatenate((latest, np.arange(n_seen, self._right.n_kept))))
        self._forget_keys()
        self._latest = np.full(max(1, len(self._keys)), NONE, np.int64)
        self._latest[self._right.codes[: len(latest)]] = np.arange(len(latest))
        self._seen[0] = len(latest)

    @property
    def _earliest_left(self) -> int | None:
        """Return the time before which no further row of the left is; None if nothing is known."""
        if self._left.n_kept:
            return int(self._left.times[0])
        return self._sides[LEFT].last_time
