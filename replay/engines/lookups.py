"""The lookups of a plan, asked one at a time of the indexes of a snapshot."""

from __future__ import annotations

from collections.abc import Collection

from indexing.lookup import Lookup as Entries
from replay.engines.key_numbers import number_keys
from replay.engines.statistics import SnapshotStatistics
from replay.planning.agreement import is_worth_keys
from replay.planning.plan import Condition, Lookup, Occurrences, Plan, Slot


class Lookups:
    """Answers a plan's lookups (``planning.safety.LookupSource``) and counts what that took.

    Equal ranges of one attribute are read once. Keys of events are asked for where candidates can
    agree on them, unless there are runs without keys: their files would have to be read instead.
    """

    def __init__(self, plan: Plan, statistics: SnapshotStatistics) -> None:
        self._statistics = statistics
        self._found: dict[Lookup, Entries] = {}
        self._within = statistics.leaves.base[plan.stretches]
        indexes = [statistics.indexes.index(c.attribute) for c in plan.conditions]
        self._with_keys = is_worth_keys(plan.shape, plan.conditions, statistics.key) and all(
            index.holds_objects for index in indexes
        )

    @property
    def n_entries_read(self) -> int:
        """Index entries read so far."""
        return sum(entries.n_entries_read for entries in self._found.values())

    @property
    def n_bytes_read(self) -> int:
        """Bytes of the indexes read so far, compressed."""
        return sum(entries.n_bytes_read for entries in self._found.values())

    def read(self, lookup: Lookup) -> int:
        """Carry out a lookup and return how many events are in its ranges."""
        attribute, ranges = lookup
        index = self._statistics.indexes.index(attribute)
        entries = index.lookup(ranges, with_objects=self._with_keys, within=self._within)
        self._found[lookup] = entries
        return len(entries.seq)

    def occurrences(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        """Return what was read for conditions, by their slots; their lookups have been read."""
        wanted = list(dict.fromkeys(condition.lookup for condition in conditions))
        found = [self._found[lookup] for lookup in wanted]
        keys = number_keys([entries.objects for entries in found]) if self._with_keys else []
        given = {
            lookup: Occurrences(entries.seq, entries.t, keys[place] if keys else None)
            for place, (lookup, entries) in enumerate(zip(wanted, found, strict=True))
        }
        return {condition.slot: given[condition.lookup] for condition in conditions}
