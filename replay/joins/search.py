"""Searches for pairs over the rows kept of two sides, and for rows that come alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from replay.errors import QueryError
from replay.joins import kernels
from replay.joins.kernels import NONE
from replay.joins.rows import KeptRows
from replay.language.bound import JoinWindow
from replay.limits import check_limits
from replay.operators.packing import INT64, State, integers

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PAIRS_AT_ONCE = 1 << 17
"""Pairs looked at together, and so rows of the answer handed over at once at most."""

SIZE_MAX = 1 << 61
"""Greatest size of a window: what is computed of it and times then fits int64."""

LEFT, RIGHT = 0, 1

_LEFT_ROWS = kernels.LEFT_LOW, kernels.LEFT_HIGH, kernels.LEFT_NEXT
_RIGHT_ROWS = kernels.RIGHT_LOW, kernels.RIGHT_HIGH, kernels.RIGHT_NEXT
"""Rows that a search between two times stands at; they ascend."""


def to_window(window: JoinWindow) -> IntArray:
    """Return a window as kernels take it, shape (N_WINDOW,), its origin not known yet.

    Raises a QueryError for a size or slide that no window has.
    """
    if not 1 <= window.slide <= window.size <= SIZE_MAX:
        raise QueryError(
            f"a join window of size {window.size} and slide {window.slide} cannot be: 1 <= slide "
            "<= size <= 2^61"
        )
    return np.array([window.size, window.slide, window.in_rows, 0], np.int64)


class KeyChains:
    """The rows kept of two sides, those of equal keys chained, oldest first."""

    def __init__(self, left: KeptRows, right: KeptRows) -> None:
        self._kept = left, right
        self._following, self._heads, self._tails = (
            [np.empty(0, np.int64), np.empty(0, np.int64)] for _ in range(3)
        )

    def side(self, place: int, n_keys: int) -> tuple[int, *tuple[IntArray, ...]]:
        """Return the fields of `kernels.Side`, with room for all rows kept and so many keys."""
        kept = self._kept[place]
        _make_room(self._following, place, kept.n_kept)
        _make_room(self._heads, place, n_keys)
        _make_room(self._tails, place, n_keys)
        chains = self._following[place], self._heads[place], self._tails[place]
        return kept.first, kept.times, kept.seqs, kept.codes, *chains

    def clear(self, n_keys: int) -> None:
        """Take it that no row is chained."""
        for place in (LEFT, RIGHT):
            self._heads[place] = np.full(n_keys, NONE, np.int64)
            self._tails[place] = np.full(n_keys, NONE, np.int64)


class PairSearch:
    """A search for pairs, and where it stands; several may go over the same rows.

    ``windows`` are over the left and over the right, shape (2, N_WINDOW); origins may be filled in
    later.
    """

    def __init__(self, left: KeptRows, right: KeptRows, windows: IntArray) -> None:
        self._kept = left, right
        self._windows = windows
        self._state = np.zeros(kernels.N_STATE, np.int64)
        self._chains = KeyChains(left, right)

    @property
    def lows(self) -> tuple[int, int]:
        """First rows of the left and of the right that may still be seen."""
        return int(self._state[kernels.LEFT_LOW]), int(self._state[kernels.RIGHT_LOW])

    def skip_to(self, left_rows: int, right_rows: int) -> None:
        """Take it that so many rows of each stream have come, and see none of them any more."""
        state = self._state
        state[kernels.LEFT_ROWS], state[kernels.RIGHT_ROWS] = left_rows, right_rows
        state[kernels.LEFT_LOW] = state[kernels.LEFT_HIGH] = state[kernels.LEFT_NEXT]
        state[kernels.RIGHT_LOW] = state[kernels.RIGHT_HIGH] = state[kernels.RIGHT_NEXT]

    def pairs(self, until: int, n_keys: int, alone: Bools | None = None) -> Iterator[IntArray]:
        """Yield the pairs of further times up to ``until`` in canonical order, as arrays (2, n).

        To be exhausted before anything else is done.

        Up to ``until``, inclusive, all rows have come. ``alone`` tells the rows of the left, by
        slot, that come alone, with `NONE`.
        """
        left, right = self._chains.side(LEFT, n_keys), self._chains.side(RIGHT, n_keys)
        alone = np.empty(0, np.bool_) if alone is None else alone
        while True:
            check_limits()
            out = np.empty((2, PAIRS_AT_ONCE), np.int64)
            n = kernels.find_pairs(left, right, self._windows, self._state, until, alone, out)
            if n:
                yield out[:, :n]
            if n < PAIRS_AT_ONCE:
                return

    def relink(self, n_keys: int) -> None:
        """Chain the rows searched so far anew, after some were dropped or numbered otherwise."""
        self._chains.clear(n_keys)
        for place, end in ((LEFT, kernels.LEFT_NEXT), (RIGHT, kernels.RIGHT_NEXT)):
            side = self._chains.side(place, n_keys)
            kernels.link_rows(side, side[0], int(self._state[end]))

    def state(self) -> State:
        """Return where the search stands; the rows and windows others know."""
        return {"state": self._state}

    def take_over(self, state: State, n_keys: int) -> None:
        """Go on from what `state` gave, over rows taken over before, of so many keys."""
        found = integers(state["state"], (kernels.N_STATE,), INT64.min, INT64.max)
        for kept, rows in zip(self._kept, (_LEFT_ROWS, _RIGHT_ROWS), strict=True):
            at = found[list(rows)]
            integers(at, at.shape, kept.first, kept.first + kept.n_kept)
            if (np.diff(at) < 0).any() or found[kernels.PHASE] != kernels.BETWEEN:
                raise ValueError("a search of the state is where it cannot be")
        self._state = found
        self.relink(n_keys)


def _make_room(arrays: list[IntArray], place: int, n: int) -> None:
    """Lengthen an array, at least to twice its length, so that it is copied rarely."""
    array = arrays[place]
    if len(array) < n:
        more = np.full(max(n - len(array), len(array)), NONE, np.int64)
        arrays[place] = np.concatenate((array, more))


class Fates:
    """Which rows of the left have a partner, told by a search that goes ahead of the other.

    Parameters are those of `PairSearch`.
    """

    def __init__(self, left: KeptRows, right: KeptRows, windows: IntArray) -> None:
        self._left = left
        self.search = PairSearch(left, right, windows)
        self._has_partner = np.zeros(0, np.bool_)

    def note(self, pairs: IntArray) -> None:
        """Take pairs of rows that are partners."""
        self._grow()
        self._has_partner[pairs[0] - self._left.first] = True

    def alone(self) -> Bools:
        """Return which rows kept of the left have no partner so far, by slot."""
        self._grow()
        return np.asarray(~self._has_partner & (self._left.codes != kernels.OUT), np.bool_)

    def certain_until(self, until: int) -> int:
        """Return up to which time the fate of all rows of the left is certain.

        Up to ``until`` has been searched.
        """
        slot = self.search.lows[LEFT] - self._left.first
        if slot == self._left.n_kept:
            return until
        return min(until, int(self._left.times[slot]) - 1)

    def drop_before(self, row: int) -> None:
        """Forget rows of the left, before they are dropped."""
        self._grow()
        self._has_partner = self._has_partner[row - self._left.first :].copy()

    def state(self) -> State:
        """Return where the search stands and what it found."""
        return {"search": self.search.state(), "has_partner": self._has_partner}

    def take_over(self, state: State, n_keys: int) -> None:
        """Go on from what `state` gave, as `PairSearch.take_over`."""
        self.search.take_over(state["search"], n_keys)
        known = state["has_partner"]
        if known.dtype != np.bool_ or known.ndim != 1 or len(known) > self._left.n_kept:
            raise ValueError("the state knows of partners of rows it does not have")
        self._has_partner = known

    def _grow(self) -> None:
        n_more = self._left.n_kept - len(self._has_partner)
        if n_more:
            self._has_partner = np.concatenate((self._has_partner, np.zeros(n_more, np.bool_)))
