"""Conditions that hold together more often, or less, than by chance, as a sample shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.features import PlanFeatures
from replay.planning.plan import Condition
from replay.planning.sampling import SampleEvents

JOINED_MAX: Final = 12
"""Conditions of one basic block up to which all their sets are counted (4,096)."""

CHANCE_Z: Final = 2.0
"""Standard deviations that are taken for chance; what is three or more off is mostly believed."""


def with_lifts(
    features: PlanFeatures,
    conditions: Sequence[Condition],
    blocks: Sequence[tuple[int, int]],
    segment: IntArray,
    events: SampleEvents,
) -> PlanFeatures:
    """Return the features with what a sample shows of conditions of one basic block together.

    Pure; the same object where nothing differs from chance. Thesis (3.2) multiplies selectivities;
    in real data a large order is hardly ever a trade, and a fast aircraft is high. All sets of a
    block's conditions are counted in one pass, so a plan can be found to be good that nobody would
    have estimated to be.

    Parameters
    ----------
    features
        What is known without the sample.
    conditions
        Those of ``features``, in their order.
    blocks
        The pattern's basic blocks as half-open ranges of positions.
    segment
        Segment of each block of the stream, shape (n_blocks,).
    events
        The sample, in which every condition has been evaluated that can be.
    """
    if np.bincount(features.basic_block, minlength=1).max(initial=0) < 2:
        return features
    n_events = _sampled_events(features, segment, events)
    lifts: list[FloatArray] = []
    density = features.block_density.copy()
    for block, (first, _) in enumerate(blocks):
        members = np.flatnonzero(features.basic_block == block)
        own = [conditions[i] for i in members.tolist()]
        if not 2 <= len(own) <= JOINED_MAX or not events.tells(own):
            lifts.append(np.empty(0))
            continue
        logs = np.log(np.maximum(features.density[:, members], 1e-15))
        lift = _lifts(_counts(events, own, first), logs, n_events)
        lifts.append(lift)
        density[:, block] *= np.exp(lift[-1])
    if not any(lift.any() for lift in lifts):
        return features
    return replace(features, lifts=tuple(lifts), block_density=np.minimum(density, 1.0))


def _sampled_events(features: PlanFeatures, segment: IntArray, events: SampleEvents) -> FloatArray:
    """Return how many events of the sample each segment has, shape (n_segments,)."""
    sample = events.sample
    read = np.concatenate([np.arange(a, b) for a, b in sample.read.tolist()])
    inside = events.place >= 0
    count = events.leaves.count[inside].astype(np.float64)
    known = segment[read] >= 0
    n_segments = len(features.segment_events)
    per_segment = np.bincount(segment[read][known], weights=count[known], minlength=n_segments)
    return np.asarray(per_segment, dtype=np.float64)


def _counts(events: SampleEvents, conditions: Sequence[Condition], first: int) -> FloatArray:
    """Return how often all conditions of each set hold at one place, shape (2**k,)."""
    code = np.zeros(events.n_events, dtype=np.int32)
    for bit, condition in enumerate(conditions):
        start = events.occurrences[condition.lookup].seq - (condition.position - first)
        code[start[start >= 0]] |= 1 << bit
    counts = np.bincount(code, minlength=1 << len(conditions)).astype(np.float64)
    for bit in range(len(conditions)):
        # Those of a set hold as well wherever those of a larger one do.
        halves = counts.reshape(-1, 2, 1 << bit)
        halves[:, 0] += halves[:, 1]
    return counts


def _lifts(counts: FloatArray, logs: FloatArray, n_events: FloatArray) -> FloatArray:
    """Return the logarithm of how many times as often each set holds as by chance, shape (2**k,).

    A set is compared with what is expected of it once the set without one of its conditions is
    known: of all such, the one that differs most from chance. So what the sample shows of pairs
    goes on to sets too rare to be seen in it.
    """
    n = len(counts)
    k = logs.shape[1]
    members = ((np.arange(n)[:, None] >> np.arange(k)) & 1).astype(np.bool_)
    by_chance = np.exp(members @ logs.T) @ n_events
    lift = np.zeros(n)
    for places in _by_size(members):
        # Of each set, the sets without one of its conditions.
        smaller = places[:, None] ^ (members[places] << np.arange(k))
        known = np.where(members[places], lift[smaller], 0.0)
        from_parts = known[np.arange(len(places)), np.abs(known).argmax(axis=1)]
        expected = by_chance[places] * np.exp(from_parts)
        lift[places] = from_parts + _log_ratio(counts[places], expected)
        most = np.where(members[places], np.log(by_chance[smaller]) + known, np.inf).min(axis=1)
        lift[places] = np.minimum(lift[places], most - np.log(by_chance[places]))
    return lift


def _by_size(members: BoolArray) -> list[IntArray]:
    size = members.sum(axis=1)
    return [np.flatnonzero(size == n) for n in range(2, int(size.max()) + 1)]


def _log_ratio(found: FloatArray, expected: FloatArray) -> FloatArray:
    """Return the logarithm of found by expected; 0 as far as chance explains the difference."""
    z = (found - expected) / np.sqrt(expected + 1.0)
    beyond = 1.0 - np.minimum((CHANCE_Z / np.maximum(np.abs(z), 1e-9)) ** 2, 1.0)
    return np.asarray(beyond * np.log((found + 1.0) / (expected + 1.0)))
