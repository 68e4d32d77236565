"""The index phase: carry out a plan's lookups; what is left to be read, and what it took."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from chronicle import Snapshot
from chronicle.compile_time import clock
from replay.engines.execution_stats import ExecutionStats
from replay.engines.lookups import Lookups
from replay.engines.scan import blocks_of
from replay.engines.statistics import SnapshotStatistics
from replay.planning.intervals import Stretches
from replay.planning.plan import Plan
from replay.planning.statistics import IntArray
from replay.planning.steps import carry_out


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

    Parameters
    ----------
    plan
        The plan.
    statistics
        What it was made for.
    seconds_max
        After so many seconds no further step is taken, see `carry_out`.
    """
    began = clock()
    lookups = Lookups(plan, statistics)
    done = carry_out(plan, statistics, lookups, clock, seconds_max=seconds_max)
    work = ExecutionStats(
        n_entries=lookups.n_entries_read,
        n_candidates=done.stretches.n_candidates,
        n_intervals=done.stretches.n_intervals,
        index_s=clock() - began,
        byte_counters=(lambda: lookups.n_bytes_read,),
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
