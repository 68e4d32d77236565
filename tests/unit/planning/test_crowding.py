"""How much fuller windows are that begin at events: known processes, and each window by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.planning.crowding import crowding


def at_random(rate, *, burst=1, n_blocks=8, n_bursts=4000, seed=7):
    """Return times of blocks in which bursts of events come at random, ``rate`` bursts a unit."""
    random = np.random.default_rng(seed)
    return [
        np.repeat(np.cumsum(random.exponential(1e6 / rate, n_bursts)).astype(np.int64), burst)
        for _ in range(n_blocks)
    ]


def by_hand(times, within):
    """Return the ratio, with windows from every event and from every time counted one by one."""
    from_events, from_anywhere = [], []
    for t in times:
        if len(t) < 2 or t[-1] - t[0] < max(2 * within, 1):
            continue
        starts = [i for i in range(len(t)) if t[i] <= t[-1] - within]
        counts = [sum(1 for j in range(i, len(t)) if t[j] <= t[i] + within) for i in starts]
        from_events.append(np.mean(counts))
        # A window that begins at s holds t if s <= t <= s + within: for s on an interval.
        lengths = [max(min(x, t[-1] - within) - max(x - within, t[0]), 0) for x in t]
        from_anywhere.append(1 + sum(lengths) / (t[-1] - within - t[0]))
    return max(sum(from_events) / sum(from_anywhere), 1.0) if from_events else 1.0


@pytest.mark.parametrize("within", [0.1, 1.0, 10.0])
def test_events_that_come_at_random_or_evenly_crowd_no_window(within):
    assert crowding(at_random(5.0), int(within * 1e6)) == pytest.approx(1.0, abs=0.04)
    even = [np.arange(3000, dtype=np.int64) * 1000]
    assert crowding(even, int(within * 1e4)) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("within", [0, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("burst", [2, 5])
def test_bursts_at_random_hold_what_is_behind_an_event_and_what_comes_anyway(burst, within):
    # Of a burst of n events (n + 1) / 2 are at or behind one of them; others come n at a time.
    comes = 0.5 * burst * within
    expected = ((burst + 1) / 2 + comes) / (1 + comes)
    found = crowding(at_random(0.5, burst=burst), int(within * 1e6))
    assert found == pytest.approx(expected, rel=0.05)


def test_rate_that_differs_by_block_is_no_burst():
    slow, fast = at_random(1.0, n_blocks=4), at_random(100.0, n_blocks=4)
    assert crowding([*slow, *fast], 1_000_000) == pytest.approx(1.0, abs=0.05)


def test_nothing_is_told_by_blocks_that_windows_span():
    burst = [np.zeros(10, dtype=np.int64)]
    assert crowding(burst, 0) == 1.0
    assert crowding([], 5) == 1.0
    assert crowding([np.array([0, 0, 0, 9])], 5) == 1.0


@given(
    st.lists(
        st.lists(st.integers(0, 60), max_size=30).map(lambda t: np.array(sorted(t), np.int64)),
        max_size=3,
    ),
    st.integers(0, 20),
    st.sampled_from([0, -(2**61), 2**61, 2**63 - 61, -(2**63)]),
)
def test_few_events_are_counted_window_by_window(times, within, shift):
    expected = by_hand([t.tolist() for t in times], within)
    # At either end of int64 sums and differences would wrap.
    assert crowding([t + shift for t in times], within) == pytest.approx(expected)


@pytest.mark.parametrize("within", [0, 1, 7])
def test_windows_at_both_ends_of_time_do_not_wrap(within) -> None:
    # Bursts of three whose times end with the greatest int64, or begin with the least.
    since = np.array([0, 1, 20, 33, 40])
    for first in (-(2**63), 2**63 - 41):
        times = np.repeat(np.array([first + int(t) for t in since], dtype=np.int64), 3)
        expected = by_hand([np.repeat(since, 3).tolist()], within)
        assert expected > 1.1
        assert crowding([times], within) == pytest.approx(expected)
