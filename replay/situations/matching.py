"""Situations to matches: those that became certain while the clock went on.

To be new, a match must contain a situation that has a *term* in the time the clock went through:
its start, how long it must last, or its end. Such situations are the seeds. Each is joined with the
others of its partition, depth first; a match found from two seeds counts for the first in the order
of DEFINE whose term is its detection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from replay.language import allen
from replay.language.bound import SituationRelation
from replay.situations.detection import OPEN, own_term, pair_term, waits_for_ends
from replay.situations.order import next_situation


@dataclass(slots=True, eq=False)
class Live:
    """A situation that a match may still contain."""

    partition: int
    situation: int
    start: int
    first: int
    """``seq`` of its first row."""
    end: int = OPEN
    stop: int = OPEN
    """``seq`` of a row behind its last, before any other row of the partition."""


@dataclass(frozen=True, slots=True)
class Match:
    """A match, and the instant at which it was certain."""

    detection: int
    situations: tuple[Live, ...]
    """In the order of DEFINE."""

    @property
    def place(self) -> tuple[int, ...]:
        """What matches are ordered by."""
        return (self.detection, *(live.first for live in self.situations))


_START, _END = attrgetter("start"), attrgetter("end")


class Matcher:
    """Finds the matches of one pattern; what it needs to know of a query."""

    def __init__(self, query: SituationRelation) -> None:
        self._query = query
        self._n = len(query.situations)
        self._relations: dict[tuple[int, int], int] = {}
        for left, right, relations in query.pairs:
            self._relations[left, right] = relations
            self._relations[right, left] = allen.inverse(relations)
        self._related = [
            {other for (place, other) in self._relations if place == mine}
            for mine in range(self._n)
        ]
        waiting = {pair for pair, relations in self._relations.items() if waits_for_ends(relations)}
        self._waits = [any(place == mine for place, _ in waiting) for mine in range(self._n)]

    def terms(self, live: Live) -> list[int]:
        """Return the instants at which a situation can make a match certain, as far as known."""
        situation = self._query.situations[live.situation]
        own = own_term(situation, live.start, live.end, is_final=self._query.is_final)
        if own is None or live.end == live.start:
            return []
        is_end = self._query.is_final or situation.at_most is not None
        terms = [own] if is_end or not self._waits[live.situation] else [own, live.end]
        return [term for term in terms if term != OPEN]

    def is_over(self, live: Live, clock: int) -> bool:
        """Tell whether no match that is certain after ``clock`` contains a situation."""
        situation, query = self._query.situations[live.situation], self._query
        own = own_term(situation, live.start, live.end, is_final=query.is_final)
        is_long = situation.at_most is not None and live.start + situation.at_most < clock
        if own is None or (live.end > clock and is_long):
            return True
        if query.within is not None and live.start + query.within <= clock:
            return True
        return self._n == 1 and own <= clock

    def matches(
        self, seed: Live, lives: list[list[Live]], since: int, clock: int
    ) -> Iterator[Match]:
        """Yield the matches of a seed that are certain after ``since`` and by ``clock``.

        ``lives`` are the situations of its partition by name, in the order of their starts.
        """
        if all(lives):
            yield from self._joined({seed.situation: seed}, seed, lives, since, clock)

    def _joined(
        self, chosen: dict[int, Live], seed: Live, lives: list[list[Live]], since: int, clock: int
    ) -> Iterator[Match]:
        detection = self._detection(chosen)
        if detection is None or detection > clock:
            return
        within = self._query.within
        start = min(live.start for live in chosen.values())
        if within is not None and max(detection, since + 1) - start > within:
            return
        if len(chosen) == self._n:
            situations = tuple(chosen[place] for place in range(self._n))
            first = next(live for live in situations if detection in self.terms(live))
            if detection > since and first is seed:
                yield Match(detection, situations)
            return
        place = next_situation(chosen, self._related, [len(each) for each in lives])
        for live in self._candidates(place, chosen, lives[place]):
            yield from self._joined({**chosen, place: live}, seed, lives, since, clock)

    def _detection(self, chosen: dict[int, Live]) -> int | None:
        """Return when the durations and relations of some situations are certain."""
        greatest: int | None = None
        for live in chosen.values():
            situation = self._query.situations[live.situation]
            term = own_term(situation, live.start, live.end, is_final=self._query.is_final)
            if term is None:
                return None
            greatest = term if greatest is None else max(greatest, term)
        assert greatest is not None
        for left, right, relations in self._query.pairs:
            if left in chosen and right in chosen:
                a, b = chosen[left], chosen[right]
                term = pair_term(relations, (a.start, a.end), (b.start, b.end))
                if term is None:
                    return None
                greatest = max(greatest, term)
        return greatest

    def _candidates(self, place: int, chosen: dict[int, Live], lives: list[Live]) -> list[Live]:
        """Return the situations of a name that the hulls of their relations and WITHIN allow.

        Situations of one name lie one behind the other, so that starts and ends ascend alike and
        each bound is a place.
        """
        low, high = 0, len(lives)
        within = self._query.within
        for other, live in chosen.items():
            if within is not None:
                low = max(low, bisect_left(lives, live.start - within, key=_START))
                high = min(high, bisect_right(lives, live.start + within, key=_START))
            relations = self._relations.get((other, place))
            if relations is None:
                continue
            bounds = allen.hull(relations)
            borders = (live.start, live.end, live.start, live.end)
            for (least, greatest), border, key in zip(
                bounds, borders, (_START, _START, _END, _END), strict=True
            ):
                if least == 0:
                    low = max(low, bisect_left(lives, border, key=key))
                elif least > 0 and border != OPEN:
                    low = max(low, bisect_right(lives, border, key=key))
                if greatest == 0:
                    high = min(high, bisect_right(lives, border, key=key))
                elif greatest < 0 and border != OPEN:
                    high = min(high, bisect_left(lives, border, key=key))
        return lives[low:high]
