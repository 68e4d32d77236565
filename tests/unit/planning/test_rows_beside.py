"""Lookups asked beside what was found of the same basic block."""

from __future__ import annotations

import numpy as np
import pytest

from replay.language.bound import Concat, Symbol
from replay.planning.plan import Occurrences, Plan, Slot
from replay.planning.row_filter import expected_hits, rows_of_neighbours
from tests.unit.planning.streams import SmallStatistics, compare, query_of, seq, star
from tests.unit.planning.test_intervals import plan_with
from tests.unit.planning.test_row_filter import rows_of

A, B, C = Symbol(0), Symbol(1), Symbol(2)
GAP = star(Symbol(3))
DEFINES = [*(compare("=", name, 1) for name in "abc"), None]


def plan_of(pattern: Concat) -> Plan:
    rows = [{"t": i, "a": 1, "b": 1, "c": 1, "k": 0} for i in range(4)]
    return plan_with(query_of(pattern, DEFINES, within=4), SmallStatistics(rows, 1, "abc"))


def beside(
    pattern: Concat, places: set[int], given: dict[Slot, list[int]], n_entries: float = 1e5
) -> list[int] | None:
    """Return the rows a lookup of some places is asked in, in a stream of a million events."""
    found = {slot: Occurrences(np.array(seq), np.array(seq)) for slot, seq in given.items()}
    windows = rows_of_neighbours(plan_of(pattern), found, places, n_entries, 1_000_000)
    if windows is None:
        return None
    assert windows.spans is None
    assert not windows.has_times
    return rows_of(windows).tolist()


def test_rows_beside_are_those_of_the_shortest_list_of_the_block() -> None:
    """B is two rows before C, and one behind A, of which there are more."""
    given = {(0, "a"): [10, 20, 30], (2, "c"): [12, 40]}
    assert beside(seq(A, B, C), {1}, given) == [11, 39]


def test_rows_beside_the_ends_of_the_stream_are_none() -> None:
    assert beside(seq(A, B, C), {0}, {(2, "c"): [0, 1, 2, 3]}) == [0, 1]
    assert beside(seq(A, B, C), {2}, {(0, "a"): [5, 999_997, 999_998]}) == [7, 999_999]


def test_rows_beside_of_two_places_are_those_of_both() -> None:
    assert beside(seq(A, B, C), {0, 2}, {(1, "b"): [5, 10]}) == [4, 9, 6, 11]


def test_no_row_is_beside_where_a_gap_lies_between() -> None:
    assert beside(seq(A, GAP, B), {1}, {(0, "a"): [5]}) is None
    assert beside(seq(A, B, GAP, C), {1, 2}, {(0, "a"): [5]}) is None


def test_events_of_the_place_itself_are_not_beside_it() -> None:
    """Their times are known, so they are asked for as they are, if none are fewer."""
    assert beside(seq(A, B), {0}, {(0, "b"): [5], (1, "b"): [6]}) is None
    assert beside(seq(A, B), {0}, {(0, "b"): [5, 7], (1, "b"): [6]}) == [5]


def test_rows_beside_are_asked_of_long_lookups_if_they_are_less_than_half_the_stream() -> None:
    half, many = list(range(500_000)), list(range(500_001))
    assert beside(seq(A, B), {1}, {(0, "a"): [5]}, 99_999) is None
    assert beside(seq(A, B), {1}, {(0, "a"): half}, 1e6) == list(range(1, 500_001))
    assert beside(seq(A, B), {1}, {(0, "a"): many}, 1e6) is None


def test_blocks_asked_beside_each_other_have_as_many_hits_as_the_shortest_list() -> None:
    """Of 1,000 events 100 As and 50 Bs behind them, by chance 5; 20 Cs elsewhere."""
    plan = plan_of(seq(A, B, GAP, C))
    lists = {(0, "a"): np.arange(100), (1, "b"): np.arange(50), (2, "c"): np.arange(20)}
    given = {slot: Occurrences(seq, seq) for slot, seq in lists.items()}
    assert expected_hits(given, plan, 1000) == pytest.approx(5)
    assert expected_hits(given, plan, 1000, {0}) == pytest.approx(20)
    del given[2, "c"]
    assert expected_hits(given, plan, 1000, {0}) == pytest.approx(50)
