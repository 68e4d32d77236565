"""A stream over time as a chart needs it: how many events when, what was replayed, what was found.

Pure but for the times of found spans, which are read from the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chronicle import Snapshot
from chronicle.describe import spread_events
from chronicle.words import number_of
from replay.engines.evidence import BlocksRead

IntArray = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = list[dict[str, Any]]

BARS_MAX = 240
"""Bars of equal time that a stream is drawn as."""

STRETCHES_MAX = 2_000
"""Replayed stretches drawn; with more, those that lie closest are drawn as one."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Time as the page draws it: milliseconds of UTC, or the numbers of an integer column."""

    is_clock: bool

    def place(self, times: npt.ArrayLike) -> Floats:
        """Return where internal times stand."""
        places = np.asarray(times, np.float64)
        return places / 1e3 if self.is_clock else places


@dataclass(frozen=True, slots=True)
class StreamTimeline:
    """What of a stream was replayed."""

    name: str
    axis: Axis
    first: float
    last: float
    n_blocks: int
    n_read: int
    n_events: int
    bars: Rows
    """Events of bars of equal time: ``from``, ``to``, ``replayed`` and ``skipped``."""
    stretches: Rows
    """What was replayed: ``from``, ``to``, ``blocks``, ``events``."""
    n_stretches: int
    """How many there were before some were drawn as one."""

    @property
    def sentence(self) -> str:
        """What the picture shows."""
        read = f"{self.n_read:,} of {number_of(self.n_blocks, 'block')} were replayed"
        if not self.n_read:
            return f"No block of {self.n_blocks:,} was replayed."
        drawn = ""
        if self.n_stretches > len(self.stretches):
            drawn = f", those that lie closest drawn as one: {len(self.stretches):,}"
        stretches = number_of(self.n_stretches, "stretch", "stretches")
        return f"{read}, in {stretches}{drawn}; {self.n_events:,} events in all."


def timelines(reads: Sequence[BlocksRead]) -> list[StreamTimeline]:
    """Return a timeline for each stream that was read and has events, in the order of reading."""
    by_stream: dict[tuple[str, int], list[BlocksRead]] = {}
    for read in reads:
        by_stream.setdefault((read.snapshot.name, read.snapshot.version), []).append(read)
    return [
        _timeline(parts[0].snapshot, np.unique(np.concatenate([part.blocks() for part in parts])))
        for parts in by_stream.values()
        if parts[0].snapshot.n_blocks
    ]


def _timeline(snapshot: Snapshot, blocks: IntArray) -> StreamTimeline:
    leaves, axis = snapshot.leaves, Axis(snapshot.time_type != "integer")
    is_read: npt.NDArray[np.bool_] = np.zeros(snapshot.n_blocks, np.bool_)
    is_read[blocks] = True
    first, last = int(leaves.t_min[0]), int(leaves.t_max[-1])
    runs = _runs(is_read)
    merged = _merged(runs, leaves.t_min, leaves.t_max)
    begins, ends = (
        axis.place(leaves.t_min[merged[:, 0]]),
        axis.place(leaves.t_max[merged[:, 1] - 1]),
    )
    n_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_read)])
    n_events = np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(np.where(is_read, leaves.count, 0))]
    )
    stretches = [
        {
            "from": begin,
            "to": end,
            "blocks": int(n_before[stop] - n_before[start]),
            "events": int(n_events[stop] - n_events[start]),
        }
        for begin, end, (start, stop) in zip(
            begins.tolist(), ends.tolist(), merged.tolist(), strict=True
        )
    ]
    return StreamTimeline(
        name=snapshot.name,
        axis=axis,
        first=float(axis.place(first)),
        last=float(axis.place(last)),
        n_blocks=snapshot.n_blocks,
        n_read=len(blocks),
        n_events=snapshot.n_events,
        bars=_bars(snapshot, is_read, axis),
        stretches=stretches,
        n_stretches=len(runs),
    )


def _bars(snapshot: Snapshot, is_read: npt.NDArray[np.bool_], axis: Axis) -> Rows:
    """Return how many events of bars of equal time were replayed, and how many were not."""
    leaves = snapshot.leaves
    first, end = int(leaves.t_min[0]), int(leaves.t_max[-1]) + 1
    n_bars = min(BARS_MAX, end - first)
    edges = first + (end - first) * np.arange(n_bars + 1, dtype=object) // n_bars
    replayed, skipped = (
        spread_events(leaves.t_min, leaves.t_max, np.where(chosen, leaves.count, 0), edges)
        for chosen in (is_read, ~is_read)
    )
    places = axis.place(edges.astype(np.float64)).tolist()
    return [
        {"from": places[i], "to": places[i + 1], "replayed": round(r, 1), "skipped": round(s, 1)}
        for i, (r, s) in enumerate(zip(replayed.tolist(), skipped.tolist(), strict=True))
    ]


def _runs(mask: npt.NDArray[np.bool_]) -> IntArray:
    """Return the half-open ranges where a mask holds, shape (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64)


def _merged(runs: IntArray, t_min: IntArray, t_max: IntArray) -> IntArray:
    """Return at most `STRETCHES_MAX` ranges: those with the least time between become one."""
    if len(runs) <= STRETCHES_MAX:
        return runs
    gaps = t_min[runs[1:, 0]] - t_max[runs[:-1, 1] - 1]
    widest = np.sort(np.argsort(-gaps, kind="stable")[: STRETCHES_MAX - 1])
    begins = runs[np.concatenate(([0], widest + 1)), 0]
    ends = runs[np.concatenate((widest, [len(runs) - 1])), 1]
    return np.stack((begins, ends), axis=1)
