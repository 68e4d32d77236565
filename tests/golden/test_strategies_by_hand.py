"""SEMANTICS, negation and timeouts: the worked examples of the papers, and small ones by hand."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import replay
from replay.language import bind, parse_query
from tests.golden.by_hand import letter, trace
from tests.oracles.matcher import match_rows

THESIS = trace("a1 b2 a3 c4 b5 c6")
"""The symbol trace of thesis Fig. 2.6, there numbered by symbol: a1 b1 a2 c1 b2 c2."""

COGRA = trace("a1 b2 a3 a4 c5 b6 a7 b8")
"""The stream of COGRA Fig. 2."""


def matches(table: pa.Table, pattern: str, semantics: str, more: str = "") -> list[str]:
    """Return each match as the names of its events, of product and oracle, which agree."""
    defined = [symbol for symbol in "ABCX" if symbol in pattern]
    timeouts = "TIMEOUTS" in more
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES MATCH_NUMBER() AS no "
        f"ALL ROWS PER MATCH PATTERN ({pattern}) SEMANTICS {semantics} {more} {letter(*defined)})"
    )
    bound = bind(parse_query(sql), table.schema, time="t", text=sql)
    by_oracle = match_rows(table.to_pylist(), bound)
    assert replay.query({"s": table}, sql).table.to_pylist() == by_oracle
    found: dict[int, list[str]] = {}
    for row in by_oracle:
        words = found.setdefault(row["no"], [])
        words.append(row["name"])
        if timeouts and row["timed_out"] and "timed out:" not in words:
            words.insert(0, "timed out:")
    return [" ".join(words) for words in found.values()]


# ---------------------------------------------------------------------------------------------
# Thesis Fig. 2.6 and COGRA Fig. 2


def test_contiguous_finds_the_one_match_of_the_thesis_figure() -> None:
    assert matches(THESIS, "A B* C", "CONTIGUOUS") == ["a3 c4"]


def test_skip_till_next_finds_the_two_matches_of_the_thesis_figure() -> None:
    # a1 must take b2 (relevant), then skips a3 (irrelevant) and must take c4.
    assert matches(THESIS, "A B* C", "SKIP TILL NEXT") == ["a1 b2 c4", "a3 c4"]


def test_skip_till_any_finds_nine_matches_in_canonical_order() -> None:
    # By first event, last event, then events. The figure prints <a1, c2> twice; the ninth is
    # <a2, c2>, which is a3 c6 here.
    assert matches(THESIS, "A B* C", "SKIP TILL ANY") == [
        "a1 b2 c4",
        "a1 c4",
        "a1 b2 b5 c6",
        "a1 b2 c6",
        "a1 b5 c6",
        "a1 c6",
        "a3 c4",
        "a3 b5 c6",
        "a3 c6",
    ]


def test_skip_till_any_finds_the_43_trends_of_cogra() -> None:
    # Trends that end at an event (COGRA Theorem 4.2): an A continues every A and every B before
    # it or begins; a B continues every A before it.
    # a1 1, b2 1, a3 1+1+1 = 3, a4 1+(1+3)+1 = 6, b6 1+3+6 = 10, a7 1+10+(1+10) = 22,
    # b8 1+3+6+22 = 32. At b2, b6, b8: 1 + 10 + 32 = 43.
    found = matches(COGRA, "(A+ B)+", "SKIP TILL ANY")
    assert len(found) == len(set(found)) == 43
    assert Counter(match.split()[-1] for match in found) == {"b2": 1, "b6": 10, "b8": 32}


def test_skip_till_next_finds_the_eight_trends_of_cogra() -> None:
    assert matches(COGRA, "(A+ B)+", "SKIP TILL NEXT") == [
        "a1 b2",
        "a1 b2 a3 a4 b6",
        "a1 b2 a3 a4 b6 a7 b8",
        "a3 a4 b6",
        "a3 a4 b6 a7 b8",
        "a4 b6",
        "a4 b6 a7 b8",
        "a7 b8",
    ]


def test_contiguous_finds_the_two_trends_of_cogra() -> None:
    assert matches(COGRA, "(A+ B)+", "CONTIGUOUS") == ["a1 b2", "a7 b8"]


# ---------------------------------------------------------------------------------------------
# By hand


def test_several_derivations_of_one_mapping_count_once() -> None:
    # (A | A) and A?A? both derive "a" in two ways.
    assert matches(trace("a1 b2"), "(A | A) B", "SKIP TILL ANY") == ["a1 b2"]
    assert matches(trace("a1 a2"), "A? A?", "SKIP TILL ANY") == ["a1", "a1 a2", "a2"]


def test_a_run_forks_where_two_symbols_accept_one_event() -> None:
    # Under NEXT b2 is relevant to (a1) as B and as Z (true for every event), and must be taken
    # as either; then c3 ends B's run, and Z's takes c3 as another Z and as C.
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES CLASSIFIER() AS c, "
        "MATCH_NUMBER() AS no ALL ROWS PER MATCH PATTERN (A (B | Z) C) "
        f"SEMANTICS SKIP TILL NEXT {letter('A', 'B', 'C')})"
    )
    table = trace("a1 b2 c3")
    bound = bind(parse_query(sql), table.schema, time="t", text=sql)
    answer = match_rows(table.to_pylist(), bound)
    assert replay.query({"s": table}, sql).table.to_pylist() == answer
    assert [(row["no"], row["c"]) for row in answer] == [
        *((1, "A"), (1, "B"), (1, "C")),
        *((2, "A"), (2, "Z"), (2, "C")),
    ]


def test_the_window_ends_runs_of_a_strategy() -> None:
    # a1 c4 spans 3, a3 c4 spans 1.
    assert matches(THESIS, "A C", "SKIP TILL ANY", "WITHIN 2") == ["a3 c4"]
    assert matches(THESIS, "A C", "SKIP TILL ANY", "WITHIN 3") == ["a1 c4", "a3 c4", "a3 c6"]


def test_edges_hold_at_the_ends_of_the_partition() -> None:
    assert matches(THESIS, "^ A C", "SKIP TILL ANY") == ["a1 c4", "a1 c6"]
    assert matches(THESIS, "A C $", "SKIP TILL ANY") == ["a1 c6", "a3 c6"]


@pytest.mark.parametrize(
    ("letters", "found"),
    [
        pytest.param("a1 b2 c3", ["a1 c3"], id="another event between"),
        pytest.param("a1 x2 c3", [], id="the negated event between"),
        pytest.param("x1 a2 c3 x4", ["a2 c3"], id="the negated event outside"),
        pytest.param("a1 x2 a3 c4", ["a3 c4"], id="between one pair only"),
        pytest.param("a1 c2 x3 c4", ["a1 c2"], id="under ANY the later end has it between"),
    ],
)
def test_no_event_between_two_symbols_satisfies_the_negated_one(
    letters: str, found: list[str]
) -> None:
    assert matches(trace(letters), "A !X C", "SKIP TILL ANY") == found


def test_a_negation_bars_only_its_own_way_through_the_pattern() -> None:
    # x2 bars the first branch; by the second, c3 may follow all the same.
    assert matches(trace("a1 x2 c3"), "A (!X C | C)", "SKIP TILL ANY") == ["a1 c3"]
    assert matches(trace("a1 x2 c3"), "A (!X C | B)", "SKIP TILL ANY") == []


def test_a_negation_at_the_end_looks_to_the_end_of_the_window() -> None:
    # The window of a1 with WITHIN 5 ends at 6: x6 lies in it, x7 does not.
    assert matches(trace("a1 b2 x6"), "A B !X", "SKIP TILL NEXT", "WITHIN 5") == []
    assert matches(trace("a1 b2 x7"), "A B !X", "SKIP TILL NEXT", "WITHIN 5") == ["a1 b2"]


def test_a_negation_at_the_start_looks_back_over_the_window_of_the_last_event() -> None:
    # The window that ends at b7 with WITHIN 5 begins at 2: x2 lies in it, x1 does not.
    assert matches(trace("x2 a5 b7"), "!X A B", "SKIP TILL NEXT", "WITHIN 5") == []
    assert matches(trace("x1 a5 b7"), "!X A B", "SKIP TILL NEXT", "WITHIN 5") == ["a5 b7"]


def test_timeouts_are_partial_matches_whose_window_has_ended() -> None:
    # Under NEXT, WITHIN 3: a1 takes b2 and finds no c until 4; a5 takes c... there is no b after
    # it until 8; the window of a9 has not ended at the newest event, 10.
    found = matches(
        trace("a1 b2 a5 c6 a9 b10"), "A B C", "SKIP TILL NEXT", "WITHIN 3 WITH TIMEOUTS"
    )
    assert found == ["timed out: a1 b2", "timed out: a5"]


def test_under_skip_till_any_every_incomplete_run_times_out() -> None:
    # (a1), (a1 b2) and (a1 b3) are kept beside their extensions; (a1 b2 c4) and (a1 b3 c4) are
    # complete. Canonical order: by last event, so timeouts stand between matches.
    found = matches(trace("a1 b2 b3 c4 a9"), "A B C", "SKIP TILL ANY", "WITHIN 3 WITH TIMEOUTS")
    assert found == [
        "timed out: a1",
        "timed out: a1 b2",
        "timed out: a1 b3",
        "a1 b2 c4",
        "a1 b3 c4",
    ]
