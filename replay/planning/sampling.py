"""A sample of blocks: what is drawn, and the events of it that satisfy each condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Final

import numpy as np
import pyarrow as pa

from costmodel.arrays import FloatArray
from indexing.bounds import to_bounds
from indexing.key_range import KeyRanges
from indexing.keys import KeyKind, Keys, as_int64, key_kind, to_keys
from replay.language.bound import BoundPatternQuery
from replay.planning.agreement import is_worth_keys
from replay.planning.block_ranges import count_blocks, mask_of, ranges_of
from replay.planning.coarse_map import saturating_add
from replay.planning.intervals import BRIDGE_BLOCKS
from replay.planning.plan import Condition, Lookup, Occurrences, Slot
from replay.planning.shape import PatternShape
from replay.planning.statistics import BoolArray, IntArray, Leaves

CORE_BLOCKS: Final = 4
"""Consecutive blocks judged together: neighbours are read in one go, and candidates that cross
from one block into the next are seen whole."""

MARGIN_SHARE: Final = 16
"""A window up to this part of a core needs no margin: what crosses its rim is a few per cent."""

BUCKETS_MIN: Final = 2
"""Places that a sample needs: one alone says nothing of how much places differ."""

EVEN_SHARE: Final = 0.1
"""Share of the draws that is spread evenly over the blocks, so that a place that is wrongly
expected to cost nothing is looked at too, and no weight exceeds ten times the mean."""

_TIME_MAX: Final = 2**62
"""Times of the artificial stream stay below this, so that adding a window cannot overflow."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Places drawn from the blocks that the coarse pattern map leaves."""

    read: IntArray
    """Blocks read at each place, half-open ranges of ordinals, shape (n, 2), ascending; ranges of
    neighbouring places may overlap."""
    core: IntArray
    """Of these, the blocks judged, shape (n, 2): all events that decide over them are read."""
    weight: FloatArray
    """Blocks of the stream that one block of each place stands for, shape (n,)."""
    n_remaining: int
    """Blocks the coarse pattern map leaves, of which the sample is drawn."""

    @classmethod
    def of_all(cls, stretches: IntArray) -> Sample:
        """Return the sample that is all blocks that remain: nothing is left to be estimated."""
        return cls(stretches, stretches, np.ones(len(stretches)), count_blocks(stretches))

    @cached_property
    def n_judged(self) -> int:
        """Blocks judged."""
        return count_blocks(self.core)

    @cached_property
    def blocks(self) -> IntArray:
        """All blocks to be read, ascending, none twice."""
        return np.flatnonzero(mask_of(self.read, int(self.read[:, 1].max())))


def draw(
    stretches: IntArray,
    leaves: Leaves,
    expected_cost: FloatArray,
    *,
    within: int | None,
    rows: int | None,
    n_blocks_max: int,
    even_share: float = EVEN_SHARE,
    seed: int = 0,
) -> tuple[Sample | None, str]:
    """Draw places with probability in proportion to what replaying them is expected to cost.

    Pure; the same arguments give the same sample.

    Parameters
    ----------
    stretches
        Blocks that remain, half-open ranges, shape (n, 2), ascending and disjoint; not empty.
    leaves
        Counts and times of all blocks.
    expected_cost
        Of each block, in any unit, none negative, shape (n_blocks,).
    within, rows
        The query's windows in time and in rows; None: no bound.
    n_blocks_max
        Blocks that may be read in all.
    even_share
        Share of the draws that is spread evenly, whatever the cost.
    seed
        Of the random numbers.

    Returns
    -------
    tuple of Sample or None, and str
        None if nothing worth drawing fits; the text says in both cases what was done, or why not.

    Notes
    -----
    A place is up to four consecutive blocks of one stretch, its core, and on each side the blocks
    a window reaches, so that the intervals that touch the core are known exactly; no margin is
    needed beyond a stretch, where no match can have a row. The line of costs is cut into as many
    equal parts as there are places and a point drawn in each, which spreads them over the
    stream as well. Not in the thesis.
    """
    if within is None and rows is None:
        return None, "no sample: nothing bounds a match, so no part of the stream stands for it"
    n_remaining = count_blocks(stretches)
    if n_remaining <= n_blocks_max:
        return None, f"no sample: only {n_remaining} blocks remain"
    core, home = _cores(stretches)
    read = _with_margins(core, stretches[home], leaves, within, rows)
    size = (core[:, 1] - core[:, 0]).astype(np.float64)
    probability = _probabilities(core, size, expected_cost, even_share)
    length = float(probability @ (read[:, 1] - read[:, 0]))
    n_places = int(n_blocks_max / length + 1e-9)
    while n_places >= BUCKETS_MIN:
        chosen, hits = _draw_places(probability, n_places, seed)
        weight = hits / (n_places * probability[chosen])
        sample = Sample(read[chosen], core[chosen], weight, n_remaining)
        n_read = len(sample.blocks)
        if n_read <= n_blocks_max and not fits_in_time(sample, leaves, within):
            return None, "no sample: times are too far apart to lay places side by side"
        if n_read <= n_blocks_max:
            return sample, f"{n_read} of {n_remaining:,} blocks, in {len(chosen)} places"
        n_places = min(n_places - 1, n_places * n_blocks_max // n_read)
    return None, (
        f"no sample: with a window on each side a place takes {length:.0f} blocks, so that "
        f"{BUCKETS_MIN} of them do not fit into the {n_blocks_max} that may be read"
    )


def fits_in_time(sample: Sample, leaves: Leaves, within: int | None) -> bool:
    """Return whether the places can be laid side by side, farther apart than any window."""
    first, last = leaves.t_min[sample.read[:, 0]], leaves.t_max[sample.read[:, 1] - 1]
    span = int(leaves.t_max[-1]) - int(leaves.t_min[0])
    hole = 0 if within is None else min(within, span)
    # As floats, since sums may overflow where the answer is no.
    length = float(np.subtract(last, first, dtype=np.float64).sum())
    return length + len(sample.read) * (float(hole) + 1.0) + 2.0 * hole < _TIME_MAX


def _cores(stretches: IntArray) -> tuple[IntArray, IntArray]:
    """Cut stretches into cores; return them and the stretch each lies in."""
    lengths = stretches[:, 1] - stretches[:, 0]
    pieces = -(-lengths // CORE_BLOCKS)
    home = np.repeat(np.arange(len(stretches)), pieces)
    rank = np.arange(len(home)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = stretches[home, 0] + rank * CORE_BLOCKS
    stop = np.minimum(first + CORE_BLOCKS, stretches[home, 1])
    return np.stack((first, stop), axis=1), home


def _with_margins(
    core: IntArray, stretch: IntArray, leaves: Leaves, within: int | None, rows: int | None
) -> IntArray:
    """Return the blocks that hold every event within a window of each core, inside its stretch."""
    first, stop = core[:, 0], core[:, 1]
    low, high = stretch[:, 0], stretch[:, 1]
    is_small = np.zeros(len(core), dtype=np.bool_)
    if within is not None:
        begin, end = leaves.t_min[first], leaves.t_max[stop - 1]
        before = np.searchsorted(leaves.t_max, saturating_add(begin, -within), side="left")
        behind = np.searchsorted(leaves.t_min, saturating_add(end, within), side="right")
        low, high = np.maximum(low, before), np.minimum(high, behind)
        is_small |= (end - begin) // MARGIN_SHARE >= min(within, _TIME_MAX)
    if rows is not None:
        reach = min(rows, int(leaves.base[-1])) - 1
        before = np.searchsorted(leaves.base[1:], leaves.base[first] - reach, side="right")
        behind = np.searchsorted(leaves.base[:-1], leaves.base[stop] + reach, side="left")
        low, high = np.maximum(low, before), np.minimum(high, behind)
        is_small |= (leaves.base[stop] - leaves.base[first]) // MARGIN_SHARE >= reach
    return np.stack((np.where(is_small, first, low), np.where(is_small, stop, high)), axis=1)


def _probabilities(
    core: IntArray, size: FloatArray, expected_cost: FloatArray, even_share: float
) -> FloatArray:
    running = np.concatenate(([0.0], np.cumsum(expected_cost)))
    cost = running[core[:, 1]] - running[core[:, 0]]
    even = size / size.sum()
    total = float(cost.sum())
    if total <= 0:
        return np.asarray(even)
    return np.asarray((1 - even_share) * cost / total + even_share * even)


def _draw_places(probability: FloatArray, n: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return the places drawn, ascending, and how often each was; n times ``probability``."""
    points = (np.arange(n) + np.random.default_rng(seed).random(n)) / n
    at = np.searchsorted(np.cumsum(probability), points, side="right")
    return np.unique(np.minimum(at, len(probability) - 1), return_counts=True)


@dataclass(frozen=True, slots=True)
class SampledLeaves:
    """Blocks of the artificial stream, as ``planning.Leaves``."""

    count: IntArray
    base: IntArray
    t_min: IntArray
    t_max: IntArray
    gap_min: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class SampleEvents:
    """A small artificial stream of the sampled places, farther apart than any window.

    It is a ``planning.Timeline``. Blocks that stand for what lies between two places hold no
    occurrence and belong to no stretch.
    """

    sample: Sample
    query: BoundPatternQuery
    shape: PatternShape
    leaves: SampledLeaves
    stretches: IntArray
    """Blocks of the places, shape (n, 2)."""
    place: IntArray
    """Place of each artificial block, shape (n_blocks,); -1 for those between."""
    is_core: BoolArray
    """Blocks that are judged, shape (n_blocks,)."""
    everything: Occurrences
    """All events of the places, with keys where they are asked for."""
    occurrences: Mapping[Lookup, Occurrences]
    """Events of each lookup; those that cannot be told from the columns are missing."""
    key: str | None
    """The stream's key column."""

    @property
    def n_events(self) -> int:
        """Events of the artificial stream, those between the places included."""
        return int(self.leaves.base[-1])

    @property
    def n_blocks(self) -> int:
        """Blocks of the artificial stream."""
        return len(self.leaves.count)

    def tells(self, conditions: Collection[Condition]) -> bool:
        """Return whether the events of all these conditions are known, with keys if need be."""
        found = [self.occurrences.get(condition.lookup) for condition in conditions]
        with_keys = is_worth_keys(self.shape, conditions, self.key)
        return all(o is not None and not (with_keys and o.keys is None) for o in found)

    def found_by(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        """Return the events of a plan's conditions, as its lookups would give them."""
        found = {c.slot: self.occurrences[c.lookup] for c in conditions}
        if is_worth_keys(self.shape, conditions, self.key):
            return found
        return {slot: Occurrences(o.seq, o.t) for slot, o in found.items()}


def sampled_attributes(
    query: BoundPatternQuery,
    shape: PatternShape,
    conditions: Collection[Condition],
    key: str | None = None,
) -> tuple[str, ...]:
    """Return the columns that evaluating the conditions on a sample takes."""
    keys = [key] if key is not None and is_worth_keys(shape, conditions, key) else []
    return tuple(dict.fromkeys((query.time, *_attributes(conditions), *keys)))


def evaluate(
    sample: Sample,
    columns: Mapping[str, pa.Array],
    conditions: Sequence[Condition],
    query: BoundPatternQuery,
    shape: PatternShape,
    leaves: Leaves,
    *,
    key: str | None = None,
) -> SampleEvents:
    """Find the events of the sample that satisfy each condition.

    Pure.

    Parameters
    ----------
    sample
        As `draw` gave it.
    columns
        The values of ``sampled_attributes`` in ``sample.blocks``, in stream order, of the columns'
        own types. Attributes may be missing, the time column may not.
    conditions
        Of any plan to be corrected.
    query, shape
        What is planned.
    leaves
        Of the stream.
    key
        The stream's key column, if it has one.
    """
    counts = leaves.count[sample.blocks]
    starts = np.concatenate(([0], np.cumsum(counts)))
    first = np.searchsorted(sample.blocks, sample.read[:, 0])
    n_read = sample.read[:, 1] - sample.read[:, 0]
    rows = np.stack((starts[first], starts[first + n_read]), axis=1)
    times = as_int64(columns[query.time]).to_numpy()
    layout = _lay_out(sample, rows, times, leaves, _hole(query, shape, leaves))
    origin = np.concatenate([np.arange(a, b) for a, b in rows.tolist()])
    if len(origin) > len(times):  # places overlap: their rows are copied
        columns = {name: column.take(pa.array(origin)) for name, column in columns.items()}
    n_rows = rows[:, 1] - rows[:, 0]
    seq = origin + np.repeat(layout.seq_shift, n_rows)
    t = times[origin] + np.repeat(layout.t_shift, n_rows)
    keys = None
    if key is not None and key in columns and is_worth_keys(shape, conditions, key):
        keys = _numbered(columns[key])
    everything = Occurrences(seq, t, keys)
    named = [name for name in _attributes(conditions) if name in columns]
    told = {name: _Column.of(columns[name], name) for name in named}
    found = {
        lookup: everything.take(_rows_inside(told, parts))
        for lookup, parts in {c.lookup: c.parts for c in conditions}.items()
        if all(attribute in told for attribute, _ in parts)
    }
    return SampleEvents(
        sample,
        query,
        shape,
        layout.leaves,
        ranges_of(layout.place >= 0),
        layout.place,
        layout.is_core,
        everything,
        found,
        key,
    )


def _hole(query: BoundPatternQuery, shape: PatternShape, leaves: Leaves) -> tuple[int, int]:
    """Return the rows and the time to be left between two places: more than any match spans."""
    n = int(leaves.base[-1])
    rows = 0 if shape.row_window is None else min(shape.row_window, n)
    span = int(leaves.t_max[-1]) - int(leaves.t_min[0])
    time = 0 if query.within is None else min(query.within, span)
    return rows + len(shape.positions) + BRIDGE_BLOCKS + 1, time + 1


@dataclass(frozen=True, slots=True)
class _Layout:
    leaves: SampledLeaves
    place: IntArray
    is_core: BoolArray
    seq_shift: IntArray
    """What is added to a place's row numbers, shape (n_places,)."""
    t_shift: IntArray
    """What is added to a place's times, shape (n_places,)."""


def _lay_out(
    sample: Sample, rows: IntArray, times: IntArray, leaves: Leaves, hole: tuple[int, int]
) -> _Layout:
    """Put the places one behind the other, each followed by blocks that hold the hole.

    So many blocks lie between that no two places are bridged. Behind the end of the stream there is
    nothing, so that all of it in one place is the stream itself.
    """
    n_holes = BRIDGE_BLOCKS + 1
    n_rows = rows[:, 1] - rows[:, 0]
    seq_start = np.concatenate(([0], np.cumsum(n_rows + hole[0])[:-1]))
    t_first, t_last = times[rows[:, 0]], times[rows[:, 1] - 1]
    # Times are known to fit: the places lie within the stream, and holes are no longer than it.
    steps = t_last - t_first + hole[1]
    t_start = np.concatenate(([0], np.cumsum(steps)[:-1]))
    count, t_min, t_max, gap_min, place, core = [], [], [], [], [], []
    for i, ((a, b), (c, d)) in enumerate(
        zip(sample.read.tolist(), sample.core.tolist(), strict=True)
    ):
        if b == len(leaves.count) and i + 1 == len(sample.read):
            n_holes = 0
        shift = t_start[i] - t_first[i]
        end = np.full(n_holes, t_last[i] + shift)
        filler = np.ones(n_holes, dtype=np.int64)
        filler[:1] = hole[0] - (n_holes - 1)
        count += [leaves.count[a:b], filler]
        t_min += [leaves.t_min[a:b] + shift, end]
        t_max += [leaves.t_max[a:b] + shift, end]
        gap_min += [leaves.gap_min[a:b], np.full(n_holes, -1)]
        place += [np.full(b - a, i), np.full(n_holes, -1)]
        inside = np.arange(a, b + n_holes)
        core.append((inside >= c) & (inside < d))
    counts = np.concatenate(count)
    base = np.concatenate(([0], np.cumsum(counts)))
    return _Layout(
        SampledLeaves(
            counts,
            base,
            np.concatenate(t_min),
            np.concatenate(t_max),
            np.concatenate(gap_min),
        ),
        np.concatenate(place),
        np.concatenate(core),
        seq_start - rows[:, 0],
        t_start - t_first,
    )


def _attributes(conditions: Collection[Condition]) -> list[str]:
    return list(dict.fromkeys(name for condition in conditions for name, _ in condition.parts))


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A column of the sample as an index has it."""

    kind: KeyKind
    keys: Keys
    """Of its rows, or of its dictionary."""
    codes: IntArray | None
    """Place of each row in the dictionary; of null rows, behind the last."""

    @classmethod
    def of(cls, column: pa.Array, attribute: str) -> _Column:
        kind = key_kind(column.type, attribute)
        if not _has_dictionary(column):
            return cls(kind, to_keys(column, attribute), None)
        codes = column.indices.fill_null(len(column.dictionary)).to_numpy()
        return cls(kind, to_keys(column.dictionary, attribute), codes)

    def rows_inside(self, ranges: KeyRanges) -> IntArray:
        """Return the rows whose value lies in ranges."""
        bounds = to_bounds(ranges, self.kind)
        # Few are inside as a rule: to take them by number is cheaper than by a mask.
        inside = self.keys.rows[np.flatnonzero(bounds.contains(self.keys.values))]
        if self.codes is None:
            return np.asarray(inside)
        # What is null has the place behind the last value, which is never inside.
        is_inside = np.zeros(int(self.codes.max(initial=0)) + 1, dtype=np.bool_)
        is_inside[inside[inside < len(is_inside)]] = True
        return np.flatnonzero(is_inside[self.codes])


def _rows_inside(told: Mapping[str, _Column], parts: Sequence[Lookup]) -> IntArray:
    """Return the rows that lie in ranges of several attributes, ascending."""
    inside = [told[attribute].rows_inside(ranges) for attribute, ranges in parts]
    return reduce(partial(np.intersect1d, assume_unique=True), inside)


def _numbered(column: pa.Array) -> IntArray:
    """Return a number for each value, equal exactly where values are; null is a value too."""
    values = column.cast(column.type.value_type) if _has_dictionary(column) else column
    codes = values.dictionary_encode(null_encoding="encode").indices
    return np.asarray(codes.to_numpy(), dtype=np.int64)


def _has_dictionary(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type))
