"""Candidates that agree on the key: the sweep of one partition at a time, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from replay.planning.ascending import lower_bounds
from replay.planning.hits import BlockHits
from replay.planning.requirements import Requirements
from replay.planning.statistics import BoolArray, IntArray

CODES_MAX: Final = 2**62
"""Key number and ``seq`` are told by one integer below this; with more, keys are not told apart."""

COUNTED_MIN: Final = 2048
"""Below this many entries a general sort costs microseconds, and needs no compiler loaded."""


def tells_keys(required: Requirements, key: str | None) -> bool:
    """Return whether all rows of a match have one value of the stream's key column, or none.

    Then only events of the keys that candidates have need be matched, even if the candidates are
    of one position.
    """
    return key in required.agreeing


def link_by_key(
    hits: Sequence[BlockHits], n_events: int, in_time: IntArray | None
) -> tuple[IntArray, IntArray, IntArray] | None:
    """Return the starts that have an end of their own key, with the earliest and latest such end.

    ``hits`` are two or more basic blocks in order, with the numbers of their keys, from 0, dense;
    ``in_time`` tells for each start how many hits of the last block the window in time reaches,
    None: all. Starts and ends are positions in the hits of the first and last block, starts in no
    order. None if there are so many keys and events that one integer cannot hold both.

    Notes
    -----
    Hits are put in order of (key, ``seq``), where those of one key are one after the other and the
    chain of the sweep applies as it is. O(n) with a counting sort; only hits of keys that every
    block has are sorted.
    """
    keys = [np.asarray(block.keys) for block in hits]
    stripe = n_events + max(block.stop for block in hits) + 1
    shared = _shared(keys)
    if len(shared) * stripe >= CODES_MAX:
        return None
    orders = [_order(of_block, shared) for of_block in keys]
    codes = [
        of_block[order] * stripe + block.start[order]
        for of_block, order, block in zip(keys, orders, hits, strict=True)
    ]
    n_last = len(orders[-1])
    earliest = np.arange(n_last)
    for i in reversed(range(len(hits) - 1)):
        following = lower_bounds(codes[i + 1], codes[i] + (hits[i + 1].first - hits[i].first))
        earliest = np.append(earliest, n_last)[following]
    of_start = keys[0][orders[0]]
    bound = np.full(len(of_start), stripe - 1)
    if in_time is not None:
        reached = in_time[orders[0]]
        bound = np.append(hits[-1].start, -1)[reached - 1]
    latest = lower_bounds(codes[-1], of_start * stripe + bound + 1) - 1
    # What followed of a later key only lies behind every end of the start's own key.
    found = np.flatnonzero(earliest <= latest)
    return orders[0][found], orders[-1][earliest[found]], orders[-1][latest[found]]


def _shared(keys: Sequence[IntArray]) -> BoolArray:
    """Return which key numbers every block has."""
    n_keys = 1 + max(int(of_block.max(initial=-1)) for of_block in keys)
    shared = np.ones(n_keys, dtype=np.bool_)
    for of_block in keys:
        present = np.zeros(n_keys, dtype=np.bool_)
        present[of_block] = True
        shared &= present
    return shared


def _order(keys: IntArray, shared: BoolArray) -> IntArray:
    """Return the positions of shared keys in order of key, then of position."""
    return in_order_of_keys(keys, np.flatnonzero(shared[keys]), len(shared))


def in_order_of_keys(keys: IntArray, places: IntArray, n_keys: int) -> IntArray:
    """Return ``places`` in order of the keys there, which are below ``n_keys``; stable."""
    if len(places) < COUNTED_MIN:
        return places[np.argsort(keys[places], kind="stable")]
    from replay.planning.kernels import order_by_key

    ordered: IntArray = order_by_key(keys, places, n_keys)
    return ordered
