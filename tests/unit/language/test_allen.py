"""Allen's relations, held to brute force over small periods and to the tables of the papers."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from replay.language import allen

PERIODS = list(combinations(range(7), 2))
BY_HAND = {
    "before": ([1, 3], [5, 7]),
    "meets": ([1, 3], [3, 6]),
    "overlaps": ([1, 4], [3, 6]),
    "finished by": ([1, 6], [3, 6]),
    "contains": ([1, 7], [3, 5]),
    "starts": ([2, 4], [2, 6]),
    "equals": ([2, 5], [2, 5]),
    "started by": ([2, 6], [2, 4]),
    "during": ([3, 5], [1, 7]),
    "finishes": ([3, 6], [1, 6]),
    "overlapped by": ([3, 6], [1, 4]),
    "met by": ([3, 6], [1, 3]),
    "after": ([5, 7], [1, 3]),
}


def mask(*names: str) -> int:
    return sum(allen.BITS[name] for name in names)


def test_any_two_periods_have_exactly_one_relation_and_all_thirteen_occur() -> None:
    seen = {allen.relation(*a, *b) for a, b in product(PERIODS, repeat=2)}
    assert seen == set(allen.BITS.values())
    assert len(allen.NAMES) == 13


@pytest.mark.parametrize("name", allen.NAMES)
def test_a_relation_is_the_one_drawn_by_hand(name: str) -> None:
    a, b = BY_HAND[name]
    assert allen.names_of(allen.relation(*a, *b)) == (name,)
    assert allen.inverse(allen.relation(*a, *b)) == allen.relation(*b, *a)


def test_finishes_is_that_of_allen() -> None:
    later, earlier = (4, 9), (2, 9)
    assert allen.relation(*later, *earlier) == allen.BITS["finishes"]
    assert allen.inverse(allen.BITS["finishes"]) == allen.BITS["finished by"]


def test_groups_are_those_of_table_5_2() -> None:
    first, together, later = allen.GROUPS
    assert first == mask("overlaps", "finished by", "contains")
    assert together == mask("starts", "equals", "started by")
    assert later == allen.inverse(first)
    assert allen.inverse(together) == together
    assert first | together | later | allen.APART == allen.ALL


def test_composition_is_what_three_periods_can_have() -> None:
    expected: dict[tuple[int, int], int] = {}
    for a, b, c in product(PERIODS, repeat=3):
        pair = allen.relation(*a, *b), allen.relation(*b, *c)
        expected[pair] = expected.get(pair, 0) | allen.relation(*a, *c)
    assert len(expected) == 169
    for pair, relations in expected.items():
        assert allen.compose(*pair) == relations
    assert allen.compose(mask("before", "meets"), mask("during")) == (
        expected[mask("before"), mask("during")] | expected[mask("meets"), mask("during")]
    )


def test_hulls_hold_the_signs_of_the_four_differences() -> None:
    assert allen.hull(mask("before", "meets")) == ((1, 1), (0, 1), (1, 1), (1, 1))
    assert allen.hull(mask("during", "contains")) == ((-1, 1), (-1, -1), (1, 1), (-1, 1))


def test_path_consistency_finds_what_follows_and_what_cannot_hold() -> None:
    before = allen.BITS["before"]
    allowed = allen.path_consistent(3, {(0, 1): before, (1, 2): before})
    assert allowed is not None
    assert (allowed[0][2], allowed[2][0]) == (before, allen.BITS["after"])
    assert allen.path_consistent(3, {(0, 1): before, (1, 2): before, (2, 0): before}) is None
    assert allen.path_consistent(2, {(0, 1): before, (1, 0): before}) is None
