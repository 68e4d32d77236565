"""Events bound by distances in time: what is kept, against a look at all combinations."""

from __future__ import annotations

import math
from itertools import pairwise, product
from random import Random

import numpy as np
from hypothesis import given

from chronicle.tree.summary import Leaves
from replay.planning.hits import BlockHits
from replay.planning.network import lasting_blocks, near_all, starting, surviving_blocks
from replay.planning.plan import Occurrences
from replay.planning.requirements import Network
from tests.window_cases import seeds

N_EVENTS = 30


def some_network(random: Random, n: int) -> Network:
    low = [[0] * n for _ in range(n)]
    high = [[0] * n for _ in range(n)]
    for i, j in product(range(n), repeat=2):
        if i < j:
            low[i][j], high[i][j] = sorted((random.randint(-9, 9), random.randint(-9, 9)))
            low[j][i], high[j][i] = -high[i][j], -low[i][j]
    lasting = tuple(random.choice((0, 1, 2, 3)) for _ in range(n))
    bounds = (tuple(random.randint(0, 5) for _ in range(n)) for _ in range(2))
    return Network(tuple(map(tuple, low)), tuple(map(tuple, high)), *bounds, lasting)


def some_events(random: Random, n: int) -> tuple[list[int], list[list[int]], list[int]]:
    """Return times, which events there are of each position, and keys."""
    times = np.cumsum([random.choice((0, 0, 1, 1, 1, 2, 7)) for _ in range(N_EVENTS)]).tolist()
    events = []
    for _ in range(n):
        at, size = random.randrange(N_EVENTS - 9), random.randint(1, 9)
        events.append(
            random.choice((list(range(at, at + size)), random.sample(range(N_EVENTS), size)))
        )
    events = [sorted(one) for one in events]
    return times, events, [random.randrange(2) for _ in range(N_EVENTS)]


def is_near(network: Network, i: int, j: int, distance: int) -> bool:
    return network.low[i][j] <= distance <= network.high[i][j]


@given(seeds)
def test_kept_is_what_has_an_event_of_each_other_list_near_it(random: Random) -> None:
    n = random.randint(1, 3)
    network = some_network(random, n)
    times, events, keys = some_events(random, n)
    has_keys = random.random() < 0.5
    t, key, seq = np.array(times), np.array(keys), [np.array(one) for one in events]
    hits = [
        BlockHits(i, i + 1, i, i, s, t[s], t[s], key[s] if has_keys else None)
        for i, s in enumerate(seq)
    ]
    rarest, places = near_all(hits, network, N_EVENTS)
    assert len(events[rarest]) == min(map(len, events))
    kept = [
        a
        for a in events[rarest]
        if all(
            any(
                is_near(network, rarest, i, times[b] - times[a])
                and (not has_keys or keys[a] == keys[b])
                for b in other
            )
            for i, other in enumerate(events)
            if i != rarest
        )
    ]
    assert seq[rarest][places].tolist() == kept


@given(seeds)
def test_rows_of_every_combination_lie_in_the_blocks_that_survive(random: Random) -> None:
    n, size = random.randint(1, 3), random.randint(1, 4)
    network = some_network(random, n)
    times, events, _ = some_events(random, n)
    first = np.arange(0, N_EVENTS, size)
    t = np.array(times)
    t_min, t_max = t[first], t[np.minimum(first + size, N_EVENTS) - 1]
    masks: list = [np.bincount(np.array(one) // size, minlength=len(first)) > 0 for one in events]
    if random.random() < 0.3:
        masks[random.randrange(n)] = None
    for mask in masks:
        if mask is not None:
            mask |= np.array([random.random() < 0.1 for _ in first])  # admitted, but not there
    lasting_blocks(network, masks, t_min)
    survive = surviving_blocks(network, masks, t_min, t_max)
    for chosen in product(*events):
        at = [times[event] for event in chosen]
        if not all(is_near(network, i, j, at[j] - at[i]) for i, j in product(range(n), repeat=2)):
            continue
        if not all(
            event in events[i]
            for i in range(n)
            for event in range(chosen[i], N_EVENTS)
            if times[event] < at[i] + network.lasting[i]
        ):
            continue
        low = max(a - b for a, b in zip(at, network.before, strict=True))
        high = min(a + b for a, b in zip(at, network.behind, strict=True))
        # What every position says of the match's rows holds.
        inside = (t_max >= low) & (t_min <= high)
        assert survive[inside].all()


def leaves_of(times: list[int], size: int) -> Leaves:
    first = np.arange(0, len(times), size)
    parts = [np.array(times[at : at + size]) for at in first]
    count = np.array([len(part) for part in parts])
    gaps = [np.diff(part) for part in parts]
    none = np.zeros(len(parts), np.int32)
    return Leaves(
        count=count,
        base=np.append(0, np.cumsum(count)),
        t_min=np.array([part[0] for part in parts]),
        t_max=np.array([part[-1] for part in parts]),
        gap_min=np.array([min(gap.tolist(), default=-1) for gap in gaps]),
        gap_max=np.array([max(gap.tolist(), default=-1) for gap in gaps]),
        file=none,
        row_group=none,
    )


@given(seeds)
def test_what_begins_a_run_that_lasts_is_kept(random: Random) -> None:
    times, (found,), keys = some_events(random, 1)
    silence = random.choice((None, 1, 3))
    is_whole, is_all = random.random() < 0.5, random.random() < 0.5
    lasting = random.choice((0, 2, 5))
    none = ((0,),)
    network = Network(none, none, (0,), (0,), (lasting,), silence, is_whole)
    seq = np.array(found)
    given_ = Occurrences(seq, np.array(times)[seq], None if is_whole else np.array(keys)[seq])
    leaves = leaves_of(times, random.randint(1, 4))
    kept = set(starting(given_, 0, network, leaves, is_all=is_all).seq.tolist())
    assert kept <= set(found)
    true = found if is_all else [event for event in found if random.random() < 0.8]
    for key in {0} if is_whole else set(keys):
        own = [event for event in range(N_EVENTS) if is_whole or keys[event] == key]
        holds = [event in true for event in own]
        is_near = [False] + [
            silence is None or times[b] - times[a] <= silence for a, b in pairwise(own)
        ]
        for place, event in enumerate(own):
            if not holds[place] or (is_near[place] and holds[place - 1]):
                continue
            end = place  # the last of the run
            while end + 1 < len(own) and holds[end + 1] and is_near[end + 1]:
                end += 1
            until = math.inf if end + 1 == len(own) else times[own[end + 1]]
            until = min(until, math.inf if silence is None else times[own[end]] + silence)
            assert event in kept or until - times[event] < lasting


def test_of_a_run_only_the_first_is_kept_and_none_of_a_short_one() -> None:
    times = [*range(10), *range(20, 30)]
    found = np.array([1, 2, 3, 4, 12, 13, 17, 18, 19])
    given_ = Occurrences(found, np.array(times)[found])
    network = Network(((0,),), ((0,),), (0,), (0,), (3,))
    kept = starting(given_, 0, network, leaves_of(times, 10), is_all=True)
    # From 1 to 5; from 22 to 24 is too short; from 27 on it may go on.
    assert kept.seq.tolist() == [1, 17]
    kept = starting(given_, 0, network, leaves_of(times, 10), is_all=False)
    assert kept.seq.tolist() == [1, 2, 3, 4, 17, 18, 19]
