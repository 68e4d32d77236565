"""Replay intervals: from index results to the blocks in which all matches lie (Algorithm 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from chronicle.tree.summary import Leaves
from indexing.key_range import KeyRanges
from replay.planning.ascending import lower_bounds, row_lower_bounds, saturating_add
from replay.planning.block_ranges import bridge, count_events, mask_of, no_blocks, ranges_of
from replay.planning.extremes import TimeBounds, may_contain
from replay.planning.hits import BlockHits, by_place, join_block, run_ends
from replay.planning.key_join import link_by_key
from replay.planning.key_spans import KeySpans, unite_by_key
from replay.planning.network import near_all
from replay.planning.plan import Occurrences, Plan, Slot
from replay.planning.requirements import Network, Requirements
from replay.planning.row_spans import RowSpans
from replay.planning.statistics import BoolArray, IntArray, Timeline

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
    keys: KeySpans | None = None
    """Rows of the blocks that matter, by key; None: it is not known by key."""
    rows: RowSpans | None = None
    """Rows of the blocks that matter, whatever their key; None: all may."""
    of_symbols: Mapping[int, IntArray] = field(default_factory=dict)
    """Of plan `index-only`, the rows of each of ``Requirements.relevant``, ascending."""


def replay_stretches(
    plan: Plan,
    occurrences: Mapping[Slot, Occurrences],
    statistics: Timeline,
    *,
    bridge_blocks: int = BRIDGE_BLOCKS,
) -> Stretches:
    """Compute the blocks to be replayed, in one of which every match lies, from what lookups found.

    Linear in the occurrences, in a few passes over arrays; candidates are never materialised.
    ``occurrences`` are the events in the ranges of each condition, by its ``slot``, outside
    ``plan.stretches`` too; if all carry keys, those of a candidate are equal. Stretches with at
    most ``bridge_blocks`` blocks between them are read through.

    Notes
    -----
    Thesis 3.4.2, Algorithm 3.1 with (C1)-(C3), (S1)-(S3) and the shortening of 3.4.4, corrected as
    ``docs/planning.md`` says: the window test is ``<=``; for each start of the first block
    the earliest and the latest reachable end count (``A Z* B`` on A B Z B); inside the first and
    the last basic block ``seq`` fixes the end exactly; ties have a time gap of 0, but only in
    the blocks that have them. Further than the thesis: candidates agree on the key
    (`key_join.link_by_key`), and gaps hold what their part of the pattern allows (`_link`).
    """
    leaves = statistics.leaves
    if all(condition.fills_gap for condition in plan.conditions) or len(plan.stretches) == 0:
        blocks = bridge(plan.stretches, bridge_blocks)
        n = len(plan.stretches)
        return Stretches(blocks, 0, n, count_events(blocks, leaves.base))
    found = by_place(plan.conditions, occurrences, leaves.base[plan.stretches])
    hits = join_blocks(plan.required, found, statistics)
    intervals = sweep(hits, fills_of(found), plan.required, statistics)
    intervals = at_times(intervals, plan.required.times, leaves)
    if intervals.n == 0:
        return Stretches(no_blocks(), 0, 0, 0)
    covered = covered_blocks(intervals, leaves) & mask_of(plan.stretches, statistics.n_blocks)
    blocks = bridge(ranges_of(covered), bridge_blocks)
    return Stretches(
        blocks,
        intervals.n,
        intervals.count_disjoint(),
        count_events(blocks, leaves.base),
        _key_spans(intervals, statistics.n_events),
        _row_spans(intervals) if not plan.required.agreeing else None,
    )


def join_blocks(
    required: Requirements, found: Mapping[int, Occurrences], statistics: Timeline
) -> list[BlockHits]:
    """Return the hits of the basic blocks looked up, in order, of occurrences by place."""
    n, is_ordered = len(required.positions), required.network is None
    return [
        # Where they stand in order, all positions before and behind a block need rows of their own.
        join_block(
            block, found, statistics.n_events, (block[0], n - block[1]) if is_ordered else (0, 0)
        )
        for block in required.blocks
        if any(position in found for position in range(*block))
    ]


def fills_of(found: Mapping[int, Occurrences]) -> dict[int, IntArray]:
    """Return the rows that gaps may hold, by the position behind, of occurrences by place."""
    return {~place: given.seq for place, given in found.items() if place < 0}


def sweep(
    hits: Sequence[BlockHits],
    fills: Mapping[int, IntArray],
    required: Requirements,
    statistics: Timeline,
) -> Intervals:
    """Chain basic blocks within the window, or find those near all others.

    Parameters
    ----------
    hits
        Of the basic blocks looked up, in order; at least one.
    fills
        Rows that the gap before a position may hold, by that position; none where not looked up.
    required, statistics
        As of `replay_stretches`.
    """
    if required.network is not None:
        return _around_rarest(hits, required.network, statistics.n_events)
    return _sweep(hits, fills, _Reach.of(required, statistics))


def earliest_times(seq: IntArray, t: IntArray, n_behind: int, leaves: Leaves) -> IntArray:
    """Return lower bounds of the times of the rows ``n_behind`` rows behind known ones, ascending.

    ``seq`` and ``t`` are the rows and their times, both ascending; all rows behind them exist.
    Neighbours in a block are at least its ``gap_min`` apart, counted from the known row in the same
    block, else from the block's first row, whose time the tree has.

    Notes
    -----
    Thesis 3.4.4 takes one least gap for the whole stream. With that of each block, a burst
    somewhere in the stream shortens nothing anywhere else.
    """
    if n_behind == 0 or len(seq) == 0:
        return t
    block, first, gap = _blocks_of_rows(seq + n_behind, leaves)
    bound = leaves.t_min[block] + (seq + n_behind - first) * gap
    near = seq >= first
    bound[near] = np.maximum(bound[near], t[near] + n_behind * gap[near])
    return bound


def latest_times(seq: IntArray, t: IntArray, n_before: int, leaves: Leaves) -> IntArray:
    """Return upper bounds of the times of the rows ``n_before`` rows before known ones.

    The mirror image of `earliest_times`; ascending.
    """
    if n_before == 0 or len(seq) == 0:
        return t
    block, _, gap = _blocks_of_rows(seq - n_before, leaves)
    last = leaves.base[block + 1] - 1
    bound = leaves.t_max[block] - (last - (seq - n_before)) * gap
    near = seq <= last
    bound[near] = np.minimum(bound[near], t[near] - n_before * gap[near])
    return bound


def _blocks_of_rows(rows: IntArray, leaves: Leaves) -> tuple[IntArray, IntArray, IntArray]:
    """Return the block of each row, its first row, and the least gap inside it."""
    block = lower_bounds(leaves.base, rows + 1) - 1
    # What is not known is -1. Products may leave int64, but sums are times of the block: exact.
    gap = np.maximum(leaves.gap_min[block], 0)
    return block, leaves.base[block], gap


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far a match can extend, and which of its ends ``seq`` fixes."""

    within: int | None
    """Window in time; None: no bound."""
    rows: int | None
    """Window in rows; None: no bound."""
    leaves: Leaves
    n_events: int
    n_positions: int
    leading_gap: bool
    trailing_gap: bool

    @classmethod
    def of(cls, required: Requirements, statistics: Timeline) -> _Reach:
        rows = required.row_window
        return cls(
            within=required.within,
            rows=None if rows is None else min(rows, statistics.n_events),
            leaves=statistics.leaves,
            n_events=statistics.n_events,
            n_positions=len(required.positions),
            leading_gap=required.leading_gap,
            trailing_gap=required.trailing_gap,
        )

    def start_times(self, first: BlockHits) -> IntArray:
        """Return the latest times matches can start at, by hits of the first block looked up."""
        at = first.chosen_first
        return latest_times(first.start + (at - first.first), first.t_first, at, self.leaves)

    def end_times(self, last: BlockHits) -> IntArray:
        """Return the earliest times matches can end at, by hits of the last block looked up."""
        at = last.chosen_last
        seq = last.start + (at - last.first)
        return earliest_times(seq, last.t_last, self.n_positions - 1 - at, self.leaves)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Replay intervals by start, the ends that bound them included.

    A bound that is None does not restrict; of two lower (or upper) bounds both hold.
    """

    n: int
    ascend: bool
    """Whether every bound ascends, so that the union is a single sweep."""
    seq_low: IntArray | None
    t_low: IntArray | None
    seq_high: IntArray | None
    t_high: IntArray | None
    t_seen: tuple[IntArray, IntArray]
    """Times of the first and last event looked up, where ``seq`` alone fixes an end."""
    keyed: tuple[IntArray, IntArray] | None
    """Numbers of the candidates' keys, and ``seq`` of events that have them; None: not known."""

    def times(self, leaves: Leaves) -> tuple[IntArray, IntArray]:
        """Return times between which all rows of each interval lie, the ends included."""
        low = np.full(self.n, leaves.t_min[0])
        high = np.full(self.n, leaves.t_max[-1])
        if self.seq_low is not None:
            block = np.searchsorted(leaves.base, self.seq_low, side="right") - 1
            low = leaves.t_min[np.maximum(block, 0)]
        if self.seq_high is not None:
            block = np.searchsorted(leaves.base[:-1], self.seq_high, side="right") - 1
            high = leaves.t_max[block]
        low = low if self.t_low is None else np.maximum(low, self.t_low)
        return low, high if self.t_high is None else np.minimum(high, self.t_high)

    def take(self, chosen: BoolArray) -> Intervals:
        """Return some of the intervals."""

        def of(values: IntArray | None) -> IntArray | None:
            return None if values is None else values[chosen]

        seen = self.t_seen[0][chosen], self.t_seen[1][chosen]
        return Intervals(
            n=len(seen[0]),
            ascend=self.ascend,
            seq_low=of(self.seq_low),
            t_low=of(self.t_low),
            seq_high=of(self.seq_high),
            t_high=of(self.t_high),
            t_seen=seen,
            keyed=None if self.keyed is None else (self.keyed[0][chosen], self.keyed[1][chosen]),
        )

    def count_disjoint(self) -> int:
        """Return how many intervals there are after uniting those that overlap."""
        low, high, seen_low, seen_high = self.seq_low, self.seq_high, *self.t_seen
        if low is None or high is None:
            if (low is None and self.t_low is None) or (high is None and self.t_high is None):
                return 1
            low = seen_low if self.t_low is None else self.t_low
            high = seen_high if self.t_high is None else self.t_high
        if not self.ascend:
            order = np.argsort(low, kind="stable")
            low, high = low[order], np.maximum.accumulate(high[order])
        return 1 + int(np.count_nonzero(low[1:] > high[:-1]))


def _around_rarest(hits: Sequence[BlockHits], network: Network, n_events: int) -> Intervals:
    """Return an interval around each event of the rarest block that lies near all others."""
    rarest, places = near_all(hits, network, n_events)
    at = hits[rarest].first
    t = hits[rarest].t_first[places]
    low, high = saturating_add(t, -network.before[at]), saturating_add(t, network.behind[at])
    return Intervals(len(t), True, None, low, None, high, (t, t), None)


def _sweep(hits: Sequence[BlockHits], fills: Mapping[int, IntArray], reach: _Reach) -> Intervals:
    """Chain the blocks within the window and return an interval for each start that has an end."""
    first, last = hits[0], hits[-1]
    t_start, t_end = reach.start_times(first), reach.end_times(last)
    times = (t_start, t_end)
    if len(hits) == 1:
        starts = _fitting(t_start, t_end, reach)
        return _bounds(first, last, (starts, starts, starts), times, reach, of_one_key=True)
    t_max = None if reach.within is None else saturating_add(t_start, reach.within)
    in_time = None if t_max is None else lower_bounds(t_end, saturating_add(t_max, 1))
    if all(block.keys is not None for block in hits):
        linked = link_by_key(hits, reach.n_events, in_time)
        if linked is not None:
            return _bounds(first, last, linked, times, reach, ascend=False, of_one_key=True)
    starts, earliest, latest = _link(hits, fills) if fills else _link_in_order(hits)
    if in_time is not None:
        latest = np.minimum(latest, in_time[starts] - 1)
    if reach.rows is not None:
        # The match starts at most here, and needs a row for every position behind the block.
        row_max = first.start[starts] - first.first + (reach.rows - reach.n_positions + last.first)
        latest = np.minimum(latest, lower_bounds(last.start, row_max + 1) - 1)
    fit = np.flatnonzero(earliest <= latest)
    kept = fit if isinstance(starts, slice) else starts[fit]
    return _bounds(first, last, (kept, earliest[fit], latest[fit]), times, reach)


def _fitting(t_start: IntArray, t_end: IntArray, reach: _Reach) -> IntArray | slice:
    """Return which hits of the only block looked up fit into the window by themselves."""
    if reach.rows is not None and reach.rows < reach.n_positions:
        return slice(0, 0)
    if reach.within is None:
        return slice(None)
    return np.flatnonzero(saturating_add(t_start, reach.within) >= t_end)


def _link_in_order(hits: Sequence[BlockHits]) -> tuple[slice, IntArray, IntArray]:
    """Return what `_link` does where gaps may hold any rows.

    From the front, so that behind a block of few hits only those they reach are gone through:
    what many hits are followed by first is looked for once.
    """
    n, row = len(hits[0].start), hits[0].start
    earliest = np.arange(n)
    for here, behind in pairwise(hits):
        row = row + (behind.first - here.first)
        # Whatever is followed by any hit is followed by the last: those at the front.
        n = int(np.searchsorted(row, behind.start[-1], "right")) if len(behind.start) else 0
        earliest = row_lower_bounds(behind.start, row[:n])
        row = behind.start[earliest]
    return slice(0, n), earliest, np.full(n, len(hits[-1].start) - 1)


def _link(
    hits: Sequence[BlockHits], fills: Mapping[int, IntArray]
) -> tuple[IntArray | slice, IntArray, IntArray]:
    """Return the starts that have an end, with the first and the last hit each can end in.

    Greedy is right: what a hit can be followed by is a range of the next block's hits, whose
    ends ascend with the hit. Between three or more blocks the ranges may leave holes, so the last
    hit that the window leaves may be one that is not reached: inclusive.
    """
    next_start = hits[-1].start
    starts: IntArray | slice = slice(0, len(next_start))
    earliest: IntArray | None = None
    latest = np.arange(len(next_start))
    for here, behind in zip(reversed(hits[:-1]), reversed(hits[1:]), strict=True):
        row = here.start + (behind.first - here.first) if behind.first != here.first else here.start
        fill = fills.get(behind.first) if here.stop == behind.first else None
        if fill is None:
            # Whatever is followed by any hit is followed by the last: those at the front.
            n = int(np.searchsorted(row, next_start[-1], "right")) if len(next_start) else 0
            starts, low = slice(0, n), row_lower_bounds(next_start, row[:n])
            latest = np.full(n, latest[-1] if n else 0)
        else:
            low = row_lower_bounds(next_start, row)
            # The next block begins at the latest with the first row that the gap cannot hold.
            high = row_lower_bounds(next_start, run_ends(fill, row) + 1)
            starts = np.flatnonzero(low < high)
            low, latest = low[starts], latest[high[starts] - 1]
        earliest = low if earliest is None else earliest[low]
        next_start = here.start[starts]
    assert earliest is not None, "of two blocks or more"
    return starts, earliest, latest


def _bounds(
    first: BlockHits,
    last: BlockHits,
    linked: tuple[IntArray | slice, IntArray | slice, IntArray | slice],
    times: tuple[IntArray, IntArray],
    reach: _Reach,
    *,
    ascend: bool = True,
    of_one_key: bool = False,
) -> Intervals:
    """Return ``Interval(c, w)`` for the union of all candidates with the same start.

    The lower bound comes from the earliest end, the upper from the start, unless ``seq`` fixes
    them: (S1) where the first position's block is chosen, (S3) the last one's, (S2) both.
    """
    starts, earliest, latest = linked
    t_start, t_end = times
    low: tuple[IntArray | None, IntArray | None] = (None, None)
    high: tuple[IntArray | None, IntArray | None] = (None, None)
    if first.first == 0 and not reach.leading_gap:
        low = (first.start[starts], None)
    else:
        end_min = last.start[earliest] + (reach.n_positions - 1 - last.first)
        low = (
            None if reach.rows is None else end_min - (reach.rows - 1),
            None if reach.within is None else saturating_add(t_end[earliest], -reach.within),
        )
    if last.stop == reach.n_positions and not reach.trailing_gap:
        high = (last.start[latest] + (last.stop - last.first - 1), None)
    else:
        start_max = first.start[starts] - first.first
        high = (
            None if reach.rows is None else start_max + (reach.rows - 1),
            None if reach.within is None else saturating_add(t_start[starts], reach.within),
        )
    seen = (first.t_first[starts], last.t_last[latest])
    keyed = None
    if of_one_key and first.keys is not None:
        keyed = first.keys[starts], first.start[starts] + (first.chosen_first - first.first)
    return Intervals(len(seen[0]), ascend, *low, *high, seen, keyed)


def at_times(intervals: Intervals, times: Sequence[KeyRanges], leaves: Leaves) -> Intervals:
    """Return the intervals without those that no wanted match can lie in.

    A match lies in one interval, and decides nothing about those that overlap none of its own. So
    intervals that overlap go together, and those go that may hold no event in one of the ranges of
    time of which every wanted match has events.
    """
    if not times or intervals.n == 0:
        return intervals
    low, high = intervals.times(leaves)
    order = np.argsort(low, kind="stable")
    latest = np.maximum.accumulate(high[order])
    begins = np.flatnonzero(np.append(True, low[order][1:] > latest[:-1]))
    ends = np.append(begins[1:], intervals.n) - 1
    kept = np.ones(len(begins), dtype=np.bool_)
    for ranges in times:
        kept &= may_contain(ranges, TimeBounds(low[order][begins], latest[ends]))
    chosen = np.zeros(intervals.n, dtype=np.bool_)
    chosen[order] = np.repeat(kept, ends + 1 - begins)
    return intervals.take(chosen)


def covered_blocks(intervals: Intervals, leaves: Leaves) -> BoolArray:
    """Return which blocks an interval has a part in, shape (n_blocks,); there is one at least."""
    if not intervals.ascend:
        return _covered_by_any(intervals, leaves)
    # The intervals that begin before a block's end are the first k, and of these the last ends
    # last: one comparison a block decides, whatever the number of intervals.
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


def _covered_by_any(intervals: Intervals, leaves: Leaves) -> BoolArray:
    """Return the same of intervals in any order, each of which is taken to its blocks."""
    n = len(leaves.t_min)
    first, last = np.zeros(intervals.n, dtype=np.int64), np.full(intervals.n, n - 1)
    if intervals.seq_low is not None:
        first = np.searchsorted(leaves.base[1:], intervals.seq_low, side="right")
    if intervals.t_low is not None:
        first = np.maximum(first, np.searchsorted(leaves.t_max, intervals.t_low, side="left"))
    if intervals.seq_high is not None:
        last = np.searchsorted(leaves.base[:-1], intervals.seq_high, side="right") - 1
    if intervals.t_high is not None:
        last = np.minimum(last, np.searchsorted(leaves.t_min, intervals.t_high, side="right") - 1)
    some = first <= last
    return mask_of(np.stack((first[some], last[some] + 1), axis=1), n)


def _key_spans(intervals: Intervals, n_events: int) -> KeySpans | None:
    """Return the intervals by key, if candidates have one.

    Rows of other keys, and those outside the spans of their own key, need not be matched: the
    matcher finds the same in what is left. Keys are told only where all rows of a match have the
    same one. (1) No match is lost, nor any row that decides over it: with its first row all its
    rows and those a negation at its end looks at, none of another partition, lie in the interval
    of its candidate, so in one span; and so does every other mapping with this first row, by which
    the preferred one is told from the others. (2) None is won where rows are missing between two
    spans of a key: the rows that a mapping has at the positions looked up are found by the
    lookups, they are in order and within the window, so they are a candidate, whose interval holds
    the whole mapping: it lies in one span, and of a span no row is missing. (3) So in every
    partition the same starts lead to the same matches, and skips and numbers, which depend on the
    partition's matches alone, are the same. Rows that PREV and NEXT read in partitions, and those
    that tell ``^`` and ``$`` where a partition goes on, are found beside these
    (`patterns.partition_neighbours`).
    What else asks for more than rows of matches (unmatched rows, timeouts, MATCH_NUMBER in DEFINE)
    is replayed in full and never comes here.
    """
    if intervals.keyed is None:
        return None
    key, example = intervals.keyed
    by_time = intervals.t_low is not None or intervals.t_high is not None
    if by_time:
        low, high = intervals.t_seen
        low = low if intervals.t_low is None else intervals.t_low
        high = high if intervals.t_high is None else intervals.t_high
    else:
        low, high = np.zeros(intervals.n, dtype=np.int64), np.full(intervals.n, n_events)
        low = low if intervals.seq_low is None else intervals.seq_low
        high = high if intervals.seq_high is None else intervals.seq_high
    return unite_by_key(key, example, low, high, by_time=by_time)


def _row_spans(intervals: Intervals) -> RowSpans | None:
    """Return the intervals by the rows they bound, if they stand in order.

    Rows outside all of them need not be matched, if those of each are matched by themselves: all
    of a match, all that decides over it, and every other mapping with its first row lies in the
    interval of one candidate. So no match is lost; and none is won, as rows next to each other in
    an interval are so in the stream.
    """
    if not intervals.ascend:
        return None
    return RowSpans(
        intervals.n, intervals.seq_low, intervals.t_low, intervals.seq_high, intervals.t_high
    )
