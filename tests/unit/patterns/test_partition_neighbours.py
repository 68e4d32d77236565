"""Rows beside those replayed: which neighbours lie where, against a look at every row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.parameters import DEFAULT_PARAMETERS
from replay.engines.partition_rows import Beside, NeighbourCosts, settle
from replay.patterns.partition_neighbours import split_by_stretch

LOOKS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]], list[bool]]:
    """Keys of events, stretches of events with a hole between any two, which are replayed."""
    keys = draw(st.lists(st.integers(0, 3), min_size=1, max_size=30))
    cuts = sorted(draw(st.sets(st.integers(0, len(keys)), max_size=6)))
    stretches = list(zip(cuts[::2], cuts[1::2], strict=False))
    chosen = draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))
    replayed = [
        chosen[i] and any(low <= i < high for low, high in stretches) for i in range(len(keys))
    ]
    return keys, stretches, replayed


def beside_by_hand(keys, stretches, replayed, looks) -> set[tuple[int, int]]:
    """Return stretch and row of all neighbours of rows replayed that are not replayed there."""
    found = set()
    for number, (low, high) in enumerate(stretches):
        for i in range(low, high):
            if not replayed[i]:
                continue
            own = [j for j, key in enumerate(keys) if key == keys[i]]
            at = own.index(i)
            near = [*own[max(0, at - looks[0]) : at], *own[at + 1 : at + 1 + looks[1]]]
            found |= {(number, j) for j in near if not (low <= j < high and replayed[j])}
    return found


@given(streams(), LOOKS, st.integers(1, 4), st.booleans())
def test_neighbours_are_found_however_far_one_has_to_look(stream, looks, step, is_told) -> None:
    keys, stretches, replayed = stream
    if is_told:
        replayed = [any(a <= i < b for a, b in stretches) for i in range(len(keys))]
    n = len(keys)
    edges = np.array(stretches, np.int64).reshape(-1, 2)
    sought = {keys[i] for i in range(n) if replayed[i]}
    rows = [
        (keys[i], i, number)
        for number, (low, high) in enumerate(stretches)
        for i in range(low, high)
        if keys[i] in sought
    ]
    rows.sort()
    key, seq, stretch = np.array(rows, np.int64).reshape(-1, 3).T
    mask = None if is_told else np.array([replayed[i] for _, i, _ in rows], np.bool_)
    beside, wanted = split_by_stretch((key, seq, stretch), mask, looks, edges)
    parts = [beside]
    low, high = edges.T.copy()
    for _ in range(n + 2):
        known = [k * (n + 1) + i for i, k in enumerate(keys) if (low <= i).any()]
        reach = low[wanted.stretch], high[wanted.stretch]
        is_met, found = settle(wanted, np.array(sorted(known), np.int64), reach, n)
        parts.append(found)
        wanted = wanted.take(~is_met)
        low, high = np.maximum(low - step, 0), np.minimum(high + step, n)
    assert not len(wanted.key)
    whole = Beside.of(
        np.concatenate([part.stretch for part in parts]),
        np.concatenate([part.seq for part in parts]),
    )
    found = list(zip(whole.stretch.tolist(), whole.seq.tolist(), strict=True))
    assert found == sorted(beside_by_hand(keys, stretches, replayed, looks))


def test_nothing_is_sought_where_nothing_is_replayed() -> None:
    none = np.empty(0, np.int64)
    beside, wanted = split_by_stretch((none, none, none), None, (1, 1), np.empty((0, 2), np.int64))
    assert len(beside.seq) == len(wanted.key) == 0
    assert beside.rows(0, 5).tolist() == []


def test_rows_beside_several_stretches_are_read_once() -> None:
    beside = Beside.of(np.array([1, 0, 1, 0, 2]), np.array([7, 9, 3, 7, 1]))
    assert beside.stretch.tolist() == [0, 0, 1, 1, 2]
    assert beside.rows(0, 2).tolist() == [3, 7, 9]
    assert beside.rows(2, 3).tolist() == [1]


@pytest.mark.parametrize("is_indexed", [True, False])
def test_reason_names_the_index_that_would_help(is_indexed: bool) -> None:
    prices = NeighbourCosts(1e-3, 2e-3, 0.01, 0.05, DEFAULT_PARAMETERS)
    assert prices.left_s == pytest.approx(0.04)
    reason = prices.why_not(12, 0.06, "k", is_indexed=is_indexed)
    assert "60 ms or more to find in 12 further blocks" in reason
    assert ("an index on k would tell" in reason) is not is_indexed


def test_a_search_whose_end_is_unknown_may_cost_what_no_plan_may_lose_more_than() -> None:
    # A tenth of the full replay and 8 of the 10 ms; at most what makes it dearer than that replay.
    assert NeighbourCosts(1e-3, 2e-3, 0.01, 0.05, DEFAULT_PARAMETERS).risk_s == pytest.approx(0.013)
    assert NeighbourCosts(1e-3, 2e-3, 0.045, 0.05, DEFAULT_PARAMETERS).risk_s == pytest.approx(
        0.005
    )
    named = NeighbourCosts(1e-3, 2e-3, 0.01, math.inf, DEFAULT_PARAMETERS)
    assert named.risk_s == math.inf
