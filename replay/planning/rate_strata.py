"""Rate strata: groups of blocks in which the cost model may take rates as constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from chronicle.tree.summary import Leaves
from costmodel.arrays import FloatArray
from replay.planning.statistics import BoolArray, IntArray

STRATA_MAX: Final = 16
"""Segments of a stream. Each costs as much as a stream of its own when plans are estimated."""

CLASS_OCTAVES: Final = 0.5
"""Width of a class: rates within a factor 1.4 are taken as equal."""

REST_MAX: Final = 0.05
"""Share of the events whose classes may be put together as the last segment, unlike as they are:
rare mixtures of classes, as they come by chance where a range lies at the rim of the values."""

POOLS_MAX: Final = 1024
"""Runs of neighbouring blocks that are told apart; in longer streams neighbours are pooled."""

ROUNDS: Final = 4
"""Rounds of moving runs to the segment most like them."""

_FACTOR: Final = 6364136223846793005
"""Odd, and its powers, which wrap around, have no pattern: Knuth's MMIX multiplier."""

DENSITY_MIN: Final = 2.0**-24
"""Densities below this are all one class, with nothing at all."""


def window_rates(leaves: Leaves, within: int | None, rows: int | None) -> FloatArray:
    """Return the events a window holds that begins at an event, by block, shape (n_blocks,).

    ``within`` is the window in time, ``rows`` that in rows; where neither bounds a match it is
    infinite. Events are taken to come evenly between the starts of blocks.
    """
    n = len(leaves.t_min)
    window = np.full(n, np.inf if rows is None else float(rows))
    if within is None or n == 0:
        return window
    # The stream's last block begins where it begins and ends with its last event.
    times = np.append(leaves.t_min, leaves.t_max[-1]).astype(np.float64)
    times[-1] += 1.0
    middle = (times[:-1] + times[1:]) / 2
    base = leaves.base.astype(np.float64)
    inside = np.interp(middle + within / 2, times, base) - np.interp(
        middle - within / 2, times, base
    )
    # Near its ends the stream stops, not its rate.
    reach = np.minimum(middle + within / 2, times[-1]) - np.maximum(middle - within / 2, times[0])
    rate = inside * (max(within, 1) / np.maximum(reach, 1.0))
    return np.asarray(np.minimum(window, rate + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Runs of neighbouring blocks among those that remain, told apart by what they hold on average.

    A stream has more blocks than there is time to tell apart while a query is planned.
    """

    blocks: IntArray
    """Blocks that remain, ascending, shape (n_remaining,)."""
    starts: IntArray
    """First of each run, as a position in ``blocks``, shape (n,)."""
    events: FloatArray
    """Events of each run, shape (n,)."""
    count: FloatArray
    """Events of each block that remains, shape (n_remaining,)."""

    @classmethod
    def of(cls, remaining: BoolArray, count: IntArray) -> Pool:
        """Pool the blocks set in a mask, of which at least one must be."""
        blocks = np.flatnonzero(remaining)
        starts = np.arange(0, len(blocks), -(-len(blocks) // POOLS_MAX))
        inside = count[blocks]
        events = np.add.reduceat(inside, starts).astype(np.float64)
        return cls(blocks, starts, events, inside.astype(np.float64))

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean of a value of blocks over the events of each run, shape (n,)."""
        inside = values if len(values) == len(self.blocks) else values[self.blocks]
        if len(self.starts) == len(self.blocks):
            return inside
        return np.asarray(np.add.reduceat(inside * self.count, self.starts) / self.events)

    def spread(self, labels: IntArray, n_blocks: int) -> IntArray:
        """Return the label of each block of the stream; -1 where it does not remain."""
        spread = np.full(n_blocks, -1, dtype=np.int64)
        spread[self.blocks] = np.repeat(labels, np.diff(self.starts, append=len(self.blocks)))
        return spread


def to_strata(densities: FloatArray, window_events: FloatArray, events: FloatArray) -> IntArray:
    """Return the stratum of each run of blocks, from 0, largest first; even data is one stratum.

    ``densities`` are the shares of each run's events that satisfy each of k conditions, shape (k,
    n); ``window_events`` the events a window holds around each run.

    Notes
    -----
    A class is half an octave around the median, so that even data does not fall into two by
    chance; a segment is a mixture of classes. Where that gives too many, the runs of blocks are
    clustered by the logarithms of their rates: k-means, begun from stretches of equal length in
    stream order, as rates mostly drift. Not in the thesis, which takes rates as constant over
    the stream.
    """
    rows = np.vstack((densities, np.minimum(window_events, 2.0**62)))
    octaves = np.log2(np.maximum(rows, DENSITY_MIN))
    middle = octaves.shape[1] // 2
    octaves -= np.partition(octaves, middle, axis=1)[:, middle : middle + 1]
    octaves = octaves[np.abs(octaves).max(axis=1) > CLASS_OCTAVES / 2]
    if len(octaves) == 0:
        return np.zeros(len(events), dtype=np.int64)
    group = _mixtures(octaves)
    sizes = np.bincount(group, weights=events)
    n_rest = len(sizes) - (STRATA_MAX - 1)
    if n_rest > 1 and np.partition(sizes, n_rest)[:n_rest].sum() > REST_MAX * sizes.sum():
        group = _clusters(octaves, events)
        sizes = np.bincount(group, weights=events)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.minimum(np.arange(len(order)), STRATA_MAX - 1)
    return rank[group]


def _mixtures(octaves: FloatArray) -> IntArray:
    """Return a number for each run of blocks, equal where all classes are."""
    classes = np.rint(octaves / CLASS_OCTAVES).astype(np.int64)
    # A sum with odd factors tells mixtures apart. Two that fell together would share a segment.
    factors = np.multiply.accumulate(np.full(len(classes), _FACTOR))
    return _numbered(factors @ classes)


def _clusters(octaves: FloatArray, weight: FloatArray) -> IntArray:
    """Return at most `STRATA_MAX` groups of runs of blocks with about equal rates."""
    n = octaves.shape[1]
    group = np.arange(n) * STRATA_MAX // n
    for _ in range(ROUNDS):
        members = (group == np.arange(STRATA_MAX)[:, None]) * weight
        members = members[members.any(axis=1)]
        centres = members @ octaves.T / members.sum(axis=1, keepdims=True)
        distance = (centres**2).sum(axis=1)[:, None] - 2.0 * (centres @ octaves)
        group = distance.argmin(axis=0)
    return _numbered(group)


def _numbered(values: IntArray) -> IntArray:
    """Return for each value its place among the distinct ones, from 0."""
    order = values.argsort()
    ordered = values[order]
    places = np.zeros(len(values), dtype=np.int64)
    places[order[1:]] = (ordered[1:] != ordered[:-1]).cumsum()
    return places
