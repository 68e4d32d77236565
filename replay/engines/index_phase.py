"""The index phase: carry out a plan's lookups; what is left to be read, and what it took."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.compile_time import clock
from indexing.lookup import Lookup
from indexing.objects import join_values
from indexing.row_mask import RowMask
from replay.engines.execution_stats import ExecutionStats
from replay.engines.key_numbers import number_keys
from replay.engines.scan import blocks_of
from replay.engines.statistics import SnapshotStatistics
from replay.limits import check_limits
from replay.planning.ascending import are_in
from replay.planning.intervals import Stretches
from replay.planning.key_join import tells_keys
from replay.planning.plan import Condition, IndexLookup, Occurrences, Plan, PlanKind, Slot
from replay.planning.relevant_rows import pays
from replay.planning.row_filter import RowFilter
from replay.planning.statistics import IntArray
from replay.planning.steps import carry_out


class Lookups:
    """Answers a plan's lookups (``planning.steps.LookupSource``) and counts what that took.

    Equal ranges of one attribute are read once. Keys of events are asked for where no more than
    entries is read of these, and where all rows of a match agree on them, unless there are runs
    without keys: their files would have to be read instead.
    """

    def __init__(self, plan: Plan, statistics: SnapshotStatistics) -> None:
        self._statistics = statistics
        self._found: dict[IndexLookup, Lookup] = {}
        self._within = statistics.leaves.base[plan.stretches]
        if plan.is_of_symbols:
            self._with_keys = (
                plan.kind is PlanKind.INDEX_ONLY and statistics.key in plan.required.of_entries
            )
        else:
            self._with_keys = tells_keys(plan.required, statistics.key) and all(
                statistics.holds_key(condition.attribute) for condition in plan.conditions
            )

    @property
    def n_entries_read(self) -> int:
        """Index entries read so far."""
        return sum(entries.n_entries_read for entries in self._found.values())

    @property
    def n_bytes_read(self) -> int:
        """Bytes of the indexes read so far, compressed."""
        return sum(entries.n_bytes_read for entries in self._found.values())

    def read(self, lookup: IndexLookup, rows: RowFilter | None = None) -> int:
        """Carry out a lookup and return how many events are in its ranges, and in the row filter.

        Where the filter's events have times already, none are read; `rows` tells which were found.
        """
        check_limits()
        attribute, ranges = lookup
        index = self._statistics.indexes.index(attribute)
        if rows is None:
            entries = index.lookup(ranges, with_objects=self._with_keys, within=self._within)
        else:
            entries = index.lookup_within(
                ranges,
                RowMask.of(self._statistics.n_events, rows=rows.rows, spans=rows.spans),
                with_objects=self._with_keys,
                with_times=self._with_keys or not rows.has_times,
            )
        self._found[lookup] = entries
        return len(entries.seq)

    def rows(self, lookup: IndexLookup) -> IntArray:
        """Return the events found by a lookup, ascending."""
        return self._found[lookup].seq

    def occurrences(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        """Return what was read for conditions, by their slots; their lookups have been read."""
        wanted = list(dict.fromkeys(condition.lookup for condition in conditions))
        found = [self._found[lookup] for lookup in wanted]
        keys = number_keys([entries.objects for entries in found]) if self._with_keys else []
        given = {}
        for place, (lookup, entries) in enumerate(zip(wanted, found, strict=True)):
            assert entries.t is not None, "of rows that are known, only `rows` are asked"
            given[lookup] = Occurrences(entries.seq, entries.t, keys[place] if keys else None)
        return {condition.slot: given[condition.lookup] for condition in conditions}

    def times_at(self, seq: IntArray) -> IntArray:
        """Return the times of some events found, of ascending ``seq``."""
        times = np.zeros(len(seq), np.int64)
        for entries in self._found.values():
            if entries.t is None:  # of rows that others found
                continue
            times[are_in(seq, entries.seq)] = entries.t[are_in(entries.seq, seq)]
        return times

    def keys_at(self, seq: IntArray) -> tuple[str, pa.Array]:
        """Return the name of the key column and the keys of some events found, in the order given.

        Keys are int64, or strings with a dictionary or none.
        """
        assert self._statistics.key is not None
        if not len(seq):
            return self._statistics.key, pa.array([], pa.int64())
        parts, places = [], []
        missing = np.arange(len(seq))
        for entries in self._found.values():
            assert entries.objects is not None
            at = np.searchsorted(entries.seq, seq[missing])
            found = np.append(entries.seq, -1)[at] == seq[missing]
            parts.append(entries.objects.take(pa.array(at[found])))
            places.append(missing[found])
            missing = missing[~found]
        assert not len(missing)
        keys = join_values(parts).take(pa.array(np.argsort(np.concatenate(places))))
        return self._statistics.key, keys


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What the lookups of a plan leave to be read."""

    plan: Plan
    """The plan with the lookups that were really asked."""
    stretches: Stretches
    lookups: Lookups
    """As they were answered; they know the keys of candidates."""
    work: ExecutionStats
    """Of the lookups alone: their entries, bytes and time."""


def look_up(
    plan: Plan,
    statistics: SnapshotStatistics,
    *,
    seconds_max: float = math.inf,
) -> IndexResult:
    """Carry out the lookups of a plan, as far as they are worth it.

    After ``seconds_max`` no further step is taken, see `carry_out`.
    """
    began = clock()
    asked = [Lookups(plan, statistics)]
    done = carry_out(plan, statistics, asked[0], clock, seconds_max=seconds_max)
    lookups, rival = asked[0], plan.rival
    if rival is not None and pays(rival, done.spent_s, done.left_s):
        asked.append(Lookups(rival, statistics))
        left_s = max(seconds_max - (clock() - began), 0.0)
        after = carry_out(rival, statistics, asked[1], clock, seconds_max=left_s)
        steps = (*done.plan.steps, *after.plan.steps)
        if after.left_s < done.left_s:
            done, lookups = after, asked[1]
        done = replace(done, plan=replace(done.plan, steps=steps))
    work = ExecutionStats(
        n_entries=sum(one.n_entries_read for one in asked),
        n_candidates=done.stretches.n_candidates,
        n_intervals=done.stretches.n_intervals,
        index_s=clock() - began,
        byte_counters=(lambda: sum(one.n_bytes_read for one in asked),),
    )
    return IndexResult(done.plan, done.stretches, lookups, work)


def bytes_of(snapshot: Snapshot, stretches: IntArray, columns: Iterable[str]) -> ExecutionStats:
    """Return the compressed bytes of columns of blocks as work.

    ``stretches`` are half-open block ranges, ascending and disjoint, shape (n, 2).
    """
    names = list(columns)
    return ExecutionStats(
        byte_counters=(lambda: snapshot.block_bytes(blocks_of(stretches), names),)
    )
