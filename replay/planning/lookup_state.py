"""Lookups carried out one after the other, each in the rows that those before it leave."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.network import starting
from replay.planning.plan import Condition, IndexLookup, Occurrences, Plan, Slot
from replay.planning.row_filter import (
    Narrowed,
    RowFilter,
    expected_hits,
    may_ask_rows,
    may_narrow,
    meet,
    narrow,
    rows_of_neighbours,
    rows_of_places,
)
from replay.planning.statistics import IntArray, Timeline


class LookupSource(Protocol):
    """The indexes of one snapshot, asked one lookup at a time."""

    def read(self, lookup: IndexLookup, rows: RowFilter | None = None) -> int:
        """Carry out a lookup and return how many events are in its ranges.

        Events outside the row filter may be left out.
        """
        ...

    def rows(self, lookup: IndexLookup) -> IntArray:
        """Return the events found by a lookup, ascending; it has been read."""
        ...

    def occurrences(self, conditions: Collection[Condition]) -> Mapping[Slot, Occurrences]:
        """Return what was read for conditions, by their slots; their lookups have been read.

        Not for lookups read in row filters whose events have times, unless they have keys as well.
        """
        ...


class LookupState:
    """What the lookups of a plan found so far, and where the next one is worth looking."""

    def __init__(self, plan: Plan, statistics: Timeline, source: LookupSource) -> None:
        self.plan = replace(plan, conditions=())
        """The plan with the conditions of the lookups asked so far."""
        self.counts: dict[IndexLookup, int] = {}
        """Events found by each lookup asked, in their order."""
        self._statistics, self._source = statistics, source
        self._expected = {option.lookup: option.expected for option in plan.options}
        self._given: dict[Slot, Occurrences] = {}
        """What was found, as far as later lookups left it."""
        self._everywhere: set[IndexLookup] = set()
        """Lookups that were not asked in some rows alone."""
        self._narrowed: Narrowed | None = None
        self._found: Stretches | None = None

    @property
    def n_given(self) -> int:
        """Events found so far that were not left out, of all lookups."""
        return sum({id(given): len(given.seq) for given in self._given.values()}.values())

    @property
    def is_found(self) -> bool:
        """Whether intervals were computed since the last lookup."""
        return self._found is not None or self._narrowed is not None

    def ask(self, lookup: IndexLookup, conditions: Sequence[Condition]) -> None:
        """Carry out the next lookup, in the rows that those before it leave if these are few.

        ``conditions`` are what it answers.
        """
        rows, known = self._row_filter(lookup, conditions)
        self.counts[lookup] = self._source.read(lookup, rows)
        if rows is None:
            self._everywhere.add(lookup)
        asked = sorted((*self.plan.conditions, *conditions), key=lambda c: c.order)
        self.plan = replace(self.plan, conditions=tuple(asked))
        if known is not None:
            self._keep(conditions, meet(known, self._source.rows(lookup)))
        elif self._has_keys:  # which are numbered anew for all that was found
            self._given.update(self._occurrences(self.plan.conditions))
        else:
            self._given.update(self._occurrences(conditions))
        self._narrowed = self._found = None

    def begun_anew(self, plan: Plan) -> LookupState:
        """Return the state before any lookup of a plan."""
        return LookupState(plan, self._statistics, self._source)

    def only_found(self) -> IntArray | None:
        """Return the rows found, ascending, where all lookups were of one position of a sequence.

        None of others, whose intervals are those of several rows, and where rows have keys, by
        which a replay leaves rows out inside blocks too.
        """
        places = {condition.place for condition in self.plan.conditions}
        lists = {id(given): given for given in self._given.values()}
        if len(places) != 1 or len(lists) != 1 or min(places) < 0:
            return None
        (given,) = lists.values()
        is_kept = given.keys is None and self.plan.required.network is None
        return given.seq if is_kept else None

    def found(self) -> Stretches:
        """Return what the intervals cover by the lookups asked so far."""
        if self._found is None:
            self._found = replay_stretches(self.plan, self._given, self._statistics)
        return self._found

    def _row_filter(
        self, lookup: IndexLookup, conditions: Sequence[Condition]
    ) -> tuple[RowFilter | None, Mapping[int, Occurrences] | None]:
        """Return where to look for the events of a lookup, None for everywhere.

        And, where all of them are known by other attributes of their places, what is known.
        """
        places = {condition.place for condition in conditions}
        n_entries, n_events = self._expected[lookup], self._statistics.n_events
        beside = None
        if not self._has_keys:
            beside = rows_of_neighbours(self.plan, self._given, places, n_entries, n_events)
        # Of single keys row groups without a row in question are left out: a sweep leaves most out.
        if beside is not None and not (lookup[1].is_of_keys and self._narrow(lookup)):
            return beside, None
        narrowed = self._narrow(lookup)
        if narrowed is not None:
            rows = narrowed.row_filter(conditions)
            if not rows.is_narrow(n_events):
                return None, None
            is_known = rows.has_times and not self._has_keys
            return rows, {p: narrowed.found[p] for p in places} if is_known else None
        lists: dict[int, Occurrences] = {}
        for (place, _), given in self._given.items():
            if place in places and (place not in lists or len(given.seq) < len(lists[place].seq)):
                lists[place] = given
        if self._has_keys or len(lists) < len(places):
            return None, None
        rows = rows_of_places(lists)
        return (rows, lists) if may_ask_rows(rows.n_rows, n_entries) else (None, None)

    def _occurrences(self, conditions: Sequence[Condition]) -> Mapping[Slot, Occurrences]:
        """Return what lookups found for conditions, without what begins nothing that is sought."""
        found, required = self._source.occurrences(conditions), self.plan.required
        if required.network is None:
            return found
        thinned = dict(found)
        for condition in conditions:
            if condition.lookup in self._everywhere:
                position = required.positions[condition.position]
                thinned[condition.slot] = starting(
                    found[condition.slot],
                    condition.position,
                    required.network,
                    self._statistics.leaves,
                    is_all=position.is_all and not condition.together,
                )
        return thinned

    def _keep(self, conditions: Sequence[Condition], left: Mapping[int, Occurrences]) -> None:
        """Take what is left of places for the occurrences of all their attributes."""
        for slot in (*self._given, *(condition.slot for condition in conditions)):
            if slot[0] in left:
                self._given[slot] = left[slot[0]]

    @property
    def _has_keys(self) -> bool:
        return any(given.keys is not None for given in self._given.values())

    def _narrow(self, lookup: IndexLookup) -> Narrowed | None:
        """Return what is left of the stream for a lookup; None: not worth finding out."""
        n_events, features = self._statistics.n_events, self.plan.features
        n_hits = expected_hits(self._given, self.plan, n_events)
        times_covered = 0.0
        # A sweep done before may be used whatever it would be worth now.
        if features is not None and self._narrowed is None:
            times_covered = features.times_covered(n_hits)
        if not may_narrow(n_hits, self.n_given, self._expected[lookup], times_covered):
            return None
        if self._narrowed is None:
            self._narrowed = narrow(self.plan, self._given, self._statistics)
            if not self._has_keys:
                self._given.update(self._narrowed.given(self.plan.conditions))
        return self._narrowed
