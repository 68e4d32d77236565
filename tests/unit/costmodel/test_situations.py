"""Costs of orders of situations, calculated by hand: thesis section 5.5.4."""

from __future__ import annotations

from math import log2

import pytest

from costmodel.situations import SELECTIVITY, Joins, order_cost

# A starts B AND B before C, a hundred of each.
STARTS, BEFORE = 0.0049, 0.445
JOINS = Joins(
    (100.0, 100.0, 100.0),
    ({1: STARTS}, {0: STARTS, 2: BEFORE}, {1: BEFORE}),
)
FIND = 4 * log2(100)


def test_all_relations_together_hold_for_all_pairs() -> None:
    assert len(SELECTIVITY) == 13
    assert sum(SELECTIVITY.values()) == pytest.approx(1.0)


def test_each_partial_result_pays_its_search() -> None:
    """49 pairs of A and B, 2,180.5 matches; the other way round 4,450 pairs of B and C."""
    assert order_cost((0, 1, 2), JOINS) == pytest.approx(100 * FIND + 49 + 49 * FIND + 2180.5)
    assert order_cost((2, 1, 0), JOINS) == pytest.approx(100 * FIND + 4450 + 4450 * FIND + 2180.5)
    # A and C are not related: nothing is searched for, and every pair is a partial result.
    unrelated = 10_000 + 10_000 * 2 * FIND + 2180.5
    assert order_cost((0, 2, 1), JOINS) == pytest.approx(unrelated)
