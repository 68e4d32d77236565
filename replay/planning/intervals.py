"""Replay intervals: from index results to the blocks in which all matches lie (Algorithm 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from replay.language.bound import BoundPatternQuery
from replay.planning.ascending import are_in, lower_bounds
from replay.planning.block_ranges import bridge, count_events, mask_of, no_blocks, ranges_of
from replay.planning.coarse_map import saturating_add
from replay.planning.plan import Occurrences, Plan, PlanKind
from replay.planning.shape import PatternShape
from replay.planning.statistics import BoolArray, IntArray, Leaves, StreamStatistics

BRIDGE_BLOCKS: Final = 2
"""Blocks between two stretches that are read rather than skipped: a jump costs about two blocks."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """What is to be replayed."""

    blocks: IntArray
    """Half-open ranges of block ordinals, shape (n, 2): ascending, disjoint, non-adjacent."""
    n_candidates: int
    """Occurrences of the first selected basic block that a candidate starts with."""
    n_intervals: int
    """Disjoint replay intervals, before they are widened to whole blocks."""
    n_events_covered: int
    """Events of the blocks."""


def replay_stretches(
    plan: Plan,
    occurrences: Mapping[tuple[int, str], Occurrences],
    query: BoundPatternQuery,
    statistics: StreamStatistics,
    *,
    bridge_blocks: int = BRIDGE_BLOCKS,
) -> Stretches:
    """Compute the blocks to be replayed from the results of a plan's index lookups.

    Pure. Linear in the occurrences, in a few passes over arrays; candidates are never materialised.

    Parameters
    ----------
    plan
        Chosen plan. Without index conditions its own stretches are the answer.
    occurrences
        For each condition of the plan, as (position, attribute), the events in its ranges. More
        than those inside ``plan.stretches`` may be given.
    query, statistics
        What the plan was made for.
    bridge_blocks
        Stretches with at most so many blocks between them are read through.

    Returns
    -------
    Stretches
        Every match of the query lies within one of the ranges.

    Notes
    -----
    Thesis 3.4.2, Algorithm 3.1 with (C1)-(C3), (S1)-(S3) and the shortening of 3.4.4, corrected as
    ``docs/planning.md`` says: the window test is ``<=``; for each start of the first block
    the earliest and the latest reachable end count (``A Z* B`` on A B Z B); inside the first and
    the last basic block ``seq`` fixes the end exactly; ties have a time gap of 0.
    """
    leaves = statistics.leaves
    if plan.kind is not PlanKind.INDEXES or len(plan.stretches) == 0:
        blocks = bridge(plan.stretches, bridge_blocks)
        n = len(plan.stretches)
        return Stretches(blocks, 0, n, count_events(blocks, leaves.base))
    reach = _Reach.of(plan.shape, query, statistics)
    found = _by_position(plan, occurrences, leaves.base)
    hits = [
        _join_block(block, found, statistics.n_events, len(plan.shape.positions))
        for block in plan.shape.blocks
        if any(position in found for position in range(*block))
    ]
    intervals = _sweep(hits, reach)
    if intervals.n == 0:
        return Stretches(no_blocks(), 0, 0, 0)
    covered = _covered_blocks(intervals, leaves) & mask_of(plan.stretches, statistics.n_blocks)
    blocks = bridge(ranges_of(covered), bridge_blocks)
    return Stretches(
        blocks, intervals.n, intervals.count_disjoint(), count_events(blocks, leaves.base)
    )


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far a match can extend, and which of its ends ``seq`` fixes."""

    within: int | None
    """Window in time; None: no bound."""
    rows: int | None
    """Window in rows; None: no bound."""
    gap_min: int
    n_positions: int
    leading_gap: bool
    trailing_gap: bool

    @classmethod
    def of(
        cls, shape: PatternShape, query: BoundPatternQuery, statistics: StreamStatistics
    ) -> _Reach:
        rows = shape.row_window
        return cls(
            within=query.within,
            rows=None if rows is None else min(rows, statistics.n_events),
            gap_min=max(statistics.gap_min, 0),
            n_positions=len(shape.positions),
            leading_gap=shape.leading_gap,
            trailing_gap=shape.trailing_gap,
        )


@dataclass(frozen=True, slots=True)
class _BlockHits:
    """Occurrences of a basic block by the ``seq`` its first position would have."""

    first: int
    """Position the block begins with."""
    stop: int
    chosen_first: int
    """First position of the block that has been looked up."""
    chosen_last: int
    start: IntArray
    t_first: IntArray
    """Time of the event at ``chosen_first``."""
    t_last: IntArray


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Replay intervals by start; every bound ascends, so the union is a single sweep.

    A bound that is None does not restrict; of two lower (or upper) bounds both hold.
    """

    n: int
    seq_low: IntArray | None
    t_low: IntArray | None
    seq_high: IntArray | None
    t_high: IntArray | None
    t_seen: tuple[IntArray, IntArray]
    """Times of the first and last event looked up, where ``seq`` alone fixes an end."""

    def count_disjoint(self) -> int:
        """Return how many intervals there are after uniting those that overlap."""
        low, high, seen_low, seen_high = self.seq_low, self.seq_high, *self.t_seen
        if low is not None and high is not None:
            apart = low[1:] > high[:-1]
        elif (low is None and self.t_low is None) or (high is None and self.t_high is None):
            return 1
        else:
            t_low = seen_low if self.t_low is None else self.t_low
            t_high = seen_high if self.t_high is None else self.t_high
            apart = t_low[1:] > t_high[:-1]
        return 1 + int(np.count_nonzero(apart))


def _by_position(
    plan: Plan, occurrences: Mapping[tuple[int, str], Occurrences], base: IntArray
) -> dict[int, Occurrences]:
    """Return the occurrences of each chosen position, its attributes intersected."""
    found: dict[int, Occurrences] = {}
    clipped: dict[int, Occurrences] = {}
    edges = base[plan.stretches].ravel()
    for condition in plan.conditions:
        given = occurrences[condition.position, condition.attribute]
        # Equal conditions are looked up once, and then clipped once.
        if id(given) not in clipped:
            clipped[id(given)] = _clip(given, edges)
        here = clipped[id(given)]
        before = found.get(condition.position)
        found[condition.position] = here if before is None else _intersect(before, here)
    return found


def _clip(given: Occurrences, edges: IntArray) -> Occurrences:
    """Keep the occurrences inside half-open ranges of ``seq`` (``edges``: low, high, low, …)."""
    cuts = np.searchsorted(given.seq, edges)
    if len(cuts) == 2:
        return given.take(slice(cuts[0], cuts[1]))
    steps = np.zeros(len(given.seq) + 1, dtype=np.int8)
    # Ranges do not touch, but empty pieces may share a cut: they cancel out.
    np.add.at(steps, cuts[0::2], 1)
    np.add.at(steps, cuts[1::2], -1)
    return given.take(np.cumsum(steps[:-1], dtype=np.int8).astype(np.bool_))


def _intersect(a: Occurrences, b: Occurrences) -> Occurrences:
    small, large = (a, b) if len(a.seq) <= len(b.seq) else (b, a)
    # Few are left as a rule, and taking few by number is cheaper than two passes over a mask.
    return small.take(np.flatnonzero(are_in(small.seq, large.seq)))


def _join_block(
    block: tuple[int, int], found: Mapping[int, Occurrences], n_events: int, n_positions: int
) -> _BlockHits:
    """Join a basic block's chosen positions on their distance in ``seq`` (C3), rarest first."""
    first, stop = block
    chosen = [position for position in range(first, stop) if position in found]
    by_size = sorted(chosen, key=lambda position: len(found[position].seq))
    start = found[by_size[0]].seq - (by_size[0] - first)
    # Every position before and behind the block needs a row of its own.
    inside = np.searchsorted(start, (first, n_events - (n_positions - first) + 1))
    start = start[inside[0] : inside[1]]
    for position in by_size[1:]:
        start = start[are_in(start + (position - first), found[position].seq)]
    return _BlockHits(
        first,
        stop,
        chosen[0],
        chosen[-1],
        start,
        _times(found[chosen[0]], start + (chosen[0] - first)),
        _times(found[chosen[-1]], start + (chosen[-1] - first)),
    )


def _times(of: Occurrences, seq: IntArray) -> IntArray:
    """Return the times of occurrences by ``seq``, all of which are there."""
    return of.t if len(seq) == len(of.seq) else of.t[lower_bounds(of.seq, seq)]


def _sweep(hits: list[_BlockHits], reach: _Reach) -> _Intervals:
    """Chain the blocks within the window and return an interval for each start that has an end."""
    first, last = hits[0], hits[-1]
    if len(hits) == 1:
        starts = _fitting(first, reach)
        return _bounds(first, last, starts, (starts, starts), reach)
    earliest = _earliest_end(hits)
    latest = np.full(len(earliest), len(last.start) - 1)
    if reach.within is not None:
        t_max = saturating_add(first.t_first, _room(first, last, reach, reach.within))
        in_time = lower_bounds(last.t_last, saturating_add(t_max, 1)) - 1
        latest = np.minimum(latest, in_time)
    if reach.rows is not None:
        # The match starts at most here, and needs a row for every position behind the block.
        row_max = first.start - first.first + (reach.rows - (reach.n_positions - last.first))
        in_rows = lower_bounds(last.start, row_max + 1) - 1
        latest = np.minimum(latest, in_rows)
    starts = np.flatnonzero((earliest < len(last.start)) & (earliest <= latest))
    return _bounds(first, last, starts, (earliest[starts], latest[starts]), reach)


def _room(first: _BlockHits, last: _BlockHits, reach: _Reach, within: int) -> int:
    """Return the time between first and last event looked up that the other rows leave."""
    n_behind = reach.n_positions - 1 - last.chosen_last
    return within - (first.chosen_first + n_behind) * reach.gap_min


def _fitting(block: _BlockHits, reach: _Reach) -> IntArray | slice:
    """Return which occurrences of the only block fit into the window by themselves."""
    if reach.rows is not None and reach.rows < reach.n_positions:
        return slice(0, 0)
    if reach.within is None:
        return slice(None)
    room = _room(block, block, reach, reach.within)
    if block.chosen_first == block.chosen_last:
        return slice(None) if room >= 0 else slice(0, 0)
    return np.flatnonzero(saturating_add(block.t_first, room) >= block.t_last)


def _earliest_end(hits: list[_BlockHits]) -> IntArray:
    """Return for each start of the first block the first reachable hit of the last one.

    ``len(hits[-1].start)`` stands for none. Greedy is right: taking the earliest hit of a block
    leaves the most choice for the next.
    """
    n_last = len(hits[-1].start)
    earliest = np.arange(n_last)
    for here, behind in zip(reversed(hits[:-1]), reversed(hits[1:]), strict=True):
        next_start = here.start + (behind.first - here.first)
        following = lower_bounds(behind.start, next_start)
        earliest = np.append(earliest, n_last)[following]
    return earliest


def _bounds(
    first: _BlockHits,
    last: _BlockHits,
    starts: IntArray | slice,
    ends: tuple[IntArray | slice, IntArray | slice],
    reach: _Reach,
) -> _Intervals:
    """Return ``Interval(c, w)`` for the union of all candidates with the same start.

    The lower bound comes from the earliest end, the upper from the start, unless ``seq`` fixes
    them: (S1) where the first position's block is chosen, (S3) the last one's, (S2) both.
    """
    earliest, latest = ends
    low: tuple[IntArray | None, IntArray | None] = (None, None)
    high: tuple[IntArray | None, IntArray | None] = (None, None)
    if first.first == 0 and not reach.leading_gap:
        low = (first.start[starts], None)
    else:
        behind = reach.n_positions - 1 - last.chosen_last
        end_min = last.start[earliest] + (reach.n_positions - 1 - last.first)
        low = (
            None if reach.rows is None else end_min - (reach.rows - 1),
            _earlier(last.t_last[earliest], reach, behind),
        )
    if last.stop == reach.n_positions and not reach.trailing_gap:
        high = (last.start[latest] + (last.stop - last.first - 1), None)
    else:
        start_max = first.start[starts] - first.first
        high = (
            None if reach.rows is None else start_max + (reach.rows - 1),
            _later(first.t_first[starts], reach, first.chosen_first),
        )
    seen = (first.t_first[starts], last.t_last[latest])
    return _Intervals(len(seen[0]), *low, *high, seen)


def _earlier(times: IntArray, reach: _Reach, n_behind: int) -> IntArray | None:
    """Return the least start of matches with a row at ``times`` and ``n_behind`` rows behind."""
    if reach.within is None:
        return None
    return saturating_add(times, n_behind * reach.gap_min - reach.within)


def _later(times: IntArray, reach: _Reach, n_before: int) -> IntArray | None:
    if reach.within is None:
        return None
    return saturating_add(times, reach.within - n_before * reach.gap_min)


def _covered_blocks(intervals: _Intervals, leaves: Leaves) -> BoolArray:
    """Return which blocks an interval has a part in.

    The intervals that begin before a block's end are the first k, and of these the last ends
    last: one comparison a block decides, whatever the number of intervals.
    """
    base = leaves.base
    k = np.full(len(leaves.t_min), intervals.n)
    if intervals.seq_low is not None:
        k = np.minimum(k, np.searchsorted(intervals.seq_low, base[1:], side="left"))
    if intervals.t_low is not None:
        k = np.minimum(k, np.searchsorted(intervals.t_low, leaves.t_max, side="right"))
    covered = k > 0
    at = k - 1
    if intervals.seq_high is not None:
        covered &= intervals.seq_high[at] >= base[:-1]
    if intervals.t_high is not None:
        covered &= intervals.t_high[at] >= leaves.t_min
    return covered
