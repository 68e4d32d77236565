"""Row filters: the rows in which the events of a further lookup can lie, by those asked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from costmodel.lookups import (
    CANDIDATES_MAX,
    COVER_MAX,
    ENTRIES_MIN,
    GIVEN_MAX,
    ROWS_MAX,
    SATURATED,
)
from replay.planning.ascending import count_on, row_lower_bounds
from replay.planning.hits import by_place
from replay.planning.intervals import Intervals, fills_of, join_blocks, sweep
from replay.planning.plan import Condition, Occurrences, Plan, Slot
from replay.planning.requirements import Requirements
from replay.planning.statistics import IntArray, Timeline


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """Rows in which the events of a lookup can lie: all others are in no match."""

    rows: tuple[IntArray, ...]
    """Single rows, each list ascending."""
    spans: tuple[IntArray, IntArray] | None
    """First row and row behind the last of stretches, both ascending, none empty; or none."""
    has_times: bool
    """Whether every event is one that another lookup found, so that its time is known."""

    @property
    def n_rows(self) -> int:
        """Single rows, those on two lists counted twice."""
        return sum(len(rows) for rows in self.rows)

    def is_narrow(self, n_events: int) -> bool:
        """Return whether they leave enough of a stream of ``n_events`` out."""
        if self.spans is None:
            return True
        return int((self.spans[1] - self.spans[0]).sum()) <= COVER_MAX * n_events


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """What is left of the results of lookups once all of them are known together."""

    required: Requirements
    found: Mapping[int, Occurrences]
    """By place, at least all that are part of a candidate."""
    hits: Mapping[int, IntArray]
    """First rows of each basic block looked up that lie in a replay interval, by block."""
    spans: tuple[IntArray, IntArray]
    """Rows of the replay intervals; see `RowFilter.spans`."""

    def row_filter(self, conditions: Collection[Condition]) -> RowFilter:
        """Return where the events of some conditions, those of one lookup, can lie.

        Of a basic block looked up before, one of its rows fixes all; else in the intervals.
        """
        block_at, blocks = self.required.block_at, self.required.blocks
        rows = []
        for place in dict.fromkeys(condition.place for condition in conditions):
            block = block_at[place] if place >= 0 else None
            if block is None or block not in self.hits:
                return RowFilter((), self.spans, has_times=False)
            rows.append(self.hits[block] + (place - blocks[block][0]))
        has_times = all(condition.place in self.found for condition in conditions)
        return RowFilter(tuple(rows), None, has_times)

    def given(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        """Return what is left of conditions asked so far, by their slots."""
        return {condition.slot: self.found[condition.place] for condition in conditions}


def rows_of_places(known: Mapping[int, Occurrences]) -> RowFilter:
    """Return as windows the events that other lookups found at all places of one, by place."""
    lists = {id(given): given.seq for given in known.values()}
    return RowFilter(tuple(lists.values()), None, has_times=True)


def rows_of_neighbours(
    plan: Plan,
    given: Mapping[Slot, Occurrences],
    places: Collection[int],
    n_entries: float,
    n_events: int,
) -> RowFilter | None:
    """Return as windows the rows at which a lookup's events stand beside those found before.

    Of each place by the shortest list of its basic block. None where nothing else of the block of a
    place was looked up, where what was found stands at the very places, so that its times are
    known, and where rows are too many to be worth it. ``n_entries`` are expected of the lookup.
    """
    required = plan.required
    nearest: list[tuple[int, IntArray]] = []
    for place in places:
        block = range(*required.blocks[required.block_at[place]]) if place >= 0 else ()
        beside = [(place - p, found.seq) for (p, _), found in given.items() if p in block]
        if not beside:
            return None
        nearest.append(min(beside, key=lambda of: (len(of[1]), of[0] != 0)))
    n_rows = sum(len(seq) for _, seq in nearest)
    is_narrow = n_rows <= COVER_MAX * n_events and may_ask_rows(n_rows, n_entries)
    if not is_narrow or not any(distance for distance, _ in nearest):
        return None
    rows = []
    for distance, seq in nearest:
        inside = np.searchsorted(seq, (-distance, n_events - distance))
        rows.append(seq[inside[0] : inside[1]] + distance)
    return RowFilter(tuple(rows), None, has_times=False)


def may_ask_rows(n_rows: int, n_entries: float) -> bool:
    """Return whether a lookup of so many entries is worth asking in single rows known already."""
    return n_entries >= ENTRIES_MIN and n_rows <= ROWS_MAX * n_entries


def meet(known: Mapping[int, Occurrences], seq: IntArray) -> dict[int, Occurrences]:
    """Return the occurrences by place that are among ascending rows as well."""
    lists = {id(given): given for given in known.values()}
    kept = {}
    for key, given in lists.items():
        at = row_lower_bounds(given.seq, seq)
        at = at[: np.searchsorted(at, len(given.seq))]
        kept[key] = given.take(at[given.seq[at] == seq[: len(at)]])
    return {place: kept[id(given)] for place, given in known.items()}


def expected_hits(given: Mapping[Slot, Occurrences], plan: Plan, n_events: int) -> float:
    """Return how many occurrences the rarest basic block asked for has, if chance joins them.

    Infinite if no basic block was asked for.
    """
    shares: dict[int, float] = {}
    # Attributes of one place that were met with each other have one list.
    for place, found in {(p, id(g)): (p, g) for (p, _), g in given.items()}.values():
        if place >= 0:
            block = plan.required.block_at[place]
            shares[block] = shares.get(block, 1.0) * len(found.seq) / max(n_events, 1)
    return max(n_events, 1) * min(shares.values()) if shares else math.inf


def may_narrow(
    n_candidates: float, n_given: int, n_entries: float, times_covered: float = 0.0
) -> bool:
    """Return whether a lookup of so many entries is worth finding windows for.

    ``n_candidates`` are the events of the rarest basic block looked up so far, ``n_given`` all
    events found so far that were not left out; ``times_covered`` says how often the windows of that
    many candidates would cover the stream, were they even in it.
    """
    if times_covered > SATURATED:
        return False
    is_rare = n_candidates <= CANDIDATES_MAX * n_entries
    return n_entries >= ENTRIES_MIN and is_rare and n_given <= GIVEN_MAX * n_entries


def narrow(plan: Plan, occurrences: Mapping[Slot, Occurrences], statistics: Timeline) -> Narrowed:
    """Compute what results of lookups leave of each other, and of the stream for further ones.

    The plan's conditions are those asked so far, one at least at a position.

    Why: a match lies within the replay interval of its candidate, whatever further conditions it
    satisfies. So an event outside all intervals is in no match, and leaving it out takes no
    candidate away that a match could have: windows may be found again after every lookup.
    """
    required = plan.required
    found = by_place(plan.conditions, occurrences, statistics.leaves.base[plan.stretches])
    hits = join_blocks(required, found, statistics)
    intervals = sweep(hits, fills_of(found), required, statistics)
    spans = rows_of_intervals(intervals, statistics)
    block_at = required.block_at
    rows = {block_at[hit.first]: hit.start[places_in(hit.start, spans)] for hit in hits}
    left = {}
    for place, given in found.items():
        if place < 0:
            left[place] = given.take(places_in(given.seq, spans))
        else:
            block = block_at[place]
            at = rows[block] + (place - required.blocks[block][0])
            left[place] = given.take(row_lower_bounds(given.seq, at))
    return Narrowed(required, left, rows, spans)


def rows_of_intervals(intervals: Intervals, statistics: Timeline) -> tuple[IntArray, IntArray]:
    """Return the rows of replay intervals, united: first rows, and rows behind the last.

    A time bounds rows by the tree's blocks.
    """
    leaves = statistics.leaves
    first = np.zeros(intervals.n, dtype=np.int64)
    stop = np.full(intervals.n, statistics.n_events)
    if intervals.seq_low is not None:
        first = np.maximum(first, intervals.seq_low)
    if intervals.t_low is not None:
        first = np.maximum(first, leaves.base[np.searchsorted(leaves.t_max, intervals.t_low)])
    if intervals.seq_high is not None:
        stop = np.minimum(stop, intervals.seq_high + 1)
    if intervals.t_high is not None:
        behind = np.searchsorted(leaves.t_min, intervals.t_high, side="right")
        stop = np.minimum(stop, leaves.base[behind])
    return united(first, stop)


def united(first: IntArray, stop: IntArray) -> tuple[IntArray, IntArray]:
    """Return half-open stretches, in any order, some perhaps empty, as disjoint ascending ones."""
    kept = first < stop
    first, stop = first[kept], stop[kept]
    if not (first[1:] >= first[:-1]).all():
        order = np.argsort(first, kind="stable")
        first, stop = first[order], stop[order]
    stop = np.maximum.accumulate(stop)
    begins = np.append(True, first[1:] > stop[:-1])[: len(first)]
    ends = np.append(begins[1:], True)[: len(first)]
    return first[begins], stop[ends]


def places_in(seq: IntArray, spans: tuple[IntArray, IntArray]) -> IntArray:
    """Return the places of ascending rows that lie in some spans, at a cost of those alone."""
    low, high = row_lower_bounds(seq, spans[0]), row_lower_bounds(seq, spans[1])
    return count_on(low, high - low)
