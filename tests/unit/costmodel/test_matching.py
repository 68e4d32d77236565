"""The matcher's steps per event, by hand and against simulation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.unit.costmodel.cases import features


def steps(density, window, **given):
    return features(density=density, window=window, **given).steps.tolist()


def test_pattern_without_gaps_takes_one_step():
    assert steps([0.3], 300) == [1.0]


def test_without_a_window_searches_cost_nothing_further():
    assert steps([0.3, 0.2, 0.1], np.inf) == [1.0]


def test_searches_that_begin_and_events_in_their_windows_are_counted():
    # 301 events of a window hold no A with probability 0.99 ** 301; every hundredth event is one,
    # and a B follows each. With every match closed after 1 / 0.3 events, that much fewer begin.
    waiting = 1 * (1 - 0.99**301) + 10 * 0.01
    assert steps([0.01, 0.3], 300) == pytest.approx([1 + waiting + 60 * 0.01], rel=1e-4)
    closed = steps([0.01, 0.3], 300, closes_early=True)
    assert closed == pytest.approx([1 + waiting + 60 * 0.01 / (1 + 0.01 / 0.3)], rel=1e-4)


def test_search_whose_window_lacks_the_last_block_tries_nothing():
    assert steps([0.1, 0.2, 1e-9], 300) == pytest.approx([1 + 2 + 10 * 0.1], rel=1e-3)


def test_each_search_tries_all_that_comes_before_the_next_gap():
    # A C comes after 20 events, and 4 of them are a B: tried are the A and 4 Bs.
    tried = 60 * 0.1 * (1 + 0.2 * 20)
    assert steps([0.1, 0.2, 0.05], 300) == pytest.approx([1 + 2 + 10 * 0.1 + tried], rel=1e-3)
    # 5 events to the B and 20 to the C, in which no other search begins.
    closed = steps([0.1, 0.2, 0.05], 300, closes_early=True)
    assert closed == pytest.approx([1 + 2 + 10 * 0.1 + tried / (1 + 0.1 * 25)], rel=1e-3)


def test_search_gets_behind_the_second_gap_only_in_order():
    random, n, window = np.random.default_rng(4), 400_000, 100
    density = [0.004, 0.02, 0.5]
    a, b = (np.flatnonzero(random.random(n) < d) for d in density[:2])
    # Looking back from an event: the last B, then the last A before it, within the window.
    event = np.arange(2 * window, n)
    last_b = b[np.maximum(np.searchsorted(b, event) - 1, 0)]
    last_a = a[np.maximum(np.searchsorted(a, last_b) - 1, 0)]
    second = float(np.mean(event - last_a <= window))
    first = float(np.mean(event - a[np.maximum(np.searchsorted(a, event) - 1, 0)] <= window))
    # Looking ahead from an event: the next B, then the next C, each second event, within it.
    ahead = np.arange(n - 3 * window)
    next_b = b[np.searchsorted(b, ahead, side="right")]
    next_c = next_b + random.geometric(density[2], len(ahead))
    complete = float(np.mean(next_c - ahead <= window))
    # A C comes before a second B: one of each is tried.
    expected = 1 + 1 * (first + second) + 0.004 * (10 + 60 * 2 * complete)
    assert steps(density, window) == pytest.approx([expected], rel=0.03)


def test_each_segment_has_its_own_steps_and_nothing_known_counts_as_a_tenth():
    unknown = dataclasses.replace(
        features(density=[[0.5, 0.5]] * 2, window=10),
        block_density=np.array([[1.0, 0.5], [1e-12, 0.5]]),
    )
    complete = 1 - 0.5**11
    assert unknown.steps == pytest.approx([1 + 1 + 0.1 * (10 + 60 * complete), 1.0], rel=1e-4)
