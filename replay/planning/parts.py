"""Parts: which blocks a plan reads through, and in which it asks lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.choice import in_words, is_safe
from costmodel.parameters import CostParameters
from costmodel.parts import (
    both,
    estimate_through,
    expected_entries,
    in_part,
    with_blocks,
    worth_reading,
)
from costmodel.plan_cost import Estimate, estimate
from costmodel.selection import select
from replay.language.bound import BoundPatternQuery
from replay.planning.agreement import tells_keys
from replay.planning.block_ranges import count_blocks, mask_of, ranges_of
from replay.planning.coarse_map import saturating_add
from replay.planning.plan import Condition, Part, PlanKind, plan_name
from replay.planning.shape import PatternShape
from replay.planning.statistics import BoolArray, FloatArray, IntArray, Leaves, StreamStatistics
from replay.planning.weighing import Weighed, matches_wanted

SAVED_MIN_S: Final = 2e-3
"""Seconds that reading a part through must save to be thought of: thinking takes half a one."""

SAVED_SHARE: Final = 0.05
"""Share of the best other plan's cost that it must save: less is within what estimates err by."""

PIECE_BLOCKS: Final = 16
"""Blocks in a row below which lookups are asked on: a shorter piece saves next to nothing, and a
window on each side of it is read as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Parted:
    """A plan that asks its lookups in a part of the stream."""

    conditions: tuple[Condition, ...]
    part: Part
    estimated: Estimate

    def is_safe(self, tree_s: float, full_s: float) -> bool:
        """Return whether it is no risk beside a full replay, whatever its lookups find."""
        index_s = self.estimated.index_cost
        most = np.array([index_s + min(tree_s, full_s)])
        return bool(is_safe(np.array([index_s]), most, full_s)[0])

    def reason(self, full_s: float) -> str:
        """Return in a sentence why this plan."""
        cost = self.estimated.cost
        n_asked, n_read = count_blocks(self.part.asked), count_blocks(self.part.through)
        return (
            f"{plan_name(PlanKind.INDEXES, self.conditions)}: estimated at {in_words(cost)}, "
            f"{full_s / max(cost, 1e-12):.1f}x less than {in_words(full_s)} of a full replay; "
            f"asked in {n_asked:,} blocks only, as lookups would leave most of {n_read:,} others"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Parting:
    """A query weighed, to be asked in a part of the stream."""

    query: BoundPatternQuery
    shape: PatternShape
    statistics: StreamStatistics
    stretches: IntArray
    """What the coarse pattern map leaves."""
    weighed: Weighed
    parameters: CostParameters

    @property
    def is_possible(self) -> bool:
        """Whether plans of the query may read a part of the stream through.

        Where candidates agree on a key, rows of other keys are left out, and of which key a match
        is in the part read through is not known. Replays that end after some matches are not
        weighed by parts. Of matches that nothing bounds, windows reach everything (`part_of`).
        """
        features = self.weighed.features
        return (
            len(features.lookup_entries) > 0
            and not tells_keys(self.shape, self.statistics.key)
            and features.beside_blocks == 0.0
            and matches_wanted(self.query) is None
        )

    def best(
        self,
        plans: Sequence[tuple[Condition, ...]],
        *,
        to_beat: float,
        tree_s: float,
        full_s: float,
        unexpected_blocks: float,
    ) -> Parted | None:
        """Return the cheapest plan that reads the segments through that lookups do not thin out.

        Parameters
        ----------
        plans
            Which segments these are is told for each of these, conditions of ``weighed.usable``.
        to_beat, tree_s, full_s
            Estimated seconds of the best plan that asks everywhere, of the tree plan and of a full
            replay.
        unexpected_blocks
            Blocks more than estimated that lookups may leave, as a sample shows.

        Returns
        -------
        Parted or None
            None if none is clearly better, and no risk (`costmodel.choose`).

        Notes
        -----
        Not in the thesis, where an index is asked for the whole stream. The lookups are chosen
        anew, by what the part asked in is like.
        """
        limit = min(to_beat - SAVED_MIN_S, (1.0 - SAVED_SHARE) * to_beat)
        limit = min(limit, self.parameters.full_margin * full_s)
        if limit <= 0.0 or not plans or not self.is_possible:
            return None
        weighed, leaves = self.weighed, self.statistics.leaves
        if len(weighed.features.segment_events) < 2:
            return None
        read, about_s = worth_reading(weighed.features, weighed.rows_of(plans), self.parameters)
        best: Parted | None = None
        for dear in {row.tobytes(): row for row in read[about_s < limit]}.values():
            if not dear.any() or dear.all():
                continue
            wanted = (weighed.segment >= 0) & dear[weighed.segment]
            window = self.query.within, self.shape.row_window
            blocks = part_of(self.stretches, wanted, leaves, *window)
            found = None if blocks is None else self.parted(*blocks, limit, unexpected_blocks)
            if found is not None and found.is_safe(tree_s, full_s):
                best, limit = found, found.estimated.cost
        return best

    def parted(
        self, asked: IntArray, through: IntArray, limit: float, unexpected_blocks: float
    ) -> Parted | None:
        """Return the best plan that has this part, with lookups.

        Parameters
        ----------
        asked, through
            As `part_of` returns them.
        limit
            Estimated seconds that it must stay below; else None is returned.
        unexpected_blocks
            As of `best`.
        """
        weighed, leaves, parameters = self.weighed, self.statistics.leaves, self.parameters
        features = weighed.features
        read = self._of_segments(through)
        certain = estimate_through(features, *read, len(through), parameters)
        if certain.cost >= limit:
            return None
        events, blocks = self._of_segments(asked)
        n = len(features.segment_events)
        starts = np.bincount(weighed.segment[asked[:, 0]], minlength=n).astype(np.float64)
        told = in_part(features, events, blocks, starts, self._most_entries(asked))
        chosen = select(told, parameters).chosen
        thinned = estimate(told, chosen[None, :], parameters).of(0)
        thinned = with_blocks(thinned, unexpected_blocks, told, parameters)
        estimated = both(thinned, certain)
        if not chosen.any() or estimated.cost >= limit:
            return None
        first, last = leaves.t_min[through[:, 0]], leaves.t_max[through[:, 1] - 1]
        expected = expected_entries(features, events).tolist()
        part = Part(
            asked,
            through,
            tuple(zip(first.tolist(), last.tolist(), strict=True)),
            int(events.sum()),
            dict(zip(weighed.lookups, expected, strict=True)),
            told,
        )
        return Parted(weighed.plan_of(chosen), part, estimated)

    def _of_segments(self, ranges: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return how many events and blocks ranges of blocks that remain have of each segment."""
        inside = mask_of(ranges, self.statistics.n_blocks)
        segment, n = self.weighed.segment[inside], len(self.weighed.features.segment_events)
        weights = self.statistics.leaves.count[inside].astype(np.float64)
        events = np.bincount(segment, weights, n).astype(np.float64)
        return events, np.bincount(segment, minlength=n).astype(np.float64)

    def _most_entries(self, asked: IntArray) -> FloatArray:
        """Return the most entries each lookup has in the runs that a part touches."""
        within = self.statistics.leaves.base[asked]
        count = self.statistics.estimate_count
        most = [count(*lookup, within=within)[1] for lookup in self.weighed.lookups]
        return np.array(most, dtype=np.float64)


def part_of(
    stretches: IntArray, wanted: BoolArray, leaves: Leaves, within: int | None, rows: int | None
) -> tuple[IntArray, IntArray] | None:
    """Return which blocks lookups are asked in and which are read through.

    Pure.

    Parameters
    ----------
    stretches
        Blocks outside which no match lies, shape (n, 2).
    wanted
        Blocks that had better be read through, shape (n_blocks,).
    leaves
        Of the stream.
    within, rows
        Greatest time between first and last row of a match, and its most rows; None: no bound.

    Returns
    -------
    tuple of ndarray of int64 or None
        ``Part.asked`` and ``Part.through``; None if one of them would be empty.

    Notes
    -----
    A match with a row in a block read through lies within a window of it, so the blocks that the
    window reaches are read too. Any other lies wholly between two such blocks, where lookups
    find all of its events. Blocks between two pieces that windows reach throughout need no lookup.
    """
    inside = mask_of(stretches, len(wanted))
    through = _filled(wanted & inside, inside, leaves, within, rows)
    pieces = ranges_of(through)
    long = pieces[pieces[:, 1] - pieces[:, 0] >= PIECE_BLOCKS]
    through = _filled(mask_of(long, len(wanted)), inside, leaves, within, rows)
    asked = ranges_of(inside & ~through)
    if len(asked) == 0 or len(long) == 0:
        return None
    return asked, ranges_of(_reached(through, leaves, within, rows) & inside)


def _filled(
    through: BoolArray, inside: BoolArray, leaves: Leaves, within: int | None, rows: int | None
) -> BoolArray:
    """Return blocks read through with those between them that windows reach throughout."""
    between = ranges_of(inside & ~through)
    unreached = np.append(0, np.cumsum(~_reached(through, leaves, within, rows)))
    is_reached = unreached[between[:, 0]] == unreached[between[:, 1]]
    return np.asarray(through | mask_of(between[is_reached], len(through)))


def _reached(through: BoolArray, leaves: Leaves, within: int | None, rows: int | None) -> BoolArray:
    """Return the blocks in which matches can have rows that have one in some blocks."""
    pieces, n = ranges_of(through), len(through)
    first, stop = np.zeros(len(pieces), dtype=np.int64), np.full(len(pieces), n)
    if within is not None:
        earliest = saturating_add(leaves.t_min[pieces[:, 0]], -within)
        latest = saturating_add(leaves.t_max[pieces[:, 1] - 1], within)
        first = np.searchsorted(leaves.t_max, earliest, side="left")
        stop = np.searchsorted(leaves.t_min, latest, side="right")
    if rows is not None:
        base, further = leaves.base, max(rows, 1) - 1
        low = np.searchsorted(base[1:], base[pieces[:, 0]] - further, side="right")
        high = np.searchsorted(base[:-1], base[pieces[:, 1]] + further, side="left")
        first, stop = np.maximum(first, low), np.minimum(stop, high)
    return mask_of(np.stack((first, stop), axis=1), n)
