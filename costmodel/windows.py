"""Cost of windowed aggregation: by replay, and by the tree in both ways of thesis 3.3.1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate

BREAK_EVEN_STEPS: Final = 60
"""Bisections of the logarithm of the slide; each halves the error."""


@dataclass(frozen=True, slots=True)
class WindowFeatures:
    """A windowed aggregation over one stream."""

    n_events: float
    """Events of the stream."""
    n_blocks: float
    """Blocks of the stream."""
    replay_events: float
    """Events that a replay reads."""
    replay_blocks: float
    """Blocks that a replay reads."""
    read_blocks: float
    """Blocks that the tree needs read: cut by a border of a window, or passing WHERE in part."""
    whole_blocks: float
    """Blocks of which the tree takes summaries, as nodes or one by one."""
    n_windows: float
    n_slices: float
    """Stretches between neighbouring borders."""
    n_columns: int
    """Columns that a replay reads."""
    n_columns_cut: int
    """Columns that are read of the blocks the tree needs."""
    n_attributes: int
    """Columns that are aggregated."""
    n_predicates: int
    """Conditions evaluated on each event that is read."""
    fan_out: int
    """Entries aggregated by one entry of the tree's next level."""
    n_levels: int
    """Levels of the tree, the blocks' own the lowest."""


def estimate_replay(features: WindowFeatures, parameters: CostParameters) -> Estimate:
    """Return what a replay is expected to take: one step per event, as thesis 3.3.2 has it."""
    f, p = features, parameters
    cost = (
        p.seek_s
        + p.block_s * f.replay_blocks
        + (_event_s(f, p, f.n_columns) + p.pane_s) * f.replay_events
        + _merging_s(f, p)
    )
    return Estimate(cost, f.replay_blocks, 0.0, _share(f.replay_events, f), 0.0)


def estimate_tree(features: WindowFeatures, parameters: CostParameters) -> Estimate:
    """Return what the tree is expected to take where every slice is made once."""
    f, p = features, parameters
    read_events = f.read_blocks * _per_block(f)
    nodes = f.n_slices * nodes_per_slice(f)
    cost = (
        p.seek_s * _jumps(f)
        + p.block_s * f.read_blocks
        + _event_s(f, p, f.n_columns_cut) * read_events
        + p.cut_s * f.n_slices
        + p.node_s * nodes * max(f.n_attributes, 1)
        + _merging_s(f, p)
    )
    return Estimate(cost, f.read_blocks, 0.0, _share(read_events, f), 0.0)


def estimate_naive(features: WindowFeatures, parameters: CostParameters) -> Estimate:
    """Return what the tree is expected to take where it is asked for every window by itself."""
    f, p = features, parameters
    # Each border is that of two windows, and each window reads the blocks at its ends anew.
    reads = 2.0 * f.n_windows * min(1.0, f.read_blocks / max(f.n_slices, 1.0))
    read_events = reads * _per_block(f)
    overlapping = max(f.n_windows / max(f.n_slices, 1.0), 1.0)
    whole = f.whole_blocks / max(f.n_slices, 1.0) * overlapping
    nodes = f.n_windows * merges(whole, f.fan_out, f.n_levels)
    cost = (
        p.ask_s * f.n_windows
        + (p.seek_s + p.block_s) * reads
        + _event_s(f, p, f.n_columns_cut) * read_events
        + p.node_s * nodes * max(f.n_attributes, 1)
        + _merging_s(f, p)
    )
    return Estimate(cost, reads, 0.0, _share(min(read_events, f.n_events), f), 0.0)


def nodes_per_slice(features: WindowFeatures) -> float:
    """Return how many entries of the tree make up a slice."""
    leaves = features.whole_blocks / max(features.n_slices, 1.0)
    return merges(leaves, features.fan_out, features.n_levels)


def merges(leaves: float, fan_out: int, n_levels: int) -> float:
    """Return how many entries of the tree are merged for a stretch of so many whole leaves.

    ``leaves`` may be a mean, below 1.

    Notes
    -----
    Cases (2) and (3) of thesis 3.3.2, whose case (4), the leaf level, here are blocks that are
    read. The level at which the path splits is clamped: unclamped, it is below the leaves for
    stretches of less than one leaf, and the formula turns negative. Case (1), the path above
    the split, merges nothing here: nodes are found by their positions.
    """
    if leaves <= 1.0:
        return max(leaves, 0.0)
    split = min(max(0, math.ceil(math.log(leaves, fan_out))), n_levels)
    at_split = math.ceil(leaves / float(fan_out) ** (split - 1)) if split else 0
    return float(min(at_split + max(0, split - 1) * fan_out, leaves))


def break_even_slide(
    features_at: Callable[[float], WindowFeatures], longest: float, parameters: CostParameters
) -> float | None:
    """Return the slide, at least 1, from which on the tree is expected to be cheaper than a replay.

    ``features_at`` tells the query with another slide. None if the tree is not cheaper even at the
    longest slide: its cost falls as slides grow.
    """

    def wins(slide: float) -> bool:
        features = features_at(slide)
        replayed = estimate_replay(features, parameters)
        return estimate_tree(features, parameters).cost < replayed.cost

    if not wins(longest):
        return None
    low, high = 0.0, math.log(max(longest, 1.0))
    if wins(1.0):
        return 1.0
    for _ in range(BREAK_EVEN_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if wins(math.exp(middle)) else (middle, high)
    return math.exp(high)


def with_slide(
    features: WindowFeatures, slide: float, size: float, *, length: float, divides: bool
) -> WindowFeatures:
    """Return what is expected of the same query with another slide over evenly spaced events.

    ``slide`` and ``size`` of the windows have the unit of ``length``, from the first event to the
    last. Unless the slide shall be taken to divide the size, each window has borders of its own
    (thesis 3.3.3).
    """
    n_windows = (length + size) / slide
    n_borders = max(n_windows * (1.0 if divides else 2.0), 1.0)
    cuts = min(n_borders, features.n_blocks) * _read_share(features)
    partly = max(0.0, features.read_blocks - min(features.n_slices, features.n_blocks))
    read = min(cuts + partly, features.n_blocks)
    return replace(
        features,
        n_windows=n_windows,
        n_slices=n_borders,
        read_blocks=read,
        whole_blocks=max(features.whole_blocks + features.read_blocks - read, 0.0),
    )


def _read_share(features: WindowFeatures) -> float:
    """Return the share of blocks that a cut makes to be read: none of those WHERE rules out."""
    return min(1.0, (features.read_blocks + features.whole_blocks) / max(features.n_blocks, 1.0))


def _event_s(features: WindowFeatures, parameters: CostParameters, n_columns: int) -> float:
    """Return the seconds that an event takes which is read."""
    return (
        parameters.value_s * n_columns
        + parameters.predicate_s * features.n_predicates
        + parameters.fold_s * features.n_attributes
    )


def _merging_s(features: WindowFeatures, parameters: CostParameters) -> float:
    """Return the seconds of merging slices to windows: the same whatever made the slices."""
    steps = features.n_slices + features.n_windows
    return parameters.merge_s * steps * max(features.n_attributes, 1)


def _jumps(features: WindowFeatures) -> float:
    """Return how often reading begins elsewhere: never oftener than there are blocks between."""
    return max(1.0, min(features.read_blocks, features.whole_blocks + 1.0))


def _per_block(features: WindowFeatures) -> float:
    return features.n_events / max(features.n_blocks, 1.0)


def _share(events: float, features: WindowFeatures) -> float:
    return min(events / max(features.n_events, 1.0), 1.0)
