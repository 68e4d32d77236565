"""The windowed join (thesis Def. 2.12-2.13): rows of two streams in, pairs out."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.language.bound import attributes
from replay.language.bound_select import JoinKind, JoinRelation
from replay.language.join_conditions import JoinConditions
from replay.operators.columns import Columns
from replay.operators.evaluate import truths
from replay.operators.joins.intake import behind, intakes_of
from replay.operators.joins.kernels import NONE, ORIGIN
from replay.operators.joins.keys import KeyNumbers
from replay.operators.joins.layout import JoinLayout
from replay.operators.joins.search import LEFT, RIGHT, Fates, PairSearch, to_window
from replay.operators.scalars import Faults

IntArray = npt.NDArray[np.int64]

KEPT_ROWS_MIN = 1 << 12
"""Rows out of every window that pile up at least before they are dropped."""

KEYS_PER_ROW = 4
"""With so many times more keys known than rows kept, keys are numbered anew."""

END_OF_TIME = (1 << 62) - 1
"""No event is later."""


class WindowJoin:
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
    join
        The bound join.
    conditions
        Its conditions by side.
    left, right
        Columns of each side, at least those that `layout.side_columns` names.
    columns
        Columns of the join that are wanted.
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
        self._layout = JoinLayout(join, left, right, columns)
        self._condition = conditions.pairs
        self._condition_columns = sorted({a.name for a in attributes(conditions.pairs)})
        self._origins = origins
        self._windows = np.stack([to_window(join.left_window), to_window(join.right_window)])
        self._keys = KeyNumbers(len(join.equal))
        self._faults = Faults()
        self._sides = intakes_of(join, left, right, conditions)
        self._left, self._right = (side.kept for side in self._sides)
        self._search = PairSearch(self._left, self._right, self._windows)
        is_left = join.kind is JoinKind.LEFT
        self._fates = Fates(self._left, self._right, self._windows) if is_left else None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer."""
        return self._layout.schema

    @property
    def n_faults(self) -> int:
        """Faults of rows in conditions so far."""
        return self._faults.count

    @property
    def n_kept(self) -> int:
        """Rows kept of both sides."""
        return self._left.n_kept + self._right.n_kept

    def push(self, place: int, table: pa.Table, first_seq: int | None = None) -> None:
        """Take the next rows of a side.

        Parameters
        ----------
        place
            0 for the left, 1 for the right.
        table
            Rows in order of time, none before those pushed last.
        first_seq
            Position of the first of them in its stream; None: behind those pushed last.

        Raises
        ------
        SchemaError
            If they have no time or go back in time.
        """
        side = self._sides[place]
        side.push(table, first_seq, self._keys, self._faults)
        origin = self._origins[place]
        self._windows[place, ORIGIN] = (side.origin or 0) if origin is None else origin

    def behind(self, left_ended: bool, right_ended: bool) -> int:
        """Return the side of which rows are needed next; see `intake.behind`."""
        return behind(self._sides, (left_ended, right_ended))

    def is_over(self, left_ended: bool, right_ended: bool) -> bool:
        """Return whether no row to come can change the answer, all of which has been given."""
        lows = self._search.lows
        left_over = left_ended and lows[LEFT] == self._left.end
        right_over = right_ended and lows[RIGHT] == self._right.end and self._fates is None
        return left_over or right_over or (left_ended and right_ended)

    def certain(self, left_ended: bool, right_ended: bool) -> Iterator[pa.Table]:
        """Yield the rows of the answer that are certain now; exhaust it before the next push.

        Parameters
        ----------
        left_ended, right_ended
            Whether no further row comes of a side.
        """
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
        if len(self._keys) > KEYS_PER_ROW * self.n_kept + KEPT_ROWS_MIN:
            self._keys = KeyNumbers(self._keys.n_columns)
            for side in self._sides:
                side.renumber(self._keys)
        for search in self._searches():
            search.relink(len(self._keys))
