"""Coverage: how many candidates a set of conditions leaves, and how many blocks they touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import BoolArray, FloatArray
from costmodel.features import PlanFeatures
from costmodel.waiting import POINTS, ComplexArray, invert

Index = NDArray[np.intp]

_DENSITY_MIN: Final = 1e-15
_DENSITY_MAX: Final = 1.0 - 1e-12
_PROBABILITY_MIN: Final = 1e-200


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """What is replayed of each segment under each plan; arrays of shape (n_plans, n_segments)."""

    candidates: FloatArray
    """Occurrences of the first selected basic block that begin a candidate."""
    length: FloatArray
    """Events of one replay interval."""
    share: FloatArray
    """Share of the segment's events inside intervals, from 0 to 1."""
    touched: FloatArray
    """Blocks that an interval touches."""
    blocks: FloatArray
    """Blocks read: those touched, and those read through between them."""
    stretches: FloatArray
    """Runs of neighbouring blocks among those read."""


def estimate_coverage(features: PlanFeatures, selected: BoolArray) -> Coverage:
    """Estimate the coverage of each plan's replay intervals, segment by segment.

    Occurrences are taken as independent and evenly spread over the events of a segment.

    Parameters
    ----------
    features
        The query and the stream.
    selected
        Conditions each plan uses, shape (n_plans, n_conditions). A row that selects nothing covers
        all that remains.

    Returns
    -------
    Coverage

    Notes
    -----
    Thesis 3.4.3, (3.5)-(3.7), corrected as ``docs/planning.md`` ("Estimates") says: candidates are
    counted from the *rarest* selected basic block, once of those between the same two others;
    the interval extends to the furthest occurrence on each side; and an interval touches
    every block it has a part in. `costmodel.thesis` has the formulas as printed.
    """
    waits = _Waits.of(features, selected)
    fit = _fit(waits)
    length = _length(features, waits, fit)
    events = np.maximum(features.segment_events, 1.0)
    length = np.minimum(length, events)
    clumps = -np.log1p(-np.minimum(waits.rarest_density * fit.distinct, _DENSITY_MAX))
    none = ~np.asarray(waits.chosen.any(axis=1))[:, None]
    touched, blocks, stretches = _blocks(features, clumps, length)
    return Coverage(
        candidates=np.where(none, 0.0, events * waits.first_density * fit.of_first),
        length=np.where(none, events, length),
        share=np.where(none, 1.0, -np.expm1(-clumps * length)),
        touched=np.where(none, features.segment_blocks, touched),
        blocks=np.where(none, features.segment_blocks, blocks),
        stretches=np.where(none, features.segment_stretches, stretches),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Waits:
    """The selected basic blocks of every plan as waiting times, in windows.

    P plans, S segments, Z points of the contour. A gap between neighbouring blocks is a geometric
    number of events from 0 on. It is taken as an exponential time less half a step. Where a match
    has rows of one key only, each key has its share of the occurrences, and waits so much longer.
    """

    n_keys: float

    window: FloatArray
    """Events that all gaps of a match may hold together, and 1, shape (S,)."""
    half: FloatArray
    """Half a step, in windows, shape (S,); less where a window is but a few events."""
    chosen: BoolArray
    """Whether a plan uses a basic block, shape (P, B)."""
    rarest: Index
    """The rarest block used, shape (P, S); 0 where none is."""
    rarest_density: FloatArray
    first_density: FloatArray
    """Of the first block used, shape (P, S)."""
    next_density: FloatArray
    """Of the rarest of all other blocks used; 2 where there is none."""
    transform: ComplexArray
    """Product of the transforms of all blocks used, shape (P, S, Z)."""
    spent: tuple[ComplexArray, ComplexArray]
    """Sums of ``1 / (x + z)`` over the gaps that shorten an interval on its left and on its right,
    shape (P, S, Z); ``transform`` times one such term is the transform of that gap's mean."""
    n_spent: tuple[FloatArray, FloatArray]
    """How many gaps these are, shape (P, S)."""

    @classmethod
    def of(cls, features: PlanFeatures, selected: BoolArray) -> _Waits:
        events = np.maximum(features.segment_events, 1.0)
        free = np.maximum(features.window_events - features.block_lengths.sum(), 0.0)
        window = np.minimum(free, events) + 1.0
        half = np.minimum(0.5 / window, 1.0 / 16.0)
        n_plans, n_segments = len(selected), len(events)
        n_blocks = len(features.block_lengths)
        tables = [_table(features, selected, b, window) for b in range(n_blocks)]
        density = np.full((n_blocks + 1, n_plans, n_segments), 2.0)
        for b, table in enumerate(tables):
            density[b] = table.density[table.row]
        rarest = density[: max(n_blocks, 1)].argmin(axis=0)
        two = np.partition(density, min(1, n_blocks), axis=0)
        shape = (n_plans, n_segments, len(POINTS))
        transform = np.ones(shape, dtype=np.complex128)
        spent = np.zeros((2, *shape), dtype=np.complex128)
        n_spent = np.zeros((2, *shape[:2]))
        shift = np.exp(half[:, None] * POINTS)
        exact = {0: features.starts_exact, 1: features.ends_exact}
        for b, table in enumerate(tables):
            used = table.used[:, None, None]
            transform *= np.where(used, table.transform * shift, 1.0)[table.row]
            if not (n_blocks > 1 and used.any()):
                continue
            term = table.term[table.row]
            for side, is_end in ((0, b == 0), (1, b == n_blocks - 1)):
                times = (rarest < b if side == 0 else rarest > b).astype(np.float64)
                if is_end and exact[side]:
                    times += rarest != b
                spent[side] += times[..., None] * term
                n_spent[side] += times * table.used[table.row, None]
        return cls(
            features.n_keys,
            window,
            half,
            np.asarray(density[:n_blocks, :, 0].T <= 1.0),
            rarest,
            two[0],
            _first_of(density),
            two[min(1, n_blocks)],
            transform,
            (spent[0], spent[1]),
            (n_spent[0], n_spent[1]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """A basic block under each set of its conditions that some plan uses: U sets."""

    row: Index
    """Set of each plan, shape (P,)."""
    used: BoolArray
    """Whether the set has any condition, shape (U,)."""
    density: FloatArray
    """Shape (U, S); 2 where the set is empty, so that it is never the rarest."""
    transform: ComplexArray
    term: ComplexArray
    """``1 / (x + z)``, shape (U, S, Z); 0 where the set is empty."""


def _table(features: PlanFeatures, selected: BoolArray, block: int, window: FloatArray) -> _Table:
    members = np.flatnonzero(features.basic_block == block)
    # Conditions of one lookup go together, so 62 of them are more than any block has.
    codes = selected[:, members].astype(np.int64) @ (np.int64(1) << np.arange(len(members)))
    _, first, row = np.unique(codes, return_index=True, return_inverse=True)
    uses = selected[first][:, members].astype(np.float64)
    logs = np.log(np.clip(features.density[:, members], _DENSITY_MIN, _DENSITY_MAX))
    together = uses @ logs.T
    if features.lifts and len(features.lifts[block]):
        together += features.lifts[block][codes[first]][:, None]
    density = np.clip(np.exp(together), _DENSITY_MIN, _DENSITY_MAX)
    used = np.asarray(uses.any(axis=1), dtype=np.bool_)
    x = (_rate(density / features.n_keys) * window)[..., None]
    term: ComplexArray = np.where(used[:, None, None], 1.0 / (x + POINTS), 0.0)
    return _Table(row, used, np.where(used[:, None], density, 2.0), x * term, term)


def _first_of(density: FloatArray) -> FloatArray:
    """Return the density of the first block used, shape (P, S)."""
    first: FloatArray = density[-1]
    for here in density[-2::-1]:
        first = np.where(here <= 1.0, here, first)
    return np.asarray(first)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Probabilities that the other blocks lie within the window, and what they leave of it."""

    of_first: FloatArray
    """Given the first block used, shape (P, S)."""
    distinct: FloatArray
    """Given the rarest, and that it is the nearest of its kind to the rarest of the others."""
    spent: tuple[FloatArray, FloatArray]
    """Expected events of the gaps that shorten an interval on its left and on its right, given
    that all blocks fit."""


def _fit(waits: _Waits) -> _Fit:
    window = waits.window
    alone = waits.next_density > 1.0
    # One block is taken out, 1 + z / x, with its half step; and all is summed up to the window's
    # end, 1 / z, which lies half a step further than whole steps do.
    lag = np.exp(-2.0 * waits.half[:, None] * POINTS)
    summed = lag / POINTS
    rarest = (_rate(waits.rarest_density / waits.n_keys) * window)[..., None]
    first = (_rate(waits.first_density / waits.n_keys) * window)[..., None]
    others = waits.transform * (summed + lag / rarest)
    of_first = invert(waits.transform * (summed + lag / first))
    fits = np.maximum(invert(others), _PROBABILITY_MIN)
    near = (_rate(waits.next_density / waits.n_keys) * window)[..., None]
    # Occurrences of the rarest block without one of the next between them have their candidates in
    # common: only the nearest counts.
    distinct = fits - invert(others * (rarest / (near + rarest + POINTS)))
    spent = [
        np.clip(invert(others * terms) / fits, 0.0, 2.0) * window - n * waits.half * window
        for terms, n in zip(waits.spent, waits.n_spent, strict=True)
    ]
    return _Fit(
        np.where(alone, 1.0, np.clip(of_first, 0.0, 1.0)),
        np.where(alone, 1.0, np.clip(distinct, 0.0, 1.0)),
        (spent[0], spent[1]),
    )


def _rate(density: FloatArray) -> FloatArray:
    return np.asarray(-np.log1p(-np.minimum(density, _DENSITY_MAX)))


def _length(features: PlanFeatures, waits: _Waits, fit: _Fit) -> FloatArray:
    """Return the expected events of an interval.

    The interval ends where the window does that begins (ends) with the nearest candidate on the
    other side; if the pattern's end block is used and fixes the end, at its furthest occurrence in
    there, and at the rarest block itself if that is the pattern's end. By symmetry the furthest
    occurrence is as far from the window's end as the nearest is from the block it waits for.
    """
    lengths = features.block_lengths
    at = waits.rarest
    total = np.ones(at.shape)
    if len(lengths) == 0:
        return total
    offset = np.concatenate(([0], np.cumsum(lengths)))
    sides = (
        (0, features.starts_exact, offset[at], 0),
        (len(lengths) - 1, features.ends_exact, offset[-1] - 1 - offset[at], lengths[-1] - 1),
    )
    for (end, exact, positions, own), spent in zip(sides, fit.spent, strict=True):
        side = np.maximum(positions + (waits.window - 1.0) - spent, 0.0)
        fixed = waits.chosen[:, end : end + 1] & exact & (at == end)
        total += np.where(fixed, float(own), side)
    return total


def _blocks(
    features: PlanFeatures, clumps: FloatArray, length: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return blocks touched, blocks read and stretches, from intervals per event and their length.

    With clumps at random, n neighbouring blocks are all untouched with probability ``c u**n``.
    """
    n = features.segment_blocks
    per_block = features.segment_events / np.maximum(n, 1.0)
    c = np.exp(-clumps * (length - 1.0))
    u = np.exp(-clumps * per_block)
    touched = n * (1.0 - c * u)
    read = touched.copy()
    for run in range(1, features.bridge_blocks + 1):
        read += np.maximum(n - run - 1.0, 0.0) * run * c * u**run * (1.0 - u) ** 2
    apart = features.bridge_blocks + 1
    pieces = features.segment_stretches
    inner = np.maximum(n - apart * np.maximum(pieces, 1.0), 0.0)
    unread = c * u**apart
    stretches = inner * unread * (1.0 - u) + pieces * (1.0 - unread)
    return touched, np.minimum(read, n), np.minimum(stretches, read)
