"""Joins as operators: rows of two streams in, in order of time; rows of the answer out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import NotSupportedError
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.joins.kernels import (
    NONE,
    ORIGIN,
    OUT,
    WAITING,
    find_latest,
    find_next,
    first_waiting,
    note_latest,
)
from replay.joins.keys import KeyNumbers
from replay.joins.rows import JoinLayout, SideIntake, side_columns
from replay.joins.search import (
    LEFT,
    PAIRS_AT_ONCE,
    RIGHT,
    Fates,
    KeyChains,
    PairSearch,
    to_window,
)
from replay.joins.spans import END_OF_TIME
from replay.language.bound import Expression, JoinKind, JoinRelation, attributes
from replay.language.join_conditions import JoinConditions, split_conditions, unfold
from replay.operators.packing import INT64, State, integer, integers

KEPT_ROWS_MIN = 1 << 12
"""Rows out of every window that pile up at least before they are dropped."""

KEYS_PER_ROW = 4
"""With so many times more keys known than rows kept, keys are numbered anew."""


class StreamJoin(ABC):
    """A join of two streams, over rows that are pushed in order of time.

    The answer has one order, however the rows of one side come between those of the other.

    ``left`` and ``right`` are columns of each side, at least those that `side_columns` names;
    ``columns`` are those of the join that are wanted.
    """

    def __init__(
        self,
        join: JoinRelation,
        conditions: JoinConditions,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
    ) -> None:
        self._layout = JoinLayout(join, left, right, columns)
        self._keys = KeyNumbers(len(join.equal), join.null_safe)
        self._faults = Faults()
        self._sides = (
            SideIntake(
                left,
                time=join.left_time,
                keys=tuple(one for one, _ in join.equal),
                counted=conditions.left_rows,
                partners=conditions.left_partners,
                what="left side",
            ),
            SideIntake(
                right,
                time=join.right_time,
                keys=tuple(other for _, other in join.equal),
                counted=None,
                partners=conditions.right_partners,
                what="right side",
            ),
        )
        self._left, self._right = (side.kept for side in self._sides)

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

        ``place`` is 0 for the left, 1 for the right. Raises a SchemaError for rows that have no
        time or go back in time. ``first_seq`` is the position of the first of them in its stream;
        None: behind those pushed last.
        """
        self._sides[place].push(table, first_seq, self._keys, self._faults)

    def advance(self, place: int, time: int) -> None:
        """Take it that no further row of a side is before a time.

        ``place`` is 0 for the left, 1 for the right; ``time`` is as `chronicle.time.to_int64` has
        it.
        """
        self._sides[place].advance(time)

    def behind(self, left_ended: bool, right_ended: bool) -> int:
        """Return the side that must go on for more to become certain: 0 the left, 1 the right."""
        if left_ended or right_ended:
            return int(left_ended)
        left, right = (side.last_time for side in self._sides)
        return int(left is not None and (right is None or right < left))

    @abstractmethod
    def is_over(self, left_ended: bool, right_ended: bool) -> bool:
        """Return whether no row to come can change the answer, all of which has been given."""

    @abstractmethod
    def certain(self, left_ended: bool, right_ended: bool) -> Iterator[pa.Table]:
        """Yield the rows of the answer that are certain now; exhaust it before the next push."""

    def state(self) -> State:
        """Return what is known and kept, for `take_over` of an operator of the same join."""
        return {
            "n_faults": self._faults.count,
            "keys": self._keys.state(),
            "sides": [side.state() for side in self._sides],
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; what was pushed here is forgotten."""
        self._faults.count = state["n_faults"]
        self._keys.take_over(state["keys"])
        for side, own in zip(self._sides, state["sides"], strict=True):
            side.take_over(own)
            integers(side.kept.codes, (side.kept.n_kept,), OUT, len(self._keys) - 1)

    def _forget_keys(self) -> None:
        """Forget the keys of rows long gone, once those are most of them, by numbering anew."""
        if len(self._keys) > KEYS_PER_ROW * self.n_kept + KEPT_ROWS_MIN:
            self._keys = KeyNumbers(self._keys.n_columns, self._keys.null_safe)
            for side in self._sides:
                side.renumber(self._keys)


IntArray = npt.NDArray[np.int64]


class _OnePartnerJoin(StreamJoin):
    """What ASOF joins in both directions share: a row of the left has one partner at most.

    A row without one comes alone or, unless LEFT, not at all. Rows come in the order of the left.

    Parameters are those of `StreamJoin`.

    Raises a NotSupportedError for a further condition, and for a window that slides by more than 1
    or counts rows.
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
                "ON of an ASOF JOIN takes equal columns, one comparison of the times and "
                "conditions on one side; put one on both sides into WHERE, which is asked of the "
                "nearest event alone, or write JOIN … WITHIN, which pairs all events that are near"
            )
        if window is not None and (window.in_rows or window.slide != 1):
            raise NotSupportedError("WITHIN of an ASOF JOIN is a time, without ROWS and SLIDE")
        super().__init__(join, conditions, left, right, columns)
        self._is_left = join.kind is JoinKind.ASOF_LEFT
        size = 0 if window is None else int(to_window(window)[0])
        self._bound = np.array([join.asof_strict, size], np.int64)
        """Least time between two partners, and how much is too much; 0 for no limit."""

    def _rows(self, first_slot: int, found: IntArray) -> Iterator[pa.Table]:
        """Yield rows of the left with their partners, given by slot; `NONE` without."""
        slots = np.arange(first_slot, first_slot + len(found))
        chosen = found != NONE
        if self._is_left:
            chosen |= self._left.codes[slots] != OUT
        if not chosen.any():
            return
        numbers = np.where(found == NONE, NONE, found + self._right.first)
        pairs = np.stack((slots + self._left.first, numbers))[:, chosen]
        yield self._layout.rows(self._layout.wanted, self._left, self._right, pairs)


class AsofJoin(_OnePartnerJoin):
    """An ASOF join to the latest row before, over rows that are pushed in order of time.

    To each row of the left comes the latest row of the right with its key that is not later, or,
    if strict, that is earlier; of several of one time the last in its stream. With a window over
    the right it must be less than its size earlier.

    Kept are the latest row of each key of the right, and what waits for the other side. Without a
    window a key's latest row is kept for ever, since the next row of the left may be its partner
    however late it comes: memory grows with the keys that were met, not with the rows.
    """

    def __init__(
        self,
        join: JoinRelation,
        conditions: JoinConditions,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
    ) -> None:
        super().__init__(join, conditions, left, right, columns)
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
        latest = np.sort(self._latest[self._latest != NONE])  # a row is that of one key
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


class ForwardAsofJoin(_OnePartnerJoin):
    """An ASOF join to the next row, over rows that are pushed in order of time.

    To each row of the left comes the earliest row of the right with its key that is not earlier,
    or, if strict, that is later; of several of one time the first in its stream. With a window over
    the right it must be less than its size later.

    A row is certain once its partner has come, or the right is past its window; those behind it
    wait with it, since rows come in the order of the left. So without a window a key that never
    comes again has all later rows kept until the right ends.
    """

    def __init__(
        self,
        join: JoinRelation,
        conditions: JoinConditions,
        left: pa.Schema,
        right: pa.Schema,
        columns: Collection[str],
    ) -> None:
        super().__init__(join, conditions, left, right, columns)
        self._chains = KeyChains(self._left, self._right)
        self._chained = np.zeros(2, np.int64)
        """First rows of the left and of the right that are not chained."""
        self._partners = np.full(1, WAITING, np.int64)
        """Slot of the partner by slot of the left."""
        self._told = 0
        """Slot of the first row of the left that was not given yet."""
        self._n_needed = 0
        """Rows that were kept when some were dropped last."""

    def is_over(self, left_ended: bool, right_ended: bool) -> bool:
        """Return whether no row to come can change the answer, all of which has been given."""
        return left_ended and (right_ended or self._told == self._left.n_kept)

    def certain(self, left_ended: bool, right_ended: bool) -> Iterator[pa.Table]:
        """Yield the rows of the answer that are certain now; see `StreamJoin.certain`."""
        self._find()
        end = int(
            first_waiting(self._left.times, self._partners, self._told, self._gone(right_ended))
        )
        for begin in range(self._told, end, PAIRS_AT_ONCE):
            found = self._partners[begin : min(begin + PAIRS_AT_ONCE, end)]
            yield from self._rows(begin, np.where(found == WAITING, NONE, found))
        self._told = end
        self._drop(END_OF_TIME if left_ended else self._sides[LEFT].last_time)

    def state(self) -> State:
        """Return what is known and kept; see `StreamJoin.state`."""
        partners = self._partners[: self._left.n_kept]
        return {**super().state(), "partners": partners, "told": self._told}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; see `StreamJoin.take_over`."""
        super().take_over(state)
        n = self._left.n_kept
        self._partners = integers(state["partners"], (n,), WAITING, self._right.n_kept - 1)
        self._told = integer(state["told"], 0, n)
        self._chain_anew()

    def _find(self) -> None:
        """Find partners for the rows that wait."""
        n_more = self._left.n_kept - len(self._partners)
        if n_more > 0:
            more = np.full(max(n_more, len(self._partners)), WAITING, np.int64)
            self._partners = np.concatenate((self._partners, more))
        sides = [self._chains.side(place, len(self._keys)) for place in (LEFT, RIGHT)]
        find_next(*sides, self._chained, self._bound, self._partners)

    def _gone(self, right_ended: bool) -> int:
        """Return up to which time rows of the left that wait have no partner to come."""
        last, size = self._sides[RIGHT].last_time, int(self._bound[1])
        if right_ended:
            return END_OF_TIME
        return -END_OF_TIME if last is None or not size else last - size

    def _drop(self, low: int | None) -> None:
        """Forget rows that were given, and of the right those that no row of the left can have.

        No further row of the left is before ``low``; None: nothing is known. Done once rows have
        doubled, so that each is looked at few times.
        """
        if self.n_kept < 2 * self._n_needed + KEPT_ROWS_MIN:
            return
        partners = self._partners[self._told : self._left.n_kept]
        has_partner = partners >= 0
        needed = np.full(self._right.n_kept, low is None) | (self._right.times >= (low or 0))
        needed[partners[has_partner]] = True
        slots = np.flatnonzero(needed)
        moved = np.searchsorted(slots, partners)
        self._partners = np.where(has_partner, moved, partners)
        self._right.keep(slots)
        self._left.drop_before(self._left.first + self._told)
        self._told = 0
        self._forget_keys()
        self._chain_anew()
        self._n_needed = self.n_kept

    def _chain_anew(self) -> None:
        """Have the rows kept chained by the next search, after some were dropped or numbered anew.

        A row of the right that was passed before is passed again: no row that waits is before it.
        """
        self._chains.clear(len(self._keys))
        self._chained[:] = self._left.first, self._right.first


class WindowJoin(StreamJoin):
    """A windowed join, ``JOIN`` or ``LEFT JOIN``, over rows that are pushed in order of time.

    The answer has one order, however rows are pushed: by the time of the pair, the later of both;
    of one time first the pairs of earlier left rows with right rows of that time, by right and
    then left row; then those of the left rows of that time, by left and then right row. A left row
    alone has its own time and stands among the left rows of that time. A pair whose events are
    simultaneous comes once.

    Rows are kept as long as they are in a window, or wait for the other side; LEFT JOIN keeps them
    until it is certain which of those before them come alone.

    ``origins`` are the times of the first events of the streams; None: of the first rows pushed.
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

        So many rows of each stream come before what is pushed next; those pushed so far have no
        partner behind it.
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


@dataclass(frozen=True, slots=True)
class JoinOutline:
    """What carrying out a join takes, whatever the sides are read from."""

    join: JoinRelation
    conditions: JoinConditions
    columns: tuple[str, ...]
    """Its columns that are wanted."""
    side_columns: tuple[tuple[str, ...], tuple[str, ...]]
    """Columns to read of the left and of the right, by their own names."""

    @classmethod
    def of(
        cls, join: JoinRelation, *, where: Expression | None, columns: Collection[str]
    ) -> JoinOutline:
        """Return the outline of a bound join.

        ``where`` is a condition over its columns that is applied to what it gives: rows that it
        leaves out for certain may be dropped early.
        """
        unfolded = unfold(join)
        conditions = split_conditions(
            unfolded.join, where, left=unfolded.left_condition, right=unfolded.right_condition
        )
        names = side_columns(unfolded.join, conditions, columns)
        return cls(unfolded.join, conditions, tuple(columns), names)

    def operator(
        self,
        left: pa.Schema,
        right: pa.Schema,
        *,
        origins: tuple[int | None, int | None] = (None, None),
    ) -> StreamJoin:
        """Return the operator that carries it out; ``origins`` as in `WindowJoin`.

        ``left`` and ``right`` are what is read of the sides, at least ``side_columns``.
        """
        if self.join.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
            make = ForwardAsofJoin if self.join.asof_forward else AsofJoin
            return make(self.join, self.conditions, left, right, self.columns)
        return WindowJoin(self.join, self.conditions, left, right, self.columns, origins=origins)
