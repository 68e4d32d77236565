"""Events that bound each other in time, in no order: what lies near enough to all others.

A chain of basic blocks within a window is one way to bound events by each other (`intervals`,
`coarse_map`); here each two of them have a least and a greatest distance in time of their own.
Everything is inclusive: of three events each two may lie right and all three not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from chronicle.tree.summary import Leaves
from replay.planning.ascending import lower_bounds, saturating_add
from replay.planning.hits import BlockHits
from replay.planning.key_join import CODES_MAX, in_order_of_keys
from replay.planning.plan import Occurrences
from replay.planning.requirements import Network
from replay.planning.statistics import BoolArray, IntArray

_INT64_MAX: Final = 2**63 - 1


def near_all(hits: Sequence[BlockHits], network: Network, n_events: int) -> tuple[int, IntArray]:
    """Return which of some lists of events is shortest, and those of it that lie near all others.

    Near a list is what has an event of it at a distance that the network allows; where all lists
    have keys, one of the same key.
    """
    rarest = min(range(len(hits)), key=lambda i: len(hits[i].start))
    own = hits[rarest]
    places = np.arange(len(own.start))
    for other in sorted(hits, key=lambda one: len(one.start)):
        if other is not own:
            places = places[_near(own.take(places), other, network, n_events)]
    return rarest, places


def _near(own: BlockHits, other: BlockHits, network: Network, n_events: int) -> BoolArray:
    """Return which events have one of others near them."""
    low, high = network.low[own.first][other.first], network.high[own.first][other.first]
    begin = lower_bounds(other.t_first, saturating_add(own.t_first, low))
    until = saturating_add(own.t_first, high)
    end = np.searchsorted(other.t_first, until, side="right")
    if own.keys is None or other.keys is None:
        return np.asarray(begin < end)
    stripe = n_events + 1
    n_keys = 1 + max(int(keys.max(initial=-1)) for keys in (own.keys, other.keys))
    if n_keys * stripe >= CODES_MAX:
        return np.asarray(begin < end)
    order = in_order_of_keys(other.keys, np.arange(len(other.keys)), n_keys)
    codes = other.keys[order] * stripe + other.start[order]
    seq, base = np.append(other.start, n_events), own.keys * stripe
    return np.asarray(
        np.searchsorted(codes, base + seq[begin]) < np.searchsorted(codes, base + seq[end])
    )


def surviving_blocks(
    network: Network, masks: Sequence[BoolArray | None], t_min: IntArray, t_max: IntArray
) -> BoolArray:
    """Return which blocks, in order of time, rows of a match can lie in.

    ``masks`` says for each position which blocks may hold it, None: all.
    """
    at = {place: np.flatnonzero(mask) for place, mask in enumerate(masks) if mask is not None}
    left = np.ones(len(t_min), dtype=np.bool_)
    if not at:
        return left

    def keep(place: int, other: int) -> None:
        low, high = network.low[place][other], network.high[place][other]
        begin = saturating_add(t_min[at[place]], low)
        until = saturating_add(t_max[at[place]], high)
        to = np.searchsorted(t_max[at[other]], begin)
        first = np.append(t_min[at[other]], _INT64_MAX)[to]
        at[place] = at[place][(to < len(at[other])) & (first <= until)]

    rarest = min(at, key=lambda place: len(at[place]))
    for other in at:
        keep(rarest, other)
    for place in at:
        keep(place, rarest)
        begin = saturating_add(t_min[at[place]], -network.before[place])
        until = saturating_add(t_max[at[place]], network.behind[place])
        n_begun = np.searchsorted(begin, t_max, side="right")
        left &= (n_begun > 0) & (np.append(until, 0)[n_begun - 1] >= t_min)
    return left


def lasting_blocks(network: Network, masks: Sequence[BoolArray | None], t_min: IntArray) -> None:
    """Leave out of each mask blocks of the stream behind which too few admit the position.

    ``t_min`` is the time of each block's first row.

    Why: if its event is at t, all rows that come less than `Network.lasting` later are like it, so
    all blocks that begin by then must hold such a row.
    """
    for place, mask in enumerate(masks):
        if mask is None or not network.lasting[place] or not network.is_whole:
            continue
        n = len(mask)
        refused = np.append(np.where(mask, n, np.arange(n)), n)
        next_refused = np.minimum.accumulate(refused[::-1])[::-1][:n]
        begins = np.append(t_min, _INT64_MAX)[next_refused]
        mask &= begins >= saturating_add(t_min, network.lasting[place])


def starting(
    given: Occurrences, place: int, network: Network, leaves: Leaves, *, is_all: bool
) -> Occurrences:
    """Leave out occurrences in runs that are too short for a position, or behind their first one.

    A run is of occurrences that follow each other; ``is_all`` says whether each of these satisfies
    the position. ``given`` has all that lie where a match can have rows.

    Why: the event of a match is followed by occurrences alone for `Network.lasting`, all of which
    lie where the match has rows. If each occurrence of a run satisfies the position, only the first
    can have none before it that does.
    """
    lasting, silence = network.lasting[place], network.silence
    is_first = is_all and network.is_whole
    is_told = lasting > 0 and (network.is_whole or silence is not None)
    if not len(given.seq) or not (is_told or is_first):
        return given
    order = np.arange(len(given.seq))
    if not network.is_whole and given.keys is not None:
        order = in_order_of_keys(given.keys, order, 1 + int(given.keys.max()))
    seq, t = given.seq[order], given.t[order]
    is_new = np.diff(seq) != 1 if network.is_whole else np.zeros(len(seq) - 1, np.bool_)
    if silence is not None:
        is_new |= np.diff(t) > silence
    if not network.is_whole and given.keys is not None:
        is_new |= np.diff(given.keys[order]) != 0
    begins = np.append(0, np.flatnonzero(is_new) + 1)
    lengths = np.diff(begins, append=len(seq))
    last = begins + lengths - 1
    until = _latest_ends(seq[last], t[last], network, leaves)
    kept = until >= saturating_add(t[begins], lasting)
    if is_first:
        return given.take(begins[kept])
    return given.take(np.sort(order[np.repeat(kept, lengths)]))


def _latest_ends(seq: IntArray, t: IntArray, network: Network, leaves: Leaves) -> IntArray:
    """Return the latest times up to which the last occurrences of runs may hold."""
    until = np.full(len(seq), _INT64_MAX)
    if network.silence is not None:
        until = saturating_add(t, network.silence)
    if network.is_whole:  # up to the row behind
        block = np.searchsorted(leaves.base, seq, side="right") - 1
        is_inside = seq + 1 < leaves.base[block + 1]
        ahead = np.append(leaves.t_min, _INT64_MAX)[block + 1]
        until = np.minimum(until, np.where(is_inside, t + leaves.gap_max[block], ahead))
    return until
