"""A plan's lookups carried out: which blocks are to be read, and what it took to tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chronicle import Snapshot
from chronicle.compiled import clock
from replay.engines.lookups import Lookups
from replay.engines.scan import blocks_of
from replay.engines.statistics import SnapshotStatistics
from replay.engines.work import Work
from replay.language.bound import BoundPatternQuery
from replay.planning.intervals import Stretches
from replay.planning.plan import Plan
from replay.planning.safety import find_stretches
from replay.planning.statistics import IntArray


@dataclass(frozen=True, slots=True)
class Found:
    """What the lookups of a plan leave to be read."""

    stretches: Stretches
    lookups: Lookups
    """As they were answered; they know the keys of candidates."""
    work: Work
    """Of the lookups alone: their entries, bytes and time, and what became of the plan."""


def look_up(
    plan: Plan, query: BoundPatternQuery, statistics: SnapshotStatistics, *, is_adaptive: bool
) -> Found:
    """Carry out the lookups of a plan, as far as they are worth it.

    Parameters
    ----------
    plan
        The plan.
    query, statistics
        What it was made for.
    is_adaptive
        Whether the plan may be left where lookups find it wrong, see `find_stretches`.
    """
    began = clock()
    lookups = Lookups(plan, statistics)
    settled = find_stretches(plan, query, statistics, lookups, is_adaptive=is_adaptive)
    work = Work(
        n_entries=lookups.n_entries_read,
        n_candidates=settled.stretches.n_candidates,
        n_intervals=settled.stretches.n_intervals,
        switched=settled.switched,
        index_s=clock() - began,
        byte_counters=(lambda: lookups.n_bytes_read,),
    )
    return Found(settled.stretches, lookups, work)


def bytes_of(snapshot: Snapshot, stretches: IntArray, columns: Iterable[str]) -> Work:
    """Return the compressed bytes of columns of blocks as work.

    ``stretches`` are half-open block ranges, ascending and disjoint, shape (n, 2).
    """
    names = list(columns)
    return Work(byte_counters=(lambda: snapshot.block_bytes(blocks_of(stretches), names),))
