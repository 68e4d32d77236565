"""Situations to matches: those that became certain while the clock went on.

To be new, a match must contain a situation that has a *term* in the time the clock went through:
its start, how long it must last, or its end. Such situations are the seeds. `kernels` joins each
with the others of its partition, depth first; a match found from two seeds counts for the first in
the order of DEFINE whose term is its detection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from replay.engines.read_ahead import divide, part_count
from replay.language import allen
from replay.language.bound import SituationRelation
from replay.limits import check_limits
from replay.situations.detection import OPEN, waits_for_ends
from replay.situations.kernels import (
    FIRST_TIME,
    NOT_BEGUN,
    STEPS_LEFT,
    Lives,
    Order,
    Pattern,
    Search,
    Seen,
    forget_all,
    match,
    measure,
    move_all,
    note,
    prepare,
)
from replay.situations.order import Ordering

Ints = npt.NDArray[np.int64]

MEASURED: Final = 1 << 10
"""After so many changes as many situations at most are looked at, to see which order is best."""

SELDOM: Final = 8
"""Times as many it may become, twice as many each time that the orders stay as they are."""

PART_MIN: Final = 256
"""Partitions a thread looks for matches in, at least; some 0.1 ms and more."""

_ROOM_MIN: Final = 256
"""Situations that there is room for at least."""

PIECE_STEPS: Final = 1 << 21
"""Situations that are tried before a search looks at the limits of the query; some 10 ms."""

PIECE_MATCHES: Final = 1 << 16
"""Matches that a search finds at most before it does so, and that are handed on at once."""


class Matches(NamedTuple):
    """Matches by column; those with a second dimension have a column for each name of DEFINE."""

    partitions: Ints
    detections: Ints
    """When each was certain."""
    starts: Ints
    ends: Ints
    """`OPEN`: it goes on."""
    firsts: Ints
    """``seq`` of the first row of each situation."""
    stops: Ints
    """``seq`` of a row behind the last of each, before any other row of the partition."""

    def take(self, rows: npt.NDArray[np.bool_] | Ints) -> Matches:
        """Return some of them."""
        return Matches(*(column[rows] for column in self))


class _Seeker:
    """Looks for matches, in a thread of its own if others look for some at once."""

    def __init__(self, n: int) -> None:
        self.search = _search(n)
        self._found = np.empty((_ROOM_MIN, n + 2), np.int64)

    def sought(
        self,
        pattern: Pattern,
        order: Order,
        lives: Lives,
        partitions: Ints,
        since: int,
        clock: int,
        *,
        is_alone: bool,
    ) -> Ints:
        """Return the matches of partitions as `kernels.match` finds them, in no order."""
        # A call as plain Python that is given up takes back what all have written.
        prepared, matched = (prepare, match) if is_alone else (prepare.entry, match.entry)
        prepared(pattern, lives, partitions, since, clock)
        self.search.rest[:] = 0, NOT_BEGUN, 0
        pieces: list[Ints] = []
        while True:
            self.search.rest[STEPS_LEFT] = PIECE_STEPS
            done, n = matched(
                pattern, order, lives, self.search, partitions, since, clock, self._found
            )
            pieces.append(self._found[:n].copy())
            partitions = partitions[done:]
            if not len(partitions):
                break
            check_limits()
            if n == len(self._found) < PIECE_MATCHES:
                self._found = np.empty((2 * n, self._found.shape[1]), np.int64)
        check_limits(n_bytes=sum(piece.nbytes for piece in pieces))
        return np.concatenate(pieces)


class Matcher:
    """Keeps the situations that a match may still contain, and finds those that are certain."""

    def __init__(self, query: SituationRelation) -> None:
        self._n, self._n_pairs = len(query.situations), len(query.pairs)
        self._pattern = _pattern(query)
        self._ordering = Ordering(query)
        self._order = _order(self._pattern, self._ordering.names)
        self._n_changes, self._every = 0, MEASURED
        self._seekers = [_Seeker(self._n)]
        """One for each thread that shares."""
        self._clock = -OPEN
        self.clear()

    @property
    def n_lives(self) -> int:
        """How many situations are kept."""
        return int(self._lives.size.sum())

    @property
    def n_partial(self) -> int:
        """How many combinations of some situations, but not all, were looked for the rest of."""
        return sum(int(seeker.search.n_partial[0]) for seeker in self._seekers)

    def clear(self) -> None:
        """Take it that no situation so far is in a match to come."""
        self._lives = _no_lives(0, self._n, _ROOM_MIN)

    def note(self, situations: Ints, first_seq: int, n_partitions: int) -> None:
        """Take in situations that begin or end from a row on, among so many partitions.

        They are rows as `lives` gives them; what began before the row ends now.
        """
        grown = n_partitions - len(self._lives.due)
        if grown > 0:
            self._lives = _grown(self._lives, grown, self._n)
        self._n_changes += len(situations)
        done = 0
        while True:
            done = note(self._pattern, self._lives, situations, first_seq, done)
            if done == len(situations):
                break
            self._make_room()

    def _make_room(self) -> None:
        """Move all lists to columns in which each can become more than twice as long."""
        old = self._lives
        forget_all(self._pattern, old, self._clock)
        new = _no_lives(len(old.due), self._n, 4 * int(old.size.sum()) + _ROOM_MIN)
        self._lives = new._replace(due=old.due, seen=old.seen)
        move_all(old, self._lives)

    def until(self, clock: int) -> Iterator[Matches]:
        """Yield the matches that are certain by a time but were not at that of the last call.

        They are in the order of the answer, in pieces; the last one is there though it be empty.
        """
        partitions = np.flatnonzero(self._lives.due <= clock)
        since, self._clock = self._clock, clock
        if self._n > 1 and self._n_changes >= self._every:
            prepare(self._pattern, self._lives, partitions, since, clock)
            self._measure(partitions)
        found = self._found_in(partitions, since, clock)
        firsts = self._lives.firsts
        check_limits(n_bytes=found.nbytes)
        order = np.lexsort((*(firsts[places] for places in found.T[:1:-1]), found[:, 1]))
        columns = self._lives.starts, self._lives.ends, firsts, self._lives.stops
        for begin in range(0, max(len(order), 1), PIECE_MATCHES):
            piece = found[order[begin : begin + PIECE_MATCHES]]
            places = piece[:, 2:]
            yield Matches(piece[:, 0], piece[:, 1], *(column[places] for column in columns))

    def _found_in(self, partitions: Ints, since: int, clock: int) -> Ints:
        """Return the matches of partitions as `kernels.match` finds them, in no order.

        Threads that share have partitions of their own, and write to nothing of others.
        """
        parts = np.array_split(partitions, part_count(len(partitions), PART_MIN))
        self._seekers += [_Seeker(self._n) for _ in range(len(self._seekers), len(parts))]
        known = self._pattern, self._order, self._lives
        is_alone = len(parts) == 1

        def sought(place: int) -> Ints:
            return self._seekers[place].sought(
                *known, parts[place], since, clock, is_alone=is_alone
            )

        return np.concatenate(divide(range(len(parts)), sought))

    def _measure(self, partitions: Ints) -> None:
        """See how many situations there are and how they are related, and order by that."""
        asked, near = np.zeros((2, self._n), np.int64)
        tried, related = np.zeros((2, self._n_pairs), np.int64)
        seen = Seen(asked, near, tried, related)
        measure(self._pattern, self._lives, partitions, MEASURED, seen)
        if not tried.any():
            return
        if self._ordering.see(near / np.maximum(asked, 1), related, tried, self._n_changes):
            self._order = _order(self._pattern, self._ordering.names)
            self._every = MEASURED
        else:
            self._every = min(2 * self._every, SELDOM * MEASURED)
        self._n_changes = 0

    def lives(self) -> Ints:
        """Return the situations that a match may still contain, rows as `state` gives them."""
        forget_all(self._pattern, self._lives, self._clock)
        return self.state()

    def state(self) -> Ints:
        """Return all situations, a row each: partition, name, start, first row, end, stop."""
        lives = self._lives
        lists = np.repeat(np.arange(len(lives.at)), lives.size)
        before = np.cumsum(lives.size) - lives.size
        places = np.arange(len(lists)) + (lives.at - before)[lists]
        columns = lives.starts, lives.firsts, lives.ends, lives.stops
        names = lists // self._n, lists % self._n
        return np.stack([*names, *(column[places] for column in columns)], axis=1)

    def take_over(self, state: Ints, n_partitions: int, clock: int) -> None:
        """Go on from what `state` gave, at a time up to which matches were told."""
        partitions, names = state[:, 0], state[:, 1]
        if not ((partitions >= 0) & (partitions < n_partitions)).all():
            raise ValueError("a situation is of no partition")
        if not ((names >= 0) & (names < self._n)).all():
            raise ValueError("a situation has no name")
        self.clear()
        self._clock = clock
        self.note(state, 0, n_partitions)


def _pattern(query: SituationRelation) -> Pattern:
    """Return what `kernels` asks of situations."""
    n = len(query.situations)
    pairs: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
    for number, (left, right, relations) in enumerate(query.pairs):
        pairs[left].append((right, relations, number))
        pairs[right].append((left, allen.inverse(relations), number))
    listed = np.array([pair for each in pairs for pair in each], np.int64).reshape(-1, 3)
    others, allowed, numbers = np.ascontiguousarray(listed.T)
    at_most = [one.at_most for one in query.situations]
    return Pattern(
        at_least=np.array([one.at_least or 0 for one in query.situations], np.int64),
        at_most=np.array([OPEN if most is None else most for most in at_most], np.int64),
        by_end=np.array([query.is_final or most is not None for most in at_most]),
        waits=np.array(
            [any(waits_for_ends(relations) for _, relations, _ in each) for each in pairs]
        ),
        within=OPEN if query.within is None else query.within,
        first_pair=np.cumsum([0, *map(len, pairs)]),
        others=others,
        relations=allowed,
        inverses=np.array([allen.inverse(relations) for relations in allowed.tolist()], np.int64),
        numbers=numbers,
    )


def _order(pattern: Pattern, names: Ints) -> Order:
    """Return orders, a row for each seed, with what the search asks of them."""
    ranks = np.argsort(names, axis=1)
    last_waiting = np.zeros(len(names), np.int64)
    for name, rank in enumerate(ranks):
        pairs = slice(*pattern.first_pair[name : name + 2])
        for other, relations in zip(pattern.others[pairs], pattern.relations[pairs], strict=True):
            if waits_for_ends(int(relations)):
                last_waiting[name] = max(last_waiting[name], rank[other])
    return Order(names, ranks, last_waiting)


def _search(n: int) -> Search:
    low, high, chosen, place, stop, n_gaps = np.zeros((6, n), np.int64)
    gap_from, gap_to = np.zeros((2, n, n), np.int64)
    is_told, n_partial = np.zeros(n, np.bool_), np.zeros(1, np.int64)
    rest = np.zeros(3, np.int64)
    return Search(
        low, high, chosen, place, stop, gap_from, gap_to, n_gaps, is_told, n_partial, rest
    )


def _no_lives(n_partitions: int, n: int, room: int) -> Lives:
    """Return empty lists."""
    at, size, rooms = np.zeros((3, n_partitions * n), np.int64)
    due, seen = np.full(n_partitions, OPEN), np.full(n_partitions, FIRST_TIME)
    starts, ends, firsts, stops = np.zeros((4, room), np.int64)
    used = np.zeros(1, np.int64)
    return Lives(at, size, rooms, used, due, seen, starts, ends, firsts, stops)


def _grown(lives: Lives, n_partitions: int, n: int) -> Lives:
    """Return lists with empty ones for more partitions behind them."""
    more = _no_lives(n_partitions, n, 0)
    both = {
        name: np.concatenate([getattr(lives, name), getattr(more, name)])
        for name in ("at", "size", "room", "due", "seen")
    }
    return lives._replace(**both)
