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
    # 301 events of a window hold no A with probability 0.99 ** 301; every hundredth event is one.
    found = steps([0.01, 0.3], 300)
    assert found == pytest.approx([1 + 1 * (1 - 0.99**301) + 60 * 0.01], rel=1e-4)
    # How soon they close is told by none of it.
    assert steps([0.01, 0.1], 300, closes_early=True) == found


def test_each_search_tries_all_that_comes_before_the_next_gap():
    # 30.1 As in a window, so there is always one: every B is tried by each.
    tried = 60 * (0.1 + 0.2 * 30.1)
    assert steps([0.1, 0.2, 1e-9], 300) == pytest.approx([1 + 2 + tried], rel=1e-3)
    # With a C after 20 events, 2 As are waiting at a time.
    tried = 60 * (0.1 + 0.2 * 2)
    closed = steps([0.1, 0.2, 0.05], 300, closes_early=True)
    assert closed == pytest.approx([1 + 2 + tried], rel=1e-3)


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
    expected = 1 + 1 * (first + second) + 60 * (0.004 + 0.02 * first)
    assert steps(density, window) == pytest.approx([expected], rel=0.03)


def test_each_segment_has_its_own_steps_and_nothing_known_counts_as_a_tenth():
    unknown = dataclasses.replace(
        features(density=[[0.5, 0.5]] * 2, window=10),
        block_density=np.array([[1.0, 0.5], [1e-12, 0.5]]),
    )
    assert unknown.steps == pytest.approx([1 + 1 + 60 * 0.1, 1.0], rel=1e-4)
