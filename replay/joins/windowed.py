"""The windowed join (thesis Def. 2.12-2.13): rows of two streams in, pairs out."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.joins.join import END_OF_TIME, KEPT_ROWS_MIN, StreamJoin
from replay.joins.kernels import NONE, ORIGIN
from replay.joins.search import LEFT, RIGHT, Fates, PairSearch, to_window
from replay.language.bound import JoinKind, JoinRelation, attributes
from replay.language.join_conditions import JoinConditions
from replay.operators.packing import INT64, State, integers

IntArray = npt.NDArray[np.int64]


class WindowJoin(StreamJoin):
    """A windowed join, ``JOIN`` or ``LEFT JOIN``, over rows that are pushed in order of time.

    The answer has one order, however rows are pushed: by the time of the pair, the later of both;
    of one time first the pairs of earlier left rows with right rows of that time, by right and
    then left row; then those of the left rows of that time, by left and then right row. A left row
    alone has its own time and stands among the left rows of that time. A pair whose events are
    simultaneous comes once.

    Rows are kept as long as they are in a window, or wait for the other side; LEFT JOIN keeps them
    until it is certain which of those before them come alone.

    Parameters
    ----------
    join, conditions, left, right, columns
        As in `StreamJoin`.
    origins
        Times of the first events of the streams; None: of the first rows pushed.
    """

    def __init__(
        self,
        join: JoinRelation,
        conditions: JoinConditions,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
        *,
        origins: tuple[int | None, int | None] = (None, None),
    ) -> None:
        assert join.left_window is not None
        assert join.right_window is not None
        super().__init__(join, conditions, left, right, columns)
        self._condition = conditions.pairs
        self._condition_columns = sorted({a.name for a in attributes(conditions.pairs)})
        self._origins = origins
        self._windows = np.stack([to_window(join.left_window), to_window(join.right_window)])
        self._search = PairSearch(self._left, self._right, self._windows)
        is_left = join.kind is JoinKind.LEFT
        self._fates = Fates(self._left, self._right, self._windows) if is_left else None

    def push(self, place: int, table: pa.Table, first_seq: int | None = None) -> None:
        """Take the next rows of a side; see `StreamJoin.push`."""
        super().push(place, table, first_seq)
        origin = self._origins[place]
        if origin is None:
            origin = self._sides[place].origin or 0
        self._windows[place, ORIGIN] = origin

    def is_over(self, left_ended: bool, right_ended: bool) -> bool:
        """Return whether no row to come can change the answer, all of which has been given."""
        lows = self._search.lows
        left_over = left_ended and lows[LEFT] == self._left.end
        right_over = right_ended and lows[RIGHT] == self._right.end and self._fates is None
        return left_over or right_over or (left_ended and right_ended)

    def certain(self, left_ended: bool, right_ended: bool) -> Iterator[pa.Table]:
        """Yield the rows of the answer that are certain now; see `StreamJoin.certain`."""
        ended = left_ended, right_ended
        untils = [
            END_OF_TIME if is_over else side.complete_until
            for side, is_over in zip(self._sides, ended, strict=True)
        ]
        if None in untils:
            return
        until = min(time for time in untils if time is not None)
        yield from self._found(until, is_end=all(ended))
        self._drop()

    def skip_to(self, left_rows: int, right_rows: int) -> Iterator[pa.Table]:
        """Yield the rest of the answer so far, and go on further down in the streams.

        Parameters
        ----------
        left_rows, right_rows
            How many rows of each stream come before what is pushed next; those pushed so far have
            no partner behind it.
        """
        yield from self.certain(True, True)
        for search in self._searches():
            search.skip_to(left_rows, right_rows)

    def state(self) -> State:
        """Return what is known and kept; see `StreamJoin.state`."""
        return {
            **super().state(),
            "windows": self._windows,
            "search": self._search.state(),
            "fates": None if self._fates is None else self._fates.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; see `StreamJoin.take_over`."""
        super().take_over(state)
        windows = integers(state["windows"], self._windows.shape, INT64.min, INT64.max)
        if (windows[:, :3] != self._windows[:, :3]).any():
            raise ValueError("the state is one of other windows")
        self._windows[:] = windows
        self._search.take_over(state["search"], len(self._keys))
        if self._fates is not None:
            self._fates.take_over(state["fates"], len(self._keys))

    def _found(self, until: int, *, is_end: bool) -> Iterator[pa.Table]:
        n_keys = len(self._keys)
        if self._fates is None:
            for pairs in self._search.pairs(until, n_keys):
                yield from self._rows(self._matching(pairs))
            return
        for pairs in self._fates.search.pairs(until, n_keys):
            self._fates.note(self._matching(pairs))
        certain = until if is_end else self._fates.certain_until(until)
        for pairs in self._search.pairs(certain, n_keys, self._fates.alone()):
            yield from self._rows(self._matching(pairs))

    def _matching(self, pairs: IntArray) -> IntArray:
        """Return the pairs that fulfil the condition, and the rows that come alone."""
        if self._condition is None:
            return pairs
        candidates = pairs[:, pairs[1] != NONE]
        rows = self._layout.rows(self._condition_columns, self._left, self._right, candidates)
        holds = pairs[1] == NONE
        holds[~holds] = truths(self._condition, Columns(rows), self._faults)
        return pairs[:, holds]

    def _rows(self, pairs: IntArray) -> Iterator[pa.Table]:
        if pairs.shape[1]:
            yield self._layout.rows(self._layout.wanted, self._left, self._right, pairs)

    def _searches(self) -> list[PairSearch]:
        return [self._search] if self._fates is None else [self._search, self._fates.search]

    def _drop(self) -> None:
        """Forget the rows out of every window, once they are as many as the others."""
        lows = self._search.lows
        n_out = lows[LEFT] - self._left.first + lows[RIGHT] - self._right.first
        if n_out < max(KEPT_ROWS_MIN, self.n_kept // 2):
            return
        if self._fates is not None:
            self._fates.drop_before(lows[LEFT])
        self._left.drop_before(lows[LEFT])
        self._right.drop_before(lows[RIGHT])
        self._forget_keys()
        for search in self._searches():
            search.relink(len(self._keys))
