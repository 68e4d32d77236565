"""Occurrences of basic blocks: what index lookups gave, joined on the distance in ``seq``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replay.planning.ascending import are_in, lower_bounds
from replay.planning.plan import Condition, Occurrences, Slot
from replay.planning.statistics import IntArray


@dataclass(frozen=True, slots=True)
class BlockHits:
    """Occurrences of a basic block by the ``seq`` its first position would have, ascending."""

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
    keys: IntArray | None
    """Numbers of the key of the event at ``chosen_first``, if lookups gave keys."""

    def take(self, places: IntArray) -> BlockHits:
        """Return some of the hits, in ascending order."""
        return replace(
            self,
            start=self.start[places],
            t_first=self.t_first[places],
            t_last=self.t_last[places],
            keys=None if self.keys is None else self.keys[places],
        )


def by_place(
    conditions: Sequence[Condition], occurrences: Mapping[Slot, Occurrences], ranges: IntArray
) -> dict[int, Occurrences]:
    """Return the occurrences of each ``Condition.place`` looked up, its attributes intersected.

    Only events inside ``ranges``: half-open ranges of ``seq``, shape (n, 2), ascending and
    disjoint.
    """
    found: dict[int, Occurrences] = {}
    clipped: dict[int, Occurrences] = {}
    edges = ranges.ravel()
    for condition in conditions:
        given = occurrences[condition.slot]
        # Equal conditions are looked up once, and then clipped once.
        if id(given) not in clipped:
            clipped[id(given)] = _clip(given, edges)
        here = clipped[id(given)]
        before = found.get(condition.place)
        found[condition.place] = here if before is None else _intersect(before, here)
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


def join_block(
    block: tuple[int, int], found: Mapping[int, Occurrences], n_events: int, beside: tuple[int, int]
) -> BlockHits:
    """Join a basic block's chosen positions on their distance in ``seq`` (C3), rarest first.

    One position at least of the block, a half-open range of them, is in ``found``, by position.
    ``n_events`` are those of the stream, and ``beside`` says how many rows a match needs at least
    before and behind the block.
    """
    first, stop = block
    chosen = [position for position in range(first, stop) if position in found]
    by_size = sorted(chosen, key=lambda position: len(found[position].seq))
    offset, start = by_size[0] - first, found[by_size[0]].seq
    if offset:
        start = start - offset
    inside = np.searchsorted(start, (beside[0], n_events - (stop - first) - beside[1] + 1))
    start = start[inside[0] : inside[1]]
    for position in by_size[1:]:
        start = start[are_in(start + (position - first), found[position].seq)]
    at_first = _places(found[chosen[0]], start, chosen[0] - first)
    at_last = at_first
    if len(chosen) > 1:
        at_last = _places(found[chosen[-1]], start, chosen[-1] - first)
    keys = found[chosen[0]].keys
    return BlockHits(
        first,
        stop,
        chosen[0],
        chosen[-1],
        start,
        found[chosen[0]].t[at_first],
        found[chosen[-1]].t[at_last],
        None if keys is None else keys[at_first],
    )


def _places(of: Occurrences, start: IntArray, n_behind: int) -> IntArray | slice:
    """Return where the occurrences so many rows behind ascending ones are; all of them are."""
    if len(start) == 0:
        return slice(0, 0)
    first = int(np.searchsorted(of.seq, start[0] + n_behind))
    stop = first + len(start)
    if stop <= len(of.seq) and of.seq[stop - 1] == start[-1] + n_behind:
        return slice(first, stop)  # none lies between that is not wanted
    return lower_bounds(of.seq, start + n_behind if n_behind else start)


def run_ends(members: IntArray, wanted: IntArray) -> IntArray:
    """Return for each row the first row at or behind it that is not a member.

    ``members`` are the rows that may fill a gap, ascending and unique; ``wanted`` ascends, and so
    does the result: all rows from ``wanted[i]`` up to, not including, the ``i``-th are members.
    """
    if len(members) == 0:
        return wanted
    at = lower_bounds(members, wanted)
    inside = are_in(wanted, members)
    last_of_run = np.append(np.flatnonzero(np.diff(members) != 1), len(members) - 1)
    run = lower_bounds(last_of_run, np.minimum(at, len(members) - 1))
    return np.where(inside, members[last_of_run[run]] + 1, wanted)
