"""MATCH_RECOGNIZE by the standard: well-known examples and small ones, answers by hand.

Every comment shows how the answer comes about; rows of answers are tuples in the order of the
columns: partition, ORDER BY columns (ALL ROWS only), measures, other columns (ALL ROWS only).
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import replay
from replay.errors import SkipError
from replay.language import bind, parse_query
from tests.golden.by_hand import check, letter, numbers, trace
from tests.oracles.matcher import match_rows

DOWN_UP = "DEFINE DOWN AS DOWN.v < PREV(DOWN.v), UP AS UP.v > PREV(UP.v)"

ACME = numbers([12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22])
"""Twenty days of the stock ACME, as in Oracle's Data Warehousing Guide on pattern matching."""

VEE = numbers([10, 8, 6, 7, 9, 5])


# ---------------------------------------------------------------------------------------------
# The stock ticker


def test_v_shapes_of_a_stock_from_one_peak_to_the_next() -> None:
    # 25 at day 5 falls to 12 and rises until day 10; that peak begins the next V: 25, 19, 15, 25.
    # Day 14 equals day 13, so it neither falls nor rises; from it 14, 12, then 14, 24 until day
    # 18. From there 23, 22 fall, and nothing rises.
    check(
        ACME,
        "ORDER BY t MEASURES STRT.t AS start_t, LAST(DOWN.t) AS bottom_t, LAST(UP.t) AS end_t "
        f"AFTER MATCH SKIP TO LAST UP PATTERN (STRT DOWN+ UP+) {DOWN_UP}",
        [(5, 6, 10), (10, 12, 13), (14, 16, 18)],
    )


def test_running_and_final_measures_at_each_row_of_a_v() -> None:
    # STRT 10, DOWN 8 6, UP 7 9; then 5 begins no V, as no row follows.
    check(
        VEE,
        "ORDER BY t MEASURES CLASSIFIER() AS c, MATCH_NUMBER() AS no, "
        "LAST(DOWN.v) AS low, FINAL LAST(DOWN.v) AS lowest, FIRST(UP.t) AS turn, "
        "FINAL FIRST(UP.t) AS turned, COUNT(*) AS n, FINAL COUNT(UP.*) AS n_up, AVG(v) AS mean, "
        "v - STRT.v AS change "
        f"ALL ROWS PER MATCH PATTERN (STRT DOWN+ UP+) {DOWN_UP}",
        [
            (1, "STRT", 1, None, 6, None, 4, 1, 2, 10.0, 0, 10),
            (2, "DOWN", 1, 8, 6, None, 4, 2, 2, 9.0, -2, 8),
            (3, "DOWN", 1, 6, 6, None, 4, 3, 2, 8.0, -4, 6),
            (4, "UP", 1, 6, 6, 4, 4, 4, 2, 7.75, -3, 7),
            (5, "UP", 1, 6, 6, 4, 4, 5, 2, 8.0, -1, 9),
        ],
    )


def test_one_row_per_match_sees_the_whole_match() -> None:
    check(
        VEE,
        "ORDER BY t MEASURES FIRST(v) AS top, MIN(v) AS low, LAST(v) AS end_v, v AS same, "
        "COUNT(*) AS n, SUM(UP.v) AS ups, CLASSIFIER() AS c, CLASSIFIER(DOWN) AS d "
        f"ONE ROW PER MATCH PATTERN (STRT DOWN+ UP+) {DOWN_UP}",
        [(10, 6, 9, 9, 5, 16, "UP", "DOWN")],
    )


def test_a_subset_stands_for_all_its_symbols() -> None:
    # U = STRT and UP: rows 1, 4, 5 with 10, 7, 9. D = DOWN alone.
    check(
        VEE,
        "ORDER BY t MEASURES FIRST(U.v) AS f, LAST(U.v) AS l, LAST(U.v, 1) AS l1, SUM(U.v) AS s, "
        "CLASSIFIER(U) AS c, FIRST(D.v) AS d "
        "PATTERN (STRT DOWN+ UP+) SUBSET U = (STRT, UP), D = (DOWN) "
        f"{DOWN_UP}",
        [(10, 9, 7, 26, "UP", 8)],
    )


def test_physical_navigation_follows_logical() -> None:
    # FIRST(DOWN.v, 1) is row 3, PREV of it by 2 is row 1, NEXT by 3 is row 6, outside the match
    # but in the partition; NEXT by 4 is outside. DOWN has no third row.
    check(
        VEE,
        "ORDER BY t MEASURES PREV(FIRST(DOWN.v, 1), 2) AS a, NEXT(FIRST(DOWN.v, 1), 3) AS b, "
        "NEXT(FIRST(DOWN.v, 1), 4) AS c, FIRST(DOWN.v, 2) AS d, LAST(v, 4) AS e, "
        "LAST(CLASSIFIER(), 2) AS f, PREV(CLASSIFIER(), 4) AS g, NEXT(v) AS h "
        f"PATTERN (STRT DOWN+ UP+) {DOWN_UP}",
        [(10, 5, None, None, 10, "DOWN", "STRT", 5)],
    )


# The V of VEE maps STRT, DOWN, DOWN, UP, UP; row 6 is in the partition and outside the match.
SYMBOLS_BESIDE = (
    "NEXT(CLASSIFIER())",
    "PREV(CLASSIFIER())",
    "NEXT(RUNNING LAST(CLASSIFIER(U), 2), 3)",  # from row 3 on U has three rows: from row 1 to 4
    "NEXT(FINAL LAST(CLASSIFIER(U), 2), 3)",
    "NEXT(FIRST(CLASSIFIER(UP)))",  # from row 4 on there is a first UP
    "NEXT(FINAL LAST(CLASSIFIER()))",
)
MEASURED_BESIDE = ", ".join(f"{text} AS m{i}" for i, text in enumerate(SYMBOLS_BESIDE))


def test_a_neighbour_has_its_symbol_wherever_the_match_maps_it() -> None:
    check(
        VEE,
        f"ORDER BY t MEASURES {MEASURED_BESIDE} ALL ROWS PER MATCH PATTERN (STRT DOWN+ UP+) "
        f"SUBSET U = (STRT, DOWN) {DOWN_UP}",
        [
            (1, "DOWN", None, None, "UP", None, None, 10),
            (2, "DOWN", "STRT", None, "UP", None, None, 8),
            (3, "UP", "DOWN", "UP", "UP", None, None, 6),
            (4, "UP", "DOWN", "UP", "UP", "UP", None, 7),
            (5, None, "UP", "UP", "UP", "UP", None, 9),
        ],
    )


def test_a_neighbour_has_its_symbol_with_one_row_for_each_match() -> None:
    check(
        VEE,
        f"ORDER BY t MEASURES {MEASURED_BESIDE} PATTERN (STRT DOWN+ UP+) "
        f"SUBSET U = (STRT, DOWN) {DOWN_UP}",
        [(None, "UP", "UP", "UP", "UP", None)],
    )


def test_a_row_left_out_of_the_answer_has_its_symbol_all_the_same() -> None:
    check(
        VEE,
        "ORDER BY t MEASURES NEXT(CLASSIFIER()) AS n ALL ROWS PER MATCH "
        f"PATTERN (STRT {{- DOWN+ -}} UP+) {DOWN_UP}",
        [(1, "DOWN", 10), (4, "UP", 7), (5, None, 9)],
    )


def test_a_row_passed_over_or_in_another_partition_has_no_symbol() -> None:
    # Partition x has rows 1, 3 (passed over), 5; y has rows 2, 4 and stands between them.
    table = numbers([1, 5, 9, 6, 2], k=["x", "y", "x", "y", "x"])
    check(
        table,
        "PARTITION BY k ORDER BY t MEASURES NEXT(CLASSIFIER()) AS n, NEXT(CLASSIFIER(), 2) AS m "
        "ALL ROWS PER MATCH PATTERN (A B) SEMANTICS SKIP TILL NEXT DEFINE A AS v IN (1, 5), "
        "B AS v IN (2, 6)",
        [
            ("x", 1, None, "B", 1),
            ("x", 5, None, None, 2),
            ("y", 2, "B", None, 5),
            ("y", 4, None, None, 6),
        ],
    )


# ---------------------------------------------------------------------------------------------
# Names of symbols


@pytest.mark.parametrize(
    ("recognize", "found"),
    [
        ("PATTERN (a B) DEFINE a AS CLASSIFIER() = 'A'", [("A", "B"), ("A", "B")]),
        ("PATTERN (a B) DEFINE A AS A.v > 0, b AS PREV(CLASSIFIER()) = 'A'", [("A", "B")] * 2),
        ('PATTERN ("a" B) DEFINE "a" AS CLASSIFIER() = \'a\'', [("a", "B"), ("a", "B")]),
        ('PATTERN ("a" a) DEFINE a AS v > "a".v', [("a", "A"), ("a", "A")]),  # two symbols
        ('PATTERN (a b) DEFINE "A" AS v = 1', [("A", "B")]),
        ('PATTERN (a b) SUBSET u = ("A") DEFINE B AS v > U.v', [("A", "B"), ("A", "B")]),
        ("AFTER MATCH SKIP TO LAST b PATTERN (a b) DEFINE B AS v > a.v", [("A", "B")] * 3),
        ("PATTERN (straße X)", [("STRASSE", "X"), ("STRASSE", "X")]),
    ],
)
def test_symbols_are_in_upper_case_but_quoted_ones_keep_theirs(
    recognize: str, found: list[tuple[str, str]]
) -> None:
    table = numbers([1, 2, 3, 4])
    check(
        table,
        f"ORDER BY t MEASURES FIRST(CLASSIFIER()) AS f, CLASSIFIER() AS l {recognize}",
        found,
    )


# ---------------------------------------------------------------------------------------------
# An alias before MATCH_RECOGNIZE


@pytest.mark.parametrize(
    "read",
    [
        "s AS q",
        "s q",
        "(SELECT * FROM s) q",
        "(SELECT * FROM s WHERE v < 100) AS q",
        "(SELECT t, v, k FROM s ORDER BY t) AS q",
        '(SELECT q.t, q.v, q.k FROM s AS q) AS "q"',
    ],
)
@pytest.mark.parametrize("behind", ["", " AS m", " m"])
def test_an_alias_may_stand_before_match_recognize_and_columns(read: str, behind: str) -> None:
    # Partition x: 1, 9, 2; y: 5, 6. Rising: x 1 9, y 5 6.
    table = numbers([1, 5, 9, 6, 2], k=["x", "y", "x", "y", "x"])
    sql = (
        f"FROM {read} MATCH_RECOGNIZE (PARTITION BY q.k ORDER BY q.t MEASURES A.v AS a, B.v AS b "
        f"PATTERN (A B) DEFINE B AS v > A.v){behind}"
    )
    selected = "m.k, m.b" if behind else "k, b"
    assert replay.query({"s": table}, f"SELECT {selected} {sql}").table.to_pylist() == [
        {"k": "x", "b": 9},
        {"k": "y", "b": 6},
    ]


def test_a_stream_without_alias_goes_by_its_name() -> None:
    table = numbers([1, 5, 9, 6, 2], k=["x", "y", "x", "y", "x"])
    check(
        table,
        "PARTITION BY s.k ORDER BY S.t MEASURES B.v AS b PATTERN (A B) DEFINE B AS v > A.v",
        [("x", 9), ("y", 6)],
    )


def test_a_symbol_wins_over_an_alias_of_its_name() -> None:
    # b.v is the last row mapped to B, all of which are above 1: row 5.
    table = numbers([1, 5, 9, 6, 2])
    sql = (
        "SELECT * FROM s AS b MATCH_RECOGNIZE (ORDER BY b.t MEASURES b.v AS last PATTERN (A B+) "
        "DEFINE b AS b.v > A.v)"
    )
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"last": 2}]


# ---------------------------------------------------------------------------------------------
# Empty matches and unmatched rows

HIGH = numbers([90, 110, 120, 80])
A_HIGH = "DEFINE A AS v > 100"


def test_an_empty_match_gives_a_row_and_takes_a_number() -> None:
    # Row 1: A* maps nothing. Rows 2 and 3: a match. Row 4: nothing again.
    check(
        HIGH,
        "ORDER BY t MEASURES MATCH_NUMBER() AS no, COUNT(*) AS n, FIRST(v) AS f, "
        f"CLASSIFIER() AS c, SUM(v) AS s ONE ROW PER MATCH PATTERN (A*) {A_HIGH}",
        [(1, 0, None, None, None), (2, 2, 110, "A", 230), (3, 0, None, None, None)],
    )


def test_all_rows_show_empty_matches_with_the_row_they_start_at() -> None:
    check(
        HIGH,
        "ORDER BY t MEASURES MATCH_NUMBER() AS no, COUNT(*) AS n, CLASSIFIER() AS c, v AS w "
        f"ALL ROWS PER MATCH PATTERN (A*) {A_HIGH}",
        [
            (1, 1, 0, None, None, 90),
            (2, 2, 1, "A", 110, 110),
            (3, 2, 2, "A", 120, 120),
            (4, 3, 0, None, None, 80),
        ],
    )


def test_omitted_empty_matches_still_take_numbers() -> None:
    check(
        HIGH,
        "ORDER BY t MEASURES MATCH_NUMBER() AS no ALL ROWS PER MATCH OMIT EMPTY MATCHES "
        f"PATTERN (A*) {A_HIGH}",
        [(2, 2, 110), (3, 2, 120)],
    )


def test_unmatched_rows_have_no_measures_at_all() -> None:
    check(
        HIGH,
        "ORDER BY t MEASURES MATCH_NUMBER() AS no, COUNT(*) AS n, CLASSIFIER() AS c "
        f"ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A+) {A_HIGH}",
        [
            (1, None, None, None, 90),
            (2, 1, 1, "A", 110),
            (3, 1, 2, "A", 120),
            (4, None, None, None, 80),
        ],
    )


def test_a_row_where_an_empty_match_starts_is_not_unmatched() -> None:
    check(
        HIGH,
        "ORDER BY t MEASURES MATCH_NUMBER() AS no ALL ROWS PER MATCH WITH UNMATCHED ROWS "
        f"PATTERN (A*) {A_HIGH}",
        [(1, 1, 90), (2, 2, 110), (3, 2, 120), (4, 3, 80)],
    )


def test_a_reluctant_star_matches_empty_everywhere() -> None:
    check(
        HIGH,
        f"ORDER BY t MEASURES MATCH_NUMBER() AS no, COUNT(*) AS n PATTERN (A*?) {A_HIGH}",
        [(1, 0), (2, 0), (3, 0), (4, 0)],
    )


# ---------------------------------------------------------------------------------------------
# Preferment


def classified(letters: str, pattern: str, *defined: str, more: str = "") -> str:
    """Return the symbols of all rows of all matches, matches apart by a stroke."""
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES CLASSIFIER() AS c, "
        f"MATCH_NUMBER() AS no ALL ROWS PER MATCH {more} PATTERN ({pattern}) "
        f"{letter(*defined) if defined else ''})"
    )
    table = trace(letters)
    bound = bind(parse_query(sql), table.schema, time="t", text=sql)
    rows = match_rows(table.to_pylist(), bound)
    assert replay.query({"s": table}, sql).table.to_pylist() == rows
    found: dict[int, str] = {}
    for row in rows:
        found[row["no"]] = found.get(row["no"], "") + (row["c"] or "()")
    return " | ".join(found.values())


@pytest.mark.parametrize(
    ("letters", "pattern", "defined", "found"),
    [
        # The first branch that leads to a match is taken, be it the shorter one ...
        pytest.param("a b", "A | A B", "AB", "A", id="the first branch though shorter"),
        pytest.param("a b", "A B | A", "AB", "AB", id="the first branch though longer"),
        # ... and given up where what follows fails.
        pytest.param("a b c", "(A | A B) C", "ABC", "ABC", id="a branch is given up"),
        pytest.param("a a b", "A+ B", "AB", "AAB", id="greedy"),
        pytest.param("a a a", "A{1,2}", "A", "AA | A", id="greedy up to a bound, then again"),
        pytest.param("a a a", "A+?", "A", "A | A | A", id="reluctant stops as soon as it may"),
        pytest.param("a a b", "A+? B", "AB", "AAB", id="reluctant goes on where it must"),
        # Z is true for every row: greedy takes the last b, reluctant the first.
        pytest.param("a b z b", "A Z* B", "AB", "AZZB", id="greedy gap ends at the last"),
        pytest.param("a b z b", "A Z*? B", "B", "AB | AB", id="reluctant gap ends at the first"),
        pytest.param("a a a", "A?? A", "A", "A | A | A", id="reluctant option stays out"),
        pytest.param("a a a", "A? A", "A", "AA | A", id="greedy option gives way at the end"),
        # Y and Z are both true: alternation in a loop prefers Y each time.
        pytest.param("a a", "(Y | Z)*", "", "YY", id="the first branch in every iteration"),
        pytest.param("a a", "(Y?? | Z)+", "", "() | ()", id="an empty iteration ends the loop"),
        pytest.param("b c d", "((A? B?)* C)+ D", "ABCD", "BCD", id="empty iterations in a loop"),
        pytest.param("a b a b", "(A B){2}", "AB", "ABAB", id="a group repeated"),
        pytest.param("a b a", "(A B)+ A?", "AB", "ABA", id="a group and a rest"),
        pytest.param("a a b", "(A | B)+? B", "AB", "AAB", id="a reluctant group"),
        pytest.param("a", "()", "", "()", id="the empty pattern"),
        pytest.param("a b", "() A ()", "A", "A", id="empty patterns around a symbol"),
    ],
)
def test_the_preferred_match_is_taken(letters: str, pattern: str, defined: str, found: str) -> None:
    assert classified(letters, pattern, *defined) == found


def test_permute_prefers_the_order_of_its_list() -> None:
    # All three are true for any row: A B C. Then with conditions: a first row that is no A.
    assert classified("a a a", "PERMUTE(A, B, C)") == "ABC"
    assert classified("b a c", "PERMUTE(A, B, C)", "A", "B", "C") == "BAC"
    assert classified("c b a", "PERMUTE(A, B, C)", "A", "B", "C") == "CBA"
    # C is true for any row: A C B is before B A C in the list of orders, but the first row is no
    # A; B A C takes the third row, whatever it is, as C.
    assert classified("b a b", "PERMUTE(A, B, C)", "A", "B") == "BAC"
    # A+ B before B A+: the first takes both a.
    assert classified("a a b", "PERMUTE(A+, B)", "A", "B") == "AAB"
    # A is true for any row. All ways of the order A+ B C come before any of A+ C B, which would
    # take two rows as A: a b c is ABC, not a b as A, c and b.
    assert classified("a b c b", "PERMUTE(A+, B, C)", "B", "C") == "ABC"


def test_anchors_hold_matches_to_the_ends_of_the_partition() -> None:
    assert classified("a a a", "^ A", "A") == "A"
    assert classified("a a a", "A A $", "A") == "AA"  # from row 2; row 1 is in no match
    assert classified("a b a", "^ A+ $", "A") == ""
    assert classified("a a a", "^ A+ $", "A") == "AAA"
    assert classified("a a", "A ^ A", "A") == ""


# ---------------------------------------------------------------------------------------------
# Exclusion


def test_excluded_rows_are_matched_and_left_out() -> None:
    # Rows 2 and 3 are not shown; at row 4 the running count has them.
    check(
        trace("a b b c"),
        "ORDER BY t MEASURES COUNT(*) AS n, SUM(B.t) AS s, CLASSIFIER() AS c, PREV(name) AS p "
        f"ALL ROWS PER MATCH PATTERN (A {{- B+ -}} C) {letter('A', 'B', 'C')}",
        [(1, 1, None, "A", None, "a", "a"), (4, 4, 5, "C", "b", "c", "c")],
    )


def test_one_row_per_match_knows_no_exclusion() -> None:
    check(
        trace("a b b c"),
        f"ORDER BY t MEASURES COUNT(*) AS n PATTERN (A {{- B+ -}} C) {letter('A', 'B', 'C')}",
        [(4,)],
    )


# ---------------------------------------------------------------------------------------------
# AFTER MATCH SKIP


@pytest.mark.parametrize(
    ("skip", "starts"),
    [
        # a1 a2 b3 b4 a5 b6, pattern A+ B+, rows by number.
        pytest.param("PAST LAST ROW", [1, 5], id="past last row"),
        pytest.param("TO NEXT ROW", [1, 2, 5], id="to next row"),
        pytest.param("TO FIRST B", [1, 5], id="to first B: row 3 is no A, nor is 4"),
        pytest.param("TO LAST A", None, id="to last A: 2, then 2 again, which is the first row"),
        pytest.param("TO LAST B", [1, 5], id="to last B"),
        pytest.param("TO B", [1, 5], id="to B means to last B"),
        pytest.param("TO FIRST A", None, id="to first A, which is the first row"),
    ],
)
def test_the_search_goes_on_where_skip_says(skip: str, starts: list[int] | None) -> None:
    table = trace("a1 a2 b3 b4 a5 b6")
    recognize = (
        f"ORDER BY t MEASURES FIRST(t) AS f AFTER MATCH SKIP {skip} "
        f"PATTERN (A+ B+) {letter('A', 'B')}"
    )
    if starts is not None:
        check(table, recognize, [(start,) for start in starts])
        return
    with pytest.raises(SkipError):
        replay.query({"s": table}, f"SELECT * FROM s MATCH_RECOGNIZE ({recognize})")


def test_skip_to_a_symbol_that_is_not_mapped_is_an_error_unless_limit_comes_first() -> None:
    # a1 b2 skips to b2, which begins no match; a3 maps no B. LIMIT 1 and 2 have their rows by then.
    table = trace("a1 b2 a3 c4")
    recognize = (
        f"ORDER BY t MEASURES FIRST(t) AS f AFTER MATCH SKIP TO B PATTERN (A B?) {letter('A', 'B')}"
    )
    check(table, recognize, [(1,)], " LIMIT 1")
    check(table, recognize, [(1,), (3,)], " LIMIT 2")
    with pytest.raises(SkipError, match="B"):
        replay.query({"s": table}, f"SELECT * FROM s MATCH_RECOGNIZE ({recognize}) LIMIT 3")


def test_skip_to_a_subset_goes_to_the_last_of_its_symbols() -> None:
    # U = (B, C): from a1 b2 c3 on to c3, from which nothing; a4 b5 goes on at b5.
    check(
        trace("a1 b2 c3 a4 b5"),
        "ORDER BY t MEASURES FIRST(t) AS f, LAST(t) AS l AFTER MATCH SKIP TO LAST U "
        f"PATTERN (A B C?) SUBSET U = (B, C) {letter('A', 'B', 'C')}",
        [(1, 3), (4, 5)],
    )


# ---------------------------------------------------------------------------------------------
# Conditions that look at the match


def test_aggregates_in_define_see_the_rows_mapped_so_far_and_this_one() -> None:
    # Sums 3, 7 <= 8, then 3 + 4 + 5 = 12 > 8; from 5: 5, 5 + 2 = 7, 7 + 1 = 8, end.
    check(
        numbers([3, 4, 5, 2, 1]),
        "ORDER BY t MEASURES FIRST(t) AS f, SUM(A.v) AS s PATTERN (A+) DEFINE A AS SUM(A.v) <= 8",
        [(1, 7), (3, 8)],
    )


@pytest.mark.parametrize(
    ("condition", "last_t"),
    [
        # v is 1 2 4 7 11 16, the steps 1 2 3 4 5; A is row 1, and B* takes rows from 2 on while
        # its condition holds. last_t is the last row it takes (1 if none).
        ("B.v < 7", 3),
        ("LAST(v) < 7", 3),  # the row under test, as are the next two
        ("LAST(B.v) < 7", 3),
        ("U.v < 7", 3),  # B is one of U
        ("A.v + 5 < v", 1),  # 6 < 2 fails
        ("v - A.v < 6", 3),
        ("v - LAST(A.v) < 6", 3),
        ("v - PREV(v) < 4", 4),
        ("v - PREV(B.v, 2) < 9 OR PREV(v, 2) IS NULL", 5),  # NULL, 3, 5, 7, then 16 - 7 = 9
        ("NEXT(v) - v < 4", 3),
        ("v - FIRST(v) <= 6", 4),
        ("v - FIRST(B.v) < 5", 3),  # from 2: 0, 2, 5
        ("FIRST(v, 1) = 2 AND v < 5", 3),  # the second row of the match, at t 2 the row itself
        ("COALESCE(v - LAST(B.v, 1), 0) < 3", 3),  # the B before: none, 2, 3
        ("COALESCE(v - LAST(v, 1), 0) < 4", 4),  # the row of the match before: 1, 2, 3, 4
        ("COALESCE(PREV(LAST(B.v, 1), 1), 0) < 2", 3),  # none, row 1, row 2
        ("NEXT(FIRST(v), 2) = 4 AND v < 12", 5),  # row 3 for all
        ("COUNT(*) <= 3", 3),
        ("COUNT(B.*) <= 3", 4),
        ("SUM(B.v) < 14", 4),  # 2, 6, 13, 24
        ("SUM(v) < 14", 3),  # 3, 7, 14
        ("SUM(U.v) < 14", 3),
        ("SUM(B.v * 2 - 1) < 11", 3),  # 3, 10, 23
        ("COUNT(NULLIF(v, 4)) <= 3", 4),  # 2, 2, 3, 4
        ("AVG(B.v) <= 3", 3),  # 2, 3, 13 / 3
        ("MAX(A.v) = 1 AND MIN(v) = 1 AND v < 8", 4),
        ("VAR_POP(B.v) < 1", 2),  # 0, 1
        ("COALESCE(VAR_SAMP(B.v), 0) < 3", 3),  # of one row none, then 2, 19 / 3
        ("MIN(CAST(v AS DOUBLE)) = 1 AND v < 8", 4),
        ("CLASSIFIER() = 'B' AND v < 7", 3),
        ("CLASSIFIER(U) = 'B' AND v < 7", 3),
        ("CLASSIFIER(A) = 'A' AND FIRST(CLASSIFIER()) = 'A' AND v < 7", 3),
        ("MATCH_NUMBER() = 1 AND v < 7", 3),
    ],
)
def test_what_a_condition_sees(condition: str, last_t: int) -> None:
    check(
        numbers([1, 2, 4, 7, 11, 16]),
        "ORDER BY t MEASURES LAST(t) AS l PATTERN (A B*) SUBSET U = (A, B) "
        f"DEFINE B AS {condition}",
        [(last_t,)],
        " LIMIT 1",
    )


def test_counts_of_other_symbols_bound_a_repetition() -> None:
    # As many b as there were a: two of the three.
    check(
        trace("a1 a2 b3 b4 b5"),
        "ORDER BY t MEASURES COUNT(A.*) AS a, COUNT(B.*) AS b PATTERN (A+ B+) "
        "DEFINE A AS k = 'a', B AS k = 'b' AND COUNT(B.*) <= COUNT(A.*)",
        [(2, 2)],
    )


def test_match_number_in_define_is_the_number_this_match_would_have() -> None:
    # The first match may have two rows, later ones one: 1 2 | 3 | 4.
    check(
        numbers([1, 2, 3, 4]),
        "ORDER BY t MEASURES MATCH_NUMBER() AS no, COUNT(*) AS n PATTERN (A B?) "
        "DEFINE B AS MATCH_NUMBER() = 1",
        [(1, 2), (2, 1), (3, 1)],
    )


def test_negation_in_a_gap_keeps_a_greedy_gap_short() -> None:
    # Without !X the match ends at b5; no row of Z* may be an x, so it ends at b2.
    table = trace("a1 b2 x3 z4 b5")
    check(
        table,
        f"ORDER BY t MEASURES LAST(t) AS l PATTERN (A Z* !X B) {letter('A', 'B', 'X')}",
        [(2,)],
    )
    check(table, f"ORDER BY t MEASURES LAST(t) AS l PATTERN (A Z* B) {letter('A', 'B')}", [(5,)])


# ---------------------------------------------------------------------------------------------
# Partitions and order


def test_matches_of_partitions_come_by_their_first_event() -> None:
    # Partition 1 has t 1, 3, 4; partition 2 has t 2, 5; NULL is a partition of its own.
    table = pa.table({"t": [1, 2, 3, 4, 5, 6], "p": [1, 2, 1, 1, 2, None], "v": [1, 1, 2, 3, 2, 5]})
    check(
        table,
        "PARTITION BY p ORDER BY t MEASURES MATCH_NUMBER() AS no, COUNT(*) AS n, PREV(v) AS p1 "
        "PATTERN (A B*) DEFINE B AS v > PREV(v)",
        [(1, 1, 3, 2), (2, 1, 2, 1), (None, 1, 1, None)],
    )


def test_further_columns_of_order_by_order_events_of_the_same_time() -> None:
    # Time 1 arrives as 3, NULL, 1 and is matched as 1, 3, NULL; time 2 as 0, 2.
    table = pa.table({"t": [1, 1, 1, 2, 2], "v": [3, None, 1, 2, 0]})
    check(
        table,
        "ORDER BY t, v MEASURES COUNT(*) AS n ALL ROWS PER MATCH PATTERN (A+)",
        [(1, 1, 1), (1, 3, 2), (1, None, 3), (2, 0, 4), (2, 2, 5)],
    )


# ---------------------------------------------------------------------------------------------
# The outer query


def test_the_outer_query_filters_groups_orders_and_limits() -> None:
    table = trace("a a b a b b a")
    inner = (
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(k) AS k, COUNT(*) AS n, FIRST(t) AS f "
        "PATTERN (A+ | B+) DEFINE A AS k = 'a', B AS k = 'b')"
    )
    # Matches: a 2 rows (1), b 1 row (3), a 1 row (4), b 2 rows (5), a 1 row (7).
    cases = [
        ("SELECT k, n {} WHERE n > 1 ORDER BY f DESC", [("b", 2), ("a", 2)]),
        (
            "SELECT k, COUNT(*) AS c, SUM(n) AS s {} GROUP BY k ORDER BY k",
            [("a", 3, 4), ("b", 2, 3)],
        ),
        ("SELECT k {} GROUP BY k HAVING COUNT(*) > 2", [("a",)]),
        ("SELECT DISTINCT n {} ORDER BY n", [(1,), (2,)]),
        ("SELECT n * 10 + f AS x {} ORDER BY x LIMIT 2 OFFSET 1", [(14,), (17,)]),
        ("SELECT COUNT(*) AS c, MAX(f) AS m {} WHERE n > 5", [(0, None)]),
    ]
    for form, expected in cases:
        sql = form.format(inner)
        bound = bind(parse_query(sql), table.schema, time="t", text=sql)
        by_oracle = [tuple(row.values()) for row in match_rows(table.to_pylist(), bound)]
        by_product = [
            tuple(row.values()) for row in replay.query({"s": table}, sql).table.to_pylist()
        ]
        assert by_oracle == expected, form
        assert by_product == expected, form
