"""Conditions that count different values, order texts, or ask which symbol another row is of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import replay
from replay.errors import StepLimitError
from replay.patterns import search

ROWS = {
    "t": list(range(6)),
    "a": [1, 2, 2, 3, 1, 5],
    "s": ["b", "a", "c", None, "d", "z"],
    "x": [0.0, -0.0, float("nan"), float("nan"), 1.0, 2.0],
}


def ask(clauses: str, rows: dict[str, list[Any]] | None = None) -> list[tuple[int, int]]:
    """Return the times of first and last row of the matches."""
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE ("
        f"ORDER BY t MEASURES FIRST(t) AS first, LAST(t) AS last {clauses})"
    )
    found = replay.query({"s": pa.table(rows or ROWS)}, sql).table.to_pylist()
    return [(row["first"], row["last"]) for row in found]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        # a: 1 2 2 | 3 1 | 5
        pytest.param("COUNT(DISTINCT a) <= 2", [(0, 2), (3, 4), (5, 5)], id="integers"),
        # x: 0 is -0, NaN is NaN: 0 -0 NaN NaN | 1 2
        pytest.param("COUNT(DISTINCT x) <= 2", [(0, 3), (4, 5)], id="doubles"),
        # s: b a | c NULL d | z: NULL is no value
        pytest.param("COUNT(DISTINCT A.s) <= 2", [(0, 1), (2, 4), (5, 5)], id="texts"),
        # a: 1 2 2 with sum 3, then 3 more | 3 1 | 5
        pytest.param("SUM(DISTINCT a) < 6", [(0, 2), (3, 4), (5, 5)], id="sum"),
        # a % 2: 1 0 0 1 1 1 has two values throughout
        pytest.param("COUNT(DISTINCT a % 2) <= 2", [(0, 5)], id="expression"),
    ],
)
def test_equal_values_count_once_in_define(condition: str, found: list[tuple[int, int]]) -> None:
    assert ask(f"PATTERN (A+) DEFINE A AS {condition}") == found


def test_values_of_rows_given_back_are_counted_again() -> None:
    # A takes all that it may, 1 2 2; B needs another 2, so A gives the last one back.
    clauses = "PATTERN (A+ B) DEFINE A AS COUNT(DISTINCT A.a) <= 2, B AS a = 2"
    assert ask(clauses) == [(0, 2)]


def test_nothing_is_remembered_of_states_that_no_key_tells_apart(monkeypatch: Any) -> None:
    # (A | B) is tried as A first, so that C, at row 5, fails from row 4 with few rows mapped to B
    # before it succeeds from there with rows 1 or 2, and 3 and 4 mapped to B: 2, 3 and 1.
    monkeypatch.setattr(search, "STATES_PATIENCE", 0)
    clauses = "PATTERN ((A | B)+ C) DEFINE C AS a = 5 AND COUNT(DISTINCT B.a) = 3"
    assert ask(clauses) == [(0, 5)]


def test_search_that_cannot_remember_ends_at_the_step_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(search, "STEPS_MAX", 10_000)
    rows = {"t": list(range(40)), "a": list(range(40))}
    clauses = "PATTERN ((A+)+ B) DEFINE A AS a >= 0, B AS COUNT(DISTINCT A.a) > 100"
    with pytest.raises(StepLimitError, match=r"PATTERN \(\(A\+\)\+ B\) from the event with seq 0"):
        ask(clauses, rows)


@pytest.mark.parametrize(
    ("clauses", "found"),
    [
        # s: b a c NULL d z: a c, d z
        ("PATTERN (A B) DEFINE B AS B.s > A.s", [(1, 2), (4, 5)]),
        ("PATTERN (A B) DEFINE B AS A.s >= B.s", [(0, 1)]),
        # no row before counts as less: b c | d z is only reached over rows that are NULL or less
        ("PATTERN (A B+) DEFINE B AS s BETWEEN A.s AND 'd'", [(1, 2)]),
        ("PATTERN (A B) DEFINE B AS GREATEST(A.s, B.s) < 'd'", [(0, 1)]),
        # b a c NULL have the greatest c; d has itself
        ("PATTERN (A+) DEFINE A AS MAX(s) < 'd'", [(0, 3)]),
        ("PATTERN (A+) DEFINE A AS MIN(A.s) >= 'b'", [(0, 0), (2, 5)]),
        ("PATTERN (A B) DEFINE B AS MIN(A.s) < MAX(B.s)", [(1, 2), (4, 5)]),
    ],
)
def test_texts_of_different_rows_are_ordered(clauses: str, found: list[tuple[int, int]]) -> None:
    assert ask(clauses) == found


def test_order_of_texts_holds_for_texts_seen_later(monkeypatch: Any) -> None:
    # In batches of one row each text is new; 'm' comes between 'b' and 'z', and after 'c'.
    monkeypatch.setattr("replay.engines.source.TABLE_BLOCK_EVENTS", 1)
    monkeypatch.setattr("replay.patterns.local.UNIT_EVENTS", 1)
    rows = {"t": list(range(5)), "s": ["z", "b", "c", "m", "a"]}
    assert ask("PATTERN (A B+) DEFINE B AS s > A.s", rows) == [(1, 3)]
    assert ask("PATTERN (A B+) DEFINE B AS s > LAST(s, 1)", rows) == [(1, 3)]


@pytest.mark.parametrize(
    ("clauses", "found"),
    [
        # B after A, then C two after A; nothing else follows
        (
            """PATTERN (A (B | C)+)
            DEFINE B AS PREV(CLASSIFIER()) = 'A', C AS PREV(CLASSIFIER(), 2) = 'A'""",
            [(0, 2), (3, 5)],
        ),
        # the row before the match is of no symbol, nor is the row after the one under test
        ("PATTERN (A) DEFINE A AS PREV(CLASSIFIER()) IS NULL AND a = 3", [(3, 3)]),
        ("PATTERN (A A) DEFINE A AS NEXT(CLASSIFIER()) IS NULL", [(0, 1), (2, 3), (4, 5)]),
        # the row after the first is the second: a B, as soon as it is there
        ("PATTERN (A B A) DEFINE A AS COALESCE(NEXT(FIRST(CLASSIFIER()), 1), 'B') = 'B'",
         [(0, 2), (3, 5)]),
        # before the last A: the row before it
        ("PATTERN (B A C) DEFINE C AS PREV(CLASSIFIER(A)) = 'B'", [(0, 2), (3, 5)]),
        # under a strategy the row before may be of no symbol: a is 1 2 2 3 1 5
        (
            """PATTERN (A B) SEMANTICS SKIP TILL ANY
            DEFINE A AS a = 2, B AS a > 2 AND PREV(CLASSIFIER()) IS NULL""",
            [(1, 3), (1, 5), (2, 5)],
        ),
    ],
)  # fmt: skip
def test_classifier_of_a_neighbour_is_known_where_it_is_mapped(
    clauses: str, found: list[tuple[int, int]]
) -> None:
    assert ask(clauses) == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        # the B's among the rows so far, at most one of each match
        ("COUNT(CASE WHEN CLASSIFIER() = 'B' THEN 1 END) <= 1", [(0, 1), (2, 3), (4, 5)]),
        ("COUNT(DISTINCT CLASSIFIER()) = 2", [(0, 5)]),
        ("MIN(CLASSIFIER()) = 'A' AND MAX(CLASSIFIER()) = 'B'", [(0, 5)]),
        ("MIN(CLASSIFIER()) = 'B'", []),
        # A gives 10, each B its a: 10 + 2 + 2, 10 + 1 and 10 + 5
        ("SUM(CASE CLASSIFIER() WHEN 'A' THEN 10 ELSE a END) < 16", [(0, 2), (3, 4)]),
    ],
)
def test_classifier_in_an_aggregate_is_the_symbol_of_each_row(
    condition: str, found: list[tuple[int, int]]
) -> None:
    assert ask(f"PATTERN (A B+) DEFINE B AS {condition}") == found
