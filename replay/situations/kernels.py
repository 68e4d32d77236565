"""Compiled matching: live situations in lists, and the join of those of which something is certain.

Situations of one name and partition lie one behind the other, so that their starts and their ends
ascend alike and every bound of either is a place. `detection` says the same of terms in words.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.language import allen
from replay.operators.place_kernels import left, right
from replay.situations.detection import OPEN

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FIRST_TIME: Final = -OPEN - 1

SEEDS_DONE, DEPTH, STEPS_LEFT = range(3)
"""Of a search: the seeds of the partition that are done, the depth at which the next one goes on
(`NOT_BEGUN`: at none), and how many situations may be tried before the search pauses."""

NOT_BEGUN: Final = -1

SAMPLED: Final = 64
"""Situations of a list, or twice as many, that tell how many are related to those of another."""

_BEFORE, _MEETS, _MET_BY, _AFTER = (
    allen.BITS[name] for name in ("before", "meets", "met by", "after")
)
_CONTAINS = allen.BITS["contains"]
_A_FIRST, _TOGETHER, _B_FIRST = allen.GROUPS
_A_FIRST_ENDS = tuple(allen.BITS[name] for name in ("overlaps", "finished by", "contains"))
_TOGETHER_ENDS = tuple(allen.BITS[name] for name in ("starts", "equals", "started by"))
_B_FIRST_ENDS = tuple(allen.BITS[name] for name in ("during", "finishes", "overlapped by"))
"""Relations by which of the ends comes first: A's, both together, B's."""


class Pattern(NamedTuple):
    """What is asked of situations, by their places in DEFINE."""

    at_least: Ints
    at_most: Ints
    """`OPEN`: as long as they like."""
    by_end: Bools
    """Whether nothing is certain before the end."""
    waits: Bools
    """Whether an end can make a pair certain that its starts leave open."""
    within: int
    """`OPEN`: any time."""
    first_pair: Ints
    """Where the pairs of each begin in the next two; one more at the end."""
    others: Ints
    relations: Ints
    """Those that one may have to the other of a pair."""
    inverses: Ints
    numbers: Ints
    """Which pair of the query each is."""


class Order(NamedTuple):
    """In which order the situations of a match are looked for, a row for each to begin with."""

    names: Ints
    ranks: Ints
    """Where each stands in a row of ``names``."""
    last_waiting: Ints
    """The rank of the last one that shares a pair whose end is waited for."""


class Lives(NamedTuple):
    """Situations that a match may still contain: of partition p and name k in list p * n + k."""

    at: Ints
    """Where each list begins in the columns of situations."""
    size: Ints
    room: Ints
    """How many situations a list can have where it stands."""
    used: Ints
    """How much of the columns is taken, one number."""
    due: Ints
    """When something of each partition may be certain next."""
    seen: Ints
    """Up to when those that were over were looked at for having no partner."""
    starts: Ints
    ends: Ints
    firsts: Ints
    stops: Ints


class Seen(NamedTuple):
    """What orders are chosen by: counts by name, then by pair."""

    asked: Ints
    """How many situations were joined with those of a name."""
    near: Ints
    """How many of these lay within WITHIN of them, together."""
    tried: Ints
    """How many situations of a pair lay within WITHIN of each other."""
    related: Ints
    """How many of these had one of the relations."""


class Search(NamedTuple):
    """Where the search for the matches of a seed stands: by name, then by depth."""

    low: Ints
    high: Ints
    """Places that may be chosen of each name, by the instant that is asked for."""
    chosen: Ints
    place: Ints
    """The next to try at each depth, up to ``stop``."""
    stop: Ints
    gap_from: Ints
    gap_to: Ints
    """Places in between that are none, for each pair; shape (names, names)."""
    n_gaps: Ints
    is_told: Bools
    """Whether the seed is what made those chosen so far certain at the instant."""
    n_partial: Ints
    """How many times some situations, but not all, were chosen, one number."""
    rest: Ints
    """What is left to do, by `SEEDS_DONE` to `STEPS_LEFT`."""


# ---------------------------------------------------------------------------------------------
# Terms


@njit(_nrt=False)
def _later(time, span):  # type: ignore[no-untyped-def]
    return time + span if span < OPEN and time <= OPEN - span else OPEN


@njit(_nrt=False)
def _earlier(time, span):  # type: ignore[no-untyped-def]
    return time - span if span < OPEN and time >= FIRST_TIME + span else FIRST_TIME


@njit(_nrt=False)
def _own_term(pattern, lives, name, place):  # type: ignore[no-untyped-def]
    """Return when the durations of a situation, which are not at fault, are certain."""
    if pattern.by_end[name]:
        return lives.ends[place]
    return _later(lives.starts[place], pattern.at_least[name])


@njit(_nrt=False)
def _pair_term(relations, a_start, a_end, b_start, b_end):  # type: ignore[no-untyped-def]
    """Return when it is certain that A has some of the relations to B; OPEN: not yet, or never."""
    if a_end < b_start:
        return b_start if relations & _BEFORE else OPEN
    if a_end == b_start:
        return b_start if relations & _MEETS else OPEN
    if b_end < a_start:
        return a_start if relations & _AFTER else OPEN
    if b_end == a_start:
        return a_start if relations & _MET_BY else OPEN
    if a_start < b_start:
        group, told = _A_FIRST, _A_FIRST_ENDS
    elif a_start == b_start:
        group, told = _TOGETHER, _TOGETHER_ENDS
    else:
        group, told = _B_FIRST, _B_FIRST_ENDS
    if relations & group == group:
        return max(a_start, b_start)
    if a_end == b_end:
        return a_end if relations & told[1] else OPEN  # OPEN, too, where both go on
    return min(a_end, b_end) if relations & told[0 if a_end < b_end else 2] else OPEN


# ---------------------------------------------------------------------------------------------
# Places


@njit(_nrt=False)
def _own_until(pattern, lives, name, low, high, time):  # type: ignore[no-untyped-def]
    """Return the first place whose durations are certain after a time only."""
    if pattern.by_end[name]:
        return right(lives.ends, low, high, time)
    return right(lives.starts, low, high, _earlier(time, pattern.at_least[name]))


@njit(_nrt=False)
def _related(lives, relations, known, low, high):  # type: ignore[no-untyped-def]
    """Return the places that one known situation can have some of the relations to.

    Those before it, inside it, and behind it are told by places; at each of its borders are two
    more at most. So it is a range with a gap: low, high, and the first of the gap and behind it.
    """
    start, end = lives.starts[known], lives.ends[known]
    if not relations & _AFTER:
        low = left(lives.ends, low, high, start)
    if not relations & _BEFORE:
        high = right(lives.starts, low, high, end)
    gap_from = gap_to = high
    if not relations & _CONTAINS:
        gap_from = right(lives.starts, low, high, start)
        gap_to = left(lives.ends, gap_from, high, end)
    return low, high, gap_from, gap_to


# ---------------------------------------------------------------------------------------------
# Lists


@njit(gives_up=True, _nrt=False)
def note(pattern, lives, situations, first_seq, done):  # type: ignore[no-untyped-def]
    """Take in situations, from the first not ``done``; return how many are done then.

    One is its partition, name, start, first row, end and stop. One whose first row is before
    ``first_seq`` is there already, if a match may contain it, and ends. It may be that the columns
    have no room for all of them.
    """
    n = pattern.at_least.size
    for row in range(done, len(situations)):
        partition, name, start, first, end, stop = situations[row]
        which = partition * n + name
        if first >= first_seq:
            size = lives.size[which]
            if size == lives.room[which] and not _moved(lives, which):
                return row
            place = lives.at[which] + size
            lives.size[which] = size + 1
            lives.starts[place], lives.ends[place] = start, OPEN
            lives.firsts[place], lives.stops[place] = first, OPEN
            if not pattern.by_end[name]:
                term = _later(start, pattern.at_least[name])
                lives.due[partition] = min(lives.due[partition], term)
        if end != OPEN:
            _end(pattern, lives, partition, name, end, stop)
    return len(situations)


@njit(_nrt=False)
def _end(pattern, lives, partition, name, time, stop):  # type: ignore[no-untyped-def]
    """End the situation of a name that goes on, if one does."""
    which = partition * pattern.at_least.size + name
    size = lives.size[which]
    last = lives.at[which] + size - 1
    if not size or lives.ends[last] != OPEN:  # it has ended before, or is in no match
        return
    start = lives.starts[last]
    is_short = time == start or time < _later(start, pattern.at_least[name])
    if is_short or time > _later(start, pattern.at_most[name]):
        lives.size[which] = size - 1
        return
    lives.ends[last], lives.stops[last] = time, stop
    if pattern.by_end[name] or pattern.waits[name]:
        lives.due[partition] = min(lives.due[partition], time)


@njit(_nrt=False)
def _moved(lives, which):  # type: ignore[no-untyped-def]
    """Move a list to where it has room for more; return False if there is none."""
    size, at, to = lives.size[which], lives.at[which], lives.used[0]
    room = 2 * size + 2
    if to + room > lives.starts.size:
        return False
    _copy(lives, at, lives, to, size)
    lives.at[which], lives.room[which] = to, room
    lives.used[0] = to + room
    return True


@njit(_nrt=False)
def _copy(lives, at, into, to, size):  # type: ignore[no-untyped-def]
    for place in range(size):
        into.starts[to + place] = lives.starts[at + place]
        into.ends[to + place] = lives.ends[at + place]
        into.firsts[to + place] = lives.firsts[at + place]
        into.stops[to + place] = lives.stops[at + place]


@njit(gives_up=True, _nrt=False)
def move_all(lives, into):  # type: ignore[no-untyped-def]
    """Move all lists into others that stand one behind the other."""
    to = 0
    for which in range(lives.at.size):
        size = lives.size[which]
        _copy(lives, lives.at[which], into, to, size)
        into.at[which], into.size[which], into.room[which] = to, size, size
        to += size
    into.used[0] = to


@njit(gives_up=True, _nrt=False)
def forget_all(pattern, lives, clock):  # type: ignore[no-untyped-def]
    """Drop what no match that is certain after ``clock`` contains."""
    for partition in range(lives.due.size):
        _forget(pattern, lives, partition, clock)


@njit(_nrt=False)
def _forget(pattern, lives, partition, clock):  # type: ignore[no-untyped-def]
    n = pattern.at_least.size
    for name in range(n):
        which = partition * n + name
        at, size = lives.at[which], lives.size[which]
        if size and lives.ends[at + size - 1] == OPEN:
            is_long = _later(lives.starts[at + size - 1], pattern.at_most[name]) < clock
            size -= int(is_long)
        over = right(lives.starts, at, at + size, _earlier(clock, pattern.within))
        if n == 1:
            over = _own_until(pattern, lives, name, over, at + size, clock)
        lives.at[which], lives.size[which] = over, size - (over - at)
        lives.room[which] -= over - at


# ---------------------------------------------------------------------------------------------
# Situations that are over without ever having had a partner are in no match. Without them the join
# of a pattern whose pairs form a tree hardly ever begins what it cannot end, as in Yannakakis,
# "Algorithms for acyclic database schemes" (1981).


@njit(_nrt=False)
def _prune(pattern, lives, partition, clock):  # type: ignore[no-untyped-def]
    """Drop situations that are over since the last time and lack one to be in relation with.

    Twice, the second time backward: one that is dropped may have been the only one of another.
    """
    n = pattern.at_least.size
    for step in range(2 * n):
        name = step if step < n else 2 * n - 1 - step
        which = partition * n + name
        stop = lives.at[which] + lives.size[which]
        first = right(lives.ends, lives.at[which], stop, lives.seen[partition])
        behind = right(lives.ends, first, stop, clock)
        to = first
        for place in range(first, stop):
            if place >= behind or _has_partners(pattern, lives, partition, name, place):
                _copy(lives, place, lives, to, 1)
                to += 1
        lives.size[which] -= stop - to
    lives.seen[partition] = clock


@njit(_nrt=False)
def _has_partners(pattern, lives, partition, name, place):  # type: ignore[no-untyped-def]
    """Tell whether a situation that is over has, or may get, one of each name it is related to."""
    n = pattern.at_least.size
    start, end = lives.starts[place], lives.ends[place]
    for pair in range(pattern.first_pair[name], pattern.first_pair[name + 1]):
        relations = pattern.relations[pair]
        if relations & _BEFORE:
            continue  # one to come may be it
        which = partition * n + pattern.others[pair]
        low, high = lives.at[which], lives.at[which] + lives.size[which]
        low = left(lives.starts, low, high, _earlier(start, pattern.within))
        high = right(lives.starts, low, high, _later(start, pattern.within))
        low, high, gap_from, gap_to = _related(lives, relations, place, low, high)
        other = low
        while other < high:
            if gap_from <= other < gap_to:
                other = gap_to
                continue
            term = _pair_term(relations, start, end, lives.starts[other], lives.ends[other])
            if term != OPEN:
                break
            other += 1
        if other >= high:
            return False
    return True


# ---------------------------------------------------------------------------------------------
# Matches


@njit(gives_up=True, _nrt=False)
def prepare(pattern, lives, partitions, since, clock):  # type: ignore[no-untyped-def]
    """Drop what no match of partitions contains that is certain after ``since``."""
    for partition in partitions:
        _forget(pattern, lives, partition, since)
        _prune(pattern, lives, partition, clock)


@njit(gives_up=True, _nrt=False)
def measure(pattern, lives, partitions, left, seen):  # type: ignore[no-untyped-def]
    """Join up to so many situations with each name they are related to, and count.

    Of each name they are taken evenly from all of a partition.
    """
    n = pattern.at_least.size
    for partition in partitions:
        for name in range(n):
            at, size = lives.at[partition * n + name], lives.size[partition * n + name]
            step = 1 + size // SAMPLED
            for place in range(at, at + size, step):
                if left == 0:
                    return
                left -= 1
                for pair in range(pattern.first_pair[name], pattern.first_pair[name + 1]):
                    _count(pattern, lives, partition, place, pair, seen)


@njit(_nrt=False)
def _count(pattern, lives, partition, known, pair, seen):  # type: ignore[no-untyped-def]
    """Count the situations of one name that are near a known one, and are related to it."""
    which = partition * pattern.at_least.size + pattern.others[pair]
    start, end = lives.starts[known], lives.ends[known]
    low, high = lives.at[which], lives.at[which] + lives.size[which]
    low = left(lives.starts, low, high, _earlier(start, pattern.within))
    high = right(lives.starts, low, high, _later(start, pattern.within))
    relations = pattern.relations[pair]
    inside = left(lives.ends, low, high, start)  # behind all that are before it
    outside = right(lives.starts, inside, high, end)
    gap_from = right(lives.starts, inside, outside, start)
    gap_to = left(lives.ends, gap_from, outside, end)
    related = inside - low if relations & _AFTER else 0
    related += high - outside if relations & _BEFORE else 0
    related += gap_to - gap_from if relations & _CONTAINS else 0
    place = inside
    while place < outside:
        if gap_from <= place < gap_to:
            place = gap_to
            continue
        term = _pair_term(relations, start, end, lives.starts[place], lives.ends[place])
        related += int(term != OPEN)
        place += 1
    name, number = pattern.others[pair], pattern.numbers[pair]
    seen.asked[name] += 1
    seen.near[name] += high - low
    seen.tried[number] += high - low
    seen.related[number] += related


@njit(gives_up=True, _nrt=False)
def match(pattern, order, lives, search, partitions, since, clock, found):  # type: ignore[no-untyped-def]
    """Find the matches of partitions that are certain after ``since`` and by ``clock``.

    A row of ``found`` gets the partition, the instant, and the place of the situation of each name.
    Return how many partitions are done, and how many rows they and the begun one have. It pauses
    where ``found`` is full or no steps are left; called again with the partitions that are not
    done, it goes on from there.
    """
    n_found = 0
    for done in range(partitions.size):
        n_found, has_ended = _match_one(
            pattern, order, lives, search, partitions[done], since, clock, found, n_found
        )
        if not has_ended:
            return done, n_found
        _forget(pattern, lives, partitions[done], clock)
    return partitions.size, n_found


@njit(_nrt=False)
def _match_one(pattern, order, lives, search, partition, since, clock, found, n_found):  # type: ignore[no-untyped-def]
    """Add the matches of a partition, and note when something may be certain next.

    Return how many are found, and whether these are all of them.
    """
    n = pattern.at_least.size
    n_before, n_seeds = search.rest[SEEDS_DONE], 0
    due = OPEN
    for name in range(n):
        which = partition * n + name
        at, stop = lives.at[which], lives.at[which] + lives.size[which]
        first = _own_until(pattern, lives, name, at, stop, since)
        behind = _own_until(pattern, lives, name, first, stop, clock)
        for place in range(first + min(n_before - n_seeds, behind - first), behind):
            seed = partition, name, place, _own_term(pattern, lives, name, place)
            n_found, has_ended = _join(pattern, order, lives, search, seed, found, n_found)
            if not has_ended:
                search.rest[SEEDS_DONE] = n_seeds + place - first
                return n_found, False
        n_seeds += behind - first
        n_before = max(n_before, n_seeds)
        if behind < stop:
            due = min(due, _own_term(pattern, lives, name, behind))
        if pattern.by_end[name] or not pattern.waits[name]:
            continue
        first = right(lives.ends, at, stop, since)
        behind = right(lives.ends, first, stop, clock)
        for place in range(first + min(n_before - n_seeds, behind - first), behind):
            if lives.ends[place] != _own_term(pattern, lives, name, place):
                seed = partition, name, place, lives.ends[place]
                n_found, has_ended = _join(pattern, order, lives, search, seed, found, n_found)
                if not has_ended:
                    search.rest[SEEDS_DONE] = n_seeds + place - first
                    return n_found, False
        n_seeds += behind - first
        n_before = max(n_before, n_seeds)
        if behind < stop:
            due = min(due, lives.ends[behind])
    lives.due[partition] = due
    search.rest[SEEDS_DONE] = 0
    return n_found, True


@njit(_nrt=False, forceinline=True)
def _join(pattern, order, lives, search, seed, found, n_found):  # type: ignore[no-untyped-def]
    """Add the matches that are certain at a term of a seed, and not by one defined before it.

    Depth first, each name in its turn: nothing is kept but the places chosen so far, by which a
    search that pauses goes on. Return how many are found, and whether these are all of them.
    Inlined, as a call passes all its arrays by value, which takes a third of the join of a few
    situations.
    """
    partition, first_name, first, term = seed
    n = pattern.at_least.size
    depth = search.rest[DEPTH]
    if depth == NOT_BEGUN:
        bounded = _bounded(pattern, lives, search, partition, term)
        if not bounded or first < search.low[first_name]:
            return n_found, True
        search.chosen[first_name] = first
        search.is_told[0] = term == _own_term(pattern, lives, first_name, first)
        depth = 0
    while True:
        if n_found == len(found) or search.rest[STEPS_LEFT] < 0:
            search.rest[DEPTH] = depth
            return n_found, False
        if depth == n - 1:
            found[n_found, 0], found[n_found, 1] = partition, term
            for name in range(n):
                found[n_found, 2 + name] = search.chosen[name]
            n_found += 1
        else:
            depth += 1
            search.n_partial[0] += 1
            _open(pattern, order, lives, search, first_name, depth)
        while depth > 0 and not _step(pattern, order, lives, search, first_name, term, depth):
            depth -= 1
        if depth == 0:
            search.rest[DEPTH] = NOT_BEGUN
            return n_found, True


@njit(_nrt=False)
def _bounded(pattern, lives, search, partition, term):  # type: ignore[no-untyped-def]
    """Bound the places of each name by WITHIN and by what is certain at the term."""
    n = pattern.at_least.size
    since = _earlier(term, pattern.within)
    for name in range(n):
        which = partition * n + name
        low, high = lives.at[which], lives.at[which] + lives.size[which]
        low = left(lives.starts, low, high, since)
        high = _own_until(pattern, lives, name, low, high, term)
        if low >= high:
            return False
        search.low[name], search.high[name] = low, high
    return True


@njit(_nrt=False)
def _open(pattern, order, lives, search, first_name, depth):  # type: ignore[no-untyped-def]
    """Begin with the places of the name whose turn it is that fit to those chosen."""
    name = order.names[first_name, depth]
    low, high = search.low[name], search.high[name]
    n_gaps = 0
    for pair in range(pattern.first_pair[name], pattern.first_pair[name + 1]):
        other = pattern.others[pair]
        if order.ranks[first_name, other] >= depth:
            continue
        known, relations = search.chosen[other], pattern.inverses[pair]
        low, high, gap_from, gap_to = _related(lives, relations, known, low, high)
        if gap_from < gap_to:
            search.gap_from[depth, n_gaps], search.gap_to[depth, n_gaps] = gap_from, gap_to
            n_gaps += 1
    search.place[depth], search.stop[depth], search.n_gaps[depth] = low, high, n_gaps


@njit(_nrt=False)
def _step(pattern, order, lives, search, first_name, term, depth):  # type: ignore[no-untyped-def]
    """Choose the next place at a depth; return False if there is none."""
    name = order.names[first_name, depth]
    begin, stop = search.place[depth], search.stop[depth]
    place = begin
    while place < stop:
        after = place
        for gap in range(search.n_gaps[depth]):
            if search.gap_from[depth, gap] <= after < search.gap_to[depth, gap]:
                after = search.gap_to[depth, gap]
        if after > place:
            place = after
            continue
        fits, is_told = _fits(pattern, order, lives, search, first_name, term, depth, place)
        if fits:
            search.chosen[name], search.place[depth] = place, place + 1
            search.is_told[depth] = is_told
            search.rest[STEPS_LEFT] -= place - begin + 1
            return True
        place += 1
    search.rest[STEPS_LEFT] -= place - begin + 1
    return False


@njit(_nrt=False)
def _fits(pattern, order, lives, search, first_name, term, depth, place):  # type: ignore[no-untyped-def]
    """Tell whether a situation fits to those chosen, and whether the seed is what tells.

    A match that several situations make certain at one instant is that of the first of DEFINE.
    """
    name = order.names[first_name, depth]
    is_told = search.is_told[depth - 1]
    if name < first_name and _own_term(pattern, lives, name, place) == term:
        return False, is_told
    start, end = lives.starts[place], lives.ends[place]
    for pair in range(pattern.first_pair[name], pattern.first_pair[name + 1]):
        other = pattern.others[pair]
        if order.ranks[first_name, other] >= depth:
            continue
        known = search.chosen[other]
        at = _pair_term(pattern.relations[pair], start, end, lives.starts[known], lives.ends[known])
        if at > term:
            return False, is_told
        if at == term and max(start, lives.starts[known]) < term:  # an end tells
            if end == term and name < first_name:
                return False, is_told
            if lives.ends[known] == term:
                if other < first_name:
                    return False, is_told
                is_told = is_told or other == first_name
    return is_told or depth < order.last_waiting[first_name], is_told
