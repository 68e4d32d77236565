"""Features of small queries for tests of the cost model, and a simulation of their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel import PlanFeatures

BLOCK = 100


def features(
    *,
    density: list[float] | list[list[float]],
    window: float,
    lengths: tuple[int, ...] | None = None,
    basic_block: list[int] | None = None,
    lookup: list[int] | None = None,
    starts_exact: bool = True,
    ends_exact: bool = True,
    n_events: int = 200_000,
    events_per_block: int = BLOCK,
    bridge_blocks: int = 0,
    closes_early: bool = False,
) -> PlanFeatures:
    """Return the features of a query over equal segments, one for each row of ``density``.

    ``window`` is the greatest time between first and last event, one event to a unit of time.
    """
    table = np.atleast_2d(np.array(density, dtype=np.float64))
    n_segments, n_conditions = table.shape
    blocks = np.arange(n_conditions) if basic_block is None else np.array(basic_block)
    n_basic = int(blocks.max(initial=-1)) + 1
    block_density = np.ones((n_segments, n_basic))
    np.multiply.at(block_density.T, blocks, table.T)
    lookups = np.arange(n_conditions) if lookup is None else np.array(lookup)
    entries = np.zeros(int(lookups.max(initial=-1)) + 1)
    entries[lookups] = table.mean(axis=0) * n_events
    n_blocks = n_events // events_per_block
    return PlanFeatures(
        n_events=n_events,
        n_blocks=n_blocks,
        n_columns=2,
        n_predicates=n_conditions,
        bridge_blocks=bridge_blocks,
        block_lengths=np.bincount(blocks) if lengths is None else np.array(lengths),
        starts_exact=starts_exact,
        ends_exact=ends_exact,
        basic_block=blocks,
        lookup=lookups,
        lookup_entries=entries,
        segment_events=np.full(n_segments, n_events / n_segments),
        segment_blocks=np.full(n_segments, n_blocks / n_segments),
        segment_stretches=np.eye(n_segments)[0],
        window_events=np.full(n_segments, window + 1.0),
        density=table,
        block_density=block_density,
        closes_early=closes_early,
    )


@dataclass(frozen=True)
class Simulated:
    candidates: int
    share: float
    touched: int
    blocks: int
    stretches: int


def simulate(given: PlanFeatures, selected: list[bool], random: np.random.Generator) -> Simulated:
    """Draw occurrences of each chosen basic block of the first segment and compute what is read.

    Algorithm 3.1 with the corrections of ``docs/planning.md``, one event to a unit of time: for
    each start of the first block the earliest and the latest end of a candidate in the window, its
    interval, the union, the blocks with a part in it, and those read through between them.
    """
    n, window = given.n_events, int(given.window_events[0]) - 1
    lengths = given.block_lengths.tolist()
    rows = sum(lengths)
    first = [sum(lengths[:b]) for b in range(len(lengths))]
    chosen = [b for b in range(len(lengths)) if np.any((given.basic_block == b) & selected)]
    hits = {}
    for b in chosen:
        density = given.density[0][(given.basic_block == b) & selected].prod()
        hits[b] = np.flatnonzero(random.random(n) < density)
    reach = {chosen[-1]: np.arange(len(hits[chosen[-1]]) + 1)}
    for here, behind in zip(chosen[-2::-1], chosen[:0:-1], strict=True):
        at = np.searchsorted(hits[behind], hits[here] + first[behind] - first[here])
        reach[here] = np.append(reach[behind][at], len(hits[chosen[-1]]))
    a, z = chosen[0], chosen[-1]
    starts, ends = hits[a], hits[z] + lengths[z] - 1
    rows_behind = rows - first[z] - lengths[z]
    earliest = reach[a][:-1]
    latest = np.searchsorted(ends, starts + window - first[a] - rows_behind, side="right") - 1
    fits = (earliest < len(ends)) & (earliest <= latest)
    starts, earliest, latest = starts[fits], earliest[fits], latest[fits]
    low = starts if a == 0 and given.starts_exact else ends[earliest] + rows_behind - window
    is_end = z == len(lengths) - 1 and given.ends_exact
    high = ends[latest] if is_end else starts - first[a] + window
    return _read(np.maximum(low, 0), np.minimum(high, n - 1), given)


def _read(low: NDArray[np.int64], high: NDArray[np.int64], given: PlanFeatures) -> Simulated:
    steps = np.zeros(given.n_events + 1, dtype=np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high + 1, -1)
    inside = np.cumsum(steps[:-1]) > 0
    touched = np.flatnonzero(inside.reshape(given.n_blocks, -1).any(axis=1))
    between = np.diff(touched) - 1
    bridged = between[(between > 0) & (between <= given.bridge_blocks)]
    return Simulated(
        len(low),
        float(inside.mean()),
        len(touched),
        len(touched) + int(bridged.sum()),
        (1 if len(touched) else 0) + int(np.count_nonzero(between > given.bridge_blocks)),
    )
